"""The position-wise feed-forward layer: widen, activate, narrow."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from tfcourse.config import ModelConfig

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,  # exact, with erf: BERT and ViT
    "gelu_tanh": partial(F.gelu, approximate="tanh"),  # GPT-2; differs from exact by up to 5e-4
    "silu": F.silu,
}


class FeedForward(nn.Module):
    """Transform each position by itself: down(activation(up(x))).

    Source: Vaswani et al. 2017, eq. 2.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.up = nn.Linear(config.d_model, config.d_ff, bias=config.bias)
        self.down = nn.Linear(config.d_ff, config.d_model, bias=config.bias)
        self.activation = ACTIVATIONS[config.activation]

    def forward(self, x: Float[Tensor, "B L d"]) -> Float[Tensor, "B L d"]:
        return self.down(self.activation(self.up(x)))


class SwiGLU(nn.Module):
    """Transform each position by itself: down(silu(gate(x)) ⊙ up(x)).

    `gate_up` holds both projections, the gate's rows first.

    Source: Shazeer 2020, eq. 6.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.gate_up = nn.Linear(config.d_model, 2 * config.d_ff, bias=config.bias)
        self.down = nn.Linear(config.d_ff, config.d_model, bias=config.bias)

    def forward(self, x: Float[Tensor, "B L d"]) -> Float[Tensor, "B L d"]:
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)


def make_feed_forward(config: ModelConfig) -> nn.Module:
    """Build the feed-forward layer that the config names."""
    return SwiGLU(config) if config.gated else FeedForward(config)
