"""Hidden checks of the exercises on residuals: other sizes, extreme numbers, half precision."""

import math

import torch
from torch.nn import functional as F

from tfcourse.grading.oracle import Hidden
from tfcourse.grading.questions import (
    Wrong,
    as_module,
    compare,
    require,
)
from tfcourse.grading.sets.residuals import layers_of, norm_of, tanh_of
from tfcourse.grading.sets.residuals_compared import (
    check_branch,
    check_cosine,
    check_decay,
    check_first_gradient,
    check_jacobian,
    check_parts,
    check_stack,
    gradient,
    like,
    make,
    refuses_shape,
    streams_of,
)
from tfcourse.grading.sets.residuals_module import check_dropout, check_module, check_own_parts
from tfcourse.grading.wire import Tool

HIDDEN = Hidden()


def half_precision(student, draw, *alpha):
    """Compare a branch in bfloat16, whose results have to be bfloat16, too."""
    x, f = draw.normal(2, 3, 8, dtype=torch.bfloat16), tanh_of(draw, 8, torch.bfloat16)
    right = math.prod(alpha) * x.float() + make(f)(x).float()
    y = like(student(x, f, *alpha), x).float()
    compare(y, right, says="In bfloat16 the numbers are not the right ones.", tolerance=0.02)


@HIDDEN.check("01.residual_branch")
def _(student, draw):
    """Other sizes, with large numbers that lie apart in memory."""
    d = draw.integer(3, 20)
    shape = draw.integer(1, 4), draw.integer(1, 6), 2 * d
    x = draw.normal(*shape, std=100)[..., ::2]
    f = Tool("linear", (draw.normal(d, d), draw.normal(d)))
    check_branch(student, x, f, draw.normal(*x.shape))


@HIDDEN.check("01.residual_branch")
def _(student, draw):
    """One vector."""
    for d in (1, 5):
        try:
            check_branch(student, draw.normal(d), tanh_of(draw, d), draw.normal(d))
        except Wrong as wrong:
            says = f"Here x is one vector, [{d}], and f reads it as a whole. {wrong}"
            raise Wrong(says) from None


@HIDDEN.check("01.residual_branch")
def _(student, draw):
    """Half precision."""
    half_precision(student, draw)


@HIDDEN.check("01.decaying_branch")
def _(student, draw):
    """Other sizes, other α, large numbers that lie apart in memory."""
    d = draw.integer(3, 20)
    x = draw.normal(draw.integer(1, 4), draw.integer(1, 6), 2 * d, std=1e4)[..., ::2]
    f = Tool("linear", (draw.normal(d, d), draw.normal(d)))
    for alpha in (float(draw.uniform(0.1, 0.9, 1)), 0.0):
        check_decay(student, x, f, alpha)


@HIDDEN.check("01.decaying_branch")
def _(student, draw):
    """Half precision."""
    half_precision(student, draw, 0.75)


@HIDDEN.check("01.decaying_branch")
def _(student, draw):
    """Other updates that broadcasting would stretch, or that would stretch the stream."""
    x = draw.normal(2, 3, 6)
    for shape in ((3, 6), (1, 3, 6), (2, 1, 6), (6,), (1,), (), (2, 3, 5), (1, 2, 3, 6), (6, 3, 2)):
        refuses_shape(student, x, draw.normal(*shape))
    for alpha in (0.0, 1.0):
        refuses_shape(student, x, draw.normal(2, 3, 1), alpha)
    refuses_shape(student, x[:1], draw.normal(2, 3, 6))
    refuses_shape(student, x[0], draw.normal(2, 3, 6))


@HIDDEN.check("01.branch_jacobian")
def _(student, draw):
    """Other sizes and another kind of function."""
    d = draw.integer(2, 9)
    check_jacobian(
        student, Tool("mlp", (draw.normal(4 * d, d), draw.normal(d, 4 * d))), draw.normal(d)
    )
    check_jacobian(student, tanh_of(draw, 1), draw.normal(1))


@HIDDEN.check("01.branch_jacobian")
def _(student, draw):
    """A vector far from 0 and a function of small slope, where small differences lose digits."""
    check_jacobian(student, Tool("linear", (draw.normal(6, 6, std=0.1),)), 1e3 + draw.normal(6))


@HIDDEN.check("01.run_stack")
def _(student, draw):
    """Other sizes and depths, none and one branch among them."""
    d = draw.integer(2, 9)
    x = draw.normal(draw.integer(1, 4), draw.integer(1, 5), 2 * d)[..., ::2]
    for n in (0, 1, draw.integer(5, 12)):
        for residual in (True, False):
            check_stack(student, x, [tanh_of(draw, d) for _ in range(n)], residual)


@HIDDEN.check("01.run_stack")
def _(student, draw):
    """Functions that multiply: with the residual the stream grows to large numbers."""
    check_stack(student, draw.normal(2, 3, 4), [Tool("scale", (4.0,))] * 8, True)


@HIDDEN.check("01.run_stack")
def _(student, draw):
    """The gradient, which comes back from all streams."""
    x, weights = draw.normal(2, 3, 4), draw.normal(4, 2, 3, 4)
    branches = [tanh_of(draw, 4) for _ in range(3)]
    functions = [make(tool) for tool in branches]
    run = student.run(student.name, x, branches, True, backward=weights)
    found = run.gradients["input 0"]
    require(found is not None, "No gradient comes back from the streams.")
    right = gradient(lambda x: streams_of(x, functions, True), x, weights)
    mistakes = {
        "The gradient comes back around the branches alone: the ways through them look cut.": (
            weights.sum(dim=0)
        ),
        "The gradient comes back from the first stream alone.": weights[0],
        "The gradient does not come back from the first stream.": right - weights[0],
    }
    says = "The streams are right, but not the gradient that comes back. Is one of them cut off?"
    compare(found, right, mistakes, says)


@HIDDEN.check("01.run_stack")
def _(student, draw):
    """Half and double precision."""
    for dtype in (torch.bfloat16, torch.float64):
        x, branches = draw.normal(2, 3, 4, dtype=dtype), [tanh_of(draw, 4, dtype)] * 2
        y = student(x, branches, True)
        require(y.dtype == dtype, f"It turns {dtype} into {y.dtype}. The streams keep their dtype.")
        right = streams_of(x, [make(tool) for tool in branches], True)
        says = f"In {dtype} the streams are not the right ones."
        compare(y.double(), right.double(), says=says, tolerance=0.02)


@HIDDEN.check("01.position_cosine")
def _(student, draw):
    """Other sizes, and two positions."""
    for length in (draw.integer(5, 12), 2):
        x = draw.normal(draw.integer(2, 5), length, 2 * draw.integer(3, 9))[..., ::2]
        check_cosine(student, x + draw.normal(x.shape[-1]))


@HIDDEN.check("01.position_cosine")
def _(student, draw):
    """The shortest and the longest vectors: their directions alone count."""
    for low, high in ((0.001, 0.002), (50_000, 100_000)):
        directions = F.normalize(draw.normal(2, 5, 8) + draw.normal(8), dim=-1)
        x = draw.uniform(low, high, 2, 5, 1) * directions
        check_cosine(student, x, f" The vectors have lengths of {low:,} to {high:,} here.")


@HIDDEN.check("01.position_cosine")
def _(student, draw):
    """Two positions that point apart, and a row of padding."""
    x = draw.normal(3, 1, 6).expand(3, 4, 6) * torch.tensor([1.0, -2.0, 0.5, -1.0]).view(4, 1)
    check_cosine(student, x.contiguous())
    x = x.clone()
    x[1] = 0.0
    check_cosine(student, x)


@HIDDEN.check("01.decompose_stream")
def _(student, draw):
    """Other sizes and depths, none and one branch among them."""
    d = draw.integer(2, 9)
    x = draw.normal(draw.integer(1, 4), draw.integer(1, 5), 2 * d)[..., ::2]
    for n in (0, 1, draw.integer(4, 9)):
        for alpha in (float(draw.uniform(0.3, 0.95, 1)), 1.0):
            check_parts(student, x, [tanh_of(draw, d) for _ in range(n)], alpha)


@HIDDEN.check("01.decompose_stream")
def _(student, draw):
    """Small updates to a long stream, whose digits a difference loses."""
    for alpha in (1.0, 0.9):
        x = draw.normal(2, 3, 6, std=1e5)
        small = [Tool("linear", (draw.normal(6, 6, std=1e-6), draw.normal(6))) for _ in range(4)]
        check_parts(student, x, small, alpha)


@HIDDEN.check("01.decompose_stream")
def _(student, draw):
    """Branches that replace the stream: all but the last part are 0."""
    check_parts(student, draw.normal(2, 3, 6), [tanh_of(draw, 6) for _ in range(3)], 0.0)


@HIDDEN.check("01.decompose_stream")
def _(student, draw):
    """Double precision."""
    x = draw.normal(2, 3, 4, dtype=torch.float64)
    branches = [tanh_of(draw, 4, torch.float64) for _ in range(2)]
    dtype = student(x, branches, 0.5).dtype
    require(dtype == x.dtype, f"It turns {x.dtype} into {dtype}. The parts keep the dtype of x.")
    check_parts(student, x, branches, 0.5)


@HIDDEN.check("01.first_gradient")
def _(student, draw):
    """Layers with several weights each, and a single layer."""
    d = draw.integer(3, 9)
    x = draw.normal(draw.integer(1, 4), draw.integer(1, 5), 2 * d)[..., ::2]
    for n in (3, 1):
        layers = [
            Tool("mlp", (draw.normal(2 * d, d, std=0.3), draw.normal(d, 2 * d, std=0.3)))
            for _ in range(n)
        ]
        check_first_gradient(student, x, layers, True)
        check_first_gradient(student, x, layers, False)


@HIDDEN.check("01.first_gradient")
def _(student, draw):
    """A deep stack of small layers, where without the residual hardly anything arrives."""
    for residual in (True, False):
        check_first_gradient(student, draw.normal(2, 3, 6), layers_of(draw, 8, 6, 0.3), residual)


@HIDDEN.check("01.first_gradient")
def _(student, draw):
    """Used layers without biases, without the residual."""
    layers = [Tool("used", (draw.normal(4, 4, std=0.4),)) for _ in range(3)]
    check_first_gradient(student, draw.normal(2, 3, 4), layers, False)


@HIDDEN.check("01.branch_module")
def _(student, draw):
    """Other sizes, another sublayer, long vectors and one position."""
    d = draw.integer(3, 12)
    f = Tool("mlp", (draw.normal(2 * d, d, std=0.5), draw.normal(d, 2 * d, std=0.5)))
    for position in ("pre", "post"):
        for std, length in ((100.0, draw.integer(2, 6)), (1.0, 1)):
            x = draw.normal(draw.integer(1, 4), length, 2 * d, std=std)[..., ::2]
            check_module(student, x, norm_of(draw, d), f, position, draw.normal(*x.shape))


@HIDDEN.check("01.branch_module")
def _(student, draw):
    """Dropout at both positions of the norm."""
    for position, p in (("post", 0.2), ("pre", 0.4)):
        f = Tool("mlp", (draw.normal(24, 12, std=0.3), draw.normal(12, 24, std=0.5)))
        check_dropout(student, draw.normal(16, 10, 12), f, position, p)


@HIDDEN.check("01.branch_module")
def _(student, draw):
    """The parts themselves, not copies of them."""
    check_own_parts(student, norm_of(draw, 6), Tool("linear", (draw.normal(6, 6), draw.normal(6))))


@HIDDEN.check("01.branch_module")
def _(student, draw):
    """No dropout, in training."""
    norm, f = norm_of(draw, 6), Tool("linear", (draw.normal(6, 6, std=0.4),))
    x, n = draw.normal(2, 3, 6), make(norm)
    module = as_module(student(norm, f, "pre", 0.0))
    y = like(student.run(module, x, training=True).value, x)
    compare(y, x + make(f)(n(x)), says="With dropout=0 training and evaluation have to agree.")


@HIDDEN.check("01.branch_module")
def _(student, draw):
    """A branch of zeros leaves the stream as it is, digit for digit."""
    module = as_module(student(norm_of(draw, 6), Tool("linear", (torch.zeros(6, 6),)), "pre", 0.5))
    x = draw.normal(2, 3, 6, std=1e4)
    for training in (True, False):
        y = like(student.run(module, x, training=training).value, x)
        require(y.equal(x), "An update of 0 does not leave the stream as it was.")


@HIDDEN.check("01.branch_module")
def _(student, draw):
    """A sublayer that returns its input itself: dropout in place would write into the stream."""
    module = as_module(student(norm_of(draw, 6), Tool("identity"), "post", 0.5))
    student.run(module, draw.normal(2, 3, 6), training=True)
