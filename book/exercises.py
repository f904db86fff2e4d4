"""Write the student notebooks and the instructors' page from what lies in `exercises/`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import notebooks

from tfcourse.grading.commands import BOOK
from tfcourse.grading.kill_matrix import Verdict, holes, kill_matrix
from tfcourse.grading.release import release
from tfcourse.grading.sets import SETS, load_set

ROOT = notebooks.ROOT
FOLDER, TARGET = ROOT / "exercises", ROOT / "chapters" / "exercises"
TEXT = ROOT / "book" / "instructors.md"
PAGE = ROOT / "chapters" / "instructors.md"


def sets_table() -> str:
    """Write a table of the sets: questions, points, minutes."""
    lines = ["| Set | Questions | Points | Minutes |", "|---|---|---|---|"]
    for number, name in SETS.items():
        asked = load_set(number)
        points, minutes = sum(q.points for q in asked), sum(q.minutes for q in asked)
        title = name.replace("_", " ")
        lines.append(
            f"| [{number} {title}](exercises/{number}_{name}.ipynb) "
            f"| {len(asked)} | {points} | {minutes} |"
        )
    return "\n".join(lines)


def matrix_row(verdict: Verdict) -> str:
    """Write one wrong answer as a row of the matrix."""
    seen = "public" if verdict.public else "hidden"
    texts = (verdict.question, verdict.title, seen, verdict.full)
    return f"| {' | '.join(text.replace('|', chr(92) + '|') for text in texts)} |"


def matrix_table(verdicts: Sequence[Verdict]) -> str:
    head = ["| Question | Wrong answer | Found by | What a student reads |", "|---|---|---|---|"]
    return "\n".join(head + [matrix_row(v) for v in verdicts if not v.right])


def main() -> int:
    for number in SETS:
        print(release(number, FOLDER, TARGET, BOOK))
    verdicts = kill_matrix(FOLDER, list(SETS), jobs=min(os.cpu_count() or 1, 4))
    for hole in holes(verdicts):
        print(hole)
    text = TEXT.read_text(encoding="utf-8")
    text = text.replace("{{ sets_table }}", sets_table())
    text = text.replace("{{ kill_matrix }}", matrix_table(verdicts))
    Path(PAGE).write_text(text, encoding="utf-8")
    print(PAGE)
    return bool(holes(verdicts))


if __name__ == "__main__":
    raise SystemExit(main())
