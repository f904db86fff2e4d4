"""Chapter 02's widget: what do the two norms do to one vector, step by step?"""

import math
from collections.abc import Iterable

import anywidget
import traitlets

from tfcourse.widgets.base import FOLDER, STYLE, script

EPSILONS = (0.0, 1e-12, 1e-6, 1e-5, 1e-3, 1.0)
"""The choices of ε."""

MOST = 4
"""The largest number of features."""


class NormLab(anywidget.AnyWidget):
    """Show LayerNorm and RMSNorm of one vector side by side, step by step.

    The learner edits the vector, ε, γ and β; the page computes. `x` is the vector to begin with, of
    2 to 4 features. `gamma` and `beta` have as many numbers: ones and zeros when not given.
    RMSNorm has no β.

    Raises `ValueError` for vectors of other or unequal lengths, for numbers that are not finite or
    beyond a million, and for an ε that the menu does not have.
    """

    _esm = script("norm_lab.js")
    _css = STYLE + (FOLDER / "norm_lab.css").read_text(encoding="utf-8")

    epsilons = traitlets.List(list(EPSILONS)).tag(sync=True)
    vectors: traitlets.Dict = traitlets.Dict().tag(sync=True)
    eps = traitlets.Float(1e-5).tag(sync=True)

    def __init__(
        self,
        x: Iterable[float] = (1.0, 3.0),
        eps: float = 1.0,
        gamma: Iterable[float] | None = None,
        beta: Iterable[float] | None = None,
    ):
        x = [float(v) for v in x]
        gamma = [1.0] * len(x) if gamma is None else [float(v) for v in gamma]
        beta = [0.0] * len(x) if beta is None else [float(v) for v in beta]
        super().__init__(vectors={"x": x, "gamma": gamma, "beta": beta}, eps=eps)

    @traitlets.validate("vectors")
    def _are_vectors(self, proposal):
        vectors = proposal["value"]
        length = len(vectors["x"])
        if not 2 <= length <= MOST:
            raise ValueError(f"x has {length} features; give 2 to {MOST}")
        for name, values in vectors.items():
            if len(values) != length:
                raise ValueError(f"{name} has {len(values)} numbers; give {length}, as many as x")
            for v in values:
                if not math.isfinite(v) or abs(v) > 1e6:
                    raise ValueError(f"{name} holds {v}; give finite numbers up to a million")
        return vectors

    @traitlets.validate("eps")
    def _is_a_choice(self, proposal):
        if proposal["value"] not in EPSILONS:
            choices = ", ".join(f"{e:g}" for e in EPSILONS)
            raise ValueError(f"eps={proposal['value']:g}; choose one of {choices}")
        return proposal["value"]
