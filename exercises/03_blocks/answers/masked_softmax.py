import math

import torch
from torch.nn import functional as F


# right: the largest becomes 0, so the sum is at least 1
def masked_softmax(scores, mask):
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    terms = (scores - scores.amax(dim=-1, keepdim=True)).exp() * mask
    return terms / terms.sum(dim=-1, keepdim=True).clamp(min=1)


# right: the mask opened where it is empty
def masked_softmax(scores, mask):
    empty = ~mask.any(dim=-1, keepdim=True)
    scores = torch.where(mask | empty, scores, -math.inf)
    top = scores.max(dim=-1, keepdim=True).values.detach()
    terms = torch.exp(scores - top)
    return torch.where(empty, 0.0, terms / terms.sum(dim=-1, keepdim=True))


# right: one row after the other
def masked_softmax(scores, mask):
    mask = mask.expand(scores.shape).reshape(-1, scores.shape[-1])
    rows = []
    for row, readable in zip(scores.reshape(-1, scores.shape[-1]), mask):
        if not readable.any():
            rows.append(row * 0)
            continue
        terms = torch.where(readable, (row - row[readable].max()).clamp(max=0).exp(), 0.0)
        rows.append(terms / terms.sum())
    return torch.stack(rows).reshape(scores.shape)


# right: by the logarithm of the sum
def masked_softmax(scores, mask):
    empty = ~mask.any(dim=-1, keepdim=True)
    scores = scores.masked_fill(~(mask | empty), -math.inf)
    return (scores - scores.logsumexp(dim=-1, keepdim=True)).exp().masked_fill(empty, 0)


# right: NaN replaced at the end
def masked_softmax(scores, mask):
    scores = scores.masked_fill(~mask, -math.inf)
    terms = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    return (terms / terms.sum(dim=-1, keepdim=True)).nan_to_num()


# wrong: exponentials as they are
def masked_softmax(scores, mask):
    terms = scores.exp() * mask
    return terms / terms.sum(dim=-1, keepdim=True)


# wrong: exponentials as they are, with a guard
def masked_softmax(scores, mask):
    terms = scores.exp() * mask
    return terms / (terms.sum(dim=-1, keepdim=True) + 1e-9)


# wrong: the largest score of all, hidden ones too
def masked_softmax(scores, mask):
    terms = (scores - scores.amax(dim=-1, keepdim=True)).exp() * mask
    return terms / terms.sum(dim=-1, keepdim=True).clamp(min=1e-30)


# wrong: the largest score of the whole tensor
def masked_softmax(scores, mask):
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    terms = (scores - scores.max()).exp() * mask
    return terms / terms.sum(dim=-1, keepdim=True).clamp(min=1e-30)


# wrong: the mask after the softmax
def masked_softmax(scores, mask):
    terms = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    return terms / terms.sum(dim=-1, keepdim=True) * mask


# wrong: NaN where nothing may be read
def masked_softmax(scores, mask):
    scores = scores.masked_fill(~mask, -math.inf)
    terms = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    return terms / terms.sum(dim=-1, keepdim=True)


# wrong: −∞ added, so that NaN is replaced at the end, but not in the gradient
def masked_softmax(scores, mask):
    scores = scores + torch.where(mask, 0.0, -math.inf)
    terms = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    return (terms / terms.sum(dim=-1, keepdim=True)).nan_to_num()


# wrong: hidden scores become −10,000
def masked_softmax(scores, mask):
    scores = scores.masked_fill(~mask, -1e4)
    terms = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    weights = terms / terms.sum(dim=-1, keepdim=True)
    return weights * mask.any(dim=-1, keepdim=True)


# wrong: an even spread where nothing may be read
def masked_softmax(scores, mask):
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    terms = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    return terms / terms.sum(dim=-1, keepdim=True)


# wrong: down the columns
def masked_softmax(scores, mask):
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    terms = (scores - scores.amax(dim=-2, keepdim=True)).exp() * mask
    return terms / terms.sum(dim=-2, keepdim=True).clamp(min=1)


# wrong: True read as hidden
def masked_softmax(scores, mask):
    scores = scores.masked_fill(mask, torch.finfo(scores.dtype).min)
    terms = (scores - scores.amax(dim=-1, keepdim=True)).exp() * ~mask
    return terms / terms.sum(dim=-1, keepdim=True).clamp(min=1)


# wrong: fills the caller's scores
def masked_softmax(scores, mask):
    scores.masked_fill_(~mask, torch.finfo(scores.dtype).min)
    terms = (scores - scores.amax(dim=-1, keepdim=True)).exp() * mask
    return terms / terms.sum(dim=-1, keepdim=True).clamp(min=1)


# wrong: hidden scores multiplied by 0
def masked_softmax(scores, mask):
    scores = scores * mask
    terms = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    return terms / terms.sum(dim=-1, keepdim=True)


# wrong: the library's own
def masked_softmax(scores, mask):
    return F.softmax(scores.masked_fill(~mask, -math.inf), dim=-1).nan_to_num()


# wrong: scores clamped
def masked_softmax(scores, mask):
    terms = scores.clamp(-50, 50).exp() * mask
    total = terms.sum(dim=-1, keepdim=True)
    return torch.where(total > 0, terms / total.clamp(min=1e-30), 0.0)


# wrong: a large ε in the denominator
def masked_softmax(scores, mask):
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    terms = (scores - scores.amax(dim=-1, keepdim=True)).exp() * mask
    return terms / (terms.sum(dim=-1, keepdim=True) + 1e-3)


# wrong: −10⁹ for what is hidden, which half precision does not know
def masked_softmax(scores, mask):
    scores = scores.masked_fill(~mask, -1e9)
    terms = (scores - scores.amax(dim=-1, keepdim=True)).exp() * mask
    return terms / terms.sum(dim=-1, keepdim=True).clamp(min=1)


# wrong: in float64, where exponentials overflow as well
def masked_softmax(scores, mask):
    terms = scores.double().exp() * mask
    return (terms / terms.sum(dim=-1, keepdim=True)).nan_to_num().to(scores.dtype)
