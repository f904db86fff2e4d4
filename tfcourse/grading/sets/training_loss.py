"""The exercises of chapter 05: what is public of them.

Those on one step of training are in `training_steps` and `training_rates`, those on a loss's unit
and its floor in `training_sources`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from tfcourse.grading.questions import (
    Draw,
    Question,
    Student,
    Wrong,
    close,
    compare,
    require,
    tensor,
)
from tfcourse.grading.sets.training_rates import learning_rate
from tfcourse.grading.sets.training_sources import entropy_rate, other_units, train_lm
from tfcourse.grading.sets.training_steps import CHAPTER, shift, step_gradient
from tfcourse.losses import IGNORE

LOSSES = ("cross_entropy", "cross_entropy_loss", "CrossEntropyLoss", "token_loss")
NOT_RIGHT = "The numbers are not the right ones. Work out one position by hand, from the equation."
LIMITED = "Some losses are hundreds of nats here. Do yours get as large, or is something limited?"
ADDED = "A small number seems to be added to p, or p is limited: no loss gets larger."

nll = Question(
    "05.nll",
    "nll",
    title="−log p from logits",
    points=2,
    minutes=10,
    difficulty=2,
    section=f"{CHAPTER}#surprise-counted-in-nats",
    forbid=(*LOSSES, "nll_loss", "NLLLoss", "log_softmax", "LogSoftmax", "Categorical"),
)


def nll_right(student: Student, logits: Tensor, targets: Tensor, says: str = NOT_RIGHT) -> None:
    """Fail unless the student's −log p is right; `says` is for a mistake that is not known."""
    y = tensor(student(logits, targets), targets.shape)
    require(
        y.dtype == torch.float32,
        f"The result is {y.dtype}; float32 is asked for, whatever the type of the logits.",
    )
    require(
        not bool(y.isnan().any()),
        "It gives NaN. Which intermediate number is too large for its type?",
    )
    log_p = logits.double().log_softmax(-1)
    right = -log_p.gather(-1, targets[..., None])[..., 0]
    if not bool(y.isfinite().all()):
        raise Wrong(
            "It gives infinity where the right number is finite. Look for a log of 0, and for an "
            "exponential that is too large for its type."
        )
    p = right.neg().exp()
    column = logits.double().gather(-1, targets[..., None])[..., 0]
    mistakes = {
        "The sign looks turned round. A surprise is never negative.": -right,
        "It looks counted in bits. With the natural logarithm the unit is the nat.": right
        / math.log(2),
        "It looks like the probability itself, without its logarithm.": p,
        "It looks like the mean over all words. Only the target's probability counts.": (
            -log_p.mean(-1)
        ),
        "The probabilities look made to add up to 1 over the positions. They do over the words, at "
        "each position.": logits.double().logsumexp(1).gather(-1, targets) - column,
        "It looks like the sum over all words. Only the target's probability counts.": (
            -log_p.sum(-1)
        ),
        "It looks like the target's logit alone. What is it compared with?": -column,
        "It looks like the distance to the largest logit. All words share the probability.": (
            logits.double().amax(-1) - column
        ),
    }
    for least in (1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-12):
        for limited in (-p.clamp(min=least).log(), -(p + least).log()):
            same = close(limited, right, 1e-3)  # no p is as small here
            require(same or close(y, right) or not close(y, limited, 1e-3), ADDED)
    if says == NOT_RIGHT and not close(y, right):
        words = (torch.full_like(targets, v) for v in range(logits.shape[-1]))
        total = torch.stack([student(logits, w).double().neg().exp() for w in words]).sum(0)
        off = float(total.flatten()[(total - 1).abs().argmax()])
        if abs(off - 1) > 1e-3:
            says = (
                f"Over all words, the probabilities that your losses mean add up to {off:.3g} at "
                "one position, not to 1. Over what is your sum taken?"
            )
    for row, row_right in enumerate(right):  # large losses in one row hide nothing in another
        of_row = {message: wrong[row] for message, wrong in mistakes.items()}
        compare(y[row].double(), row_right, of_row, says)


@nll.check
def _(student: Student, draw: Draw) -> None:
    """Probabilities of 1/2, 1/4 and 1/8."""
    p = torch.tensor([[[0.5, 0.3, 0.2], [0.25, 0.5, 0.25], [0.8, 0.075, 0.125]]])
    nll_right(student, p.log(), torch.tensor([[0, 0, 2]]))


@nll.check
def _(student: Student, draw: Draw) -> None:
    """Logits of a model of seven words."""
    nll_right(student, draw.normal(2, 5, 7, std=2), draw.integers(0, 7, 2, 5))


@nll.check
def _(student: Student, draw: Draw) -> None:
    """Logits of some hundreds."""
    logits = draw.normal(2, 3, 5, std=300)
    nll_right(student, logits, logits.argmin(-1), LIMITED)


mean_loss = Question(
    "05.mean_loss",
    "mean_loss",
    title="The mean over the targets that count",
    points=2,
    minutes=10,
    difficulty=2,
    section=f"{CHAPTER}#a-pitfall-questions-that-were-never-asked",
)


def some_ignored(draw: Draw, counts: Sequence[int], length: int, vocab_size: int = 12) -> Tensor:
    """Draw rows of targets of which the first `counts` count."""
    targets = draw.integers(0, vocab_size, len(counts), length)
    over = torch.arange(length) >= torch.tensor(counts)[:, None]
    return targets.masked_fill(over, IGNORE)


def mean_right(student: Student, losses: Tensor, targets: Tensor) -> None:
    """Fail unless it is the mean over the targets that count."""
    value = tensor(student(losses, targets), ())
    there = targets != IGNORE
    require(
        not bool(value.isnan()),
        "It gives NaN. What is divided by what, where no target counts?"
        if not there.any()
        else "It gives NaN. A loss at an ignored position must not take part, whatever it is.",
    )
    kept = torch.where(there, losses.double(), 0)
    total, n = kept.sum(), there.sum().clamp(min=1)
    says = "It gives infinity where the mean is finite. Which type is the sum computed in?"
    require(not bool(value.isinf()) or bool(total.isinf()), says)
    rows = kept.sum(1) / there.sum(1).clamp(min=1)
    mistakes = {
        "Ignored targets look counted: losses of positions without a question are in it.": (
            losses.double().mean()
        ),
        "The sum looks divided by all positions, also by those that are ignored.": total
        / targets.numel(),
        "It looks like the sum. The mean is per target.": total,
        "It looks like the mean of the rows' means: short rows weigh more than they "
        "should.": rows.mean(),
        "Targets with a loss of 0 look left out. A sure and right answer counts too.": total
        / (kept != 0).sum().clamp(min=1),
        "Targets with id 0 look left out. Only IGNORE is no word.": torch.where(
            targets > 0, losses.double(), 0
        ).sum()
        / (targets > 0).sum().clamp(min=1),
        "It looks divided by one more than the number of targets.": total / (n + 1),
        "The sum looks divided by the number of rows, B. The mean is per target.": (
            total / len(targets)
        ),
    }
    says = "It is not the mean. Which losses are added, and by how many is the sum divided?"
    if losses.dtype != torch.float32:
        says += f" These are of {losses.dtype}: in which type are they added?"
    compare(value.double(), total / n, mistakes, says)
    wide = value.dtype in (torch.float32, torch.float64)
    require(wide, f"The mean is of {value.dtype}; float32 at least is asked for.")


def mean_gradient_right(student: Student, losses: Tensor, targets: Tensor) -> None:
    """Fail unless the gradient is alike for all targets that count, and 0 for the others."""
    there = targets != IGNORE
    run = student.run("mean_loss", losses, targets, backward=torch.ones(()))
    found = run.gradients["input 0"]
    if found is None and not there.any():
        return  # a 0 without a graph will do
    require(found is not None, "No gradient flows back from the result: it has left autograd.")
    says = "The gradient is not 1/n at each of the n targets that count, and 0 elsewhere."
    right = there / there.sum().clamp(min=1)
    compare(tensor(found, losses.shape, "The gradient"), right, says=says)


@mean_loss.check
def _(student: Student, draw: Draw) -> None:
    """Two rows, of which one is half ignored."""
    mean_right(student, draw.uniform(0.5, 4, 2, 6), some_ignored(draw, [6, 2], 6))


@mean_loss.check
def _(student: Student, draw: Draw) -> None:
    """A batch in which no target counts."""
    mean_right(student, draw.uniform(0.5, 4, 2, 3), some_ignored(draw, [0, 0], 3))


@mean_loss.check
def _(student: Student, draw: Draw) -> None:
    """Sure answers, with a loss of 0."""
    losses = draw.uniform(0.5, 4, 3, 4)
    losses[:, 0] = 0
    mean_right(student, losses, some_ignored(draw, [4, 3, 2], 4))


@mean_loss.check
def _(student: Student, draw: Draw) -> None:
    """Infinity at an ignored position."""
    losses, targets = draw.uniform(0.5, 4, 2, 5), some_ignored(draw, [5, 3], 5)
    losses[1, 4] = torch.inf
    mean_right(student, losses, targets)


@mean_loss.check
def _(student: Student, draw: Draw) -> None:
    """Many losses in half precision, whose sum is too large for it."""
    losses = draw.uniform(5, 9, 20, 1000).half()
    mean_right(student, losses, some_ignored(draw, [1000] * 20, 1000))


@mean_loss.check
def _(student: Student, draw: Draw) -> None:
    """Its gradient."""
    mean_gradient_right(student, draw.uniform(0.5, 4, 2, 4), some_ignored(draw, [4, 2], 4))


smoothed_nll = Question(
    "05.smoothed_nll",
    "smoothed_nll",
    title="Label smoothing",
    points=3,
    minutes=15,
    difficulty=3,
    section=f"{CHAPTER}#surprise-counted-in-nats",
    forbid=(*LOSSES, "KLDivLoss", "kl_div"),
)


def smoothed_right(
    student: Student, logits: Tensor, targets: Tensor, eps: float, unknown: str = NOT_RIGHT
) -> None:
    """Fail unless the smoothed losses are PyTorch's; `unknown` is for a mistake not known."""
    y = tensor(student(logits, targets, eps), targets.shape)
    there, z = targets != IGNORE, logits.double()
    finite = bool(y.isfinite()[there].all())
    if not finite and eps == 0:
        raise Wrong("With ε = 0 a word of probability 0 makes it infinite or NaN. What is 0 · ∞?")
    require(finite, "It is not finite. Where is a logarithm of 0 taken?")
    says = "NaN at an ignored target. What is there times 0? A logarithm may be infinite."
    require(not bool(y[~there].isnan().any()), says)
    says = "At an ignored target the result has to be 0."
    require(bool((y[~there] == 0).all()), says)
    log_p = z.log_softmax(-1).clamp(min=-1e30)
    right = F.cross_entropy(
        z.flatten(0, 1), targets.flatten(), reduction="none", label_smoothing=eps
    ).view(targets.shape)
    of_target = -log_p.gather(-1, targets.clamp(min=0)[..., None])[..., 0]
    of_all, V = -log_p.mean(-1), logits.shape[-1]
    others = (V * of_all - of_target) / (V - 1)
    mistakes = {
        "ε looks shared among the other V − 1 words. Here the target gets its ε/V too.": (1 - eps)
        * of_target
        + eps * others,
        "The probabilities look mixed before the logarithm. It is the targets that are "
        "smoothed.": -((1 - eps) * (-of_target).exp() + eps / V).log(),
        "The logits look smoothed. It is the targets that are.": -(
            ((1 - eps) * z + eps * z.mean(-1, keepdim=True))
            .log_softmax(-1)
            .gather(-1, targets.clamp(min=0)[..., None])[..., 0]
        ),
        "The sign looks turned round.": -right,
        "The losses of all words look added and not averaged: ε is shared by V words.": (1 - eps)
        * of_target
        + eps * V * of_all,
        "The targets look as if they added up to 1 − ε/V. The word that came gets its ε/V on top "
        "of 1 − ε.": (1 - eps - eps / V) * of_target + eps * of_all,
        "The loss of the target looks whole, with ε of the mean on top. It keeps only "
        "1 − ε.": of_target + eps * of_all,
        "The loss is not smoothed.": of_target,
        "Only the target's own share is in it. The other words have theirs.": (1 - eps) * of_target,
        "ε and 1 − ε look swapped.": eps * of_target + (1 - eps) * of_all,
        "The entropy of the smoothed targets looks taken away (a KL divergence). It changes no "
        "gradient, but this is not the loss asked for.": right
        + (1 - eps + eps / V) * math.log(max(1 - eps + eps / V, 1e-30))
        + (V - 1) * eps / V * math.log(max(eps / V, 1e-30)),
    }
    mistakes = {says: result.where(there, 0.0) for says, result in mistakes.items()}
    compare(y.double(), right, mistakes, unknown)


@smoothed_nll.check
def _(student: Student, draw: Draw) -> None:
    """Two rows of four questions, five words, ε = 0.1."""
    logits, targets = draw.normal(2, 4, 5, std=2), draw.integers(0, 5, 2, 4)
    smoothed_right(student, logits, targets, 0.1)


@smoothed_nll.check
def _(student: Student, draw: Draw) -> None:
    """Rows in which some targets are ignored."""
    targets = some_ignored(draw, [4, 1, 2], 4, vocab_size=6)
    smoothed_right(student, draw.normal(3, 4, 6, std=2), targets, 0.3)


@smoothed_nll.check
def _(student: Student, draw: Draw) -> None:
    """Probabilities too small for float32."""
    smoothed_right(student, draw.normal(1, 3, 5, std=300), draw.integers(0, 5, 1, 3), 0.2, LIMITED)


QUESTIONS = [
    shift,
    other_units,
    nll,
    mean_loss,
    learning_rate,
    smoothed_nll,
    entropy_rate,
    step_gradient,
    train_lm,
]
