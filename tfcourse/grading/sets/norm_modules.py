"""The exercises of chapter 02 that ask for modules."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from tfcourse.grading.questions import (
    Draw,
    Question,
    Student,
    as_module,
    compare,
    require,
    tensor,
)
from tfcourse.grading.sets.norm_functions import (
    CHAPTER,
    NORMS,
    NUMBERS,
    mistakes_of_layer_norm,
    mistakes_of_rms_norm,
    norm_over,
)
from tfcourse.grading.wire import Kept
from tfcourse.norms import LayerNorm, RMSNorm

Mistakes = dict[str, Tensor]
TOO_EARLY = "Which step leaves the range of its dtype, or is rounded before the end?"

# -- Modules --------------------------------------------------------------------------------------


def loaded(
    student: Student,
    draw: Draw,
    ours: nn.Module,
    *args: float,
    names: Sequence[str] = ("weight", "bias"),
) -> Kept:
    """Make the student's module, look at its numbers, and give it and `ours` the same new ones."""
    module = as_module(student(*args))
    state, old = student.state(module), ours.state_dict()
    for name in names:
        require(
            name in state,
            f"`{name}` is neither a parameter nor a buffer of it; it has "
            f"{', '.join(state) or 'none'}. Keep the names that the question gives. A tensor in an "
            "attribute is not found by the module unless it is an nn.Parameter or registered as a "
            "buffer.",
        )
        start = tensor(state[name], old[name].shape, f"`{name}`")
        compare(start, old[name], says=f"`{name}` does not start with the numbers asked for.")
    for name in names:
        old[name].copy_(draw.uniform(0.5, 2, *old[name].shape))
    student.load(module, state | {name: old[name] for name in names})
    return module


def stays_wide(student: Student, module: Kept, ours: nn.Module) -> None:
    """See that no call has changed the dtype of a weight."""
    state = student.state(module)
    for name, weight in ours.named_parameters():
        says = f"After a call `{name}` is of {state[name].dtype}. It has to stay {weight.dtype}."
        require(state[name].dtype == weight.dtype, says)


def check_module(
    student: Student,
    draw: Draw,
    module: Kept,
    ours: nn.Module,
    x: Tensor,
    mistakes: Mistakes,
    detached: Tensor | None = None,
    training: bool = True,
    tolerance: float = 1e-4,
    says: str = NUMBERS,
) -> None:
    """Compare results, trainable parameters and gradients with `ours`, which has the same weights.

    `detached` is what multiplies the weights of the gradient at the input where the statistics
    count as constants.
    """
    given = x.clone().requires_grad_()
    right = ours.train(training)(given)
    weights = draw.normal(*x.shape)
    run = student.run(module, x, backward=weights, training=training)
    y = tensor(run.value, x.shape)
    require(
        y.dtype == x.dtype,
        f"For an input of {x.dtype} it returns {y.dtype}. The layer behind it wants what came in.",
    )
    compare(y, right.detach(), mistakes, says, tolerance)
    stays_wide(student, module, ours)
    names = sorted(name for name, _ in ours.named_parameters())
    trainable = sorted(name for name in run.gradients if not name.startswith("input"))
    require(
        trainable == names,
        f"What training can change in it is {', '.join(trainable) or 'nothing'}; it has to be "
        f"{', '.join(names)}.",
    )
    leaves = {"input 0": given, **dict(ours.named_parameters())}
    found = torch.autograd.grad((right * weights).sum(), list(leaves.values()))
    for (name, got), gradient in zip(
        ((name, run.gradients[name]) for name in leaves), found, strict=True
    ):
        what = "its input" if name.startswith("input") else f"`{name}`"
        require(got is not None, f"No gradient reaches {what}.")
        constant = {}
        if detached is not None and name == "input 0":
            constant = {
                "Its result is right, and its gradient looks as if the statistics were constants. "
                "They move with x.": detached * weights
            }
        compare(
            tensor(got, gradient.shape, f"The gradient of {what}"),
            gradient,
            constant,
            f"Its result is right, but the gradient of {what} is not.",
            tolerance,
        )


layer_norm_module = Question(
    "02.layer_norm_module",
    "LayerNorm",
    title="LayerNorm as a module",
    points=2,
    minutes=10,
    difficulty=2,
    section=f"{CHAPTER}#layernorm-by-hand",
    forbid=NORMS,
)


def check_layer_norm_module(
    student: Student,
    draw: Draw,
    x: Tensor,
    eps: float,
    tolerance: float = 1e-4,
    says: str = NUMBERS,
    training: bool = True,
) -> None:
    """Compare with the course's LayerNorm; with `says`, without trying known misconceptions."""
    ours = LayerNorm(x.shape[-1], eps)
    module = loaded(student, draw, ours, x.shape[-1], eps)
    gain, shift = ours.weight.detach(), ours.bias.detach()
    variance = x.double().var(dim=-1, keepdim=True, correction=0)
    mistakes = mistakes_of_layer_norm(x, gain, shift, eps) if says == NUMBERS else {}
    detached = gain / (variance + eps).sqrt()
    check_module(student, draw, module, ours, x, mistakes, detached, training, tolerance, says)


@layer_norm_module.check
def _(student: Student, draw: Draw) -> None:
    """Its start, its results and its gradients."""
    check_layer_norm_module(student, draw, 2 + draw.normal(2, 3, 6), 1e-5)


@layer_norm_module.check
def _(student: Student, draw: Draw) -> None:
    """A large ε, and another width."""
    check_layer_norm_module(student, draw, 2 + draw.normal(2, 3, 4), 0.5)


@layer_norm_module.check
def _(student: Student, draw: Draw) -> None:
    """Large numbers in float16."""
    x = draw.uniform(-1000, 1000, 3, 16).to(torch.float16)
    says = f"In float16, with numbers up to 1,000, the result is wrong. {TOO_EARLY}"
    check_layer_norm_module(student, draw, x, 1e-5, 5e-3, says)


rms_norm_module = Question(
    "02.rms_norm_module",
    "RMSNorm",
    title="RMSNorm that survives half precision",
    points=3,
    minutes=12,
    difficulty=2,
    section=f"{CHAPTER}#half-precision",
    forbid=NORMS,
)


def check_rms_norm_module(
    student: Student, draw: Draw, x: Tensor, eps: float, tolerance: float = 1e-4
) -> None:
    """Compare with the course's RMSNorm."""
    ours = RMSNorm(x.shape[-1], eps)
    module = loaded(student, draw, ours, x.shape[-1], eps, names=("weight",))
    mistakes = mistakes_of_rms_norm(x, ours.weight.detach(), eps)
    mistakes[
        "The vector looks scaled before ε is added. Then ε weighs more or less than asked."
    ] = ours.weight.detach() * norm_over(x / x.abs().amax(dim=-1, keepdim=True), eps, centre=False)
    square = x.double().square().mean(dim=-1, keepdim=True)
    detached = ours.weight.detach() / (square + eps).sqrt()
    check_module(student, draw, module, ours, x, mistakes, detached, tolerance=tolerance)


def check_half(student: Student, draw: Draw, value: float, eps: float, says: str) -> None:
    """Look at vectors of float16 whose squares leave its range."""
    ours = RMSNorm(64, eps)
    module = loaded(student, draw, ours, 64, eps, names=("weight",))
    x = (value * draw.uniform(0.5, 1.5, 32, 64)).to(torch.float16)  # many, for many roundings
    y = tensor(student.call(module, x), x.shape)
    # Three roundings to float16 pass, one to bfloat16 does not.
    compare(y, ours(x).detach(), says=says, tolerance=1.7e-3)
    require(y.dtype == x.dtype, f"For an input of {x.dtype} it returns {y.dtype}.")
    stays_wide(student, module, ours)


@rms_norm_module.check
def _(student: Student, draw: Draw) -> None:
    """Its start, its results and its gradients."""
    check_rms_norm_module(student, draw, 2 + draw.normal(2, 3, 6), 0.1)


@rms_norm_module.check
def _(student: Student, draw: Draw) -> None:
    """Numbers around 300 in float16."""
    says = f"For numbers around 300 in float16 the result is wrong. {TOO_EARLY}"
    check_half(student, draw, 300.0, 1e-5, says)


# -- BatchNorm ------------------------------------------------------------------------------------

batch_norm = Question(
    "02.batch_norm",
    "BatchNorm",
    title="BatchNorm over positions, in both modes",
    points=4,
    minutes=20,
    difficulty=3,
    section=f"{CHAPTER}#along-which-axis-batchnorm-in-a-language-model",
    forbid=("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LazyBatchNorm1d", *NORMS),
)
BATCH_NORM_STATE = ("weight", "bias", "running_mean", "running_var")


class Reference(nn.BatchNorm1d):
    """PyTorch's BatchNorm with every position as one example."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.flatten(0, 1)).view_as(x)


def batch_norm_pair(
    student: Student, draw: Draw, d: int, momentum: float = 0.1, eps: float = 1e-5
) -> tuple[Kept, Reference]:
    """Make the student's BatchNorm and ours, with the same weights and running averages."""
    ours = Reference(d, eps, momentum)
    return loaded(student, draw, ours, d, momentum, eps, names=BATCH_NORM_STATE), ours


def mistakes_of_batch_norm(x: Tensor, ours: Reference, training: bool) -> Mistakes:
    """What known misconceptions compute from the same inputs."""
    eps, m, state = ours.eps, float(ours.momentum or 0.0), ours.state_dict()
    mean, variance = state["running_mean"], state["running_var"]
    n = x.shape[0] * x.shape[1]
    unbiased = x.var((0, 1), correction=0) * n / max(1, n - 1)
    moved = (x - mean.lerp(x.mean((0, 1)), m)) / (variance.lerp(unbiased, m) + eps).sqrt()
    if training:
        found = {
            "The statistics look taken over each position's features: that is LayerNorm.": (
                norm_over(x, eps)
            ),
            "The statistics look taken per text. Over which axes does BatchNorm average?": (
                norm_over(x, eps, (1,))
            ),
            "The statistics look taken over the batch axis alone, one for each place in the text. "
            "Over which axes does BatchNorm average?": norm_over(x, eps, (0,)),
            "One mean looks taken for all features together.": norm_over(x, eps, (0, 1, 2)),
            "In training the result's variance looks divided by B·L − 1. That is for the average "
            "alone.": norm_over(x, eps, (0, 1), correction=1),
            "The ε that is given looks ignored. A large one changes the result.": norm_over(
                x, 1e-5, (0, 1)
            ),
            "ε looks added outside of the root. It belongs beside the variance.": (
                x - x.mean((0, 1))
            )
            / (x.var((0, 1), correction=0).sqrt() + eps),
            "In training the running averages look used. They are for evaluation.": (x - mean)
            / (variance + eps).sqrt(),
            "In training the running averages look used, after this batch has moved them. They are "
            "for evaluation.": moved,
        }
    else:
        found = {
            "In evaluation mode the statistics of this batch look used. What does the answer "
            "depend on then?": norm_over(x, eps, (0, 1)),
            "In evaluation mode this batch looks to have moved the averages that are used.": moved,
            "The root of the running variance looks left out.": (x - mean) / (variance + eps),
        }
    gain, shift = ours.weight.detach(), ours.bias.detach()
    return {message: gain * value + shift for message, value in found.items()} | {
        "Gain and shift look left out.": norm_over(x, eps, (0, 1))
        if training
        else (x - mean) / (variance + eps).sqrt()
    }


def check_averages(student: Student, module: Kept, ours: Reference, x: Tensor) -> None:
    """Let one call in training mode move the running averages, and compare them."""
    n = x.shape[0] * x.shape[1]
    m = float(ours.momentum or 0.0)
    student.call(module, x, training=True)
    state, old = student.state(module), {k: v.clone() for k, v in ours.state_dict().items()}
    ours.train()(x)
    for name, new in (
        ("running_mean", x.mean((0, 1))),
        ("running_var", x.var((0, 1))),
    ):
        mistakes = {
            f"`{name}` is as before. A call in training mode has to move it.": old[name],
            f"The momentum of `{name}` looks swapped: it is the share of the new number.": m
            * old[name]
            + (1 - m) * new,
            f"The momentum of `{name}` looks fixed. The caller chooses it.": 0.9 * old[name]
            + 0.1 * new,
            f"`{name}` looks replaced by the batch's own. It keeps a part of what it was.": new,
            f"The batch's share looks added to `{name}`, and nothing looks taken away.": old[name]
            + m * new,
        }
        if name == "running_var":
            biased = new * (n - 1) / n
            kept = (1 - m) * old[name]
            mistakes["`running_var` looks averaged from a variance that divides by B·L."] = (
                kept + m * biased
            )
            mistakes[
                "`running_var` looks corrected by the number of texts. The variance is one of B·L "
                "positions."
            ] = kept + m * biased * x.shape[0] / max(x.shape[0] - 1, 1)
            mistakes["`running_var` looks averaged from standard deviations."] = (
                kept + m * new.sqrt()
            )
        value = tensor(state[name], old[name].shape, f"`{name}`")
        says = f"After a call in training mode `{name}` is not the right one."
        compare(value, ours.state_dict()[name], mistakes, says)


def check_evaluation(
    student: Student, draw: Draw, module: Kept, ours: Reference, x: Tensor
) -> None:
    """Compare in evaluation mode, and see that the running averages stay."""
    before = student.state(module)
    mistakes = mistakes_of_batch_norm(x, ours, training=False)
    check_module(student, draw, module, ours, x, mistakes, training=False)
    after = student.state(module)
    for name in ("running_mean", "running_var"):
        compare(after[name], before[name], says=f"A call in evaluation mode changes `{name}`.")


@batch_norm.check
def _(student: Student, draw: Draw) -> None:
    """Its start, and its results and gradients in training mode."""
    module, ours = batch_norm_pair(student, draw, 4, eps=0.1)
    x = 2 + draw.normal(2, 5, 4)
    detached = ours.weight.detach() / (x.var((0, 1), correction=0) + 0.1).sqrt()
    mistakes = mistakes_of_batch_norm(x, ours, training=True)
    check_module(student, draw, module, ours, x, mistakes, detached)


@batch_norm.check
def _(student: Student, draw: Draw) -> None:
    """The running averages after a call in training mode."""
    module, ours = batch_norm_pair(student, draw, 3, 0.25)
    check_averages(student, module, ours, 2 + draw.normal(2, 2, 3, std=3))


@batch_norm.check
def _(student: Student, draw: Draw) -> None:
    """Evaluation mode."""
    module, ours = batch_norm_pair(student, draw, 4)
    check_evaluation(student, draw, module, ours, draw.normal(2, 5, 4))
