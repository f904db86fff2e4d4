"""One transformer block: attention mixes positions, the feed-forward layer transforms each."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor, nn

from tfcourse.attention import LayerCache, MultiHeadAttention, Rotation
from tfcourse.config import ModelConfig
from tfcourse.feedforward import make_feed_forward
from tfcourse.norms import make_norm
from tfcourse.residuals import ResidualBranch


class Block(nn.Module):
    """Two residual branches in a row: attention, then feed-forward.

    Either can be left out by the config, to see what the other does alone.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention = self.feed_forward = None
        if config.attention:
            self.attention = ResidualBranch(config, make_norm(config), MultiHeadAttention(config))
        if config.mlp:
            self.feed_forward = ResidualBranch(config, make_norm(config), make_feed_forward(config))

    def forward(
        self,
        x: Float[Tensor, "B L d"],
        mask: Bool[Tensor, "#B #H #L S"] | None = None,
        rotate: Rotation | None = None,
        cache: LayerCache | None = None,
    ) -> Float[Tensor, "B L d"]:
        """Return the stream after both updates; the arguments are those of the attention."""
        if self.attention is not None:
            x = self.attention(x, mask=mask, rotate=rotate, cache=cache)
        if self.feed_forward is not None:
            x = self.feed_forward(x)
        return x

    @property
    def branches(self) -> list[ResidualBranch]:
        """The block's branches, in the order in which they write to the stream."""
        return [branch for branch in (self.attention, self.feed_forward) if branch is not None]
