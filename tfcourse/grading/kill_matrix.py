"""The kill matrix: every check against wrong answers that it has to reject, and right ones.

A question's answers stand in one file, `answers/<question>.py` in the folder of its set. Each
begins with a line `# wrong: <the misconception>` or `# right: <how it is written>`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch
from tqdm import tqdm

from tfcourse.grading.checking import local_student
from tfcourse.grading.oracle import hidden_checks
from tfcourse.grading.questions import Question
from tfcourse.grading.sets import SETS, find_question, load_set

HEADING = re.compile(r"^# (wrong|right): (.+)$", re.M)
WRONG = 4
"""So many wrong answers a question has at least."""
RIGHT = 2
"""So many right ones it has at least, each written differently."""
PUBLIC_SHARE = 0.75
"""So many of a question's wrong answers its public checks alone reject."""


@dataclass(frozen=True)
class Answer:
    """One prepared answer to a question."""

    right: bool
    title: str
    source: str


@dataclass(frozen=True)
class Verdict:
    """What the public checks, and all checks, say of one answer; nothing where they pass."""

    question: str
    right: bool
    title: str
    public: str
    full: str


def read_answers(path: Path) -> list[Answer]:
    """Split a file of answers at its headings.

    Raises `ValueError` for a file without any.
    """
    pieces = HEADING.split(path.read_text(encoding="utf-8"))
    if len(pieces) < 4:
        raise ValueError(f"{path} has no answer; begin each with `# wrong: …` or `# right: …`")
    imports, *rest = pieces
    return [
        Answer(kind == "right", title.strip(), imports + source)
        for kind, title, source in zip(rest[::3], rest[1::3], rest[2::3], strict=True)
    ]


def judge(question: Question, answer: Answer, oracle: Path, seed: int = 0) -> Verdict:
    """Let the public checks, then all, look at one answer, in this process."""
    objects: dict = {"__name__": "__main__"}
    exec(compile(answer.source, answer.title, "exec"), objects)
    student = local_student(question, objects[question.name])
    hidden = hidden_checks(question.id, oracle)
    public = question.problem(student, answer.source, seed, question.checks)
    full = public or question.problem(student, answer.source, seed, hidden)
    return Verdict(question.id, answer.right, answer.title, public, full)


def judge_question(id: str, folder: Path, seed: int = 0) -> list[Verdict]:
    """Judge all prepared answers to one question."""
    question = find_question(id)
    path = set_folder(id.partition(".")[0], folder) / "answers" / f"{id.partition('.')[2]}.py"
    return [judge(question, answer, folder, seed) for answer in read_answers(path)]


def set_folder(number: str, folder: Path) -> Path:
    """Return a set's folder below the folder of all sets."""
    return folder / f"{number}_{SETS[number]}"


def kill_matrix(folder: Path, sets: Sequence[str], jobs: int = 1, seed: int = 0) -> list[Verdict]:
    """Judge every prepared answer of these sets, in `jobs` processes."""
    ids = [question.id for number in sets for question in load_set(number)]
    # One thread each: processes with several would get in each other's way.
    with ProcessPoolExecutor(jobs, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        found = pool.map(judge_question, ids, [folder] * len(ids), [seed] * len(ids))
        bar = tqdm(found, total=len(ids), unit="question", disable=None)
        return [verdict for verdicts in bar for verdict in verdicts]


def holes(verdicts: Sequence[Verdict]) -> list[str]:
    """List what is wrong with the matrix: a line for each hole."""
    found = []
    for id in dict.fromkeys(v.question for v in verdicts):
        right = [v for v in verdicts if v.question == id and v.right]
        wrong = [v for v in verdicts if v.question == id and not v.right]
        found += [f"{id}: right answer “{v.title}” is rejected: {v.full}" for v in right if v.full]
        found += [f"{id}: wrong answer “{v.title}” passes" for v in wrong if not v.full]
        if len(right) < RIGHT or len(wrong) < WRONG:
            found.append(f"{id}: {len(right)} right and {len(wrong)} wrong answers are too few")
        seen = sum(bool(v.public) for v in wrong)
        if wrong and seen < PUBLIC_SHARE * len(wrong):
            found.append(f"{id}: the public checks see {seen} of {len(wrong)} wrong answers")
    return found


def table(verdicts: Sequence[Verdict]) -> str:
    """Write the matrix as text: a line per answer, with what a student would read."""
    lines = []
    for v in verdicts:
        mark = "right" if v.right else "wrong"
        seen = "passes" if not v.full else "public" if v.public else "hidden"
        lines.append(f"{v.question:28} {mark:5} {seen:6}  {v.title}")
        if v.full:
            lines.append(f"{'':43}  → {v.full}")
    return "\n".join(lines)
