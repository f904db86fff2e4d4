"""What the grader hands to a student's function: small functions and modules with known weights.

They run in the student's process. A function that wants a sublayer, a model or a batch gets one
that both sides can make from the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from tfcourse.attention import MultiHeadAttention
from tfcourse.config import ModelConfig
from tfcourse.feedforward import FeedForward


def linear(weight: Tensor, bias: Tensor | None = None) -> nn.Linear:
    """Make a linear layer of known weights, [d_out d_in] and [d_out]."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    with torch.no_grad():
        layer.weight.copy_(weight)
        if bias is not None:
            layer.bias.copy_(bias)
    return layer.to(weight.dtype)


def scale(factor: float) -> Callable[[Tensor], Tensor]:
    """Make a function that multiplies by `factor`."""
    return lambda x: factor * x


def tanh_of(weight: Tensor) -> Callable[[Tensor], Tensor]:
    """Make the function x ↦ tanh(x Wᵀ), with W of shape [d d]."""
    return lambda x: torch.tanh(x @ weight.mT)


def mix_heads(weights: Tensor) -> Callable[[Tensor], Tensor]:
    """Make a function on [B H L d_k] that mixes each head's positions by its own [L L] table.

    `weights` is [H L L]. Other shapes raise `ValueError`.
    """

    def mix(x: Tensor) -> Tensor:
        if x.ndim != 4 or x.shape[1:3] != weights.shape[:2]:
            H, L = weights.shape[:2]
            raise ValueError(f"f got {list(x.shape)}; it works on [B H L d_k], here [B {H} {L} …]")
        return weights @ x

    return mix


def attention_layer(qkv: Tensor, out: Tensor, n_heads: int) -> MultiHeadAttention:
    """Make causal multi-head attention of known weights, [3 d, d] and [d d]."""
    layer = MultiHeadAttention(ModelConfig(vocab_size=2, d_model=out.shape[0], n_heads=n_heads))
    layer.load_state_dict({"qkv.weight": qkv, "out.weight": out})
    return layer


def feed_forward(up: Tensor, down: Tensor) -> FeedForward:
    """Make an MLP with GELU of known weights, [d_ff d] and [d d_ff]."""
    layer = FeedForward(ModelConfig(vocab_size=2, d_model=up.shape[1], n_heads=1, d_ff=up.shape[0]))
    layer.load_state_dict({"up.weight": up, "down.weight": down})
    return layer


def layer_norm(gain: Tensor, shift: Tensor) -> nn.LayerNorm:
    """Make a LayerNorm of known gain and shift, [d] each."""
    layer = nn.LayerNorm(gain.shape[0])
    layer.load_state_dict({"weight": gain, "bias": shift})
    return layer
