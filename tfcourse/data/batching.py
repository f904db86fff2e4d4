"""Arrange token ids as inputs and targets, for training and for the held-out loss.

Targets are the inputs shifted by one. They include the end of a text and never padding.
"""

from __future__ import annotations

import hashlib
import random
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tfcourse.data.emails import EMAILS
from tfcourse.data.tokenizers import BOS, EOS, PAD, Tokenizer, WordTokenizer
from tfcourse.losses import IGNORE


@dataclass(frozen=True)
class Batch:
    """Rows of inputs and targets; a target of −100 is not to be predicted.

    `context` holds what else the model's loss takes by name, such as a padding mask.
    """

    inputs: Int[Tensor, "B L"] | Float[Tensor, "B C height width"]
    targets: Int[Tensor, "B L"]
    context: dict[str, Tensor] = field(default_factory=dict)

    @property
    def n_targets(self) -> int:
        return int((self.targets != IGNORE).sum())

    def to(self, device: torch.device) -> Batch:
        context = {name: tensor.to(device) for name, tensor in self.context.items()}
        return Batch(self.inputs.to(device), self.targets.to(device), context)

    def chunk(self, n_parts: int) -> list[Batch]:
        """Split the rows into up to `n_parts` batches."""
        names = list(self.context)
        columns = [self.inputs, self.targets, *self.context.values()]
        parts = zip(*(column.chunk(n_parts) for column in columns), strict=True)
        return [
            Batch(inputs, targets, dict(zip(names, context, strict=True)))
            for inputs, targets, *context in parts
        ]


def pad_rows(rows: Sequence[Sequence[int]]) -> Batch:
    """Put each whole row, from its beginning to its end, into one row of the batch."""
    if not rows or min(map(len, rows)) < 2:
        raise ValueError("rows: nothing to predict; give rows of two or more token ids")
    length = max(map(len, rows)) - 1
    inputs = torch.full((len(rows), length), PAD)
    targets = torch.full((len(rows), length), IGNORE)
    for i, row in enumerate(rows):
        ids = torch.as_tensor(row)
        inputs[i, : len(row) - 1] = ids[:-1]
        targets[i, : len(row) - 1] = ids[1:]
    return Batch(inputs, targets)


class DataSet(ABC):
    """A source of batches that needs no state: a resumed run only has to know its step.

    `max_len` is the longest input row. `floor` is, per held-out row in the order of
    `held_out_batches`, −log p of all its targets under the source itself, in nats; None where
    the source is not known.
    """

    bos_id, eos_id, pad_id = BOS, EOS, PAD
    tokenizer: Tokenizer
    max_len: int
    _seed: int
    floor: Float[Tensor, "n_rows"] | None = None
    _held_out: Sequence[Sequence[int]]

    @property
    def vocab_size(self) -> int:
        return self.tokenizer.vocab_size

    def encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text)

    def decode(self, ids: Iterable[int]) -> str:
        return self.tokenizer.decode(ids)

    def to_dict(self) -> dict[str, Any]:
        """Describe the data in JSON types: what a resumed run must find unchanged.

        `tokenizers.tokenizer_from_dict` rebuilds the tokenizer from its entry.
        """
        return {
            "tokenizer": self.tokenizer.to_dict(),
            "seed": self._seed,
            "max_len": self.max_len,
            "n_held_out": len(self._held_out),
            "digest": self._digest(),
        }

    def _digest(self) -> str:
        """Tell two corpora of the same size apart, by what is held out and what comes first."""
        first = self.train_batch(0, 64).inputs.tolist()
        rows = [list(row) for row in self._held_out]
        return hashlib.sha256(repr((rows, first)).encode()).hexdigest()

    def train_batch(self, step: int, batch_size: int) -> Batch:
        """Return the batch of a step: the same for the same seed, step and batch size."""
        _at_least("step", step, 0)
        _at_least("batch_size", batch_size, 1)
        return self._train_batch(step, batch_size)

    def held_out_batches(self, batch_size: int) -> Iterator[Batch]:
        """Yield all rows kept out of training, always in the same order."""
        _at_least("batch_size", batch_size, 1)
        rows = self._held_out
        return (self._arrange(rows[i : i + batch_size]) for i in range(0, len(rows), batch_size))

    def _arrange(self, rows: Sequence[Sequence[int]]) -> Batch:
        return pad_rows(rows)

    @abstractmethod
    def _train_batch(self, step: int, batch_size: int) -> Batch: ...


class EmailData(DataSet):
    """Fresh emails from the grammar for every step, one whole email per row."""

    def __init__(self, seed: int = 0, n_held_out: int = 1000):
        _at_least("n_held_out", n_held_out, 1)
        self.tokenizer: WordTokenizer = WordTokenizer(EMAILS.vocabulary)
        self.max_len = 1 + EMAILS.max_words()
        self._seed = seed
        rng = random.Random(f"held-out {seed}")
        emails = [EMAILS.sample(rng) for _ in range(n_held_out)]
        self._held_out = [self._row(words) for words in emails]
        self.floor = torch.tensor([-EMAILS.log_prob(words) for words in emails])

    def _train_batch(self, step: int, batch_size: int) -> Batch:
        rng = random.Random(f"train {self._seed} {step} {batch_size}")
        return pad_rows([self._row(EMAILS.sample(rng)) for _ in range(batch_size)])

    def _row(self, words: Sequence[str]) -> list[int]:
        return [BOS, *self.tokenizer.encode_words(words), EOS]


class TextData(DataSet):
    """Texts one after the other, each from its beginning to its end, cut into rows of `max_len`.

    Every text is used once, however often it occurs. Whole texts are held out, so no row of
    training shares a text with them. A row may start within a text and hold parts of several; the
    beginning of a text is never a target, since where the next text begins is no question about
    the text before it. Each epoch visits all rows in an order of its own.

    Raises ValueError for a corpus with fewer than two texts or shorter than one row.
    """

    def __init__(
        self,
        texts: Iterable[str],
        tokenizer: Tokenizer,
        max_len: int,
        seed: int = 0,
        held_out_share: float = 0.1,
    ):
        _at_least("max_len", max_len, 1)
        if not 0 < held_out_share < 1:
            raise ValueError(f"held_out_share={held_out_share}; give a number between 0 and 1")
        self.tokenizer, self.max_len, self._seed = tokenizer, max_len, seed
        texts = list(dict.fromkeys(text for text in texts if text.strip()))
        if len(texts) < 2:
            raise ValueError(
                f"corpus: {len(texts)} different texts; give at least 2, one to train on and one "
                "to hold out"
            )
        random.Random(f"split {seed}").shuffle(texts)
        n_held_out = min(max(1, round(held_out_share * len(texts))), len(texts) - 1)
        self._held_out = _windows(self._stream(texts[:n_held_out]), max_len)
        self._train = _windows(self._stream(texts[n_held_out:]), max_len)
        if len(self._train[0]) <= max_len:
            raise ValueError(
                f"corpus: {len(self._train[0])} tokens to train on do not fill one row of "
                f"max_len={max_len}; give more text or a smaller max_len"
            )

    def _stream(self, texts: Iterable[str]) -> array[int]:
        stream = array("i")  # four bytes a token: a mailbox can hold hundreds of millions
        for text in texts:
            stream.extend([BOS, *self.encode(text), EOS])
        return stream

    def _train_batch(self, step: int, batch_size: int) -> Batch:
        n = len(self._train)
        places = range(step * batch_size, (step + 1) * batch_size)
        rows = [self._train[_order(self._seed, k // n, n)[k % n]] for k in places]
        return self._arrange(rows)

    def _arrange(self, rows: Sequence[Sequence[int]]) -> Batch:
        batch = pad_rows(rows)
        batch.targets[batch.targets == BOS] = IGNORE
        return batch


def _windows(stream: array[int], max_len: int) -> list[array[int]]:
    """Cut a stream into rows whose targets are, together, all its tokens but the first."""
    return [stream[i : i + max_len + 1] for i in range(0, len(stream) - 1, max_len)]


@lru_cache(maxsize=2)
def _order(seed: int, epoch: int, n: int) -> list[int]:
    order = list(range(n))
    random.Random(f"order {seed} {epoch}").shuffle(order)
    return order


def _at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise ValueError(f"{name}={value}; give at least {least}")
