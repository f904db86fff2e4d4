"""Chapter 01's widget: what dies first when the `+ x` goes?"""

from collections.abc import Iterable, Mapping

import anywidget
import traitlets

from tfcourse.widgets.base import STYLE, field, script, series


class ResidualLab(anywidget.AnyWidget):
    """Show four measurements along the blocks of a stack, with and without the residual.

    `measurements` holds one record per measured stack:

    - `residual`: True where each branch adds its input back;
    - `alpha`: how much of the stream each addition keeps (1 when `residual` is False);
    - `depth`: the number of blocks;
    - `cosine`, `stream_rms`: `depth + 1` numbers each, the first for the embedding, then one after
      every block: mean cosine between two positions, root mean square of the stream;
    - `weight_gradient`, `query_key_gradient`: `depth` numbers each, one for every block: length of
      the loss's gradient, for all weights of the block and for those of its queries and keys.

    Every depth needs one record without the residual and one for each alpha with it, so that no
    position of the controls is empty. `depth` and `alpha` are where the controls start (the
    largest when not given); both can be set and read later.

    Raises `ValueError` for a missing, duplicate, non-finite or misshapen record.
    """

    _esm = script("residual_lab.js")
    _css = STYLE

    measurements: traitlets.List = traitlets.List().tag(sync=True)
    depth = traitlets.Int().tag(sync=True)
    alpha = traitlets.Float(1.0).tag(sync=True)
    show_with = traitlets.Bool(True).tag(sync=True)
    show_without = traitlets.Bool(True).tag(sync=True)

    def __init__(
        self,
        measurements: Iterable[Mapping],
        depth: int | None = None,
        alpha: float | None = None,
    ):
        records = [_record(f"measurements[{i}]", m) for i, m in enumerate(measurements)]
        _check_grid(records)
        kept = [r for r in records if r["residual"]]
        super().__init__(
            measurements=records,
            depth=max(r["depth"] for r in kept) if depth is None else depth,
            alpha=max(r["alpha"] for r in kept) if alpha is None else alpha,
        )

    @traitlets.validate("depth", "alpha")
    def _is_measured(self, proposal):
        name, value = proposal["trait"].name, proposal["value"]
        measured = sorted({m[name] for m in self.measurements if m["residual"]})
        if value not in measured:
            choices = ", ".join(f"{v:g}" for v in measured)
            raise ValueError(f"{name}={value} was not measured; choose one of {choices}")
        return value


def _record(where: str, given: Mapping) -> dict:
    residual = bool(field(where, given, "residual"))
    alpha = float(field(where, given, "alpha"))
    depth = int(field(where, given, "depth"))
    if depth < 1:
        raise ValueError(f"{where}.depth={depth}; give a number of blocks >= 1")
    if not residual and alpha != 1:
        raise ValueError(f"{where}.alpha={alpha:g} without a residual scales nothing; give 1")
    cosine = series(f"{where}.cosine", field(where, given, "cosine"), depth + 1, -1.0, 1.0)
    lengths = {"stream_rms": depth + 1, "weight_gradient": depth, "query_key_gradient": depth}
    others = {n: series(f"{where}.{n}", field(where, given, n), k) for n, k in lengths.items()}
    return {"residual": residual, "alpha": alpha, "depth": depth, "cosine": cosine, **others}


def _check_grid(records: list[dict]) -> None:
    """Raise unless there is exactly one record for each depth and each kind of stack."""
    keys = [(r["residual"], r["alpha"], r["depth"]) for r in records]
    kinds = {(True, a) for residual, a, _ in keys if residual} | {(False, 1.0)}
    if len(kinds) == 1:
        raise ValueError("measurements has no record with residual=True; give at least one")
    for residual, alpha in sorted(kinds):
        for depth in sorted({d for *_, d in keys}):
            count = keys.count((residual, alpha, depth))
            if count != 1:
                raise ValueError(
                    f"measurements has {count} records with residual={residual}, "
                    f"alpha={alpha:g}, depth={depth}; give exactly one"
                )
