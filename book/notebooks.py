"""Read, tidy and write the course's notebooks.

What is stored must not change when nothing changed: widget, quiz and cell ids are derived
from the content, and whatever names the machine or the moment is removed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path

import nbformat
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parent.parent
CHAPTERS = ROOT / "chapters"
SETUP_CELL = (ROOT / "book" / "colab_cell.py").read_text(encoding="utf-8").rstrip()
STATE = "application/vnd.jupyter.widget-state+json"
VIEW = "application/vnd.jupyter.widget-view+json"

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
LANGUAGE = {"name": "python", "file_extension": ".py", "pygments_lexer": "ipython3"}


def chapters() -> list[Path]:
    """List the notebooks of the book."""
    return sorted(CHAPTERS.glob("*.ipynb"))


def tags(cell: NotebookNode) -> set[str]:
    return set(cell.metadata.get("tags", ()))


def read(path: Path) -> NotebookNode:
    return nbformat.read(path, as_version=4)


def write(notebook: NotebookNode, path: Path) -> None:
    """Write the notebook whole or not at all."""
    nbformat.validate(notebook)
    unfinished = path.with_suffix(".ipynb.new")
    nbformat.write(notebook, unfinished)
    os.replace(unfinished, path)


def stamp_setup_cell(notebook: NotebookNode) -> None:
    """Make the first code cell the set-up cell for Colab; the built page leaves it out."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if code and "setup" in tags(code[0]):
        cell = code[0]
    else:
        cell = nbformat.v4.new_code_cell()
        position = notebook.cells.index(code[0]) if code else len(notebook.cells)
        notebook.cells.insert(position, cell)
    cell.source = SETUP_CELL
    cell.metadata.tags = ["setup", "remove-cell"]


def tidy(notebook: NotebookNode, name: str) -> None:
    """Normalize ids and metadata; `name` makes widget ids differ between notebooks."""
    extra = {k: v for k, v in notebook.metadata.items() if k in ("accelerator", "colab", "widgets")}
    notebook.metadata = NotebookNode(extra, kernelspec=KERNEL, language_info=LANGUAGE)
    taken: set[str] = set()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.get("id", "") in taken or not cell.get("id"):
            cell.id = _content_id(cell.source, taken)
        taken.add(cell.id)
        if cell.cell_type == "code":
            _copy_alt_text(cell)
            cell.outputs = [_rename_quiz(output, cell.id) for output in cell.outputs]
            for output in cell.outputs:
                _hide_address(output)
    _tidy_widgets(notebook, name)


def _content_id(source: str, taken: set[str]) -> str:
    base = new = hashlib.sha256(source.encode()).hexdigest()[:8]
    repeat = 1
    while new in taken:
        repeat += 1
        new = f"{base}-{repeat}"
    return new


def _copy_alt_text(cell: NotebookNode) -> None:
    """Copy an image's alt text to where MyST-NB looks for it: the cell's metadata."""
    alts = [
        output.metadata[kind]["alt"]
        for output in cell.outputs
        for kind in output.get("data", ())
        if kind.startswith("image/") and "alt" in output.metadata.get(kind, ())
    ]
    if len(alts) > 1:
        raise ValueError(
            f"a cell shows {len(alts)} images ({alts[0]!r}, ...), but can hold one alt text; "
            "show each in a cell of its own"
        )
    cell.metadata.pop("mystnb", None)
    if alts:
        cell.metadata.mystnb = {"image": {"alt": alts[0]}}


def _rename_quiz(output: NotebookNode, cell_id: str) -> NotebookNode:
    """Replace jupyterquiz's random name, which must remain a JavaScript identifier."""
    text = json.dumps(output)
    names = re.findall(r'<div id=\\"([A-Za-z]{12})\\" data-shufflequestions', text)
    names += re.findall(r"var questions([A-Za-z]{12})=", text)
    for old in names:
        text = text.replace(old, "quiz_" + cell_id.replace("-", "_"))
    return nbformat.from_dict(json.loads(text))


def _hide_address(output: NotebookNode) -> None:
    """Drop the memory address by which a widget calls itself (tests/nbval.cfg does the same)."""
    if VIEW in output.get("data", {}) and "text/plain" in output.data:
        output.data["text/plain"] = re.sub(r" at 0x[0-9a-f]+", "", output.data["text/plain"])


def _tidy_widgets(notebook: NotebookNode, name: str) -> None:
    """Keep the models that a cell shows, under ids that depend on their order alone."""
    views = [
        output.data[VIEW]["model_id"]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if VIEW in output.get("data", ())
    ]
    stored = notebook.metadata.pop("widgets", {}).get(STATE, {}).get("state", {})
    shown: dict[str, NotebookNode] = {}
    queue = list(dict.fromkeys(views))
    for model_id in queue:
        if model_id not in shown and model_id in stored:
            shown[model_id] = stored[model_id]
            queue += re.findall(r"IPY_MODEL_([\w-]+)", json.dumps(stored[model_id]))
    if not shown:
        return
    notebook.metadata.widgets = {
        STATE: {"state": shown, "version_major": 2, "version_minor": 0},
    }
    text = json.dumps(notebook)
    for number, old in enumerate(shown):
        new = hashlib.sha256(f"{name}/{number}".encode()).hexdigest()[:32]
        text = text.replace(old, new)
    renamed = nbformat.from_dict(json.loads(text))
    notebook.cells, notebook.metadata = renamed.cells, renamed.metadata
