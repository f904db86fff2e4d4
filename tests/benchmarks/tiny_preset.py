"""How close the `tiny` preset comes to the entropy floor, and what falls short of it."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile

from tests.benchmarks.table import Line
from tfcourse.data.batching import EmailData
from tfcourse.data.bigrams import bigram_nats
from tfcourse.losses import IGNORE

LAST_LINE = re.compile(
    r"held-out loss (?P<loss>[\d.]+)  entropy floor (?P<floor>[\d.]+)  "
    r"above floor (?P<above>-?[\d.]+)  \(nats per token, (?P<tokens>[\d.]+)M tokens, (?P<s>\d+) s\)"
)


def lines() -> list[Line]:
    """Train with and without attention from the command line; count bigrams."""
    above, seconds, shown = train_emails()
    blind, *_ = train_emails("--no-attention", "--position", "learned")
    pairs = bigrams_above_floor()
    return [
        Line("preset `tiny`", f"`{shown}`", "≤ 0.02 nats above the floor", above <= 0.02),
        Line("its time", f"{seconds} s", "≤ 180 s", seconds <= 180),
        Line("the same without attention", f"{blind:.3f} above", "≥ 0.5 above", blind >= 0.5),
        Line("a table of bigrams", f"{pairs:.3f} above", "≥ 0.8 above", pairs >= 0.8),
    ]


def train_emails(*flags: str) -> tuple[float, int, str]:
    """Run the command; return nats above the floor, seconds, and its last line."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tfcourse.cli", "train", "emails", "--preset", "tiny"]
        result = subprocess.run(
            [*command, "--out", folder, *flags], stdout=subprocess.PIPE, text=True, check=True
        )
    last = result.stdout.splitlines()[-1]
    match = LAST_LINE.fullmatch(last)
    if match is None:
        raise RuntimeError(f"the command's last line is not as expected: {last}")
    return float(match["above"]), int(match["s"]), last


def bigrams_above_floor() -> float:
    """Return the held-out loss of a table of bigrams, minus the floor, in nats per token."""
    data = EmailData()
    counts = [(batch.targets != IGNORE).sum(dim=1) for batch in data.held_out_batches(1000)]
    n_targets = sum(int(count.sum()) for count in counts)
    return float((bigram_nats(data).sum() - data.floor.sum()) / n_targets)
