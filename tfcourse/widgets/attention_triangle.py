"""The attention chapter's widget: what does dividing by √d_k save?"""

import math
from collections.abc import Iterable, Mapping, Sequence

import anywidget
import traitlets

from tfcourse.widgets.base import STYLE, field, script, series


class AttentionTriangle(anywidget.AnyWidget):
    """Show the scores, the weights and the mixture of one head that reads three words.

    `words` are the three words. `corners` holds the value of each, two numbers, so that the mixture
    is a point among three. `readings` holds one record for each width of the head, with and without
    the division, and each reader:

    - `width`: d_k;
    - `divided`: whether the scores were divided by √d_k;
    - `reader`: which word reads, 0, 1 or 2;
    - `scores`, `weights`: one number for each word that it may read, 0 to `reader`.

    Every combination of width, division and reader needs exactly one record. `width`, `divided` and
    `reader` are where the controls start; all can be set and read later.

    Raises `ValueError` for a missing, duplicate, non-finite or misshapen record.
    """

    _esm = script("bars.js", "attention_triangle.js")
    _css = STYLE

    words: traitlets.List = traitlets.List().tag(sync=True)
    corners: traitlets.List = traitlets.List().tag(sync=True)
    readings: traitlets.List = traitlets.List().tag(sync=True)
    width = traitlets.Int().tag(sync=True)
    divided = traitlets.Bool(True).tag(sync=True)
    reader = traitlets.Int(2).tag(sync=True)

    def __init__(
        self,
        words: Sequence[str],
        corners: Sequence[Sequence[float]],
        readings: Iterable[Mapping],
        width: int,
        divided: bool = True,
        reader: int = 2,
    ):
        if len(words) != 3 or len(corners) != 3:
            raise ValueError(f"{len(words)} words and {len(corners)} corners; give 3 of each")
        records = [_record(f"readings[{i}]", r) for i, r in enumerate(readings)]
        _check_grid(records)
        super().__init__(
            words=[str(w) for w in words],
            corners=[series(f"corners[{i}]", c, 2, low=-math.inf) for i, c in enumerate(corners)],
            readings=records,
            width=width,
            divided=divided,
            reader=reader,
        )

    @traitlets.validate("width", "reader")
    def _is_computed(self, proposal):
        name, value = proposal["trait"].name, proposal["value"]
        computed = sorted({r[name] for r in self.readings})
        if value not in computed:
            choices = ", ".join(map(str, computed))
            raise ValueError(f"{name}={value} was not computed; choose one of {choices}")
        return value


def _record(where: str, given: Mapping) -> dict:
    reader = int(field(where, given, "reader"))
    if reader not in (0, 1, 2):
        raise ValueError(f"{where}.reader={reader}; give 0, 1 or 2")
    weights = series(f"{where}.weights", field(where, given, "weights"), reader + 1, 0.0, 1.0)
    if abs(sum(weights) - 1) > 1e-4:
        raise ValueError(f"{where}.weights add up to {sum(weights):g}; give weights of sum 1")
    return {
        "width": int(field(where, given, "width")),
        "divided": bool(field(where, given, "divided")),
        "reader": reader,
        "scores": series(
            f"{where}.scores", field(where, given, "scores"), reader + 1, low=-math.inf
        ),
        "weights": weights,
    }


def _check_grid(records: list[dict]) -> None:
    """Raise unless there is exactly one record for each width, division and reader."""
    keys = [(r["width"], r["divided"], r["reader"]) for r in records]
    if not keys:
        raise ValueError("readings is empty; give one for each width, division and reader")
    for width in sorted({w for w, *_ in keys}):
        for divided in (True, False):
            for reader in (0, 1, 2):
                if (count := keys.count((width, divided, reader))) != 1:
                    raise ValueError(
                        f"readings has {count} records with width={width}, divided={divided}, "
                        f"reader={reader}; give exactly one"
                    )
