"""Whole models: the causal decoder, today's language model."""

from __future__ import annotations

from typing import Literal

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from tfcourse.config import ModelConfig
from tfcourse.losses import next_token_loss
from tfcourse.stacks import Cache, Stack, embedding_std


class DecoderLM(nn.Module):
    """A language model: a causal stack and a head that scores every word of the vocabulary."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.stack = Stack(config)
        self.head = nn.Linear(config.d_model, config.vocab_size, bias=config.head_bias)
        if config.tie_embeddings:
            self.head.weight = self.stack.embedding.weight  # one tensor with two readers
        else:
            nn.init.normal_(self.head.weight, std=embedding_std(config))
        if self.head.bias is not None:
            nn.init.zeros_(self.head.bias)

    def forward(
        self,
        tokens: Int[Tensor, "B L"],
        padding_mask: Bool[Tensor, "B S"] | None = None,
        cache: Cache | None = None,
    ) -> Float[Tensor, "B L V"]:
        """Return the logits of each next token; the arguments are those of `Stack`."""
        return self.head(self.stack(tokens, padding_mask, cache))

    def hidden(
        self, tokens: Int[Tensor, "B L"], padding_mask: Bool[Tensor, "B L"] | None = None
    ) -> Float[Tensor, "B L d"]:
        """Return what the head reads: the stream after the final norm."""
        return self.stack(tokens, padding_mask)

    def loss(
        self,
        inputs: Int[Tensor, "B L"],
        targets: Int[Tensor, "B L"],
        reduction: Literal["mean", "sum", "none"] = "mean",
    ) -> Float[Tensor, ""] | Float[Tensor, "B L"]:
        """Compute the next-token loss in nats; see `losses.next_token_loss`.

        Rows may be padded on the right without a mask: a causal model never looks there.
        """
        return next_token_loss(self.stack(inputs), self.head, targets, reduction)

    def n_params(self) -> int:
        """Count the parameters; a tied matrix counts once."""
        return sum(parameter.numel() for parameter in self.parameters())
