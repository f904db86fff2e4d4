"""Hidden checks: those of the repository, or an instructor's own from a private folder."""

from __future__ import annotations

import functools
import runpy
from collections.abc import Callable, Sequence
from pathlib import Path

from tfcourse.grading.questions import Check, first_line
from tfcourse.grading.sets import SETS, load_set


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


def check_oracle(ids: Sequence[str], folder: Path) -> None:
    """See that a folder has hidden checks of all these questions.

    Raises `ValueError` that names all that it has not.
    """
    missing = []
    for id in ids:
        try:
            hidden_checks(id, folder)
        except NoCheck:
            missing.append(id)
    if missing:
        raise ValueError(f"{folder} has no hidden check of {', '.join(missing)}; add one for each")


class NoCheck(ValueError):
    """A question has no hidden check."""


def hidden_checks(id: str, folder: Path) -> Sequence[tuple[str, Check]]:
    """Return a question's hidden checks from a folder of sets.

    Raises `ValueError` where the folder has no oracle that runs, and `NoCheck` where that has none
    for this question.
    """
    number = id.partition(".")[0]
    path = Path(folder) / f"{number}_{SETS[number]}" / "oracle.py"
    checks = _read(path).checks.get(id)
    if not checks:
        raise NoCheck(f"{path} has no hidden check of {id}; add one")
    return checks


@functools.cache
def _read(path: Path) -> Hidden:
    if not path.is_file():
        raise ValueError(f"{path} is missing; give the folder of the sets with --oracle")
    try:
        hidden = runpy.run_path(str(path)).get("HIDDEN")
    except Exception as error:
        raise ValueError(f"{path} does not run: {type(error).__name__}: {error}") from None
    if not isinstance(hidden, Hidden):
        raise ValueError(f"{path} makes no `HIDDEN = Hidden()`")
    asked = [question.id for question in load_set(path.parent.name[:2])]
    for id in hidden.checks.keys() - set(asked):
        raise ValueError(f"{path}: there is no question {id!r}; choose one of {', '.join(asked)}")
    return hidden
