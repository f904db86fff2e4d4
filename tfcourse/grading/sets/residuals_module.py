"""What the last exercise of chapter 01, a whole branch as a module, is compared with."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from tfcourse.config import ModelConfig
from tfcourse.grading.questions import (
    Student,
    as_module,
    close,
    compare,
    require,
)
from tfcourse.grading.sets.residuals_compared import like, make
from tfcourse.grading.wire import Tool
from tfcourse.residuals import ResidualBranch

Position = Literal["pre", "post"]


def check_module(
    student: Student, x: Tensor, norm: Tool, sublayer: Tool, position: Position, weights: Tensor
) -> None:
    """Compare results, weights and gradients with those of the package's branch."""
    n, f = make(norm), make(sublayer)
    config = ModelConfig(vocab_size=2, d_model=x.shape[-1], n_heads=1, norm_position=position)
    package = ResidualBranch(config, n, f).requires_grad_(True)
    with torch.no_grad():
        right = package(x)
        mistakes = {
            "It looks like a pre-norm branch. Here norm_position is “post”.": x + f(n(x)),
            "It looks like a post-norm branch. Here norm_position is “pre”.": n(x + f(x)),
            "The norm looks left out.": x + f(x),
            "The stream looks normed, too, on its way around the sublayer.": n(x) + f(n(x)),
            "The stream alone looks normed. The sublayer's side is not.": n(x) + f(x),
            "The norm looks applied to the update alone, after the sublayer.": x + n(f(x)),
            "The norm looks applied twice, before the sublayer and after the sum.": (
                n(x + f(n(x)))
            ),
            "The stream is missing. It looks like the update alone.": f(n(x)),
            "The stream is missing: nothing looks added to the update.": n(f(x)),
        }
    module = as_module(student(norm, sublayer, position, 0.0))
    names = names_of_weights(student.state(module), package)
    y = like(student.run(module, x, training=False).value, x)
    compare(y, right, mistakes, f"With “{position}” the numbers are not the right ones.")
    run = student.run(module, x, backward=weights, training=False)
    check_gradients(run.gradients, names, package, x, weights)
    module = as_module(student(norm, sublayer, position, 0.5))
    y = like(student.run(module, x, training=False).value, x)
    says = (
        "In evaluation the numbers are right with dropout=0, but not with dropout=0.5. Is anything "
        "dropped there?"
    )
    with torch.no_grad():
        scaled = {
            f"In evaluation the update looks multiplied by {factor}. There it is added as it is.": (
                x + factor * f(n(x)) if position == "pre" else n(x + factor * f(x))
            )
            for factor in (0.5, 2)
        }
    compare(y, right, scaled, says)


def check_own_parts(student: Student, norm: Tool, sublayer: Tool) -> None:
    """See that a module holds the very parts that it was handed, and no copies of them."""
    inner = as_module(student(norm, sublayer, "pre", 0.0))
    outer = as_module(student(inner, inner, "pre", 0.0))
    state = {name: value + 1 for name, value in student.state(inner).items()}
    student.load(inner, state)
    own = all(any(v.equal(new) for new in state.values()) for v in student.state(outer).values())
    says = "Copies of norm and sublayer look trained: the parts that were handed in stay behind."
    require(own, says)


def names_of_weights(state: dict[str, Tensor], package: ResidualBranch) -> dict[str, list[str]]:
    """Return the student's names of each weight of the norm and the sublayer, and no others."""
    weights = dict(package.named_parameters())
    names = {k: [name for name, v in state.items() if v.equal(w)] for k, w in weights.items()}
    lost = next((k.partition(".")[0] for k in weights if not names[k]), "")
    require(not lost, f"The weights of the {lost} are not among the module's parameters.")
    extra = sorted(set(state) - {name for found in names.values() for name in found})
    says = f"It holds {', '.join(extra)}: neither the norm's nor the sublayer's."
    require(not extra, says)
    return names


def check_gradients(
    found: dict[str, Tensor | None],
    names: dict[str, list[str]],
    package: ResidualBranch,
    x: Tensor,
    weights: Tensor,
) -> None:
    """Compare the gradients of the input and of each weight."""
    x = x.clone().requires_grad_(True)
    leaves = dict(package.named_parameters())
    expected = torch.autograd.grad((package(x) * weights).sum(), [x, *leaves.values()])
    for name, gradient in zip(("the input", *leaves), expected, strict=True):
        own = names.get(name, ["input 0"])
        given = [g for g in map(found.get, own) if g is not None]
        require(bool(given), f"No gradient reaches {name}.")
        says = f"The gradient that reaches {name} is not the right one. Is a way cut off?"
        compare(given[0], gradient, says=says, tolerance=1e-3)


def check_dropout(
    student: Student, x: Tensor, sublayer: Tool, position: Position, p: float
) -> None:
    """Look at what dropout does in training, behind a norm that does nothing."""
    identity = Tool("linear", (torch.eye(x.shape[-1]),))
    module = as_module(student(identity, sublayer, position, p))
    y = like(student.run(module, x, training=True).value, x)
    with torch.no_grad():
        added, update = y - x, make(sublayer)(x)
    large = update.abs() > 0.1  # in smaller numbers one cannot tell
    dropped = large & (added.abs() < 0.01)
    stays = large & ~dropped

    def enlarged(factor: float) -> bool:
        """Whether all that stays of the update is this many times as large."""
        return close(added[stays], factor * update[stays], tolerance=0.005)

    require(not close(added, update), "In training nothing is dropped.")
    says = (
        "In training the whole update is dropped at once. Each of its numbers is drawn by itself."
    )
    require(bool(stays.any()), says)
    lost = float((y == 0).float().mean())
    require(lost < p / 4, "Numbers of the result are 0. Only the update may be dropped.")
    says = "What is left of the update is not enlarged. On average evaluation then adds more."
    require(not enlarged(1), says)
    require(not enlarged(1 / p), f"dropout={p} looks taken for the share that is kept.")
    says = "In training other numbers are added than the enlarged update's. What does dropout read?"
    require(enlarged(1 / (1 - p)), says)
    share = int(dropped.sum()) / int(large.sum())
    require(abs(share - p) < 0.08, f"With dropout={p} a share of {share:.2f} is dropped.")
    for axis, says in (
        (2, "A position's update is dropped whole or not at all. Each number is drawn by itself."),
        (1, "The same features are dropped at all positions of a row. Each is drawn by itself."),
        (0, "The same numbers are dropped in all rows. Each is drawn by itself."),
    ):
        mixed = dropped.any(dim=axis) & stays.any(dim=axis)
        require(float(mixed.float().mean()) > 0.5, says)
