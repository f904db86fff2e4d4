"""The exercises of chapter 05 on one step of training: what is public of them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tfcourse.grading import tools
from tfcourse.grading.questions import (
    Draw,
    Question,
    Student,
    compare,
    require,
    several,
    tensor,
)
from tfcourse.grading.wire import Tool
from tfcourse.losses import IGNORE

CHAPTER = "05_training_loss.html"


def number(value: Any, what: str = "The result") -> Tensor:
    """Return one number as a tensor, or say what it is instead."""
    if type(value) in (int, float):
        return torch.tensor(float(value), dtype=torch.float64)
    return tensor(value, (), what)


shift = Question(
    "05.shift",
    "shift",
    title="Inputs and targets",
    points=1,
    minutes=5,
    difficulty=1,
    section=f"{CHAPTER}#one-email-l-questions",
    forbid=("pad_rows",),
)


def padded_rows(draw: Draw, lengths: Sequence[int], pad: int, vocab_size: int = 20) -> Tensor:
    """Draw a row for each length, and fill it up with `pad` to the longest."""
    rows = draw.integers(1, vocab_size, len(lengths), max(lengths))
    rows = torch.where(rows == pad, 0 if pad else vocab_size, rows)
    over = torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None]
    return rows.masked_fill(over, pad)


def shifts_right(student: Student, rows: Tensor, pad: int) -> None:
    """Fail unless the student's inputs and targets are the right ones."""
    inputs, targets = several(student(rows, pad), 2, "two tensors, the inputs and the targets")
    x, y = rows[:, :-1], rows[:, 1:]
    inputs = tensor(inputs, x.shape, "The tensor of inputs")
    targets = tensor(targets, y.shape, "The tensor of targets")
    integers = inputs.dtype == targets.dtype == torch.int64
    require(integers, "Token ids have to stay integers of the type that the rows have.")
    says = "The inputs are not all tokens but the last of each row, with PAD where it was."
    compare(inputs, x, {"Inputs and targets look swapped.": y}, says)
    ends = (
        (x != pad) & (y != pad) & (torch.cat([y[:, 1:], torch.full_like(y[:, :1], pad)], 1) == pad)
    )
    right = y.masked_fill(y == pad, IGNORE)
    no_end, late = right.masked_fill(ends, IGNORE), y.masked_fill(x == pad, IGNORE)
    mistakes = {
        "PAD is left as a target. No question is asked there.": y,
        "The targets look unshifted: each is the input at its own position.": x,
        "The targets look unshifted: each is the input at its own position, ignored where that is "
        "PAD.": x.masked_fill(x == pad, IGNORE),
        "What is ignored looks chosen by the inputs, one position too late.": late,
        "The last token of a text is ignored. That the text ends is a question too.": no_end,
        "What is ignored looks chosen by id 0, and not by `pad`.": y.masked_fill(y == 0, IGNORE),
        "Where no question is asked the targets look like 0. They have to be IGNORE.": (
            y.masked_fill(y == pad, 0)
        ),
        "Where no question is asked the targets look like −1. They have to be IGNORE, −100.": (
            y.masked_fill(y == pad, -1)
        ),
        "The last column looks ignored. A text that fills its row has a target there, too.": (
            torch.cat([right[:, :-1], torch.full_like(right[:, -1:], IGNORE)], dim=1)
        ),
    }
    says = "The targets are not the right ones. Which token follows each of the inputs?"
    compare(targets, right, mistakes, says)


@shift.check
def _(student: Student, draw: Draw) -> None:
    """Rows of different length."""
    shifts_right(student, padded_rows(draw, [7, 4, 5], 0), 0)


@shift.check
def _(student: Student, draw: Draw) -> None:
    """A padding id other than 0."""
    shifts_right(student, padded_rows(draw, [3, 6, 4], 9), 9)


@shift.check
def _(student: Student, draw: Draw) -> None:
    """Rows without padding."""
    shifts_right(student, padded_rows(draw, [5, 5], 0), 0)


CLIPPING = ("clip_grad_norm_", "clip_grad_norm", "clip_grads_with_norm_", "get_total_norm")

step_gradient = Question(
    "05.step_gradient",
    "step_gradient",
    title="Accumulation and clipping",
    points=5,
    minutes=25,
    difficulty=3,
    section=f"{CHAPTER}#the-loop-part-by-part",
    forbid=(*CLIPPING, "take_step"),
)
SMALL = dict(vocab_size=11, d_model=8, n_heads=2, n_layers=1, max_len=12)
"""The model of this question."""


def parts_of(draw: Draw, counts: Sequence[Sequence[int]], length: int) -> list[tuple]:
    """Draw parts of a batch: each has a row for each count, with so many targets that count."""
    parts = []
    for of_part in counts:
        rows = draw.integers(0, SMALL["vocab_size"], len(of_part), length + 1)
        rows[0, 1] = 0  # a word like all others
        over = torch.arange(length) >= torch.tensor(of_part)[:, None]
        parts.append((rows[:, :-1], rows[:, 1:].masked_fill(over, IGNORE)))
    return parts


def gradient_right(
    student: Student, parts: list[tuple], limit: float, seed: int, old_gradient: float = 0.0
) -> None:
    """Fail unless gradient and norm are those of the whole batch."""
    made_of = (SMALL, seed, old_gradient)
    value = student(Tool("decoder_lm", made_of), parts, limit)
    gradients, norm = several(value, 2, "the list of gradients and their norm")
    model = tools.decoder_lm(SMALL, seed)
    weights = list(model.parameters())

    def gradient(loss: Tensor) -> list[Tensor]:
        return list(torch.autograd.grad(loss, weights))

    def clipped(grads: list[Tensor], most: float = limit) -> list[Tensor]:
        length = flat(grads).norm()
        return [g * (most / length).clamp(max=1) if length > 0 else g for g in grads]

    def flat(grads: list[Tensor]) -> Tensor:
        return torch.cat([g.flatten() for g in grads])

    def added(lists: list[list[Tensor]]) -> list[Tensor]:
        return [torch.stack(of_weight).sum(0) for of_weight in zip(*lists, strict=True)]

    sums = [gradient(model.loss(x, y, reduction="sum")) for x, y in parts]
    counts = [int((y != IGNORE).sum()) for _, y in parts]
    n = max(1, sum(counts))
    means = [[g / max(1, c) for g in of_part] for of_part, c in zip(sums, counts, strict=True)]
    right = [g / n for g in added(sums)]
    given = several(gradients, len(weights), "one gradient for each of `model.parameters()`")
    given = [tensor(g, w.shape, "A gradient") for g, w in zip(given, weights, strict=True)]
    finite = bool(flat(given).isfinite().all())
    require(finite, "A gradient is not finite. Where is divided by 0, or by a count of 0?")

    n_all, n_rows = sum(y.numel() for _, y in parts), sum(len(y) for _, y in parts)
    n_above_0 = max(1, sum(int((y > 0).sum()) for _, y in parts))
    n_inputs = max(1, sum(int((x > 0).sum()) for x, _ in parts))
    so_far = [max(1, sum(counts[: i + 1])) for i in range(len(counts))]
    mistakes = {
        "It looks like the mean of the parts' means: a part with few targets weighs more than it "
        "should.": [g / len(parts) for g in added(means)],
        "The means of the parts look weighted by their rows. The loss is per target.": added(
            [[len(p[1]) * g / n_rows for g in m] for p, m in zip(parts, means, strict=True)]
        ),
        "The means of the parts look added and not divided.": added(means),
        "The sum of all losses looks undivided. The loss is per target.": added(sums),
        "It looks divided by all positions, also by those that are ignored.": [
            g / n_all for g in added(sums)
        ],
        "Targets with id 0 look left out of the count. Only IGNORE is no word.": [
            g / n_above_0 for g in added(sums)
        ],
        "It looks divided by the inputs that are not 0. Which targets count is theirs to say.": [
            g / n_inputs for g in added(sums)
        ],
        "The parts look divided by different counts. Count the targets of all parts before the "
        "first backward pass.": added(
            [[g / c for g in of_part] for of_part, c in zip(sums, so_far, strict=True)]
        ),
        "It looks like the gradient of the last part alone.": means[-1],
        "It looks like the last part's share alone. What happens to those before it?": [
            g / n for g in sums[-1]
        ],
        "Gradients of an earlier step look added. What did `.grad` hold before?": [
            g + old_gradient for g in right
        ],
    }
    known = {says: flat(clipped(grads)) for says, grads in mistakes.items()}
    each = [g * (limit / g.norm()).clamp(max=1) if g.any() else g for g in right]
    part_by_part = added([clipped([g / n for g in of_part]) for of_part in sums])
    after_each = functools.reduce(
        lambda before, of_part: clipped(added([before, [g / n for g in of_part]])),
        sums,
        [torch.zeros_like(g) for g in right],
    )
    length = flat(right).norm()
    known |= {
        "It looks unclipped, and its norm is above the limit.": flat(right),
        "Each weight's gradient looks clipped by its own norm. One norm belongs to all of "
        "them.": flat(each),
        "The parts look clipped one by one. Clip once, when all are added.": flat(part_by_part),
        "What is added up looks clipped after each part. Clip once, after the last.": flat(
            after_each
        ),
        "Each element looks limited by itself: that changes the direction.": flat(right).clamp(
            -limit, limit
        ),
        "A gradient whose norm is below the limit looks scaled up to it.": flat(right)
        * (limit / length if length > 0 else 1),
    }
    # The gradients are small numbers: compare them with the largest as the unit.
    unit = max(float(flat(clipped(right)).abs().max()), 1e-12)
    says = "The gradient is not that of the whole batch's loss per target."
    if float(torch.cosine_similarity(flat(given), flat(right), dim=0)) > 1 - 1e-6:
        says = "The direction is right, the length is not. " + (
            "A norm above `limit` becomes `limit`."
            if length > limit
            else "By what is the sum of the losses divided? A norm below `limit` stays."
        )
    compare(
        flat(given) / unit,
        flat(clipped(right)) / unit,
        {says: result / unit for says, result in known.items()},
        says,
        tolerance=1e-3,
    )
    length, each_norm = length.double(), torch.stack([g.norm() for g in right]).double()
    known = {
        "The norm looks like the one after clipping. The one before tells how odd the batch is.": (
            length.clamp(max=limit)
        ),
        "The norm looks like the sum of the norms. Lengths add up as squares.": each_norm.sum(),
        "The norm looks like the sum of the parts' norms. One gradient has one norm.": sum(
            flat([g / n for g in of_part]).norm().double() for of_part in sums
        ),
        "The norm looks like the sum of the squares, without its root.": length.square(),
        "The norm looks like the largest element.": flat(right).abs().max().double(),
        "The norm looks like the largest norm of one weight's gradient.": each_norm.max(),
    }
    norm = number(norm, "The norm").double()
    compare(norm, length, known, "The norm is not that of the gradient before clipping.")


@step_gradient.check
def _(student: Student, draw: Draw) -> None:
    """One part, and a limit far above the norm."""
    gradient_right(student, parts_of(draw, [[6, 4]], 6), 1e4, draw.integer(0, 1000))


@step_gradient.check
def _(student: Student, draw: Draw) -> None:
    """Two parts with unequal numbers of targets."""
    parts = parts_of(draw, [[2], [8, 7]], 8)
    gradient_right(student, parts, 1e4, draw.integer(0, 1000))


@step_gradient.check
def _(student: Student, draw: Draw) -> None:
    """A limit below the norm."""
    parts = parts_of(draw, [[3, 5], [8]], 8)
    gradient_right(student, parts, 0.05, draw.integer(0, 1000))


@step_gradient.check
def _(student: Student, draw: Draw) -> None:
    """A model that still holds gradients of an earlier step."""
    parts = parts_of(draw, [[7], [4]], 7)
    gradient_right(student, parts, 1e4, draw.integer(0, 1000), old_gradient=0.3)
