import math

import torch
from torch.nn import functional as F


# right: scores, mask, softmax, mixture
def attention(q, k, v, mask):
    scores = (q / math.sqrt(q.shape[-1])) @ k.mT
    empty = ~mask.any(dim=-1, keepdim=True)
    weights = scores.masked_fill(~(mask | empty), -math.inf).softmax(dim=-1)
    return weights.masked_fill(empty, 0.0) @ v


# right: einsum, and NaN replaced
def attention(q, k, v, mask):
    scores = torch.einsum("...ik,...jk->...ij", q / k.shape[-1] ** 0.5, k)
    scores = torch.where(mask, scores, float("-inf"))
    weights = torch.nan_to_num(torch.softmax(scores, -1))
    return torch.einsum("...ij,...jv->...iv", weights, v)


# right: one query after the other
def attention(q, k, v, mask):
    mask = mask.expand(*q.shape[:-1], k.shape[-2])
    results = []
    for i in range(q.shape[-2]):
        one = q[..., i : i + 1, :] / math.sqrt(q.shape[-1])
        scores = (one * k).sum(-1)  # [... M]
        scores = scores.masked_fill(~mask[..., i, :], torch.finfo(q.dtype).min)
        weights = scores.softmax(-1) * mask[..., i, :]
        results.append((weights[..., None] * v).sum(-2))
    return torch.stack(results, dim=-2)


# wrong: not divided
def attention(q, k, v, mask):
    weights = (q @ k.mT).masked_fill(~mask, -math.inf).softmax(dim=-1).nan_to_num()
    return weights @ v


# wrong: divided by d_k
def attention(q, k, v, mask):
    scores = q @ k.mT / q.shape[-1]
    return scores.masked_fill(~mask, -math.inf).softmax(dim=-1).nan_to_num() @ v


# wrong: divided by the root of the number of keys
def attention(q, k, v, mask):
    scores = q @ k.mT / math.sqrt(k.shape[-2])
    return scores.masked_fill(~mask, -math.inf).softmax(dim=-1).nan_to_num() @ v


# wrong: divided after the softmax
def attention(q, k, v, mask):
    weights = (q @ k.mT).masked_fill(~mask, -math.inf).softmax(dim=-1).nan_to_num()
    return weights / math.sqrt(q.shape[-1]) @ v


# wrong: the values' width
def attention(q, k, v, mask):
    scores = q @ k.mT / math.sqrt(v.shape[-1])
    return scores.masked_fill(~mask, -math.inf).softmax(dim=-1).nan_to_num() @ v


# wrong: the mask after the softmax
def attention(q, k, v, mask):
    weights = ((q / math.sqrt(q.shape[-1])) @ k.mT).softmax(dim=-1)
    return weights * mask @ v


# wrong: down the columns
def attention(q, k, v, mask):
    scores = ((q / math.sqrt(q.shape[-1])) @ k.mT).masked_fill(~mask, -math.inf)
    return scores.softmax(dim=-2).nan_to_num() @ v


# wrong: True read as hidden
def attention(q, k, v, mask):
    scores = ((q / math.sqrt(q.shape[-1])) @ k.mT).masked_fill(mask, -math.inf)
    return scores.softmax(dim=-1).nan_to_num() @ v


# wrong: NaN where nothing may be read
def attention(q, k, v, mask):
    scores = ((q / math.sqrt(q.shape[-1])) @ k.mT).masked_fill(~mask, -math.inf)
    return scores.softmax(dim=-1) @ v


# wrong: a mean where nothing may be read
def attention(q, k, v, mask):
    scores = ((q / math.sqrt(q.shape[-1])) @ k.mT).masked_fill(~mask, torch.finfo(q.dtype).min)
    return scores.softmax(dim=-1) @ v


# wrong: a causal mask of its own in place of the one given
def attention(q, k, v, mask):
    scores = (q / math.sqrt(q.shape[-1])) @ k.mT
    above = torch.ones_like(scores, dtype=torch.bool).triu(1)
    return scores.masked_fill(above, -math.inf).softmax(dim=-1) @ v


# wrong: exponentials as they are
def attention(q, k, v, mask):
    terms = ((q / math.sqrt(q.shape[-1])) @ k.mT).exp() * mask
    return terms / terms.sum(-1, keepdim=True).clamp(min=1e-9) @ v


# wrong: weights without gradient
def attention(q, k, v, mask):
    with torch.no_grad():
        scores = ((q / math.sqrt(q.shape[-1])) @ k.mT).masked_fill(~mask, -math.inf)
        weights = scores.softmax(dim=-1).nan_to_num()
    return weights @ v


# wrong: hidden scores become 0
def attention(q, k, v, mask):
    scores = ((q / math.sqrt(q.shape[-1])) @ k.mT).masked_fill(~mask, 0.0)
    return scores.softmax(dim=-1) * mask.any(-1, keepdim=True) @ v


# wrong: the library's own
def attention(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


# wrong: queries and keys both divided by the root
def attention(q, k, v, mask):
    root = math.sqrt(q.shape[-1])
    scores = (q / root) @ (k / root).mT
    return scores.masked_fill(~mask, -math.inf).softmax(dim=-1).nan_to_num() @ v


# wrong: one softmax over queries and keys together
def attention(q, k, v, mask):
    scores = ((q / math.sqrt(q.shape[-1])) @ k.mT).masked_fill(~mask, -math.inf)
    weights = scores.flatten(-2).softmax(dim=-1).reshape(scores.shape).nan_to_num()
    return weights @ v


# wrong: −10⁹ for what is hidden
def attention(q, k, v, mask):
    scores = ((q / math.sqrt(q.shape[-1])) @ k.mT).masked_fill(~mask, -1e9)
    return scores.softmax(dim=-1) * mask.any(dim=-1, keepdim=True) @ v


# wrong: a hard choice of the largest score
def attention(q, k, v, mask):
    scores = ((q / math.sqrt(q.shape[-1])) @ k.mT).masked_fill(~mask, -math.inf)
    best = torch.nn.functional.one_hot(scores.argmax(dim=-1), k.shape[-2]).to(v.dtype)
    return best * mask.any(dim=-1, keepdim=True) @ v


# wrong: the values scaled to length 1
def attention(q, k, v, mask):
    scores = ((q / math.sqrt(q.shape[-1])) @ k.mT).masked_fill(~mask, -math.inf)
    return scores.softmax(dim=-1).nan_to_num() @ F.normalize(v, dim=-1)


# wrong: −10,000 added to hidden scores, past which a larger score gets
def attention(q, k, v, mask):
    scores = (q / math.sqrt(q.shape[-1])) @ k.mT - 1e4 * (~mask).to(q.dtype)
    weights = scores.softmax(dim=-1) * mask.any(dim=-1, keepdim=True)
    return weights @ v


# wrong: NaN replaced in the result, but not in the gradient of the values
def attention(q, k, v, mask):
    scores = (q / math.sqrt(q.shape[-1])) @ k.mT
    return (scores.masked_fill(~mask, -math.inf).softmax(dim=-1) @ v).nan_to_num()


# wrong: divides the products, which have left the range of float16 by then
def attention(q, k, v, mask):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    empty = ~mask.any(dim=-1, keepdim=True)
    weights = scores.masked_fill(~(mask | empty), -math.inf).softmax(dim=-1)
    return weights.masked_fill(empty, 0.0) @ v


# right: in float32, and back
def attention(q, k, v, mask):
    scores = q.float() @ k.float().mT / math.sqrt(q.shape[-1])
    weights = scores.masked_fill(~mask, torch.finfo(torch.float32).min).softmax(dim=-1) * mask
    return (weights @ v.float()).to(q.dtype)
