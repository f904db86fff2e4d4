"""Hidden checks of the exercises on norms: other sizes, extreme numbers, half precision."""

import torch

from tfcourse.grading.oracle import Hidden
from tfcourse.grading.questions import (
    apart,
    compare,
    require,
    tensor,
)
from tfcourse.grading.sets.norm_functions import (
    check_largest_eps,
    check_layer_norm,
    check_rms,
    check_rms_norm,
    norm_over,
)
from tfcourse.grading.sets.norm_modules import (
    TOO_EARLY,
    batch_norm_pair,
    check_averages,
    check_evaluation,
    check_half,
    check_layer_norm_module,
    check_module,
    check_rms_norm_module,
    loaded,
    mistakes_of_batch_norm,
)
from tfcourse.grading.sets.norms import check_fold, check_layer_norm_gradient, check_leaks
from tfcourse.grading.wire import Tool
from tfcourse.norms import LayerNorm, RMSNorm

HIDDEN = Hidden()
LOST_DIGITS = (
    "Near 10,000 the result is far off: digits are lost. Which step subtracts large numbers?"
)


def check_gradients(student, draw, function, detached, *inputs):
    """Compare the gradients of a function with those of ours in float64; ε comes last."""
    given = [tensor.double().requires_grad_() for tensor in inputs[:-1]]
    weights = draw.normal(*inputs[0].shape)
    right = torch.autograd.grad((function(*given) * weights).sum(), given)
    run = student.run(student.name, *inputs, backward=weights)
    constant = {
        "Its result is right, and its gradient looks as if the statistics were constants. They "
        "move with x.": detached * weights
    }
    for i, (name, gradient) in enumerate(zip(("x", "gain", "shift"), right, strict=False)):
        got = run.gradients[f"input {i}"]
        require(got is not None, f"No gradient reaches `{name}`.")
        says = f"Its result is right, but the gradient of `{name}` is not."
        compare(got, gradient, constant if name == "x" else {}, says)


# -- RMS ------------------------------------------------------------------------------------------


@HIDDEN.check("02.rms")
def _(student, draw):
    """One vector, and many axes."""
    check_rms(student, draw.normal(draw.integer(5, 40)))
    check_rms(student, apart(draw.normal(2, 1, 3, draw.integer(5, 40))))


@HIDDEN.check("02.rms")
def _(student, draw):
    """Large numbers, zeros, and one feature."""
    check_rms(student, 1e4 * draw.normal(3, 7))
    check_rms(student, torch.zeros(2, 3))
    check_rms(student, -3 + draw.normal(4, 1))


# -- LayerNorm ------------------------------------------------------------------------------------


@HIDDEN.check("02.layer_norm")
def _(student, draw):
    """Other sizes and another ε."""
    d = draw.integer(5, 40)
    x = draw.normal(draw.integer(2, 5), draw.integer(2, 7), d)
    check_layer_norm(student, x, draw.uniform(0.5, 2, d), draw.normal(d), 10 ** -draw.integer(1, 6))


@HIDDEN.check("02.layer_norm")
def _(student, draw):
    """One position, and an input whose elements lie apart in memory."""
    check_layer_norm(student, apart(draw.normal(1, 1, 64)), torch.ones(64), torch.zeros(64), 1e-5)
    check_layer_norm(student, draw.normal(9), torch.ones(9), draw.normal(9), 1e-5)


@HIDDEN.check("02.layer_norm")
def _(student, draw):
    """Numbers far from 0."""
    x = 1e4 + draw.normal(3, 16)
    check_layer_norm(student, x, torch.ones(16), torch.zeros(16), 1e-5, 0.02, LOST_DIGITS)


@HIDDEN.check("02.layer_norm")
def _(student, draw):
    """The gradient at a constant vector."""
    x, gain, shift = torch.full((2, 4), 3.0), draw.uniform(0.5, 2, 4), draw.normal(4)
    run = student.run("layer_norm", x, gain, shift, 1e-5, backward=draw.normal(2, 4))
    found = [g for g in run.gradients.values() if g is not None]
    require(
        all(bool(torch.isfinite(g).all()) for g in found),
        "At a constant vector the result is right, but a gradient is NaN or infinite. Which step "
        "has an infinite slope there?",
    )


@HIDDEN.check("02.layer_norm")
def _(student, draw):
    """Its gradients."""
    x, gain, shift = draw.normal(3, 6), draw.uniform(0.5, 2, 6), draw.normal(6)
    detached = gain / (x.var(dim=-1, correction=0, keepdim=True) + 0.1).sqrt()

    def ours(x, gain, shift):
        return gain * norm_over(x, 0.1) + shift

    check_gradients(student, draw, ours, detached, x, gain, shift, 0.1)


# -- RMSNorm --------------------------------------------------------------------------------------


@HIDDEN.check("02.rms_norm")
def _(student, draw):
    """Other sizes and another ε."""
    d = draw.integer(5, 40)
    x = 1 + draw.normal(draw.integer(2, 5), draw.integer(2, 7), d)
    check_rms_norm(student, x, draw.uniform(0.5, 2, d), 10 ** -draw.integer(1, 6))


@HIDDEN.check("02.rms_norm")
def _(student, draw):
    """One vector, and an input whose elements lie apart in memory."""
    check_rms_norm(student, draw.normal(9), draw.normal(9), 1e-5)
    check_rms_norm(student, apart(draw.normal(2, 1, 16)), draw.normal(16), 1e-5)


@HIDDEN.check("02.rms_norm")
def _(student, draw):
    """Very small and very large vectors."""
    for size in (1e-4, 1e4):
        check_rms_norm(student, size * draw.normal(3, 8), draw.uniform(0.5, 2, 8), 1e-6)


@HIDDEN.check("02.rms_norm")
def _(student, draw):
    """Its gradients."""
    x, gain = 1 + draw.normal(3, 6), draw.uniform(0.5, 2, 6)
    detached = gain / (x.square().mean(dim=-1, keepdim=True) + 0.1).sqrt()

    def ours(x, gain):
        return gain * norm_over(x, 0.1, centre=False)

    check_gradients(student, draw, ours, detached, x, gain, 0.1)


# -- ε --------------------------------------------------------------------------------------------


@HIDDEN.check("02.largest_eps")
def _(student, draw):
    """Other sizes, and a share near 1."""
    x = 5 + draw.uniform(0.1, 3, 3, 4, 1) * draw.normal(3, 4, draw.integer(5, 20))
    check_largest_eps(student, x, 0.99)
    check_largest_eps(student, x[0, 0], float(draw.uniform(0.2, 0.9, 1)))


@HIDDEN.check("02.largest_eps")
def _(student, draw):
    """Vectors of float16 whose squares it rounds to 0."""
    hint = " The numbers are near 0.0001, in float16: what are their squares there?"
    check_largest_eps(student, draw.normal(4, 16, std=1e-4, dtype=torch.float16), 0.9, hint)


@HIDDEN.check("02.largest_eps")
def _(student, draw):
    """Vectors of float16 whose squares are infinite in it."""
    hint = " The numbers are near 2,000, in float16: what are their squares there?"
    check_largest_eps(student, draw.normal(4, 16, std=2e3, dtype=torch.float16), 0.5, hint)


# -- Folding --------------------------------------------------------------------------------------


@HIDDEN.check("02.fold")
def _(student, draw):
    """Other sizes, gains of 0 and below."""
    d, d_out = draw.integer(3, 20), draw.integer(21, 30)
    gain = draw.normal(d)
    gain[0] = 0.0
    check_fold(student, gain, draw.normal(d), draw.normal(d_out, d), draw.normal(d_out))


@HIDDEN.check("02.fold")
def _(student, draw):
    """One output, and a weight whose elements lie apart in memory."""
    check_fold(student, draw.normal(6), draw.normal(6), apart(draw.normal(1, 6)), None)
    check_fold(student, draw.normal(6), draw.normal(6), draw.normal(4, 6), torch.ones(4))


# -- The modules ----------------------------------------------------------------------------------


@HIDDEN.check("02.layer_norm_module")
def _(student, draw):
    """Other sizes, one vector, and an input whose elements lie apart in memory."""
    d = draw.integer(5, 40)
    check_layer_norm_module(student, draw, draw.normal(d), 1e-3)
    check_layer_norm_module(student, draw, apart(draw.normal(2, 1, 5, d)), 1e-6)


@HIDDEN.check("02.layer_norm_module")
def _(student, draw):
    """Half precision."""
    for dtype, tolerance in ((torch.float16, 5e-3), (torch.bfloat16, 4e-2)):
        x = (3 + draw.normal(2, 3, 16)).to(dtype)
        says = f"In {dtype} the result is off by more than one rounding. {TOO_EARLY}"
        check_layer_norm_module(student, draw, x, 1e-5, tolerance, says)


def check_one_rounding(student, draw, ours, names, says):
    """See that numbers of half precision are rounded once, at the end."""
    module = loaded(student, draw, ours, 64, 1e-5, names=names)
    for dtype in (torch.float16, torch.bfloat16):
        x = draw.normal(8, 64).to(dtype)
        right = ours(x.float()).detach()
        error = (tensor(student.call(module, x), x.shape).float() - right).abs()
        rounded = error <= 0.51 * torch.finfo(dtype).eps * right.abs() + 1e-5
        require(bool(rounded.all()), f"In {dtype} the result is rounded more than once. {says}")


@HIDDEN.check("02.layer_norm_module")
def _(student, draw):
    """One rounding, at the end, of numbers of half precision."""
    says = "Is γ or β applied after the cast?"
    check_one_rounding(student, draw, LayerNorm(64, 1e-5), ("weight", "bias"), says)


@HIDDEN.check("02.layer_norm_module")
def _(student, draw):
    """Numbers far from 0."""
    x = 1e4 + draw.normal(3, 16)
    check_layer_norm_module(student, draw, x, 1e-5, 0.02, LOST_DIGITS)


@HIDDEN.check("02.layer_norm_module")
def _(student, draw):
    """A constant vector, and evaluation mode."""
    check_layer_norm_module(student, draw, torch.full((2, 3, 8), 2.0), 1e-5, 1e-3)
    says = "In evaluation mode the result is another. LayerNorm is the same function in both modes."
    x = draw.normal(2, 3, 8)
    check_layer_norm_module(student, draw, x, 1e-5, says=says, training=False)


@HIDDEN.check("02.rms_norm_module")
def _(student, draw):
    """Other sizes, one vector, and an input whose elements lie apart in memory."""
    d = draw.integer(5, 40)
    check_rms_norm_module(student, draw, draw.normal(d), 1e-3)
    check_rms_norm_module(student, draw, apart(draw.normal(2, 1, 5, d)), 1e-6)


@HIDDEN.check("02.rms_norm_module")
def _(student, draw):
    """Very small numbers in float16."""
    for value in ("0.0001", "0.00001"):
        says = (
            f"For numbers around {value} in float16, with an ε of 1e-12, the result is wrong. "
            "Which number on the way does not fit into float16?"
        )
        check_half(student, draw, float(value), 1e-12, says)


@HIDDEN.check("02.rms_norm_module")
def _(student, draw):
    """One rounding, at the end, of numbers of half precision."""
    says = "Is γ applied after the cast?"
    check_one_rounding(student, draw, RMSNorm(64, 1e-5), ("weight",), says)


@HIDDEN.check("02.rms_norm_module")
def _(student, draw):
    """Half precision with gradients, and double precision."""
    for dtype, tolerance in (
        (torch.float16, 5e-3),
        (torch.bfloat16, 4e-2),
        (torch.float64, 1e-4),
    ):
        x = (1 + draw.normal(2, 3, 16)).to(dtype)
        check_rms_norm_module(student, draw, x, 1e-5, tolerance)


# -- The leak -------------------------------------------------------------------------------------


@HIDDEN.check("02.leaks")
def _(student, draw):
    """BatchNorm in evaluation mode, and in training at the first and at the last position."""
    x = draw.normal(2, 4, 3)
    check_leaks(student, Tool("batch_norm", (3, False)), x, 1, 3, 5 + draw.normal(3))
    for row, position in ((0, 0), (1, 3)):
        other = 3 + draw.normal(3)
        check_leaks(student, Tool("batch_norm", (3, True)), x, row, position, other)


@HIDDEN.check("02.leaks")
def _(student, draw):
    """A layer that reads the next position, and movements below the limit."""
    weight = torch.eye(6) + torch.diag(torch.ones(5), 1)
    weight[0, 4] = 5e-6
    x = apart(draw.normal(3, 6, 4))
    other = x[2, 4] - draw.uniform(0.5, 1, 4)
    check_leaks(student, Tool("mix_positions", (weight,)), x, 2, 4, other)
    weight[0, 4], other = 3e-5, x[2, 4].clone()
    other[1] += 1
    says = "A prediction moves by 3e-5 in one feature. Is it counted, and nothing else?"
    check_leaks(student, Tool("mix_positions", (weight,)), x, 2, 4, other, says)


@HIDDEN.check("02.leaks")
def _(student, draw):
    """A layer that reads all positions, with one feature changed; one position alone."""
    mix = Tool("mix_positions", (-draw.uniform(0.1, 1, 4, 4),))
    x = draw.normal(3, 4, 5)
    other = x[1, 2].clone()
    other[3] += 1
    check_leaks(student, mix, x, 1, 2, other)
    alone = Tool("mix_positions", (torch.ones(1, 1),))
    check_leaks(student, alone, draw.normal(1, 1, 5), 0, 0, draw.normal(5))


# -- BatchNorm ------------------------------------------------------------------------------------


@HIDDEN.check("02.batch_norm")
def _(student, draw):
    """Other sizes in training, an input whose elements lie apart in memory."""
    d = draw.integer(2, 9)
    module, ours = batch_norm_pair(student, draw, d, 0.3, 1e-3)
    x = 1 + 2 * apart(draw.normal(draw.integer(3, 6), draw.integer(3, 6), d))
    check_module(student, draw, module, ours, x, mistakes_of_batch_norm(x, ours, training=True))


@HIDDEN.check("02.batch_norm")
def _(student, draw):
    """Three calls in training with their gradients, then evaluation with its own."""
    module, ours = batch_norm_pair(student, draw, 3, 0.25)
    for _ in range(3):
        x = 1 + draw.normal(2, 4, 3)
        check_module(student, draw, module, ours, x, mistakes_of_batch_norm(x, ours, training=True))
    kept = student.graphs(module)
    says = f"The graphs of earlier calls stay alive in {', '.join(kept)}: memory grows each step."
    require(not kept, says)
    check_evaluation(student, draw, module, ours, draw.normal(2, 4, 3))


@HIDDEN.check("02.batch_norm")
def _(student, draw):
    """One position in evaluation mode, and a batch far from 0."""
    module, ours = batch_norm_pair(student, draw, 3, 0.9)
    check_averages(student, module, ours, 100 + draw.normal(4, 6, 3))
    check_averages(student, module, ours, draw.normal(1, 2, 3))
    check_evaluation(student, draw, module, ours, draw.normal(1, 1, 3))


# -- The gradient ---------------------------------------------------------------------------------


@HIDDEN.check("02.layer_norm_gradient")
def _(student, draw):
    """Other sizes, one vector, and an input whose elements lie apart in memory."""
    d = draw.integer(5, 40)
    check_layer_norm_gradient(student, draw.normal(d), 1 + draw.normal(d), 1e-2)
    check_layer_norm_gradient(
        student, apart(draw.normal(2, 1, 3, d)), apart(draw.normal(2, 1, 3, d)), 1e-5
    )


@HIDDEN.check("02.layer_norm_gradient")
def _(student, draw):
    """A constant vector, and one far from 0."""
    g = 1 + draw.normal(3, 8)
    check_layer_norm_gradient(student, torch.full((3, 8), 2.0), g, 1e-3)
    check_layer_norm_gradient(student, 1e3 + draw.normal(3, 8), g, 1e-5, tolerance=2e-3)


@HIDDEN.check("02.layer_norm_gradient")
def _(student, draw):
    """Very small vectors, in which a finite step is a large one."""
    x, g = draw.normal(3, 8, std=1e-6), draw.normal(3, 8)
    says = "For vectors of size 1e-6 it is wrong. Is a step, or a number that was added, too large?"
    check_layer_norm_gradient(student, x, g, 1e-13, says=says)
