"""The exercise sets: every check against wrong answers, and student notebooks without solutions."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import notebooks
import pytest

from tfcourse.grading.commands import BOOK
from tfcourse.grading.grade import grade_notebook
from tfcourse.grading.kill_matrix import holes, judge_question, set_folder
from tfcourse.grading.release import (
    leaks,
    read_master,
    release,
    secrets_of,
    student_name,
    student_notebook,
)
from tfcourse.grading.sandbox import Sandbox
from tfcourse.grading.sets import SETS, find_question, load_set

pytestmark = pytest.mark.nohook
ROOT = Path(__file__).resolve().parent.parent
FOLDER, RELEASED = ROOT / "exercises", ROOT / "chapters" / "exercises"
QUESTIONS = [question.id for number in SETS for question in load_set(number)]


@pytest.mark.parametrize("id", QUESTIONS)
def test_the_checks_reject_every_wrong_answer_and_accept_every_right_one(id):
    """The kill matrix, a question at a time; on two seeds.

    Catches: a check that a misconception passes, or that asks for one way of writing.
    """
    for seed in (0, 1):
        assert holes(judge_question(id, FOLDER, seed)) == []


def test_every_set_has_enough_questions():
    assert len(QUESTIONS) == len(set(QUESTIONS)) >= 45
    for number in SETS:
        assert 6 <= len(load_set(number)) <= 10


@pytest.mark.parametrize("id", QUESTIONS)
def test_a_question_says_where_it_is_treated(id):
    """Catches: an anchor that the chapter does not have."""
    question = find_question(id)
    page, _, anchor = question.section.partition("#")
    chapter = notebooks.read(ROOT / "chapters" / page.replace(".html", ".ipynb"))
    headings = [
        line.lstrip("# ")
        for cell in chapter.cells
        if cell.cell_type == "markdown"
        for line in cell.source.splitlines()
        if line.startswith("#")
    ]
    anchors = {slug(heading) for heading in headings}
    assert anchor in anchors, sorted(anchors)
    most_minutes = {1: 5, 2: 10, 3: 15, 4: 20, 5: 30, 8: 60}  # as the instructors' page says
    fitting = min(p for p, most in most_minutes.items() if question.minutes <= most)
    assert question.points == fitting and 1 <= question.difficulty <= 3


def slug(heading: str) -> str:
    from docutils.nodes import make_id

    return make_id(heading)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", SETS)
def test_the_solutions_get_full_marks(number, tmp_path):
    """Catches: a solution that its own hidden checks reject in the sandbox."""
    with Sandbox() as sandbox:
        path = set_folder(number, FOLDER) / "master.ipynb"
        result = grade_notebook(path, load_set(number), sandbox, FOLDER, seed=1)
    assert {id: mark.reason for id, mark in result.marks.items() if mark.reason} == {}
    assert result.score == sum(q.points for q in load_set(number))


@pytest.mark.parametrize("number", SETS)
def test_the_student_notebook_is_the_masters_and_holds_no_secret(number, tmp_path):
    """Catches: a student notebook that is older than its master; a leak, also in metadata."""
    path = release(number, FOLDER, tmp_path, BOOK)
    assert path.read_text() == (RELEASED / student_name(number)).read_text(), "make exercises"
    master = read_master(number, FOLDER)
    secrets = list(secrets_of(master, set_folder(number, FOLDER) / "oracle.py"))
    assert len(secrets) >= 3 * len(load_set(number))
    page = ROOT / "_build" / "html" / "chapters" / "exercises" / f"{path.stem}.html"
    if page.exists():  # the browser's part of the tests builds it first
        assert leaks(page.read_text(), secrets) == []
    notebook = notebooks.read(path)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code[0].source == notebooks.SETUP_CELL
    assert not any(cell.outputs for cell in code)
    assert sum("NotImplementedError" in cell.source for cell in code) >= len(load_set(number))


@pytest.mark.parametrize("where", ["markdown", "metadata", "output", "code"])
def test_a_leak_is_found(where, tmp_path):
    """Catches: a proof that looks at code cells alone."""
    number = next(iter(SETS))
    master = read_master(number, FOLDER)
    oracle = set_folder(number, FOLDER) / "oracle.py"
    secret = next(iter(secrets_of(master, oracle)))
    notebook = student_notebook(master, load_set(number), BOOK)
    cell = notebook["cells"][-1]
    if where == "metadata":
        cell["metadata"]["note"] = secret
    elif where == "output":
        cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": [secret]}]
    else:
        cell["source"].append(f"\n{secret}\n")
    assert leaks(json.dumps(notebook, ensure_ascii=False).replace('\\"', '"'), [secret])


@pytest.mark.slow
@pytest.mark.parametrize("number", SETS)
def test_an_untouched_student_notebook_gets_nothing(number, tmp_path):
    """Catches: a check that a stub passes."""
    path = release(number, FOLDER, tmp_path, BOOK)
    with Sandbox() as sandbox:
        result = grade_notebook(path, load_set(number), sandbox, FOLDER, seed=1)
    assert result.score == 0
    assert all("NotImplementedError" in mark.reason for mark in result.marks.values())


def test_the_matrix_is_printed():
    """Catches: a command that hides a hole."""
    command = [sys.executable, "-m", "tfcourse.cli", "kill-matrix", "--set", "02", "--jobs", "2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "unbiased variance" in done.stdout and "wrong answers," in done.stdout
