"""The exercises of chapter 02 on the norms themselves, as functions."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tfcourse.grading.questions import Draw, Question, Student, compare, require, tensor
from tfcourse.grading.wire import Kept

CHAPTER = "02_norms.html"
NUMBERS = "The numbers are not the right ones."
NORMS = (
    *("layer_norm", "native_layer_norm", "rms_norm", "batch_norm", "group_norm"),
    "instance_norm",
)
"""PyTorch's functions that do a norm's work, under its own name or another."""


def norm_over(
    x: Tensor, eps: float, axes: tuple[int, ...] = (-1,), centre: bool = True, correction: int = 0
) -> Tensor:
    """Normalize over these axes in float64, ε inside of the root."""
    x = x.double()
    if centre:
        x = x - x.mean(dim=axes, keepdim=True)
    n = math.prod(x.shape[axis] for axis in axes) - correction
    return x / (x.square().sum(dim=axes, keepdim=True) / n + eps).sqrt()


# -- RMS ------------------------------------------------------------------------------------------

rms = Question(
    "02.rms",
    "rms",
    title="The size of a vector",
    points=1,
    minutes=4,
    difficulty=1,
    section=f"{CHAPTER}#the-question",
)


def check_rms(student: Student, x: Tensor) -> None:
    """Compare with the root mean square of the last axis."""
    x64 = x.double()
    mean_square = x64.square().mean(dim=-1)
    mistakes = {
        "The root looks left out.": mean_square,
        "It looks like the length, the root of the sum of squares. A size that can be compared "
        "between widths does not grow with d.": x64.square().sum(dim=-1).sqrt(),
        "It looks like the mean of the absolute values: another average than the one that RMS "
        "names.": x64.abs().mean(dim=-1),
        "It looks like the absolute value of the mean. In a mean +3 and −3 cancel.": x64.mean(
            -1
        ).abs(),
        "It looks like the standard deviation: the mean is taken away.": x64.std(-1, correction=0),
        "It looks like the standard deviation that divides by d − 1: the mean is taken away, "
        "too.": x64.std(-1, correction=min(1, x.shape[-1] - 1)),
        "The sum of squares looks divided by d − 1.": x64.square()
        .sum(dim=-1)
        .div(x.shape[-1] - 1)
        .sqrt(),
        "The sum of squares looks divided by the number of vectors.": x64.square()
        .sum(dim=-1)
        .div(len(x))
        .sqrt(),
        "The length looks divided by d. The division belongs under the root.": x64.square()
        .sum(dim=-1)
        .sqrt()
        .div(x.shape[-1]),
        "Something looks added under the root. A size needs no ε.": (mean_square + 1e-5).sqrt(),
        "It looks like one over the size, as a norm uses it.": 1 / mean_square.sqrt(),
        "It looks like one size for all vectors. Each vector has its own.": mean_square.mean()
        .sqrt()
        .expand(x.shape[:-1]),
    }
    if x.ndim > 2:
        mistakes["The sum of squares looks divided by the size of another axis than the last."] = (
            x64.square().sum(dim=-1).div(x.shape[1]).sqrt()
        )
    sizes = tensor(student(x), x.shape[:-1])
    of_zeros = sizes[(x == 0).all(dim=-1)]
    says = NUMBERS
    if bool(of_zeros.any()):
        says = f"A vector of zeros has size 0. Here it has {float(of_zeros.max()):.2g}."
    compare(sizes, mean_square.sqrt(), mistakes, says)
    require(says == NUMBERS, says)


@rms.check
def _(student: Student, draw: Draw) -> None:
    """Four vectors whose mean is not 0."""
    check_rms(student, 2 + draw.normal(4, 6, std=3))


@rms.check
def _(student: Student, draw: Draw) -> None:
    """A batch of sequences."""
    check_rms(student, draw.normal(2, 3, 8))


@rms.check
def _(student: Student, draw: Draw) -> None:
    """A vector of zeros beside another."""
    check_rms(student, torch.stack([torch.zeros(4), draw.normal(4)]))


# -- LayerNorm ------------------------------------------------------------------------------------

layer_norm = Question(
    "02.layer_norm",
    "layer_norm",
    title="LayerNorm from its equation",
    points=2,
    minutes=10,
    difficulty=2,
    section=f"{CHAPTER}#layernorm-by-hand",
    forbid=("LayerNorm", "RMSNorm", *NORMS),
)
IGNORED = (
    "The ε that is given looks ignored: a large one does not change the result as it should. Where "
    "does it belong?"
)
PLUS_ONE = "γ looks read as γ − 1: the vector is multiplied by 1 + γ."


def mistakes_of_layer_norm(x: Tensor, gain: Tensor, shift: Tensor, eps: float) -> dict[str, Tensor]:
    """What known misconceptions compute from the same inputs."""
    centred = x.double() - x.double().mean(dim=-1, keepdim=True)
    variance = centred.square().mean(dim=-1, keepdim=True)
    normed = norm_over(x, eps)
    everywhere = tuple(range(x.ndim))
    return {
        "The variance looks divided by d − 1. A norm describes these d numbers; it estimates "
        "nothing from a sample.": gain * norm_over(x, eps, correction=1) + shift,
        "ε looks added to the standard deviation, outside of the root.": gain
        * (centred / (variance.sqrt() + eps))
        + shift,
        "It looks divided by the variance, without the root.": gain * centred / (variance + eps)
        + shift,
        "The mean looks taken away, but nothing is divided.": gain * centred + shift,
        "The gain looks applied to the shift as well.": gain * (normed + shift),
        "The shift looks left out.": gain * normed,
        "The gain looks left out.": normed + shift,
        "Gain and shift look left out.": normed,
        PLUS_ONE: (1 + gain) * normed + shift,
        "It looks like RMSNorm: the mean is still there.": gain * norm_over(x, eps, centre=False)
        + shift,
        "The mean looks taken away above the line only; the divisor is that of RMSNorm.": gain
        * centred
        / (x.double().square().mean(dim=-1, keepdim=True) + eps).sqrt()
        + shift,
        "The statistics look taken over the first axis. Each position is normalized over its own "
        "features.": gain * norm_over(x, eps, (0,)) + shift,
        "One mean and one variance look taken for all positions. No position may see another.": gain
        * norm_over(x, eps, everywhere)
        + shift,
        "More axes than the last look used for the statistics. No position may see another.": gain
        * norm_over(x, eps, everywhere[1:] or (0,))
        + shift,
        "ε looks squared. It is added to the variance as it is.": gain * norm_over(x, eps**2)
        + shift,
        IGNORED: gain * norm_over(x, 1e-5) + shift,
    }


def check_layer_norm(
    student: Student,
    x: Tensor,
    gain: Tensor,
    shift: Tensor,
    eps: float,
    tolerance: float = 1e-4,
    says: str = NUMBERS,
) -> None:
    """Compare with LayerNorm in float64."""
    y = tensor(student(x, gain, shift, eps), x.shape)
    right = gain * norm_over(x, eps) + shift
    compare(y, right, mistakes_of_layer_norm(x, gain, shift, eps), says, tolerance)


@layer_norm.check
def _(student: Student, draw: Draw) -> None:
    """Its results on vectors of six features."""
    x, gain, shift = 2 + draw.normal(4, 6, std=3), draw.uniform(0.5, 2, 6), draw.normal(6)
    check_layer_norm(student, x, gain, shift, 1e-5)


@layer_norm.check
def _(student: Student, draw: Draw) -> None:
    """A large ε, where its place shows."""
    x, gain, shift = draw.normal(4, 3, 6), draw.uniform(0.5, 2, 6), draw.normal(6)
    check_layer_norm(student, x, gain, shift, 0.5)


@layer_norm.check
def _(student: Student, draw: Draw) -> None:
    """A constant vector, where the variance is 0."""
    gain, shift = draw.uniform(0.5, 2, 4), draw.normal(4)
    y = tensor(student(torch.full((2, 4), 3.0), gain, shift, 1e-5), (2, 4))
    finite = bool(torch.isfinite(y).all())
    require(finite, "For a constant vector the result is NaN or infinite. What is ε for?")
    compare(y, shift.expand(2, 4), says="A constant vector has nothing left: only β comes out.")


# -- RMSNorm --------------------------------------------------------------------------------------

rms_norm = Question(
    "02.rms_norm",
    "rms_norm",
    title="RMSNorm with its gain",
    points=2,
    minutes=6,
    difficulty=1,
    section=f"{CHAPTER}#rmsnorm-leave-the-mean-in",
    forbid=("LayerNorm", "RMSNorm", *NORMS),
)


def mistakes_of_rms_norm(x: Tensor, gain: Tensor, eps: float) -> dict[str, Tensor]:
    """What known misconceptions compute from the same inputs."""
    x64 = x.double()
    square = x64.square().mean(dim=-1, keepdim=True)
    normed = norm_over(x, eps, centre=False)
    return {
        "It looks like LayerNorm: the mean is taken away.": gain * norm_over(x, eps),
        "The divisor looks like the standard deviation: there the mean is taken away.": gain
        * x64
        / (x64.var(dim=-1, keepdim=True, correction=0) + eps).sqrt(),
        "It looks divided by the length of the vector, the root of a sum. Which average does RMS "
        "name?": gain * x64 / (square * x.shape[-1] + eps).sqrt(),
        "ε looks added to the root mean square, outside of the root.": gain
        * x64
        / (square.sqrt() + eps),
        "ε looks used as a lower limit of the mean square. It is added to it.": gain
        * x64
        / square.clamp(min=eps).sqrt(),
        "ε looks squared. It is added to the mean square as it is.": gain
        * norm_over(x, eps**2, centre=False),
        "It looks divided by the mean square, without the root.": gain * x64 / (square + eps),
        "It looks divided by the mean of the absolute values.": gain
        * x64
        / (x64.abs().mean(dim=-1, keepdim=True) + eps),
        "The gain looks added. It multiplies.": gain + normed,
        "The sum of squares looks divided by the number of vectors.": gain
        * x64
        / (square * x.shape[-1] / len(x) + eps).sqrt(),
        "The gain looks left out.": normed,
        PLUS_ONE: (1 + gain) * normed,
        "The statistics look taken over the first axis. Each position is normalized over its own "
        "features.": gain * norm_over(x, eps, (0,), centre=False),
        "One size looks taken for all positions. No position may see another.": gain
        * norm_over(x, eps, tuple(range(x.ndim)), centre=False),
        IGNORED: gain * norm_over(x, 1e-5, centre=False),
    }


def check_rms_norm(student: Student, x: Tensor, gain: Tensor, eps: float) -> None:
    """Compare with RMSNorm in float64."""
    y = tensor(student(x, gain, eps), x.shape)
    right = gain * norm_over(x, eps, centre=False)
    compare(y, right, mistakes_of_rms_norm(x, gain, eps))


@rms_norm.check
def _(student: Student, draw: Draw) -> None:
    """Its results on vectors whose mean is not 0."""
    check_rms_norm(student, 2 + draw.normal(4, 6, std=3), draw.uniform(0.5, 2, 6), 1e-5)


@rms_norm.check
def _(student: Student, draw: Draw) -> None:
    """A large ε, where its place shows."""
    check_rms_norm(student, draw.normal(4, 3, 6), draw.uniform(0.5, 2, 6), 0.5)


@rms_norm.check
def _(student: Student, draw: Draw) -> None:
    """A vector of zeros."""
    y = tensor(student(torch.zeros(2, 4), draw.uniform(0.5, 2, 4), 1e-5), (2, 4))
    finite = bool(torch.isfinite(y).all())
    require(finite, "For a vector of zeros the result is NaN or infinite. What is ε for?")
    compare(y, torch.zeros(2, 4), says="A vector of zeros does not stay a vector of zeros.")


# -- ε --------------------------------------------------------------------------------------------

largest_eps = Question(
    "02.largest_eps",
    "largest_eps",
    title="How large may ε be?",
    points=2,
    minutes=10,
    difficulty=2,
    section=f"{CHAPTER}#epsilon-where-it-takes-over",
)


def check_largest_eps(student: Student, x: Tensor, share: float, hint: str = "") -> None:
    """Compare with the exact bound, whatever its order of magnitude; a hint is said at the end."""
    x64 = x.double()
    variance = x64.var(dim=-1, correction=0)
    least = variance.min()
    rest = (1 - share**2) / share**2
    mistakes = {
        "It looks chosen for the largest vector. Which one does ε shrink most?": variance.max()
        * rest,
        "It looks chosen for the average vector. The promise is for each of them.": variance.mean()
        * rest,
        "It looks chosen for the variance of all numbers together.": x64.var(correction=0) * rest,
        "The size looks taken with the mean in it. LayerNorm divides by something else.": (
            x64.square().mean(dim=-1).min() * rest
        ),
        "It looks as if ε stood outside of the root, beside the standard deviation.": least.sqrt()
        * (1 - share)
        / share,
        "It looks like a bound for √ε. ε stands beside the variance.": (least * rest).sqrt(),
        "It looks as if `share` were not squared: the variance and ε stand under a root.": least
        * (1 - share)
        / share,
        "The fraction with `share` looks upside down.": least / rest,
        "It looks like a share of the variance. Write down the size of the result with σ² and ε in "
        "it.": least * (1 - share**2),
        "It looks like the point where ε equals the variance, whatever `share` is.": least,
        "The variance looks divided by d − 1.": least * rest * x.shape[-1] / (x.shape[-1] - 1),
    }
    eps = student(x, share)
    kind = eps.kind if isinstance(eps, Kept) else type(eps).__name__
    require(kind in ("float", "int"), f"ε is a {kind}; it has to be a float.")
    # As shares of the right value: it may be of any size.
    value = torch.tensor(float(eps), dtype=torch.float64) / (least * rest)
    require(bool(torch.isfinite(value)), f"ε is NaN or infinite.{hint}")
    small, large = "at least one vector comes out too small", "a larger one would do, too"
    compare(
        value,
        torch.ones(()).double(),
        {message: wrong / (least * rest) for message, wrong in mistakes.items()},
        f"With this ε {small if value > 1 else large}.{hint}",
        tolerance=1e-3,
    )


@largest_eps.check
def _(student: Student, draw: Draw) -> None:
    """Vectors of different sizes."""
    sizes = torch.tensor([[0.5], [1.0], [3.0], [10.0]])
    check_largest_eps(student, 2 + sizes * draw.normal(4, 6), 0.9)


@largest_eps.check
def _(student: Student, draw: Draw) -> None:
    """Small vectors and half the size."""
    check_largest_eps(student, draw.normal(2, 3, 8, std=1e-4), 0.5)
