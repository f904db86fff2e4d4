"""How a model learns where a token stands: learned, sinusoidal, rotary, or not at all.

Tables are computed in float32 from the integer positions whenever they are needed. A stored table
would be rounded with the rest of the model by `model.to(torch.bfloat16)`, and bfloat16 cannot tell
position 256 from 257.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from tfcourse.config import ModelConfig


class NoPositions(nn.Module):
    """Tell the model nothing about position; only a causal mask then gives order away."""

    def forward(
        self, x: Float[Tensor, "B L d"], positions: Int[Tensor, "#B L"]
    ) -> Float[Tensor, "B L d"]:
        """Return the embeddings with their positions added, where this kind adds any."""
        return x

    def rotation(self, positions: Int[Tensor, "#B L"]) -> Callable[[Tensor], Tensor] | None:
        """Return the function that turns queries and keys, where this kind has one."""
        return None


class LearnedPositions(NoPositions):
    """Add one learned vector per position (Radford et al. 2018)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(config.max_len, config.d_model)

    def forward(
        self, x: Float[Tensor, "B L d"], positions: Int[Tensor, "#B L"]
    ) -> Float[Tensor, "B L d"]:
        return x + self.embedding(positions)


class SinusoidalPositions(NoPositions):
    """Add sines and cosines of falling frequency (Vaswani et al. 2017, section 3.5)."""

    def forward(
        self, x: Float[Tensor, "B L d"], positions: Int[Tensor, "#B L"]
    ) -> Float[Tensor, "B L d"]:
        angles = angle_table(positions, x.shape[-1], theta=10_000.0)
        waves = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)  # sin, cos, sin, ...
        return x + waves.to(x.dtype)


class RotaryPositions(NoPositions):
    """Turn queries and keys by an angle that grows with position.

    Feature i is paired with feature i + head_dim/2, the convention of the public Llama weights.
    A score then depends only on the distance of the two positions.

    Source: Su et al. 2021, eq. 34.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.head_dim, self.theta = config.head_dim, config.rope_theta

    def rotation(self, positions: Int[Tensor, "#B L"]) -> Callable[[Tensor], Tensor]:
        angles = angle_table(positions, self.head_dim, self.theta).unsqueeze(1)  # one for all heads
        cos, sin = angles.cos(), angles.sin()  # [B 1 L head_dim/2]

        def rotate(x: Float[Tensor, "B H L k"]) -> Float[Tensor, "B H L k"]:
            c, s = cos.to(x.dtype), sin.to(x.dtype)
            first, second = x.chunk(2, dim=-1)
            return torch.cat([first * c - second * s, second * c + first * s], dim=-1)

        return rotate


def angle_table(
    positions: Int[Tensor, "B L"], width: int, theta: float
) -> Float[Tensor, "B L half"]:
    """Return position · theta^(−2i/width) in float32, for i = 0 … half − 1; half = width/2."""
    exponents = torch.arange(0, width, 2, device=positions.device, dtype=torch.float32) / width
    return positions.float().unsqueeze(-1) * theta**-exponents


def make_positions(config: ModelConfig) -> NoPositions:
    """Build the kind of positions that the config names."""
    if config.position == "learned":
        return LearnedPositions(config)
    if config.position == "sinusoidal":
        return SinusoidalPositions()
    if config.position == "rope":
        return RotaryPositions(config)
    return NoPositions()
