"""Hidden checks of the exercises on norms: other sizes, extreme numbers, half precision."""

import torch

from tfcourse.grading.oracle import Hidden
from tfcourse.grading.questions import compare, tensor
from tfcourse.grading.sets.norms import mistakes_of_layer_norm, reference_layer_norm

HIDDEN = Hidden()


def layer_norm_on(student, x, gain, shift, eps, tolerance=1e-4):
    y = tensor(student(x, gain, shift, eps), x.shape)
    right = reference_layer_norm(x, gain, shift, eps)
    compare(y.float(), right, mistakes_of_layer_norm(x, gain, shift, eps), tolerance=tolerance)


@HIDDEN.check("02.layer_norm")
def _(student, draw):
    """Other sizes and another ε."""
    d = draw.integer(5, 40)
    x = draw.normal(draw.integer(2, 5), draw.integer(2, 7), d)
    layer_norm_on(student, x, draw.uniform(0.5, 2, d), draw.normal(d), 10 ** -draw.integer(1, 6))


@HIDDEN.check("02.layer_norm")
def _(student, draw):
    """One long axis, one position, an input whose elements lie apart in memory."""
    x = draw.normal(1, 1, 128)[..., ::2]
    layer_norm_on(student, x, torch.ones(64), torch.zeros(64), 1e-5)


@HIDDEN.check("02.layer_norm")
def _(student, draw):
    """Numbers far from 0."""
    x = 1e4 + draw.normal(3, 16)
    layer_norm_on(student, x, torch.ones(16), torch.zeros(16), 1e-5, tolerance=0.02)
