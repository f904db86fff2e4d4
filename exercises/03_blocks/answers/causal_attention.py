import math

import torch
from einops import rearrange
from torch import nn
from torch.nn import functional as F


class Start(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.out = nn.Linear(d_model, d_model, bias=False)

    def split(self, x):
        return rearrange(self.qkv(x), "b l (t h k) -> t b h l k", t=3, h=self.n_heads)

    def above(self, x):
        return torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)

    def merge(self, y):
        return self.out(rearrange(y, "b h l k -> b l (h k)"))


# right: split, scores, mask, softmax, merge
class CausalAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.out = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x):
        B, L, d = x.shape
        q, k, v = (
            t.reshape(B, L, self.n_heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1)
        )
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        above = torch.ones(L, L, dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(above, -math.inf).softmax(dim=-1)
        return self.out((weights @ v).transpose(1, 2).reshape(B, L, d))


# right: one head after the other
class CausalAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.d_k = d_model // n_heads
        self.out = nn.Linear(d_model, d_model, bias=False)
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)

    def forward(self, x):
        L, heads = x.shape[1], []
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        may = torch.arange(L)[:, None] >= torch.arange(L)
        for q, k, v in zip(*(t.split(self.d_k, dim=-1) for t in (q, k, v))):
            scores = torch.where(may, q @ k.transpose(1, 2) * self.d_k**-0.5, -math.inf)
            heads.append(torch.softmax(scores, dim=2) @ v)
        return self.out(torch.cat(heads, dim=-1))


# right: einsum, and a mask that is added
class CausalAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.out = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x):
        q, k, v = rearrange(self.qkv(x), "b l (t h k) -> t b h l k", t=3, h=self.n_heads)
        scores = torch.einsum("bhik,bhjk->bhij", q, k) / q.shape[-1] ** 0.5
        scores = scores + torch.full_like(scores, float("-inf")).triu(1)
        mixed = torch.einsum("bhij,bhjk->bihk", scores.softmax(-1), v)
        return self.out(mixed.flatten(2))


# wrong: not divided
class CausalAttention(Start):
    def forward(self, x):
        q, k, v = rearrange(self.qkv(x), "b l (t h k) -> t b h l k", t=3, h=self.n_heads)
        above = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        weights = (q @ k.mT).masked_fill(above, -math.inf).softmax(-1)
        return self.out(rearrange(weights @ v, "b h l k -> b l (h k)"))


# wrong: divided by the root of d
class CausalAttention(Start):
    def forward(self, x):
        q, k, v = rearrange(self.qkv(x), "b l (t h k) -> t b h l k", t=3, h=self.n_heads)
        above = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        scores = q @ k.mT / math.sqrt(x.shape[-1])
        weights = scores.masked_fill(above, -math.inf).softmax(-1)
        return self.out(rearrange(weights @ v, "b h l k -> b l (h k)"))


# wrong: no mask
class CausalAttention(Start):
    def forward(self, x):
        q, k, v = rearrange(self.qkv(x), "b l (t h k) -> t b h l k", t=3, h=self.n_heads)
        weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1)
        return self.out(rearrange(weights @ v, "b h l k -> b l (h k)"))


# wrong: reads one position of the future
class CausalAttention(Start):
    def forward(self, x):
        q, k, v = rearrange(self.qkv(x), "b l (t h k) -> t b h l k", t=3, h=self.n_heads)
        above = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(2)
        weights = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(above, -math.inf).softmax(-1)
        return self.out(rearrange(weights @ v, "b h l k -> b l (h k)"))


# wrong: no position reads itself
class CausalAttention(Start):
    def forward(self, x):
        q, k, v = rearrange(self.qkv(x), "b l (t h k) -> t b h l k", t=3, h=self.n_heads)
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu()
        weights = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(hidden, -math.inf).softmax(-1)
        return self.out(rearrange(weights @ v, "b h l k -> b l (h k)"))


# wrong: the mask after the softmax
class CausalAttention(Start):
    def forward(self, x):
        q, k, v = rearrange(self.qkv(x), "b l (t h k) -> t b h l k", t=3, h=self.n_heads)
        weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1).tril()
        return self.out(rearrange(weights @ v, "b h l k -> b l (h k)"))


# wrong: softmax down the columns
class CausalAttention(Start):
    def forward(self, x):
        q, k, v = rearrange(self.qkv(x), "b l (t h k) -> t b h l k", t=3, h=self.n_heads)
        above = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        weights = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(above, -math.inf).softmax(-2)
        return self.out(rearrange(weights @ v, "b h l k -> b l (h k)"))


# wrong: split by reshape
class CausalAttention(Start):
    def forward(self, x):
        B, L, d = x.shape
        q, k, v = (t.reshape(B, self.n_heads, L, -1) for t in self.qkv(x).chunk(3, dim=-1))
        above = torch.ones(L, L, dtype=torch.bool).triu(1)
        weights = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(above, -math.inf).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(B, L, d))


# wrong: merged by reshape
class CausalAttention(Start):
    def forward(self, x):
        q, k, v = rearrange(self.qkv(x), "b l (t h k) -> t b h l k", t=3, h=self.n_heads)
        above = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        weights = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(above, -math.inf).softmax(-1)
        return self.out((weights @ v).reshape(x.shape))


# wrong: rows of qkv by heads first
class CausalAttention(Start):
    def forward(self, x):
        B, L, d = x.shape
        heads = self.qkv(x).reshape(B, L, self.n_heads, -1).transpose(1, 2)
        q, k, v = heads.chunk(3, dim=-1)
        above = torch.ones(L, L, dtype=torch.bool).triu(1)
        weights = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(above, -math.inf).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(B, L, d))


# wrong: no output projection
class CausalAttention(Start):
    def forward(self, x):
        q, k, v = rearrange(self.qkv(x), "b l (t h k) -> t b h l k", t=3, h=self.n_heads)
        above = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        weights = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(above, -math.inf).softmax(-1)
        return rearrange(weights @ v, "b h l k -> b l (h k)")


# wrong: one head, whatever is asked
class CausalAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.out = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        above = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        weights = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(above, -math.inf).softmax(-1)
        return self.out(weights @ v)


# wrong: a mask of fixed size
class CausalAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.out = nn.Linear(d_model, d_model, bias=False)
        above = torch.ones(128, 128, dtype=torch.bool).triu(1)
        self.register_buffer("above", above, persistent=False)

    def forward(self, x):
        L = x.shape[1]
        q, k, v = rearrange(self.qkv(x), "b l (t h k) -> t b h l k", t=3, h=self.n_heads)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        weights = scores.masked_fill(self.above[:L, :L], -math.inf).softmax(-1)
        return self.out(rearrange(weights @ v, "b h l k -> b l (h k)"))


# wrong: weights without gradient
class CausalAttention(Start):
    def forward(self, x):
        q, k, v = rearrange(self.qkv(x), "b l (t h k) -> t b h l k", t=3, h=self.n_heads)
        above = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        weights = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(above, -math.inf).softmax(-1)
        return self.out(rearrange(weights.detach() @ v, "b h l k -> b l (h k)"))


# wrong: the library's own
class CausalAttention(Start):
    def forward(self, x):
        q, k, v = rearrange(self.qkv(x), "b l (t h k) -> t b h l k", t=3, h=self.n_heads)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(rearrange(mixed, "b h l k -> b l (h k)"))


# wrong: keys first, then queries
class CausalAttention(Start):
    def forward(self, x):
        k, q, v = self.split(x)
        w = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(self.above(x), -math.inf).softmax(-1)
        return self.merge(w @ v)


# wrong: hidden scores become −100
class CausalAttention(Start):
    def forward(self, x):
        q, k, v = self.split(x)
        w = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(self.above(x), -100).softmax(-1)
        return self.merge(w @ v)


# wrong: softmax over the heads
class CausalAttention(Start):
    def forward(self, x):
        q, k, v = self.split(x)
        w = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(self.above(x), -math.inf).softmax(1)
        return self.merge(w.nan_to_num() @ v)


# wrong: heads as the axis of positions
class CausalAttention(Start):
    def forward(self, x):
        B, L, d = x.shape
        q, k, v = (t.reshape(B, L, self.n_heads, -1) for t in self.qkv(x).chunk(3, dim=-1))
        w = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1)
        return self.out((w @ v).reshape(B, L, d))


# wrong: exponentials as they are
class CausalAttention(Start):
    def forward(self, x):
        q, k, v = self.split(x)
        w = (q @ k.mT / math.sqrt(q.shape[-1])).exp().tril()
        return self.merge(w / w.sum(-1, keepdim=True) @ v)


# wrong: the mask of the first call is kept for all lengths
class CausalAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.out = nn.Linear(d_model, d_model, bias=False)
        self.n_heads, self.later = n_heads, None

    def forward(self, x):
        L = x.shape[1]
        if self.later is None:
            self.later = torch.ones(L, L, dtype=torch.bool).triu(1)
        q, k, v = rearrange(self.qkv(x), "b l (t h k) -> t b h l k", t=3, h=self.n_heads)
        scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(self.later[:L, :L], -math.inf)
        return self.out(rearrange(scores.softmax(-1) @ v, "b h l k -> b l (h k)"))


# right: the mask as a buffer that is no part of the state, made longer when it has to be
class CausalAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.out = nn.Linear(d_model, d_model, bias=False)
        self.n_heads = n_heads
        self.register_buffer("later", torch.ones(8, 8, dtype=torch.bool).triu(1), persistent=False)

    def forward(self, x):
        L = x.shape[1]
        if L > len(self.later):
            self.later = torch.ones(L, L, dtype=torch.bool).triu(1)
        q, k, v = rearrange(self.qkv(x), "b l (t h k) -> t b h l k", t=3, h=self.n_heads)
        scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(self.later[:L, :L], -math.inf)
        return self.out(rearrange(scores.softmax(-1) @ v, "b h l k -> b l (h k)"))


# wrong: values before keys
class CausalAttention(Start):
    def forward(self, x):
        q, v, k = self.split(x)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        return self.merge(scores.masked_fill(self.above(x), -math.inf).softmax(-1) @ v)


# wrong: the past hidden in place of the future
class CausalAttention(Start):
    def forward(self, x):
        q, k, v = self.split(x)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        return self.merge(scores.masked_fill(~self.above(x), -math.inf).softmax(-1) @ v)


# wrong: split rightly, the features dealt out in turn when the heads are joined
class CausalAttention(Start):
    def forward(self, x):
        q, k, v = self.split(x)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        mixed = scores.masked_fill(self.above(x), -math.inf).softmax(-1) @ v
        return self.out(rearrange(mixed, "b h l k -> b l (k h)"))
