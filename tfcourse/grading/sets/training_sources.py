"""The exercises of chapter 05 on a loss's unit and its floor: what is public of them."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from tfcourse.data.tokenizers import BOS, EOS, N_SPECIAL, PAD
from tfcourse.grading import tools
from tfcourse.grading.questions import (
    Draw,
    Question,
    Student,
    Wrong,
    close,
    compare,
    require,
    several,
    tensor,
)
from tfcourse.grading.sets.training_steps import CHAPTER, number
from tfcourse.grading.wire import Kept, Tool

other_units = Question(
    "05.other_units",
    "other_units",
    title="Perplexity and bits",
    points=1,
    minutes=5,
    difficulty=1,
    section=f"{CHAPTER}#surprise-counted-in-nats",
)


def units_right(student: Student, nats: float, n_tokens: int, n_bytes: int) -> None:
    """Fail unless the three numbers are the right ones."""
    names = ("The perplexity", "Bits per token", "Bits per byte")
    value = several(student(nats, n_tokens, n_bytes), 3, "three numbers")
    perplexity, per_token, per_byte = (
        number(x, name) for x, name in zip(value, names, strict=True)
    )
    mean, bits, log2 = nats / n_tokens, nats / math.log(2), math.log(2)

    def known(mistakes: dict[str, float]) -> dict[str, Tensor]:
        return {says: torch.tensor(x, dtype=torch.float64) for says, x in mistakes.items()}

    mistakes = {
        "The perplexity looks like 2 to the power of nats. Nats belong to the base e.": 2**mean,
        "The perplexity is that of the whole text. It is one per token.": math.exp(min(nats, 700)),
        "The first number looks like bits per token. The perplexity comes first.": bits / n_tokens,
        "The exponent's sign looks turned round: a perplexity is never below 1.": math.exp(-mean),
        "The perplexity looks taken per byte.": math.exp(nats / n_bytes),
        "The perplexity looks like that of a rounded loss. Keep all its digits.": math.exp(
            round(mean)
        ),
        "The perplexity looks like e to the power of bits. Bits belong to the base 2.": math.exp(
            min(mean / log2, 700)
        ),
    }
    right = torch.tensor(math.exp(mean), dtype=torch.float64)
    compare(perplexity, right, known(mistakes), "The perplexity is not the right number.")
    for given, n, name, other in (
        (per_token, n_tokens, names[1], n_bytes),
        (per_byte, n_bytes, names[2], n_tokens),
    ):
        mistakes = {
            f"{name} look like nats times ln 2. Is a bit larger or smaller than a nat?": nats
            * log2
            / n,
            f"{name} look like nats. One nat is more than one bit.": nats / n,
            f"{name} look divided by the other of the two counts.": bits / other,
            f"{name} look divided by both counts.": bits / n / other,
            f"{name} look like the bits of the whole text.": bits,
            f"{name} look like the other of the two over 8. The number of bytes is given.": (
                bits / other / 8
            ),
            f"{name} look divided by 8. That is how a byte is stored, and no matter here.": bits
            / n
            / 8,
            f"{name} look multiplied by a ratio of the two counts, the wrong way round. Start from "
            "the bits of the whole text.": bits / other * n / other,
            f"{name} look like a logarithm of the loss. The loss is one already.": math.log2(
                max(nats / n, 1e-9)
            ),
        }
        right = torch.tensor(bits / n, dtype=torch.float64)
        compare(given, right, known(mistakes), f"{name} are not the right number.")


@other_units.check
def _(student: Student, draw: Draw) -> None:
    """Three tokens of 1/2, 1/4 and 1/8."""
    units_right(student, math.log(64), 3, 12)


@other_units.check
def _(student: Student, draw: Draw) -> None:
    """A loss of 5 to 20 nats."""
    units_right(student, float(draw.uniform(5, 20)), draw.integer(3, 9), draw.integer(20, 40))


entropy_rate = Question(
    "05.entropy_rate",
    "entropy_rate",
    title="The floor of a small source",
    points=4,
    minutes=20,
    difficulty=3,
    section=f"{CHAPTER}#the-floor",
)


def stationary(table: Tensor) -> Tensor:
    """Return the share of time that a chain of one class spends in each state."""
    n = len(table)
    system = torch.cat([table.double().T - torch.eye(n), torch.ones(1, n)])
    right = torch.zeros(n + 1, dtype=torch.float64)
    right[-1] = 1
    return torch.linalg.lstsq(system, right[:, None]).solution[:, 0]


def rate_right(student: Student, table: Tensor, says: str = "") -> None:
    """Fail unless it is the source's entropy in nats per word; `says` names the likely mistake."""
    value = number(student(table)).double()
    require(not bool(value.isnan()), "It gives NaN. What is 0 · log 0 here?")
    share = stationary(table)
    rows = torch.special.entr(table.double()).sum(1)
    nats = (share * rows).sum()
    mistakes = {
        "The rows look weighted alike. A state counts as often as the source is in it. If you "
        "solved equations for that: is the table the right way round in them?": rows.mean(),
        "It looks like the entropy of the shares of time, as if each word were drawn without a "
        "look at the word before.": torch.special.entr(share.clamp(min=0)).sum(),
        "It looks counted in bits. With the natural logarithm the unit is the nat.": nats
        / torch.tensor(2.0).log(),
        "It looks like a perplexity. The entropy is its logarithm.": nats.exp(),
        "The sign looks turned round. A surprise is never negative.": -nats,
        "The entropies look taken of the columns. Each row is one distribution.": (
            share * torch.special.entr(table.double()).sum(0)
        ).sum(),
        "It looks like the sum over the states, not weighted by the time in them.": rows.sum(),
        "It looks like a uniform guess, ln V. The table knows more.": torch.tensor(
            len(table)
        ).log(),
        "It looks like the entropy of the state with the most uncertain next word.": rows.max(),
        "It looks weighted by one step from equal shares. The shares have to stay as they are from "
        "one word to the next.": (table.double().mean(0) * rows).sum(),
    }
    uniform = torch.full((len(table),), 1 / len(table), dtype=torch.float64)
    first = torch.eye(len(table), dtype=torch.float64)[0]
    for steps, start in ((1000, uniform), (1001, uniform), (1000, first), (1001, first)):
        late = (start @ torch.linalg.matrix_power(table.double(), steps) * rows).sum()
        require(
            bool(says) or close(late, nats, 1e-3) or not close(value, late, 1e-3),
            "After any number of steps the chances still depend on that number: this source "
            "alternates. The shares of time do not.",
        )
    unknown = "It is not the source's entropy. Do your shares of time satisfy both equations?"
    compare(value, nats, {} if says else mistakes, says or unknown, 1e-3)


def chain(draw: Draw, n: int, std: float = 1.5) -> Tensor:
    """Draw a table of transitions between `n` states."""
    return (draw.normal(n, n, std=std) + draw.normal(n, std=std)).softmax(1)


@entropy_rate.check
def _(student: Student, draw: Draw) -> None:
    """Two states, of which one is visited more often."""
    rate_right(student, torch.tensor([[0.9, 0.1], [0.4, 0.6]]))


@entropy_rate.check
def _(student: Student, draw: Draw) -> None:
    """Five states."""
    rate_right(student, chain(draw, 5))


@entropy_rate.check
def _(student: Student, draw: Draw) -> None:
    """Words that cannot follow."""
    rate_right(student, torch.tensor([[0.0, 1.0, 0.0], [0.5, 0.0, 0.5], [0.25, 0.0, 0.75]]))


@entropy_rate.check
def _(student: Student, draw: Draw) -> None:
    """Two groups of words that take turns."""
    p = float(draw.uniform(0.2, 0.8, 1))
    rate_right(student, torch.tensor([[0.0, 1.0, 0.0], [p, 0.0, 1 - p], [0.0, 1.0, 0.0]]))


train_lm = Question(
    "05.train_lm",
    "train_lm",
    title="A loop that comes near the floor",
    points=8,
    minutes=40,
    difficulty=3,
    section=f"{CHAPTER}#train-for-real",
    forbid=("take_step",),
    seconds=90.0,
)
ABOVE = 0.1
"""So many nats per token above the floor are near enough."""


def markov_table(draw: Draw, n_words: int, end: float) -> Tensor:
    """Draw the probability of each next id after the last two; a text ends with chance `end`."""
    V = n_words + N_SPECIAL
    logits = draw.normal(V, V, V, std=2)
    logits[..., :N_SPECIAL] = -torch.inf
    table = (1 - end) * logits.softmax(-1)
    table[..., EOS] = end
    table[:, BOS, EOS] = 0
    return table / table.sum(-1, keepdim=True)


def likely_fault(x: Tensor, y: Tensor, p: Tensor, loss: float, floor: float, above: Tensor) -> str:
    """Say what the probabilities `p` [B L V] of a model far from its floor look like.

    `above` [B L] is by how much each target surprises it more than the source, 0 at padding.
    """
    uniform, there = math.log(p.shape[-1]), y != PAD
    before = torch.cat([x[:, :1], x[:, :-1]], dim=1)
    entropy = float(torch.special.entr(p).sum(-1)[there].mean())

    def mean_p(ids: Tensor, where: Tensor = there) -> float:
        return float(p.gather(-1, ids[..., None])[..., 0][where].mean())

    ends = there & (y == EOS)
    if ends.any() and mean_p(y, ends) < 0.02 and loss < uniform:
        return "It hardly ever expects the end of a text: EOS looks ignored as a target."
    if mean_p(x) > 0.8:
        return "It predicts its own input: the targets look unshifted."
    if mean_p(before, there & (before != x)) > 0.7:
        return "It predicts the token before its input: the shift looks turned round."
    if mean_p(y) < 0.05:
        return (
            "It gives the right tokens hardly any probability. Does a step make the loss smaller, "
            "or larger?"
        )
    if loss > uniform - 0.1 and entropy > uniform - 0.2:
        return (
            "It is no better than a uniform guess. Do logits and targets belong together, and are "
            "the steps large enough?"
        )
    if entropy < floor - 0.15:
        return (
            "It is surer than the source allows. Three faults look like that: a few texts learned "
            "by heart, a loss that is not −log softmax of the logits, gradients of earlier steps "
            "that are still added."
        )
    after = torch.cat([y[:, 1:], torch.full_like(y[:, :1], PAD)], dim=1)
    two = there & (after != PAD)
    if mean_p(after, two) > mean_p(y, two) + 0.05:
        return "It knows the word after the next better than the next. How far is a target away?"
    early, late = (
        float(above[:, part].sum() / there[:, part].sum()) for part in (slice(0, 2), slice(2, None))
    )
    if late > 2 * early + 0.5:
        return (
            "It predicts the beginning of a text far better than the rest: is a question asked at "
            "every position?"
        )
    if loss < floor + 2 * ABOVE:
        return "It is almost there: more steps, or a smaller rate at the end."
    if entropy > loss - 0.15:
        return (
            "It is as unsure as it is wrong: what it has learned looks right, and too little. Are "
            "old gradients emptied at each step? How large are the steps, how many, and does the "
            "optimizer suit?"
        )
    return (
        "It is surer than it is right. Are old gradients emptied at each step, and do texts, shift "
        "and ignored targets go in as the question says?"
    )


def trained_right(student: Student, draw: Draw, n_words: int, length: int, end: float) -> None:
    """Let the student train on a new source; fail unless the model comes near its floor."""
    table, seed = markov_table(draw, n_words, end), draw.integer(0, 10**6)
    V = len(table)
    fields: dict = dict(vocab_size=V, max_len=length, d_model=32, n_heads=4, n_layers=1)
    fields |= dict(position="rope", tie_embeddings=False)
    made_of = (fields, seed)
    model = student(Tool("decoder_lm", made_of), Tool("markov_rows", (table, length, seed)))
    if not isinstance(model, Kept) or model.kind != "module":
        kind = model.kind if isinstance(model, Kept) else type(model).__name__
        raise Wrong(f"It has to return the trained model, and returns a {kind}.")

    rows = tools.markov_rows(table, length, seed + 1)(500)  # of the same source, and held out
    x, y = rows[:, :-1], rows[:, 1:]

    def logits_of(x: Tensor) -> Tensor:
        answer = student.run(model, x, training=False, grad=False).value
        return tensor(answer, (*x.shape, V), "What the model gives for token ids [B L]").float()

    logits = logits_of(x)
    require(
        bool(logits.isfinite().all()),
        "The trained model's logits are not finite. Were the steps too large?",
    )
    changed = x.clone()
    changed[:, length // 2 :] = N_SPECIAL
    moved = (logits_of(changed) - logits)[:, : length // 2].abs().max()
    require(
        float(moved) < 1e-2,
        "A change of a later token moves earlier predictions: the model reads its answers.",
    )
    first = tools.decoder_lm(fields, seed).eval()
    with torch.no_grad():
        same = torch.allclose(first(x), logits, atol=1e-4)
    says = (
        "The model that comes back has the weights that it began with. Does the optimizer step, "
        "and are the weights that it moves those of this model?"
    )
    require(not same, says)

    before = torch.cat([x[:, :1], x[:, :-1]], dim=1)
    there = y != PAD
    floor = float(-table[before, x, y][there].log().mean())
    loss = float(F.cross_entropy(logits[there], y[there]))
    score = f"Held-out loss {loss:.2f}, floor {floor:.2f} nats per token."
    if loss > floor + ABOVE:
        of_source = -table[before, x, y].clamp(min=1e-30).log()
        of_model = F.cross_entropy(logits.mT, y, reduction="none")
        above = (of_model - of_source).where(there, 0.0)
        fault = likely_fault(x, y, logits.softmax(-1), loss, floor, above)
        raise Wrong(f"{score} At most {ABOVE} above the floor is asked for. {fault}")
    says = f"{score} Nobody who sees only the past is that good: look for a leak."
    require(loss > floor - ABOVE, says)
    after = (x == EOS) | (x == PAD)
    if after.any():
        padding = float(logits.softmax(-1)[..., PAD][after].mean())
        says = f"{score} But after a text's end it predicts PAD: padding looks counted as a target."
        require(padding < 0.8, says)


@train_lm.check
def _(student: Student, draw: Draw) -> None:
    """A source of four words, in texts of different length."""
    trained_right(student, draw, n_words=4, length=16, end=0.1)
