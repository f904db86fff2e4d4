"""How much memory a training step takes at GPT-2's vocabulary, beside Hugging Face's GPT-2.

Each side runs in a fresh process. A step on a few tokens makes the optimizer's state; then free
memory goes back to the system, the kernel's peak counter (VmHWM) is set to what is resident, and
one full step runs. What it adds to the peak is the step's own memory: activations, logits and
gradients. Needs Linux.
"""

from __future__ import annotations

import ctypes
import gc
import re
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

from tests.benchmarks.pairs import (
    SMALLER_GPT2,
    Step,
    alternate,
    make_pair,
    random_batch,
    ratio,
    their_loss,
    training_step,
)
from tests.benchmarks.table import Line

VOCAB_SIZE = 50_257
SIDES = ("HF", "ours")
ROUNDS = 5


def lines() -> list[Line]:
    """Compare the peaks, and the time of the same steps in this process."""
    peak = {side: peak_in_fresh_process(side) for side in SIDES}
    share = peak["ours"] / peak["HF"]
    batch = random_batch(VOCAB_SIZE)
    sides = {side: partial(make_step(side), *batch) for side in SIDES}
    first = [step() for step in sides.values()]
    assert abs(first[0] - first[1]) < 1e-4, first
    seconds = alternate(sides, ROUNDS)
    time = ratio(seconds["ours"], seconds["HF"])
    return [
        Line(
            f"memory of a training step, {VOCAB_SIZE:,} tokens, against HF GPT-2",
            f"{share:.2f}× ({peak['ours']:.0f} and {peak['HF']:.0f} MiB)",
            "≤ 0.4×",
            share <= 0.4,
        ),
        Line("its time, against HF GPT-2", f"{time:.2f}×", "≤ 1.05×", time <= 1.05),
    ]


def make_step(side: str) -> Step:
    """Return the training step of one side; the other side's model is dropped."""
    ours, theirs = make_pair(replace(SMALLER_GPT2, vocab_size=VOCAB_SIZE))
    if side == "HF":
        return training_step(theirs, their_loss(theirs))
    return training_step(ours, ours.loss)


def peak_in_fresh_process(side: str) -> float:
    """Return the MiB that one step of one side takes above model and optimizer."""
    command = [sys.executable, "-m", __name__, side]
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return float(result.stdout)


def peak_of_step(side: str) -> float:
    """Measure the same in this process, which must have done nothing else."""
    step = make_step(side)
    step(*random_batch(VOCAB_SIZE, rows=1, length=8))
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    step(*random_batch(VOCAB_SIZE))
    return resident("VmHWM") - before


def resident(field: str) -> float:
    """Read one field of this process's memory, in MiB."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(rf"{field}:\s+(\d+) kB", status)[1]) / 1024


if __name__ == "__main__":
    print(peak_of_step(sys.argv[1]))
