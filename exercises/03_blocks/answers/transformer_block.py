import torch
from torch import nn


class Start(nn.Module):
    def __init__(self, attention, norm_1, mlp, norm_2, norm_position):
        super().__init__()
        self.attention, self.norm_1, self.mlp, self.norm_2 = attention, norm_1, mlp, norm_2
        self.pre_norm = norm_position == "pre"

    def post(self, x):
        u = self.norm_1(x + self.attention(x))
        return self.norm_2(u + self.mlp(u))

    def pre(self, x):
        u = x + self.attention(self.norm_1(x))
        return u + self.mlp(self.norm_2(u))


# right: two additions, in one order or the other
class TransformerBlock(nn.Module):
    def __init__(self, attention, norm_1, mlp, norm_2, norm_position):
        super().__init__()
        self.attention, self.norm_1, self.mlp, self.norm_2 = attention, norm_1, mlp, norm_2
        self.pre_norm = norm_position == "pre"

    def forward(self, x):
        if self.pre_norm:
            u = x + self.attention(self.norm_1(x))
            return u + self.mlp(self.norm_2(u))
        u = self.norm_1(x + self.attention(x))
        return self.norm_2(u + self.mlp(u))


# right: a loop over the branches
class TransformerBlock(nn.Module):
    def __init__(self, attention, norm_1, mlp, norm_2, norm_position):
        super().__init__()
        self.sublayers = nn.ModuleList([attention, mlp])
        self.norms = nn.ModuleList([norm_1, norm_2])
        self.pre_norm = norm_position == "pre"

    def forward(self, x):
        for f, norm in zip(self.sublayers, self.norms):
            x = x + f(norm(x)) if self.pre_norm else norm(x + f(x))
        return x


# wrong: C, the update added to the normed copy
class TransformerBlock(nn.Module):
    def __init__(self, attention, norm_1, mlp, norm_2, norm_position):
        super().__init__()
        self.attention, self.norm_1, self.mlp, self.norm_2 = attention, norm_1, mlp, norm_2
        self.pre_norm = norm_position == "pre"

    def forward(self, x):
        if self.pre_norm:
            x = self.norm_1(x)
            x = x + self.attention(x)
            x = self.norm_2(x)
            return x + self.mlp(x)
        u = self.norm_1(x + self.attention(x))
        return self.norm_2(u + self.mlp(u))


# wrong: D, the MLP's update added to x
class TransformerBlock(nn.Module):
    def __init__(self, attention, norm_1, mlp, norm_2, norm_position):
        super().__init__()
        self.attention, self.norm_1, self.mlp, self.norm_2 = attention, norm_1, mlp, norm_2
        self.pre_norm = norm_position == "pre"

    def forward(self, x):
        if self.pre_norm:
            u = x + self.attention(self.norm_1(x))
            return x + self.mlp(self.norm_2(u))
        u = self.norm_1(x + self.attention(x))
        return self.norm_2(x + self.mlp(u))


# wrong: always pre-norm
class TransformerBlock(nn.Module):
    def __init__(self, attention, norm_1, mlp, norm_2, norm_position):
        super().__init__()
        self.attention, self.norm_1, self.mlp, self.norm_2 = attention, norm_1, mlp, norm_2

    def forward(self, x):
        u = x + self.attention(self.norm_1(x))
        return u + self.mlp(self.norm_2(u))


# wrong: a name taken for a truth value
class TransformerBlock(nn.Module):
    def __init__(self, attention, norm_1, mlp, norm_2, norm_position):
        super().__init__()
        self.attention, self.norm_1, self.mlp, self.norm_2 = attention, norm_1, mlp, norm_2
        self.norm_position = norm_position

    def forward(self, x):
        if self.norm_position:
            u = x + self.attention(self.norm_1(x))
            return u + self.mlp(self.norm_2(u))
        u = self.norm_1(x + self.attention(x))
        return self.norm_2(u + self.mlp(u))


# wrong: the two orders exchanged
class TransformerBlock(nn.Module):
    def __init__(self, attention, norm_1, mlp, norm_2, norm_position):
        super().__init__()
        self.attention, self.norm_1, self.mlp, self.norm_2 = attention, norm_1, mlp, norm_2
        self.pre_norm = norm_position == "pre"

    def forward(self, x):
        if not self.pre_norm:
            u = x + self.attention(self.norm_1(x))
            return u + self.mlp(self.norm_2(u))
        u = self.norm_1(x + self.attention(x))
        return self.norm_2(u + self.mlp(u))


# wrong: post-norm on the update
class TransformerBlock(nn.Module):
    def __init__(self, attention, norm_1, mlp, norm_2, norm_position):
        super().__init__()
        self.attention, self.norm_1, self.mlp, self.norm_2 = attention, norm_1, mlp, norm_2
        self.pre_norm = norm_position == "pre"

    def forward(self, x):
        if self.pre_norm:
            u = x + self.attention(self.norm_1(x))
            return u + self.mlp(self.norm_2(u))
        u = x + self.norm_1(self.attention(x))
        return u + self.norm_2(self.mlp(u))


# wrong: attention and MLP beside each other
class TransformerBlock(nn.Module):
    def __init__(self, attention, norm_1, mlp, norm_2, norm_position):
        super().__init__()
        self.attention, self.norm_1, self.mlp, self.norm_2 = attention, norm_1, mlp, norm_2
        self.pre_norm = norm_position == "pre"

    def forward(self, x):
        if self.pre_norm:
            return x + self.attention(self.norm_1(x)) + self.mlp(self.norm_2(x))
        return self.norm_2(self.norm_1(x + self.attention(x)) + self.mlp(x))


# wrong: no residual
class TransformerBlock(nn.Module):
    def __init__(self, attention, norm_1, mlp, norm_2, norm_position):
        super().__init__()
        self.attention, self.norm_1, self.mlp, self.norm_2 = attention, norm_1, mlp, norm_2
        self.pre_norm = norm_position == "pre"

    def forward(self, x):
        if self.pre_norm:
            return self.mlp(self.norm_2(self.attention(self.norm_1(x))))
        return self.norm_2(self.mlp(self.norm_1(self.attention(x))))


# wrong: one norm for both
class TransformerBlock(nn.Module):
    def __init__(self, attention, norm_1, mlp, norm_2, norm_position):
        super().__init__()
        self.attention, self.norm, self.mlp, self.norm_2 = attention, norm_1, mlp, norm_2
        self.pre_norm = norm_position == "pre"

    def forward(self, x):
        for f in (self.attention, self.mlp):
            x = x + f(self.norm(x)) if self.pre_norm else self.norm(x + f(x))
        return x


# wrong: the MLP first
class TransformerBlock(nn.Module):
    def __init__(self, attention, norm_1, mlp, norm_2, norm_position):
        super().__init__()
        self.attention, self.norm_1, self.mlp, self.norm_2 = attention, norm_1, mlp, norm_2
        self.pre_norm = norm_position == "pre"

    def forward(self, x):
        for f, norm in ((self.mlp, self.norm_2), (self.attention, self.norm_1)):
            x = x + f(norm(x)) if self.pre_norm else norm(x + f(x))
        return x


# wrong: parts in a list that the module does not see
class TransformerBlock(nn.Module):
    def __init__(self, attention, norm_1, mlp, norm_2, norm_position):
        super().__init__()
        self.branches = [(attention, norm_1), (mlp, norm_2)]
        self.pre_norm = norm_position == "pre"

    def forward(self, x):
        for f, norm in self.branches:
            x = x + f(norm(x)) if self.pre_norm else norm(x + f(x))
        return x


# wrong: adds in place
class TransformerBlock(nn.Module):
    def __init__(self, attention, norm_1, mlp, norm_2, norm_position):
        super().__init__()
        self.attention, self.norm_1, self.mlp, self.norm_2 = attention, norm_1, mlp, norm_2
        self.pre_norm = norm_position == "pre"

    def forward(self, x):
        if self.pre_norm:
            x += self.attention(self.norm_1(x))
            x += self.mlp(self.norm_2(x))
            return x
        x = self.norm_1(x + self.attention(x))
        return self.norm_2(x + self.mlp(x))


# wrong: the stream cut off from the gradient
class TransformerBlock(nn.Module):
    def __init__(self, attention, norm_1, mlp, norm_2, norm_position):
        super().__init__()
        self.attention, self.norm_1, self.mlp, self.norm_2 = attention, norm_1, mlp, norm_2
        self.pre_norm = norm_position == "pre"

    def forward(self, x):
        residual = x.detach()
        if self.pre_norm:
            u = residual + self.attention(self.norm_1(x))
            return u + self.mlp(self.norm_2(u))
        u = self.norm_1(residual + self.attention(x))
        return self.norm_2(u + self.mlp(u))


# wrong: x twice in the second sum
class TransformerBlock(Start):
    def forward(self, x):
        if not self.pre_norm:
            return self.post(x)
        u = x + self.attention(self.norm_1(x))
        return x + u + self.mlp(self.norm_2(u))


# wrong: norms of its own
class TransformerBlock(nn.Module):
    def __init__(self, attention, norm_1, mlp, norm_2, norm_position):
        super().__init__()
        d = norm_1.weight.shape[0]
        self.attention, self.mlp, self.pre_norm = attention, mlp, norm_position == "pre"
        self.norm_1, self.norm_2 = nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, x):
        for f, n in ((self.attention, self.norm_1), (self.mlp, self.norm_2)):
            x = x + f(n(x)) if self.pre_norm else n(x + f(x))
        return x


# wrong: the update of attention is not added, only handed on
class TransformerBlock(Start):
    def forward(self, x):
        if not self.pre_norm:
            return self.post(x)
        return x + self.mlp(self.norm_2(self.attention(self.norm_1(x))))


# wrong: attention without gradient
class TransformerBlock(Start):
    def forward(self, x):
        with torch.no_grad():
            update = self.attention(self.norm_1(x) if self.pre_norm else x)
        if self.pre_norm:
            u = x + update
            return u + self.mlp(self.norm_2(u))
        u = self.norm_1(x + update)
        return self.norm_2(u + self.mlp(u))


# wrong: the MLP kept where the module does not see it
class TransformerBlock(nn.Module):
    def __init__(self, attention, norm_1, mlp, norm_2, norm_position):
        super().__init__()
        self.norm_1, self.norm_2, self.attention = norm_1, norm_2, attention
        self.__dict__["mlp"] = mlp
        self.pre_norm = norm_position == "pre"

    def forward(self, x):
        for f, n in ((self.attention, self.norm_1), (self.mlp, self.norm_2)):
            x = x + f(n(x)) if self.pre_norm else n(x + f(x))
        return x


# wrong: a learned factor on each branch
class TransformerBlock(nn.Module):
    def __init__(self, attention, norm_1, mlp, norm_2, norm_position):
        super().__init__()
        self.attention, self.norm_1, self.mlp, self.norm_2 = attention, norm_1, mlp, norm_2
        self.factors = nn.Parameter(torch.ones(2))
        self.pre_norm = norm_position == "pre"

    def forward(self, x):
        parts = (self.attention, self.norm_1), (self.mlp, self.norm_2)
        for factor, (f, n) in zip(self.factors, parts):
            x = x + factor * f(n(x)) if self.pre_norm else n(x + factor * f(x))
        return x


# right: the parts under two names each
class TransformerBlock(nn.Module):
    def __init__(self, attention, norm_1, mlp, norm_2, norm_position):
        super().__init__()
        self.attention, self.norm_1, self.mlp, self.norm_2 = attention, norm_1, mlp, norm_2
        self.parts = nn.ModuleList([attention, norm_1, mlp, norm_2])
        self.pre_norm = norm_position == "pre"

    def forward(self, x):
        for f, n in ((self.parts[0], self.parts[1]), (self.parts[2], self.parts[3])):
            x = x + f(n(x)) if self.pre_norm else n(x + f(x))
        return x


# wrong: copies of the parts, so that another's optimizer trains what nobody uses
class TransformerBlock(nn.Module):
    def __init__(self, attention, norm_1, mlp, norm_2, norm_position):
        super().__init__()
        import copy

        self.parts = nn.ModuleList(copy.deepcopy(part) for part in (attention, norm_1, mlp, norm_2))
        self.pre_norm = norm_position == "pre"

    def forward(self, x):
        attention, norm_1, mlp, norm_2 = self.parts
        if self.pre_norm:
            u = x + attention(norm_1(x))
            return u + mlp(norm_2(u))
        u = norm_1(x + attention(x))
        return norm_2(u + mlp(u))


# wrong: adds to u in place, which the MLP has kept for the gradient of its weights
class TransformerBlock(nn.Module):
    def __init__(self, attention, norm_1, mlp, norm_2, norm_position):
        super().__init__()
        self.attention, self.norm_1, self.mlp, self.norm_2 = attention, norm_1, mlp, norm_2
        self.pre_norm = norm_position == "pre"

    def forward(self, x):
        if self.pre_norm:
            u = x + self.attention(self.norm_1(x))
            u += self.mlp(self.norm_2(u))
            return u
        u = self.norm_1(x + self.attention(x))
        u += self.mlp(u)
        return self.norm_2(u)
