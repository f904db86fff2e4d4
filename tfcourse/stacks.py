"""From token ids to the last stream: embedding, positions, N blocks, final norm."""

from __future__ import annotations

import math
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from tfcourse.attention import LayerCache
from tfcourse.blocks import Block
from tfcourse.config import ModelConfig
from tfcourse.norms import make_norm
from tfcourse.positions import LearnedPositions, make_positions


@runtime_checkable
class Cache(Protocol):
    """What a stack needs of a KV cache (see `generation.KVCache`)."""

    length: int

    def layer(self, index: int) -> LayerCache:
        """Return the cache of one block."""


class Stack(nn.Module):
    """Embed tokens, add positions, run the blocks, and normalize the result.

    A pre-norm stream is never normalized on its way, so a final norm does it once; a post-norm
    stream leaves each block normalized and has none.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.positions = make_positions(config)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layers))
        pre_norm = config.norm_position == "pre"
        self.final_norm = make_norm(config) if pre_norm else nn.Identity()
        self.scale = math.sqrt(config.d_model) if config.embedding_scale else 1.0
        initialize(self)

    def forward(
        self,
        tokens: Int[Tensor, "B L"],
        padding_mask: Bool[Tensor, "B S"] | None = None,
        cache: Cache | None = None,
    ) -> Float[Tensor, "B L d"]:
        """Return one vector per token.

        Args:
            tokens: ids in [0, vocab_size).
            padding_mask: True at real tokens, on either side of a row. S counts the tokens that
                are in the cache already, then the L new ones. Positions count real tokens only.
            cache: keys and values of earlier tokens; extended by these.

        Raises:
            ValueError: an id outside the vocabulary, or more positions than `max_len`.
            TypeError: a padding mask that is not boolean.
        """
        start = cache.length if cache is not None else 0
        self._check(tokens, padding_mask, start)
        length = tokens.shape[1]
        mask = None
        if padding_mask is None:
            positions = torch.arange(start, start + length, device=tokens.device).unsqueeze(0)
        else:
            mask = padding_mask[:, None, None, :]  # [B 1 1 S]: the same for all heads and queries
            positions = (padding_mask.long().cumsum(dim=1) - 1).clamp(min=0)[:, start:]

        x = self.embedding(tokens)
        if self.scale != 1:
            x = x * self.scale
        x = self.dropout(self.positions(x, positions))
        rotate = self.positions.rotation(positions)
        for i, block in enumerate(self.blocks):
            layer_cache = cache.layer(i) if cache is not None else None
            x = block(x, mask=mask, rotate=rotate, cache=layer_cache)
        if cache is not None:
            cache.length += length
        return self.final_norm(x)

    def _check(self, tokens: Tensor, padding_mask: Tensor | None, start: int) -> None:
        end = start + tokens.shape[1]
        if end > self.config.max_len:
            raise ValueError(
                f"a sequence of {end} tokens is longer than max_len={self.config.max_len}; "
                "shorten it, or build the model with a larger max_len"
            )
        if padding_mask is not None:
            if padding_mask.dtype != torch.bool:
                raise TypeError(
                    f"padding_mask has dtype {padding_mask.dtype}; "
                    "give a boolean mask, True at real tokens"
                )
            if padding_mask.shape != (len(tokens), end):
                raise ValueError(
                    f"padding_mask has shape {tuple(padding_mask.shape)}; expected "
                    f"{(len(tokens), end)}: one value per cached and per new token"
                )
        # On a GPU this check would wait for the device at every step; there the data set and
        # `generate` have checked the ids before they were sent.
        if tokens.device.type == "cpu" and tokens.numel() and not torch.compiler.is_compiling():
            low, high = tokens.aminmax()
            if low < 0 or high >= self.config.vocab_size:
                bad = int(low) if low < 0 else int(high)
                raise ValueError(
                    f"token id {bad} is outside the vocabulary; "
                    f"ids run from 0 to vocab_size - 1 = {self.config.vocab_size - 1}"
                )


def initialize(stack: Stack) -> None:
    """Draw small normal weights, so that an untrained model predicts the uniform distribution.

    The two projections of each block that write to the stream are scaled by 1/√(2 n_layers), so
    that the sum of all updates does not grow with depth (Radford et al. 2019, section 2.3).
    """
    config = stack.config
    for module in stack.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.02)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    for name, parameter in stack.named_parameters():
        if name.endswith(("out.weight", "down.weight")):
            nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * config.n_layers))
    std = embedding_std(config)
    nn.init.normal_(stack.embedding.weight, std=std)
    if isinstance(stack.positions, LearnedPositions):
        # As large as the token's part of the sum, so that neither drowns the other.
        nn.init.normal_(stack.positions.embedding.weight, std=std * stack.scale)


def embedding_std(config: ModelConfig) -> float:
    """Return the standard deviation of the rows of the embedding and of the vocabulary head.

    A tied head scores the input token by its own row: the normed stream, of length √d_model, points
    along that row of length std·√d_model, so the score is up to std·d_model. At 0.02 and
    d_model = 1024 that is 20, and e²⁰ outweighs any vocabulary: the model starts by repeating its
    input with certainty. Keeping the product at 2 starts it at ln(vocab_size) instead.
    """
    return min(0.02, 2 / config.d_model)
