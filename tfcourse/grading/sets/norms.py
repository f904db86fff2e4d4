"""The exercises of chapter 02: what is public of them."""

from __future__ import annotations

import torch
from torch import Tensor

from tfcourse.grading.questions import Draw, Question, Student, compare, require, tensor

CHAPTER = "02_norms.html"

layer_norm = Question(
    "02.layer_norm",
    "layer_norm",
    title="LayerNorm from its equation",
    points=3,
    minutes=10,
    difficulty=2,
    section=f"{CHAPTER}#layernorm-by-hand",
    forbid=("layer_norm", "LayerNorm", "native_layer_norm", "batch_norm", "group_norm"),
)


def reference_layer_norm(
    x: Tensor, gain: Tensor, shift: Tensor, eps: float, unbiased: bool = False
) -> Tensor:
    """Normalize the last axis in float64."""
    x = x.double()
    centred = x - x.mean(dim=-1, keepdim=True)
    n = x.shape[-1] - unbiased
    variance = centred.square().sum(dim=-1, keepdim=True) / n
    return (gain.double() * centred / (variance + eps).sqrt() + shift.double()).float()


def mistakes_of_layer_norm(x: Tensor, gain: Tensor, shift: Tensor, eps: float) -> dict[str, Tensor]:
    """What known misconceptions compute from the same inputs."""
    centred = x - x.mean(dim=-1, keepdim=True)
    variance = centred.square().mean(dim=-1, keepdim=True)
    whole = x.transpose(0, -1)
    return {
        "The variance looks divided by d − 1. A norm describes these d numbers and estimates "
        "nothing: divide by d.": reference_layer_norm(x, gain, shift, eps, unbiased=True),
        "ε looks added to the standard deviation, outside of the root.": gain
        * centred
        / (variance.sqrt() + eps)
        + shift,
        "It looks divided by the variance instead of its root.": gain * centred / (variance + eps)
        + shift,
        "The gain looks applied after the shift. γ scales first, then β is added.": gain
        * (centred / (variance + eps).sqrt() + shift),
        "γ or β is left out.": centred / (variance + eps).sqrt(),
        "The mean is not taken away: that is RMSNorm.": gain
        * x
        / (x.square().mean(dim=-1, keepdim=True) + eps).sqrt()
        + shift,
        "The statistics are taken over the wrong axis. Each position is normalized over its own "
        "features.": reference_layer_norm(whole, torch.ones(()), torch.zeros(()), 0.0).transpose(
            0, -1
        )
        * gain
        + shift,
    }


def _compare(student: Student, x: Tensor, gain: Tensor, shift: Tensor, eps: float) -> None:
    y = tensor(student(x, gain, shift, eps), x.shape)
    right = reference_layer_norm(x, gain, shift, eps)
    compare(y.float(), right, mistakes_of_layer_norm(x, gain, shift, eps))


@layer_norm.check
def _(student: Student, draw: Draw) -> None:
    """Its results on vectors of six features."""
    x, gain, shift = draw.normal(4, 6, std=3), draw.uniform(0.5, 2, 6), draw.normal(6)
    _compare(student, x, gain, shift, 1e-5)


@layer_norm.check
def _(student: Student, draw: Draw) -> None:
    """A large ε, where its place shows."""
    x, gain, shift = draw.normal(4, 3, 6), draw.uniform(0.5, 2, 6), draw.normal(6)
    _compare(student, x, gain, shift, 0.5)


@layer_norm.check
def _(student: Student, draw: Draw) -> None:
    """A constant vector, where the variance is 0."""
    gain, shift = draw.uniform(0.5, 2, 4), draw.normal(4)
    y = tensor(student(torch.full((2, 4), 3.0), gain, shift, 1e-5), (2, 4))
    require(bool(torch.isfinite(y).all()), "A constant vector gives NaN. What is ε for?")
    compare(y, shift.expand(2, 4), says="A constant vector has nothing left: only β comes out.")


QUESTIONS = [layer_norm]
