"""The promise of the preset `tiny`, kept by the real command; minutes long."""

import re
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.accept, pytest.mark.nohook, pytest.mark.timeout(1200)]

LAST_LINE = re.compile(
    r"held-out loss (\d\.\d{3})  entropy floor (\d\.\d{3})  above floor (-?\d\.\d{3})  "
    r"\(nats per token, \d+\.\dM tokens, \d+ s\)"
)


def above_floor(folder, *flags):
    command = [sys.executable, "-m", "tfcourse.cli", "train", "emails", "--out", str(folder)]
    run = subprocess.run([*command, *flags], capture_output=True, text=True, check=True)
    line = run.stdout.splitlines()[-1]
    match = LAST_LINE.fullmatch(line)
    assert match, line
    return float(match[3])


def test_tiny_reaches_the_floor(tmp_path):
    """0.003 below would be three standard errors of the paired difference.

    Catches: a preset that trains too little; a floor of other emails than those that are scored;
    a leak, which goes below the floor.
    """
    assert -0.003 < above_floor(tmp_path) < 0.02


def test_tiny_without_attention_stays_far_above_the_floor(tmp_path):
    """Catches: emails in which each word follows from the one before and its place."""
    assert above_floor(tmp_path, "--no-attention", "--position", "learned") > 0.5
