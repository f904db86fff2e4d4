"""The fixture `record`: what a measuring test saw, in words, for the page that audits claims.

`pytest tests/claims --store-measurements` stores it, one file per test file, in
`chapters/claims/measured/`; every other run compares.
"""

from __future__ import annotations

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
collected: dict[Path, set[str]] = defaultdict(set)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--store-measurements", action="store_true", help="store what is measured")


@pytest.hookimpl(tryfirst=True)  # before marks take some away
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Note the tests of each file, where whole files were asked for."""
    if not any("::" in argument for argument in config.args):
        for item in items:
            collected[item.path].add(item.name)


@pytest.fixture
def stored_and_collected() -> Callable[[Path], tuple[set[str], set[str]]]:
    """Give a function: the names under which a test file's measurements are stored, its tests."""
    return lambda path: (set(stored(path)), collected[path])


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
        kept = stored(test_file)
        if tests := collected[test_file]:
            kept = {name: text for name, text in kept.items() if name in tests}
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
