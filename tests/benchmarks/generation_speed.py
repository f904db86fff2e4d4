"""How fast 200 tokens are written with a key–value cache, beside Hugging Face's `generate`."""

from __future__ import annotations

import statistics

import torch

from tests.benchmarks.pairs import alternate, make_pair, random_batch, ratio
from tests.benchmarks.table import Line
from tfcourse.generation import generate

NEW_TOKENS = 200
ROUNDS = 5


def lines() -> list[Line]:
    """Time greedy generation in float32 for one row and for sixteen."""
    ours, theirs = (model.eval() for model in make_pair())
    table = []
    for rows, target in ((1, 1.1), (16, 1.3)):
        prompts, _ = random_batch(ours.config.vocab_size, rows, length=16)

        def write_ours(prompts: torch.Tensor = prompts) -> list[list[int]]:
            return generate(ours, prompts.tolist(), NEW_TOKENS, temperature=0.0)

        def write_theirs(prompts: torch.Tensor = prompts) -> list[list[int]]:
            out = theirs.generate(
                prompts,
                attention_mask=torch.ones_like(prompts),
                max_new_tokens=NEW_TOKENS,
                do_sample=False,
                pad_token_id=0,
            )
            return out[:, prompts.shape[1] :].tolist()

        assert write_ours() == write_theirs()  # warms up, too
        seconds = alternate({"HF": write_theirs, "ours": write_ours}, ROUNDS)
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
