"""From tokens or patches to the last stream: embedding, positions, N blocks, final norm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from tfcourse.attention import KeysAndValues, LayerCache
from tfcourse.blocks import Block
from tfcourse.config import ModelConfig
from tfcourse.embeddings import TokenEmbedding, embedding_std
from tfcourse.norms import make_norm
from tfcourse.positions import LearnedPositions, make_positions

Source = Float[Tensor, "B M d"] | Sequence[KeysAndValues] | None


@runtime_checkable
class Cache(Protocol):
    """What a stack needs of a KV cache (see `generation.KVCache`)."""

    length: int
    masked: bool

    def layer(self, index: int) -> LayerCache:
        """Return the cache of one block."""

    def end_after(self, n_new: int) -> int:
        """Say how many positions attention reads when some more are stored."""


class Stack(nn.Module):
    """Embed the inputs, add positions, run the blocks, and normalize the result.

    A pre-norm stream is never normalized on its way, so a final norm does it once; a post-norm
    stream leaves each block normalized and has none. Another `embedding` than that of tokens can be
    handed in.
    """

    def __init__(self, config: ModelConfig, embedding: nn.Module | None = None) -> None:
        super().__init__()
        self.config = config
        self.embedding: Any = TokenEmbedding(config) if embedding is None else embedding
        self.positions = make_positions(config)
        self.token_types = None
        if config.n_token_types:
            self.token_types = nn.Embedding(config.n_token_types, config.d_model)
        self.embedding_norm = make_norm(config) if config.embedding_norm else nn.Identity()
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layers))
        pre_norm = config.norm_position == "pre"
        self.final_norm = make_norm(config) if pre_norm else nn.Identity()
        initialize(self)

    def forward(
        self,
        inputs: Int[Tensor, "B L"] | Float[Tensor, "B C height width"],
        padding_mask: Bool[Tensor, "B S"] | None = None,
        cache: Cache | None = None,
        token_types: Int[Tensor, "B L"] | None = None,
        source: Source = None,
        source_mask: Bool[Tensor, "B M"] | None = None,
    ) -> Float[Tensor, "B L d"]:
        """Return one vector per token or patch.

        Args:
            inputs: token ids in [0, vocab_size), or images.
            padding_mask: True at real tokens, on either side of a row. S counts the tokens that
                are in the cache already, then the L new ones. Positions count real tokens only.
            cache: keys and values of earlier tokens; extended by these.
            token_types: which part of the input each token belongs to; 0 everywhere by default.
            source: what cross-attention reads: another stack's result, or what `read` made of it.
            source_mask: True at the source's real tokens.

        Raises:
            ValueError: an id outside the vocabulary, more tokens than `max_len`, a source where
                none is read or none where one is, or no mask where the cache holds padding.
            TypeError: a padding mask that is not boolean.
        """
        x = self.embedding(inputs)
        n_rows, length = x.shape[:2]
        end = cache.end_after(length) if cache is not None else length
        self._check(n_rows, end, padding_mask, source)
        if cache is not None and cache.masked and padding_mask is None:
            raise ValueError("padding_mask=None, but cached tokens had one; give one for them all")
        if token_types is not None and self.token_types is None:
            raise ValueError("token_types are given, but the model has n_token_types=0")
        mask = None
        if padding_mask is None:
            positions = torch.arange(end - length, end, device=x.device).unsqueeze(0)
        else:
            mask = padding_mask[:, None, None, :]  # [B 1 1 S]: the same for all heads and queries
            positions = (padding_mask.long().cumsum(dim=1) - 1).clamp(min=0)[:, -length:]
        if source_mask is not None:
            source_mask = source_mask[:, None, None, :]

        x = self.positions(x, positions)
        if self.token_types is not None:
            types = torch.zeros_like(inputs) if token_types is None else token_types
            x = x + self.token_types(types)
        x = self.dropout(self.embedding_norm(x))
        rotate = self.positions.rotation(positions)
        for i, block in enumerate(self.blocks):
            x = block(
                x,
                mask=mask,
                rotate=rotate,
                cache=cache.layer(i) if cache is not None else None,
                source=source if source is None or isinstance(source, Tensor) else source[i],
                source_mask=source_mask,
            )
        if cache is not None:
            cache.length += length
            cache.masked = padding_mask is not None
        return self.final_norm(x)

    def read(self, source: Float[Tensor, "B M d"]) -> list[KeysAndValues]:
        """Compute each block's keys and values of a source once, for many calls of `forward`."""
        readers: list[Any] = [block.cross for block in self.blocks]
        return [reader.sublayer.keys_and_values(source) for reader in readers]

    def _check(self, n_rows: int, end: int, padding_mask: Tensor | None, source: Source) -> None:
        # A position of an image is taken from its embedding's grid, whatever the image's size.
        if end > self.config.max_len and not self.config.patch_size:
            raise ValueError(
                f"a sequence of {end} tokens is longer than max_len={self.config.max_len}; "
                "shorten it, or build the model with a larger max_len"
            )
        if (source is not None) != self.config.cross_attention:
            problem = "needs a source" if source is None else "reads no source"
            raise ValueError(f"a stack with cross_attention={source is None} {problem}")
        if source is not None:
            sizes = {len(source)} if isinstance(source, Tensor) else {len(k) for k, _ in source}
            if wrong := sizes - {n_rows}:
                raise ValueError(f"{n_rows} rows read {min(wrong)} sources; give one per row")
        if padding_mask is not None:
            if padding_mask.dtype != torch.bool:
                raise TypeError(
                    f"padding_mask has dtype {padding_mask.dtype}; "
                    "give a boolean mask, True at real tokens"
                )
            if padding_mask.shape != (n_rows, end):
                raise ValueError(
                    f"padding_mask has shape {tuple(padding_mask.shape)}; expected "
                    f"{(n_rows, end)}: one value per cached and per new token"
                )


def initialize(stack: Stack) -> None:
    """Draw small normal weights, so that an untrained model predicts the uniform distribution.

    The projections of each block that write to the stream, two or with cross-attention three, are
    scaled by one over the root of their number, so that the sum of all updates does not grow with
    depth (Radford et al. 2019, section 2.3).
    """
    config = stack.config
    initialize_linear(stack)
    n_writers = (3 if config.cross_attention else 2) * config.n_layers
    for name, parameter in stack.named_parameters():
        if name.endswith(("out.weight", "down.weight")):
            nn.init.normal_(parameter, std=0.02 / math.sqrt(n_writers))
    std = embedding_std(config)
    if isinstance(stack.embedding, TokenEmbedding):
        nn.init.normal_(stack.embedding.weight, std=std)
        # As large as the token's part of the sum, so that neither drowns the other.
        std = std * stack.embedding.scale
    if isinstance(stack.positions, LearnedPositions):
        nn.init.normal_(stack.positions.embedding.weight, std=std)
    if stack.token_types is not None:
        nn.init.normal_(stack.token_types.weight, std=std)


def initialize_linear(module: nn.Module) -> None:
    """Draw small normal weights for all linear layers within, and no biases."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=0.02)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
