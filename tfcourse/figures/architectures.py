"""Chapter 06: who reads whom in a whole model, found while it runs, and the pictures of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle
from torch import Tensor, nn

from tfcourse.architectures import Model
from tfcourse.attention import MultiHeadAttention
from tfcourse.embeddings import PatchEmbedding, TokenEmbedding
from tfcourse.figures import COLORS, panels
from tfcourse.probes import attention_weights
from tfcourse.residuals import ResidualBranch

BRANCHES = {"attention": "self-attention", "cross": "cross-attention", "feed_forward": "MLP"}
KINDS = {
    "embedding": "embedding",
    "patches": "embedding",
    "self-attention": "attention",
    "cross-attention": "attention",
    "MLP": "mlp",
    "norm": "norm",
    "head": "mask",
}
"""Which of the colours each part has."""


@dataclass(frozen=True)
class Part:
    """One part of a model as it ran: what it read, and for attention the weights [L S].

    `reads` is the part whose result it took as its stream: there the queries come from, and in
    self-attention the keys and values too. `source` is the part that cross-attention took keys and
    values from. Both are names.
    """

    name: str
    label: str
    reads: str
    source: str
    weights: Tensor | None

    @property
    def column(self) -> str:
        """Return the stack that it belongs to: encoder, decoder, or stack where there is one."""
        return self.name.split(".")[0]

    @property
    def block(self) -> int:
        """Return the number of its block, from 1; 0 outside the blocks."""
        found = re.search(r"blocks\.(\d+)", self.name)
        return int(found[1]) + 1 if found else 0


@torch.no_grad()
def trace(model: Model, *inputs: Any, **options: Any) -> list[Part]:
    """Run a model; list its parts in the order in which they worked.

    Who read whom is seen from the tensors: each is the result of one part. The weights are those of
    the first row, averaged over the heads; exactly 0 where the mask forbids.
    """
    weights = attention_weights(model, *inputs, **options)
    parts: list[Part] = []
    made: dict[int, str] = {}  # by address: the part that made a tensor
    alive: list[Tensor] = []  # else a later tensor could get the address of an earlier one

    def look(name: str, module: nn.Module, args: Any, context: Any, output: Any) -> None:
        if not isinstance(output, Tensor):
            return
        alive.append(output)
        reads, source = (_maker(tensor, made, parts) for tensor in (args[0], context.get("source")))
        label = _label(name, module)
        if not label or output is args[0]:
            made.setdefault(output.data_ptr(), reads)  # a step on the way from part to part
            return
        made[output.data_ptr()] = name
        seen = weights.get(f"{name}.sublayer")
        parts.append(
            Part(name, label, reads, source, None if seen is None else seen[0].mean(dim=0))
        )

    def hook(name: str) -> Any:
        return lambda *seen: look(name, *seen)

    handles = [
        module.register_forward_hook(hook(name), with_kwargs=True)
        for name, module in model.named_modules()
        if name
    ]
    try:
        with model.evaluating():
            model(*inputs, **options)
    finally:
        for handle in handles:
            handle.remove()
    return parts


def _maker(tensor: Any, made: Mapping[int, str], parts: Sequence[Part]) -> str:
    """Name the part that made a tensor. A plain function's result (an activation, a mean) is the
    last part's."""
    if not isinstance(tensor, Tensor) or not tensor.is_floating_point():
        return ""
    return made.get(tensor.data_ptr(), parts[-1].name if parts else "")


def seen_tokens(model: Model, *inputs: Any, **options: Any) -> dict[str, dict[str, list[str]]]:
    """Say which tokens each query and each key of the first row is made from, by layer.

    Per attention layer: `queries` and `keys` (values are made from the same vectors as the keys), a
    text per position with 1 for each token of the inputs that has had a part in it and 0 for each
    that has not; the encoder's tokens first. Found from the gradient by the embeddings.
    """
    leaves: dict[str, Tensor] = {}
    layers: dict[str, tuple[Tensor, Tensor]] = {}

    def cut(name: str) -> Any:
        def replace(module: nn.Module, args: Any, output: Tensor) -> Tensor:
            leaves[name] = output.detach().requires_grad_()
            return leaves[name]

        return replace

    def keep(name: str) -> Any:
        def look(module: nn.Module, args: Any, context: Any, output: Tensor) -> None:
            source = context.get("source")
            layers[name.removesuffix(".sublayer")] = args[0], args[0] if source is None else source

        return look

    handles = []
    for name, module in model.named_modules():
        if isinstance(module, TokenEmbedding):
            handles.append(module.register_forward_hook(cut(name)))
        elif isinstance(module, MultiHeadAttention):
            handles.append(module.register_forward_hook(keep(name), with_kwargs=True))
    try:
        with torch.enable_grad(), model.evaluating():
            model(*inputs, **options)
    finally:
        for handle in handles:
            handle.remove()
    tokens = [leaves[name] for name in leaves]
    return {
        name: {"queries": _made_from(x, tokens), "keys": _made_from(source, tokens)}
        for name, (x, source) in layers.items()
    }


def _made_from(vectors: Float[Tensor, "B L d"], tokens: Sequence[Tensor]) -> list[str]:
    mixed = torch.randn(vectors.shape[-1], generator=torch.Generator().manual_seed(0))
    found = []
    for row in vectors[0]:
        gradients = torch.autograd.grad(row @ mixed, tokens, retain_graph=True, allow_unused=True)
        marks = [
            torch.zeros(token.shape[1]) if gradient is None else gradient[0].abs().sum(dim=-1)
            for gradient, token in zip(gradients, tokens, strict=True)
        ]
        found.append("".join("1" if mark > 0 else "0" for mark in torch.cat(marks)))
    return found


def _label(name: str, module: nn.Module) -> str:
    if isinstance(module, ResidualBranch):
        return BRANCHES[name.rsplit(".", 1)[-1]]
    if isinstance(module, PatchEmbedding):
        return "patches"
    if isinstance(module, TokenEmbedding):
        return "embedding"
    if name.endswith("final_norm"):
        return "norm"
    return "head" if name == "head" else ""


def draw_architectures(
    rows: Sequence[Mapping[str, Sequence[Part]]], height: float = 0.37
) -> Figure:
    """Draw traced models, bottom to top: a panel per row, side by side what a row names.

    Each attention has its weights beside it: a square is filled where a query (row) gathers from a
    key (column), and empty where the weight is 0. `height` is that of one part, in inches.
    """
    tallest = [
        max(len(column) for parts in row.values() for column in by_column(parts).values())
        for row in rows
    ]
    fig, axes = panels(len(rows))
    fig.set_figheight(sum(height * (n + 0.7) for n in tallest))
    grid = axes[0].get_gridspec()
    assert grid is not None
    grid.set_height_ratios([n + 0.7 for n in tallest])
    for ax, row, n in zip(axes, rows, tallest, strict=True):
        place = 0.0
        for title, parts in row.items():
            columns = by_column(parts)
            ax.text(place, n - 0.4, title, fontweight="bold", va="bottom")
            where = {
                part.name: (place + 2.6 * i, float(y))
                for i, column in enumerate(columns.values())
                for y, part in enumerate(column)
            }
            for part in parts:
                _draw_part(ax, part, where)
            place += 2.6 * len(columns)
        ax.set(xlim=(-0.1, 5.0), ylim=(-0.4, n + 0.3))
        ax.axis("off")
    return fig


def by_column(parts: Sequence[Part]) -> dict[str, list[Part]]:
    """Sort parts by the stack they belong to; the head goes on top of what it reads."""
    columns: dict[str, list[Part]] = {}
    for part in parts:
        stack = part.reads.split(".")[0] if part.label == "head" else part.column
        columns.setdefault(stack, []).append(part)
    return columns


def _draw_part(ax: Axes, part: Part, where: Mapping[str, tuple[float, float]]) -> None:
    x, y = where[part.name]
    color = COLORS[KINDS[part.label]]
    ax.add_patch(
        FancyBboxPatch(
            (x + 0.04, y - 0.26),
            1.45,
            0.52,
            boxstyle="round,pad=0,rounding_size=0.1",
            facecolor=color + "30",
            edgecolor=color,
            linewidth=1.6,
        )
    )
    ax.text(x + 0.77, y, part.label, ha="center", va="center", fontsize=9)
    is_attention = part.weights is not None
    if part.reads:
        letters = "Q" if part.source else "Q, K, V"
        _arrow(ax, where[part.reads], (x, y), letters if is_attention else "")
    if part.source:
        _hand_over(ax, where[part.source], (x, y))
    if part.weights is not None:
        _draw_weights(ax, part.weights, x + 1.58, y)


def _arrow(ax: Axes, tail: tuple[float, float], head: tuple[float, float], text: str) -> None:
    x = head[0] + 0.77
    arrow = {"arrowstyle": "-|>", "color": COLORS["stream"], "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", (x, head[1] - 0.26), (x, tail[1] + 0.26), arrowprops=arrow)
    if text:
        ax.text(x + 0.1, head[1] - 0.5, text, fontsize=8, va="center", color=COLORS["stream"])


def _hand_over(ax: Axes, tail: tuple[float, float], head: tuple[float, float]) -> None:
    """Draw the way from the encoder's result to a cross-attention, around its last parts."""
    x, y = tail[0] + 2.4, head[1]
    ax.plot(
        [tail[0] + 1.49, x, x],
        [tail[1], tail[1], y],
        color=COLORS["without"],
        linewidth=1.4,
        zorder=0,
    )
    arrow = {"arrowstyle": "-|>", "color": COLORS["without"], "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", (head[0] + 0.04, y), (x, y), arrowprops=arrow)
    ax.text(x - 0.08, y + 0.16, "K, V", fontsize=8, ha="right", color=COLORS["without"])


def _draw_weights(ax: Axes, weights: Tensor, x: float, y: float) -> None:
    """Draw a square per score, the first query on top; empty where nothing is gathered."""
    n_queries, n_keys = weights.shape
    height = 0.7 / max(n_queries, n_keys)
    width = 0.4 * height  # square on paper
    for i in range(n_queries):
        for j in range(n_keys):
            ax.add_patch(
                Rectangle(
                    (x + j * width, y + (n_queries / 2 - i - 1) * height),
                    width,
                    height,
                    facecolor=COLORS["attention"] if weights[i, j] > 0 else "white",
                    edgecolor="#666666",
                    linewidth=0.5,
                )
            )


def draw_attention_map(
    weights: Float[Tensor, "L S"], queries: Sequence[str], keys: Sequence[str], title: str
) -> Figure:
    """Draw how much each query (row) gathers from each key (column): black is all of it."""
    fig, (ax,) = panels(1, height=0.9 + 0.24 * len(queries))
    ax.imshow(weights.numpy(), cmap="Greys", vmin=0, vmax=1, aspect="auto")
    ax.set_xticks(range(len(keys)), keys)
    for tick, key in zip(ax.get_xticklabels(), keys, strict=True):
        tick.set_rotation(90 if len(key) > 1 else 0)
    ax.set_yticks(range(len(queries)), queries)
    ax.grid(False)
    ax.set_title(title, loc="left", fontsize=10)
    ax.set(xlabel="read: the source", ylabel="written")
    return fig


def draw_patches(image: Float[Tensor, "height width"], patch_size: int) -> Figure:
    """Draw an image with the borders of its patches and the number of each, row by row."""
    fig, (ax,) = panels(1, height=3.2)
    ax.imshow(image.numpy(), cmap="Greys")
    height, width = image.shape
    for place in range(0, width + 1, patch_size):
        ax.axvline(place - 0.5, color=COLORS["stream"], linewidth=1.5)
    for place in range(0, height + 1, patch_size):
        ax.axhline(place - 0.5, color=COLORS["stream"], linewidth=1.5)
    for number in range(height * width // patch_size**2):
        row, column = divmod(number, width // patch_size)
        ax.text(
            column * patch_size - 0.35,
            row * patch_size - 0.35,
            str(number),
            va="top",
            fontsize=8,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
        )
    ax.axis("off")
    return fig
