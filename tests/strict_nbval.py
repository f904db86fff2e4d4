"""A pytest plugin: nbval as the course uses it (`pytest -p strict_nbval --nbval ...`)."""

from __future__ import annotations

import pytest


def pytest_collectstart(collector: pytest.Collector) -> None:
    # A library's new warning, or a progress bar, does not make a stored result untrue.
    if hasattr(collector, "skip_compare"):
        collector.skip_compare += ("stderr",)
