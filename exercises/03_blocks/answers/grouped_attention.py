import math

import torch
from einops import rearrange
from torch.nn import functional as F


# right: each head of keys and values repeated
def grouped_attention(q, k, v, mask):
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
    scores = (q / math.sqrt(q.shape[-1])) @ k.mT
    return scores.masked_fill(~mask, -math.inf).softmax(dim=-1) @ v


# right: an axis for the groups, nothing copied
def grouped_attention(q, k, v, mask):
    B, H, L, d_k = q.shape
    q = rearrange(q, "b (h g) l k -> b h g l k", h=k.shape[1])
    scores = torch.einsum("bhglk,bhmk->bhglm", q / d_k**0.5, k)
    mask = mask[:, :, None] if mask.ndim == 4 else mask  # its axis of heads has size 1
    weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
    return torch.einsum("bhglm,bhmk->bhglk", weights, v).reshape(B, H, L, d_k)


# right: one query head after the other
def grouped_attention(q, k, v, mask):
    groups = q.shape[1] // k.shape[1]
    mask = mask.expand(q.shape[0], 1, q.shape[2], k.shape[2])[:, 0]
    results = []
    for h in range(q.shape[1]):
        scores = q[:, h] / math.sqrt(q.shape[-1]) @ k[:, h // groups].transpose(-2, -1)
        scores = torch.where(mask, scores, -math.inf)
        results.append(scores.softmax(-1) @ v[:, h // groups])
    return torch.stack(results, dim=1)


# wrong: tiled
def grouped_attention(q, k, v, mask):
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat(1, groups, 1, 1), v.repeat(1, groups, 1, 1)
    scores = (q / math.sqrt(q.shape[-1])) @ k.mT
    return scores.masked_fill(~mask, -math.inf).softmax(dim=-1) @ v


# wrong: query heads share in turn
def grouped_attention(q, k, v, mask):
    results = []
    for h in range(q.shape[1]):
        shared = h % k.shape[1]
        scores = q[:, h : h + 1] @ k[:, shared : shared + 1].mT / math.sqrt(q.shape[-1])
        weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
        results.append(weights @ v[:, shared : shared + 1])
    return torch.cat(results, dim=1)


# wrong: values tiled, keys repeated
def grouped_attention(q, k, v, mask):
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, dim=1), torch.cat([v] * groups, dim=1)
    scores = (q / math.sqrt(q.shape[-1])) @ k.mT
    return scores.masked_fill(~mask, -math.inf).softmax(dim=-1) @ v


# wrong: the mean of the heads of keys and values
def grouped_attention(q, k, v, mask):
    k, v = k.mean(dim=1, keepdim=True), v.mean(dim=1, keepdim=True)
    scores = (q / math.sqrt(q.shape[-1])) @ k.mT
    return scores.masked_fill(~mask, -math.inf).softmax(dim=-1) @ v


# wrong: the first head of keys and values for all
def grouped_attention(q, k, v, mask):
    scores = (q / math.sqrt(q.shape[-1])) @ k[:, :1].mT
    return scores.masked_fill(~mask, -math.inf).softmax(dim=-1) @ v[:, :1]


# wrong: fewer query heads in place of shared keys
def grouped_attention(q, k, v, mask):
    q = q[:, : k.shape[1]]
    scores = (q / math.sqrt(q.shape[-1])) @ k.mT
    return scores.masked_fill(~mask, -math.inf).softmax(dim=-1) @ v


# wrong: no mask
def grouped_attention(q, k, v, mask):
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
    return ((q / math.sqrt(q.shape[-1])) @ k.mT).softmax(dim=-1) @ v


# wrong: repeated along the positions
def grouped_attention(q, k, v, mask):
    B, H, L, d_k = q.shape
    groups, M = H // k.shape[1], k.shape[2]
    k, v = (t.repeat_interleave(groups, dim=2).reshape(B, H, M, d_k) for t in (k, v))
    scores = q @ k.mT / math.sqrt(d_k)
    return scores.masked_fill(~mask, -math.inf).softmax(dim=-1) @ v


# wrong: divided by d_k
def grouped_attention(q, k, v, mask):
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
    scores = q @ k.mT / q.shape[-1]
    return scores.masked_fill(~mask, -math.inf).softmax(dim=-1) @ v


# wrong: the library's own
def grouped_attention(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)


# wrong: exponentials as they are
def grouped_attention(q, k, v, mask):
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
    terms = ((q / math.sqrt(q.shape[-1])) @ k.mT).exp() * mask
    return terms / terms.sum(dim=-1, keepdim=True) @ v


# wrong: the query head's number divided by the number of shared heads
def grouped_attention(q, k, v, mask):
    results = []
    for h in range(q.shape[1]):
        shared = min(h // k.shape[1], k.shape[1] - 1)
        scores = (q[:, h] @ k[:, shared].mT / math.sqrt(q.shape[-1]))[:, None]
        results.append(scores.masked_fill(~mask, -math.inf).softmax(-1) @ v[:, shared : shared + 1])
    return torch.cat(results, dim=1)


# wrong: the queries of a group averaged
def grouped_attention(q, k, v, mask):
    groups = q.shape[1] // k.shape[1]
    mean = q.unflatten(1, (k.shape[1], groups)).mean(2)
    scores = mean @ k.mT / math.sqrt(q.shape[-1])
    mixed = scores.masked_fill(~mask, -math.inf).softmax(dim=-1) @ v
    return mixed.repeat_interleave(groups, dim=1)


# wrong: divided after the softmax
def grouped_attention(q, k, v, mask):
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
    weights = (q @ k.mT).masked_fill(~mask, -math.inf).softmax(dim=-1)
    return weights / math.sqrt(q.shape[-1]) @ v


# wrong: True read as hidden
def grouped_attention(q, k, v, mask):
    n = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(n, 1), v.repeat_interleave(n, 1)
    return ((q / math.sqrt(q.shape[-1])) @ k.mT).masked_fill(mask, -math.inf).softmax(-1) @ v


# wrong: divides the products, which have left the range of float16 by then
def grouped_attention(q, k, v, mask):
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    return scores.masked_fill(~mask, -math.inf).softmax(dim=-1) @ v
