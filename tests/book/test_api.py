"""The API pages show every public name of the package, and are built without it."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from conftest import ROOT, chapter_pages

Definition = ast.ClassDef | ast.FunctionDef
SIGNS = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "…": "...", "`": None, "*": None})


def public(body: list[ast.stmt], path: str) -> Iterator[tuple[str, ast.stmt]]:
    """Find the names that a module or class defines for others, and what defines each."""
    for node in body:
        if isinstance(node, Definition):
            names = [node.name]
        else:
            targets = [*getattr(node, "targets", []), getattr(node, "target", None)]
            parts = [part for target in targets if target for part in ast.walk(target)]
            names = [part.id for part in parts if isinstance(part, ast.Name)]
        for name in names:
            if not name.startswith("_"):
                yield f"{path}.{name}", node
                if isinstance(node, ast.ClassDef):
                    yield from public(node.body, f"{path}.{name}")


@functools.cache
def modules() -> dict[str, ast.Module]:
    found = {}
    for file in sorted((ROOT / "tfcourse").rglob("*.py")):
        if file.parent.name == "sets" and file.name != "__init__.py":
            continue  # the checks of the exercises, which are no interface
        parts = file.relative_to(ROOT).with_suffix("").parts
        path = ".".join(part for part in parts if part != "__init__")
        found[path] = ast.parse(file.read_text(encoding="utf-8"))
    del found["tfcourse"]  # only the version
    return found


def everything() -> dict[str, ast.AST]:
    found: dict[str, ast.AST] = {}
    for path, module in modules().items():
        found |= {path: module, **dict(public(module.body, path))}
    return found


def docstring(node: ast.AST) -> str | None:
    return ast.get_docstring(node) if isinstance(node, ast.Module | Definition) else None


def plain(text: str) -> str:
    return re.sub(r"\s+", "", text.translate(SIGNS))


@pytest.fixture(scope="module")
def shown(html) -> dict[str, str]:
    """What the API pages say on each name, without spaces."""
    found = {}
    for path in chapter_pages():
        if path.startswith("chapters/api/"):
            page = BeautifulSoup((html / path).read_text(encoding="utf-8"), "html.parser")
            for place in page.select('dt[id^="tfcourse."]'):
                found[place["id"]] = plain(place.parent.get_text())
            for place in page.select('[id^="module-tfcourse."]'):
                section = place if place.name == "section" else place.find_parent("section")
                found[place["id"].removeprefix("module-")] = plain(section.get_text())
    return found


def test_each_public_name_is_shown_with_its_docstring(shown):
    """Every line of it: Markdown swallows some signs without a warning.

    Catches: a module that no page names, a name that griffe does not see, `<eos>` outside of
    backticks (a browser takes it for a tag), a section of a docstring that is left out.
    """
    names = everything()
    assert len(names) > 300
    missing = sorted(names.keys() - shown.keys())
    assert missing == [], "show the module on a page of chapters/api: ```{api} NAME```"
    for path, node in names.items():
        for line in (docstring(node) or "").splitlines():
            line = re.sub(r"^\s*(- |(Args|Raises):$)", "", line)
            assert plain(line) in shown[path], f"{path}: {line}"


def test_public_names_have_docstrings():
    """A method may have it from the class that it overrides.

    Catches: a function, a class, a method or a module without a docstring.
    """
    bare = []
    for path, node in everything().items():
        module, _, name = path.rpartition(".")
        text = docstring(node)
        if module not in modules() and isinstance(node, ast.FunctionDef):
            module, _, owner = module.rpartition(".")
            text = inspect.getdoc(getattr(getattr(importlib.import_module(module), owner), name))
        if isinstance(node, ast.Module | Definition) and not text:
            bare.append(path)
    assert bare == []


def test_a_signature_shows_shapes_and_leads_to_its_types(html):
    """Catches: types with their modules, an alias that is not linked, a field's `Annotated`."""
    page = BeautifulSoup((html / "chapters/api/model.html").read_text("utf-8"), "html.parser")
    forward = page.find(id="tfcourse.attention.MultiHeadAttention.forward")
    text = re.sub(r"\s+", " ", forward.get_text())
    assert "x: Float[Tensor, 'B L d']" in text
    assert "mask: Bool[Tensor, '#B #H #L S'] | None = None" in text
    links = {link.get_text(): link["href"] for link in forward.select("a.reference")}
    assert links["KeysAndValues"] == "#tfcourse.attention.KeysAndValues"
    field = page.find(id="tfcourse.config.ModelConfig.n_heads").find_parent("dl").get_text()
    assert "int = 4" in field and "query heads per block" in field and "Annotated" not in field


def test_a_module_leads_to_its_chapter(html):
    """Catches: a file that a chapter names and that does not name the chapter."""
    page = BeautifulSoup((html / "chapters/api/model.html").read_text("utf-8"), "html.parser")
    section = page.find(id="module-tfcourse.residuals")
    assert section.select_one("a[href='../01_residuals.html']")


@pytest.mark.parametrize("name", ["tfcourse.attention.causal_mask", "tfcourse.training.train"])
def test_search_finds_a_name(visit, name):
    """Catches: names written as text, not through Sphinx's Python domain."""
    page = visit("file")
    page.open("search.html")
    page.page.locator("main input[type=search]").fill(name.rsplit(".")[-1])
    page.page.keyboard.press("Enter")
    page.page.locator(f"#search-results a[href$='#{name}']").first.wait_for(timeout=10_000)
    assert page.complaints == []


def test_the_book_is_built_without_torch(tmp_path):
    """A torch that leaves a trace and cannot be imported stands in front of the real one.

    Catches: an extension that imports `tfcourse.attention`, or griffe allowed to import.
    """
    trace = tmp_path / "trace"
    (tmp_path / "torch.py").write_text(f"open({str(trace)!r}, 'w'); raise ImportError('no torch')")
    jupyter_book = Path(sys.executable).with_name("jupyter-book")
    options = ["-W", "--keep-going", "-n", "--quiet", "--path-output", str(tmp_path)]
    done = subprocess.run(
        [str(jupyter_book), "build", str(ROOT), *options],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "_build/html/chapters/api/model.html").exists()
    assert not trace.exists()
