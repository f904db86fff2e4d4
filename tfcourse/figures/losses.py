"""Chapter 05's pictures of losses: always with the floor, always with names on the lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from tfcourse.figures import COLORS, label

KIND_COLORS = {
    "fixed words": COLORS["mask"],
    "wording": COLORS["embedding"],
    "agreement": COLORS["norm"],
    "names that return": COLORS["without"],
    "things that return": COLORS["attention"],
    "details that return": COLORS["mlp"],
}
"""The kinds of words that are drawn."""


def draw_losses(
    axes: Axes,
    steps: Sequence[float],
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
        below = {"xytext": (0, -13)} if is_floor else {}
        label(axes, name, steps[-1], level, COLORS["floor"], **below)
    axes.set_xlabel("training step")
    axes.set_ylabel("nats per token")


def draw_kinds(axes: Axes, steps: Sequence[float], above: Mapping[str, Sequence[float]]) -> None:
    """Draw, per kind of word, how far the loss stands above the floor of the same words.

    Each line has its name where it is farthest from the other lines.
    """
    lines = {name: above[name] for name in KIND_COLORS}
    for name, values in lines.items():
        others = [other for key, other in lines.items() if key != name]
        room = [min(abs(v - o[k]) for o in others) for k, v in enumerate(values[:-1])]
        best = room.index(max(room))
        color = KIND_COLORS[name]
        axes.plot(steps, values, color=color, marker="o", markersize=4)
        label(axes, name, steps[best], values[best], color, xytext=(5, 5), ha="left")
    axes.set_xlabel("training step")
    axes.set_ylabel("nats above the floor")
