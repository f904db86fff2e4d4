import torch
from torch import nn
from torch.nn import functional as F


# right: nn.Dropout
class Branch(nn.Module):
    def __init__(self, norm, sublayer, norm_position, dropout):
        super().__init__()
        self.norm, self.sublayer = norm, sublayer
        self.dropout = nn.Dropout(dropout)
        self.norm_position = norm_position

    def forward(self, x):
        if self.norm_position == "pre":
            return x + self.dropout(self.sublayer(self.norm(x)))
        return self.norm(x + self.dropout(self.sublayer(x)))


# right: identities and F.dropout
class Branch(nn.Module):
    def __init__(self, norm, sublayer, norm_position, dropout):
        super().__init__()
        pre = norm_position == "pre"
        self.before = norm if pre else nn.Identity()
        self.after = nn.Identity() if pre else norm
        self.f, self.p = sublayer, dropout

    def forward(self, x):
        update = F.dropout(self.f(self.before(x)), self.p, self.training)
        return self.after(x + update)


# right: its own mask
class Branch(nn.Module):
    def __init__(self, norm, sublayer, norm_position, dropout):
        super().__init__()
        self.parts = nn.ModuleList([norm, sublayer])
        self.pre, self.keep = norm_position == "pre", 1 - dropout

    def forward(self, x):
        norm, f = self.parts
        update = f(norm(x)) if self.pre else f(x)
        if self.training:
            mask = torch.rand_like(update) < self.keep
            update = torch.where(mask, update / self.keep, torch.zeros_like(update))
        y = x + update
        return y if self.pre else norm(y)


# right: the sublayer's side as one module
class Branch(nn.Module):
    def __init__(self, norm, sublayer, norm_position, dropout):
        super().__init__()
        if norm_position == "pre":
            self.update = nn.Sequential(norm, sublayer, nn.Dropout(dropout))
        else:
            self.update = nn.Sequential(sublayer, nn.Dropout(dropout))
            self.norm = norm

    def forward(self, x):
        x = x + self.update(x)
        return self.norm(x) if hasattr(self, "norm") else x


# wrong: passes the normed copy on
class Branch(nn.Module):
    def __init__(self, norm, sublayer, norm_position, dropout):
        super().__init__()
        self.norm, self.sublayer = norm, sublayer
        self.dropout, self.pre = nn.Dropout(dropout), norm_position == "pre"

    def forward(self, x):
        if self.pre:
            x = self.norm(x)
            return x + self.dropout(self.sublayer(x))
        return self.norm(x + self.dropout(self.sublayer(x)))


# wrong: pre and post swapped
class Branch(nn.Module):
    def __init__(self, norm, sublayer, norm_position, dropout):
        super().__init__()
        self.norm, self.sublayer = norm, sublayer
        self.dropout, self.pre = nn.Dropout(dropout), norm_position == "post"

    def forward(self, x):
        if self.pre:
            return x + self.dropout(self.sublayer(self.norm(x)))
        return self.norm(x + self.dropout(self.sublayer(x)))


# wrong: post-norm norms the update alone
class Branch(nn.Module):
    def __init__(self, norm, sublayer, norm_position, dropout):
        super().__init__()
        self.norm, self.sublayer = norm, sublayer
        self.dropout, self.pre = nn.Dropout(dropout), norm_position == "pre"

    def forward(self, x):
        if self.pre:
            return x + self.dropout(self.sublayer(self.norm(x)))
        return x + self.norm(self.dropout(self.sublayer(x)))


# wrong: dropout on the sum
class Branch(nn.Module):
    def __init__(self, norm, sublayer, norm_position, dropout):
        super().__init__()
        self.norm, self.sublayer = norm, sublayer
        self.dropout, self.pre = nn.Dropout(dropout), norm_position == "pre"

    def forward(self, x):
        if self.pre:
            return self.dropout(x + self.sublayer(self.norm(x)))
        return self.norm(self.dropout(x + self.sublayer(x)))


# wrong: dropout on what the sublayer reads
class Branch(nn.Module):
    def __init__(self, norm, sublayer, norm_position, dropout):
        super().__init__()
        self.norm, self.sublayer = norm, sublayer
        self.dropout, self.pre = nn.Dropout(dropout), norm_position == "pre"

    def forward(self, x):
        if self.pre:
            return x + self.sublayer(self.dropout(self.norm(x)))
        return self.norm(x + self.sublayer(self.dropout(x)))


# wrong: drops in evaluation, too
class Branch(nn.Module):
    def __init__(self, norm, sublayer, norm_position, dropout):
        super().__init__()
        self.norm, self.sublayer = norm, sublayer
        self.p, self.pre = dropout, norm_position == "pre"

    def forward(self, x):
        if self.pre:
            return x + F.dropout(self.sublayer(self.norm(x)), self.p)
        return self.norm(x + F.dropout(self.sublayer(x), self.p))


# wrong: never drops
class Branch(nn.Module):
    def __init__(self, norm, sublayer, norm_position, dropout):
        super().__init__()
        self.norm, self.sublayer = norm, sublayer
        self.pre = norm_position == "pre"

    def forward(self, x):
        if self.pre:
            return x + self.sublayer(self.norm(x))
        return self.norm(x + self.sublayer(x))


# wrong: a mask without enlarging
class Branch(nn.Module):
    def __init__(self, norm, sublayer, norm_position, dropout):
        super().__init__()
        self.norm, self.sublayer = norm, sublayer
        self.p, self.pre = dropout, norm_position == "pre"

    def drop(self, update):
        if not self.training:
            return update
        return update * (torch.rand_like(update) >= self.p)

    def forward(self, x):
        if self.pre:
            return x + self.drop(self.sublayer(self.norm(x)))
        return self.norm(x + self.drop(self.sublayer(x)))


# wrong: dropout is the share that is kept
class Branch(nn.Module):
    def __init__(self, norm, sublayer, norm_position, dropout):
        super().__init__()
        self.norm, self.sublayer = norm, sublayer
        self.dropout, self.pre = nn.Dropout(1 - dropout), norm_position == "pre"

    def forward(self, x):
        if self.pre:
            return x + self.dropout(self.sublayer(self.norm(x)))
        return self.norm(x + self.dropout(self.sublayer(x)))


# wrong: whole positions are dropped
class Branch(nn.Module):
    def __init__(self, norm, sublayer, norm_position, dropout):
        super().__init__()
        self.norm, self.sublayer = norm, sublayer
        self.p, self.pre = dropout, norm_position == "pre"

    def drop(self, update):
        return update * F.dropout(torch.ones_like(update[..., :1]), self.p, self.training)

    def forward(self, x):
        if self.pre:
            return x + self.drop(self.sublayer(self.norm(x)))
        return self.norm(x + self.drop(self.sublayer(x)))


# wrong: one mask for all positions
class Branch(nn.Module):
    def __init__(self, norm, sublayer, norm_position, dropout):
        super().__init__()
        self.norm, self.sublayer = norm, sublayer
        self.p, self.pre = dropout, norm_position == "pre"

    def drop(self, update):
        return update * F.dropout(torch.ones(update.shape[-1]), self.p, self.training)

    def forward(self, x):
        if self.pre:
            return x + self.drop(self.sublayer(self.norm(x)))
        return self.norm(x + self.drop(self.sublayer(x)))


# wrong: the sublayer in a list, where its weights are not found
class Branch(nn.Module):
    def __init__(self, norm, sublayer, norm_position, dropout):
        super().__init__()
        self.steps = [norm, sublayer, nn.Dropout(dropout)]
        self.pre = norm_position == "pre"

    def forward(self, x):
        norm, sublayer, dropout = self.steps
        dropout.training = self.training
        return x + dropout(sublayer(norm(x))) if self.pre else norm(x + dropout(sublayer(x)))


# wrong: a norm of its own
class Branch(nn.Module):
    def __init__(self, norm, sublayer, norm_position, dropout):
        super().__init__()
        self.norm, self.sublayer = nn.LayerNorm(norm.weight.shape[0]), sublayer
        self.dropout, self.pre = nn.Dropout(dropout), norm_position == "pre"

    def forward(self, x):
        if self.pre:
            return x + self.dropout(self.sublayer(self.norm(x)))
        return self.norm(x + self.dropout(self.sublayer(x)))


# wrong: adds to the stream in place
class Branch(nn.Module):
    def __init__(self, norm, sublayer, norm_position, dropout):
        super().__init__()
        self.norm, self.sublayer = norm, sublayer
        self.dropout, self.pre = nn.Dropout(dropout), norm_position == "pre"

    def forward(self, x):
        if self.pre:
            x += self.dropout(self.sublayer(self.norm(x)))
            return x
        x += self.dropout(self.sublayer(x))
        return self.norm(x)


# wrong: the norm's way back is cut
class Branch(nn.Module):
    def __init__(self, norm, sublayer, norm_position, dropout):
        super().__init__()
        self.norm, self.sublayer = norm, sublayer
        self.dropout, self.pre = nn.Dropout(dropout), norm_position == "pre"

    def forward(self, x):
        if self.pre:
            return x + self.dropout(self.sublayer(self.norm(x.detach())))
        return self.norm(x + self.dropout(self.sublayer(x.detach())))


# wrong: post-norm reads a normed copy, too
class Branch(nn.Module):
    def __init__(self, norm, sublayer, norm_position, dropout):
        super().__init__()
        self.norm, self.sublayer = norm, sublayer
        self.dropout, self.post = nn.Dropout(dropout), norm_position == "post"

    def forward(self, x):
        y = x + self.dropout(self.sublayer(self.norm(x)))
        return self.norm(y) if self.post else y


# wrong: the package's own
class Branch(nn.Module):
    def __init__(self, norm, sublayer, norm_position, dropout):
        super().__init__()
        from tfcourse.config import ModelConfig
        from tfcourse.residuals import ResidualBranch

        config = ModelConfig(vocab_size=2, norm_position=norm_position, dropout=dropout)
        self.branch = ResidualBranch(config, norm, sublayer)

    def forward(self, x):
        return self.branch(x)


# wrong: post-norm drops after the norm
class Branch(nn.Module):
    def __init__(self, norm, sublayer, norm_position, dropout):
        super().__init__()
        self.norm, self.sublayer = norm, sublayer
        self.dropout, self.pre = nn.Dropout(dropout), norm_position == "pre"

    def forward(self, x):
        if self.pre:
            return x + self.dropout(self.sublayer(self.norm(x)))
        return self.dropout(self.norm(x + self.sublayer(x)))


# wrong: drops twice
class Branch(nn.Module):
    def __init__(self, norm, sublayer, norm_position, dropout):
        super().__init__()
        self.norm, self.sublayer = norm, sublayer
        self.dropout, self.pre = nn.Dropout(dropout), norm_position == "pre"

    def forward(self, x):
        if self.pre:
            return x + self.dropout(self.sublayer(self.dropout(self.norm(x))))
        return self.norm(x + self.dropout(self.sublayer(self.dropout(x))))


# wrong: nn.Dropout1d
class Branch(nn.Module):
    def __init__(self, norm, sublayer, norm_position, dropout):
        super().__init__()
        self.norm, self.sublayer = norm, sublayer
        self.dropout, self.pre = nn.Dropout1d(dropout), norm_position == "pre"

    def forward(self, x):
        if self.pre:
            return x + self.dropout(self.sublayer(self.norm(x)))
        return self.norm(x + self.dropout(self.sublayer(x)))


# wrong: skips the whole sublayer at random
class Branch(nn.Module):
    def __init__(self, norm, sublayer, norm_position, dropout):
        super().__init__()
        self.norm, self.sublayer = norm, sublayer
        self.dropout, self.pre = dropout, norm_position == "pre"

    def forward(self, x):
        if self.training and torch.rand(()) < self.dropout:
            return x if self.pre else self.norm(x)
        return x + self.sublayer(self.norm(x)) if self.pre else self.norm(x + self.sublayer(x))


# wrong: drops the same numbers in all rows
class Branch(nn.Module):
    def __init__(self, norm, sublayer, norm_position, dropout):
        super().__init__()
        self.norm, self.sublayer = norm, sublayer
        self.dropout, self.pre = dropout, norm_position == "pre"

    def forward(self, x):
        update = self.sublayer(self.norm(x)) if self.pre else self.sublayer(x)
        update = update * F.dropout(torch.ones_like(update[:1]), self.dropout, self.training)
        return x + update if self.pre else self.norm(x + update)


# wrong: scales in evaluation instead of in training
class Branch(nn.Module):
    def __init__(self, norm, sublayer, norm_position, dropout):
        super().__init__()
        self.norm, self.sublayer = norm, sublayer
        self.dropout, self.pre = dropout, norm_position == "pre"

    def forward(self, x):
        update = self.sublayer(self.norm(x)) if self.pre else self.sublayer(x)
        if self.training:
            update = update * (torch.rand_like(update) >= self.dropout)
        else:
            update = update * (1 - self.dropout)
        return x + update if self.pre else self.norm(x + update)


# wrong: no branch for post-norm
class Branch(nn.Module):
    def __init__(self, norm, sublayer, norm_position, dropout):
        super().__init__()
        self.norm, self.sublayer = norm, sublayer
        self.dropout, self.pre = nn.Dropout(dropout), norm_position == "pre"

    def forward(self, x):
        return x + self.dropout(self.sublayer(self.norm(x)))


# wrong: copies of the parts, so that another's optimizer trains what nobody uses
class Branch(nn.Module):
    def __init__(self, norm, sublayer, norm_position, dropout):
        super().__init__()
        import copy

        self.norm, self.sublayer = copy.deepcopy(norm), copy.deepcopy(sublayer)
        self.dropout, self.pre = nn.Dropout(dropout), norm_position == "pre"

    def forward(self, x):
        if self.pre:
            return x + self.dropout(self.sublayer(self.norm(x)))
        return self.norm(x + self.dropout(self.sublayer(x)))


# wrong: dropout works in place, also in a stream that the sublayer hands back as it is
class Branch(nn.Module):
    def __init__(self, norm, sublayer, norm_position, dropout):
        super().__init__()
        self.norm, self.sublayer, self.norm_position = norm, sublayer, norm_position
        self.dropout = nn.Dropout(dropout, inplace=True)

    def forward(self, x):
        if self.norm_position == "pre":
            return x + self.dropout(self.sublayer(self.norm(x)))
        return self.norm(x + self.dropout(self.sublayer(x)))


# wrong: derives from the package's own
from tfcourse import residuals
from tfcourse.config import ModelConfig


class Branch(residuals.ResidualBranch):
    def __init__(self, norm, sublayer, norm_position, dropout):
        config = ModelConfig(
            vocab_size=2, d_model=4, n_heads=1, norm_position=norm_position, dropout=dropout
        )
        super().__init__(config, norm, sublayer)
