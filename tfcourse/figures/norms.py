"""The figures of chapter 02."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from tfcourse.figures import COLORS, label, panels

BLIND = "#EDEDED"


def draw_readers(
    readers: Sequence[str], raw: Float[Tensor, "readers n"], normed: Float[Tensor, "readers n"]
) -> Figure:
    """Draw, for each reader of the stream, from which size to which its vectors go.

    The sizes of all words as the stream has them, and as they are after the reader's norm.
    """
    fig, (ax,) = panels(1, height=0.9 + 0.45 * len(readers))
    for i, (before, after) in enumerate(zip(raw, normed, strict=True)):
        for sizes, name, color, width in (
            (before, "in the stream", COLORS["stream"], 9),
            (after, "after the norm", COLORS["norm"], 15),
        ):
            ends = [float(sizes.min()) / 1.02, float(sizes.max()) * 1.02]
            ax.plot(ends, [i, i], color=color, linewidth=width, solid_capstyle="butt")
            if i == 0:
                label(ax, name, ends[-1], i, color, xytext=(0, 10))
    ax.set_yticks(range(len(readers)), readers)
    ax.set(xscale="log", xlabel="size of a word's vector", ylim=(len(readers) - 0.5, -0.9))
    ax.set_xticks([0.1, 1], ["0.1", "1"])
    ax.grid(axis="y", visible=False)
    return fig


def draw_epsilon(
    sizes: Sequence[float], after: Mapping[float, Sequence[float]], names: Mapping[float, str]
) -> Figure:
    """Draw the size that leaves a norm against the size that enters it, a line for each ε."""
    fig, (ax,) = panels(1, height=3.4)
    colors = (COLORS["stream"], COLORS["norm"], COLORS["without"])
    places = ((0.01, 6), (0.004, -6), (0.1, 6))  # height and side of each name, so that none meet
    for (eps, values), color, (height, shift) in zip(after.items(), colors, places, strict=True):
        ax.plot(sizes, values, color=color)
        ax.axvline(eps**0.5, color=color, linestyle=":", linewidth=1)
        i = min(range(len(sizes)), key=lambda i: abs(values[i] - height))
        side = "left" if shift > 0 else "right"
        paper = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
        options = {"xytext": (shift, -8), "ha": side, "bbox": paper}
        label(ax, names[eps], sizes[i], values[i], color, **options)
    ax.set(xscale="log", yscale="log", xlabel="size of what enters", ylabel="size of what leaves")
    ax.set(ylim=(1e-3, 3))
    return fig


def draw_axes(rows: Sequence[str]) -> Figure:
    """Draw two tables, a row for each position and a column for each feature; mark one average."""
    n_features = 6
    fig, axes = panels(2, height=0.6 + 0.3 * len(rows))
    chosen = len(rows) // 2
    for ax, title, inside in (
        (axes[0], "LayerNorm: one position, all features", lambda i, j: i == chosen),
        (axes[1], "BatchNorm: one feature, all positions", lambda i, j: j == n_features // 2),
    ):
        for i in range(len(rows)):
            for j in range(n_features):
                color = COLORS["norm"] if inside(i, j) else BLIND
                ax.add_patch(Rectangle((j, i), 0.92, 0.88, color=color))
        ax.set(title=title, xlim=(-0.05, n_features), ylim=(len(rows), -0.1), xlabel="features")
        ax.set_yticks([i + 0.45 for i in range(len(rows))], rows)
        ax.set_xticks([])
        ax.grid(False)
        for side in ax.spines.values():
            side.set_visible(False)
        ax.tick_params(length=0)
    return fig


def draw_changes(
    changes: Mapping[str, Float[Tensor, "B L"]], changed: tuple[int, int], limit: float
) -> Figure:
    """Draw, for each norm, which predictions moved: a row per text, a column per position.

    Below `limit` a change is rounding and is drawn white. A frame marks the word that was changed.
    """
    fig, axes = panels(len(changes), height=1.4)
    largest = max(float(values.max()) for values in changes.values())
    row, column = changed
    for ax, (title, values) in zip(axes, changes.items(), strict=True):
        picture = ax.imshow(
            values.clamp(min=limit).log10().numpy(), cmap="Oranges", aspect="auto",
            vmin=math.log10(limit), vmax=math.log10(largest),
        )  # fmt: skip
        frame = Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor="black", lw=2)
        ax.add_patch(frame)
        ax.set(title=title, ylabel="text")
        ax.set_yticks(range(len(values)), [str(i + 1) for i in range(len(values))])
        ax.set_xticks(range(0, values.shape[1], 5))
        ax.grid(False)
    axes[-1].set_xlabel("position")
    bar = fig.colorbar(picture, ax=axes)
    bar.set_label("change of a logit, 10 to the …")
    return fig
