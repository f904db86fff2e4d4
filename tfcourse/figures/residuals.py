"""The figures of chapter 01."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from tfcourse.figures import COLORS, label, panels


def draw_along_depth(kept: Mapping, dropped: Mapping) -> Figure:
    """Draw two records of `probes.measure_stream`: alikeness and two gradients by block."""
    fig, (alike, gradient, choice) = panels(3)
    for record, name, color, marker in (
        (dropped, "without + x", COLORS["without"], "s"),
        (kept, "with + x", COLORS["stream"], "o"),
    ):
        blocks = range(record["depth"] + 1)
        alike.plot(blocks, record["cosine"], color=color, marker=marker, markersize=3)
        label(alike, name, record["depth"], record["cosine"][-1], color, xytext=(0, -14))
        for ax, key in ((gradient, "weight_gradient"), (choice, "query_key_gradient")):
            ax.plot(blocks[1:], record[key], color=color, marker=marker, markersize=3)
            label(ax, name, record["depth"], record[key][-1], color)
    alike.texts[-1].set_position((0, 6))
    alike.set(title="How alike are two positions?", ylabel="mean cosine", ylim=(-0.05, 1.1))
    gradient.set(title="Gradient of all weights of a block", ylim=(0.1, 100))
    choice.set(title="Gradient of its queries and keys", ylim=(1e-10, 1), xlabel="block")
    for ax in (gradient, choice):
        ax.set(yscale="log", ylabel="length")
    return fig


def draw_jacobians(without: Float[Tensor, "d d"], with_identity: Float[Tensor, "d d"]) -> Figure:
    """Draw both matrices below each other on one colour scale: white is 0."""
    fig, axes = panels(2, height=3.0)
    without, with_identity = without.detach(), with_identity.detach()
    limit = float(with_identity.abs().max())
    for ax, matrix, title in (
        (axes[0], without, "without + x:  $J_F$"),
        (axes[1], with_identity, "with + x:  $I + J_F$"),
    ):
        picture = ax.imshow(matrix, cmap="PuOr", vmin=-limit, vmax=limit)
        ax.set(title=title, xlabel="input feature", ylabel="output feature")
        ax.grid(False)
        fig.colorbar(picture, ax=ax)
    return fig


def draw_against_depth(
    depths: Sequence[int], kept: Sequence[float], dropped: Sequence[float], guarded: Sequence[float]
) -> Figure:
    """Draw the gradient at block 1 against the depth: with + x, without, and without at usual ε."""
    fig, (ax,) = panels(1, height=3.6)
    for values, name, color, marker, place in (
        (kept, "with + x", COLORS["stream"], "o", (0, -16)),
        (dropped, "without + x", COLORS["without"], "s", (0, 8)),
        (guarded, "without + x, usual ε", COLORS["norm"], "^", (-14, 0)),
    ):
        ax.plot(depths, values, color=color, marker=marker)
        label(ax, name, depths[-1], values[-1], color, xytext=place)
    ax.set(xscale="log", yscale="log", xlabel="blocks in the stack", ylabel="length")
    ax.set(title="Gradient that reaches the weights of block 1", ylim=(1e-20, 1e4))
    ax.set_xticks(depths, [str(depth) for depth in depths])
    ax.minorticks_off()
    return fig


def draw_parts(parts: Mapping[str, Mapping[str, float]], unit: str) -> Figure:
    """Draw one panel of bars per entry of `parts`: what each writer of the stream adds."""
    fig, axes = panels(len(parts), height=2.5)
    extent = max(abs(value) for values in parts.values() for value in values.values())
    for ax, (title, values) in zip(axes, parts.items(), strict=True):
        names = list(values)
        colors = [COLORS.get(name.split()[0].lower(), COLORS["norm"]) for name in names]
        ax.barh(names, list(values.values()), color=colors, edgecolor="black", linewidth=0.5)
        ax.axvline(0, color="black", linewidth=1)
        ax.invert_yaxis()
        ax.set(title=title, xlim=(-1.1 * extent, 1.1 * extent))
        ax.grid(axis="y", visible=False)
    axes[-1].set_xlabel(unit)
    return fig


def draw_losses(losses: Mapping[str, float], lines: Mapping[str, float]) -> Figure:
    """Draw one bar per run and one dashed line per loss to compare with, in nats per token."""
    fig, (ax,) = panels(1, height=3.0)
    ax.barh(list(losses), list(losses.values()), color=COLORS["stream"], height=0.6)
    ax.patches[-1].set_facecolor(COLORS["without"])
    for name, value in lines.items():
        ax.axvline(value, color=COLORS["floor"], linestyle="--", linewidth=1.2)
        ax.annotate(
            name, (value, 1), xycoords=("data", "axes fraction"), xytext=(0, 3),
            textcoords="offset points", ha="center",
        )  # fmt: skip
    ax.invert_yaxis()
    ax.set(xlabel="loss after training, nats per token", xlim=(0, 1.2 * max(losses.values())))
    ax.grid(axis="y", visible=False)
    return fig
