"""A data set so small and so regular that a run of seconds learns it."""

from __future__ import annotations

import random
from typing import Any

import torch
from helpers import tiny
from torch import nn

from tfcourse.architectures import DecoderLM
from tfcourse.config import TrainConfig
from tfcourse.data.batching import Batch, TokenData, pad_rows
from tfcourse.data.tokenizers import WordTokenizer


class Counting(TokenData):
    """Rows that count upwards from a random number, of unequal length: 7 8 9 10.

    What follows is certain, so that a model that learned the task can be told by what it writes.
    """

    def __init__(self, seed: int = 0, n_numbers: int = 20) -> None:
        self.tokenizer = WordTokenizer([f"n{i:02}" for i in range(n_numbers)])
        self.max_len = 9
        self._seed, self._n_numbers = seed, n_numbers
        rng = random.Random(f"held-out {seed}")
        self._held_out = [self._row(rng) for _ in range(10)]

    def _row(self, rng: random.Random) -> list[int]:
        length = rng.randint(2, 8)
        start = rng.randint(0, self._n_numbers - length)
        words = [f"n{i:02}" for i in range(start, start + length)]
        return [self.bos_id, *self.tokenizer.encode_words(words), self.eos_id]

    def _train_batch(self, step: int, batch_size: int) -> Batch:
        rng = random.Random(f"train {self._seed} {step} {batch_size}")
        return pad_rows([self._row(rng) for _ in range(batch_size)])


def counting_lm(seed: int = 0, **fields: Any) -> DecoderLM:
    """Return an untrained model for `Counting`."""
    torch.manual_seed(seed)
    return DecoderLM(tiny(**{"vocab_size": 23, "max_len": 9, **fields}))


def equal_weights(a: nn.Module, b: nn.Module) -> bool:
    """Say whether two models agree bit for bit."""
    pairs = zip(a.state_dict().values(), b.state_dict().values(), strict=True)
    return all(torch.equal(x, y) for x, y in pairs)


def plan(**fields: Any) -> TrainConfig:
    """Return the configuration of a run of ten steps; `fields` override it."""
    defaults = dict(steps=10, batch_size=8, warmup=2, device="cpu", precision="fp32")
    return TrainConfig(**{**defaults, **fields})
