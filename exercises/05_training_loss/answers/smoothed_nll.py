import torch
import torch.nn.functional as F

from tfcourse.losses import IGNORE


# right: from the equation
def smoothed_nll(logits, targets, eps):
    log_p = logits.float().log_softmax(dim=-1)
    there = targets != IGNORE
    index = targets.masked_fill(~there, 0).unsqueeze(-1)
    loss = -(1 - eps) * log_p.gather(-1, index).squeeze(-1)
    if eps > 0:
        loss = loss - eps * log_p.mean(dim=-1)
    return loss.masked_fill(~there, 0.0)


# right: smoothed targets, with 0 · log 0 = 0
def smoothed_nll(logits, targets, eps):
    V = logits.shape[-1]
    there = (targets != IGNORE).unsqueeze(-1)
    q = (1 - eps) * F.one_hot(targets.clamp(min=0), V) + eps / V
    log_p = logits - logits.logsumexp(-1, keepdim=True)
    return -torch.where((q > 0) & there, q * log_p, 0.0).sum(-1)


# right: a loop over questions
def smoothed_nll(logits, targets, eps):
    rows = []
    for row, answers in zip(logits, targets):
        losses = []
        for z, t in zip(row, answers.tolist()):
            surprise = z.logsumexp(0) - z
            if t == IGNORE:
                losses.append(torch.zeros(()))
            elif eps == 0:
                losses.append(surprise[t])
            else:
                losses.append((1 - eps) * surprise[t] + eps * surprise.mean())
        rows.append(torch.stack(losses))
    return torch.stack(rows)


# wrong: ε shared by the other words
def smoothed_nll(logits, targets, eps):
    V = logits.shape[-1]
    there = targets != IGNORE
    hot = F.one_hot(targets.clamp(min=0), V)
    q = (1 - eps) * hot + eps / (V - 1) * (1 - hot)
    log_p = logits.log_softmax(-1)
    return -torch.where((q > 0) & there[..., None], q * log_p, 0.0).sum(-1)


# wrong: the probabilities are smoothed
def smoothed_nll(logits, targets, eps):
    there = targets != IGNORE
    p = logits.softmax(-1).gather(-1, targets.clamp(min=0)[..., None])[..., 0]
    return -((1 - eps) * p + eps / logits.shape[-1]).log().masked_fill(~there, 0.0)


# wrong: the sum over all words
def smoothed_nll(logits, targets, eps):
    there = targets != IGNORE
    log_p = logits.log_softmax(-1)
    loss = -(1 - eps) * log_p.gather(-1, targets.clamp(min=0)[..., None])[..., 0]
    return (loss - eps * log_p.sum(-1)).masked_fill(~there, 0.0)


# wrong: 0 · ∞ without smoothing
def smoothed_nll(logits, targets, eps):
    there = targets != IGNORE
    log_p = logits.log_softmax(-1)
    loss = -(1 - eps) * log_p.gather(-1, targets.clamp(min=0)[..., None])[..., 0]
    return (loss - eps * log_p.mean(-1)).masked_fill(~there, 0.0)


# wrong: IGNORE is taken for a word
def smoothed_nll(logits, targets, eps):
    log_p = logits.log_softmax(-1)
    loss = -(1 - eps) * log_p.gather(-1, targets.clamp(min=0)[..., None])[..., 0]
    return loss - eps * log_p.mean(-1) if eps else loss


# wrong: the smoothing is counted at ignored targets
def smoothed_nll(logits, targets, eps):
    there = targets != IGNORE
    log_p = logits.log_softmax(-1)
    loss = -log_p.gather(-1, targets.clamp(min=0)[..., None])[..., 0].masked_fill(~there, 0.0)
    return (1 - eps) * loss - eps * log_p.mean(-1) if eps else loss


# wrong: the library's own
def smoothed_nll(logits, targets, eps):
    return F.cross_entropy(logits.mT, targets, reduction="none", label_smoothing=eps)


# wrong: the logarithm of softmax
def smoothed_nll(logits, targets, eps):
    there = targets != IGNORE
    log_p = logits.softmax(-1).log()
    loss = -(1 - eps) * log_p.gather(-1, targets.clamp(min=0)[..., None])[..., 0]
    if eps > 0:
        loss = loss - eps * log_p.mean(-1)
    return loss.masked_fill(~there, 0.0)


# wrong: ε on top of the whole loss
def smoothed_nll(logits, targets, eps):
    there = targets != IGNORE
    log_p = logits.log_softmax(-1)
    loss = -log_p.gather(-1, targets.clamp(min=0)[..., None])[..., 0]
    if eps > 0:
        loss = loss - eps * log_p.mean(-1)
    return loss.masked_fill(~there, 0.0)


# wrong: log p limited
def smoothed_nll(logits, targets, eps):
    there = targets != IGNORE
    lp = logits.float().log_softmax(-1).clamp(min=-100)
    l = -(1 - eps) * lp.gather(-1, targets.clamp(min=0)[..., None])[..., 0] - eps * lp.mean(-1)
    return l.masked_fill(~there, 0.0)


# wrong: the logits are mixed
def smoothed_nll(logits, targets, eps):
    there = targets != IGNORE
    lp = ((1 - eps) * logits + eps * logits.mean(-1, keepdim=True)).log_softmax(-1)
    return -lp.gather(-1, targets.clamp(min=0)[..., None])[..., 0].masked_fill(~there, 0.0)


# wrong: the ignored places are multiplied by 0, NaN where word 0 is ruled out
def smoothed_nll(logits, targets, eps):
    logp = F.log_softmax(logits.float(), dim=-1)
    keep = targets != IGNORE
    picked = -logp.gather(-1, targets.clamp(min=0)[..., None]).squeeze(-1)
    loss = (1 - eps) * picked
    if eps > 0:
        loss = loss - eps * logp.mean(-1)
    return loss * keep


# wrong: fills in ε/V, then writes 1 − ε over the word that came
def smoothed_nll(logits, targets, eps):
    there = targets != IGNORE
    index = targets.masked_fill(~there, 0).unsqueeze(-1)
    q = torch.full_like(logits, eps / logits.shape[-1]).scatter_(-1, index, 1 - eps)
    log_p = logits.log_softmax(dim=-1)
    return -torch.where((q > 0) & there[..., None], q * log_p, 0.0).sum(-1)
