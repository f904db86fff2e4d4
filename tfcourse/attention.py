"""Multi-head attention: every position reads from the positions it may see."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from jaxtyping import Bool, Float
from torch import Tensor, nn

from tfcourse.config import ModelConfig

Rotation = Callable[[Tensor], Tensor]
KeysAndValues = tuple[Float[Tensor, "B K M k"], Float[Tensor, "B K M k"]]


@runtime_checkable
class LayerCache(Protocol):
    """The keys and values of one layer's earlier positions (see `generation.KVCache`)."""

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Store new keys and values; return all of them, old ones first."""


class MultiHeadAttention(nn.Module):
    """Attention with H query heads that share K ≤ H key and value heads.

        softmax(q kᵀ / √head_dim) v      per head; the heads side by side, then `out`

    Queries come from x. Keys and values come from x, too (self-attention), or from a source
    (cross-attention).

    Masks are boolean and True means "may attend". They combine with the causal rule by AND. A query
    that may attend to nothing gets zeros.

    Source: Vaswani et al. 2017, section 3.2; Ainslie et al. 2023 (K < H).
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.n_heads, self.n_kv_heads = config.n_heads, config.n_kv_heads
        self.head_dim = config.head_dim
        self.causal = config.causal
        self.dropout = config.dropout
        # One matrix product for all queries, keys and values.
        heads = (self.n_heads, self.n_kv_heads, self.n_kv_heads)
        self.widths = [n * self.head_dim for n in heads]
        self.qkv = nn.Linear(config.d_model, sum(self.widths), bias=config.qkv_bias)
        self.out = nn.Linear(self.n_heads * self.head_dim, config.d_model, bias=config.bias)

    def forward(
        self,
        x: Float[Tensor, "B L d"],
        mask: Bool[Tensor, "#B #H #L S"] | None = None,
        rotate: Rotation | None = None,
        cache: LayerCache | None = None,
        source: Float[Tensor, "B M d"] | KeysAndValues | None = None,
    ) -> Float[Tensor, "B L d"]:
        """Return what each position gathered.

        Args:
            x: the normed stream.
            mask: S counts all positions that can be read: those in the cache, then L new ones.
            rotate: turns queries and keys by their position (RoPE).
            cache: keys and values of earlier positions; the new ones are added to it.
            source: what is read in place of x, or its `keys_and_values`.
        """
        q, k, v = self._heads(x, rotate, cache, source)
        mask, empty = self._allowed(mask, q, k)
        # The built-in causal flag counts from the top left, so it may be used only where queries
        # and keys are the same positions. A lone query may read everything.
        causal = False
        if mask is None and self.causal and q.shape[2] > 1:
            causal = True  # the condition itself is a symbol, not a bool, to torch.compile
        dropout, shared = self.dropout if self.training else 0.0, self.n_kv_heads < self.n_heads
        mixed = F.scaled_dot_product_attention(
            q, k, v, mask, dropout, is_causal=causal, enable_gqa=shared
        )
        if empty is not None:
            mixed = mixed.masked_fill(empty, 0.0)
        return self.out(rearrange(mixed, "b h l k -> b l (h k)"))

    def with_weights(
        self,
        x: Float[Tensor, "B L d"],
        mask: Bool[Tensor, "#B #H #L S"] | None = None,
        rotate: Rotation | None = None,
        cache: LayerCache | None = None,
        source: Float[Tensor, "B M d"] | KeysAndValues | None = None,
    ) -> tuple[Float[Tensor, "B L d"], Float[Tensor, "B H L S"]]:
        """Compute the same output step by step, and return the attention weights with it.

        Slower than `forward` and without dropout: it holds all B·H·L·S weights.
        """
        q, k, v = self._heads(x, rotate, cache, source)
        groups = self.n_heads // self.n_kv_heads
        k, v = (repeat(t, "b h s k -> b (h g) s k", g=groups) for t in (k, v))
        scores = q @ k.mT / math.sqrt(self.head_dim)
        mask, empty = self._allowed(mask, q, k)
        if mask is None and self.causal:
            mask = causal_mask(q.shape[2], k.shape[2], q.device)
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        weights = scores.softmax(dim=-1)
        if empty is not None:
            weights = weights.masked_fill(empty, 0.0)
        mixed = weights @ v
        return self.out(rearrange(mixed, "b h l k -> b l (h k)")), weights

    def keys_and_values(self, source: Float[Tensor, "B M d"]) -> KeysAndValues:
        """Project a source, so that it can be read many times."""
        n_q = self.widths[0]
        bias = self.qkv.bias[n_q:] if self.qkv.bias is not None else None
        k, v = F.linear(source, self.qkv.weight[n_q:], bias).chunk(2, dim=-1)
        return self._split(k), self._split(v)

    def _heads(
        self,
        x: Tensor,
        rotate: Rotation | None,
        cache: LayerCache | None,
        source: Tensor | KeysAndValues | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        if source is not None:
            n_q = self.widths[0]
            bias = self.qkv.bias[:n_q] if self.qkv.bias is not None else None
            q = self._split(F.linear(x, self.qkv.weight[:n_q], bias))
            return q, *(self.keys_and_values(source) if isinstance(source, Tensor) else source)
        # Split first: then the gradients of all three lie side by side without another copy.
        q, k, v = map(self._split, self.qkv(x).split(self.widths, dim=-1))
        if rotate is not None:
            q, k = rotate(q), rotate(k)
        if cache is not None:
            k, v = cache.append(k, v)
        return q, k, v

    def _split(self, part: Float[Tensor, "B L n"]) -> Float[Tensor, "B heads L k"]:
        return rearrange(part, "b l (h k) -> b h l k", k=self.head_dim)

    def _allowed(
        self, mask: Tensor | None, q: Tensor, k: Tensor
    ) -> tuple[Tensor | None, Tensor | None]:
        """Combine the mask with the causal rule, where the built-in flag cannot state it.

        Also say which queries may attend to nothing. Softmax over nothing is NaN: the mask lets
        them read anything, and the caller clears what they gathered.
        """
        n_queries, n_keys = q.shape[2], k.shape[2]
        if mask is not None and mask.dtype != torch.bool:
            raise TypeError(
                f"mask has dtype {mask.dtype}; give a boolean mask, True where a query may attend"
            )
        if self.causal and n_queries > 1 and (mask is not None or n_queries != n_keys):
            causal = causal_mask(n_queries, n_keys, q.device)
            mask = causal if mask is None else mask & causal
        if mask is None:
            return None, None
        empty = ~mask.any(dim=-1, keepdim=True)
        return mask | empty, empty


def causal_mask(
    n_queries: int, n_keys: int, device: torch.device | None = None
) -> Bool[Tensor, "L S"]:
    """Say which keys each query may read: its own position and all before it.

    The last query stands at the last key: with a cache, the first rows see the cached keys.
    """
    ones = torch.ones(n_queries, n_keys, dtype=torch.bool, device=device)
    return ones.tril(diagonal=n_keys - n_queries)
