"""Chapter 05's pictures of losses: always with the floor, always with names on the lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from tfcourse.figures import COLORS, label

KIND_COLORS = {
    "fixed words": COLORS["mask"],
    "wording": COLORS["embedding"],
    "first mentions": COLORS["mlp"],
    "names that return": COLORS["without"],
    "other returns": COLORS["attention"],
}


def draw_losses(
    axes: Axes,
    steps: Sequence[int],
    losses: Mapping[str, Sequence[float]],
    levels: Mapping[str, float],
) -> None:
    """Draw held-out losses against training steps, and constant levels to compare with.

    The first curve is the model's own; the others are variants that lack something. The last level
    is the floor.
    """
    for i, (name, values) in enumerate(losses.items()):
        color = COLORS["without" if i else "stream"]
        axes.plot(steps, values, color=color, marker="o", markersize=4)
        label(axes, name, steps[-1], values[-1], color)
    for i, (name, level) in enumerate(levels.items()):
        is_floor = i == len(levels) - 1
        axes.axhline(level, color=COLORS["floor"], linestyle="-" if is_floor else "--", zorder=3)
        label(axes, name, steps[-1], level, COLORS["floor"])
    axes.set_xlabel("training step")
    axes.set_ylabel("nats per token")


def draw_kinds(axes: Axes, steps: Sequence[int], above: Mapping[str, Sequence[float]]) -> None:
    """Draw, per kind of token, how far the loss stands above the floor of the same tokens."""
    for name, values in above.items():
        axes.plot(steps, values, color=KIND_COLORS[name], marker="o", markersize=4)
    # Names beside the line's end, moved apart where two lines end close together.
    low, high = axes.get_ylim()
    gap = 0.09 * (high - low)
    height = low
    for name, values in sorted(above.items(), key=lambda item: item[1][-1]):
        height = max(values[-1], height + gap)
        axes.annotate(
            name,
            (steps[-1], height),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            color=KIND_COLORS[name],
            fontweight="bold",
            annotation_clip=False,
        )
    axes.set_xlabel("training step")
    axes.set_ylabel("nats above the floor")
