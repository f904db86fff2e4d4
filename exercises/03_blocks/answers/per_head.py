import torch
from einops import rearrange


# right: split the last axis, then swap
def per_head(x, n_heads, f):
    B, L, d = x.shape
    heads = x.reshape(B, L, n_heads, d // n_heads).transpose(1, 2)
    return f(heads).transpose(1, 2).reshape(B, L, d)


# right: by names
def per_head(x, n_heads, f):
    heads = f(rearrange(x, "b l (h k) -> b h l k", h=n_heads))
    return rearrange(heads, "b h l k -> b l (h k)")


# right: chunks stacked and put side by side
def per_head(x, n_heads, f):
    mixed = f(torch.stack(x.chunk(n_heads, dim=-1), dim=1))
    return torch.cat(list(mixed.unbind(dim=1)), dim=-1)


# wrong: reshape at once, both ways
def per_head(x, n_heads, f):
    B, L, d = x.shape
    return f(x.reshape(B, n_heads, L, d // n_heads)).reshape(B, L, d)


# wrong: split by reshape, merged rightly
def per_head(x, n_heads, f):
    B, L, d = x.shape
    heads = f(x.reshape(B, n_heads, L, d // n_heads))
    return heads.transpose(1, 2).reshape(B, L, d)


# wrong: split rightly, merged by reshape
def per_head(x, n_heads, f):
    B, L, d = x.shape
    heads = f(x.reshape(B, L, n_heads, d // n_heads).transpose(1, 2))
    return heads.reshape(B, L, d)


# wrong: features dealt out in turn
def per_head(x, n_heads, f):
    heads = f(rearrange(x, "b l (k h) -> b h l k", h=n_heads))
    return rearrange(heads, "b h l k -> b l (k h)")


# wrong: f gets [B L H d_k]
def per_head(x, n_heads, f):
    B, L, d = x.shape
    return f(x.reshape(B, L, n_heads, d // n_heads)).reshape(B, L, d)


# wrong: d_k heads of width H
def per_head(x, n_heads, f):
    B, L, d = x.shape
    heads = x.reshape(B, L, d // n_heads, n_heads).transpose(1, 2)
    return f(heads).transpose(1, 2).reshape(B, L, d)


# wrong: does not put the heads side by side
def per_head(x, n_heads, f):
    B, L, d = x.shape
    return f(x.reshape(B, L, n_heads, d // n_heads).transpose(1, 2))


# wrong: returns its input
def per_head(x, n_heads, f):
    return x


# wrong: adds the heads up
def per_head(x, n_heads, f):
    mixed = f(torch.stack(x.chunk(n_heads, dim=-1), dim=1))
    return mixed.sum(dim=1).repeat(1, 1, n_heads)


# wrong: merged with the heads' features dealt out in turn
def per_head(x, n_heads, f):
    B, L, d = x.shape
    heads = f(x.reshape(B, L, n_heads, d // n_heads).transpose(1, 2))
    return heads.permute(0, 2, 3, 1).reshape(B, L, d)


# wrong: f called once for each head
def per_head(x, n_heads, f):
    return torch.cat([f(part) for part in x.chunk(n_heads, dim=-1)], dim=-1)


# wrong: the heads put side by side in the other order
def per_head(x, n_heads, f):
    mixed = f(torch.stack(x.chunk(n_heads, dim=-1), dim=1))
    return torch.cat(list(mixed.unbind(dim=1))[::-1], dim=-1)


# wrong: rows of the batch and heads exchanged when they are merged
def per_head(x, n_heads, f):
    B, L, d = x.shape
    mixed = f(x.reshape(B, L, n_heads, -1).transpose(1, 2))
    return mixed.permute(2, 0, 1, 3).reshape(B, L, d)
