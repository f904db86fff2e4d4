"""One visual language for all chapters: colours, panels, and pictures that can be read aloud.

The same thing has the same colour everywhere (Okabe & Ito's set, which colour-blind readers can
tell apart), and lines carry their names, so that nothing depends on colour alone.
"""

from __future__ import annotations

import base64
import io
from typing import Any

from IPython.display import display
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLORS = {
    "stream": "#0072B2",  # also: with the residual
    "without": "#D55E00",  # the variant from which something was taken away
    "attention": "#E69F00",
    "mlp": "#009E73",
    "norm": "#CC79A7",
    "embedding": "#56B4E9",
    "mask": "#999999",
    "floor": "#000000",  # also: any line to compare with
}
"""The colour of each thing, the same in all chapters."""

WIDTH = 4.8
"""Inches: as narrow as a phone, so that 10-point letters stay readable there."""

STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E4E4E4",
    "axes.axisbelow": True,
}


def panels(n_panels: int = 1, height: float = 2.6) -> tuple[Figure, list[Axes]]:
    """Make a figure of panels below each other; `height` is that of one, in inches."""
    with rc_context(STYLE):
        fig = Figure(figsize=(WIDTH, n_panels * height), layout="constrained")
        return fig, [fig.add_subplot(n_panels, 1, i + 1) for i in range(n_panels)]


def label(axes: Axes, text: str, x: float, y: float, color: str, **options) -> None:
    """Write a thing's name at the data point (x, y), in the thing's colour."""
    options = {"textcoords": "offset points", "xytext": (0, 5), "ha": "right"} | options
    axes.annotate(text, (x, y), color=color, fontweight="bold", **options)


def show(fig: Figure, alt: str) -> None:
    """Display a figure as a PNG whose alternative text is `alt`.

    `alt` says what the picture shows. It is also the output's plain text, so that a comparison of
    stored outputs sees it. White background in both themes; twice the pixels, for sharp screens.
    """
    alt = " ".join(alt.split())
    png = io.BytesIO()
    fig.savefig(png, dpi=200, facecolor="white", metadata={"Software": None})
    display(
        {"image/png": base64.b64encode(png.getvalue()).decode("ascii"), "text/plain": alt},
        raw=True,
        metadata={"image/png": {"alt": alt, "width": round(100 * fig.get_figwidth())}},
    )
