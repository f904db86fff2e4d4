"""The stored notebooks: what they may leave unchecked, and that nbval would see a lie."""

from __future__ import annotations

import ast
import getpass
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import notebooks
import pytest
import strict_nbval
from run import NBVAL

ROOT = Path(__file__).resolve().parent.parent
CHAPTERS = notebooks.chapters()
UNCHECKED = {"quiz", "timing", "trained"}
"""The kinds of cells whose outputs may differ between two runs or machines."""
OTHER_TAGS = {"setup", "remove-cell", "hide-cell", "hide-input", "hide-output", "remove-input"}
MAY_RAISE: set[str] = set()
"""Cells, as "chapter: first line", that end in an exception because it is the lesson."""


def code_cells(path: Path) -> list[nbformat.NotebookNode]:
    return [cell for cell in notebooks.read(path).cells if cell.cell_type == "code"]


def texts(cell: nbformat.NotebookNode) -> list[str]:
    """List the outputs of a cell as text, less images and scripts."""
    found = []
    for output in cell.outputs:
        found.append(output.get("text", ""))
        for kind, value in output.get("data", {}).items():
            if not kind.startswith("image/") and not kind.endswith("+json"):
                found.append(value if isinstance(value, str) else json.dumps(value))
    return found


@pytest.fixture(params=CHAPTERS, ids=lambda path: path.stem)
def chapter(request) -> Path:
    return request.param


def test_only_three_kinds_of_cells_go_unchecked(chapter):
    """Catches: an unstable cell tagged away, or nbval's own tags under another name."""
    for cell in code_cells(chapter):
        tags, first = notebooks.tags(cell), cell.source.split("\n", 1)[0]
        assert ("nbval-ignore-output" in tags) == bool(tags & UNCHECKED), f"{first}: {tags}"
        raising = {"raises-exception"} if f"{chapter.stem}: {first}" in MAY_RAISE else set()
        assert tags <= UNCHECKED | OTHER_TAGS | raising | {"nbval-ignore-output"}, first
        assert len(tags & UNCHECKED) <= 1, first
        assert not re.search(r"#\s*(NBVAL|PYTEST_VALIDATE)", cell.source), first
        assert ("quiz" in tags) == ("display_quiz(" in cell.source), first


def test_a_trained_result_is_asserted_by_the_next_cell(chapter):
    """Catches: a trained number that is shown and checked by nothing."""
    cells = code_cells(chapter)
    for cell, following in zip(cells, [*cells[1:], None], strict=True):
        if "trained" in notebooks.tags(cell):
            assert following is not None, cell.source
            assert "nbval-ignore-output" not in notebooks.tags(following), following.source
            checks = [n for n in ast.walk(ast.parse(following.source)) if isinstance(n, ast.Assert)]
            assert checks, following.source


@pytest.mark.parametrize(
    "path", [path for path in CHAPTERS if path.stem[:2].isdigit()], ids=lambda path: path.stem
)
def test_a_chapter_has_a_widget_a_quiz_and_a_card(path):
    """Catches: a chapter that only talks, or that the landing page does not lead to."""
    cells = code_cells(path)
    assert any(notebooks.VIEW in o.get("data", {}) for cell in cells for o in cell.outputs)
    assert any("quiz" in notebooks.tags(cell) for cell in cells)
    assert f":link: {path.stem}\n" in (path.parent / "index.md").read_text(encoding="utf-8")


def test_printed_lines_fit_a_phone(chapter):
    """35 letters are what a page of 360 pixels shows without sideways scrolling.

    Catches: a table or a sentence that runs out of its box. Source code may.
    """
    for cell in code_cells(chapter):
        if "inspect.getsource" not in cell.source:
            lines = [line for o in cell.outputs for line in o.get("text", "").splitlines()]
            assert [line for line in lines if len(line) > 35] == []


def test_answers_wait_until_the_reader_opens_them(chapter):
    """Catches: a worked answer that stands open below its question, or that nothing opens."""
    for cell in notebooks.read(chapter).cells:
        for tag, rest in re.findall(r"<details([^>]*)>\s*(.{0,9})", cell.source):
            assert "open" not in tag and rest == "<summary>", cell.source[:200]


def test_every_cell_was_run_in_order(chapter):
    """Catches: outputs stored by hand, or cells run out of order."""
    counts = [cell.execution_count for cell in code_cells(chapter) if cell.source.strip()]
    assert counts == list(range(1, len(counts) + 1))


def test_metadata_names_no_machine(chapter):
    """Case 83. Catches: the author's own kernel, Python version or timestamps."""
    notebook = notebooks.read(chapter)
    assert notebook.metadata.kernelspec == notebooks.KERNEL
    assert notebook.metadata.language_info == notebooks.LANGUAGE
    assert all("execution" not in cell.metadata for cell in notebook.cells)


def test_outputs_name_no_place_or_person_and_no_warning(chapter):
    """Catches: absolute paths, user names, object addresses, and stored warnings."""
    place = re.compile(r"/(?:home|root|Users|tmp|work|usr|opt)/|[A-Z]:\\\\|\.venv|0x[0-9a-f]{8}")
    user = getpass.getuser()
    for cell in code_cells(chapter):
        assert all(output.get("name") != "stderr" for output in cell.outputs), cell.source
        for text in texts(cell):
            assert not place.search(text), place.search(text)
            assert user == "root" or not re.search(rf"\b{re.escape(user)}\b", text)


def test_every_image_has_alternative_text(chapter):
    """Catches: `plt.show()` in place of `tfcourse.figures.show`; math in the text."""
    for cell in code_cells(chapter):
        for output in cell.outputs:
            for kind in output.get("data", {}):
                if kind.startswith("image/"):
                    alt = output.metadata[kind]["alt"]
                    assert cell.metadata.mystnb.image.alt == alt
                    assert len(alt) > 15 and not re.search(r"[\\$]", alt), alt


def test_every_widget_view_has_its_model(chapter):
    """Case 73. Catches: widget state that was not stored, or lacks a layout."""
    notebook = notebooks.read(chapter)
    widgets = notebook.metadata.get("widgets", {}).get(notebooks.STATE, {}).get("state", {})
    views = {
        output.data[notebooks.VIEW]["model_id"]
        for cell in code_cells(chapter)
        for output in cell.outputs
        if notebooks.VIEW in output.get("data", {})
    }
    named = set(re.findall(r"IPY_MODEL_([\w-]+)", json.dumps(widgets)))
    assert views | named == set(widgets)


def test_tidying_again_changes_nothing(chapter):
    """Catches: ids that depend on the run, so that every `make chapters` gives a diff."""
    notebook = notebooks.read(chapter)
    before = nbformat.writes(notebook)
    notebooks.stamp_setup_cell(notebook)
    notebooks.tidy(notebook, chapter.stem)
    assert nbformat.writes(notebook) == before


# That nbval sees what it should, and only that.


def stored(path: Path, source: str, output: str, kernel: str = "python3", tags=()) -> Path:
    """Write a notebook of one cell with one stored line of output."""
    cell = nbformat.v4.new_code_cell(source, execution_count=1, metadata={"tags": list(tags)})
    cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text=output)]
    notebook = nbformat.v4.new_notebook(cells=[cell])
    notebook.metadata.kernelspec = {"name": kernel, "display_name": kernel, "language": "python"}
    nbformat.write(notebook, path)
    return path


def green(folder: Path) -> dict[str, bool]:
    """Run nbval on every notebook of a folder; return which ones it passes."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "tests"), "EXPECTED": sys.executable}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *NBVAL]
    done = subprocess.run(
        [*command, "--junit-xml=report.xml", *(path.name for path in folder.glob("*.ipynb"))],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    cases = ElementTree.parse(folder / "report.xml").iter("testcase")
    return {case.get("classname").split(".")[0]: len(case) == 0 for case in cases}


@pytest.mark.slow
@pytest.mark.nohook
def test_nbval_sees_each_lie_and_nothing_else(tmp_path):
    """Cases 71, 72, 81, 83. Catches: nbval run lax, a plugin that skips stdout as well,
    nbval run in the kernel that a notebook names; a `trained` cell that is left out, or compared
    word for word."""
    here = "import os, sys; print(sys.executable == os.environ['EXPECTED'])"
    constant = "from package_of_the_book import EPS; print(EPS)"
    warning = "import warnings; warnings.warn('new')"
    cases = {
        "true": ("print(f'{1 / 3:.3f}')", "0.333", True),
        "changed_number": ("print(f'{1 / 3:.3f}')", "0.334", False),
        "exception": ("print('0.333'); 1 / 0", "0.333", False),
        "extra_warning": (f"{warning}; print(1)", "1", True),
        "warning_and_changed_number": (f"{warning}; print(2)", "1", False),
        "address": ("class A: ...\nprint(A())", "<__main__.A object>", True),
        "kernel_of_the_author": (here, "True", True),
        "constant": (constant, "1e-05", True),
        "changed_constant": (constant, "1e-06", False),
    }
    trained = "print('loss 0.86'); print('Dear Ivan,')"
    cases |= {
        "trained_last_digit_and_words": (trained, "loss 0.87\nHello Mei,", True),
        "trained_changed_number": (trained, "loss 0.26\nDear Ivan,", False),
        "trained_exception": (f"{trained}; 1 / 0", "loss 0.86\nDear Ivan,", False),
    }
    (tmp_path / "package_of_the_book.py").write_text("EPS = 1e-5\n")
    for name, (source, output, _) in cases.items():
        kernel = "an-authors-own-env" if name == "kernel_of_the_author" else "python3"
        tags = ["trained", "nbval-ignore-output"] if "trained" in name else []
        stored(tmp_path / f"{name}.ipynb", source, output + "\n", kernel, tags)
    assert green(tmp_path) == {name: expected for name, (_, _, expected) in cases.items()}


@pytest.mark.parametrize(
    ("stored", "printed", "said"),
    [
        ("loss 2.22  floor 1.9\n", "loss 2.23  floor 1.8\n", ""),
        ("repair 95%\nsteps 10\n", "repair 94%\nsteps 10\n", ""),
        ("MLP 1   −0.1\n", "MLP 1    +0.0\n", ""),
        ("do do receive\n", "do do do\n", ""),
        ("loss 2.22\n", "loss 2.24\n", "2.22 is stored, 2.24 came out, in the line: loss 2.22"),
        ("loss 2.2\n", "loss 2.20\n", "2.2 is stored, 2.20 came out, in the line: loss 2.2"),
        ("MLP +0.4\n", "MLP -0.4\n", "+0.4 is stored, -0.4 came out, in the line: MLP +0.4"),
        ("with 1.4\n", "without 1.4\n", "stored: with 1.4\nnow:    without 1.4"),
        ("loss 0.7\n", "loss 0.7\nfloor 0.7\n", "lines with numbers: 1 stored, 2 came out"),
        ("loss 0.7\n", "loss nan\n", "lines with numbers: 1 stored, 0 came out"),
    ],
)
def test_a_trained_number_may_differ_by_one_in_its_last_digit(stored, printed, said):
    """Catches: a tolerance of two digits, or relative; a lost sign; words left uncompared;
    text that a model wrote compared word for word."""
    assert strict_nbval.disagreement(stored, printed) == said


@pytest.mark.slow
@pytest.mark.nohook
def test_a_failed_execution_leaves_the_notebook_as_it_was(tmp_path):
    """Catches: a half-run notebook written over the good one; an exit code of 0."""
    path = stored(tmp_path / "failing.ipynb", "print(1); raise SystemError('no')", "1\n")
    before = path.read_bytes()
    command = [sys.executable, str(ROOT / "book" / "execute.py"), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert path.name in done.stderr
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_an_edited_cell_keeps_its_id():
    """So that a changed sentence, or another repository's address, needs no tidying.

    Catches: an id that is a hash of the text.
    """
    notebook = notebooks.read(notebooks.chapters()[0])
    before = [cell.id for cell in notebook.cells]
    for cell in notebook.cells:
        cell.source += " "
    notebooks.tidy(notebook, "x")
    assert [cell.id for cell in notebook.cells] == before
    assert len(set(before)) == len(before)
