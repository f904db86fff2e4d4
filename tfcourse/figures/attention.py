"""The figure of the attention chapter."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from tfcourse.figures import COLORS, panels


def draw_map(
    weights: Float[Tensor, "L L"], words: Sequence[str], row: int, columns: Sequence[int]
) -> Figure:
    """Draw the weights of one head, and below them the largest ones of one row, with their words.

    The row is framed in the map. Words count from 0, so that BOS is word 0. Those at `columns` are
    the ones to look at.
    """
    fig, (above, below) = panels(2, height=2.6)
    fig.set_size_inches(fig.get_figwidth(), 6.4)
    length = len(words)
    above.imshow(weights.numpy(), cmap="Greys", vmin=0, vmax=1)
    above.add_patch(
        Rectangle((-0.5, row - 0.5), length, 1, fill=False, edgecolor=COLORS["attention"], lw=2)
    )
    above.grid(False)
    above.set(xlabel="word that is read", ylabel="word that reads", title="Weights of one head")
    largest = sorted(weights[row].topk(min(4, length)).indices.tolist())
    names = [f"{j}: {words[j]}" for j in largest]
    colors = [COLORS["attention" if j in columns else "mask"] for j in largest]
    below.barh(names, weights[row, largest].tolist(), color=colors, edgecolor="black", lw=0.5)
    below.invert_yaxis()
    below.set(xlim=(0, 1), xlabel="weight", title=f"The framed row: what word {row} reads")
    below.grid(axis="y", visible=False)
    return fig
