"""Dates as people write them in many languages, and the same days in ISO 8601."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

import torch
from babel.dates import format_date

from tfcourse.data.batching import Batch, TokenData, at_least, pad_rows
from tfcourse.data.tokenizers import BOS, EOS, PAD, CharTokenizer

LOCALES = (
    "bg", "cs", "da", "de", "el", "en_GB", "en_US", "es", "et", "fi", "fr", "hr", "hu", "id", "it",
    "ja", "ko", "lt", "lv", "nb", "nl", "pl", "pt_BR", "pt_PT", "ro", "ru", "sk", "sl", "sv", "tr",
    "uk", "vi", "zh",
)  # fmt: skip
"""Languages, with a region where it matters, by their names in the CLDR."""

STYLES = ("short", "medium", "long", "full")
FIRST_DAY = date(1970, 1, 1)
N_DAYS = 36_525
"""A hundred years, so that two digits are enough to name the year."""


def write_date(day: date, locale: str, style: str) -> str:
    """Write a day as the CLDR data of a locale asks, after the locale's name.

    The name is needed: 03/04/31 is a day in March or in April.
    """
    return f"{locale} {format_date(day, style, locale=locale)}"


class DateData(TokenData):
    """Pairs of a date in one of 33 locales and four styles, and the same day in ISO 8601.

    A tenth of all days is held out: training never sees them in any locale or style. The source
    is read as characters, the target written as characters. Fewer `locales` or `styles` are an
    easier task.
    """

    def __init__(
        self,
        seed: int = 0,
        n_held_out: int = 1000,
        locales: Sequence[str] = LOCALES,
        styles: Sequence[str] = STYLES,
    ) -> None:
        at_least("n_held_out", n_held_out, 1)
        for field, given, known in (("locales", locales, LOCALES), ("styles", styles, STYLES)):
            if isinstance(given, str) or not given or not {*given} <= {*known}:
                raise ValueError(f"{field}={given!r}: give a list of some of {', '.join(known)}")
        # The first and the fourth week of each month have every month, weekday and length.
        weeks = [date(2001, m, d) for m in range(1, 13) for d in (*range(1, 8), *range(22, 29))]
        self._locales, self._styles = tuple(locales), tuple(styles)
        written = [
            write_date(day, lo, style) for day in weeks for lo in locales for style in styles
        ]
        self.tokenizer: CharTokenizer = CharTokenizer({*"0123456789-", *"".join(written)})
        self.max_len = max(map(len, written)) + 2
        self._seed = seed
        days = [FIRST_DAY + timedelta(days=i) for i in range(N_DAYS)]
        random.Random(f"days {seed}").shuffle(days)
        self._held_out_days, self._train_days = days[: N_DAYS // 10], days[N_DAYS // 10 :]
        most = len(self._held_out_days) * len(self._locales) * len(self._styles)
        if n_held_out > most:
            raise ValueError(f"n_held_out={n_held_out} is more than the {most} dates held out")
        rng = random.Random(f"held-out {seed}")
        self._held_out = [self._draw(rng, self._held_out_days) for _ in range(n_held_out)]

    def score(self, model: Any) -> tuple[str, float]:
        """Return the share of held-out dates that greedy decoding writes without a mistake."""
        from tfcourse.generation import generate

        right = 0
        for start in range(0, len(self._held_out), 250):
            rows = self._held_out[start : start + 250]
            written = generate(
                model,
                [[BOS]] * len(rows),
                11,
                sources=[source for source, _ in rows],
                temperature=0.0,
                stop_tokens=[EOS],
            )
            right += sum(w == t[1:] for w, (_, t) in zip(written, rows, strict=True))
        return "exact match", right / len(self._held_out)

    def _draw(self, rng: random.Random, days: Sequence[date]) -> tuple[list[int], list[int]]:
        day = rng.choice(days)
        source = write_date(day, rng.choice(self._locales), rng.choice(self._styles))
        target = [BOS, *self.encode(day.isoformat()), EOS]
        return [*self.encode(source), EOS], target

    def _train_batch(self, step: int, batch_size: int) -> Batch:
        rng = random.Random(f"train {self._seed} {step} {batch_size}")
        return self._arrange([self._draw(rng, self._train_days) for _ in range(batch_size)])

    def _arrange(self, rows: Sequence[tuple[list[int], list[int]]]) -> Batch:
        targets = pad_rows([target for _, target in rows])
        longest = max(len(source) for source, _ in rows)
        source = torch.full((len(rows), longest), PAD)
        for i, (row, _) in enumerate(rows):
            source[i, : len(row)] = torch.tensor(row)
        context = {"source": source, "source_mask": source != PAD}
        return Batch(targets.inputs, targets.targets, context)
