"""What the grader hands to a student's function: small functions and modules with known weights.

They run in the student's process. A function that wants a sublayer, a model or a batch gets one
that both sides can make from the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from tfcourse.architectures import EncoderDecoder
from tfcourse.config import ModelConfig


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


def encoder_decoder(fields: dict, state: dict[str, Tensor]) -> nn.Module:
    """Make an `EncoderDecoder` of this configuration and these weights, in evaluation mode."""
    model = EncoderDecoder(ModelConfig(**fields))
    model.load_state_dict(state)
    return model.eval()
