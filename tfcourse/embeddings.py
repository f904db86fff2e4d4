"""What enters the first block: one vector per token, or per patch of an image."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn

from tfcourse.config import ModelConfig


class TokenEmbedding(nn.Embedding):
    """Look up one vector per token id; multiply it by √d_model where the config says so.

    Source: Vaswani et al. 2017, section 3.4 (√d_model).
    """

    def __init__(self, config: ModelConfig) -> None:
        if config.vocab_size < 1:
            raise ValueError("vocab_size=0 leaves no token to embed; say how many there are")
        super().__init__(config.vocab_size, config.d_model)
        self.scale = math.sqrt(config.d_model) if config.embedding_scale else 1.0

    def forward(self, tokens: Int[Tensor, "B L"]) -> Float[Tensor, "B L d"]:
        """Raise ValueError for an id outside the vocabulary (not on a GPU, see below)."""
        # On a GPU this check would wait for the device at every step; there the data set and
        # `generate` have checked the ids before they were sent.
        if tokens.device.type == "cpu" and tokens.numel() and not torch.compiler.is_compiling():
            low, high = tokens.aminmax()
            if low < 0 or high >= self.num_embeddings:
                bad = int(low) if low < 0 else int(high)
                raise ValueError(
                    f"token id {bad} is outside the vocabulary; "
                    f"ids run from 0 to vocab_size - 1 = {self.num_embeddings - 1}"
                )
        x = super().forward(tokens)
        return x * self.scale if self.scale != 1 else x


class PatchEmbedding(nn.Module):
    """Cut images into square patches, project each, and add a learned vector per place.

    Patches run row by row. With `pooling="first"` a learned vector comes before them, from which
    the class is read. An image of another size than the config's takes its positions from the
    learned grid by bicubic interpolation.

    Source: Dosovitskiy et al. 2020, eq. 1 and section 3.2.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        if not config.patch_size:
            raise ValueError("patch_size=0 cuts no image; give image_height, image_width and it")
        p = self.patch_size = config.patch_size
        self.grid = (config.image_height // p, config.image_width // p)
        n_pixels = config.image_channels * p**2
        self.project = nn.Linear(n_pixels, config.d_model)
        self.first = None
        n_places = self.grid[0] * self.grid[1]
        if config.pooling == "first":
            self.first = nn.Parameter(0.02 * torch.randn(1, 1, config.d_model))
            n_places += 1
        self.positions = nn.Parameter(0.02 * torch.randn(1, n_places, config.d_model))

    def forward(self, images: Float[Tensor, "B C height width"]) -> Float[Tensor, "B L d"]:
        """Raise ValueError for an image of other channels, or that patches do not fill."""
        channels, height, width = images.shape[1:]
        p = self.patch_size
        if channels != (n := self.project.in_features // p**2):
            raise ValueError(f"images have {channels} channels, the model image_channels={n}")
        if height % p or width % p or not height or not width:
            raise ValueError(
                f"an image of {height}×{width} does not divide into patches of patch_size={p}; "
                "crop or pad it to multiples"
            )
        x = self.project(rearrange(images, "b c (h p) (w q) -> b (h w) (c p q)", p=p, q=p))
        if self.first is not None:
            x = torch.cat([self.first.expand(len(x), -1, -1), x], dim=1)
        return x + self._positions(height // p, width // p)

    def _positions(self, rows: int, columns: int) -> Float[Tensor, "1 L d"]:
        if (rows, columns) == self.grid:
            return self.positions
        n_first = 0 if self.first is None else 1
        first, learned = self.positions[:, :n_first], self.positions[:, n_first:]
        grid = rearrange(learned, "1 (h w) d -> 1 d h w", h=self.grid[0])
        grid = F.interpolate(grid, size=(rows, columns), mode="bicubic", align_corners=False)
        return torch.cat([first, rearrange(grid, "1 d h w -> 1 (h w) d")], dim=1)


def embedding_std(config: ModelConfig) -> float:
    """Return the standard deviation of the rows of the embedding and of the vocabulary head.

    A tied head scores the input token by its own row: the normed stream, of length √d_model, points
    along that row of length std·√d_model, so the score is up to std·d_model. At 0.02 and
    d_model = 1024 that is 20, and e²⁰ outweighs any vocabulary: the model starts by repeating its
    input with certainty. Keeping the product at 2 starts it at ln(vocab_size) instead.
    """
    return min(0.02, 2 / config.d_model)
