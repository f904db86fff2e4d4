"""The exercises of chapter 04: what is public of them.

Those on weights are in `stacking_weights`, those on whole models in `stacking_models`.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from tfcourse.config import ModelConfig
from tfcourse.grading import tools
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
from tfcourse.grading.sets.stacking_models import tiny_decoder, trace
from tfcourse.grading.sets.stacking_weights import count_parameters, draw_weights, tied_model
from tfcourse.grading.wire import Tool
from tfcourse.positions import RotaryPositions, SinusoidalPositions

CHAPTER = "04_stacking.html"

embed = Question(
    "04.embed",
    "embed",
    title="Words and places",
    points=1,
    minutes=5,
    difficulty=1,
    section=f"{CHAPTER}#the-whole-stack",
    forbid=("TokenEmbedding", "LearnedPositions", "Stack"),
)


def compare_embed(
    student: Student, tokens: Tensor, table: Tensor, places: Tensor, scaled: bool
) -> None:
    """Compare with E[w] (√d) + P[i], where each wrong sum has its message."""
    (n_rows, length), d = tokens.shape, table.shape[1]
    y = tensor(student(tokens, table, places, scaled), (n_rows, length, d))
    require(y.dtype == table.dtype, f"The result is {y.dtype}; the tables are {table.dtype}.")
    root = math.sqrt(d)
    words, P = table.double()[tokens], places.double()
    own = words * root if scaled else words
    late = torch.arange(1, length + 1).clamp(max=len(P) - 1)
    mistakes = {
        "The places look left out.": own,
        "√d looks applied to the sum. Only the word's part is scaled.": root * (words + P[:length]),
        "`scaled` looks ignored.": words * (1 if scaled else root) + P[:length],
        "The rows look multiplied by d; the factor is its root.": d * words + P[:length],
        "The rows look divided by √d. Which way does the factor go?": words / root + P[:length],
        "The table of places looks read at the words' ids. What is its index?": own
        + P[tokens.clamp(max=len(P) - 1)],
        "The places look counted from 1. The first row belongs to the first position.": own
        + P[late],
        "The last rows of the table of places look used.": own + P[-length:],
        "Every position seems to get the same place.": own + P[0],
        "The numbers of the positions look added. Their rows of `places` belong there.": own
        + torch.arange(length)[:, None],
        "The places look counted from the end.": own + P[:length].flip(0),
        "The root looks taken of the length L. The factor belongs to the width d.": words
        * math.sqrt(length)
        + P[:length],
        "The root looks taken of the number of words V. The factor belongs to the width d.": words
        * math.sqrt(len(table))
        + P[:length],
        "The places seem to follow the rows of the batch. They belong to positions.": own
        + P[torch.arange(n_rows).clamp(max=len(P) - 1)][:, None],
    }
    tolerance = 1e-5 if table.dtype == torch.float32 else 2e-2
    says = "The numbers are not the right ones. Which row of each table belongs to position 0?"
    compare(y.double(), own + P[:length], mistakes, says, tolerance)


@embed.check
def _(student: Student, draw: Draw) -> None:
    """Rows of both tables, added."""
    tokens = draw.integers(0, 9, 2, 5)
    compare_embed(student, tokens, draw.normal(9, 6), draw.normal(12, 6), False)


@embed.check
def _(student: Student, draw: Draw) -> None:
    """With √d."""
    tokens = draw.integers(0, 9, 3, 7)
    compare_embed(student, tokens, draw.normal(9, 4), draw.normal(12, 4), True)


@embed.check
def _(student: Student, draw: Draw) -> None:
    """Whether both tables learn."""
    tokens, weights = draw.integers(0, 5, 2, 3), draw.normal(2, 3, 4)
    tokens[0, 0] = 0  # the first word is a word like all others
    table, places = draw.normal(5, 4), draw.normal(6, 4)
    run = student.run(student.name, tokens, table, places, False, backward=weights)
    by_word = torch.zeros(5, 4).index_add(0, tokens.flatten(), weights.flatten(0, 1))
    by_place = torch.cat([weights.sum(dim=0), torch.zeros(3, 4)])
    padding = by_word.index_fill(0, torch.tensor(0), 0.0)
    says = "Word 0 looks taken for padding: its row gets no gradient. It is a word like all others."
    for i, (what, right) in enumerate((("words", by_word), ("places", by_place))):
        gradient = run.gradients[f"input {i}"]
        if gradient is None:
            raise Wrong(f"No gradient reaches the table of {what}: is it a copy?")
        unknown = f"The gradient of the table of {what} is not the sum of those of its readers."
        compare(gradient, right, {says: padding} if what == "words" else {}, unknown)


to_logits = Question(
    "04.to_logits",
    "to_logits",
    title="The final norm and the head",
    points=1,
    minutes=5,
    difficulty=1,
    section=f"{CHAPTER}#the-norm-at-the-end",
)


def compare_logits(student: Student, x: Tensor, normed: Tensor, norm: Tool, *head: Tensor) -> None:
    """Compare with norm(x) Wᵀ + c; `head` is the weight and, where there is one, the bias."""
    weight, bias = head[0], head[1] if head[1:] else None
    z = tensor(student(x, norm, weight, bias), (*x.shape[:2], len(weight)))
    right = normed @ weight.T + (0 if bias is None else bias)
    plain = F.layer_norm(x, x.shape[-1:])
    scores, c = normed @ weight.T, right - normed @ weight.T
    twice = getattr(tools, norm.name)(*norm.args)(normed).detach()
    mistakes = {
        "The scores look divided by √d. That belongs to attention.": scores / x.shape[-1] ** 0.5
        + c,
        "These lie between 0 and 1, as after a sigmoid. Logits come before.": right.sigmoid(),
        "The head seems to read the stream without the norm.": right + (x - normed) @ weight.T,
        "The head's bias c looks left out.": normed @ weight.T,
        "The norm looks like one of your own: γ and β are missing. Use the one that you are "
        "given.": right + (plain - normed) @ weight.T,
        "These look like probabilities. Logits are the scores before the softmax.": right.softmax(
            dim=-1
        ),
        "These look like log-probabilities. Logits are the scores before the "
        "softmax.": right.log_softmax(dim=-1),
        "The stream looks added to its norm. The head reads the norm alone.": right + x @ weight.T,
        "W looks reshaped to [d V]. That moves its numbers to other rows: transpose it.": right
        + normed @ (weight.reshape(weight.shape[::-1]) - weight.T),
        "The norm looks applied twice.": right + (twice - normed) @ weight.T,
    }
    if weight.shape[0] == weight.shape[1]:
        mistakes["W looks used without its transpose."] = right + normed @ (weight - weight.T)
    says = "The numbers are not the right ones. In which order do norm, W and c come?"
    compare(z, right, mistakes, says, tolerance=1e-5)


@to_logits.check
def _(student: Student, draw: Draw) -> None:
    """A norm with γ and β, a head with a bias."""
    x, gain, shift = draw.normal(2, 3, 6, std=4), draw.uniform(0.5, 2, 6), draw.normal(6)
    normed = F.layer_norm(x, (6,), gain, shift)
    head = draw.normal(11, 6), draw.normal(11)
    compare_logits(student, x, normed, Tool("layer_norm", (gain, shift)), *head)


@to_logits.check
def _(student: Student, draw: Draw) -> None:
    """A head without a bias, tied to a table."""
    x, W = draw.normal(2, 3, 5), draw.normal(5, 5)
    compare_logits(student, x, torch.tanh(x @ W.T), Tool("tanh_of", (W,)), draw.normal(8, 5))


sinusoids = Question(
    "04.sinusoids",
    "sinusoids",
    title="Sines and cosines for places",
    points=2,
    minutes=10,
    difficulty=2,
    section=f"{CHAPTER}#who-notices-when-the-words-are-shuffled",
    forbid=("SinusoidalPositions", "make_positions", "angle_table"),
)


def compare_sinusoids(student: Student, positions: Tensor, d: int, tolerance: float = 1e-4) -> None:
    """Compare with the waves that the package adds."""
    y = tensor(student(positions, d), (len(positions), d))
    require(y.dtype == torch.float32, f"The result is {y.dtype}; float32 is asked for.")
    require(
        len(y.unique(dim=0)) >= len(positions.unique()),
        "Two different positions get the same vector. Does every position, however far, have "
        "angles of its own?",
    )
    right = SinusoidalPositions()(torch.zeros(1, len(positions), d), positions[None])[0]
    r, p = torch.arange(0, d, 2), positions[:, None].double()

    def waves(angles: Tensor) -> Tensor:
        return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)

    first, second = right[:, ::2], right[:, 1::2]
    mistakes = {
        "All sines come first, then all cosines. Here each sine stands beside its "
        "cosine.": torch.cat([first, second], dim=-1),
        "Sines and cosines look swapped.": torch.stack([second, first], dim=-1).flatten(-2),
        "The positions look counted from 0, whatever was asked for.": waves(
            torch.arange(len(p))[:, None] * 10_000.0 ** (-r / d)
        ),
        "The positions look counted from 1.": waves((p + 1) * 10_000.0 ** (-r / d)),
        "The exponent looks half as large as it has to be: pair r has 2r/d.": waves(
            p * 10_000.0 ** (-r / d / 2)
        ),
        "The exponent looks twice as large as it has to be. Which number does a pair have?": waves(
            p * 10_000.0 ** (-2 * r / d)
        ),
        "All pairs seem to have one speed. Look at the exponent.": waves(p * torch.ones(d // 2)),
        "The positions look divided by the largest. An angle has no use for the length.": waves(
            p / p.max().clamp(min=1) * 10_000.0 ** (-r / d)
        ),
        "The exponents look rounded to whole numbers.": waves(p * 10_000.0 ** (-r // d)),
        "The angles seem to grow from pair to pair. They fall.": waves(p * 10_000.0 ** (r / d)),
        "Each feature seems to have an angle of its own. Both of a pair share one.": torch.where(
            torch.arange(d) % 2 == 0,
            (p * 10_000.0 ** (-torch.arange(d) / d)).sin(),
            (p * 10_000.0 ** (-torch.arange(d) / d)).cos(),
        ),
    }
    if d > 2:
        mistakes["The slowest pair seems to have the exponent −1. The last r is d/2 − 1."] = waves(
            p * 10_000.0 ** (-r / (d - 2))
        )
    says = (
        "The numbers are not the right ones. Work out position 1 by hand: its first pair is "
        "sin 1, cos 1. With how many digits are angles kept?"
    )
    compare(y, right, mistakes, says, tolerance)


@sinusoids.check
def _(student: Student, draw: Draw) -> None:
    """The first positions, six features."""
    compare_sinusoids(student, torch.arange(7), 6)


@sinusoids.check
def _(student: Student, draw: Draw) -> None:
    """Positions that begin later, as in a text that is continued."""
    start = draw.integer(10, 40)
    compare_sinusoids(student, torch.arange(start, start + 5), 8)


rotate = Question(
    "04.rotate",
    "rotate",
    title="RoPE: turn queries and keys",
    points=3,
    minutes=15,
    difficulty=3,
    section=f"{CHAPTER}#who-notices-when-the-words-are-shuffled",
    forbid=("RotaryPositions", "make_positions", "angle_table"),
)


def compare_rotate(
    student: Student, x: Tensor, positions: Tensor, base: float, tolerance: float = 1e-4
) -> None:
    """Compare with the package's rotation, where each other way to turn has its message."""
    y = tensor(student(x, positions, base), x.shape)
    require(y.dtype == x.dtype, f"The result is {y.dtype}; the input is {x.dtype}.")
    k = x.shape[-1]
    config = ModelConfig(vocab_size=2, d_model=k, n_heads=1, position="rope", rope_theta=base)
    right = RotaryPositions(config).rotation(positions[None])(x.float())

    def turned(angles: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        c, s = angles.cos(), angles.sin()
        return first * c - second * s, second * c + first * s

    r, halves = torch.arange(k // 2), x.float().chunk(2, dim=-1)
    even, odd = x.float()[..., ::2], x.float()[..., 1::2]
    p = positions[:, None].float()
    angles = p * base ** (-2 * r / k)
    mistakes = {
        "It looks turned the other way. Check the signs.": torch.cat(turned(-angles, *halves), -1),
        "Neighbours look paired. Here feature r goes with feature r + d_k/2.": torch.stack(
            turned(angles, even, odd), -1
        ).flatten(-2),
        "Every pair seems to turn at the same speed.": torch.cat(turned(p, *halves), -1),
        "The speeds look wrong: pair r has the exponent −2r/d_k.": torch.cat(
            turned(p * base ** (-r / k), *halves), -1
        ),
        "The exponent looks divided by the width of all heads. d_k is that of one.": torch.cat(
            turned(p * base ** (-2 * r / (k * x.shape[1])), *halves), -1
        ),
        "The positions look counted from 0, whatever was asked for.": torch.cat(
            turned(torch.arange(len(p))[:, None] * base ** (-2 * r / k), *halves), -1
        ),
        "`base` looks ignored.": torch.cat(turned(p * 10_000.0 ** (-2 * r / k), *halves), -1),
        "The angles seem to belong to the heads. They belong to positions.": torch.cat(
            turned(angles[: x.shape[1], None], *halves), -1
        )
        if x.shape[1] <= len(angles)
        else right,
    }
    if x.dtype != torch.float32:
        low = (p.to(x.dtype) * (base ** (-2 * r / k)).to(x.dtype)).float()
        says = "The numbers are too far off for half precision. In which dtype are the angles?"
    else:
        says, low = "The numbers are not the right ones. Turn one pair by hand.", angles
    mistakes["The angles look computed in half precision, too coarse for far positions."] = (
        torch.cat(turned(low, *halves), -1)
    )
    compare(y.float(), right, mistakes, says, tolerance)


@rotate.check
def _(student: Student, draw: Draw) -> None:
    """What every rotation keeps: position 0, and each vector's length."""
    x = draw.normal(2, 3, 5, 8)
    y = tensor(student(x, torch.arange(5), 10_000.0), x.shape).float()
    require(close(y[:, :, 0], x[:, :, 0]), "Position 0 has to stay as it is: its angle is 0.")
    require(
        close(y.norm(dim=-1), x.norm(dim=-1)),
        "The vectors change their length. A turned pair stays as long as it was.",
    )
    require(not close(y, x), "Nothing is turned, at any position.")


@rotate.check
def _(student: Student, draw: Draw) -> None:
    """That a score depends on the distance alone."""
    q, k, (i, j, further) = draw.normal(1, 1, 1, 8), draw.normal(1, 1, 1, 8), (7, 4, 11)

    def score(i: int, j: int) -> Tensor:
        turned = [student(v, torch.tensor([p]), 100.0) for v, p in ((q, i), (k, j))]
        return (tensor(turned[0], q.shape) * tensor(turned[1], q.shape)).sum()

    here = score(i, j)
    require(
        close(score(i + further, j + further), here),
        "The score of a query and a key changes when both move on by the same number of places.",
    )
    require(
        not close(score(i + 1, j), here),
        "The score of a query and a key stays when their distance changes: are the positions used?",
    )


@rotate.check
def _(student: Student, draw: Draw) -> None:
    """Its numbers, for positions that begin later."""
    start = draw.integer(2, 9)
    compare_rotate(student, draw.normal(2, 3, 4, 6), torch.arange(start, start + 4), 500.0)


QUESTIONS = [
    embed,
    to_logits,
    sinusoids,
    count_parameters,
    tied_model,
    rotate,
    draw_weights,
    trace,
    tiny_decoder,
]
