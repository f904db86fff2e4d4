"""Hidden checks: those of the repository, or an instructor's own from a private folder."""

from __future__ import annotations

import functools
import runpy
from collections.abc import Callable, Sequence
from pathlib import Path

from tfcourse.grading.questions import Check, first_line
from tfcourse.grading.sets import SETS


class Hidden:
    """The hidden checks of one set, by question. An `oracle.py` makes one, named `HIDDEN`."""

    def __init__(self) -> None:
        self.checks: dict[str, list[tuple[str, Check]]] = {}

    def check(self, id: str) -> Callable[[Check], Check]:
        """Add a hidden check to a question."""

        def add(check: Check) -> Check:
            self.checks.setdefault(id, []).append((first_line(check), check))
            return check

        return add


def hidden_checks(id: str, folder: Path) -> Sequence[tuple[str, Check]]:
    """Return a question's hidden checks from a folder of sets.

    Raises `ValueError` where the folder has none for it.
    """
    number = id.partition(".")[0]
    path = Path(folder) / f"{number}_{SETS[number]}" / "oracle.py"
    checks = _read(path).checks.get(id)
    if not checks:
        raise ValueError(f"{path} has no hidden check of {id}; add one")
    return checks


@functools.cache
def _read(path: Path) -> Hidden:
    if not path.is_file():
        raise ValueError(f"{path} is missing; give the folder of the sets with --oracle")
    hidden = runpy.run_path(str(path)).get("HIDDEN")
    if not isinstance(hidden, Hidden):
        raise ValueError(f"{path} makes no `HIDDEN = Hidden()`")
    return hidden
