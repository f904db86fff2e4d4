"""Read a student's notebook: which cell answers which question, and which belong to none."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

MARK = re.compile(r"\s*#\s*question\s+(\d\d\.\w+)\s*(?:\n|$)", re.I)
"""The first line of a question's cell."""
MAGIC = re.compile(r"^([ \t]*)[%!].*$", re.M)
"""A line that IPython alone understands."""
MOST = 50 * 2**20
"""Bytes of a notebook."""


@dataclass
class Submission:
    """The code of a notebook: question cells by id, and for each the shared cells before it."""

    own: dict[str, str] = field(default_factory=dict)
    shared: dict[str, list[str]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)


def question_of(source: str) -> str:
    """Return the question that a cell's first line names, or nothing."""
    match = MARK.match(source)
    return match[1].lower() if match else ""


def read_submission(path: Path) -> Submission:
    """Read a notebook. Of several cells for one question the last counts, and a note says so.

    Raises `ValueError` for a file that is no notebook.
    """
    if path.stat().st_size > MOST:
        raise ValueError(f"{path.name} is larger than {MOST // 2**20} MiB")
    try:
        cells = json.loads(path.read_bytes())["cells"]
        sources = [_source(cell) for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(f"{path.name} is no Jupyter notebook") from None
    submission, shared = Submission(), []
    for source in sources:
        id = question_of(source)
        if not id:
            shared.append(source)
            continue
        if id in submission.own:
            submission.notes[id] = f"Several cells begin with `# Question {id}`; the last counts."
        submission.own[id], submission.shared[id] = source, list(shared)
    return submission


def _source(cell: dict) -> str:
    source = cell["source"]
    text = source if isinstance(source, str) else "".join(source)
    text = text.encode("utf-8", "replace").decode()  # half of a surrogate pair is no text
    return MAGIC.sub(r"\1pass", text)
