"""The shape of a model, checked once when it is written down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args, get_type_hints

Norm = Literal["layernorm", "rmsnorm"]
NormPosition = Literal["pre", "post"]
Activation = Literal["relu", "gelu", "gelu_tanh", "silu", "swiglu"]
Position = Literal["learned", "sinusoidal", "rope", "none"]


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Everything that decides a model's shape and its forward pass.

    A field left at `None` is derived when the object is made, so that every attribute that code
    reads is a number. `dataclasses.replace` copies the derived numbers too: give the fields that
    should follow (`d_ff`, `head_dim`) along with the one you change.

    Raises:
        TypeError: a field has the wrong type.
        ValueError: a combination that no model can have; the message names the field and a fix.
    """

    vocab_size: int
    d_model: int = 128
    n_layers: int = 4
    n_heads: int = 4
    n_kv_heads: int = None  # type: ignore[assignment]  # n_heads
    head_dim: int = None  # type: ignore[assignment]  # d_model // n_heads
    d_ff: int = None  # type: ignore[assignment]  # 4 d_model; 8/3 d_model for swiglu
    max_len: int = 256
    norm: Norm = "layernorm"
    norm_position: NormPosition = "pre"
    norm_eps: float = 1e-5
    activation: Activation = "gelu"
    position: Position = "learned"
    rope_theta: float = 10_000.0
    bias: bool = False  # of the linear layers; a LayerNorm keeps its shift either way
    qkv_bias: bool = None  # type: ignore[assignment]  # bias (Qwen2 keeps these alone)
    head_bias: bool = False
    tie_embeddings: bool = True
    embedding_scale: bool = False  # multiply token embeddings by the square root of d_model
    dropout: float = 0.0
    causal: bool = True

    # Switches of the lessons. Their defaults change nothing.
    residual: bool = True  # False: every branch replaces the stream instead of adding to it
    residual_decay: float = 1.0  # alpha: what a branch keeps of the stream before it adds
    attention: bool = True
    mlp: bool = True

    def __post_init__(self) -> None:
        self._derive()
        self._check_types()
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

    def _check_types(self) -> None:
        for field, hint in get_type_hints(ModelConfig).items():
            value = getattr(self, field)
            if options := get_args(hint):
                if value not in options:
                    raise ValueError(f"{field}={value!r} is unknown; choose {_or(options)}")
            elif hint is float and type(value) is int:
                object.__setattr__(self, field, float(value))
            elif type(value) is not hint:
                raise TypeError(f"{field}={value!r} must be of type {hint.__name__}")

    def _check_values(self) -> None:
        _positive(self, "vocab_size", "n_kv_heads", "head_dim", "d_ff", "max_len")
        if self.n_layers < 0:
            raise ValueError(f"n_layers={self.n_layers} is negative; use 0 or more")
        if self.n_heads % self.n_kv_heads:
            divisors = [k for k in range(1, self.n_heads + 1) if self.n_heads % k == 0]
            raise ValueError(
                f"n_kv_heads={self.n_kv_heads} does not divide n_heads={self.n_heads}; "
                f"choose {_or(divisors)}"
            )
        if self.position == "rope" and self.head_dim % 2:
            raise ValueError(
                f"head_dim={self.head_dim} is odd, but position='rope' rotates pairs of features; "
                "choose an even head_dim"
            )
        if self.position == "sinusoidal" and self.d_model % 2:
            raise ValueError(
                f"d_model={self.d_model} is odd, but position='sinusoidal' pairs sines with "
                "cosines; choose an even d_model"
            )
        for field in ("norm_eps", "rope_theta"):
            if not 0 < getattr(self, field) < float("inf"):
                raise ValueError(f"{field}={getattr(self, field)} must be positive and finite")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout={self.dropout} is no probability below 1; use 0 to 0.99")
        if not 0 < self.residual_decay <= 1:
            raise ValueError(
                f"residual_decay={self.residual_decay} is outside (0, 1]; "
                "use 1 to keep the whole stream, residual=False to keep nothing"
            )
        if not self.residual and self.residual_decay != 1:
            raise ValueError(
                f"residual_decay={self.residual_decay} has no effect with residual=False; "
                "set one of the two"
            )

    @property
    def gated(self) -> bool:
        """Whether the feed-forward layer multiplies two projections (SwiGLU)."""
        return self.activation == "swiglu"


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
