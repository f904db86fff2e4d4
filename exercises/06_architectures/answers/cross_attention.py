import math

import torch
from einops import rearrange
from torch import nn
from torch.nn import functional as F


# right: scores, mask, softmax, by hand
def cross_attention(x, source, real, to_q, to_k, to_v, out, n_heads):
    q, k, v = (
        rearrange(t, "b l (h k) -> b h l k", h=n_heads)
        for t in (to_q(x), to_k(source), to_v(source))
    )
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    weights = scores.masked_fill(~real[:, None, None, :], -math.inf).softmax(dim=-1)
    return out(rearrange(weights @ v, "b h l k -> b l (h k)"))


# right: PyTorch's fused attention
def cross_attention(x, source, real, to_q, to_k, to_v, out, n_heads):
    def split(t):
        return t.unflatten(-1, (n_heads, -1)).transpose(1, 2)

    mask = real[:, None, None, :]
    mixed = F.scaled_dot_product_attention(
        split(to_q(x)), split(to_k(source)), split(to_v(source)), attn_mask=mask
    )
    return out(mixed.transpose(1, 2).flatten(2))


# right: row by row and head by head, over the real tokens alone
def cross_attention(x, source, real, to_q, to_k, to_v, out, n_heads):
    rows = []
    for target, read, r in zip(x, source, real):
        read = read[r]
        parts = []
        for q, k, v in zip(*(t.chunk(n_heads, -1) for t in (to_q(target), to_k(read), to_v(read)))):
            scores = torch.einsum("lk,mk->lm", q, k) / k.shape[-1] ** 0.5
            parts.append(scores.softmax(-1) @ v)
        rows.append(out(torch.cat(parts, dim=-1)))
    return torch.stack(rows)


# wrong: reads the PADs
def cross_attention(x, source, real, to_q, to_k, to_v, out, n_heads):
    q, k, v = (
        rearrange(t, "b l (h k) -> b h l k", h=n_heads)
        for t in (to_q(x), to_k(source), to_v(source))
    )
    weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(dim=-1)
    return out(rearrange(weights @ v, "b h l k -> b l (h k)"))


# wrong: queries from the source
def cross_attention(x, source, real, to_q, to_k, to_v, out, n_heads):
    q, k, v = (
        rearrange(t, "b l (h k) -> b h l k", h=n_heads) for t in (to_q(source), to_k(x), to_v(x))
    )
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if scores.shape[-1] == real.shape[-1]:
        scores = scores.masked_fill(~real[:, None, None, :], -math.inf)
    return out(rearrange(scores.softmax(dim=-1) @ v, "b h l k -> b l (h k)"))


# wrong: divides by the root of d
def cross_attention(x, source, real, to_q, to_k, to_v, out, n_heads):
    q, k, v = (
        rearrange(t, "b l (h k) -> b h l k", h=n_heads)
        for t in (to_q(x), to_k(source), to_v(source))
    )
    scores = q @ k.mT / math.sqrt(x.shape[-1])
    weights = scores.masked_fill(~real[:, None, None, :], -math.inf).softmax(dim=-1)
    return out(rearrange(weights @ v, "b h l k -> b l (h k)"))


# wrong: one head
def cross_attention(x, source, real, to_q, to_k, to_v, out, n_heads):
    q, k, v = to_q(x), to_k(source), to_v(source)
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    weights = scores.masked_fill(~real[:, None, :], -math.inf).softmax(dim=-1)
    return out(weights @ v)


# wrong: heads cut by a reshape that mixes positions
def cross_attention(x, source, real, to_q, to_k, to_v, out, n_heads):
    B, L, d = x.shape
    q, k, v = (
        t.reshape(B, n_heads, -1, d // n_heads) for t in (to_q(x), to_k(source), to_v(source))
    )
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    weights = scores.masked_fill(~real[:, None, None, :], -math.inf).softmax(dim=-1)
    return out((weights @ v).transpose(1, 2).reshape(B, L, d))


# wrong: subtracts 10,000 instead of infinity
def cross_attention(x, source, real, to_q, to_k, to_v, out, n_heads):
    q, k, v = (
        rearrange(t, "b l (h k) -> b h l k", h=n_heads)
        for t in (to_q(x), to_k(source), to_v(source))
    )
    scores = q @ k.mT / math.sqrt(q.shape[-1]) - 1e4 * (~real[:, None, None, :]).float()
    return out(rearrange(scores.softmax(dim=-1) @ v, "b h l k -> b l (h k)"))


# wrong: multiplies the weights by the mask, which then sum to less than 1
def cross_attention(x, source, real, to_q, to_k, to_v, out, n_heads):
    q, k, v = (
        rearrange(t, "b l (h k) -> b h l k", h=n_heads)
        for t in (to_q(x), to_k(source), to_v(source))
    )
    weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(dim=-1) * real[:, None, None, :]
    return out(rearrange(weights @ v, "b h l k -> b l (h k)"))


# wrong: the library's own layer
def cross_attention(x, source, real, to_q, to_k, to_v, out, n_heads):
    layer = nn.MultiheadAttention(x.shape[-1], n_heads, batch_first=True)
    layer.in_proj_weight.data = torch.cat([to_q.weight, to_k.weight, to_v.weight])
    layer.in_proj_bias.data = torch.cat([to_q.bias, to_k.bias, to_v.bias])
    layer.out_proj = out
    return layer(x, source, source, key_padding_mask=~real)[0]


# wrong: softmax over the queries
def cross_attention(x, source, real, to_q, to_k, to_v, out, n_heads):
    q, k, v = (
        rearrange(t, "b l (h k) -> b h l k", h=n_heads)
        for t in (to_q(x), to_k(source), to_v(source))
    )
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    weights = scores.masked_fill(~real[:, None, None, :], -1e30).softmax(dim=-2)
    return out(rearrange(weights @ v, "b h l k -> b l (h k)"))


# wrong: exponentials without taking the largest score away first
def cross_attention(x, source, real, to_q, to_k, to_v, out, n_heads):
    q, k, v = (
        rearrange(t, "b l (h k) -> b h l k", h=n_heads)
        for t in (to_q(x), to_k(source), to_v(source))
    )
    weights = (q @ k.mT / math.sqrt(q.shape[-1])).exp() * real[:, None, None, :]
    weights = weights / weights.sum(dim=-1, keepdim=True)
    return out(rearrange(weights @ v, "b h l k -> b l (h k)"))


# wrong: puts the heads together without moving them
def cross_attention(x, source, real, to_q, to_k, to_v, out, n_heads):
    q, k, v = (
        rearrange(t, "b l (h k) -> b h l k", h=n_heads)
        for t in (to_q(x), to_k(source), to_v(source))
    )
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    weights = scores.masked_fill(~real[:, None, None, :], -math.inf).softmax(dim=-1)
    return out((weights @ v).reshape(x.shape))


# wrong: clears the PADs of the source, but gives them weight
def cross_attention(x, source, real, to_q, to_k, to_v, out, n_heads):
    source = source * real.unsqueeze(-1)
    q, k, v = (
        rearrange(t, "b l (h k) -> b h l k", h=n_heads)
        for t in (to_q(x), to_k(source), to_v(source))
    )
    weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(dim=-1)
    return out(rearrange(weights @ v, "b h l k -> b l (h k)"))


# wrong: fills the scores of PADs with 0
def cross_attention(x, source, real, to_q, to_k, to_v, out, n_heads):
    q, k, v = (
        rearrange(t, "b l (h k) -> b h l k", h=n_heads)
        for t in (to_q(x), to_k(source), to_v(source))
    )
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    weights = scores.masked_fill(~real[:, None, None, :], 0.0).softmax(dim=-1)
    return out(rearrange(weights @ v, "b h l k -> b l (h k)"))


# wrong: heads interleaved
def cross_attention(x, source, real, to_q, to_k, to_v, out, n_heads):
    q, k, v = (
        rearrange(t, "b l (k h) -> b h l k", h=n_heads)
        for t in (to_q(x), to_k(source), to_v(source))
    )
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    weights = scores.masked_fill(~real[:, None, None, :], -math.inf).softmax(dim=-1)
    return out(rearrange(weights @ v, "b h l k -> b l (k h)"))


# wrong: cut to the longest source by the count: real tokens behind PADs are lost
def cross_attention(x, source, source_real, to_q, to_k, to_v, out, n_heads):
    n = int(source_real.sum(dim=1).max())
    source, source_real = source[:, :n], source_real[:, :n]
    q = rearrange(to_q(x), "b l (h k) -> b h l k", h=n_heads)
    k = rearrange(to_k(source), "b m (h k) -> b h m k", h=n_heads)
    v = rearrange(to_v(source), "b m (h k) -> b h m k", h=n_heads)
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(~source_real[:, None, None, :], -math.inf)
    y = scores.softmax(dim=-1) @ v
    return out(rearrange(y, "b h l k -> b l (h k)"))


# wrong: PyTorch's own, as a function
def cross_attention(x, source, real, to_q, to_k, to_v, out, n_heads):
    d = x.shape[-1]
    mixed, _ = F.multi_head_attention_forward(
        x.transpose(0, 1), source.transpose(0, 1), source.transpose(0, 1), d, n_heads, None,
        torch.cat([to_q.bias, to_k.bias, to_v.bias]), None, None, False, 0.0, out.weight, out.bias,
        key_padding_mask=~real, use_separate_proj_weight=True, q_proj_weight=to_q.weight,
        k_proj_weight=to_k.weight, v_proj_weight=to_v.weight,
    )
    return mixed.transpose(0, 1)
