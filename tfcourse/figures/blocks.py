"""Record what a block does, move by move, and draw it; the other figures of the blocks chapter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch
from torch import Tensor

from tfcourse.blocks import Block
from tfcourse.feedforward import ACTIVATIONS
from tfcourse.figures import COLORS, label, panels


class Move(NamedTuple):
    """One step of a block: its name, and what stream and branch hold after it."""

    name: str
    stream: Float[Tensor, "B L d"]
    branch: Float[Tensor, "B L d"] | None


@torch.no_grad()
def record_moves(block: Block, x: Float[Tensor, "B L d"]) -> list[Move]:
    """Run a block and list its moves in the order in which they happened, the input first.

    The list is read off the data and not off the configuration: a norm that is given the stream
    itself belongs to the branch; one that is given a sum belongs to the stream.
    """
    moves = [Move("input", x, None)]
    names = {id(block.attention): "attention", id(block.cross): "cross", id(None): ""}
    handles = []
    for branch in block.branches:
        name = names.get(id(branch), "MLP")

        def after_norm(layer, inputs, output):
            stream = moves[-1].stream
            if inputs[0] is stream:
                moves.append(Move("norm", stream, output))
            else:
                moves.append(Move("add", inputs[0], None))
                moves.append(Move("norm", output, None))

        def after_sublayer(layer, inputs, output, name=name):
            moves.append(Move(name, moves[-1].stream, output))

        def after_branch(layer, inputs, output):
            if output is not moves[-1].stream:
                moves.append(Move("add", output, None))

        handles += [
            branch.norm.register_forward_hook(after_norm),
            branch.sublayer.register_forward_hook(after_sublayer),
            branch.register_forward_hook(after_branch),
        ]
    try:
        block(x)
    finally:
        for handle in handles:
            handle.remove()
    return moves


@torch.no_grad()
def perturb_rows(block: Block, x: Float[Tensor, "L d"], shift: Float[Tensor, "d"]) -> list[dict]:
    """Record a block's moves, and how far each row moves when one row of the input is shifted.

    The result has the form that `widgets.FourMoves` takes for one block.
    """
    moves = record_moves(block, x[None])
    others = []
    for j in range(len(x)):
        shifted = x.clone()
        shifted[j] += shift
        others.append(record_moves(block, shifted[None]))
    return [
        {
            "name": move.name,
            "stream": move.stream[0].tolist(),
            "branch": None if move.branch is None else move.branch[0].tolist(),
            "stream_moved": [_distance(o[k].stream, move.stream) for o in others],
            "branch_moved": None
            if move.branch is None
            else [_distance(o[k].branch, move.branch) for o in others],
        }
        for k, move in enumerate(moves)
    ]


def _distance(a: Tensor | None, b: Tensor) -> list[float]:
    assert a is not None
    return (a - b)[0].norm(dim=-1).tolist()


def draw_moves(blocks: Mapping[str, Sequence[Move]]) -> Figure:
    """Draw recorded blocks side by side, from the input below to the output above.

    The stream is the vertical line; what stands beside it happens in a branch.
    """
    fig, (ax,) = panels(1, height=5.2)
    for column, (title, moves) in enumerate(blocks.items()):
        _draw_block(ax, title, moves, x=2.9 * column)
    ax.set(xlim=(-0.75, 2.9 * len(blocks) - 0.9), ylim=(-0.75, 7.6))
    ax.axis("off")
    return fig


def _draw_block(ax: Axes, title: str, moves: Sequence[Move], x: float) -> None:
    side, top = x + 1.05, len(moves)
    arrow = {"arrowstyle": "-|>", "color": COLORS["stream"], "lw": 2.2, "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", (x, top + 0.2), (x, -0.25), arrowprops=arrow)
    ax.text(x + 0.3, top + 0.35, title, ha="center", va="bottom", fontweight="bold")
    ax.text(x, -0.35, "stream", ha="center", va="top", color=COLORS["stream"])
    thin = arrow | {"color": "#444444", "lw": 1.2}
    start = None
    for height, move in enumerate(moves[1:], start=1):
        if move.branch is not None:
            if start is None:
                start = height
                ax.annotate("", (side, height - 0.25), (side, height - 0.5), arrowprops=thin)
                ax.plot([x, side], [height - 0.5, height - 0.5], color="#444444", lw=1.2)
            else:
                ax.annotate("", (side, height - 0.25), (side, height - 0.75), arrowprops=thin)
            _box(ax, side, height, move.name)
        elif move.name == "add":
            ax.plot([side, side], [height - 0.75, height], color="#444444", lw=1.2)
            ax.annotate("", (x + 0.22, height), (side, height), arrowprops=thin)
            ax.add_patch(Circle((x, height), 0.22, facecolor="white", edgecolor="black", zorder=3))
            ax.text(x, height - 0.02, "+", ha="center", va="center", zorder=4, fontsize=13)
            start = None
        else:
            _box(ax, x, height, move.name)


def _box(ax: Axes, x: float, y: float, name: str) -> None:
    color = COLORS.get(name.lower(), COLORS["attention"])
    outline: dict[str, Any] = {
        "facecolor": "white",
        "edgecolor": color,
        "linewidth": 2.2,
        "zorder": 3,
    }
    ax.add_patch(FancyBboxPatch((x - 0.45, y - 0.2), 0.9, 0.4, "round,pad=0.05", **outline))
    ax.text(x, y - 0.01, name, ha="center", va="center", zorder=4)


def draw_activations(names: Sequence[str]) -> Figure:
    """Draw the named activation functions between −3 and 3."""
    fig, (ax,) = panels(1, height=2.8)
    z = torch.linspace(-3, 3, 241)
    styles = ("-", "--", ":")
    places = ((1.4, (-8, 8), "right"), (-0.8, (0, 12), "center"), (-1.4, (0, -15), "center"))
    for name, style, (at, offset, side) in zip(names, styles, places, strict=True):
        values = ACTIVATIONS[name](z)
        color = {"relu": COLORS["mlp"], "gelu": COLORS["stream"]}.get(name, COLORS["norm"])
        ax.plot(z, values, style, color=color, lw=2)
        height = float(ACTIVATIONS[name](torch.tensor(at)))
        title = {"relu": "ReLU", "gelu": "GELU", "silu": "SiLU"}[name]
        label(ax, title, at, height, color, xytext=offset, ha=side)
    ax.set(xlabel="what a row of $W_1$ measured", ylabel="what it passes on", ylim=(-0.8, 3.1))
    return fig


def draw_by_block(panels_of: Mapping[str, Mapping[str, Sequence[float]]], ylabel: str) -> Figure:
    """Draw one panel per entry: a line for each order of the norm, from first block to last."""
    fig, axes = panels(len(panels_of), height=2.4)
    for ax, (title, lines) in zip(axes, panels_of.items(), strict=True):
        for name, values in lines.items():
            post = name.startswith("post")
            color = COLORS["norm" if post else "stream"]
            blocks = range(1, len(values) + 1)
            ax.plot(blocks, values, color=color, marker="s" if post else "o", markersize=4)
            middle = len(values) // 2
            height = max(values[middle - 2 : middle + 3])
            label(ax, name, middle + 1, height, color, xytext=(0, 8), ha="center")
        top = max(max(values) for values in lines.values())
        ax.set(title=title, ylabel=ylabel, ylim=(0, 1.25 * top))
    axes[-1].set_xlabel("block")
    return fig
