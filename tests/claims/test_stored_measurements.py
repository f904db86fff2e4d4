"""What is stored is what the tests measure."""

from __future__ import annotations

from pathlib import Path

import pytest

FILES = sorted(Path(__file__).parent.glob("test_[0-9]*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_stored_measurement_has_its_test(path, stored_and_collected):
    """Catches: a line of the page whose test, or whose parameter of a test, is gone.

    Where only a part of the tests was asked for, there is nothing to compare with.
    """
    measured, tests = stored_and_collected(path)
    assert not tests or measured <= tests
