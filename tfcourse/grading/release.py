"""Make a student's notebook from a master: without solutions, and with proof that none leaked."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from tfcourse.grading.kill_matrix import set_folder
from tfcourse.grading.questions import Question
from tfcourse.grading.reports import write_text
from tfcourse.grading.sets import SETS, load_set
from tfcourse.grading.submissions import question_of

SOLUTION = re.compile(
    r"^([ \t]*)### BEGIN SOLUTION *\n(.*?)^[ \t]*### END SOLUTION *$", re.M | re.S
)
HIDDEN = re.compile(r"^[ \t]*### BEGIN HIDDEN *\n(.*?)^[ \t]*### END HIDDEN *\n?", re.M | re.S)
FENCE = re.compile(r"### (?:BEGIN|END) ")
HEADER = re.compile(r"^<!-- question (\d\d\.\w+) -->$", re.M)
INSTRUCTOR = "instructor"
"""A cell with this tag is left out."""


def master_path(number: str, folder: Path) -> Path:
    """Return the master notebook of a set."""
    return set_folder(number, folder) / "master.ipynb"


def student_name(number: str) -> str:
    """Return the file name of a set's student notebook."""
    return f"{number}_{SETS[number]}.ipynb"


def read_master(number: str, folder: Path) -> dict:
    """Read a master notebook.

    Raises `ValueError` where it is missing, or where its questions are not those of the set.
    """
    path = master_path(number, folder)
    if not path.is_file():
        raise ValueError(f"{path} is missing; give the folder of the sets with --sets")
    master = json.loads(path.read_text(encoding="utf-8"))
    asked = [q.id for q in load_set(number)]
    for kind, found in (
        ("code", [question_of(_text(c)) for c in master["cells"] if c["cell_type"] == "code"]),
        ("markdown", [id for c in master["cells"] for id in HEADER.findall(_text(c))]),
    ):
        if [id for id in found if id] != asked:
            raise ValueError(f"{path}: its {kind} cells name {found}; the set asks {asked}")
    return master


def student_notebook(master: dict, questions: Sequence[Question], book: str) -> dict:
    """Return the student's notebook of a master; `book` is the address of the book's chapters."""
    by_id = {q.id: q for q in questions}
    cells = []
    for cell in master["cells"]:
        tags = cell.get("metadata", {}).get("tags", [])
        if INSTRUCTOR in tags:
            continue
        source = _text(cell)
        if cell["cell_type"] == "code":
            source = HIDDEN.sub("", source)
            source = SOLUTION.sub(r'\1raise NotImplementedError("write your answer here")', source)
        else:
            source = HEADER.sub(lambda match: _header(by_id[match[1]], book), source)
        new: dict = {
            "cell_type": cell["cell_type"],
            "id": cell["id"],
            "metadata": {"tags": tags} if tags else {},
            "source": source.splitlines(keepends=True),
        }
        if cell["cell_type"] == "code":
            new |= {"execution_count": None, "outputs": []}
        cells.append(new)
    metadata = copy.deepcopy({k: master["metadata"].get(k, {}) for k in ("kernelspec",)})
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def _header(question: Question, book: str) -> str:
    stars = "★" * question.difficulty + "☆" * (3 - question.difficulty)
    points = "1 point" if question.points == 1 else f"{question.points} points"
    return (
        f"## {question.title}\n\n`{question.id}` · {points} · about {question.minutes} minutes · "
        f"difficulty {stars} · [the chapter]({book}/{question.section})\n"
    )


def secrets_of(master: dict, oracle: Path) -> Iterator[str]:
    """Yield every line that no student may see: of solutions, hidden parts and hidden checks.

    A line that also stands in an open part of the master, and one of few letters, gives
    nothing away.
    """
    hidden: list[str] = oracle.read_text(encoding="utf-8").splitlines()
    visible: set[str] = set()
    for cell in master["cells"]:
        source = _text(cell)
        if INSTRUCTOR in cell.get("metadata", {}).get("tags", []):
            hidden += source.splitlines()
            continue
        if cell["cell_type"] == "code":
            for pattern in (SOLUTION, HIDDEN):
                for match in pattern.finditer(source):
                    hidden += match[match.lastindex or 0].splitlines()
                source = pattern.sub("", source)
        visible |= {line.strip() for line in source.splitlines()}
        hidden += [_text(output) for output in cell.get("outputs", [])]
    for line in dict.fromkeys(line.strip() for line in hidden):
        if line not in visible and len(re.findall(r"\w", line)) >= 8:
            yield line


def leaks(text: str, secrets: Sequence[str]) -> list[str]:
    """Return the secret lines, or fences, that a text holds."""
    plain = " ".join(text.split())
    found = [line for line in secrets if " ".join(line.split()) in plain]
    return found + sorted(set(FENCE.findall(plain)))


def release(number: str, folder: Path, target: Path, book: str) -> Path:
    """Write one set's student notebook into `target`; return its path.

    Raises `ValueError` where something of a solution or a hidden check is in it.
    """
    master = read_master(number, folder)
    notebook = student_notebook(master, load_set(number), book)
    oracle = set_folder(number, folder) / "oracle.py"
    everything = "\n".join(_strings(notebook))
    if found := leaks(everything, list(secrets_of(master, oracle))):
        raise ValueError(
            f"{master_path(number, folder)}: {found[0]!r} would leak; put it between fences"
        )
    target.mkdir(parents=True, exist_ok=True)
    path = target / student_name(number)
    write_text(path, json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
    return path


def _strings(value: object) -> Iterator[str]:
    """Yield every text of a notebook, keys and metadata too; a cell's source as one."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from ["".join(item)] if key == "source" else _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    else:
        yield str(value)


def _text(cell: dict) -> str:
    source = cell.get("source", cell.get("text", ""))
    return source if isinstance(source, str) else "".join(source)
