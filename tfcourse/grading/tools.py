"""What the grader hands to a student's function: small functions and modules with known weights.

They run in the student's process. A function that wants a sublayer, a model or a batch gets one
that both sides can make from the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tfcourse.architectures import DecoderLM
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


def layer_norm(gain: Tensor, shift: Tensor, eps: float = 1e-5) -> Callable[[Tensor], Tensor]:
    """Make LayerNorm with known γ and β, each of shape [d]."""
    return lambda x: F.layer_norm(x, gain.shape, gain, shift, eps)


def decoder(fields: dict, state: dict[str, Tensor]) -> DecoderLM:
    """Make a `DecoderLM` of this configuration and these weights."""
    model = DecoderLM(ModelConfig(**fields))
    model.load_state_dict(state)
    return model


class Parts(nn.Module):
    """Parts under their names, which cannot be called as a whole."""

    def __init__(self, **parts: object) -> None:
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *args: object, **kwargs: object) -> Tensor:
        raise RuntimeError("call the parts one after the other, not the model or its stack.")


def decoder_parts(fields: dict, state: dict[str, Tensor]) -> Parts:
    """Make the parts of a `DecoderLM`, under the names that they have there."""
    model = decoder(fields, state)
    stack = Parts(config=model.config, **dict(model.stack.named_children()))
    return Parts(config=model.config, stack=stack, head=model.head)
