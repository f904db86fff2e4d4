import math

import torch
from torch.nn import functional as F


# right: a triangle whose diagonal ends at the last key
def cached_attention(q, k, v, old_k, old_v):
    keys, values = torch.cat([old_k, k], dim=2), torch.cat([old_v, v], dim=2)
    L, S = q.shape[2], keys.shape[2]
    mask = torch.ones(L, S, dtype=torch.bool).tril(S - L)
    scores = (q @ keys.mT / math.sqrt(q.shape[-1])).masked_fill(~mask, -math.inf)
    return scores.softmax(dim=-1) @ values, keys, values


# right: by absolute positions, fused
def cached_attention(q, k, v, old_k, old_v):
    keys, values = torch.cat([old_k, k], dim=2), torch.cat([old_v, v], dim=2)
    P = old_k.shape[2]
    mask = torch.arange(P + k.shape[2])[None, :] <= P + torch.arange(q.shape[2])[:, None]
    return F.scaled_dot_product_attention(q, keys, values, attn_mask=mask), keys, values


# right: one new position after the other
def cached_attention(q, k, v, old_k, old_v):
    mixed = []
    for i in range(q.shape[2]):
        old_k = torch.cat([old_k, k[:, :, i : i + 1]], dim=2)
        old_v = torch.cat([old_v, v[:, :, i : i + 1]], dim=2)
        mixed.append(F.scaled_dot_product_attention(q[:, :, i : i + 1], old_k, old_v))
    return torch.cat(mixed, dim=2), old_k, old_v


# wrong: the built-in causal flag, aligned at the top left
def cached_attention(q, k, v, old_k, old_v):
    keys, values = torch.cat([old_k, k], dim=2), torch.cat([old_v, v], dim=2)
    return F.scaled_dot_product_attention(q, keys, values, is_causal=True), keys, values


# wrong: the flag but for a single query
def cached_attention(q, k, v, old_k, old_v):
    keys, values = torch.cat([old_k, k], dim=2), torch.cat([old_v, v], dim=2)
    causal = q.shape[2] > 1
    return F.scaled_dot_product_attention(q, keys, values, is_causal=causal), keys, values


# wrong: no mask
def cached_attention(q, k, v, old_k, old_v):
    keys, values = torch.cat([old_k, k], dim=2), torch.cat([old_v, v], dim=2)
    return F.scaled_dot_product_attention(q, keys, values), keys, values


# wrong: reads the new keys alone
def cached_attention(q, k, v, old_k, old_v):
    keys, values = torch.cat([old_k, k], dim=2), torch.cat([old_v, v], dim=2)
    return F.scaled_dot_product_attention(q, k, v, is_causal=True), keys, values


# wrong: new keys in front
def cached_attention(q, k, v, old_k, old_v):
    keys, values = torch.cat([k, old_k], dim=2), torch.cat([v, old_v], dim=2)
    L, S = q.shape[2], keys.shape[2]
    mask = torch.ones(L, S, dtype=torch.bool).tril(S - L)
    return F.scaled_dot_product_attention(q, keys, values, attn_mask=mask), keys, values


# wrong: off by one, no position reads itself
def cached_attention(q, k, v, old_k, old_v):
    keys, values = torch.cat([old_k, k], dim=2), torch.cat([old_v, v], dim=2)
    L, S = q.shape[2], keys.shape[2]
    mask = torch.ones(L, S, dtype=torch.bool).tril(S - L - 1)
    return F.scaled_dot_product_attention(q, keys, values, attn_mask=mask), keys, values


# wrong: the new keys are not kept
def cached_attention(q, k, v, old_k, old_v):
    keys, values = torch.cat([old_k, k], dim=2), torch.cat([old_v, v], dim=2)
    L, S = q.shape[2], keys.shape[2]
    mask = torch.ones(L, S, dtype=torch.bool).tril(S - L)
    return F.scaled_dot_product_attention(q, keys, values, attn_mask=mask), old_k, old_v


# wrong: no √d_k
def cached_attention(q, k, v, old_k, old_v):
    keys, values = torch.cat([old_k, k], dim=2), torch.cat([old_v, v], dim=2)
    L, S = q.shape[2], keys.shape[2]
    mask = torch.ones(L, S, dtype=torch.bool).tril(S - L)
    return F.scaled_dot_product_attention(q, keys, values, mask, scale=1.0), keys, values


# wrong: subtracts 10,000 instead of infinity
def cached_attention(q, k, v, old_k, old_v):
    keys, values = torch.cat([old_k, k], dim=2), torch.cat([old_v, v], dim=2)
    L, S = q.shape[2], keys.shape[2]
    mask = torch.ones(L, S).tril(S - L)
    scores = q @ keys.mT / math.sqrt(q.shape[-1]) - 1e4 * (1 - mask)
    return scores.softmax(dim=-1) @ values, keys, values


# wrong: the diagonal is moved by the number of new positions
def cached_attention(q, k, v, old_k, old_v):
    keys, values = torch.cat([old_k, k], dim=2), torch.cat([old_v, v], dim=2)
    L, S = q.shape[2], keys.shape[2]
    mask = torch.ones(L, S, dtype=torch.bool).tril(L)
    return F.scaled_dot_product_attention(q, keys, values, attn_mask=mask), keys, values


# wrong: masks the weights after the softmax
def cached_attention(q, k, v, old_k, old_v):
    keys, values = torch.cat([old_k, k], dim=2), torch.cat([old_v, v], dim=2)
    L, S = q.shape[2], keys.shape[2]
    mask = torch.ones(L, S, dtype=torch.bool).tril(S - L)
    weights = (q @ keys.mT / math.sqrt(q.shape[-1])).softmax(dim=-1)
    return (weights * mask) @ values, keys, values


# wrong: reads the cache first, then appends
def cached_attention(q, k, v, old_k, old_v):
    keys, values = torch.cat([old_k, k], dim=2), torch.cat([old_v, v], dim=2)
    return F.scaled_dot_product_attention(q, old_k, old_v), keys, values


# wrong: returns what was gathered alone
def cached_attention(q, k, v, old_k, old_v):
    keys, values = torch.cat([old_k, k], dim=2), torch.cat([old_v, v], dim=2)
    L, S = q.shape[2], keys.shape[2]
    mask = torch.ones(L, S, dtype=torch.bool).tril(S - L)
    return F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
