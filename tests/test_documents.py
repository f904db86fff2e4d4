"""README, CONTRIBUTING and the book's front matter say what the repository has."""

from __future__ import annotations

import re
import shlex
from dataclasses import fields
from pathlib import Path

import pytest

from tfcourse import __version__
from tfcourse.cli import make_parser
from tfcourse.config import ModelConfig, TrainConfig

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    ROOT / name
    for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "chapters/how_to_use.md")
]


def read(path: Path | str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_make_targets_that_are_named_exist(page):
    """Catches: a target renamed in the Makefile and not in the text."""
    targets = set(re.findall(r"^([a-z]+):", read("Makefile"), re.M))
    named = set(re.findall(r"(?:`|^)make ([a-z]+)", read(page), re.M))
    assert named <= targets


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_that_are_shown_are_understood(page):
    """Catches: a flag renamed in the command line and not in the text."""
    for command in re.findall(r"^tfcourse .+$", read(page), re.M):
        assert callable(make_parser().parse_args(shlex.split(command)[1:]).run)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_linked_files_exist(page):
    """Catches: a link to a file that was moved or was never committed."""
    links = re.findall(r"\]\((?!https?:)([^)#]+)", read(page))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_notation_table_names_real_fields():
    """Catches: a field of the configuration renamed, or misspelled in the notation table."""
    sizes = read("chapters/notation.md").split("## Indices")[0]
    in_code = re.findall(r"^\* - .*?^  - .*?^  - (.*?)^  - ", sizes, re.M | re.S)
    named = {name for cell in in_code for name in re.findall(r"`([a-z_]+)`", cell)}
    known = {field.name for config in (ModelConfig, TrainConfig) for field in fields(config)}
    assert {"d_model", "n_heads", "head_dim", "d_ff", "vocab_size", "n_layers"} <= named
    assert named <= known


def test_version_is_the_same_everywhere():
    """Catches: a release that raised the number in one file alone."""
    project = re.search(r'^version = "(.+)"$', read("pyproject.toml"), re.M)
    citation = re.search(r"^version: (.+)$", read("CITATION.cff"), re.M)
    assert project and project[1] == __version__
    assert citation and citation[1] == __version__


def test_actions_are_pinned_by_commit():
    """Catches: `uses: actions/checkout@v5`, a tag that its owner can move."""
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        for use in re.findall(r"uses: (\S+)", path.read_text(encoding="utf-8")):
            assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", use), f"{path.name}: {use}"
