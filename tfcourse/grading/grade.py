"""Grade a folder of notebooks: one sandbox each, one process per question, results kept at once."""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import json
import math
import os
import queue
import re
import secrets
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any

import torch
from tqdm import tqdm

from tfcourse.grading.oracle import hidden_checks
from tfcourse.grading.questions import Check, Lost, LostCell, Question
from tfcourse.grading.sandbox import Mode, Sandbox
from tfcourse.grading.submissions import Submission, read_submission


@dataclass
class Mark:
    """What one question got: points, seconds of wall time, and the reason where it got none."""

    score: float
    of: float
    seconds: float
    reason: str = ""


@dataclass
class Result:
    """What one notebook got."""

    file: str
    digest: str
    marks: dict[str, Mark] = field(default_factory=dict)

    @property
    def score(self) -> float:
        """Add up the points of all questions."""
        return sum(mark.score for mark in self.marks.values())


ABSENT = "No cell begins with"
NOTHING = "nothing was handed in"


def grade_question(
    question: Question, submission: Submission, sandbox: Sandbox, oracle: Path, seed: int
) -> Mark:
    """Run all checks of one question on a student's cell."""
    begin = time.perf_counter()
    own = submission.own.get(question.id)
    if own is None:
        reason = f"{ABSENT} `# Question {question.id}`."
    else:
        checks = [*question.checks, *hidden_checks(question.id, oracle)]
        reason = _problem(question, checks, submission, sandbox, seed)
    score = 0 if reason else question.points
    reason = " ".join(filter(None, (reason, submission.notes.get(question.id, ""))))
    return Mark(score, question.points, round(time.perf_counter() - begin, 2), _plain(reason))


def _problem(
    question: Question,
    checks: Sequence[tuple[str, Check]],
    submission: Submission,
    sandbox: Sandbox,
    seed: int,
) -> str:
    """Run the checks; a shared cell that ends the process is left out from then on."""
    own = submission.own[question.id]
    while True:
        try:
            with sandbox.student(question, own, submission.shared[question.id]) as student:
                shared = submission.shared[question.id]
                return question.problem(student, own, seed, checks, shared)
        except LostCell as lost:
            for cells in submission.shared.values():
                cells[:] = [cell for cell in cells if cell != lost.source]
        except Lost as lost:
            return str(lost)


def _plain(text: str) -> str:
    """Keep a reason on one line of printable characters."""
    return "".join(c if c.isprintable() else " " for c in text)[:500]


PACKED = re.compile(r"(^|/)(\.|__MACOSX/)")
"""What is in a folder, or an archive, and was handed in by nobody."""


def find_notebooks(folder: Path) -> dict[str, Path]:
    """Find the notebooks of a folder and of those in it, by their names from there.

    Learning platforms pack one folder per student. Hidden files and those of `__MACOSX`, which
    macOS packs into archives, are left out. `folder` may be a notebook itself. Raises `ValueError`
    where there is none.
    """
    if not folder.exists():
        raise ValueError(f"there is no {folder}; give a folder of .ipynb files, or one of them")
    found = [folder] if folder.is_file() else sorted(folder.rglob("*.ipynb"))
    top = folder.parent if folder.is_file() else folder
    paths = {path.relative_to(top).as_posix(): path for path in found if path.is_file()}
    paths = {name: path for name, path in paths.items() if not PACKED.search(name)}
    if not paths:
        raise ValueError(f"{folder} has no notebook; give a folder of .ipynb files, or one of them")
    return paths


def grade_notebook(
    path: Path,
    questions: Sequence[Question],
    sandbox: Sandbox,
    oracle: Path,
    seed: int,
    name: str = "",
) -> Result:
    """Grade one notebook in a sandbox that was started for it; `name` is what it is listed as."""
    content = path.read_bytes()
    result = Result(name or path.name, hashlib.sha256(content).hexdigest())
    try:
        submission = read_submission(path)
    except ValueError as error:
        result.marks = {q.id: Mark(0, q.points, 0, _plain(str(error))) for q in questions}
        return result
    for question in questions:
        result.marks[question.id] = grade_question(question, submission, sandbox, oracle, seed)
    return result


class Records:
    """The results so far, one JSON line each beside the CSV, written as soon as they are known.

    The first line has the set, the seed, and the options that a later run takes over.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = threading.Lock()
        self.number, self.seed = "", 0
        self.options: dict[str, Any] = {}
        self.results: dict[str, Result] = {}

    def begin(self, number: str, seed: int | None, **options: Any) -> None:
        """Start anew, with a seed that is drawn where none is given.

        Raises `ValueError` where results of an earlier run would be lost.
        """
        if self.path.exists():
            self.read()
        if self.results:
            raise ValueError(
                f"{self.path} holds the results of an earlier run; go on with --resume, "
                "give another --out, or delete it"
            )
        self.number, self.seed = number, secrets.randbelow(2**31) if seed is None else seed
        self.options, self.results = options, {}
        header = {"set": self.number, "seed": self.seed, "options": options}
        self.path.write_text(json.dumps(header) + "\n")

    def read(self) -> None:
        """Read what an earlier run kept; a last line that was cut off is dropped.

        Raises `ValueError` where there is nothing, or a file of something else.
        """
        if not self.path.exists():
            raise ValueError(f"there is no {self.path}: nothing has been graded into this --out")
        try:
            head, *lines = self.path.read_text(encoding="utf-8").split("\n")
            header = json.loads(head)
            self.number, self.seed = header["set"], header["seed"]
            self.options = header["options"]
            for line in lines[:-1]:
                record = json.loads(line)
                marks = {id: Mark(**mark) for id, mark in record.pop("marks").items()}
                self.results[record["file"]] = Result(**record, marks=marks)
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{self.path} holds no results of a grading ({error})") from None

    def add(self, result: Result) -> None:
        """Keep a result, on the disk before this returns."""
        with self.lock:
            self.results[result.file] = result
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(result), ensure_ascii=False) + "\n")
                file.flush()
                os.fsync(file.fileno())


def grade_all(
    paths: Mapping[str, Path],
    questions: Sequence[Question],
    records: Records,
    oracle: Path,
    mode: Mode = "bubblewrap",
    jobs: int = 1,
    only: str = "",
    progress: bool = True,
) -> None:
    """Grade notebooks, by name, into `records`; those that it has, unchanged, are left out.

    With `only`, one question is graded again and the other marks stay. On an interrupt, what is
    finished stays in the records.
    """
    asked = [q for q in questions if not only or q.id == only]
    todo = {
        name: path
        for name, path in paths.items()
        if only or not _is_done(name, path, records, questions)
    }
    numbers: queue.Queue[int] = queue.Queue()
    for number in range(jobs):
        numbers.put(number)
    stopped = threading.Event()
    sandboxes: dict[int, Sandbox] = {}

    def work(name: str) -> None:
        if stopped.is_set():
            raise CancelledError
        number = numbers.get()
        try:
            with Sandbox(mode, number) as sandboxes[number]:
                result = grade_notebook(
                    todo[name], asked, sandboxes[number], oracle, records.seed, name
                )
        finally:
            numbers.put(number)
        if stopped.is_set():  # its sandbox was ended, and its last marks say nothing
            raise CancelledError
        if only and name in records.results:
            result.marks = records.results[name].marks | result.marks
        records.add(result)

    torch.set_num_threads(1)  # the sandboxes want the other cores
    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(work, name) for name in todo]
        bar = tqdm(as_completed(futures), total=len(todo), unit="notebook", disable=not progress)
        try:
            for future in bar:
                future.result()
        except BaseException:
            stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)
            for sandbox in list(sandboxes.values()):
                sandbox.close()
            raise


def _is_done(name: str, path: Path, records: Records, questions: Sequence[Question]) -> bool:
    known = records.results.get(name)
    return (
        known is not None
        and known.digest == hashlib.sha256(path.read_bytes()).hexdigest()
        and {q.id for q in questions} <= set(known.marks)
    )


@dataclass(frozen=True)
class Entry:
    """One line of a roster: whose notebook a file is, and when it came in."""

    file: str
    student: str
    submitted: str = ""


def read_roster(path: Path) -> list[Entry]:
    """Read a CSV with the columns `file`, `student` and, if wanted, `submitted` (ISO 8601).

    Spreadsheets of some countries write semicolons, which is fine. Raises `ValueError` for missing
    columns, a file or a student twice, or a date that is none.
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
                PurePosixPath(row["file"] or "").as_posix(),
                row["student"] or "",
                row.get("submitted") or "",
            )
            for row in rows
        ]
    for name in ("file", "student"):
        values = sorted(getattr(entry, name) for entry in entries)
        for a, b in itertools.pairwise(values):
            if a == b:
                raise ValueError(f"{path} has {name} {a!r} twice; each has one line")
    for entry in entries:
        if entry.submitted:
            parse_date(entry.submitted, f"{path}: submitted of {entry.student}")
    return entries


def parse_date(text: str, where: str) -> datetime:
    """Read an ISO 8601 date. Raises `ValueError` that names where it stood."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{where} is {text!r}; give a date such as 2027-01-31T23:59") from None


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
    known = {entry.file: entry for entry in roster}
    of = sum(q.points for q in questions)
    for name in sorted({*results, *known}):
        result, entry = results.get(name), known.get(name, Entry(name, ""))
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
        "no question of this set": all(
            mark.reason.startswith(ABSENT) for mark in result.marks.values()
        ),
    }
    return ", ".join(note for note, holds in notes.items() if holds)
