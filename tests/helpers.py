"""Small models with loud weights, and plain references to compare them with."""

from __future__ import annotations

import math
from typing import Any, TypeVar

import torch
from hypothesis import settings
from torch import Tensor, nn

from tfcourse.architectures import DecoderLM
from tfcourse.config import ModelConfig

M = TypeVar("M", bound=nn.Module)

few = settings(max_examples=12, derandomize=True, deadline=None, database=None)
"""Hypothesis settings of this suite: few examples, the same ones in every run."""


def tiny(**fields: Any) -> ModelConfig:
    """Return a config that runs in milliseconds; `fields` override it."""
    defaults = dict(vocab_size=50, d_model=32, n_heads=4, n_layers=2, max_len=32)
    return ModelConfig(**{**defaults, **fields})


def loud(module: M, seed: int = 0) -> M:
    """Redraw every parameter with a large spread, norms and biases too.

    Freshly initialized weights are so small that a model whose attention is wrong differs from the
    right one by less than a tolerance, and gains of 1 and shifts of 0 hide that they are unused.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.dim() == 1 and name.endswith("weight"):  # a norm's gain
                parameter.copy_(1 + 0.3 * noise)
            elif parameter.dim() == 1 or "embedding" in name:
                parameter.copy_(0.3 * noise)
            else:
                parameter.copy_(1.5 * noise / math.sqrt(parameter.shape[1]))
    return module


def tiny_lm(seed: int = 0, **fields: Any) -> DecoderLM:
    """Return a small decoder in evaluation mode, its weights loud."""
    return loud(DecoderLM(tiny(**fields)), seed).eval()


WORDS = torch.randint(400, (4, 25), generator=torch.Generator().manual_seed(0))
"""A batch for `untrained`: inputs and targets."""


def untrained(n_layers: int, order: str = "pre", weights: str = "xavier", seed: int = 0):
    """A stack with Xavier weights and inputs of size 1, or with 0.02, or with the package's own."""
    torch.manual_seed(seed)
    sizes = dict(vocab_size=400, d_model=64, n_layers=n_layers, max_len=32, position="rope")
    xavier = weights == "xavier"
    stack = DecoderLM(ModelConfig(**sizes, norm_position=order, tie_embeddings=not xavier))
    if weights == "package":
        return stack
    if xavier:
        nn.init.normal_(stack.stack.embedding.weight)
    for block in stack.stack.blocks:
        for branch in block.branches:
            for weight in branch.sublayer.parameters():
                for piece in weight.chunk(3) if weight.shape[0] == 3 * 64 else [weight]:
                    if xavier:
                        nn.init.xavier_normal_(piece.data)
                    else:
                        nn.init.normal_(piece.data, std=0.02)
    return stack


def last_gradient(stack: DecoderLM) -> float:
    """Return the gradient's norm at the last feed-forward weight, where Xiong et al. measure it."""
    weight = stack.stack.blocks[-1].feed_forward.sublayer.down.weight
    loss = stack.loss(WORDS[:, :-1], WORDS[:, 1:])
    return float(torch.autograd.grad(loss, weight)[0].norm())


def ids(*shape: int, vocab_size: int = 50, seed: int = 0) -> Tensor:
    """Draw token ids."""
    return torch.randint(vocab_size, shape, generator=torch.Generator().manual_seed(seed))


def normal(*shape: int, seed: int = 0) -> Tensor:
    """Draw standard normal numbers."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


class ListCache:
    """A layer's cache in its plainest form: concatenate."""

    def __init__(self) -> None:
        self.keys: Tensor | None = None
        self.values: Tensor | None = None

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        if self.keys is not None and self.values is not None:
            keys = torch.cat([self.keys, keys], dim=2)
            values = torch.cat([self.values, values], dim=2)
        self.keys, self.values = keys, values
        return keys, values


def naive_attention(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> Tensor:
    """Attend in loops, one query at a time. q [H L k], k and v [K S k], allowed [L S]."""
    n_heads, length, width = q.shape
    per_group = n_heads // len(k)
    out = torch.zeros_like(q)
    for head in range(n_heads):
        keys, values = k[head // per_group], v[head // per_group]
        for i in range(length):
            seen = [j for j in range(keys.shape[0]) if allowed[i, j]]
            if seen:
                scores = torch.stack([q[head, i] @ keys[j] / math.sqrt(width) for j in seen])
                weights = scores.exp() / scores.exp().sum()
                out[head, i] = sum(w * values[j] for w, j in zip(weights, seen, strict=True))
    return out


def one_line(error: BaseException, *parts: str) -> None:
    """Assert that a message is one line and names every part: the field, its value, the fix."""
    message = str(error)
    assert "\n" not in message, message
    for part in parts:
        assert part in message, f"{part!r} is missing in: {message}"
