"""How long grading takes, and feedback in a notebook."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.table import Line
from tfcourse.grading.checking import local_student
from tfcourse.grading.kill_matrix import read_answers, set_folder
from tfcourse.grading.questions import Question
from tfcourse.grading.release import master_path
from tfcourse.grading.sets import SETS, load_set

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "exercises"
N_SUBMISSIONS, SET, LOOP = 100, "01", "05.train_lm"


def lines() -> Iterator[Line]:
    """Grade copies of one set's solutions; check a right answer to every question."""
    minutes, marks = grade_batch()
    n = len(marks) // N_SUBMISSIONS
    yield Line(
        f"{N_SUBMISSIONS} submissions of set {SET}, {n} questions each, two at once",
        f"{minutes:.1f} min",
        "≤ 12 min",
        minutes <= 12,
    )
    median = statistics.median(marks)
    yield Line(
        "median of a question, the student's own code included",
        f"{median:.2f} s",
        "≤ 1 s",
        median <= 1,
    )
    seconds = {q.id: check_seconds(q) for number in SETS for q in load_set(number)}
    loop = seconds.pop(LOOP)
    slowest = max(seconds, key=seconds.__getitem__)
    yield Line(
        f"`check`, the slowest of {len(seconds)} questions",
        f"{seconds[slowest]:.1f} s ({slowest})",
        "≤ 2 s",
        seconds[slowest] <= 2,
    )
    yield Line(f"`check` of the training loop, {LOOP}", f"{loop:.0f} s")


def grade_batch() -> tuple[float, list[float]]:
    """Return minutes from start to CSV, and the seconds of every question."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "submissions"
        folder.mkdir()
        for i in range(N_SUBMISSIONS):
            shutil.copy(master_path(SET, FOLDER), folder / f"{i:03}.ipynb")
        out = Path(name) / "grades.csv"
        command = [sys.executable, "-m", "tfcourse.cli", "grade", str(folder), "--out", str(out)]
        begin = time.perf_counter()
        subprocess.run([*command, "--jobs", "2"], cwd=ROOT, check=True, stderr=subprocess.DEVNULL)
        minutes = (time.perf_counter() - begin) / 60
        records = [json.loads(line) for line in out.with_suffix(".jsonl").open()][1:]
    marks = [mark for record in records for mark in record["marks"].values()]
    if any(mark["score"] < mark["of"] for mark in marks):
        raise RuntimeError("a solution did not get full marks")
    return minutes, [mark["seconds"] for mark in marks]


def check_seconds(question: Question) -> float:
    """Time the public checks on a question's first right answer."""
    number, _, name = question.id.partition(".")
    answers = read_answers(set_folder(number, FOLDER) / "answers" / f"{name}.py")
    answer = next(answer for answer in answers if answer.right)
    objects: dict = {"__name__": "__main__"}
    exec(compile(answer.source, answer.title, "exec"), objects)
    student = local_student(question, objects[question.name])
    begin = time.perf_counter()
    problem = question.problem(student, answer.source, 0, question.checks)
    if problem:
        raise RuntimeError(f"{question.id}: {problem}")
    return time.perf_counter() - begin
