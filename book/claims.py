"""Read the registry of claims, check it, and write the page that audits the claims.

`chapters/claims/NN_name.toml` belongs to the chapter of the same name. It lists what the chapter
covers, which claims of the four documents were checked there, and the source of every statement
about other people's models and papers. CONTRIBUTING says how to write it.
"""

from __future__ import annotations

import argparse
import ast
import functools
import json
import os
import re
import sys
import tomllib
from collections import Counter
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import nbformat
import yaml
from statements import sentences, unsupported

ROOT = Path(__file__).resolve().parent.parent
VERDICTS = ("holds", "holds with a condition", "does not hold", "not settled")


class RegistryError(ValueError):
    """An entry that cannot be read."""


@dataclass(frozen=True)
class Cover:
    """One item of the course's plan, and where it is taught and shown."""

    item: str
    what: str
    section: str
    shown_by: list[str]


@dataclass(frozen=True)
class Claim:
    """One claim of the documents, with its verdict and what the verdict stands on."""

    id: str
    place: str
    claim: str
    verdict: str
    says: str
    section: str
    measured_by: list[str] | None = None
    source: str | None = None
    locator: str | None = None


@dataclass(frozen=True)
class Statement:
    """One statement of a chapter about other people's work, and where it can be looked up."""

    text: str
    source: str
    locator: str


Entry = TypeVar("Entry", Cover, Claim, Statement)


@dataclass(frozen=True)
class Chapter:
    """A chapter's file of the registry."""

    file: Path
    page: Path
    covers: list[Cover]
    claims: list[Claim]
    statements: list[Statement]

    @property
    def name(self) -> str:
        return self.file.stem


def read_registry(root: Path = ROOT) -> list[Chapter]:
    """Read every chapter's file, in the order of the chapters."""
    return [
        read_chapter(path) for path in sorted((root / "chapters" / "claims").glob("[0-9]*.toml"))
    ]


def read_chapter(path: Path) -> Chapter:
    """Read one file; an entry that is not as it should be is named with its field."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise RegistryError(f"{path.name}: {error}") from None
    if unknown := set(content) - {"covers", "claims", "statements"}:
        raise RegistryError(f"{path.name}: unknown table {sorted(unknown)[0]}")
    notebook = path.parent.parent / f"{path.stem}.ipynb"
    page = notebook if notebook.exists() else notebook.with_suffix(".md")

    def entries(kind: type[Entry], table: str) -> list[Entry]:
        numbered = enumerate(content.get(table, []), 1)
        return [read_entry(kind, raw, f"{path.name}: {table} {n}") for n, raw in numbered]

    return Chapter(
        path,
        page,
        entries(Cover, "covers"),
        entries(Claim, "claims"),
        entries(Statement, "statements"),
    )


def read_entry(kind: type[Entry], raw: dict[str, Any], where: str) -> Entry:
    """Make an entry of a table of the file; text is freed of its line breaks."""
    names = {field.name: field.default for field in fields(kind)}
    name = raw.get("id") or raw.get("item") or raw.get("text")
    where += f" ({name})" if name else ""
    if unknown := set(raw) - set(names):
        raise RegistryError(f"{where}: unknown field {sorted(unknown)[0]}")
    values: dict[str, Any] = {}
    for field, default in names.items():
        value = raw.get(field, None if default is MISSING else default)
        if field in ("shown_by", "measured_by") and isinstance(value, str):
            value = [value]
        if isinstance(value, str):
            value = " ".join(value.split())
        if default is MISSING and not value:
            raise RegistryError(f"{where}: {field} is missing")
        in_list = field in ("shown_by", "measured_by") and isinstance(value, list)
        if value is not None and not all(
            isinstance(part, str) and part for part in (value if in_list else [value])
        ):
            raise RegistryError(f"{where}: {field} is {value!r}; give text")
        values[field] = value
    if kind is Claim:
        check_claim(values, where)
    return kind(**values)


def check_claim(values: dict[str, Any], where: str) -> None:
    """Check what only a claim has."""
    if values["verdict"] not in VERDICTS:
        options = ", ".join(VERDICTS)
        raise RegistryError(f"{where}: verdict is {values['verdict']!r}; choose one of: {options}")
    if not re.match(r"D[0124]\b", values["place"]):
        raise RegistryError(f"{where}: place is {values['place']!r}; begin with D0, D1, D2 or D4")
    if not re.fullmatch(r"\d\d-[a-z0-9-]+", values["id"]):
        raise RegistryError(f"{where}: id is {values['id']!r}; write it as 01-two-words")
    if bool(values["source"]) != bool(values["locator"]):
        raise RegistryError(f"{where}: source and locator go together")
    if not values["measured_by"] and not values["source"]:
        raise RegistryError(f"{where}: give measured_by, or source and locator")


# What the entries name, in the project.


@functools.cache
def _read_notebook(page: Path, when: int) -> list[nbformat.NotebookNode]:
    return nbformat.read(page, as_version=4).cells


def read_cells(page: Path) -> list[nbformat.NotebookNode]:
    """List a notebook's cells; a Markdown page is one cell."""
    if page.suffix == ".ipynb":
        return _read_notebook(page, page.stat().st_mtime_ns)
    return [nbformat.v4.new_markdown_cell(page.read_text(encoding="utf-8"))]


def headings(cells: list[nbformat.NotebookNode]) -> dict[str, str]:
    """Map the anchor of each heading, as Sphinx makes it, to the heading's text."""
    from docutils.nodes import make_id

    found = {}
    for cell in cells:
        if cell.cell_type == "markdown":
            code_free = re.sub(r"^(```|~~~).*?^\1", "", cell.source, flags=re.M | re.S)
            for title in re.findall(r"^#{1,6} +(.+?) *$", code_free, re.M):
                text = re.sub(r"\{\w+\}`([^`<]*?)(?: *<[^`]*>)?`", r"\1", title)
                found[make_id(re.sub(r"[`$*\\]", "", text))] = title
    return found


def tests_in(path: Path, measuring: bool = False) -> set[str]:
    """List the names of the test functions of a file; of those that measure, if asked for.

    A measuring test takes `record`, and no mark skips it or lets it fail.
    """
    if not path.is_file() or path.suffix != ".py":
        return set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tests = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name.startswith("test")]
    if measuring:
        tests = [
            test
            for test in tests
            if "record" in [a.arg for a in test.args.args]
            and not any(re.search(r"skip|xfail", ast.unparse(d)) for d in test.decorator_list)
        ]
    return {test.name for test in tests}


def bib_keys(root: Path) -> set[str]:
    text = (root / "chapters" / "references.bib").read_text(encoding="utf-8")
    return set(re.findall(r"^@\w+\{([^,\s]+),", text, re.M))


def measurements(root: Path, test: str) -> list[str]:
    """List what a test's runs have stored: one text, or one for each of its parameters."""
    file, _, name = test.partition("::")
    path = root / "chapters" / "claims" / "measured" / f"{Path(file).stem}.json"
    stored = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return [text for key, text in sorted(stored.items()) if key.partition("[")[0] == name]


def chapters_in_toc(root: Path) -> list[str]:
    """List the numbered chapters of the book, as `01_residuals`."""
    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    files = [chapter["file"] for part in toc["parts"] for chapter in part["chapters"]]
    names = [Path(file).name for file in files]
    return [name for name in names if re.match(r"\d\d_", name)]


def required_items(root: Path) -> dict[str, str]:
    """Map the items that the chapters in the book must cover to what they are."""
    path = root / "chapters" / "claims" / "items.toml"
    items = tomllib.loads(path.read_text(encoding="utf-8"))
    numbers = {name[:2] for name in chapters_in_toc(root)}
    return {item: what for n, of in items.items() if n in numbers for item, what in of.items()}


# What is wrong.


def problems(root: Path = ROOT) -> list[str]:
    """Say what the registry promises and the project does not keep, a line each."""
    chapters, keys = read_registry(root), bib_keys(root)
    found = []
    for chapter in chapters:
        if not chapter.page.exists():
            found.append(f"{chapter.file.name}: there is no chapter {chapter.name}")
        else:
            found += [f"{chapter.file.name}: {line}" for line in problems_of(chapter, root, keys)]
    ids = Counter(claim.id for chapter in chapters for claim in chapter.claims)
    found += [f"claim {id} stands in the registry {n} times" for id, n in ids.items() if n > 1]
    covered = {cover.item for chapter in chapters for cover in chapter.covers}
    for item, what in required_items(root).items():
        if item not in covered:
            found.append(f"{item} ({what}) is covered by no chapter")
    for name in chapters_in_toc(root):
        if name not in {chapter.name for chapter in chapters}:
            found.append(f"chapters/claims/{name}.toml is missing")
    for path in sorted((root / "chapters" / "claims" / "measured").glob("*.json")):
        tests = tests_in(root / "tests" / "claims" / f"{path.stem}.py")
        for key in json.loads(path.read_text(encoding="utf-8")):
            if key.partition("[")[0] not in tests:
                found.append(f"measured/{path.name}: there is no test {key}; delete the line")
    return found


def problems_of(chapter: Chapter, root: Path, keys: set[str]) -> list[str]:
    """Say what is wrong with one chapter's entries."""
    cells = read_cells(chapter.page)
    code_cells = {c.id for c in cells if c.cell_type == "code"}
    found = []
    placed: list[Cover | Claim] = [*chapter.covers, *chapter.claims]
    for entry in placed:
        name = entry.item if isinstance(entry, Cover) else entry.id
        page, anchor = place(chapter, entry.section)
        anchors = headings(read_cells(page)) if page.exists() else {}
        if anchor not in anchors:
            options = ", ".join(list(anchors)[1:])
            found.append(f"{name}: section {entry.section!r} is none of: {options}")
    for cover in chapter.covers:
        for witness in cover.shown_by:
            kind, _, cell_id = witness.partition(":")
            is_there = cell_id in code_cells if kind == "cell" else test_exists(root, witness)
            if not is_there:
                found.append(f"{cover.item}: shown_by {witness!r} is no code cell and no test")
    for claim in chapter.claims:
        for test in claim.measured_by or []:
            if not test_exists(root, test):
                found.append(f"{claim.id}: measured_by: there is no test {test}")
            elif test.partition("::")[2] not in tests_in(root / test.partition("::")[0], True):
                found.append(
                    f"{claim.id}: measured_by: {test} measures nothing; "
                    "let it take `record`, and take away what skips it"
                )
            elif not measurements(root, test):
                found.append(
                    f"{claim.id}: {test} has stored no measurement; "
                    f"run: pytest tests/claims --store-measurements"
                )
    sources = [(claim.id, claim.source) for claim in chapter.claims]
    for name, source in [*sources, *((s.text, s.source) for s in chapter.statements)]:
        if source and source not in keys:
            found.append(f"{name}: {source} is not in references.bib")
    return found + unsupported(sentences(cells), chapter.statements)


def place(chapter: Chapter, section: str) -> tuple[Path, str]:
    """Find the page of a section: the chapter's, or that of `page#anchor`."""
    name, mark, anchor = section.rpartition("#")
    if not mark:
        return chapter.page, section
    notebook = chapter.page.parent / f"{name}.ipynb"
    return notebook if notebook.exists() else notebook.with_suffix(".md"), anchor


def test_exists(root: Path, test: str) -> bool:
    file, _, name = test.partition("::")
    return bool(name) and name in tests_in(root / file)


# The page.


def page(root: Path = ROOT) -> str:
    """Write the audit page from the registry and the stored measurements."""
    chapters = [chapter for chapter in read_registry(root) if chapter.claims]
    listed = [claim for chapter in chapters for claim in chapter.claims]
    counts = Counter(claim.verdict for claim in listed)
    lines = [(root / "book" / "claims_intro.md").read_text(encoding="utf-8").rstrip(), ""]
    lines += ["## The verdicts", "", "| verdict | claims |", "| --- | ---: |"]
    lines += [f"| {verdict} | {counts[verdict]} |" for verdict in VERDICTS]
    lines += [f"| together | {counts.total()} |", "", "These do not hold:", ""]
    wrong = [claim for claim in listed if claim.verdict == "does not hold"]
    lines += [*(f'- <a href="#claim-{claim.id}">{claim.claim}</a>' for claim in wrong), ""]
    for chapter in chapters:
        title = next(iter(headings(read_cells(chapter.page)).values()))
        lines += [f"## {chapter.name[:2]} · {title}", "", ":::{div} claims", ""]
        for claim in chapter.claims:
            lines += [*describe(claim, chapter, root), ""]
        lines += [":::", ""]
    return "\n".join(lines).rstrip() + "\n"


def describe(claim: Claim, chapter: Chapter, root: Path) -> list[str]:
    """Write one claim as a term of a definition list, with what there is to say about it."""
    target, anchor = place(chapter, claim.section)
    lines = [
        f"[{claim.claim}]{{#claim-{claim.id}}}",
        f": **{claim.verdict}** · said in {claim.place}",
        f": {claim.says}",
    ]
    for test in claim.measured_by or []:
        values = "; ".join(measurements(root, test))
        lines.append(f": Measured: {values} ({link_to_test(test, root)})")
    if claim.source:
        lines.append(f": Source: {{cite:t}}`{claim.source}`, {claim.locator}")
    title = headings(read_cells(target)).get(anchor, anchor)
    return [*lines, f': In the chapter: <a href="{target.stem}.html#{anchor}">{title}</a>']


def link_to_test(test: str, root: Path) -> str:
    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    file, _, name = test.partition("::")
    return f"[`{name}`]({config['repository']['url']}/blob/HEAD/{file})"


def main() -> int:
    parser = argparse.ArgumentParser(description="Check the registry of claims; write its page.")
    parser.parse_args()
    try:
        found = problems()
    except RegistryError as error:
        found = [str(error)]
    if found:
        print(*found, sep="\n", file=sys.stderr)
        return 1
    path = ROOT / "chapters" / "claims.md"
    unfinished = path.with_suffix(".md.new")
    unfinished.write_text(page(), encoding="utf-8")
    os.replace(unfinished, path)
    print(f"{path.relative_to(ROOT)} is written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
