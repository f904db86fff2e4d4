"""Hidden checks of the exercises on the training loss: other sizes, extremes, half precision."""

import math

import torch

from tfcourse.grading.oracle import Hidden
from tfcourse.grading.questions import compare, require, tensor
from tfcourse.grading.sets.training_loss import (
    LIMITED,
    mean_gradient_right,
    mean_right,
    nll_right,
    smoothed_right,
    some_ignored,
)
from tfcourse.grading.sets.training_rates import rates_right
from tfcourse.grading.sets.training_sources import chain, rate_right, trained_right, units_right
from tfcourse.grading.sets.training_steps import (
    gradient_right,
    number,
    padded_rows,
    parts_of,
    shifts_right,
)
from tfcourse.losses import IGNORE

HIDDEN = Hidden()


def gradient(run, shape):
    """Return the gradient of the first input, or say that there is none."""
    found = run.gradients["input 0"]
    require(found is not None, "No gradient flows back from the result: it has left autograd.")
    return tensor(found, shape, "The gradient")


def lengths(draw, n, longest):
    return [longest, *(draw.integer(2, longest) for _ in range(n - 1))]


@HIDDEN.check("05.shift")
def _(student, draw):
    """Other sizes, another padding id, and rows that are longer than every text."""
    rows = padded_rows(draw, lengths(draw, draw.integer(2, 9), 12), 3)
    shifts_right(student, rows, 3)
    shifts_right(student, torch.nn.functional.pad(rows, (0, 2), value=3), 3)


@HIDDEN.check("05.shift")
def _(student, draw):
    """One question a row, and a row of PAD alone."""
    rows = torch.cat([draw.integers(1, 9, 3, 2), torch.zeros(1, 2, dtype=torch.int64)])
    shifts_right(student, rows, 0)


@HIDDEN.check("05.shift")
def _(student, draw):
    """Rows whose elements lie apart in memory."""
    shifts_right(student, padded_rows(draw, [16, 10, 7], 0)[:, ::2], 0)


@HIDDEN.check("05.other_units")
def _(student, draw):
    """A long text."""
    n = draw.integer(500_000, 2_000_000)
    units_right(student, n * float(draw.uniform(1, 6, 1)), n, 5 * n)


@HIDDEN.check("05.other_units")
def _(student, draw):
    """A text that was known."""
    units_right(student, 0.0, draw.integer(2, 9), draw.integer(9, 30))


@HIDDEN.check("05.other_units")
def _(student, draw):
    """More tokens than bytes."""
    units_right(student, float(draw.uniform(5, 20, 1)), draw.integer(20, 40), draw.integer(3, 9))


@HIDDEN.check("05.nll")
def _(student, draw):
    """Other sizes, an input whose elements lie apart in memory."""
    B, L, V = draw.integer(1, 4), draw.integer(2, 7), draw.integer(8, 40)
    nll_right(student, draw.normal(B, L, 2 * V, std=3)[..., ::2], draw.integers(0, V, B, L))


@HIDDEN.check("05.nll")
def _(student, draw):
    """Logits of ±10,000, beside others of ±1."""
    logits = torch.cat([draw.normal(1, 3, 6, std=1e4), draw.normal(1, 3, 6)])
    nll_right(student, logits, logits.argmin(-1), LIMITED)


@HIDDEN.check("05.nll")
def _(student, draw):
    """Logits in half precision."""
    says = "The number is too far off for float32. In which type is each step computed?"
    for dtype in (torch.bfloat16, torch.float16):
        nll_right(student, draw.normal(1, 1, 2, std=20, dtype=dtype), torch.tensor([[1]]), says)
        logits = draw.normal(2, 5, 9, std=3, dtype=dtype)
        nll_right(student, logits, draw.integers(0, 9, 2, 5), says)


@HIDDEN.check("05.nll")
def _(student, draw):
    """Its gradient where probabilities are 0 in float32."""
    logits, targets = draw.normal(2, 3, 5, std=1e3), draw.integers(0, 5, 2, 3)
    run = student.run("nll", logits, targets, backward=torch.ones(2, 3))
    found = gradient(run, logits.shape)
    require(bool(found.isfinite().all()), "The gradient is not finite at large logits.")
    right = logits.softmax(-1) - torch.nn.functional.one_hot(targets, 5)
    compare(found, right, says="The gradient of the logits is not softmax − one-hot.")


@HIDDEN.check("05.mean_loss")
def _(student, draw):
    """Other sizes, targets ignored anywhere in a row."""
    B, L = draw.integer(2, 6), draw.integer(3, 20)
    targets = draw.integers(0, 9, B, L)
    targets = targets.masked_fill(draw.uniform(0, 1, B, L) < 0.4, IGNORE)
    targets[0, 0], targets[0, 1] = 0, IGNORE
    mean_right(student, draw.uniform(0, 5, B, L), targets)


@HIDDEN.check("05.mean_loss")
def _(student, draw):
    """Infinity and NaN at ignored positions, and infinity at one that counts."""
    losses, targets = draw.uniform(0.5, 4, 2, 5), some_ignored(draw, [5, 3], 5)
    losses[1, 3], losses[1, 4] = math.inf, math.nan
    mean_right(student, losses, targets)
    losses[0, 1] = math.inf  # a target that counts
    value = number(student(losses, targets))
    require(bool(value.isinf()), "A loss that counts is infinite, and the mean hides it.")


@HIDDEN.check("05.mean_loss")
def _(student, draw):
    """Losses in bfloat16, which rounds a mean to three digits."""
    for _ in range(3):
        losses = draw.uniform(0.5, 9, 3, 7).bfloat16()
        mean_right(student, losses, some_ignored(draw, [7, 5, 2], 7))


@HIDDEN.check("05.mean_loss")
def _(student, draw):
    """Its gradient: alike for all that count, none for the others."""
    for counts in ([3, 1], [0, 0]):
        losses, targets = draw.uniform(0.5, 4, 2, 4), some_ignored(draw, counts, 4)
        losses[1, 3] = math.inf  # ignored
        mean_gradient_right(student, losses, targets)


@HIDDEN.check("05.smoothed_nll")
def _(student, draw):
    """Other sizes, elements that lie apart in memory, two words, no target that counts."""
    B, L, V = draw.integer(1, 4), draw.integer(2, 7), draw.integer(9, 40)
    eps = float(draw.uniform(0.05, 0.9, 1))
    logits = draw.normal(B, L, 2 * V, std=3)[..., ::2]
    smoothed_right(student, logits, draw.integers(0, V, B, L), eps)
    smoothed_right(student, draw.normal(1, 2, 2), draw.integers(0, 2, 1, 2), eps)
    smoothed_right(student, draw.normal(2, 3, 5), torch.full((2, 3), IGNORE), eps)


@HIDDEN.check("05.smoothed_nll")
def _(student, draw):
    """Logits of ±10,000."""
    logits = draw.normal(2, 3, 6, std=1e4)
    smoothed_right(student, logits, draw.integers(0, 6, 2, 3), 0.1, LIMITED)


@HIDDEN.check("05.smoothed_nll")
def _(student, draw):
    """A word of probability 0, without smoothing; and all smoothing."""
    logits, targets = draw.normal(1, 4, 5), draw.integers(0, 4, 1, 4)
    smoothed_right(student, logits, targets, 1.0)
    says = "A word is ruled out by a logit of −∞, and the losses of others are off. Its p is 0."
    logits[..., 4] = -math.inf
    smoothed_right(student, logits, targets, 0.0, says)
    logits[..., 0], targets = -math.inf, torch.tensor([[1, 2, IGNORE, 3]])
    smoothed_right(student, logits, targets, 0.0, says)


@HIDDEN.check("05.smoothed_nll")
def _(student, draw):
    """Its gradient, with ignored targets."""
    logits, targets = draw.normal(2, 3, 5), some_ignored(draw, [3, 1], 3, vocab_size=5)
    run = student.run("smoothed_nll", logits, targets, 0.2, backward=torch.ones(2, 3))
    found = gradient(run, logits.shape)
    there = (targets != IGNORE)[..., None]
    one_hot = torch.nn.functional.one_hot(targets.clamp(min=0), 5)
    right = (logits.softmax(-1) - 0.8 * one_hot - 0.2 / 5) * there
    compare(found, right, says="The gradient is not softmax − smoothed targets.")


@HIDDEN.check("05.learning_rate")
def _(student, draw):
    """Other numbers."""
    n, peak = draw.integer(30, 200), float(draw.uniform(0.5, 5, 1))
    lowest = peak * float(draw.uniform(0.01, 0.5, 1))
    rates_right(student, range(0, 2 * n, 3), n, draw.integer(3, 20), peak, lowest)


@HIDDEN.check("05.learning_rate")
def _(student, draw):
    """A run that is all warm-up, and one of a single step."""
    rates_right(student, range(10), 7, 7, 1.5, 0.3)
    rates_right(student, range(3), 1, 0, 1.5, 0.3)
    rates_right(student, range(3), 1, 1, 1.5, 0.3)


@HIDDEN.check("05.learning_rate")
def _(student, draw):
    """The first, the highest and the last step of a long run."""
    rates_right(student, [0, 999, 1000, 50_000, 99_999, 100_000], 100_000, 1000, 2.0, 0.0)


@HIDDEN.check("05.step_gradient")
def _(student, draw):
    """Many parts of different sizes, with a limit."""
    counts = [[draw.integer(1, 10) for _ in range(draw.integer(1, 4))] for _ in range(4)]
    limit = float(draw.uniform(0.01, 0.2, 1))
    gradient_right(student, parts_of(draw, counts, 9), limit, draw.integer(0, 1000), 0.2)


@HIDDEN.check("05.step_gradient")
def _(student, draw):
    """A part in which no target counts."""
    parts = parts_of(draw, [[5, 2], [0, 0], [3]], 6)
    gradient_right(student, parts, 1e4, draw.integer(0, 1000))
    gradient_right(student, parts, 0.1, draw.integer(0, 1000))


@HIDDEN.check("05.step_gradient")
def _(student, draw):
    """A batch in which no target counts."""
    parts = parts_of(draw, [[0], [0, 0]], 4)
    gradient_right(student, parts, 1.0, draw.integer(0, 1000))


@HIDDEN.check("05.entropy_rate")
def _(student, draw):
    """More states, few words that can follow."""
    n = draw.integer(8, 25)
    table = chain(draw, n) * (draw.uniform(0, 1, n, n) < 0.3)
    table += 0.05 * torch.roll(torch.eye(n), 1, 1)  # one circle through all states
    rate_right(student, table / table.sum(1, keepdim=True))


@HIDDEN.check("05.entropy_rate")
def _(student, draw):
    """Sources that alternate between two words and three others, or that go round in a circle."""
    for _ in range(4):
        table = torch.zeros(5, 5)
        table[:2, 2:] = draw.normal(2, 3, std=2).softmax(1)
        table[2:, :2] = draw.normal(3, 2, std=2).softmax(1)
        rate_right(student, table)
    circle = torch.zeros(4, 4)
    circle[0, 1:3] = draw.normal(2).softmax(0)
    circle[1:3, 3], circle[3, 0] = 1, 1
    rate_right(student, circle)


@HIDDEN.check("05.entropy_rate")
def _(student, draw):
    """A source that seldom changes, and one of a single word."""
    rare, rarer = float(draw.uniform(0.001, 0.002, 1)), float(draw.uniform(0.0002, 0.0004, 1))
    # Two words that are tossed for, or two that take turns, and seldom a change between the two.
    table = torch.zeros(4, 4)
    table[:2, :2], table[:2, 2] = (1 - rare) / 2, rare
    table[2, 3], table[3, 2] = 1, 1 - rarer
    table[3, 0] = rarer
    says = (
        "This source seldom changes, and the result is off. Do the shares of time come from a "
        "number of steps, or from equations in too few digits?"
    )
    rate_right(student, table, says)
    rate_right(student, torch.ones(1, 1))


@HIDDEN.check("05.train_lm")
def _(student, draw):
    """A source of three words that never ends: nothing is padded."""
    trained_right(student, draw, n_words=3, length=20, end=0.0)
