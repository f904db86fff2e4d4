"""Whole models from one block: decoder, encoder, vision transformer, encoder–decoder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from tfcourse.attention import KeysAndValues
from tfcourse.config import ModelConfig
from tfcourse.embeddings import PatchEmbedding, embedding_std
from tfcourse.feedforward import ACTIVATIONS
from tfcourse.losses import token_loss
from tfcourse.norms import make_norm
from tfcourse.stacks import Cache, Stack, initialize_linear

Reduction = Literal["mean", "sum", "none"]
Loss = Float[Tensor, ""] | Float[Tensor, "B L"]


class Model(nn.Module):
    """What all architectures share: a config, a head, and the count of their parameters."""

    config: ModelConfig
    head: nn.Linear
    loss: Callable[..., Loss]

    def n_params(self) -> int:
        """Count the parameters; a tied matrix counts once."""
        return sum(parameter.numel() for parameter in self.parameters())

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Switch dropout off for a while; then give each module its own mode back."""
        modes = {module: module.training for module in self.modules()}
        self.eval()
        try:
            yield
        finally:
            for module, mode in modes.items():
                module.training = mode


class DecoderLM(Model):
    """A language model: a causal stack and a head that scores every word of the vocabulary."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.stack = Stack(config)
        self.head = vocabulary_head(config, self.stack)

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
        self, inputs: Int[Tensor, "B L"], targets: Int[Tensor, "B L"], reduction: Reduction = "mean"
    ) -> Loss:
        """Compute the next-token loss in nats; see `losses.token_loss`.

        Rows may be padded on the right without a mask: a causal model never looks there.
        """
        return token_loss(self.stack(inputs), self.head, targets, reduction)


class Encoder(Model):
    """A stack in which every position reads every other, for tasks that see the whole input.

    It fills in masked tokens, and with `n_classes` it also classifies, from its first position.

    Source: Devlin et al. 2018, sections 3 and 3.1.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config = replace(config, causal=False)
        self.stack = Stack(config)
        self.transform = nn.Linear(config.d_model, config.d_model)
        initialize_linear(self.transform)
        self.activation = ACTIVATIONS[config.activation]
        self.norm = make_norm(config)
        self.head = vocabulary_head(config, self.stack)
        self.classifier = None
        if config.n_classes:
            self.pooler = nn.Linear(config.d_model, config.d_model)
            self.dropout = nn.Dropout(config.dropout)
            self.classifier = nn.Linear(config.d_model, config.n_classes)
            for layer in (self.pooler, self.classifier):
                initialize_linear(layer)

    def forward(
        self,
        tokens: Int[Tensor, "B L"],
        padding_mask: Bool[Tensor, "B L"] | None = None,
        token_types: Int[Tensor, "B L"] | None = None,
    ) -> Float[Tensor, "B L V"]:
        """Return the logits of the token at each position."""
        return self.head(self.hidden(tokens, padding_mask, token_types))

    def hidden(
        self,
        tokens: Int[Tensor, "B L"],
        padding_mask: Bool[Tensor, "B L"] | None = None,
        token_types: Int[Tensor, "B L"] | None = None,
    ) -> Float[Tensor, "B L d"]:
        """Return what the head reads: the stream, transformed once more."""
        x = self.stack(tokens, padding_mask, token_types=token_types)
        return self.norm(self.activation(self.transform(x)))

    def classify(
        self,
        tokens: Int[Tensor, "B L"],
        padding_mask: Bool[Tensor, "B L"] | None = None,
        token_types: Int[Tensor, "B L"] | None = None,
    ) -> Float[Tensor, "B n_classes"]:
        """Return the logits of the classes, read from the first position of each row."""
        if self.classifier is None:
            raise ValueError("n_classes=0: the model has no classifier; give n_classes")
        first = self.stack(tokens, padding_mask, token_types=token_types)[:, 0]
        return self.classifier(self.dropout(self.pooler(first).tanh()))

    def loss(
        self,
        inputs: Int[Tensor, "B L"],
        targets: Int[Tensor, "B L"],
        reduction: Reduction = "mean",
        padding_mask: Bool[Tensor, "B L"] | None = None,
    ) -> Loss:
        """Compute the loss at the masked positions, in nats: those whose target is not IGNORE."""
        return token_loss(self.hidden(inputs, padding_mask), self.head, targets, reduction)


class VisionTransformer(Model):
    """An encoder of image patches and a classifier.

    Source: Dosovitskiy et al. 2020, section 3.1.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        if not config.n_classes:
            raise ValueError("n_classes=0 leaves nothing to choose from; say how many there are")
        self.config = config = replace(config, causal=False, position="none")
        self.stack = Stack(config, PatchEmbedding(config))
        self.head = nn.Linear(config.d_model, config.n_classes, bias=config.head_bias)
        nn.init.zeros_(self.head.weight)  # all classes equally likely at first
        if self.head.bias is not None:
            nn.init.zeros_(self.head.bias)

    def forward(self, images: Float[Tensor, "B C height width"]) -> Float[Tensor, "B n_classes"]:
        """Return the logits of the classes."""
        return self.head(self.hidden(images)).squeeze(1)

    def hidden(self, images: Float[Tensor, "B C height width"]) -> Float[Tensor, "B 1 d"]:
        """Return what the head reads: the first position, or the mean of all, normed before."""
        x = self.stack(images)
        return x[:, :1] if self.config.pooling == "first" else x.mean(dim=1, keepdim=True)

    def loss(
        self,
        inputs: Float[Tensor, "B C height width"],
        targets: Int[Tensor, "B 1"],
        reduction: Reduction = "mean",
    ) -> Loss:
        """Compute the loss of the images' classes in nats."""
        return token_loss(self.hidden(inputs), self.head, targets, reduction)


class EncoderDecoder(Model):
    """A causal decoder that also reads what an encoder made of a source.

    With `tie_embeddings` one matrix serves the source's tokens, the target's, and the head. The
    model of 2017 has `norm_position="post"`, `position="sinusoidal"`, `activation="relu"`,
    `embedding_scale=True` and `bias=True`.

    Source: Vaswani et al. 2017, sections 3.1, 3.2.3 and 3.4.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = Stack(replace(config, causal=False))
        decoder = replace(config, cross_attention=True, n_layers=config.n_decoder_layers)
        self.decoder = Stack(decoder)
        if config.tie_embeddings:
            self.decoder.embedding.weight = self.encoder.embedding.weight
        self.head = vocabulary_head(config, self.decoder)

    def encode(
        self, source: Int[Tensor, "B M"], source_mask: Bool[Tensor, "B M"] | None = None
    ) -> Float[Tensor, "B M d"]:
        """Return what the decoder reads of a source."""
        return self.encoder(source, source_mask)

    def hidden(
        self,
        tokens: Int[Tensor, "B L"],
        encoded: Float[Tensor, "B M d"] | Sequence[KeysAndValues],
        source_mask: Bool[Tensor, "B M"] | None = None,
        padding_mask: Bool[Tensor, "B S"] | None = None,
        cache: Cache | None = None,
    ) -> Float[Tensor, "B L d"]:
        """Return what the head reads. `encoded` is the result of `encode`, or `decoder.read`'s."""
        return self.decoder(tokens, padding_mask, cache, source=encoded, source_mask=source_mask)

    def forward(
        self,
        tokens: Int[Tensor, "B L"],
        source: Int[Tensor, "B M"],
        source_mask: Bool[Tensor, "B M"] | None = None,
        padding_mask: Bool[Tensor, "B L"] | None = None,
    ) -> Float[Tensor, "B L V"]:
        """Return the logits of each next token of the target."""
        encoded = self.encode(source, source_mask)
        return self.head(self.hidden(tokens, encoded, source_mask, padding_mask))

    def loss(
        self,
        inputs: Int[Tensor, "B L"],
        targets: Int[Tensor, "B L"],
        reduction: Reduction = "mean",
        *,
        source: Int[Tensor, "B M"],
        source_mask: Bool[Tensor, "B M"] | None = None,
    ) -> Loss:
        """Compute the next-token loss of the target, given its source, in nats."""
        hidden = self.hidden(inputs, self.encode(source, source_mask), source_mask)
        return token_loss(hidden, self.head, targets, reduction)


def vocabulary_head(config: ModelConfig, stack: Stack) -> nn.Linear:
    """Build the layer that scores every token, tied to the stack's embedding or not."""
    head = nn.Linear(config.d_model, config.vocab_size, bias=config.head_bias)
    if config.tie_embeddings:
        head.weight = stack.embedding.weight  # one tensor with several readers
    else:
        nn.init.normal_(head.weight, std=embedding_std(config))
    if head.bias is not None:
        nn.init.zeros_(head.bias)
    return head


ARCHITECTURES: dict[str, type[Model]] = {
    architecture.__name__: architecture
    for architecture in (DecoderLM, Encoder, VisionTransformer, EncoderDecoder)
}
"""The classes by name, as checkpoints store them."""
