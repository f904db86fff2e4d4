"""The figures of chapter 00: who answers whom, what an average can reach, and the whole model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle
from torch import Tensor

from tfcourse.architectures import DecoderLM
from tfcourse.figures import COLORS, label, panels


@torch.no_grad()
def answers(layer: Callable[[Tensor], Tensor], x: Float[Tensor, "L d"]) -> Bool[Tensor, "L L"]:
    """Say which output row moves (first axis) when one input row is changed (second axis)."""
    before = layer(x[None])[0]
    columns = []
    for j in range(len(x)):
        changed = x.clone()
        changed[j] += torch.randn(x.shape[1], generator=torch.Generator().manual_seed(j))
        columns.append((layer(changed[None])[0] - before).abs().amax(dim=1) > 1e-6)
    return torch.stack(columns, dim=1)


def draw_answers(
    tables: Mapping[str, Bool[Tensor, "L L"]], colors: Sequence[str], words: Sequence[str]
) -> Figure:
    """Draw one grid per layer: a filled square where an output row answers to an input row."""
    fig, axes = panels(len(tables), height=3.1)
    for ax, (name, table), color in zip(axes, tables.items(), colors, strict=True):
        n = len(table)
        rows, columns = np.nonzero(table.numpy())
        ax.scatter(columns, rows, s=330, marker="s", color=COLORS[color], edgecolors="black")
        rows, columns = np.nonzero(~table.numpy())
        ax.scatter(columns, rows, s=10, color=COLORS["mask"])
        ax.set(title=name, xlim=(-0.6, n - 0.4), ylim=(n - 0.4, -0.6), aspect="equal")
        ax.set_xticks(range(n), words, rotation=45)
        ax.set_yticks(range(n), words)
        ax.set(xlabel="input row that is changed", ylabel="output row")
        ax.grid(False)
    return fig


def hull(points: Float[Tensor, "P 2"]) -> Float[Tensor, "Q 2"]:
    """Return the corners of the smallest convex polygon around the points, anticlockwise."""
    ordered = sorted((x, y) for x, y in points.tolist())
    corners: list[tuple[float, float]] = []
    for chain in (ordered, ordered[::-1]):  # below, then above
        start = len(corners)
        for point in chain:
            while len(corners) > start + 1 and _turn(corners[-2], corners[-1], point) <= 0:
                corners.pop()
            corners.append(point)
        corners.pop()  # the other chain begins with it
    return torch.tensor(corners, dtype=points.dtype)


def inside(points: Float[Tensor, "P 2"], corners: Float[Tensor, "Q 2"]) -> Bool[Tensor, "P"]:
    """Say which points lie in the polygon around the corners, up to a rounding error of 1e-5."""
    around = hull(corners).tolist()
    sides = list(zip(around, around[1:] + around[:1], strict=True))
    # A point is as far to the left of a side as its turn, divided by the side's length.
    return torch.tensor(
        [all(_turn(a, b, p) >= -1e-5 * math.dist(a, b) for a, b in sides) for p in points.tolist()]
    )


def _turn(a: Sequence[float], b: Sequence[float], c: Sequence[float]) -> float:
    """Return a positive number where the way from a by b to c turns left."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def draw_hulls(
    pictures: Mapping[str, tuple[Float[Tensor, "Q 2"], Float[Tensor, "P 2"]]],
    colors: Sequence[str],
) -> Figure:
    """Draw, per panel, corners (circles) with the polygon around them, and points (crosses)."""
    fig, axes = panels(len(pictures), height=2.5)
    for ax, (title, (corners, points)), color in zip(axes, pictures.items(), colors, strict=True):
        ax.fill(*hull(corners).T, facecolor="#EEEEEE", edgecolor=COLORS["mask"])
        ax.scatter(
            corners[:, 0], corners[:, 1], s=45, facecolor="white", edgecolor="black", zorder=3
        )
        style: dict[str, Any] = {"marker": "X", "color": COLORS[color], "edgecolor": "black"}
        ax.scatter(points[:, 0], points[:, 1], s=70, zorder=4, **style)
        ax.set(title=title, xlabel="feature 0", ylabel="feature 1")
    return fig


def draw_predictors(nats: Mapping[str, float], colors: Sequence[str], floor: float) -> Figure:
    """Draw one bar per predictor, and the floor as a line."""
    fig, (ax,) = panels(1, height=0.6 + 0.45 * len(nats))
    filling = [COLORS[color] for color in colors]
    ax.barh(list(nats), list(nats.values()), color=filling, edgecolor="black", height=0.6)
    for i, value in enumerate(nats.values()):
        ax.annotate(
            f"{value:.1f}", (value, i), xytext=(4, 0), textcoords="offset points", va="center"
        )
    ax.axvline(floor, color=COLORS["floor"], linewidth=1.6)
    ax.annotate(
        "floor", (floor, 1), xycoords=("data", "axes fraction"), xytext=(0, 3),
        textcoords="offset points", ha="center", fontweight="bold",
    )  # fmt: skip
    ax.invert_yaxis()
    ax.set(xlabel="loss on held-out emails, nats per token", xlim=(0, 1.2 * max(nats.values())))
    ax.grid(axis="y", visible=False)
    return fig


LINES = ("attention", "without", "norm", "stream")


def draw_against_length(
    lengths: Sequence[int], lines: Mapping[str, Sequence[float]], ylabel: str, low: float = 0
) -> Figure:
    """Draw lines against the length of a text, both axes logarithmic.

    Lines that fall below `low` leave the picture, and have their names where they were last seen.
    """
    fig, (ax,) = panels(1, height=3.0)
    ends = {name: [v for v in values if v >= low] for name, values in lines.items()}
    shortest = min(map(len, ends.values()))
    lowest = min((seen[-1] for seen in ends.values() if len(seen) == len(lengths)), default=low)
    for (name, seen), color, marker in zip(ends.items(), LINES, "osD^", strict=False):
        ax.plot(lengths, lines[name], color=COLORS[color], marker=marker, markersize=5)
        place: dict[str, Any] = {"xytext": (0, -15 if seen[-1] == lowest else 7)}
        if len(seen) < len(lengths):
            first_to_leave = len(seen) == shortest
            place = {"xytext": (-8, -4)} if first_to_leave else {"xytext": (8, 0), "ha": "left"}
        label(ax, name, lengths[len(seen) - 1], seen[-1], COLORS[color], **place)
    ax.set(xscale="log", yscale="log", xlabel="words in the text", ylabel=ylabel)
    ax.margins(y=0.15)
    if low:
        ax.set_ylim(low, 30)
    ax.set_xticks(lengths, [str(n) for n in lengths])
    ax.minorticks_off()
    return fig


class Stage(NamedTuple):
    """One stop of the forward pass: what it is called, and the shape that comes out of it."""

    name: str
    shape: tuple[int, ...]


@torch.no_grad()
def forward_stages(model: DecoderLM, tokens: Int[Tensor, "B L"]) -> list[Stage]:
    """Run a model, and list its stops from the tokens to the probabilities with their shapes.

    The first block is opened; of the others only what comes out is listed. Every shape is read off
    the running model.
    """
    stack = model.stack
    first: Any = stack.blocks[0]
    parts: dict[str, Any] = {
        "embedding": stack.positions,
        "norm 1": first.attention.norm,
        "queries, keys, values": first.attention.sublayer.qkv,
        "attention": first.attention.sublayer,
        "+ attention": first.attention,
        "norm 2": first.feed_forward.norm,
        "inside the MLP": first.feed_forward.sublayer.up,
        "MLP": first.feed_forward.sublayer,
        "block 1": first,
        **{f"block {i}": block for i, block in enumerate(stack.blocks[1:], start=2)},
        "final norm": stack.final_norm,
        "head": model.head,
    }
    shapes: dict[str, tuple[int, ...]] = {}
    handles = [
        part.register_forward_hook(
            lambda module, inputs, output, name=name: shapes.update({name: tuple(output.shape)})
        )
        for name, part in parts.items()
    ]
    try:
        logits = model(tokens)
    finally:
        for handle in handles:
            handle.remove()
    shapes["softmax"] = tuple(logits.softmax(dim=-1).shape)
    return [Stage("tokens", tuple(tokens.shape)), *(Stage(*item) for item in shapes.items())]


def draw_forward_pass(stages: Sequence[Stage]) -> Figure:
    """Draw the forward pass on one page, from the bottom up, with the shape at every stop.

    The line on the left is the residual stream. `stages` is what `forward_stages` returns.
    """
    shapes = dict(stages)
    n_blocks = sum(name.startswith("block") for name in shapes)
    fig, (ax,) = panels(1, height=7.4)
    ax.set(xlim=(0, 10), ylim=(-0.6, 13.6))
    ax.axis("off")
    stream, branch, right = 1.6, 4.6, 9.9

    def box(x: float, y: float, text: str, color: str, stage: str, width: float = 3.4) -> None:
        height = 0.98 if "\n" in text else 0.64
        patch = FancyBboxPatch(
            (x - width / 2, y - height / 2), width, height,
            boxstyle="round,pad=0.02,rounding_size=0.15", facecolor="white",
            edgecolor=COLORS[color], linewidth=2.2, zorder=3,
        )  # fmt: skip
        ax.add_patch(patch)
        ax.text(x, y, text, ha="center", va="center", zorder=4)
        write_shape(y, stage)

    def write_shape(y: float, stage: str) -> None:
        ax.text(right, y, _brackets(shapes[stage]), ha="right", va="center", family="monospace")

    def arrow(start: tuple[float, float], end: tuple[float, float], color: str) -> None:
        style = {"arrowstyle": "-|>", "color": COLORS[color], "linewidth": 1.6, "shrinkB": 0}
        ax.annotate("", end, start, arrowprops=style, zorder=2)

    ax.plot([stream, stream], [0, 11], color=COLORS["stream"], linewidth=4, zorder=1)
    arrow((stream, 11), (stream, 13), "stream")
    box(stream + 0.2, 0, "tokens", "mask", "tokens", 3)
    box(stream + 0.2, 1, "embedding", "embedding", "embedding", 3)
    ax.add_patch(
        Rectangle((0.3, 1.75), 7.0, 6.65, fill=False, edgecolor=COLORS["mask"], linestyle="--")
    )
    ax.text(7.15, 8.25, "block 1", ha="right", va="top", color="#555555")
    for bottom, part, color, what in (
        (2.2, "attention", "attention", "mixes the rows"),
        (5.4, "MLP", "mlp", "transforms each row"),
    ):
        number = 1 if part == "attention" else 2
        arrow((stream, bottom), (branch, bottom + 0.35), "norm")
        box(branch, bottom + 0.7, "norm", "norm", f"norm {number}")
        arrow((branch, bottom + 1.02), (branch, bottom + 1.28), color)
        box(branch, bottom + 1.8, f"{part}:\n{what}", color, part, 4.4)
        arrow((branch - 0.8, bottom + 2.29), (stream + 0.24, bottom + 2.66), color)
        _plus(ax, stream, bottom + 2.7)
        write_shape(bottom + 2.7, "+ attention" if number == 1 else "block 1")
    box(stream + 1.3, 9, f"blocks 2 to {n_blocks}", "stream", f"block {n_blocks}", 4.4)
    box(stream + 1.3, 10, "final norm", "norm", "final norm", 4.4)
    box(stream + 1.3, 11, "vocabulary head", "embedding", "head", 4.4)
    box(stream + 1.3, 12, "softmax", "mask", "softmax", 4.4)
    ax.text(stream + 1.3, 13.1, "probabilities of the next word", ha="center", va="center")
    return fig


def _plus(ax: Axes, x: float, y: float) -> None:
    ax.text(
        x, y, "+", ha="center", va="center", fontweight="bold", zorder=5,
        bbox={"boxstyle": "circle,pad=0.15", "facecolor": "white", "edgecolor": COLORS["stream"]},
    )  # fmt: skip


def _brackets(shape: Sequence[int]) -> str:
    return "[" + " ".join(str(n) for n in shape) + "]"
