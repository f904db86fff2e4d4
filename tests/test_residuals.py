"""The residual branch keeps the stream and adds to it."""

import pytest
import torch
from helpers import normal, tiny
from torch import nn

from tfcourse.residuals import ResidualBranch


class Double(nn.Module):
    """A stand-in for a norm, recognizable in the result."""

    def forward(self, x):
        return 2 * x


class Square(nn.Module):
    """A stand-in for a sublayer; not linear, so that the order of norm and sublayer shows."""

    def forward(self, x):
        return x * x


def branch(sublayer=None, norm=None, **fields):
    return ResidualBranch(tiny(**fields), norm or Double(), sublayer or Square())


def test_pre_norm_normalizes_only_what_the_sublayer_reads():
    """Pre-norm is x + f(norm(x)). Catches: norm(x) kept in place of x; f(x) without the norm."""
    x = normal(2, 3, 32)
    assert torch.equal(branch()(x), x + (2 * x) ** 2)


def test_post_norm_normalizes_the_sum():
    """Post-norm is norm(x + f(x)). Catches: the norm before the sublayer, or on the update only."""
    x = normal(2, 3, 32)
    assert torch.equal(branch(norm_position="post")(x), 2 * (x + x**2))


@pytest.mark.parametrize("norm_position", ["pre", "post"])
def test_without_the_residual_the_branch_replaces_the_stream(norm_position):
    """Catches: a switch that is ignored in one of the two arrangements."""
    x = normal(2, 3, 32)
    want = (2 * x) ** 2 if norm_position == "pre" else 2 * x**2
    assert torch.equal(branch(norm_position=norm_position, residual=False)(x), want)


@pytest.mark.parametrize("norm_position", ["pre", "post"])
def test_decay_shrinks_the_stream_and_not_the_update(norm_position):
    """Catches: alpha applied to the sum; alpha applied to what the sublayer reads."""
    x = normal(2, 3, 32)
    got = branch(norm_position=norm_position, residual_decay=0.5)(x)
    want = 0.5 * x + (2 * x) ** 2 if norm_position == "pre" else 2 * (0.5 * x + x**2)
    assert torch.equal(got, want)


def test_a_silent_branch_passes_stream_and_gradient_through_untouched():
    """Through 50 branches that add nothing, values and gradients arrive bit for bit.

    Catches: any factor on the identity path.
    """

    class Nothing(nn.Module):
        def forward(self, x):
            return torch.zeros_like(x)

    x = normal(2, 3, 32).requires_grad_()
    y = x
    for _ in range(50):
        y = branch(Nothing())(y)
    y.sum().backward()
    assert torch.equal(y, x)
    assert torch.equal(x.grad, torch.ones_like(x))


def test_update_is_what_the_branch_adds():
    """Catches: `update` that leaves out the norm, so that probes would show other numbers."""
    x = normal(2, 3, 32)
    pre = branch()
    assert torch.equal(pre(x), x + pre.update(x))
    assert torch.equal(pre.update(x), (2 * x) ** 2)


def test_dropout_falls_on_the_update_and_never_on_the_stream():
    """Dropped features keep the stream's value; the others are scaled by 1/(1-p).

    Catches: dropout on the sum; dropout in evaluation.
    """
    torch.manual_seed(0)
    x, dropped = normal(2, 3, 32), branch(dropout=0.5)
    added = dropped(x) - x
    whole = (2 * x) ** 2
    kept = (added - 2 * whole).abs() < 1e-4
    gone = added.abs() < 1e-6
    assert bool((kept | gone).all())
    assert 0.3 < gone.float().mean() < 0.7
    assert torch.equal(dropped.eval()(x), x + whole)


def test_context_reaches_the_sublayer_as_it_was_given():
    """Catches: a context that is dropped on its way to attention (mask, rotation, cache)."""
    seen = {}

    class Listen(nn.Module):
        def forward(self, x, **context):
            seen.update(context)
            return x

    mask = torch.ones(3, 3, dtype=torch.bool)
    branch(Listen())(normal(2, 3, 32), mask=mask, cache=None)
    assert seen["mask"] is mask and set(seen) == {"mask", "cache"}
