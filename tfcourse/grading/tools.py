"""What the grader hands to a student's function: small functions and modules with known weights.

They run in the student's process. A function that wants a sublayer, a model or a batch gets one
that both sides can make from the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tfcourse.architectures import DecoderLM
from tfcourse.config import ModelConfig
from tfcourse.data.tokenizers import BOS, EOS, PAD


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


def decoder_lm(fields: dict[str, Any], seed: int, old_gradient: float = 0.0) -> DecoderLM:
    """Make a language model with the weights of a seed, from the fields of its `ModelConfig`.

    Each weight may hold an old gradient, as after an earlier step.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = DecoderLM(ModelConfig(**fields))
    if old_gradient:
        for weight in model.parameters():
            weight.grad = torch.full_like(weight, old_gradient)
    return model


def markov_rows(table: Tensor, length: int, seed: int) -> Callable[[int], Tensor]:
    """Make a function that draws new texts, one a row: n ↦ ids [n length+1].

    `table` [V V V] holds the probability of each next id after the two before it; the id before
    BOS is BOS. A text ends with EOS, and PAD fills the row, or the row cuts it off.
    """
    generator = torch.Generator().manual_seed(seed)

    def sample(n: int) -> Tensor:
        rows = torch.full((n, length + 1), PAD)
        rows[:, 0] = BOS
        before, last = rows[:, 0], rows[:, 0]
        for i in range(1, length + 1):
            drawn = torch.multinomial(table[before, last], 1, generator=generator)[:, 0]
            over = (last == EOS) | (last == PAD)
            rows[:, i] = drawn.masked_fill(over, PAD)
            before, last = last, rows[:, i]
        return rows

    return sample
