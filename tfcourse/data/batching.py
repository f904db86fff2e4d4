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

from tfcourse.config import ModelConfig
from tfcourse.data.emails import EMAILS
from tfcourse.data.tokenizers import BOS, EOS, N_SPECIAL, PAD, Tokenizer, WordTokenizer
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
        """How many targets are to be predicted."""
        return int((self.targets != IGNORE).sum())

    def to(self, device: torch.device) -> Batch:
        """Copy the batch to a device."""
        context = {name: tensor.to(device) for name, tensor in self.context.items()}
        return Batch(self.inputs.to(device), self.targets.to(device), context)

    def chunk(self, n_parts: int) -> list[Batch]:
        """Split the rows into `n_parts` batches whose sizes differ by at most one."""
        names = list(self.context)
        columns = [self.inputs, self.targets, *self.context.values()]
        parts = zip(*(column.tensor_split(n_parts) for column in columns), strict=True)
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

    `unit` is what its targets are counted in. `floor` is, per held-out row in the order of
    `held_out_batches`, −log p of all its targets under the source itself, in nats; None where
    the source is not known.
    """

    unit = "token"
    floor: Float[Tensor, "n_rows"] | None = None

    def train_batch(self, step: int, batch_size: int) -> Batch:
        """Return the batch of a step: the same for the same seed, step and batch size."""
        at_least("step", step, 0)
        at_least("batch_size", batch_size, 1)
        return self._train_batch(step, batch_size)

    @abstractmethod
    def held_out_batches(self, batch_size: int) -> Iterator[Batch]:
        """Yield all rows kept out of training, always in the same order."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Describe the data in JSON types: what a resumed run must find unchanged."""

    @abstractmethod
    def model_fields(self) -> dict[str, int]:
        """Return the fields of a `ModelConfig` that the data decides."""

    @abstractmethod
    def check_fit(self, config: ModelConfig) -> None:
        """Raise ValueError for a model that cannot read the data."""

    def score(self, model: Any) -> tuple[str, float] | None:
        """Return what people ask for beside the loss: its name, and a share between 0 and 1."""
        return None

    @abstractmethod
    def _train_batch(self, step: int, batch_size: int) -> Batch: ...


class TokenData(DataSet):
    """Rows of token ids. `max_len` is the longest input row."""

    bos_id = BOS
    eos_id = EOS
    pad_id = PAD
    tokenizer: Tokenizer
    max_len: int
    _seed: int
    _held_out: Sequence[Any]

    @property
    def vocab_size(self) -> int:
        """How many different ids a row can hold."""
        return self.tokenizer.vocab_size

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text."""
        return self.tokenizer.encode(text)

    def decode(self, ids: Iterable[int]) -> str:
        """Write the text of the ids."""
        return self.tokenizer.decode(ids)

    def to_dict(self) -> dict[str, Any]:
        """Describe the data; `tokenizers.tokenizer_from_dict` rebuilds the tokenizer."""
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

    def model_fields(self) -> dict[str, int]:
        return {"vocab_size": self.vocab_size, "max_len": self.max_len}

    def check_fit(self, config: ModelConfig) -> None:
        if self.vocab_size > config.vocab_size:
            raise ValueError(
                f"the data has {self.vocab_size} different tokens, the model vocab_size="
                f"{config.vocab_size}; build it with vocab_size={self.vocab_size}"
            )
        if self.max_len > config.max_len:
            raise ValueError(
                f"rows of the data have up to {self.max_len} tokens, the model max_len="
                f"{config.max_len}; build it with max_len={self.max_len}"
            )

    def held_out_batches(self, batch_size: int) -> Iterator[Batch]:
        at_least("batch_size", batch_size, 1)
        rows = self._held_out
        return (self._arrange(rows[i : i + batch_size]) for i in range(0, len(rows), batch_size))

    def _arrange(self, rows: Sequence[Any]) -> Batch:
        return pad_rows(rows)


class EmailData(TokenData):
    """Fresh emails from the grammar for every step, one whole email per row."""

    def __init__(self, seed: int = 0, n_held_out: int = 1000):
        at_least("n_held_out", n_held_out, 1)
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


class MaskedEmailData(EmailData):
    """Emails in which some words are to be filled in, from what stands on both sides.

    A share of 15 % of the tokens is chosen. Of these, 80 % are replaced by a mask, 10 % by a
    random word, and 10 % stay, so that the model cannot rely on what it sees there.

    Source: Devlin et al. 2018, section 3.1.
    """

    def __init__(self, seed: int = 0, n_held_out: int = 1000):
        super().__init__(seed, n_held_out)
        self.floor = None  # the source's probabilities are those of the next word
        self.max_len += 1  # nothing is shifted, so EOS is read, too
        self._held_out = [
            self._mask(row, random.Random(f"mask {seed} {i}"))
            for i, row in enumerate(self._held_out)
        ]

    @property
    def vocab_size(self) -> int:
        return self.tokenizer.vocab_size + 1

    @property
    def mask_id(self) -> int:
        """The id that stands for a hidden word: the one after the tokenizer's own."""
        return self.tokenizer.vocab_size

    def score(self, model: Any) -> tuple[str, float]:
        """Return the share of chosen words of which the right one is the likeliest."""
        right = chosen = 0
        device = model.head.weight.device
        with torch.no_grad(), model.evaluating():
            for batch in self.held_out_batches(100):
                there = batch.to(device)
                guess = model(there.inputs, there.context["padding_mask"]).argmax(dim=-1)
                right += int((guess == there.targets).sum())
                chosen += batch.n_targets
        return "words right", right / chosen

    def _train_batch(self, step: int, batch_size: int) -> Batch:
        rng = random.Random(f"train {self._seed} {step} {batch_size}")
        rows = [self._row(EMAILS.sample(rng)) for _ in range(batch_size)]
        return self._arrange([self._mask(row, rng) for row in rows])

    def _mask(self, row: Sequence[int], rng: random.Random) -> tuple[list[int], list[int]]:
        inputs, targets = list(row), [IGNORE] * len(row)
        places = range(1, len(row) - 1)  # BOS and EOS are no words
        for i in rng.sample(places, max(1, round(0.15 * len(places)))):
            targets[i] = row[i]
            kind = rng.random()
            if kind < 0.8:
                inputs[i] = self.mask_id
            elif kind < 0.9:
                inputs[i] = rng.randrange(N_SPECIAL, self.tokenizer.vocab_size)
        return inputs, targets

    def _arrange(self, rows: Sequence[tuple[list[int], list[int]]]) -> Batch:
        length = max(len(inputs) for inputs, _ in rows)
        inputs = torch.tensor([r + [PAD] * (length - len(r)) for r, _ in rows])
        targets = torch.tensor([t + [IGNORE] * (length - len(t)) for _, t in rows])
        return Batch(inputs, targets, {"padding_mask": inputs != PAD})


class TextData(TokenData):
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
        at_least("max_len", max_len, 1)
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


def at_least(name: str, value: int, least: int) -> None:
    """Raise ValueError if the value is below the least one."""
    if value < least:
        raise ValueError(f"{name}={value}; give at least {least}")
