"""The residual branch: read the stream, compute an update, add it back."""

from __future__ import annotations

from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from tfcourse.config import ModelConfig


class ResidualBranch(nn.Module):
    """Add a sublayer's update to the stream, with the norm before or after.

        pre-norm:   α x + dropout(f(norm(x)))
        post-norm:  norm(α x + dropout(f(x)))

    α is 1 in every real model. With α = 0 (`residual=False`) the branch replaces the stream; in
    between it lets the stream decay. The norm and the sublayer are handed in, so that this file
    needs to know neither. The sublayer must return the shape that it was given.

    Source: He et al. 2015, eq. 1 (the sum); Vaswani et al. 2017, section 5.4 (post-norm and
    dropout); Radford et al. 2019, section 2.3 (pre-norm).
    """

    def __init__(self, config: ModelConfig, norm: nn.Module, sublayer: nn.Module) -> None:
        super().__init__()
        self.norm = norm
        self.sublayer = sublayer
        self.dropout = nn.Dropout(config.dropout)
        self.pre_norm = config.norm_position == "pre"
        self.alpha = config.residual_decay if config.residual else 0.0

    def forward(self, x: Float[Tensor, "B L d"], **context: Any) -> Float[Tensor, "B L d"]:
        """Return the stream after the update. `context` goes to the sublayer as it is."""
        if self.pre_norm:
            return self._keep(x) + self.update(x, **context)
        return self.norm(self._keep(x) + self.update(x, **context))

    def update(self, x: Float[Tensor, "B L d"], **context: Any) -> Float[Tensor, "B L d"]:
        """Compute what the branch adds to the stream."""
        return self.dropout(self.sublayer(self.norm(x) if self.pre_norm else x, **context))

    def _keep(self, x: Tensor) -> Tensor | float:
        if self.alpha == 1:  # x * 1 would cost one more pass over memory
            return x
        return self.alpha * x if self.alpha else 0.0
