"""What the grader hands to a student's function: small functions and modules with known weights.

They run in the student's process. A function that wants a sublayer, a model or a batch gets one
that both sides can make from the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from tfcourse.norms import LayerNorm


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


def constant(value: Tensor) -> Callable[[Tensor], Tensor]:
    """Make a function that returns `value`, whatever it reads."""
    return lambda x: value


def used(weight: Tensor, bias: Tensor | None = None) -> nn.Linear:
    """Make a linear layer in which an earlier backward pass has left gradients of 1."""
    layer = linear(weight, bias)
    for parameter in layer.parameters():
        parameter.grad = torch.ones_like(parameter)
    return layer


def mlp(up: Tensor, down: Tensor) -> nn.Sequential:
    """Make down(tanh(up(x))) of known weights, [d_ff d] and [d d_ff]."""
    return nn.Sequential(linear(up), nn.Tanh(), linear(down))


def layer_norm(gain: Tensor, shift: Tensor, eps: float) -> LayerNorm:
    """Make a LayerNorm of known gain and shift, [d] each."""
    norm = LayerNorm(len(gain), eps).to(gain.dtype)
    norm.load_state_dict({"weight": gain, "bias": shift})
    return norm
