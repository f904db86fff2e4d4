"""The feed-forward layer computes its formula, position by position."""

import math

import pytest
import torch
from helpers import loud, normal, tiny

from tfcourse.feedforward import ACTIVATIONS, FeedForward, SwiGLU, make_feed_forward


def reference(name, z):
    """Return the activation written out with elementary functions."""
    if name == "relu":
        return (z + z.abs()) / 2
    if name == "gelu":
        return z * 0.5 * (1 + torch.special.erf(z / math.sqrt(2)))
    if name == "gelu_tanh":
        return 0.5 * z * (1 + torch.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3)))
    return z / (1 + torch.exp(-z))


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
@pytest.mark.parametrize("bias", [True, False])
def test_down_activation_up(name, bias):
    """Catches: one activation under another's name; a bias that is not there or not used."""
    layer = loud(make_feed_forward(tiny(activation=name, bias=bias)))
    x = normal(2, 3, 32)
    inner = x @ layer.up.weight.T + (layer.up.bias if bias else 0)
    want = reference(name, inner) @ layer.down.weight.T + (layer.down.bias if bias else 0)
    torch.testing.assert_close(layer(x), want, atol=1e-5, rtol=1e-5)
    assert (layer.up.bias is not None) == bias


def test_the_two_gelus_differ_where_it_shows():
    """They part by more than 1e-4 and less than 1e-3: a test at 1e-5 can tell them apart.

    Catches: "gelu" mapped to the tanh form, or the reverse.
    """
    z = torch.linspace(-5, 5, 2001)
    gap = (ACTIVATIONS["gelu"](z) - ACTIVATIONS["gelu_tanh"](z)).abs().max()
    assert 1e-4 < gap < 1e-3


@pytest.mark.parametrize("bias", [True, False])
def test_swiglu_activates_the_gate_and_not_the_other(bias):
    """down(silu(gate) · up), the gate's rows first. Catches: gate and up exchanged."""
    layer = loud(make_feed_forward(tiny(activation="swiglu", bias=bias)))
    assert type(layer) is SwiGLU
    x, width = normal(2, 3, 32), 85  # round(8/3 · 32)
    gate, up = (x @ w.T for w in layer.gate_up.weight.split(width))
    if bias:
        gate, up = (z + b for z, b in zip((gate, up), layer.gate_up.bias.split(width), strict=True))
    want = (gate / (1 + torch.exp(-gate)) * up) @ layer.down.weight.T
    if bias:
        want = want + layer.down.bias
    torch.testing.assert_close(layer(x), want, atol=1e-5, rtol=1e-5)


def test_swiglu_costs_as_many_parameters_as_the_plain_layer():
    """Three matrices of 8/3 d against two of 4 d, equal to 1 %. Catches: 4 d for all three."""
    plain = sum(p.numel() for p in FeedForward(tiny(d_model=96)).parameters())
    gated = sum(p.numel() for p in SwiGLU(tiny(d_model=96, activation="swiglu")).parameters())
    assert abs(gated - plain) <= 0.01 * plain


@pytest.mark.parametrize("activation", ["gelu", "swiglu"])
def test_each_position_is_transformed_by_itself(activation):
    """Changing one position changes that one only. Catches: a product over the wrong axis."""
    layer, x = loud(make_feed_forward(tiny(activation=activation))), normal(2, 5, 32)
    other = x.clone()
    other[1, 2] += 1.0
    changed = (layer(x) != layer(other)).any(dim=-1)
    want = torch.zeros(2, 5, dtype=torch.bool)
    want[1, 2] = True
    assert torch.equal(changed, want)
