"""How fast one training step is, beside Hugging Face's GPT-2 of the same weights."""

from __future__ import annotations

import statistics
from functools import partial

import torch

from tests.benchmarks.pairs import (
    alternate,
    make_pair,
    random_batch,
    ratio,
    their_loss,
    training_step,
)
from tests.benchmarks.table import Line
from tfcourse.training import compile_loss

ROUNDS = 9


def lines() -> list[Line]:
    """Time both models in float32 and in bfloat16, ours also compiled."""
    ours, theirs = make_pair()
    tokens, targets = random_batch(ours.config.vocab_size)
    losses = {
        "HF": (theirs, their_loss(theirs)),
        "eager": (ours, ours.loss),
        "compiled": (ours, compile_loss(ours)),
    }
    table = []
    for name, dtype, tolerance in (("float32", None, 1e-4), ("bfloat16", torch.bfloat16, 1e-2)):
        sides = {
            side: partial(training_step(model, loss, dtype), tokens, targets)
            for side, (model, loss) in losses.items()
        }
        first = {side: step() for side, step in sides.items()}  # warms up, too
        assert all(abs(loss - first["HF"]) < tolerance for loss in first.values()), first
        seconds = alternate(sides, ROUNDS)
        speed = {s: tokens.numel() / statistics.median(times) for s, times in seconds.items()}
        for side, target in (("eager", 1.2), ("compiled", 1.35)):
            gain = ratio(seconds["HF"], seconds[side])
            table.append(
                Line(
                    f"training, {name}, {side}, against HF GPT-2",
                    f"{gain:.2f}× ({speed[side]:.0f} and {speed['HF']:.0f} tokens/s)",
                    f"≥ {target}×",
                    gain >= target,
                )
            )
    return table
