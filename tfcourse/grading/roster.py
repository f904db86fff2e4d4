"""Whose notebook a file is, when it came in, and the table of marks."""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from pathlib import Path, PurePosixPath

from tfcourse.grading.grade import ABSENT, BY_HAND, Result, plain_name
from tfcourse.grading.questions import Question

NOTHING = "nothing was handed in"


@dataclass(frozen=True)
class Entry:
    """One line of a roster: whose notebook a file is, and when it came in.

    A student who handed in nothing may have no `file`.
    """

    file: str
    student: str
    submitted: str = ""


def read_roster(path: Path) -> list[Entry]:
    """Read a CSV with the columns `file`, `student` and, if wanted, `submitted` (ISO 8601).

    Spreadsheets of some countries write semicolons, which is fine. Raises `ValueError` for missing
    columns, a line without a student, a file or a student twice, or a date that is none.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not in UTF-8; save it as “CSV UTF-8”") from None
    head = text.partition("\n")[0]
    with io.StringIO(text, newline="") as file:
        rows = csv.DictReader(file, delimiter=";" if ";" in head and "," not in head else ",")
        if missing := {"file", "student"} - set(rows.fieldnames or ()):
            raise ValueError(f"{path} has no column {' and '.join(sorted(missing))}; add it")
        entries = [
            Entry(
                PurePosixPath(plain_name(row["file"])).as_posix() if row["file"] else "",
                row["student"] or "",
                row.get("submitted") or "",
            )
            for row in rows
        ]
    for name in ("file", "student"):
        values = sorted(value for entry in entries if (value := getattr(entry, name)))
        for a, b in itertools.pairwise(values):
            if a == b:
                raise ValueError(f"{path} has {name} {a!r} twice; each has one line")
    for entry in entries:
        if not entry.student:
            raise ValueError(f"{path} has no student for file {entry.file!r}; add the name")
        if entry.submitted:
            parse_date(entry.submitted, f"{path}: submitted of {entry.student}")
    return entries


def parse_date(text: str, where: str) -> datetime:
    """Read an ISO 8601 date. Raises `ValueError` that names where it stood."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{where} is {text!r}; give a date such as 2027-01-31T23:59") from None


def parse_due(text: str) -> datetime:
    """Read the date until which notebooks are in time: of a day alone, its end."""
    due = parse_date(text, "--due")
    try:
        return datetime.combine(date.fromisoformat(text), time.max)
    except ValueError:  # with a time of day
        return due


def days_late(submitted: str, due: datetime | None) -> int:
    """Count the days begun after the due date."""
    if due is None or not submitted:
        return 0
    when = datetime.fromisoformat(submitted)
    if (when.tzinfo is None) != (due.tzinfo is None):  # both are of this machine's clock then
        when, due = when.astimezone(), due.astimezone()
    return max(0, math.ceil((when - due).total_seconds() / 86_400))


def rows(
    results: Mapping[str, Result],
    questions: Sequence[Question],
    roster: Sequence[Entry],
    due: datetime | None,
    late: float,
) -> Iterator[dict[str, object]]:
    """Yield one row per student, by file name: marks, what was taken off, and each reason."""
    known = {entry.file: entry for entry in roster if entry.file}
    of = sum(q.points for q in questions)
    listed = [known.get(name, Entry(name, "")) for name in sorted({*results, *known})]
    for entry in (*listed, *(entry for entry in roster if not entry.file)):
        name, result = entry.file, results.get(entry.file)
        row: dict[str, object] = {
            "student": entry.student or name.removesuffix(".ipynb"),
            "file": name,
        }
        if result is None:
            note = NOTHING
            score, days = 0.0, 0
        else:
            days = days_late(entry.submitted, due)
            score = round(result.score * max(0.0, 1 - late / 100 * days), 2)
            note = _note(result, entry, bool(roster) and name not in known, due)
        row |= {"score": score, "of": of, "days late": days, "note": note}
        for q in questions:
            mark = result.marks.get(q.id) if result else None
            row[q.id] = mark.score if mark else 0
            row[f"{q.id} seconds"] = mark.seconds if mark else 0
            row[f"{q.id} reason"] = mark.reason if mark else f"{NOTHING.capitalize()}."
        yield row


def _note(result: Result, entry: Entry, stranger: bool, due: datetime | None) -> str:
    """Say what an instructor should look at."""
    notes = {
        "not in the roster": stranger,
        "no date of submission": due is not None and not entry.submitted,
        "to be graded by hand": any(m.reason.startswith(BY_HAND) for m in result.marks.values()),
        "no question of this set": all(
            mark.reason.startswith(ABSENT) for mark in result.marks.values()
        ),
    }
    return ", ".join(note for note, holds in notes.items() if holds)
