import torch
import torch.nn.functional as F

from tfcourse import losses


# right: the largest logit taken away, then logsumexp
def nll(logits, targets):
    z = logits.float()
    z = z - z.amax(dim=-1, keepdim=True)
    return z.logsumexp(dim=-1) - z.gather(-1, targets.unsqueeze(-1)).squeeze(-1)


# right: logsumexp minus the target's logit
def nll(logits, targets):
    logits = logits.float()
    chosen = logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    return logits.logsumexp(dim=-1) - chosen


# right: each row's maximum taken away by hand
def nll(logits, targets):
    logits = logits.to(torch.float32)
    shifted = logits - logits.amax(-1, keepdim=True)
    log_total = shifted.exp().sum(-1).log()
    B, L = targets.shape
    chosen = shifted[torch.arange(B)[:, None], torch.arange(L)[None, :], targets]
    return log_total - chosen


# right: a loop, with a one-hot vector
def nll(logits, targets):
    rows = []
    for row, answers in zip(logits.double(), targets):
        one_hot = F.one_hot(answers, row.shape[-1]).double()
        rows.append(torch.logsumexp(row, dim=-1) - (one_hot * row).sum(dim=-1))
    return torch.stack(rows).float()


# wrong: softmax, then the logarithm
def nll(logits, targets):
    p = logits.float().softmax(dim=-1)
    return -p.gather(-1, targets.unsqueeze(-1)).squeeze(-1).log()


# wrong: softmax, then the logarithm of p plus a little
def nll(logits, targets):
    p = logits.float().softmax(dim=-1)
    return -(p.gather(-1, targets.unsqueeze(-1)).squeeze(-1) + 1e-9).log()


# wrong: exponentials without the maximum
def nll(logits, targets):
    logits = logits.float()
    chosen = logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    return logits.exp().sum(-1).log() - chosen


# wrong: one maximum for all rows
def nll(logits, targets):
    shifted = logits.float() - logits.float().max()
    chosen = shifted.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    return shifted.exp().sum(-1).log() - chosen


# wrong: in bits
def nll(logits, targets):
    logits = logits.float()
    chosen = logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    return (logits.logsumexp(dim=-1) - chosen) / torch.log(torch.tensor(2.0))


# wrong: log p, without the minus
def nll(logits, targets):
    logits = logits.float()
    return logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1) - logits.logsumexp(dim=-1)


# wrong: the library's own
def nll(logits, targets):
    return F.cross_entropy(logits.transpose(1, 2).float(), targets, reduction="none")


# wrong: softmax over the positions
def nll(logits, targets):
    logits = logits.float()
    chosen = logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    return logits.logsumexp(dim=1).gather(-1, targets) - chosen


# wrong: the mean of all questions
def nll(logits, targets):
    logits = logits.float()
    chosen = logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    return (logits.logsumexp(dim=-1) - chosen).mean()


# wrong: in the type of the logits
def nll(logits, targets):
    chosen = logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    return logits.logsumexp(dim=-1) - chosen


# wrong: numbers from a loop
def nll(logits, targets):
    return torch.tensor([[float(z.logsumexp(0) - z[t]) for z, t in zip(r, a)] for r, a in zip(logits.float(), targets)])


# wrong: logits limited
def nll(logits, targets):
    z = logits.float().clamp(-80, 80)
    return z.exp().sum(-1).log() - z.gather(-1, targets[..., None])[..., 0]


# wrong: ids counted from 1
def nll(logits, targets):
    logits = logits.float()
    chosen = logits.gather(-1, (targets - 1).clamp(min=0).unsqueeze(-1)).squeeze(-1)
    return logits.logsumexp(dim=-1) - chosen


# wrong: computed in half precision, widened at the end
def nll(logits, targets):
    z = logits.gather(-1, targets[..., None]).squeeze(-1)
    return (torch.logsumexp(logits, dim=-1) - z).float()


# wrong: one normalizer for the row, its first position's words
def nll(logits, targets):
    z = logits.float()
    return z[:, :1].logsumexp(-1) - z.gather(-1, targets[..., None]).squeeze(-1)


# wrong: the largest logit alone, everywhere, as soon as one is large
def nll(logits, targets):
    z = logits.float()
    total = z.amax(dim=-1) if z.abs().max() > 80 else z.exp().sum(dim=-1).log()
    return total - z.gather(-1, targets[..., None]).squeeze(-1)


# wrong: the package's own
def nll(logits, targets):
    head = torch.nn.Linear(logits.shape[-1], logits.shape[-1], bias=False)
    torch.nn.init.eye_(head.weight)
    return losses.token_loss(logits.float(), head, targets, reduction="none")
