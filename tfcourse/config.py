"""The shape of a model and of its training, checked once when they are written down."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal, get_args, get_type_hints


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Everything that decides a model's shape and its forward pass.

    Each field carries its meaning, which the command line shows. One left at `None` is derived as
    its parentheses say when the object is made, so that every attribute that code reads has a
    value. `dataclasses.replace` copies the derived numbers too: give the fields that
    should follow (`d_ff`, `head_dim`) along with the one you change.

    Raises:
        TypeError: a field has the wrong type.
        ValueError: a combination that no model can have; the message names the field and a fix.
    """

    vocab_size: Annotated[int, "number of different tokens"] = 0
    d_model: Annotated[int, "width of the residual stream, features"] = 128
    n_layers: Annotated[int, "number of blocks"] = 4
    n_heads: Annotated[int, "query heads per block"] = 4
    n_kv_heads: Annotated[int, "key and value heads (n_heads)"] = None  # type: ignore[assignment]
    head_dim: Annotated[int, "features per head (d_model / n_heads)"] = None  # type: ignore[assignment]
    d_ff: Annotated[int, "feed-forward features (4 d_model; 8/3 d_model for swiglu)"] = None  # type: ignore[assignment]
    max_len: Annotated[int, "longest sequence, tokens"] = 256
    norm: Annotated[Literal["layernorm", "rmsnorm"], "kind of norm"] = "layernorm"
    norm_position: Annotated[Literal["pre", "post"], "norm before or after a branch"] = "pre"
    norm_eps: Annotated[float, "added to the variance under the root"] = 1e-5
    activation: Annotated[
        Literal["relu", "gelu", "gelu_tanh", "silu", "swiglu"], "of the feed-forward layer"
    ] = "gelu"
    position: Annotated[
        Literal["learned", "sinusoidal", "rope", "none"], "how positions are told apart"
    ] = "learned"
    rope_theta: Annotated[float, "base of the rotary wavelengths"] = 10_000.0
    bias: Annotated[bool, "biases in linear layers (a LayerNorm keeps its shift)"] = False
    qkv_bias: Annotated[bool, "biases on queries, keys and values (bias)"] = None  # type: ignore[assignment]
    head_bias: Annotated[bool, "a bias in the vocabulary head"] = False
    tie_embeddings: Annotated[bool, "one matrix for the embedding and the head"] = True
    embedding_scale: Annotated[bool, "multiply embeddings by the root of d_model"] = False
    dropout: Annotated[float, "share of values dropped in training"] = 0.0
    causal: Annotated[bool, "let no position read a later one"] = True

    # What only some architectures have.
    n_decoder_layers: Annotated[int, "blocks of a decoder beside an encoder (n_layers)"] = None  # type: ignore[assignment]
    cross_attention: Annotated[bool, "blocks also read a source"] = False
    n_token_types: Annotated[int, "parts of an input that are told apart"] = 0
    embedding_norm: Annotated[bool, "a norm before the first block"] = False
    n_classes: Annotated[int, "classes to choose from"] = 0
    pooling: Annotated[Literal["first", "mean"], "what a class is read from"] = "first"
    image_height: Annotated[int, "pixels"] = 0
    image_width: Annotated[int, "pixels"] = 0
    image_channels: Annotated[int, "numbers per pixel"] = 1
    patch_size: Annotated[int, "side of a square patch, pixels"] = 0
    # Switches of the lessons. Their defaults change nothing.
    residual: Annotated[bool, "add a branch to the stream; if false, replace it"] = True
    residual_decay: Annotated[float, "share of the stream that a branch keeps (alpha)"] = 1.0
    attention: Annotated[bool, "blocks have attention"] = True
    mlp: Annotated[bool, "blocks have a feed-forward layer"] = True

    def __post_init__(self) -> None:
        self._derive()
        _check_types(self)
        self._check_values()

    def _derive(self) -> None:
        def default(field: str, value: object) -> None:
            if getattr(self, field) is None:
                object.__setattr__(self, field, value)

        _positive(self, "d_model", "n_heads")
        default("n_kv_heads", self.n_heads)
        if self.head_dim is None and self.d_model % self.n_heads:
            raise ValueError(
                f"n_heads={self.n_heads} does not divide d_model={self.d_model}; "
                "choose a divisor, or give head_dim"
            )
        default("head_dim", self.d_model // self.n_heads)
        # Three matrices of 8/3 d cost what two of 4 d do (Shazeer 2020, section 2).
        default("d_ff", round(8 * self.d_model / 3) if self.gated else 4 * self.d_model)
        default("qkv_bias", self.bias)
        default("n_decoder_layers", self.n_layers)

    def _check_values(self) -> None:
        _positive(self, "n_kv_heads", "head_dim", "d_ff", "max_len", "image_channels")
        images = self.patch_size or self.image_height
        _positive(self, "patch_size" if images else "vocab_size")
        for field in ("vocab_size", "n_layers", "n_decoder_layers", "n_token_types", "n_classes"):
            if getattr(self, field) < 0:
                raise ValueError(f"{field}={getattr(self, field)} is negative; use 0 or more")
        for field in ("image_height", "image_width") if images else ():
            size = getattr(self, field)
            if size < 1 or size % self.patch_size:
                raise ValueError(
                    f"{field}={size} is no multiple of patch_size={self.patch_size}; "
                    "choose one, so that patches fill the image"
                )
        if self.n_heads % self.n_kv_heads:
            divisors = [k for k in range(1, self.n_heads + 1) if self.n_heads % k == 0]
            raise ValueError(
                f"n_kv_heads={self.n_kv_heads} does not divide n_heads={self.n_heads}; "
                f"choose {_or(divisors)}"
            )
        for kind, field in (("rope", "head_dim"), ("sinusoidal", "d_model")):
            if self.position == kind and getattr(self, field) % 2:
                raise ValueError(
                    f"{field}={getattr(self, field)} is odd, but position={kind!r} works on pairs "
                    f"of features; choose an even {field}"
                )
        for field in ("norm_eps", "rope_theta"):
            if not 0 < getattr(self, field) < math.inf:
                raise ValueError(
                    f"{field}={getattr(self, field)} must be positive and finite, "
                    f"such as {getattr(type(self), field)}"
                )
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout={self.dropout} is no probability below 1; use 0 to 0.99")
        if not 0 < self.residual_decay <= 1 or (self.residual_decay < 1 and not self.residual):
            raise ValueError(
                f"residual_decay={self.residual_decay} must lie in (0, 1], and be 1 with "
                "residual=False, which keeps nothing"
            )

    @property
    def gated(self) -> bool:
        """Whether the feed-forward layer multiplies two projections (SwiGLU)."""
        return self.activation == "swiglu"


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How a model is trained. Each field carries its meaning, which the command line shows.

    Raises:
        TypeError, ValueError: a value that no run can have; the message names the field.
    """

    steps: Annotated[int, "optimizer steps in the whole run"] = 1000
    batch_size: Annotated[int, "rows per optimizer step"] = 64
    accumulate: Annotated[int, "parts that a batch is computed in, to save memory"] = 1
    lr: Annotated[float, "peak learning rate of AdamW"] = 1e-3
    min_lr_ratio: Annotated[float, "share of the learning rate left at the end"] = 0.0
    warmup: Annotated[int, "steps until the learning rate peaks"] = 50
    weight_decay: Annotated[float, "decay of weight matrices, per unit of learning rate"] = 0.1
    beta1: Annotated[float, "decay of AdamW's mean gradient"] = 0.9
    beta2: Annotated[float, "decay of AdamW's mean squared gradient"] = 0.99
    clip: Annotated[float, "largest gradient norm; 0 for no limit"] = 1.0
    optimizer: Annotated[
        Literal["adamw", "muon"], "muon takes the blocks' matrices, AdamW the rest"
    ] = "adamw"
    muon_lr: Annotated[float, "peak learning rate of Muon"] = 0.02
    precision: Annotated[
        Literal["auto", "fp32", "bf16", "fp16"], "number format of matrix products"
    ] = "auto"
    compile: Annotated[bool, "compile the model (torch.compile)"] = False
    fsdp: Annotated[bool, "split the weights over the processes of torchrun (FSDP2)"] = False
    device: Annotated[str, "cpu, cuda, mps, or auto for the best there is"] = "auto"
    seed: Annotated[int, "of dropout and of the first weights; the data has its own"] = 0
    eval_every: Annotated[int, "steps between held-out scores; 0 for the end alone"] = 0
    save_every: Annotated[int, "steps between checkpoints; 0 for the end alone"] = 200

    def __post_init__(self) -> None:
        _check_types(self)
        for name, low in (("steps", 1), ("batch_size", 1), ("accumulate", 1), ("warmup", 0)):
            if getattr(self, name) < low:
                raise ValueError(f"{name}={getattr(self, name)} must be at least {low}")
        for name in ("eval_every", "save_every", "clip", "weight_decay"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name}={getattr(self, name)} must be 0 or more")
        for name in ("lr", "muon_lr"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name}={getattr(self, name)} must be a positive number")
        for name in ("beta1", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} is outside [0, 1)")
        if not 0 <= self.min_lr_ratio <= 1:
            raise ValueError(f"min_lr_ratio={self.min_lr_ratio} is outside [0, 1]")
        if self.warmup > self.steps:
            raise ValueError(f"warmup={self.warmup} is longer than steps={self.steps}; shorten it")
        if self.accumulate > self.batch_size:
            raise ValueError(
                f"accumulate={self.accumulate} parts of batch_size={self.batch_size} rows would be "
                "empty; use at most batch_size"
            )


def _check_types(config: ModelConfig | TrainConfig) -> None:
    for field, hint in get_type_hints(type(config)).items():
        value = getattr(config, field)
        if options := get_args(hint):
            if not isinstance(value, str) or value not in options:
                raise ValueError(f"{field}={value!r} is unknown; choose {_or(options)}")
        elif hint is float and type(value) is int and abs(value) < 2**63:
            object.__setattr__(config, field, float(value))
        elif type(value) is int and abs(value) >= 2**63:
            raise ValueError(f"{field} has more than 63 bits; give a smaller number")
        elif type(value) is not hint:
            raise TypeError(f"{field}={value!r} must be of type {hint.__name__}")


def _positive(config: ModelConfig, *fields: str) -> None:
    for field in fields:
        value = getattr(config, field)
        if type(value) is not int:
            raise TypeError(f"{field}={value!r} must be of type int")
        if value < 1:
            raise ValueError(f"{field}={value} must be at least 1")


def _or(options: object) -> str:
    *most, last = [repr(option) for option in options]  # type: ignore[attr-defined]
    return f"{', '.join(most)} or {last}" if most else last
