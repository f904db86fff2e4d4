"""The fixture `record`: what a measuring test saw, in words, for the page that audits claims.

`pytest tests/claims --store-measurements` stores it, one file per test file, in
`chapters/claims/measured/`; every other run compares.
"""

from __future__ import annotations

import ast
import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from strict_nbval import disagreement

ROOT = Path(__file__).resolve().parents[2]
MEASURED = ROOT / "chapters" / "claims" / "measured"
REFRESH = "if what came out is right, run: pytest tests/claims --store-measurements"
new_measurements: dict[Path, dict[str, str]] = defaultdict(dict)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--store-measurements", action="store_true", help="store what is measured")


@pytest.fixture
def record(request: pytest.FixtureRequest) -> Iterator[Callable[[str], None]]:
    """Give the function to which a test hands its measured value, once, after its assertions."""
    texts: list[str] = []
    storing = request.config.getoption("--store-measurements", False)
    path, name = request.node.path, request.node.name

    def record(text: str) -> None:
        texts.append(text)
        if not storing:
            compare(stored(path).get(name), text)

    failures = request.session.testsfailed
    yield record
    if request.session.testsfailed == failures:
        assert len(texts) == 1, f"a measuring test calls record once, not {len(texts)} times"
        if storing:
            new_measurements[path][name] = texts[0]


def compare(was: str | None, now: str) -> None:
    """Fail where the stored text is another one, but for the last digit of its numbers."""
    if was is None:
        pytest.fail(f"nothing is stored for this test; {REFRESH}\nnow: {now}", pytrace=False)
    words_alone = not any(letter.isdigit() for letter in was + now)
    differ = was != now if words_alone else disagreement(one_line(was), one_line(now))
    if differ:
        pytest.fail(f"stored: {was}\nnow:    {now}\n{REFRESH}", pytrace=False)


def one_line(text: str) -> str:
    return " ".join(text.split())


def file_of(test_file: Path) -> Path:
    return MEASURED / f"{test_file.stem}.json"


def stored(test_file: Path) -> dict[str, str]:
    path = file_of(test_file)
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Store what was measured, unless a test failed; forget tests that are gone."""
    if session.testsfailed:
        return
    for test_file, texts in new_measurements.items():
        tree = ast.parse(test_file.read_text(encoding="utf-8"))
        tests = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        kept = {n: t for n, t in stored(test_file).items() if n.partition("[")[0] in tests}
        path = file_of(test_file)
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".json.new")
        content = json.dumps(kept | texts, indent=1, ensure_ascii=False, sort_keys=True)
        unfinished.write_text(content + "\n", encoding="utf-8")
        os.replace(unfinished, path)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if new_measurements:
        n = sum(map(len, new_measurements.values()))
        failed = terminalreporter._session.testsfailed
        done = "nothing stored, because a test failed" if failed else f"{n} stored"
        terminalreporter.write_line(f"measurements: {done}")
