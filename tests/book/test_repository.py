"""The project's address stands in one place, and one command changes it everywhere."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import notebooks
import pytest
import repository
from conftest import ROOT

LINK = re.compile(
    r"(?:github\.com|google\.com/github)/([\w.-]+)/([\w.-]+?)(?=\.git\b|[/@)\"'\s>]|$)"
)
PAGES = re.compile(r"\b([\w-]+)\.github\.io/([\w.-]+)")


def addresses(root: Path) -> dict[tuple[str, str], str]:
    """Find each repository that the project's files name, and a file that does."""
    found = {}
    for path in repository.files(root):
        text = path.read_text(encoding="utf-8")
        for match in [*LINK.finditer(text), *PAGES.finditer(text)]:
            found.setdefault((match[1], match[2].rstrip(".")), str(path.relative_to(root)))
    return found


@pytest.fixture
def copy(tmp_path) -> Path:
    """A copy of the project's text files that git can list."""
    for path in repository.files(ROOT):
        target = tmp_path / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    return tmp_path


def test_one_command_rewrites_every_address(copy):
    """Catches: a badge, link or set-up cell that the rewrite misses; a half-changed notebook."""
    owner, name, ref = repository.current(copy)
    assert (owner, name) in addresses(copy)
    fork = ("nobody-has-this-name", "nor-this-one")
    assert repository.main(["https://github.com/" + "/".join(fork), "nor-this-ref"], root=copy) == 0
    assert repository.current(copy) == (*fork, "nor-this-ref")
    new = addresses(copy)
    assert (owner, name) not in new, new.get((owner, name))
    assert fork in new
    for path in (copy / "chapters").glob("*.ipynb"):
        json.loads(path.read_text(encoding="utf-8"))
        assert f"@{ref}" not in path.read_text(encoding="utf-8")
    # And back: nothing else was touched.
    assert repository.main([f"https://github.com/{owner}/{name}", ref], root=copy) == 0
    for path in repository.files(ROOT):
        assert (copy / path.relative_to(ROOT)).read_bytes() == path.read_bytes(), path


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["me/mine"],
        ["https://example.org/me/mine"],
        ["https://github.com/me/mine", "a b"],
        ["https://github.com/<you>/<fork>"],  # the README's line, as it stands there
    ],
)
def test_what_is_no_repository_is_refused_and_changes_nothing(copy, arguments, capsys):
    """Catches: an address written before it was checked."""
    before = (copy / "_config.yml").read_bytes()
    assert repository.main(arguments, root=copy) == 2
    assert "give" in capsys.readouterr().out
    assert (copy / "_config.yml").read_bytes() == before


def test_a_name_that_the_new_one_begins_with_is_replaced_once():
    """Catches: "fork.v2.v2"; the address of another repository, whose name goes on after a dot."""
    old, new = ("me", "fork", "main"), ("me", "fork.v2", "main")
    for text in (
        "pip install git+https://github.com/me/{}@main",
        "https://colab.research.google.com/github/me/{}/blob/main/a.ipynb",
        "git clone https://github.com/me/{}.git",
        "See https://github.com/me/{}.",
        "https://me.github.io/{}/",
    ):
        assert repository.rewrite(text.format("fork"), old, new) == text.format("fork.v2")
    other = "https://github.com/me/fork.js"
    assert repository.rewrite(other, old, new) == other


CONFIG = b"repository:\r\n  url: https://github.com/me/fork\r\n  branch: main\r\n"


def test_line_ends_stay_what_they_are(tmp_path):
    """Catches: a Windows checkout whose every line has changed; a branch that is not found."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "_config.yml").write_bytes(CONFIG)
    (tmp_path / "a.md").write_bytes(b"https://github.com/me/fork\r\nnext\n")
    assert repository.main(["https://github.com/you/yours", "v1"], root=tmp_path) == 0
    want = CONFIG.replace(b"me/fork", b"you/yours").replace(b"main", b"v1")
    assert (tmp_path / "_config.yml").read_bytes() == want
    assert (tmp_path / "a.md").read_bytes() == b"https://github.com/you/yours\r\nnext\n"


def test_a_text_in_another_encoding_is_named_before_anything_changes(tmp_path, capsys):
    """Catches: a traceback that names no file, with half of the files rewritten."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "_config.yml").write_bytes(CONFIG)
    (tmp_path / "z.txt").write_bytes(b"gr\xfc\xdfe")
    assert repository.main(["https://github.com/you/yours"], root=tmp_path) == 2
    said = capsys.readouterr().out
    assert "z.txt is not UTF-8" in said and said.count("\n") == 1
    assert (tmp_path / "_config.yml").read_bytes() == CONFIG


def test_a_ref_that_looks_like_a_version_is_this_one():
    """Any branch will do. Catches: a release whose Colab cells install the release before it."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    ref = repository.current(ROOT)[2]
    assert not re.fullmatch(r"v\d.*", ref) or ref == f"v{version}"


def test_set_up_cells_are_equal_and_first():
    """Catches: a chapter with a set-up cell of its own, or without one."""
    owner, name, ref = repository.current(ROOT)
    assert f"git+https://github.com/{owner}/{name}@{ref}" in notebooks.SETUP_CELL
    for path in notebooks.chapters():
        code = [cell for cell in notebooks.read(path).cells if cell.cell_type == "code"]
        assert code[0].source == notebooks.SETUP_CELL, path.name
        assert "setup" in notebooks.tags(code[0]), path.name


def run_cell(monkeypatch, installed: bool) -> list[list[str]]:
    """Run the set-up cell with pip replaced; return the commands that it would have run."""
    commands = []
    monkeypatch.setattr(subprocess, "run", lambda command, check: commands.append(command))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object() if installed else None)
    exec(compile(notebooks.SETUP_CELL, "cell", "exec"), {})
    return commands


def test_the_set_up_cell_does_nothing_where_the_package_is(monkeypatch, capsys):
    """Catches: an installation over the reader's own copy."""
    assert run_cell(monkeypatch, installed=True) == []
    assert capsys.readouterr().out == ""


def test_the_set_up_cell_installs_the_package_and_upgrades_nothing(monkeypatch, capsys):
    """Case 78. Catches: an --upgrade, which would replace Colab's own packages."""
    (command,) = run_cell(monkeypatch, installed=False)
    assert command[:4] == [sys.executable, "-m", "pip", "install"]
    assert not {"-U", "--upgrade", "--force-reinstall"} & set(command)
    import torch

    assert ("No GPU" in capsys.readouterr().out) == (not torch.cuda.is_available())
