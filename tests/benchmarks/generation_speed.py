"""How fast 200 tokens are written with a key–value cache, beside Hugging Face's `generate`."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import torch
from transformers import GPT2LMHeadModel

from tests.benchmarks.pairs import alternate, make_pair, random_batch, ratio
from tests.benchmarks.table import Line
from tfcourse.architectures import DecoderLM
from tfcourse.generation import generate

NEW_TOKENS = 200
ROUNDS = 5


def lines() -> list[Line]:
    """Time greedy generation in float32 for one row and for sixteen."""
    ours, theirs = make_pair()
    table = []
    for rows, target in ((1, 1.1), (16, 1.3)):
        sides = writers(ours, theirs, rows, NEW_TOKENS)
        assert sides["HF"]() == sides["ours"]()  # warms up, too
        seconds = alternate(sides, ROUNDS)
        gain = ratio(seconds["HF"], seconds["ours"])
        speed = {s: rows * NEW_TOKENS / statistics.median(t) for s, t in seconds.items()}
        table.append(
            Line(
                f"cached generation, {rows} row{'s' if rows > 1 else ''}, against HF",
                f"{gain:.2f}× ({speed['ours']:.0f} and {speed['HF']:.0f} tokens/s)",
                f"≥ {target}×",
                gain >= target,
            )
        )
    return table


def writers(
    ours: DecoderLM, theirs: GPT2LMHeadModel, rows: int, new_tokens: int, compile: bool = False
) -> dict[str, Callable[[], list[list[int]]]]:
    """Return, for each side, a function that greedily continues the same prompts of 16 tokens."""
    prompts, _ = random_batch(ours.config.vocab_size, rows, length=16)
    theirs.eval()

    def write_theirs() -> list[list[int]]:
        there = prompts.to(theirs.device)
        out = theirs.generate(
            there,
            attention_mask=torch.ones_like(there),
            max_new_tokens=new_tokens,
            do_sample=False,
            pad_token_id=0,
        )
        return out[:, prompts.shape[1] :].tolist()

    return {
        "HF": write_theirs,
        "ours": lambda: generate(
            ours, prompts.tolist(), new_tokens, temperature=0.0, compile=compile
        ),
    }
