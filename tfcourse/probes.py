"""Look at the residual stream of a model while it runs. The model is left as it was."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from tfcourse.architectures import DecoderLM, Model
from tfcourse.attention import MultiHeadAttention
from tfcourse.config import ModelConfig
from tfcourse.norms import LayerNorm, RMSNorm
from tfcourse.residuals import ResidualBranch


def part_names(model: DecoderLM) -> list[str]:
    """Name the writers of the stream in order: the embedding (with positions), then each branch."""
    names = ["embedding"]
    for i, block in enumerate(model.stack.blocks, start=1):
        if block.attention is not None:
            names.append(f"attention {i}")
        if block.feed_forward is not None:
            names.append(f"MLP {i}")
    return names


@torch.no_grad()
def record_stream(model: DecoderLM, tokens: Int[Tensor, "B L"]) -> Float[Tensor, "parts B L d"]:
    """Return the stream as the embedding leaves it and as each branch leaves it."""
    with _watch(model) as (streams, _):
        model.hidden(tokens)
    return torch.stack(streams)


@torch.no_grad()
def decompose(model: DecoderLM, tokens: Int[Tensor, "B L"]) -> Float[Tensor, "parts B L d"]:
    """Split the last stream into what each writer put there; the parts add up to it.

    Where branches keep only α of the stream, a part counts with what is left of it at the end.

    Raises:
        ValueError: a post-norm model. Its stream is rescaled twice a block and is no sum.
    """
    config = model.config
    if config.norm_position != "pre":
        raise ValueError(
            f"norm_position={config.norm_position!r} has no exact sum; use a pre-norm model"
        )
    with _watch(model) as (streams, updates):
        model.hidden(tokens)
    alpha = config.residual_decay if config.residual else 0.0
    parts = torch.stack([streams[0], *updates])
    steps_left = torch.arange(len(parts) - 1, -1, -1, device=parts.device, dtype=parts.dtype)
    return parts * (alpha**steps_left).view(-1, 1, 1, 1)


@torch.no_grad()
def attribute_logits(
    model: DecoderLM, tokens: Int[Tensor, "B L"]
) -> dict[str, Float[Tensor, "B V"]]:
    """Say how much each part of the last position's stream adds to each next-token logit.

    Exact: the values add up to the logits. The final norm divides by one number per position; with
    that number kept as the whole stream made it, the norm and the head are linear in the parts. A
    last entry "shift" holds what does not depend on the stream: the norm's β and the head's bias.
    """
    parts = decompose(model, tokens)[:, :, -1]  # [parts B d]
    norm = model.stack.final_norm
    stream = parts.sum(dim=0)
    shift = torch.zeros_like(stream[:1])
    assert isinstance(norm, LayerNorm | RMSNorm)
    if isinstance(norm, LayerNorm):
        parts = parts - parts.mean(dim=-1, keepdim=True)
        stream = stream - stream.mean(dim=-1, keepdim=True)
        shift = shift + norm.bias
    scale = (stream.square().mean(dim=-1, keepdim=True) + norm.eps).rsqrt()  # [B 1]
    values = [(part * scale * norm.weight) @ model.head.weight.T for part in parts]
    return dict(zip(part_names(model), values, strict=True)) | {
        "shift": model.head(shift).expand_as(values[0])
    }


def mean_cosine(x: Float[Tensor, "B L d"]) -> float:
    """Return the cosine between two positions of one row, averaged over all pairs and rows.

    1 means that all positions point the same way; unrelated vectors give about 0.
    """
    length = x.shape[1]
    if length < 2:
        raise ValueError(f"x has {length} positions; a pair needs at least 2")
    tiny = torch.finfo(x.dtype).tiny
    x = F.normalize(x, p=math.inf, dim=-1, eps=tiny)  # squares of tiny numbers would be 0
    unit = F.normalize(x, dim=-1)
    with_itself = unit.square().sum(dim=(-1, -2))
    total = unit.sum(dim=1).square().sum(dim=-1)  # sum over all pairs, each position with itself
    return float(((total - with_itself) / (length * (length - 1))).mean())


def measure_stream(
    model: DecoderLM, inputs: Int[Tensor, "B L"], targets: Int[Tensor, "B L"]
) -> dict[str, Any]:
    """Measure one stack: alikeness, size and gradient along its depth.

    Returns the settings `residual`, `alpha` and `depth`; `cosine` and `stream_rms` with depth + 1
    numbers each, for the stream before the first block and after each block; and with one number
    per block `weight_gradient`, over all weights, and `query_key_gradient`, over those that make
    the queries and keys (0 without attention). Gradients are norms, of the mean loss. The record
    has the form that `widgets.ResidualLab` takes.

    Raises:
        ValueError: there is no block, or one that is frozen.
    """
    config = model.config
    with _watch(model) as (streams, _):
        loss = model.loss(inputs, targets)
    streams = streams[:: 2 if config.attention and config.mlp else 1]  # two branches a block
    blocks = [dict(block.named_parameters()) for block in model.stack.blocks]
    weights = [w for of in blocks for w in of.values()]
    if not weights or not all(w.requires_grad for w in weights):
        raise ValueError("no gradient to measure: n_layers=0, or blocks are frozen; unfreeze them")
    gradients = iter(torch.autograd.grad(loss, weights))
    by_name = [dict(zip(block, gradients, strict=False)) for block in blocks]
    return {
        "residual": config.residual,
        "alpha": config.residual_decay if config.residual else 1.0,
        "depth": config.n_layers,
        "cosine": [mean_cosine(x.detach()) for x in streams],
        "stream_rms": [float(x.detach().square().mean().sqrt()) for x in streams],
        "weight_gradient": [math.hypot(*(g.norm() for g in b.values())) for b in by_name],
        "query_key_gradient": [_query_key_norm(block, config) for block in by_name],
    }


def _query_key_norm(gradients: dict[str, Tensor], config: ModelConfig) -> float:
    if not config.attention:
        return 0.0
    rows = (config.n_heads + config.n_kv_heads) * config.head_dim  # those of the values follow
    return float(gradients["attention.sublayer.qkv.weight"][:rows].norm())


@torch.no_grad()
def attention_weights(model: Model, *inputs: Any, **options: Any) -> dict[str, Tensor]:
    """Run a model; return the weights [B H L S] of each of its attention layers, by name.

    A row says how much each position gathers from which: rows add up to 1, but for positions that
    may attend to nothing. The names are those of `model.named_modules()`; cross-attention is there,
    too, where the model has it.
    """
    weights = {}

    def again(name: str, layer: Any, inputs: Any, options: Any, output: Tensor) -> None:
        weights[name] = layer.with_weights(*inputs, **options)[1]

    with _hooks(model, MultiHeadAttention, again):
        model(*inputs, **options)
    return weights


@torch.no_grad()
def mlp_activations(model: Model, *inputs: Any, **options: Any) -> dict[str, Tensor]:
    """Run a model; return how far each row of each feed-forward layer is on, [B L d_ff], by name.

    The row's number is what its column of `down` is multiplied by: activation(up(x)), or with
    SwiGLU silu(gate(x)) ⊙ up(x).
    """
    rows = {}

    def look(name: str, layer: Any, inputs: Any, options: Any, output: Tensor) -> None:
        rows[name] = inputs[0]

    with _hooks(model, nn.Linear, look, ending=".down"):
        model(*inputs, **options)
    return {name.removesuffix(".down"): values for name, values in rows.items()}


@contextmanager
def _hooks(model: Model, kind: Any, hook: Callable[..., None], ending: str = "") -> Iterator[None]:
    """Call a hook with the name of each layer of a kind as it computes, without dropout."""
    handles = [
        layer.register_forward_hook(partial(hook, name), with_kwargs=True)
        for name, layer in model.named_modules()
        if isinstance(layer, kind) and name.endswith(ending)
    ]
    try:
        with model.evaluating():
            yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def _watch(model: DecoderLM) -> Iterator[tuple[list[Tensor], list[Tensor]]]:
    """Collect the streams and the branches' updates of a forward pass."""
    streams: list[Tensor] = []
    updates: list[Tensor] = []

    def look(name: str, layer: Any, inputs: Any, options: Any, output: Tensor) -> None:
        is_update = isinstance(layer, nn.Dropout) and "blocks" in name
        (updates if is_update else streams).append(output)

    with _hooks(model, (ResidualBranch, nn.Dropout), look):
        yield streams, updates
