"""What the grader hands to a student's function: small functions and modules with known weights.

They run in the student's process. A function that wants a sublayer, a model or a batch gets one
that both sides can make from the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tfcourse.architectures import DecoderLM, EncoderDecoder
from tfcourse.attention import MultiHeadAttention
from tfcourse.config import ModelConfig
from tfcourse.data.tokenizers import BOS, EOS, PAD
from tfcourse.feedforward import FeedForward
from tfcourse.norms import LayerNorm


def linear(weight: Tensor, bias: Tensor | None = None) -> nn.Linear:
    """Make a linear layer of known weights, [d_out d_in] and [d_out]."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    with torch.no_grad():
        layer.weight.copy_(weight)
        if bias is not None:
            layer.bias.copy_(bias)
    return layer.to(weight.dtype)


def identity() -> nn.Identity:
    """Make a module that returns its input itself, not a copy."""
    return nn.Identity()


def scale(factor: float) -> Callable[[Tensor], Tensor]:
    """Make a function that multiplies by `factor`."""
    return lambda x: factor * x


def tanh_of(weight: Tensor) -> Callable[[Tensor], Tensor]:
    """Make the function x ↦ tanh(x Wᵀ), with W of shape [d d]."""
    return lambda x: torch.tanh(x @ weight.mT)


def constant(value: Tensor) -> Callable[[Tensor], Tensor]:
    """Make a function that returns `value`, whatever it reads."""
    return lambda x: value


def used(weight: Tensor, bias: Tensor | None = None) -> nn.Linear:
    """Make a linear layer in which an earlier backward pass has left gradients of 1."""
    layer = linear(weight, bias)
    for parameter in layer.parameters():
        parameter.grad = torch.ones_like(parameter)
    return layer


def mlp(up: Tensor, down: Tensor) -> nn.Sequential:
    """Make down(tanh(up(x))) of known weights, [d_ff d] and [d d_ff]."""
    return nn.Sequential(linear(up), nn.Tanh(), linear(down))


def layer_norm(gain: Tensor, shift: Tensor, eps: float = 1e-5) -> LayerNorm:
    """Make a LayerNorm of known gain and shift, [d] each."""
    norm = LayerNorm(len(gain), eps).to(gain.dtype)
    norm.load_state_dict({"weight": gain, "bias": shift})
    return norm


def mix_positions(weight: Tensor) -> Callable[[Tensor], Tensor]:
    """Make the function x ↦ W x of each text: position i reads position j where W[i, j] is not 0.

    W is [L L]. It is causal where W is lower triangular.
    """
    return lambda x: weight @ x


def batch_norm(d: int, training: bool) -> Callable[[Tensor], Tensor]:
    """Make a new BatchNorm over all positions of all texts, [B L d] → [B L d], in one mode."""
    norm = nn.BatchNorm1d(d).train(training)
    return lambda x: norm(x.flatten(0, 1)).view_as(x)


def attention_layer(qkv: Tensor, out: Tensor, n_heads: int) -> MultiHeadAttention:
    """Make causal multi-head attention of known weights, [3 d, d] and [d d]."""
    layer = MultiHeadAttention(ModelConfig(vocab_size=2, d_model=out.shape[0], n_heads=n_heads))
    layer.load_state_dict({"qkv.weight": qkv, "out.weight": out})
    return layer


def feed_forward(up: Tensor, down: Tensor) -> FeedForward:
    """Make an MLP with GELU of known weights, [d_ff d] and [d d_ff]."""
    layer = FeedForward(ModelConfig(vocab_size=2, d_model=up.shape[1], n_heads=1, d_ff=up.shape[0]))
    layer.load_state_dict({"up.weight": up, "down.weight": down})
    return layer


def decoder(fields: dict, state: dict[str, Tensor]) -> DecoderLM:
    """Make a `DecoderLM` of this configuration and these weights."""
    model = DecoderLM(ModelConfig(**fields))
    model.load_state_dict(state)
    return model


class Parts(nn.Module):
    """Parts under their names, which cannot be called as a whole."""

    def __init__(self, **parts: object) -> None:
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *args: object, **kwargs: object) -> Tensor:
        """Refuse, and say what to call."""
        raise RuntimeError("call the parts one after the other, not the model or its stack.")


def decoder_parts(fields: dict, state: dict[str, Tensor]) -> Parts:
    """Make the parts of a `DecoderLM`, under the names that they have there."""
    model = decoder(fields, state)
    stack = Parts(config=model.config, **dict(model.stack.named_children()))
    return Parts(config=model.config, stack=stack, head=model.head)


def encoder_decoder(fields: dict, state: dict[str, Tensor]) -> nn.Module:
    """Make an `EncoderDecoder` of this configuration and these weights, in evaluation mode."""
    model = EncoderDecoder(ModelConfig(**fields))
    model.load_state_dict(state)
    return model.eval()


def mix_heads(weights: Tensor) -> Callable[[Tensor], Tensor]:
    """Make a function on [B H L d_k] that mixes each head's positions by its own [L L] table.

    `weights` is [H L L]. Other shapes raise `ValueError`.
    """

    def mix(x: Tensor) -> Tensor:
        if x.ndim != 4 or x.shape[1:3] != weights.shape[:2]:
            H, L = weights.shape[:2]
            raise ValueError(f"f got {list(x.shape)}; it works on [B H L d_k], here [B {H} {L} …]")
        return weights @ x

    return mix


def decoder_lm(fields: dict[str, Any], seed: int, old_gradient: float = 0.0) -> DecoderLM:
    """Make a language model with the weights of a seed, from the fields of its `ModelConfig`.

    Each weight may hold an old gradient, as after an earlier step.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = DecoderLM(ModelConfig(**fields))
    if old_gradient:
        for weight in model.parameters():
            weight.grad = torch.full_like(weight, old_gradient)
    return model


def markov_rows(table: Tensor, length: int, seed: int) -> Callable[[int], Tensor]:
    """Make a function that draws new texts, one a row: n ↦ ids [n length+1].

    `table` [V V V] holds the probability of each next id after the two before it; the id before
    BOS is BOS. A text ends with EOS, and PAD fills the row, or the row cuts it off.
    """
    generator = torch.Generator().manual_seed(seed)

    def sample(n: int) -> Tensor:
        rows = torch.full((n, length + 1), PAD)
        rows[:, 0] = BOS
        before, last = rows[:, 0], rows[:, 0]
        for i in range(1, length + 1):
            drawn = torch.multinomial(table[before, last], 1, generator=generator)[:, 0]
            over = (last == EOS) | (last == PAD)
            rows[:, i] = drawn.masked_fill(over, PAD)
            before, last = last, rows[:, i]
        return rows

    return sample
