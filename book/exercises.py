"""Write the student notebooks and the instructors' page from what lies in `exercises/`."""

from __future__ import annotations

import os
from collections.abc import Sequence

import notebooks

from tfcourse.grading.commands import BOOK
from tfcourse.grading.kill_matrix import Verdict, holes, kill_matrix
from tfcourse.grading.release import release
from tfcourse.grading.sets import SETS, load_set

ROOT = notebooks.ROOT
FOLDER, TARGET = ROOT / "exercises", ROOT / "chapters" / "exercises"
TEXT = ROOT / "book" / "instructors.md"
PAGE = ROOT / "chapters" / "instructors.md"
MATRIX = ROOT / "chapters" / "kill_matrix.md"
# Left out of the search: what it holds are wrong answers.
MATRIX_HEAD = """---
nosearch: true
---

# The kill matrix

Wrong answers that the checks of the exercises are tested with, and what a student reads. *Hidden*
ones pass the checks in the notebook; grading finds them. `make exercises` writes this page.

"""


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


def matrix_text(verdicts: Sequence[Verdict]) -> str:
    """Write the matrix: for each question its wrong answers, folded away."""
    lines = []
    for id in dict.fromkeys(v.question for v in verdicts):
        wrong = [v for v in verdicts if v.question == id and not v.right]
        public = sum(bool(v.public) for v in wrong)
        lines += [
            f"<details><summary><code>{id}</code>: {len(wrong)} wrong answers; the notebook finds "
            f"{public}, grading {len(wrong) - public} more</summary>\n",
            *(f"- {'' if v.public else '*hidden* '}{v.title} → “{v.full}”" for v in wrong),
            "\n</details>\n",
        ]
    return "\n".join(lines)


def main() -> int:
    for number in SETS:
        print(release(number, FOLDER, TARGET, BOOK))
    verdicts = kill_matrix(FOLDER, list(SETS), jobs=min(os.cpu_count() or 1, 4))
    for hole in holes(verdicts):
        print(hole)
    text = TEXT.read_text(encoding="utf-8")
    text = text.replace("{{ sets_table }}", sets_table())
    PAGE.write_text(text, encoding="utf-8")
    MATRIX.write_text(MATRIX_HEAD + matrix_text(verdicts), encoding="utf-8")
    print(PAGE, MATRIX)
    return bool(holes(verdicts))


if __name__ == "__main__":
    raise SystemExit(main())
