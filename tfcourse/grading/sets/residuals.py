"""The exercises of chapter 01: what is public of them."""

from __future__ import annotations

import torch

from tfcourse.grading.questions import Draw, Question, Student, compare, tensor
from tfcourse.grading.sets.residuals_compared import (
    check_branch,
    check_cosine,
    check_decay,
    check_first_gradient,
    check_jacobian,
    check_parts,
    check_stack,
    like,
    number,
    refuses,
    refuses_shape,
)
from tfcourse.grading.sets.residuals_module import Position, check_dropout, check_module
from tfcourse.grading.wire import Tool

CHAPTER = "01_residuals.html"


def tanh_of(draw: Draw, d: int, dtype: torch.dtype = torch.float32) -> Tool:
    """Draw a function tanh(x Wᵀ) that keeps about the size of what it reads."""
    return Tool("tanh_of", (draw.normal(d, d, std=1.5 * d**-0.5, dtype=dtype),))


def layers_of(draw: Draw, n: int, d: int, std: float = 0.5, tool: str = "linear") -> list[Tool]:
    """Draw linear layers with biases; with `used`, an earlier pass has left gradients in them."""
    return [
        Tool(tool, (draw.normal(d, d, std=std * d**-0.5), draw.normal(d, std=0.5)))
        for _ in range(n)
    ]


def norm_of(draw: Draw, d: int) -> Tool:
    """Draw a LayerNorm."""
    return Tool("layer_norm", (draw.uniform(0.5, 2, d), draw.normal(d), 1e-5))


residual_branch = Question(
    "01.residual_branch",
    "residual_branch",
    title="A residual branch",
    points=1,
    minutes=3,
    difficulty=1,
    section=f"{CHAPTER}#the-sum-by-hand",
)


@residual_branch.check
def _(student: Student, draw: Draw) -> None:
    """Its results and gradients on vectors of six features."""
    check_branch(student, draw.normal(3, 6), tanh_of(draw, 6), draw.normal(3, 6))


@residual_branch.check
def _(student: Student, draw: Draw) -> None:
    """Two branches in a row: doubling twice gives nine times x."""
    x, double = draw.normal(2, 4, 6), Tool("scale", (2.0,))
    y = like(student(like(student(x, double), x), double), x)
    compare(y, 9 * x, says="Each of two branches adds twice what it reads: x becomes 3x, then 9x.")


decaying_branch = Question(
    "01.decaying_branch",
    "decaying_branch",
    title="A branch that keeps a part of the stream",
    points=2,
    minutes=6,
    difficulty=1,
    section=f"{CHAPTER}#how-much-may-be-thrown-away",
)


@decaying_branch.check
def _(student: Student, draw: Draw) -> None:
    """Its results for three α, from nothing kept to everything."""
    x, f = draw.normal(2, 3, 6), tanh_of(draw, 6)
    for alpha in (0.7, 1.0, 0.0):
        check_decay(student, x, f, alpha)


@decaying_branch.check
def _(student: Student, draw: Draw) -> None:
    """Updates with one number for each position, and with one row for all."""
    x = draw.normal(2, 3, 6)
    refuses_shape(student, x, draw.normal(2, 3, 1))
    refuses_shape(student, x, draw.normal(3, 6))


branch_jacobian = Question(
    "01.branch_jacobian",
    "branch_jacobian",
    title="The Jacobian of a branch",
    points=2,
    minutes=10,
    difficulty=2,
    section=f"{CHAPTER}#the-identity-in-the-jacobian",
    seconds=40.0,  # the first call of torch.func.jacrev imports for some seconds
)


@branch_jacobian.check
def _(student: Student, draw: Draw) -> None:
    """At a vector of five features."""
    check_jacobian(student, tanh_of(draw, 5), draw.normal(5))


@branch_jacobian.check
def _(student: Student, draw: Draw) -> None:
    """A function that cancels x: nothing comes through."""
    j = tensor(student(Tool("scale", (-1.0,)), draw.normal(4)), (4, 4))
    says = "Here f(x) = −x, so y is 0 whatever x is. How far does y move when x moves?"
    compare(j, torch.zeros(4, 4), says=says)


run_stack = Question(
    "01.run_stack",
    "run_stack",
    title="A stack of branches, with the residual on or off",
    points=2,
    minutes=10,
    difficulty=2,
    section=f"{CHAPTER}#three-bugs-that-raise-no-error",
)


@run_stack.check
def _(student: Student, draw: Draw) -> None:
    """Three branches with the residual."""
    check_stack(student, draw.normal(2, 3, 4), [tanh_of(draw, 4) for _ in range(3)], True)


@run_stack.check
def _(student: Student, draw: Draw) -> None:
    """Three branches without it."""
    check_stack(student, draw.normal(2, 3, 4), [tanh_of(draw, 4) for _ in range(3)], False)


position_cosine = Question(
    "01.position_cosine",
    "position_cosine",
    title="The mean cosine between positions",
    points=3,
    minutes=12,
    difficulty=2,
    section=f"{CHAPTER}#the-question",
    forbid=("mean_cosine",),
)


@position_cosine.check
def _(student: Student, draw: Draw) -> None:
    """Positions with something in common."""
    check_cosine(
        student, draw.normal(3, 4, 6) * draw.uniform(0.3, 3, 3, 4, 1) + draw.normal(3, 1, 6)
    )


@position_cosine.check
def _(student: Student, draw: Draw) -> None:
    """Positions that point the same way, whatever their lengths, give 1."""
    x = draw.uniform(0.5, 2, 2, 4, 1) * draw.normal(2, 1, 6)
    value = number(student(x))
    says = f"Here all positions of a row point the same way. The mean cosine is not {value:.3g}."
    compare(torch.tensor(value), torch.tensor(1.0), says=says)


@position_cosine.check
def _(student: Student, draw: Draw) -> None:
    """A padded position holds zeros, and one position alone has no pair."""
    x = draw.normal(2, 4, 6) + draw.normal(6)
    x[0, -1] = 0.0
    check_cosine(student, x)
    refuses(student, "With one position there is no pair: here a ValueError is due.", x[:, :1])


decompose_stream = Question(
    "01.decompose_stream",
    "decompose_stream",
    title="Who wrote what into the stream",
    points=3,
    minutes=15,
    difficulty=3,
    section=f"{CHAPTER}#the-stream-is-a-sum",
)


@decompose_stream.check
def _(student: Student, draw: Draw) -> None:
    """Three branches that keep the stream."""
    check_parts(student, draw.normal(2, 3, 4), [tanh_of(draw, 4) for _ in range(3)], 1.0)


@decompose_stream.check
def _(student: Student, draw: Draw) -> None:
    """Three branches that let it decay."""
    check_parts(student, draw.normal(2, 3, 4), [tanh_of(draw, 4) for _ in range(3)], 0.6)


first_gradient = Question(
    "01.first_gradient",
    "first_gradient",
    title="The gradient that reaches the first layer",
    points=3,
    minutes=15,
    difficulty=3,
    section=f"{CHAPTER}#then-why-did-the-gradient-not-vanish",
)


@first_gradient.check
def _(student: Student, draw: Draw) -> None:
    """Four linear layers with the residual."""
    check_first_gradient(student, draw.normal(2, 3, 4), layers_of(draw, 4, 4), True)


@first_gradient.check
def _(student: Student, draw: Draw) -> None:
    """Four linear layers without it."""
    check_first_gradient(student, draw.normal(2, 3, 4), layers_of(draw, 4, 4), False)


@first_gradient.check
def _(student: Student, draw: Draw) -> None:
    """Layers that an earlier backward pass has been through."""
    check_first_gradient(student, draw.normal(2, 3, 4), layers_of(draw, 3, 4, tool="used"), True)


branch = Question(
    "01.branch_module",
    "Branch",
    title="A whole branch: norm, sublayer, dropout and sum",
    points=5,
    minutes=25,
    difficulty=3,
    section=f"{CHAPTER}#the-sum-by-hand",
    forbid=("ResidualBranch",),
)


@branch.check
def _(student: Student, draw: Draw) -> None:
    """Pre-norm and post-norm in evaluation."""
    positions: tuple[Position, ...] = ("pre", "post")
    for position in positions:
        x, w = draw.normal(2, 3, 6), draw.normal(2, 3, 6)
        f = Tool("linear", (draw.normal(6, 6, std=0.4), draw.normal(6)))
        check_module(student, x, norm_of(draw, 6), f, position, w)


@branch.check
def _(student: Student, draw: Draw) -> None:
    """What dropout takes away in training."""
    f = Tool("linear", (draw.normal(16, 16, std=0.25), draw.normal(16)))
    check_dropout(student, draw.normal(8, 8, 16), f, "pre", 0.25)


QUESTIONS = [
    residual_branch,
    decaying_branch,
    branch_jacobian,
    run_stack,
    position_cosine,
    decompose_stream,
    first_gradient,
    branch,
]
