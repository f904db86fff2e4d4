"""LayerNorm and RMSNorm agree with torch's, and stay exact in half precision."""

import pytest
import torch
from helpers import few, loud, normal, tiny
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tfcourse.norms import LayerNorm, RMSNorm, make_norm

NORMS = [LayerNorm, RMSNorm]


@pytest.mark.parametrize(("norm", "reference"), [(LayerNorm, nn.LayerNorm), (RMSNorm, nn.RMSNorm)])
def test_values_and_gradients_agree_with_torch(norm, reference):
    """Copied weights; 1e-6 for values of size one.

    Catches: variance over d - 1; epsilon outside the root; a gain or shift that is not used.
    """
    ours = loud(norm(32, 1e-3))  # a large epsilon: where it stands then shows
    theirs = reference(32, eps=1e-3)
    theirs.load_state_dict(ours.state_dict())
    x, weight = 0.1 * normal(2, 5, 32), normal(2, 5, 32, seed=1)
    results = []
    for module in (ours, theirs):
        inputs = x.clone().requires_grad_()
        y = module(inputs)
        (y * weight).sum().backward()
        results.append([y, inputs.grad, *(p.grad for p in module.parameters())])
    for got, want in zip(*results, strict=True):
        torch.testing.assert_close(got, want, atol=1e-6, rtol=1e-5)


def test_layernorm_by_hand():
    """(1, 2, 3, 4) has mean 2.5 and variance 1.25. Catches: the unbiased variance, 5/3."""
    got = LayerNorm(4, 1e-12)(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    want = torch.tensor([-1.5, -0.5, 0.5, 1.5]) / 1.25**0.5
    torch.testing.assert_close(got, want, atol=1e-6, rtol=0)


def test_rmsnorm_by_hand_keeps_the_mean():
    """(1, 7) has root mean square 5. Catches: a mean that is subtracted first."""
    got = RMSNorm(2, 1e-12)(torch.tensor([1.0, 7.0]))
    torch.testing.assert_close(got, torch.tensor([0.2, 1.4]), atol=1e-6, rtol=0)


@pytest.mark.parametrize("norm", NORMS)
def test_one_position_never_sees_another(norm):
    """Bit-equal alone and in company. Catches: statistics over the sequence or the batch."""
    module, x = loud(norm(32, 1e-5)), normal(3, 4, 32)
    assert torch.equal(module(x)[1:2, 2:3], module(x[1:2, 2:3]))


@few
@given(scale=st.floats(1e-2, 1e3), seed=st.integers(0, 99))
def test_size_does_not_matter(scale, seed):
    """norm(s x) = norm(x) for s > 0, as far as epsilon allows. Catches: a missing division."""
    x = normal(2, 32, seed=seed)
    for norm in NORMS:
        module = norm(32, 1e-12)
        torch.testing.assert_close(module(scale * x), module(x), atol=1e-4, rtol=1e-4)


def test_float16_of_three_hundred_does_not_overflow():
    """300 squared is beyond float16's 65,504. Catches: a mean square taken in float16."""
    x = torch.full((1, 1, 64), 300.0, dtype=torch.float16)
    y = RMSNorm(64, 1e-5).half()(x)
    assert y.dtype == torch.float16
    torch.testing.assert_close(y.float(), torch.ones(1, 1, 64), atol=1e-3, rtol=0)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("size", [1e-4, 1.0, 300.0, 1e4])
@pytest.mark.parametrize("half_weights", [True, False])
def test_half_precision_is_float32_rounded_once_and_keeps_its_dtype(
    norm, dtype, size, half_weights
):
    """With half or float32 weights the output is the float32 result cast to the input's dtype.

    Catches: squares that underflow at 1e-4; float32 weights that promote the stream.
    """
    module = loud(norm(32, 1e-5))
    x = (size * normal(2, 3, 32)).to(dtype)
    if half_weights:
        module = module.to(dtype)
    want = module.float()(x.float()).to(dtype)
    if half_weights:
        module = module.to(dtype)
    got = module(x)
    assert got.dtype == dtype
    assert torch.equal(got, want)


@pytest.mark.parametrize("norm", NORMS)
def test_autocast_changes_neither_dtype_nor_value(norm):
    """Catches: a norm computed in bfloat16 because autocast is on."""
    module, x = loud(norm(32, 1e-5)), normal(2, 3, 32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = module(x)
        half = module(x.bfloat16())
    assert torch.equal(got, module(x))
    assert half.dtype == torch.bfloat16


@pytest.mark.parametrize(("name", "kind"), [("layernorm", LayerNorm), ("rmsnorm", RMSNorm)])
def test_the_config_chooses_norm_width_and_epsilon(name, kind):
    """Catches: an epsilon that is not handed on (BERT's 1e-12 would go unnoticed)."""
    norm = make_norm(tiny(norm=name, norm_eps=0.5))
    assert type(norm) is kind and norm.eps == 0.5 and norm.weight.shape == (32,)
