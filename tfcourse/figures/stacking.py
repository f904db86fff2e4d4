"""The figures of chapter 04."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from tfcourse.figures import COLORS, label, panels


def draw_first_losses(
    stds: Sequence[float], losses: Mapping[str, Sequence[float]], uniform: float, own: float
) -> Figure:
    """Draw the loss before training against the standard deviation of the embedding's rows.

    `losses` has one line per kind of head, the tied one first. `uniform` is ln V; at the standard
    deviation `own` a token's score by its own row is as large as ln V.
    """
    fig, (ax,) = panels(1, height=3.6)
    for (name, values), color, marker, place in zip(
        losses.items(), (COLORS["without"], COLORS["stream"]), "so", ((-8, 4), (0, 7)), strict=True
    ):
        ax.plot(stds, values, color=color, marker=marker, markersize=4)
        label(ax, name, stds[-1], values[-1], color, xytext=place)
    ax.axhline(uniform, color=COLORS["floor"], linestyle="--", linewidth=1.2)
    label(ax, "ln V", stds[0], uniform, COLORS["floor"], ha="left", xytext=(0, -14))
    ax.axvline(own, color=COLORS["mask"], linestyle=":")
    label(ax, "std · d = ln V", own, 300.0, "#555555", ha="right", xytext=(-5, 0))
    ax.set(xscale="log", yscale="log", ylim=(4, 800))
    ax.set_yticks([5, 10, 50, 100, 500], ["5", "10", "50", "100", "500"])
    ax.minorticks_off()
    ax.set(xlabel="standard deviation of the embedding's rows", ylabel="first loss, nats")
    return fig


def draw_logit_scales(depths: Sequence[int], scales: Mapping[str, Sequence[float]]) -> Figure:
    """Draw the standard deviation of an untrained model's logits against its depth.

    The first line is that with a final norm; the others are stacks without one.
    """
    fig, (ax,) = panels(1, height=3.4)
    colors = (COLORS["norm"], COLORS["without"], COLORS["stream"])
    for (name, values), color, marker, place in zip(
        scales.items(), colors, "^so", ((0, -15), (0, 7), (0, 7)), strict=True
    ):
        ax.plot(depths, values, color=color, marker=marker, markersize=5)
        label(ax, name, float(depths[-1]), values[-1], color, xytext=place)
    ax.set(xscale="log", yscale="log", ylim=(0.004, 2))
    ax.set(xlabel="blocks in the stack", ylabel="standard deviation of the logits")
    ax.set_xticks(depths, [str(depth) for depth in depths])
    ax.set_yticks([0.01, 0.1, 1], ["0.01", "0.1", "1"])
    ax.minorticks_off()
    return fig
