"""The exercises of chapter 02: what is public of them."""

from __future__ import annotations

import torch
from torch import Tensor

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
from tfcourse.grading.sets.norm_functions import (
    CHAPTER,
    NORMS,
    NUMBERS,
    PLUS_ONE,
    largest_eps,
    layer_norm,
    norm_over,
    rms,
    rms_norm,
)
from tfcourse.grading.sets.norm_modules import batch_norm, layer_norm_module, rms_norm_module
from tfcourse.grading.wire import Tool

# -- Folding --------------------------------------------------------------------------------------

fold = Question(
    "02.fold",
    "fold",
    title="Fold γ and β into the next layer",
    points=2,
    minutes=10,
    difficulty=2,
    section=f"{CHAPTER}#gain-and-shift-fold-away",
)


def check_fold(
    student: Student, gain: Tensor, shift: Tensor, weight: Tensor, bias: Tensor | None
) -> None:
    """Compare the new weight and bias, each with its known mistakes."""
    pair = student(gain, shift, weight, bias)
    require(
        isinstance(pair, tuple | list) and len(pair) == 2,
        "It has to return two tensors: the new weight and the new bias.",
    )
    d_out = weight.shape[0]
    new_weight = tensor(pair[0], weight.shape, "The new weight")
    new_bias = tensor(pair[1], (d_out,), "The new bias")
    right, old = weight * gain, torch.zeros(d_out) if bias is None else bias
    mistakes = {
        "The new weight looks like the old one: γ has to go somewhere.": weight,
        "The weight looks divided by γ. γ multiplies what W reads.": weight / gain,
        "The sign of γ looks lost. A gain may be negative.": weight * gain.abs(),
        PLUS_ONE: weight * (1 + gain),
    }
    biases = {
        "β looks multiplied by the weight that has γ in it already. γ does not scale β.": old
        + right @ shift,
        "β looks left out of the new bias. What does the linear layer make of it?": old,
        "The old bias looks left out of the new one.": weight @ shift,
        "What W makes of β looks subtracted. It is added.": old - weight @ shift,
    }
    if weight.shape[0] == weight.shape[1]:
        mistakes["γ looks applied to the outputs, the rows of W. It scales the inputs."] = (
            gain[:, None] * weight
        )
        mistakes["The new weight looks transposed. It is [d_out d], like the old one."] = right.T
        biases["β looks added as it is. It meets the linear layer first."] = old + shift
        biases["The old bias looks sent through W. It is added after W."] = weight @ (old + shift)
        biases["γ looks applied to the old bias. It scales what W reads."] = (
            old * gain + weight @ shift
        )
        biases["β looks multiplied by W from the other side."] = old + shift @ weight
    compare(new_weight, right, mistakes, "The new weight is not the right one.")
    compare(new_bias, old + weight @ shift, biases, "The new bias is not the right one.")


@fold.check
def _(student: Student, draw: Draw) -> None:
    """A square layer."""
    check_fold(student, draw.uniform(0.5, 2, 5), draw.normal(5), draw.normal(5, 5), draw.normal(5))


@fold.check
def _(student: Student, draw: Draw) -> None:
    """A layer that widens."""
    check_fold(student, draw.uniform(0.5, 2, 4), draw.normal(4), draw.normal(7, 4), draw.normal(7))


@fold.check
def _(student: Student, draw: Draw) -> None:
    """A layer without a bias."""
    try:
        check_fold(student, draw.uniform(0.5, 2, 4), draw.normal(4), draw.normal(3, 4), None)
    except Wrong as wrong:
        raise Wrong(f"Here `bias` is None, and W is [3, 4]. {wrong}") from None


# -- The leak -------------------------------------------------------------------------------------

leaks = Question(
    "02.leaks",
    "leaks",
    title="Which predictions see what they must not?",
    points=3,
    minutes=12,
    difficulty=2,
    section=f"{CHAPTER}#along-which-axis-batchnorm-in-a-language-model",
)


def check_leaks(
    student: Student,
    layer: Tool,
    x: Tensor,
    row: int,
    position: int,
    other: Tensor,
    says: str = "",
) -> None:
    """Compare which predictions move though a causal model may not move them.

    `says` is for layers and vectors on which several misconceptions look alike.
    """
    function = getattr(tools, layer.name)(*layer.args)

    def change_at(*place: int | slice) -> Tensor:
        changed = x.clone()
        changed[place] = other
        with torch.no_grad():
            return function(changed) - function(x)

    change = change_at(row, position)
    moves = change.abs().amax(dim=-1) > 1e-5
    whole = change_at(row, slice(None)).abs().amax(dim=-1) > 1e-5
    everywhere = change_at(slice(None), position).abs().amax(dim=-1) > 1e-5
    rows, places = torch.arange(x.shape[0])[:, None], torch.arange(x.shape[1])
    here, earlier, later = rows == row, places < position, places > position
    may_not = ~here | earlier
    mistakes = {
        "All predictions that move look counted, also those that may.": moves,
        "The changed position itself looks counted. It may see its own vector.": moves
        & (may_not | here & (places == position)),
        "Later positions of the same row look counted. They may see it.": moves
        & (may_not | here & later),
        "It looks at the row that was changed only. May other rows move?": moves & here & earlier,
        "It looks at the earlier positions of all rows. May later ones of other rows move?": moves
        & earlier,
        "The earlier positions of the row look left out, the later ones counted. Which of them may "
        "see the change?": moves & (~here | later),
        "The vectors of the whole row look replaced.": whole & may_not,
        "The position looks replaced in all rows.": everywhere & may_not,
        "The changes of the features look averaged. One feature that moves is enough.": may_not
        & (change.abs().mean(dim=-1) > 1e-5),
        "It says which predictions may not move. Which of them do move?": may_not,
        "A prediction looks counted only where all its features move.": may_not
        & (change.abs().amin(dim=-1) > 1e-5),
        "A prediction that becomes smaller looks missed.": may_not & (change.amax(-1) > 1e-5),
        "The changes of the features look added up. There +1 and −1 cancel.": may_not
        & (change.sum(dim=-1).abs() > 1e-5),
        "Movements below the limit look counted. The limit is 1e-5.": may_not
        & (change.abs().amax(-1) > 0),
        "It looks turned round: true where nothing moves.": ~(moves & may_not),
        "The whole row looks excused. Its earlier positions may not see a later one.": moves
        & ~here,
        "It finds no leak, and there is one.": torch.zeros_like(moves),
        "It finds leaks at all places.": torch.ones_like(moves),
    }
    value = tensor(student(layer, x, row, position, other), x.shape[:2])
    require(value.dtype == torch.bool, f"The result is of {value.dtype}; it has to be torch.bool.")
    if says:
        require(torch.equal(value, moves & may_not), says)
    compare(value, moves & may_not, mistakes, "It does not mark the right predictions.")


@leaks.check
def _(student: Student, draw: Draw) -> None:
    """BatchNorm in training mode."""
    x, other = draw.normal(3, 5, 4), 3 + draw.normal(4)
    check_leaks(student, Tool("batch_norm", (4, True)), x, 1, 2, other)


@leaks.check
def _(student: Student, draw: Draw) -> None:
    """A layer that is causal, and a vector that is no other."""
    weight, x = draw.uniform(0.1, 1, 5, 5), draw.normal(3, 5, 4)
    check_leaks(student, Tool("mix_positions", (weight.tril(),)), x, 1, 2, draw.normal(4))
    says = "`other` is the vector that stands there already, and something moves. What is replaced?"
    check_leaks(student, Tool("mix_positions", (weight,)), x, 1, 2, x[1, 2], says)


@leaks.check
def _(student: Student, draw: Draw) -> None:
    """A layer that lets one position see the future, and a change that cancels in a sum."""
    weight = draw.uniform(0.1, 1, 5, 5).tril()
    weight[1, 3], weight[0, 3] = -0.5, 2e-6  # the second moves its prediction by less than 1e-5
    x = draw.normal(2, 5, 4)
    for change in ([1.0, -1.0, 2.0, -2.0], [0.0, -1.0, 0.0, 0.0]):
        other = x[0, 3] + torch.tensor(change)
        check_leaks(student, Tool("mix_positions", (weight,)), x, 0, 3, other)


# -- The gradient ---------------------------------------------------------------------------------

layer_norm_gradient = Question(
    "02.layer_norm_gradient",
    "layer_norm_gradient",
    title="The gradient of LayerNorm, by hand",
    points=4,
    minutes=20,
    difficulty=3,
    section=f"{CHAPTER}#layernorm-by-hand",
    forbid=(
        *("autograd", "backward", "requires_grad", "requires_grad_", "jvp", "_make_dual"),
        *("native_layer_norm_backward", *NORMS),
    ),
)


def carry_back(g: Tensor, normed: Tensor, root: Tensor, axes: tuple[int, ...] = (-1,)) -> Tensor:
    """Carry a gradient back through a norm of these results and divisors."""
    along = (g * normed).mean(dim=axes, keepdim=True)
    return (g - g.mean(dim=axes, keepdim=True) - normed * along) / root


def fault_of_gradient(y: Tensor, normed: Tensor, shrunk: bool) -> str:
    """Say whether a gradient sees x move in a direction that LayerNorm does not see.

    `shrunk`: ε is not next to nothing, so that LayerNorm sees x become longer.
    """
    directions = {"one number is added to all features": torch.ones_like(normed)}
    if not shrunk:
        directions["the centred vector becomes longer"] = normed
    for what, direction in directions.items():
        along = (y * direction).mean(dim=-1)
        if not close(along, torch.zeros_like(along), 1e-3):
            return f"LayerNorm does not notice when {what}. This gradient says that it does."
    return NUMBERS


def check_layer_norm_gradient(
    student: Student, x: Tensor, g: Tensor, eps: float, tolerance: float = 1e-4, says: str = ""
) -> None:
    """Compare with the gradient that autograd finds in float64."""
    y = tensor(student(x, g, eps), x.shape)
    x, g = x.double(), g.double()
    given = x.clone().requires_grad_()
    (right,) = torch.autograd.grad((norm_over(given, eps) * g).sum(), given)
    normed, variance = norm_over(x, eps), x.var(dim=-1, keepdim=True, correction=0)
    root, unit, d = (variance + eps).sqrt(), norm_over(x, 0.0), x.shape[-1]
    beside = variance.sqrt() + eps
    mean, along = g.mean(dim=-1, keepdim=True), (g * normed).mean(dim=-1, keepdim=True)
    square = x.square().mean(dim=-1, keepdim=True)
    more = tuple(range(1, x.ndim)) or (0,)
    mistakes = {
        "The statistics look like constants in it. Both move when x moves.": g / root,
        "The path through the mean is there; the one through the variance looks left out.": (
            (g - mean) / root
        ),
        "The path through the variance is there; the one through the mean looks left out.": (
            (g - normed * along) / root
        ),
        "Both parts look subtracted; the division by s that follows looks left out.": root * right,
        "It looks divided by the variance, without the root.": right / root,
        "The part along x̂ looks summed over the features where a mean belongs.": (
            (g - mean - normed * along * d) / root
        ),
        "The part along x̂ looks to have the wrong sign.": (g - mean + normed * along) / root,
        "The variance looks divided by d − 1. LayerNorm's is not.": carry_back(
            g, norm_over(x, eps, correction=1), (variance * d / (d - 1) + eps).sqrt()
        ),
        "More axes than the last look used for the means. No position may see another.": (
            carry_back(g, normed, root, more)
        ),
        "It looks like the gradient of RMSNorm: x is not centred.": (
            g - x * (g * x).mean(dim=-1, keepdim=True) / (square + eps)
        )
        / (square + eps).sqrt(),
        "It looks like LayerNorm's result for x. The gradient depends on g, too.": normed,
        "It looks like LayerNorm's result for g. The gradient depends on x, too.": norm_over(
            g, eps
        ),
        "ε looks left out of x̂.": carry_back(g, unit, root),
        "It is 0 everywhere. LayerNorm does notice most movements of x.": torch.zeros_like(right),
        "ε looks left out everywhere.": carry_back(g, unit, variance.sqrt()),
        "ε looks left out of the last divisor.": right * root / variance.sqrt(),
        "ε looks added outside of the root.": carry_back(g, normed * root / beside, beside),
        "It looks like the gradient of a norm whose ε stands outside of the root.": (
            g - mean - unit * (g * normed).mean(dim=-1, keepdim=True) * root / beside
        )
        / beside,
    }
    shrunk = bool(eps > 1e-4 * variance.min())
    compare(y, right, mistakes, says or fault_of_gradient(y, normed, shrunk), tolerance)


@layer_norm_gradient.check
def _(student: Student, draw: Draw) -> None:
    """Its numbers, on vectors whose mean is not 0."""
    x, g = 1 + draw.normal(4, 8, std=2), 1 + draw.normal(4, 8)
    check_layer_norm_gradient(student, x, g, 1e-5)


@layer_norm_gradient.check
def _(student: Student, draw: Draw) -> None:
    """A large ε."""
    check_layer_norm_gradient(student, draw.normal(2, 3, 6), 1 + draw.normal(2, 3, 6), 0.5)


QUESTIONS = [
    rms,
    layer_norm,
    rms_norm,
    largest_eps,
    fold,
    layer_norm_module,
    rms_norm_module,
    leaks,
    batch_norm,
    layer_norm_gradient,
]
