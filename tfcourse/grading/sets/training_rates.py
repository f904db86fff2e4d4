"""The exercise of chapter 05 on the learning rate: what is public of it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tfcourse.config import TrainConfig
from tfcourse.grading.questions import Draw, Question, Student, close, compare
from tfcourse.grading.sets.training_steps import CHAPTER, number
from tfcourse.optimizers import schedule

learning_rate = Question(
    "05.learning_rate",
    "learning_rate",
    title="Warm-up and cosine",
    points=2,
    minutes=10,
    difficulty=2,
    section=f"{CHAPTER}#the-loop-part-by-part",
    forbid=("schedule",),
)


def rates_right(
    student: Student, steps: Sequence[int], n_steps: int, warmup: int, peak: float, lowest: float
) -> None:
    """Fail unless the rates at these steps are the right ones."""
    given = [student(step, n_steps, warmup, peak, lowest) for step in steps]
    rates = torch.stack([number(rate).double() for rate in given]) / peak
    low = lowest / peak
    config = TrainConfig(steps=n_steps, warmup=warmup, min_lr_ratio=low)
    right = torch.tensor([schedule(step, config) for step in steps], dtype=torch.float64)
    t = torch.tensor(steps, dtype=torch.float64)
    # Where a denominator is 0, a mistake is infinite, and so none that an answer could have made.
    rise = torch.where(t < warmup, (t + 1) / warmup, 1.0)
    late = torch.where(t < warmup, t / warmup, right)
    done = (t - warmup) / (n_steps - warmup) if warmup < n_steps else torch.ones_like(t)
    early = (t - warmup) / max(1, n_steps - warmup - 1)
    whole = (1 + (torch.pi * t / n_steps).cos()) / 2
    half = (1 + (torch.pi * done).cos()) / 2
    falling = t >= warmup

    def after_the_rise(share: Tensor) -> Tensor:
        return torch.where(falling, share, rise)

    mistakes = {
        "The first step has a rate of 0: it changes nothing. Let step 0 be the first part of "
        "the rise.": late,
        "The cosine looks started at step 0. It begins where the warm-up ends.": after_the_rise(
            low + (1 - low) * whole
        ),
        "Warm-up and cosine look multiplied. One follows the other.": rise
        * (low + (1 - low) * whole),
        "The lowest rate looks added to the cosine: the peak is then too high.": after_the_rise(
            low + half
        ),
        "The lowest rate looks left out: it falls to 0.": after_the_rise(half.where(done < 1, 0.0)),
        "After the warm-up it falls in a straight line, not along a cosine.": after_the_rise(
            low + (1 - low) * (1 - done.clamp(max=1))
        ),
        "After the last step it rises again: a cosine goes on, the schedule has an end.": (
            after_the_rise(low + (1 - low) * half)
        ),
        "It falls along a quarter of a cosine, from 0 to π/2, and not along half of one.": (
            after_the_rise(low + (1 - low) * (torch.pi * done.clamp(max=1) / 2).cos())
        ),
        "It falls and rises again along a whole cosine, from 0 to 2π, and not along half of one.": (
            after_the_rise(
                (low + (1 - low) * (1 + (2 * torch.pi * done).cos()) / 2).where(done < 1, low)
            )
        ),
        "It never falls after the warm-up.": rise,
        "There is no rise at the start, and the cosine begins at step 0.": low + (1 - low) * whole,
        "The rise looks started at the lowest rate. It starts near 0.": torch.where(
            falling, right, low + (1 - low) * rise
        ),
        "The rise looks started at the lowest rate, and one step late.": torch.where(
            falling, right, low + (1 - low) * t / warmup
        ),
        "The cosine looks taken of degrees. It wants radians: half of it ends at π.": (
            after_the_rise((low + (1 - low) * (1 + (180 * done).cos()) / 2).where(done < 1, low))
        ),
        "The fall looks one step too short: n_steps is the first step with the lowest rate.": (
            after_the_rise(low + (1 - low) * (1 + (torch.pi * early.clamp(max=1)).cos()) / 2)
        ),
        "The fall looks one step ahead: it begins at s = warmup, with u = 0.": after_the_rise(
            low
            + (1 - low)
            * (1 + (torch.pi * (done + 1 / max(1, n_steps - warmup)).clamp(max=1)).cos())
            / 2
        ),
        "After the end the rate looks like 0. It stays at `lowest`.": right.where(t < n_steps, 0.0),
        "Step s = warmup looks counted to the rise: its rate is above the peak. The fall begins "
        "there.": torch.where(t == warmup, (t + 1) / warmup, right),
        "The fall looks counted in n_steps. It has n_steps − warmup.": after_the_rise(
            (low + (1 - low) * (1 + (torch.pi * (t - warmup) / n_steps).cos()) / 2).where(
                done < 1, low
            )
        ),
        "It looks like peak · cosine, held up at the lowest rate. The cosine ends there "
        "smoothly.": after_the_rise(half.where(done < 1, 0.0).clamp(min=low)),
        "Half of (1 + cosine) is wanted: a cosine alone goes down to −1.": after_the_rise(
            (low + (1 - low) * (torch.pi * done).cos()).where(done < 1, low)
        ),
        "The warm-up looks one step too long. Its last step, warmup − 1, has the peak rate.": (
            torch.where(t > warmup, right, (t + 1) / (warmup + 1))
        ),
        "The rate looks like a share of the peak, not multiplied by it.": right / peak,
    }
    wrong = next((s for s, a, b in zip(steps, rates, right, strict=True) if not close(a, b)), 0)
    says = (
        f"The rate of step {wrong} is not the right one (n_steps = {n_steps}, warmup = {warmup}). "
        "Which of the three cases is it?"
    )
    compare(rates, right, mistakes, says)


@learning_rate.check
def _(student: Student, draw: Draw) -> None:
    """All steps of a short run."""
    rates_right(student, range(20), 20, 5, 0.5, 0.1)


@learning_rate.check
def _(student: Student, draw: Draw) -> None:
    """Steps after the end."""
    rates_right(student, [8, 9, 10, 11, 15, 18, 30], 10, 2, 2.0, 0.2)


@learning_rate.check
def _(student: Student, draw: Draw) -> None:
    """No warm-up."""
    rates_right(student, range(12), 12, 0, 3.0, 0.0)
