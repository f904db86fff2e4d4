"""LayerNorm and RMSNorm: bring every token's vector to one size."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from tfcourse.config import ModelConfig


class LayerNorm(nn.Module):
    """Centre each vector, scale it to unit variance, then apply a gain and a shift.

        γ ⊙ (x − mean(x)) / √(var(x) + ε) + β        var divides by d, not by d − 1

    The statistics are those of one position: no other position or example enters. They are computed
    in float32 at least, and the output has the input's dtype.

    Source: Ba et al. 2016, eq. 4.
    """

    def __init__(self, d_model: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x: Float[Tensor, "... d"]) -> Float[Tensor, "... d"]:
        dtype = torch.promote_types(x.dtype, torch.float32)
        gain, shift = self.weight.to(dtype), self.bias.to(dtype)
        return F.layer_norm(x.to(dtype), gain.shape, gain, shift, self.eps).to(x.dtype)


class RMSNorm(nn.Module):
    """Scale each vector to unit root mean square, then apply a gain.

        γ ⊙ x / √(mean(x²) + ε)

    Unlike LayerNorm it keeps the mean and has no shift. Computed in float32 at least, because
    squaring 300 overflows float16; the output has the input's dtype.

    Source: Zhang & Sennrich 2019, eq. 4.
    """

    def __init__(self, d_model: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Float[Tensor, "... d"]) -> Float[Tensor, "... d"]:
        dtype = torch.promote_types(x.dtype, torch.float32)
        gain = self.weight.to(dtype)
        return F.rms_norm(x.to(dtype), gain.shape, gain, self.eps).to(x.dtype)


def make_norm(config: ModelConfig) -> nn.Module:
    """Build the norm that the config names."""
    norm = {"layernorm": LayerNorm, "rmsnorm": RMSNorm}[config.norm]
    return norm(config.d_model, config.norm_eps)
