"""Read a student's notebook: which cell answers which question, and which belong to none."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tfcourse.grading.names import given_names, parse, read_names

MARK = re.compile(r"(?:\s*(?:pass|#\s*@).*\n)*\s*#\s*question\s+(\d\d\.\w+)", re.I)
"""How a question's cell begins. Above may stand Colab's `#@title`, or what `%%time` became."""
MAGIC = {
    re.compile(r"^([ \t]*)%time[ \t]+(?=\w)", re.M): r"\1",
    re.compile(r"^([ \t]*[\w, \t]+=)[ \t]*[%!].*$", re.M): r"\1 []",
    re.compile(r"^([ \t]*)(?:[%!](?!=).*|\?+[\w.]+|[\w.]+\?+)[ \t;]*$", re.M): r"\1pass",
}
"""Lines that IPython alone understands, and what stands for each: no magic works here."""
MOST = 50 * 2**20
"""Bytes of a notebook."""
MOST_CODE = 2**20
"""Characters of its code; reading more takes the grader long."""


@dataclass
class Submission:
    """The code of a notebook: question cells by id, and for each the cells that run before it."""

    own: dict[str, str] = field(default_factory=dict)
    shared: dict[str, list[str]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    lost: int = 0


def question_of(source: str) -> str:
    """Return the question that a cell's first line names, or nothing."""
    match = MARK.match(source)
    return match[1].lower() if match else ""


def read_submission(path: Path) -> Submission:
    """Read a notebook. Of several cells for one question the last counts, and a note says so.

    Raises `ValueError` for a file that is no notebook.
    """
    check_file(path)
    try:
        cells = json.loads(path.read_bytes())["cells"]
        sources = [_source(cell) for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError(f"{path.name} is no Jupyter notebook") from None
    if sum(map(len, sources)) > MOST_CODE:
        raise ValueError(f"{path.name} has more than {MOST_CODE // 2**20} MiB of code")
    submission = Submission()
    cells = [(question_of(source), source) for source in sources]
    for place, (id, source) in enumerate(cells):
        if not id:
            continue
        if id in submission.own:
            submission.notes[id] = f"Several cells begin with `# Question {id}`; the last counts."
        submission.own[id] = source
        submission.shared[id] = _before(cells[:place], id, source)
    return submission


def check_file(path: Path) -> None:
    """Raise `ValueError` for what would not be read, or would be somebody else's."""
    if path.is_symlink() or not path.is_file():
        raise ValueError(f"{path.name} is a link, or no regular file")
    if path.stat().st_size > MOST:
        raise ValueError(f"{path.name} is larger than {MOST // 2**20} MiB")


def _before(cells: Sequence[tuple[str, str]], id: str, own: str) -> list[str]:
    """Return the cells that belong to no question, and the other answers whose names they use."""
    codes = [parse(source) for _, source in cells]
    kept = {i for i, (other, _) in enumerate(cells) if not other}
    more = kept
    while more:
        kept |= more
        used = read_names(parse(own)).union(*(read_names(codes[i]) for i in kept))
        more = {
            i
            for i, (other, _) in enumerate(cells)
            if i not in kept and other != id and given_names(codes[i]) & used
        }
    return [cells[i][1] for i in sorted(kept)]


def _source(cell: dict) -> str:
    source = cell.get("source", "")
    text = source if isinstance(source, str) else "".join(source)
    text = text.encode("utf-8", "replace").decode()  # half of a surrogate pair is no text
    text = "\n".join(text.removeprefix("\ufeff").splitlines())
    if text[:1] in (" ", "\t"):  # IPython takes a cell that is indented as a whole
        text = textwrap.dedent(text)
    if not parse(text).body:  # a line of Python can begin with `!=` or `%`
        for magic, instead in MAGIC.items():
            text = magic.sub(instead, text)
    return text
