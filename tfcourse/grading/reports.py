"""Write grades: one CSV for the course, one page per student, and what other systems import."""

from __future__ import annotations

import csv
import html
import io
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from tfcourse.files import write_whole
from tfcourse.grading.grade import Result
from tfcourse.grading.questions import Question

Format = Literal["csv", "gradescope", "canvas", "moodle"]
STYLE = """
body { max-width: 46rem; margin: 2rem auto; padding: 0 1rem; font: 1rem/1.5 sans-serif; }
table { border-collapse: collapse; width: 100%; }
td { overflow-wrap: anywhere; }
th, td { padding: 0.4rem 0.6rem; border-bottom: 1px solid #bbb; text-align: left; }
td { vertical-align: top; }
@media (prefers-color-scheme: dark) {
  body { background: #161616; color: #eee; }
  a { color: #8ab4f8; }
}
"""


def write_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all."""
    write_whole(path, lambda file: file.write(text.encode("utf-8")))


def write_csv(path: Path, rows: Sequence[dict[str, object]], columns: dict[str, str]) -> None:
    """Write rows whole or not at all; `columns` maps a row's keys to the headings."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(columns.values())
    writer.writerows([_cell(row.get(key, "")) for key in columns] for row in rows)
    write_text(path, text.getvalue())


def _cell(value: object) -> object:
    """Keep a spreadsheet from running what a student wrote as a formula."""
    return f"'{value}" if isinstance(value, str) and value[:1] in tuple("=+-@\t\r") else value


def columns_of(format: Format, rows: Sequence[dict[str, object]], title: str) -> dict[str, str]:
    """Name the columns that a system's import asks for."""
    if format == "canvas":
        return {"student": "SIS Login ID", "score": title}
    if format == "moodle":
        return {"student": "ID number", "score": title, "feedback": f"{title} feedback"}
    return {key: key for key in (rows[0] if rows else {})}


def feedback_page(row: dict[str, object], questions: Sequence[Question], address: str) -> str:
    """Write one student's page: each question's points, and what was found."""
    lines = []
    for q in questions:
        reason = html.escape(str(row[f"{q.id} reason"])) or "All checks pass."
        place = f'<a href="{html.escape(address)}/{q.section}">the chapter</a>' if address else ""
        lines.append(
            f"<tr><td>{q.id}<br>{html.escape(q.title)}</td><td>{row[q.id]:g} of {q.points}</td>"
            f"<td>{reason} {place if row[f'{q.id} reason'] else ''}</td></tr>"
        )
    late = f" {row['days late']} days late." if row["days late"] else ""
    note = f" {html.escape(str(row['note']))}." if row["note"] else ""
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(str(row['student']))}</title><style>{STYLE}</style>"
        f"<h1>{html.escape(str(row['student']))}: {row['score']:g} of {row['of']}</h1>"
        f"<p>{html.escape(str(row['file']))}.{late}{note}</p>"
        "<table><thead><tr><th>Question</th><th>Points</th><th>What was found</th></tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table></html>\n"
    )


def feedback_text(row: dict[str, object], questions: Sequence[Question]) -> str:
    """Write the same as one paragraph, for systems that take text."""
    return " ".join(
        f"{q.id}: {row[q.id]:g} of {q.points}. {row[f'{q.id} reason']}".strip() for q in questions
    )


def gradescope_results(result: Result, questions: Sequence[Question]) -> str:
    """Return the content of Gradescope's `results.json` for one submission.

    Source: Gradescope, "Autograder Specifications", section "Output format".
    """
    tests = [
        {
            "name": f"{q.id} {q.title}",
            "score": result.marks[q.id].score,
            "max_score": q.points,
            "output": result.marks[q.id].reason or "All checks pass.",
        }
        for q in questions
    ]
    return json.dumps({"visibility": "visible", "tests": tests}, ensure_ascii=False, indent=1)


SETUP = """#!/usr/bin/env bash
set -euo pipefail
apt-get update -qq
apt-get install -y -qq python3 python3-venv python3-pip git
python3 -m venv /autograder/environment
/autograder/environment/bin/pip install -q "tfcourse @ git+{address}@{ref}"
chmod -R go-rwx /autograder/source
"""
RUN = """#!/usr/bin/env bash
# Gradescope's container allows no namespaces, so the weaker sandbox of another user is taken.
set -euo pipefail
/autograder/environment/bin/tfcourse grade /autograder/submission --set {number} \\
  --oracle /autograder/source/oracle --sandbox uid --format gradescope \\
  --out /autograder/results/results.json
"""


def gradescope_bundle(path: Path, number: str, oracle: Path, address: str, ref: str) -> None:
    """Write the zip file that Gradescope takes as an autograder for one set.

    Source: Gradescope, "Autograder Specifications": `setup.sh` and `run_autograder`.
    """
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, text in (
            ("setup.sh", SETUP.format(address=address, ref=ref)),
            ("run_autograder", RUN.format(number=number)),
        ):
            entry = zipfile.ZipInfo(name)
            entry.external_attr = 0o755 << 16
            bundle.writestr(entry, text)
        for file in sorted(oracle.glob(f"{number}_*/oracle.py")):
            bundle.write(file, f"oracle/{file.parent.name}/oracle.py")
    write_whole(path, lambda file: file.write(content.getvalue()))
