"""What answers to the exercises of chapter 01 are compared with, in public and in hidden checks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.functional import jacobian  # torch.func.jacrev imports for seconds
from torch.nn import functional as F

from tfcourse.grading import tools
from tfcourse.grading.questions import Student, Wrong, close, compare, require, tensor
from tfcourse.grading.wire import Kept, Tool


def make(tool: Tool) -> Any:
    """Make on this side what the student's code is handed on the other, with frozen weights."""
    made = getattr(tools, tool.name)(*tool.args)
    return made.requires_grad_(False) if isinstance(made, nn.Module) else made


def like(value: Any, x: Tensor) -> Tensor:
    """Return `value` if it is a tensor of the shape and dtype of `x`, or say what it is instead."""
    y = tensor(value, x.shape)
    require(y.dtype == x.dtype, f"It turns {x.dtype} into {y.dtype}. The stream keeps its dtype.")
    return y


def number(value: Any) -> float:
    """Return `value` if it is a number, or say what it is instead."""
    kind = value.kind if isinstance(value, Kept) else type(value).__name__
    require(kind in ("float", "int"), f"The result is a {kind}; it has to be a float.")
    return float(value)


def refuses(student: Student, says: str, *args: Any) -> None:
    """Fail with this message unless the student's code raises a ValueError."""
    try:
        student(*args)
    except Wrong as wrong:
        if "raised ValueError" in str(wrong):
            return
        raise Wrong(f"{says} {str(wrong).rstrip(' .:')}.") from None
    raise Wrong(f"{says} Your code raised nothing.")


def mistakes_of_branch(x: Tensor, f: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
    """What known misconceptions compute from the same inputs."""
    update = f(x)
    return {
        "It looks like f(x) alone. The stream is replaced by the update.": update,
        "It looks like x alone. Nothing of the update is in it.": x,
        "It looks like x twice. Nothing of the update is in it.": 2 * x,
        "x and f(x) look multiplied. The update is added.": x * update,
        "The update looks subtracted. It is added.": x - update,
        "The stream looks subtracted. The update is added to it.": update - x,
        "It looks like the mean of x and f(x). The sum is not halved.": (x + update) / 2,
        "An activation looks applied to the sum. Nothing stands behind the addition.": torch.relu(
            x + update
        ),
        "The update looks computed from something else than x, or f looks called twice.": x
        + f(update),
    }


def gradient(function: Callable[[Tensor], Tensor], x: Tensor, weights: Tensor) -> Tensor:
    """Return the gradient, with respect to x, of the result's weighted sum."""
    x = x.clone().requires_grad_(True)
    return torch.autograd.grad((function(x) * weights).sum(), x)[0]


def check_gradient(
    found: Tensor | None, f: Callable[[Tensor], Tensor], x: Tensor, weights: Tensor
) -> None:
    """Compare what came back to x with what the ways around f and through it bring together."""
    require(found is not None, "No gradient comes back to x, neither around f nor through it.")
    through = gradient(f, x, weights)
    compare(
        tensor(found, x.shape, "The gradient"),
        weights + through,
        {
            "The gradient comes back around f alone: the way through it looks cut.": weights,
            "The gradient comes back through f alone: the way around it looks cut.": through,
        },
        "The result is right, but the gradient that comes back to x is not.",
    )


def check_branch(student: Student, x: Tensor, tool: Tool, weights: Tensor) -> None:
    """Compare a branch's result and gradient with those of the sum."""
    f = make(tool)
    compare(
        like(student(x, tool), x),
        x + f(x),
        mistakes_of_branch(x, f),
        "It is something else than the sum of x and f(x). Which numbers are added here?",
    )
    run = student.run(student.name, x, tool, backward=weights)
    check_gradient(run.gradients["input 0"], f, x, weights)


def check_decay(student: Student, x: Tensor, tool: Tool, alpha: float) -> None:
    """Compare α x + f(x)."""
    f = make(tool)
    mistakes = {
        f"Here α is {alpha:.2g}, and the stream looks kept whole.": x + f(x),
        "α looks applied to the update. It is the part of the stream that is kept.": x
        + alpha * f(x),
        "α looks applied to the stream and to the update.": alpha * (x + f(x)),
        "The update looks weighted with 1 − α. It counts in full.": alpha * x + (1 - alpha) * f(x),
        "The stream looks weighted with 1 − α. α is what is kept.": (1 - alpha) * x + f(x),
        "The update looks computed from α x. The branch reads the stream as it comes.": alpha * x
        + f(alpha * x),
        "It looks like f(x) alone. The stream is replaced by the update.": f(x),
    }
    compare(like(student(x, tool, alpha), x), alpha * x + f(x), mistakes)


def refuses_shape(student: Student, x: Tensor, update: Tensor, alpha: float = 0.5) -> None:
    """Fail unless an update of another shape is refused."""
    shapes = f"x has shape {list(x.shape)}, and the update has {list(update.shape)}"
    says = f"{shapes}, with α = {alpha:g}: here a ValueError is due."
    refuses(student, says, x, Tool("constant", (update,)), alpha)


def check_jacobian(student: Student, tool: Tool, x: Tensor) -> None:
    """Compare I + J_f at x."""
    f, d = make(tool), len(x)
    j, eye = jacobian(f, x), torch.eye(d)
    mistakes = {
        "It looks like the Jacobian of f. The branch also passes x on.": j,
        "1 looks added to every entry. Which output feature does x pass on to which?": 1 + j,
        "Rows and columns look swapped: each output feature has a row.": eye + j.mT,
        "The Jacobian of f alone, with rows and columns swapped: x is not passed on.": j.mT,
        "It looks like the identity alone. f depends on x, too.": eye,
        "The identity looks added twice.": 2 * eye + j,
        "1 looks written over the diagonal. What f does to a feature of its own is lost.": (
            j - torch.diag(torch.diagonal(j)) + eye
        ),
        "The identity looks taken away.": j - eye,
        "It looks like the Jacobian at another point, at 0. It is asked for at x.": eye
        + jacobian(f, torch.zeros(d)),
        "Off the diagonal all is 0. f mixes features.": eye + torch.diag(torch.diagonal(j)),
        "x itself looks added. What is its derivative?": j + x,
        "All rows look the same: each output feature has a gradient of its own.": (
            (eye + j).sum(dim=0).expand(d, d)
        ),
        "It looks like the Jacobian of two branches in a row.": (eye + j) @ (eye + j),
        "Sums over the output features look placed on the diagonal.": torch.diag((eye + j).sum(0)),
        "It looks made of f's answers to unit vectors, as if f were a matrix.": eye
        + torch.stack([f(e) for e in eye], dim=1),
        "It looks made of f's answers to unit vectors, and these as rows.": eye
        + torch.stack([f(e) for e in eye]),
    }
    result = tensor(student(tool, x), (d, d))
    rough = close(result, eye + j, tolerance=0.1)
    says = "The numbers are near the right ones, but not exact. Do small differences lose digits?"
    compare(result, eye + j, mistakes, says if rough else "The numbers are not the right ones.")


def streams_of(x: Tensor, functions: Sequence[Any], residual: bool) -> Tensor:
    """Return the stream before the first branch and after each."""
    streams = [x]
    for f in functions:
        streams.append(streams[-1] + f(streams[-1]) if residual else f(streams[-1]))
    return torch.stack(streams)


def check_stack(student: Student, x: Tensor, branches: list[Tool], residual: bool) -> None:
    """Compare the streams of a stack."""
    value, n = student(x, branches, residual), len(branches)
    functions = [make(tool) for tool in branches]
    right = streams_of(x, functions, residual)
    shape = value.shape if isinstance(value, Tensor) else None
    says = "It is one stream, of the shape of x. All of them have to stand along a new first axis"
    says += ", also where the list of functions is empty." if not branches else "."
    require(shape != x.shape, says)
    missing = shape == right[1:].shape
    require(
        not missing, f"It has {n} streams. {n} branches leave {n + 1}, with the first and last."
    )
    result = tensor(value, right.shape)
    added_to_x = [x]
    for f in functions:
        added_to_x.append(x + f(added_to_x[-1]))
    updates = [f(stream) for f, stream in zip(functions, right, strict=False)]
    around_all = streams_of(x, functions, False)
    around_all[-1] += residual * x
    side_by_side = [residual * x + f(x) for f in functions]
    mistakes = {
        "The branches look left out.": x.expand_as(right),
        f"Here residual is {residual}, and it looks like {not residual}.": streams_of(
            x, functions, not residual
        ),
        "All streams are the same: does one place in memory hold them all?": (
            result[:1].expand_as(right)
        ),
        "The branches look applied in the reverse order.": streams_of(x, functions[::-1], residual),
        "The streams are listed in the reverse order.": right.flip(0),
        "Each branch looks fed with the first stream, not with what the one before left.": (
            torch.stack([x, *side_by_side])
        ),
        "Each update looks added to the first x, not to the stream that the branch read.": (
            torch.stack(added_to_x)
        ),
        "The residual looks led around the whole stack, not around each branch.": around_all,
        "It looks like x and the updates. A stream is what has been added up so far.": torch.stack(
            [x, *updates]
        ),
    }
    k = next((k for k in range(n + 1) if not close(result[k], right[k])), 0)
    compare(result, right, mistakes, f"Stream {k} is the first that is not right.")


def check_cosine(student: Student, x: Tensor, hint: str = "") -> None:
    """Compare the mean cosine of a batch; a hint is said where no misconception is known."""
    value = number(student(x))
    require(math.isfinite(value), f"The result is {value}. Was something divided by 0?")
    x, length = x.double(), x.shape[1]
    unit = F.normalize(x, dim=-1)
    cosines, dots = unit @ unit.mT, x @ x.mT  # [B L L]
    off = 1 - torch.eye(length)  # 0 where a position meets itself
    pairs = length * (length - 1)
    right = float((cosines * off).sum() / (len(x) * pairs))
    along = F.normalize(x, dim=1)
    flat = unit.flatten(0, 1)
    across = flat @ flat.mT
    neighbours = torch.diagonal(cosines, offset=1, dim1=-2, dim2=-1)
    zero = (x == 0).all(dim=-1)
    counted = off * ~(zero[:, :, None] | zero[:, None, :])
    mistakes = {
        "Each position looks paired with itself, too.": cosines.mean(),
        "It looks divided by L². That counts pairs of a position with itself.": (
            cosines * off
        ).mean(),
        "It is half of what it should be. How many pairs are in the sum, and how many in the "
        "number it is divided by?": right / 2,
        "1 looks subtracted for every position, even for one of zeros.": (
            cosines.sum(dim=(1, 2)).mean() - length
        )
        / pairs,
        "Pairs with a vector of zeros look left out of the mean. They count, with a cosine of 0.": (
            (cosines * counted).sum() / counted.sum()
        ),
        "Each position looks compared with the mean of all. Compare it with each other one.": (
            F.cosine_similarity(x, x.mean(dim=1, keepdim=True), dim=-1).mean()
        ),
        "It looks like a sum over the rows, not their mean.": right * len(x),
        "It looks like a mean of dot products: longer vectors count more.": (dots * off).sum()
        / (len(x) * pairs),
        "Positions of different rows look paired.": (across.sum() - across.trace())
        / (len(flat) * (len(flat) - 1)),
        "The signs look lost: vectors that point apart count as alike.": (cosines.abs() * off).sum()
        / (len(x) * pairs),
        "Neighbours alone look compared. Take all pairs.": neighbours.mean(),
        "The vectors look scaled along the wrong axis. Each position has a length of its own.": (
            (along @ along.mT) * off
        ).sum()
        / (len(x) * pairs),
    }
    compare(
        torch.tensor(value, dtype=torch.float64),
        torch.tensor(right, dtype=torch.float64),
        {
            message: torch.as_tensor(wrong, dtype=torch.float64)
            for message, wrong in mistakes.items()
        },
        f"The mean cosine of these positions is not {value:.3g}.{hint}",
    )


def check_parts(student: Student, x: Tensor, branches: list[Tool], alpha: float) -> None:
    """Compare the parts that the embedding and each branch have in the last stream."""
    n, functions = len(branches), [make(tool) for tool in branches]
    streams, updates = [x], []
    for f in functions:
        updates.append(f(streams[-1]))
        streams.append(alpha * streams[-1] + updates[-1])

    def weighted(exponents: Sequence[int], parts: Sequence[Tensor] = (x, *updates)) -> Tensor:
        factors = torch.tensor([float(alpha**e) for e in exponents]).view(-1, *[1] * x.dim())
        return torch.stack(list(parts)) * factors

    left = range(n, -1, -1)
    late, stream = [], x
    for f in functions:
        late.append(f(alpha * stream))
        stream = alpha * stream + late[-1]
    mistakes = {
        "The branches look fed with the stream after its decay. They read it as it comes.": (
            weighted(left, [x, *late])
        ),
        "It looks like the streams. What did each branch add?": torch.stack(streams),
        "The updates look right, but no part looks decayed on its way to the end.": weighted(
            [0] * (n + 1)
        ),
        "Only the embedding looks decayed. What an early branch wrote decays, too.": weighted(
            [n] + [0] * n
        ),
        "Each part looks decayed once too often. Does a branch shrink its own update?": weighted(
            [e + 1 for e in left]
        ),
        "Each update looks decayed once too often. Does a branch shrink its own?": weighted(
            [n, *left[:-1]]
        ),
        "The later a part was written, the more it looks decayed. Which part passes most "
        "additions?": weighted(range(n + 1)),
        "It looks like differences of streams: they hold the loss of the older parts, too.": (
            torch.stack([x, *(b - a for a, b in pairwise(streams))])
        ),
        "All branches look fed with the embedding. A branch reads the stream of its time.": (
            weighted(left, [x, *(f(x) for f in functions)])
        ),
        "The branches look fed with a stream that does not decay. They read x_k.": weighted(
            left,
            [x, *(f(s) for f, s in zip(functions, streams_of(x, functions, True), strict=False))],
        ),
    }
    parts, right = tensor(student(x, branches, alpha), (n + 1, *x.shape)), weighted(left)
    finite = bool(torch.isfinite(parts).all())
    require(finite, "Some numbers are NaN or infinite. Was something divided by 0?")
    adds_up = torch.allclose(parts.sum(dim=0), streams[-1], rtol=1e-4, atol=1e-3)
    other = "The parts add up to the last stream, but they are not what each writer left in it."
    compare(
        parts, right, mistakes, other if adds_up else "The parts do not add up to the last stream."
    )
    says = "The updates have lost digits. Were they found as differences of long vectors?"
    compare(parts[1:], right[1:], says=says)


def check_first_gradient(student: Student, x: Tensor, given: list[Tool], residual: bool) -> None:
    """Compare the norm of the gradient that reaches the first layer's weights."""
    value = number(student(x, given, residual))
    layers = [make(tool).requires_grad_(True) for tool in given]
    x = x.clone().requires_grad_(True)

    def norms(residual: bool, cut: bool = False) -> list[list[float]]:
        """Return the gradient norm of x, and of each weight of each layer.

        With `cut`, no gradient comes through the layers behind the first.
        """
        first, *later = layers
        blind = [lambda x, f=f: f(x.detach()) for f in later] if cut else later
        loss = streams_of(x, [first, *blind], residual)[-1].square().mean()
        leaves = [[x], *([*layer.parameters()] for layer in layers)]
        found = [torch.autograd.grad(loss, group, retain_graph=True) for group in leaves]
        return [[float(g.double().norm()) for g in group] for group in found]

    of_x, first, *rest = norms(residual)
    right = math.hypot(*first)
    mistakes = {
        f"Here residual is {residual}, and it looks like {not residual}.": math.hypot(
            *norms(not residual)[1]
        ),
        "It looks like the gradient of the last layer.": math.hypot(*[first, *rest][-1]),
        "It looks like the gradient of all layers together.": math.hypot(
            *first, *(norm for others in rest for norm in others)
        ),
        "It looks like the gradient that reaches x.": of_x[0],
        "One weight of the layer looks counted alone.": first[0],
        "The norms of the single weights look added. How long are all of them as one vector?": (
            sum(first)
        ),
        "The norms of the single weights look averaged. How long are all as one vector?": sum(first)
        / len(first),
        "It looks like a root mean square: the length is not divided by how many there are.": right
        / math.sqrt(sum(w.numel() for w in layers[0].parameters())),
        "It looks like the square of the length.": right**2,
        "It looks clipped, as in a training loop. Measure what comes before.": right
        / math.hypot(*first, *(norm for others in rest for norm in others)),
        "The loss looks like the sum of the squares, not like their mean.": right * x.numel(),
        "The loss looks summed over the features and averaged over positions. It is the mean of "
        "all numbers.": right * x.shape[-1],
        "The loss looks summed over the texts. It is the mean of all numbers.": right * x.shape[0],
    }
    if residual:
        mistakes["The way back through the later layers looks cut: it comes around them alone."] = (
            math.hypot(*norms(True, cut=True)[1])
        )
        last = streams_of(layers[0](x), layers[1:], True)[-1]
        replaced = torch.autograd.grad(last.square().mean(), [*layers[0].parameters()])
        mistakes["The first layer's result looks put in place of x. It is added to x."] = (
            math.hypot(*(float(g.double().norm()) for g in replaced))
        )
    says = f"The norm is not {value:.3g}. Are the stack, the loss and the weights all as asked for?"
    if value == 0:
        says = "The norm is 0. Was the gradient cleared, or the way to the first layer cut?"
    if given[0].name == "used":
        says += " The layers come with gradients of an earlier pass here."
    ratios = {message: torch.tensor(wrong / right) for message, wrong in mistakes.items()}
    compare(torch.tensor(value / right), torch.tensor(1.0), ratios, says, tolerance=1e-3)
