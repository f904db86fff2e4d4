"""The blocks chapter's widget: which rows does each move change?"""

import math
from collections.abc import Iterable, Mapping, Sequence

import anywidget
import traitlets

from tfcourse.widgets.base import STYLE, field, script, series, within

ORDERS = {"pre": "pre-norm", "post": "post-norm"}


class FourMoves(anywidget.AnyWidget):
    """Walk through a pre-norm and a post-norm block, one step at a time.

    `words` are the L tokens. `blocks` holds under "pre" and "post" the steps of a block, the first
    its input; each step is a record:

    - `name`: what was done, such as "norm", "attention", "add" or "MLP";
    - `stream`: L rows of d numbers, the residual stream after the step;
    - `branch`: the same for what the branch holds, or None where it holds nothing;
    - `stream_moved`, `branch_moved`: L lists of L numbers. Number i of list j says how far row i
      moved when the input was changed at position j alone.

    `order`, `step`, `row` (the row that is shown) and `changed` (the position that was changed, −1
    for none) are where the controls start; all can be set and read later.

    Raises `ValueError` for a missing, non-finite or misshapen record.
    """

    _esm = script("bars.js", "four_moves.js")
    _css = STYLE

    words: traitlets.List = traitlets.List().tag(sync=True)
    blocks: traitlets.Dict = traitlets.Dict().tag(sync=True)
    order = traitlets.Enum(list(ORDERS), "pre").tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)
    row = traitlets.Int(0).tag(sync=True)
    changed = traitlets.Int(-1).tag(sync=True)

    def __init__(
        self,
        words: Sequence[str],
        blocks: Mapping[str, Iterable[Mapping]],
        order: str = "pre",
        step: int = 2,
        row: int | None = None,
        changed: int = 1,
    ):
        checked = {}
        for name in ORDERS:
            steps = [
                _record(f"blocks[{name!r}][{i}]", s, len(words))
                for i, s in enumerate(field("blocks", blocks, name))
            ]
            if len(steps) < 2:
                raise ValueError(f"blocks[{name!r}] has {len(steps)} steps; give at least 2")
            checked[name] = steps
        if len({len(steps) for steps in checked.values()}) > 1:
            raise ValueError("both blocks need the same number of steps")
        super().__init__(
            words=[str(w) for w in words],
            blocks=checked,
            order=order,
            step=step,
            row=len(words) - 1 if row is None else row,
            changed=changed,
        )

    @traitlets.validate("step", "row", "changed")
    def _is_shown(self, proposal):
        name = proposal["trait"].name
        low = -1 if name == "changed" else 0
        high = len(self.blocks["pre"] if name == "step" else self.words) - 1
        return within(name, proposal["value"], low, high)


def _record(where: str, given: Mapping, length: int) -> dict:
    stream = _rows(f"{where}.stream", field(where, given, "stream"), length)
    branch = field(where, given, "branch")
    record = {
        "name": str(field(where, given, "name")),
        "stream": stream,
        "branch": None,
        "stream_moved": _moved(where, given, "stream_moved", length),
        "branch_moved": None,
    }
    if branch is not None:
        record["branch"] = _rows(f"{where}.branch", branch, length)
        record["branch_moved"] = _moved(where, given, "branch_moved", length)
    return record


def _rows(where: str, rows: Sequence[Sequence[float]], length: int) -> list[list[float]]:
    if len(rows) != length:
        raise ValueError(f"{where} has {len(rows)} rows; give {length}")
    width = len(rows[0])
    return [series(f"{where}[{i}]", row, width, low=-math.inf) for i, row in enumerate(rows)]


def _moved(where: str, given: Mapping, name: str, length: int) -> list[list[float]]:
    lists = field(where, given, name)
    if len(lists) != length:
        raise ValueError(f"{where}.{name} has {len(lists)} lists; give {length}")
    return [series(f"{where}.{name}[{j}]", row, length) for j, row in enumerate(lists)]
