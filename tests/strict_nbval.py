"""A pytest plugin: nbval as the course uses it (`pytest -p strict_nbval --nbval ...`)."""

from __future__ import annotations

import os
import re

import pytest

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # the kernels' threads: as book/execute.py does
NUMBER = re.compile(r"[-+−]?\d+(?:\.\d+)?")


def pytest_collectstart(collector: pytest.Collector) -> None:
    # A library's new warning, or a progress bar, does not make a stored result untrue.
    if hasattr(collector, "skip_compare"):
        collector.skip_compare += ("stderr",)


@pytest.hookimpl(trylast=True)  # after the cell was run
def pytest_runtest_call(item: pytest.Item) -> None:
    """Compare what a `trained` cell printed with what is stored, as far as it can agree."""
    if "trained" in getattr(item, "cell", {}).get("metadata", {}).get("tags", ()):
        lie = disagreement(_printed(item.cell.outputs), _printed(item.test_outputs))
        if lie:
            item.raise_cell_error("A trained result is not what is stored", lie)


def disagreement(stored: str, printed: str) -> str:
    """Say where two printouts of a trained result disagree; "" where they don't.

    A number may differ by one in its last digit: it has only those digits that are the same on
    another machine. Everything else in a line with a number must be equal. Lines without one,
    such as a text that a model wrote, may differ.
    """
    old, new = (
        [" ".join(line.split()) for line in text.splitlines() if NUMBER.search(line)]
        for text in (stored, printed)
    )
    for was, now in zip(old, new, strict=False):
        if NUMBER.split(was) != NUMBER.split(now):
            return f"stored: {was}\nnow:    {now}"
        for a, b in zip(NUMBER.findall(was), NUMBER.findall(now), strict=True):
            digits = len(a.partition(".")[2])
            if digits != len(b.partition(".")[2]) or abs(_units(a) - _units(b)) > 1:
                return f"{a} is stored, {b} came out, in the line: {was}"
    if len(old) != len(new):
        return f"lines with numbers: {len(old)} stored, {len(new)} came out"
    return ""


def _units(number: str) -> int:
    """Count a number in units of its last digit: 12 for 1.2."""
    return int(number.replace("−", "-").replace(".", ""))


def _printed(outputs: list[dict]) -> str:
    return "".join(output["text"] for output in outputs if output.get("name") == "stdout")
