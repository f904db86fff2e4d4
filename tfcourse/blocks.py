"""One transformer block: attention mixes positions, the feed-forward layer transforms each."""

from __future__ import annotations

from dataclasses import replace

from jaxtyping import Bool, Float
from torch import Tensor, nn

from tfcourse.attention import KeysAndValues, LayerCache, MultiHeadAttention, Rotation
from tfcourse.config import ModelConfig
from tfcourse.feedforward import make_feed_forward
from tfcourse.norms import make_norm
from tfcourse.residuals import ResidualBranch


class Block(nn.Module):
    """Two residual branches in a row: attention, then feed-forward.

    With `cross_attention` a third stands between them, which reads a source: the encoder's result.
    Attention and feed-forward can each be left out, to see what the other does alone.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention = self.cross = self.feed_forward = None
        if config.attention:
            self.attention = ResidualBranch(config, make_norm(config), MultiHeadAttention(config))
        if config.cross_attention:
            reader = MultiHeadAttention(replace(config, causal=False))
            self.cross = ResidualBranch(config, make_norm(config), reader)
        if config.mlp:
            self.feed_forward = ResidualBranch(config, make_norm(config), make_feed_forward(config))

    def forward(
        self,
        x: Float[Tensor, "B L d"],
        mask: Bool[Tensor, "#B #H #L S"] | None = None,
        rotate: Rotation | None = None,
        cache: LayerCache | None = None,
        source: Float[Tensor, "B M d"] | KeysAndValues | None = None,
        source_mask: Bool[Tensor, "#B #H #L M"] | None = None,
    ) -> Float[Tensor, "B L d"]:
        """Return the stream after all updates; the arguments are those of the attention."""
        if self.attention is not None:
            x = self.attention(x, mask=mask, rotate=rotate, cache=cache)
        if self.cross is not None:
            x = self.cross(x, mask=source_mask, source=source)
        if self.feed_forward is not None:
            x = self.feed_forward(x)
        return x

    @property
    def branches(self) -> list[ResidualBranch]:
        """The block's branches, in the order in which they write to the stream."""
        parts = (self.attention, self.cross, self.feed_forward)
        return [branch for branch in parts if branch is not None]
