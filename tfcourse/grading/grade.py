"""Grade a folder of notebooks: one sandbox each, one process per question, results kept at once."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import threading
import time
import unicodedata
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from tfcourse.files import write_whole
from tfcourse.grading.oracle import hidden_checks
from tfcourse.grading.questions import Check, Lost, LostCell, Question
from tfcourse.grading.sandbox import Mode, Sandbox, SandboxError
from tfcourse.grading.submissions import Submission, check_file, read_submission


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


MOST_LOST = 3
"""Each cell that does not come to an end costs its time; at this many, the cells below go, too."""
ABSENT = "No cell begins with"
BY_HAND = "The grader could not judge this answer; please do it by hand"


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
        try:
            reason = _problem(question, checks, submission, sandbox, seed)
        except SandboxError:
            raise
        except Exception as error:  # whatever it is, the others keep their marks
            reason = f"{BY_HAND} ({type(error).__name__}: {error})"
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
    shared = submission.shared[question.id]
    while True:
        try:
            with sandbox.student(question, own, shared) as student:
                return question.problem(student, own, seed, checks, shared)
        except LostCell as lost:
            submission.lost += 1
            for cells in submission.shared.values():
                if submission.lost >= MOST_LOST and lost.source in cells:
                    del cells[cells.index(lost.source) :]
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
    found = [folder] if folder.is_file() else sorted(folder.rglob("*.[iI][pP][yY][nN][bB]"))
    top = folder.parent if folder.is_file() else folder
    paths: dict[str, Path] = {}
    for path in found:
        name = plain_name(path.relative_to(top).as_posix())
        if PACKED.search(name) or path.is_dir():
            continue
        if name in paths:
            raise ValueError(f"two notebooks are called {name}; rename one of them")
        paths[name] = path
    if not paths:
        raise ValueError(f"{folder} has no notebook; give a folder of .ipynb files, or one of them")
    return paths


def plain_name(name: str) -> str:
    """Write a file's name as one line of Unicode, composed: macOS takes an umlaut apart."""
    text = unicodedata.normalize("NFC", os.fsencode(name).decode("utf-8", "replace"))
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def digest(path: Path) -> str:
    """Return the SHA-256 of a notebook, or nothing where it is none that would be read."""
    try:
        check_file(path)
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except (ValueError, OSError):
        return ""


def grade_notebook(
    path: Path,
    questions: Sequence[Question],
    sandbox: Sandbox,
    oracle: Path,
    seed: int,
    name: str = "",
) -> Result:
    """Grade one notebook in a sandbox that was started for it; `name` is what it is listed as."""
    result = Result(name or path.name, digest(path))
    try:
        submission = read_submission(path)
    except (ValueError, OSError) as error:
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
        header = json.dumps({"set": self.number, "seed": self.seed, "options": options}) + "\n"
        write_whole(self.path, lambda file: file.write(header.encode()))

    def read(self) -> None:
        """Read what an earlier run kept; a last line that was cut off is dropped, here and there.

        Raises `ValueError` where there is nothing, or a file of something else.
        """
        if not self.path.exists():
            raise ValueError(f"there is no {self.path}: nothing has been graded into this --out")
        content = self.path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        try:
            head, *lines = whole.decode("utf-8").removesuffix("\n").split("\n")
            header = json.loads(head)
            self.number, self.seed = header["set"], header["seed"]
            self.options = header["options"]
            for line in lines:
                record = json.loads(line)
                marks = {id: Mark(**mark) for id, mark in record.pop("marks").items()}
                self.results[record["file"]] = Result(**record, marks=marks)
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{self.path} holds no results of a grading ({error})") from None
        if whole != content:
            write_whole(self.path, lambda file: file.write(whole))

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
    stopped = threading.Event()
    sandboxes: dict[str, Sandbox] = {}

    def work(name: str) -> None:
        if stopped.is_set():
            raise CancelledError
        with Sandbox(mode) as sandbox:
            sandboxes[name] = sandbox
            result = grade_notebook(todo[name], asked, sandbox, oracle, records.seed, name)
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
        and known.digest == digest(path)
        and {q.id for q in questions} <= set(known.marks)
    )
