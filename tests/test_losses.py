"""The chunked loss equals cross-entropy over all logits, in value and in every gradient."""

import math

import pytest
import torch
import torch.nn.functional as F
from helpers import few, normal, one_line
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from tfcourse import losses
from tfcourse.losses import IGNORE, token_loss


def head_of(width, vocab_size, bias=True, seed=0):
    head = nn.Linear(width, vocab_size, bias=bias)
    with torch.no_grad():
        for i, parameter in enumerate(head.parameters()):
            parameter.copy_(0.5 * normal(*parameter.shape, seed=seed + i))
    return head


def targets_of(*shape, vocab_size, ignored=0.3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    targets = torch.randint(vocab_size, shape, generator=generator)
    return targets.masked_fill(torch.rand(shape, generator=generator) < ignored, IGNORE)


def whole(hidden, head, targets, reduction="mean"):
    """Compute the loss the plain way, from all logits at once."""
    logits = head(hidden).float().flatten(0, 1)
    loss = F.cross_entropy(logits, targets.flatten(), ignore_index=IGNORE, reduction=reduction)
    return loss.view(targets.shape) if reduction == "none" else loss


def value_and_gradients(function, hidden, head, targets, reduction="mean", factor=1.0):
    hidden = hidden.clone().requires_grad_()
    head.zero_grad()
    loss = function(hidden, head, targets, reduction)
    (factor * loss.sum()).backward()
    return [loss.detach(), hidden.grad, *(p.grad for p in head.parameters())]


def assert_equal(got, want, **tolerance):
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, **tolerance)


@few
@given(
    rows=st.integers(1, 3),
    length=st.integers(1, 7),
    vocab_size=st.integers(2, 40),
    per_chunk=st.integers(1, 25),
    bias=st.booleans(),
    ignored=st.sampled_from([0.0, 0.4]),
    reduction=st.sampled_from(["mean", "sum", "none"]),
    factor=st.sampled_from([1.0, -3.0]),
)
def test_value_and_gradients_equal_cross_entropy_for_any_chunking(
    rows, length, vocab_size, per_chunk, bias, ignored, reduction, factor
):
    """Chunks that divide the rows and chunks that do not; a factor from outside; 1e-6.

    Catches: the last, shorter chunk forgotten; the weight's gradient overwritten by each chunk;
    the incoming gradient taken for 1; ignored rows counted.
    """
    hidden, head = normal(rows, length, 8), head_of(8, vocab_size, bias)
    targets = targets_of(rows, length, vocab_size=vocab_size, ignored=ignored)
    if bool((targets == IGNORE).all()):
        targets[0, 0] = 0
    want = value_and_gradients(whole, hidden, head, targets, reduction, factor)
    saved, losses.CHUNK_LOGITS = losses.CHUNK_LOGITS, per_chunk * vocab_size
    try:
        got = value_and_gradients(token_loss, hidden, head, targets, reduction, factor)
    finally:
        losses.CHUNK_LOGITS = saved
    assert_equal(got, want, atol=1e-6, rtol=1e-5)


def test_a_vocabulary_larger_than_a_chunk_goes_row_by_row(monkeypatch):
    """Catches: a chunk of zero rows, which would never end or give nothing."""
    monkeypatch.setattr(losses, "CHUNK_LOGITS", 10)
    hidden, head, targets = normal(2, 3, 8), head_of(8, 40), targets_of(2, 3, vocab_size=40)
    got = value_and_gradients(token_loss, hidden, head, targets)
    assert_equal(got, value_and_gradients(whole, hidden, head, targets), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_where_nothing_counts_the_loss_and_its_gradients_are_zero(reduction):
    """Catches: 0/0, which turns every weight into NaN at the next step."""
    targets = torch.full((2, 3), IGNORE)
    got = value_and_gradients(token_loss, normal(2, 3, 8), head_of(8, 11), targets, reduction)
    assert all(torch.count_nonzero(value) == 0 for value in got)
    none = token_loss(normal(2, 3, 8), head_of(8, 11), targets, "none")
    assert torch.equal(none, torch.zeros(2, 3))


def test_no_rows_at_all_give_zero():
    """Catches: an error from a reduction or a concatenation over nothing."""
    empty = torch.zeros(2, 0, dtype=torch.long)
    head = head_of(8, 11)
    assert token_loss(torch.zeros(2, 0, 8), head, empty) == 0
    assert token_loss(torch.zeros(2, 0, 8), head, empty, "none").shape == (2, 0)


def test_mean_divides_by_the_targets_that_count():
    """Catches: a mean over padded positions too, which falls as the padding grows."""
    hidden, head = normal(1, 4, 8), head_of(8, 11)
    targets = torch.tensor([[3, IGNORE, 5, IGNORE]])
    each = token_loss(hidden, head, targets, "none")
    assert each[0, 1] == each[0, 3] == 0
    total = token_loss(hidden, head, targets, "sum")
    torch.testing.assert_close(total, each.sum())
    torch.testing.assert_close(token_loss(hidden, head, targets), each.sum() / 2)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_whole_numbers_of_any_size_are_targets(reduction):
    """Catches: int32, as many data sets hold it, refused by PyTorch in the middle of a step."""
    hidden, head, targets = normal(2, 3, 8), head_of(8, 11), targets_of(2, 3, vocab_size=11)
    want = token_loss(hidden, head, targets, reduction)
    assert torch.equal(token_loss(hidden, head, targets.int(), reduction), want)


def test_the_loss_is_in_nats():
    """Equal logits over 8 words cost ln 8. Catches: bits."""
    loss = token_loss(torch.zeros(1, 3, 4), head_of(4, 8, bias=False), torch.tensor([[0, 3, 7]]))
    assert loss.item() == pytest.approx(math.log(8), abs=1e-6)


def test_huge_logits_stay_finite():
    """Logits of ±1e4. Catches: exp before the maximum is subtracted; log of a zero probability."""
    head = nn.Linear(1, 3, bias=False)
    with torch.no_grad():
        head.weight.copy_(torch.tensor([[1e4], [0.0], [-1e4]]))
    got = value_and_gradients(token_loss, torch.ones(1, 3, 1), head, torch.tensor([[0, 1, 2]]))
    assert got[0].item() == pytest.approx(1e4, rel=1e-6)
    assert all(bool(value.isfinite().all()) for value in got)


@pytest.mark.parametrize("bias", [True, False])
def test_under_bfloat16_autocast_it_is_as_exact_as_cross_entropy_there(bias):
    """Against float32: value to 1 %, gradients to 2 % of their norm, no worse than twice the
    error of plain cross-entropy under the same autocast (bfloat16 keeps 8 bits).

    Catches: logits kept in bfloat16 for the softmax; gradients summed over chunks in bfloat16.
    """
    hidden, head = normal(4, 64, 32), head_of(32, 200, bias)
    targets = targets_of(4, 64, vocab_size=200)
    exact = value_and_gradients(whole, hidden, head, targets)
    saved, losses.CHUNK_LOGITS = losses.CHUNK_LOGITS, 200 * 10
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            plain = value_and_gradients(whole, hidden, head, targets)
            got = value_and_gradients(token_loss, hidden, head, targets)
    finally:
        losses.CHUNK_LOGITS = saved
    assert got[0].dtype == torch.float32
    assert got[0].item() == pytest.approx(exact[0].item(), rel=0.01)
    for a, b, c in zip(got[1:], exact[1:], plain[1:], strict=True):
        assert a.dtype == torch.float32
        error, usual = (a - b).norm() / b.norm(), (c - b).norm() / b.norm()
        assert error < 0.02 and error < 2 * usual


def test_a_bfloat16_model_gets_bfloat16_gradients_and_a_float32_loss():
    """Catches: gradients whose dtype differs from their parameter's."""
    hidden, head = normal(2, 5, 8).bfloat16(), head_of(8, 11).to(torch.bfloat16)
    targets = targets_of(2, 5, vocab_size=11)
    loss, *gradients = value_and_gradients(token_loss, hidden, head, targets)
    assert loss.dtype == torch.float32
    assert {gradient.dtype for gradient in gradients} == {torch.bfloat16}


@pytest.mark.parametrize("trained", ["hidden", "weight", "bias"])
def test_each_gradient_is_formed_when_it_alone_is_wanted(trained):
    """Catches: a bias that gets no gradient where weights and hidden are frozen."""
    hidden, head = normal(2, 5, 8), head_of(8, 11)
    targets = targets_of(2, 5, vocab_size=11)
    _, *want = value_and_gradients(whole, hidden, head, targets)
    tensors = {"hidden": hidden.clone(), "weight": head.weight, "bias": head.bias}
    head.zero_grad()
    for name, tensor in tensors.items():
        tensor.requires_grad_(name == trained)
    token_loss(tensors["hidden"], head, targets).backward()
    for (name, tensor), gradient in zip(tensors.items(), want, strict=True):
        if name == trained:
            torch.testing.assert_close(tensor.grad, gradient, atol=1e-6, rtol=1e-5)
        else:
            assert tensor.grad is None


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_scoring_without_gradients_costs_one_matrix_product(mode):
    """2 N d V operations, a third of what training takes.

    Catches: gradients formed in evaluation, because the weights would want them.
    """
    hidden, head = normal(2, 5, 8), head_of(8, 11, bias=False)
    targets = targets_of(2, 5, vocab_size=11)
    with FlopCounterMode(display=False) as scoring, mode():
        token_loss(hidden, head, targets)
    with FlopCounterMode(display=False) as training:
        token_loss(hidden.requires_grad_(), head, targets).backward()
    assert scoring.get_total_flops() == 2 * 10 * 8 * 11
    assert training.get_total_flops() == 3 * scoring.get_total_flops()


def test_the_logits_of_all_rows_are_never_held_together(monkeypatch):
    """Catches: a second path that computes them all (the reason for the chunks is memory)."""
    monkeypatch.setattr(losses, "CHUNK_LOGITS", 4 * 11)
    sizes = []

    class Sizes(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            out = function(*args, **(kwargs or {}))
            if isinstance(out, torch.Tensor):
                sizes.append(tuple(out.shape))
            return out

    hidden, head = normal(2, 10, 8).requires_grad_(), head_of(8, 11)
    with Sizes():
        token_loss(hidden, head, targets_of(2, 10, vocab_size=11)).backward()
    assert (4, 11) in sizes
    assert not [shape for shape in sizes if math.prod(shape) > 20 * 8]


def test_a_second_backward_is_refused_and_not_wrong():
    """Catches: gradients that were scaled in place and are scaled again."""
    hidden, head = normal(1, 3, 8).requires_grad_(), head_of(8, 11)
    loss = token_loss(hidden, head, torch.tensor([[1, 2, 3]]))
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="once"):
        loss.backward()


def test_two_losses_of_one_head_add_their_gradients():
    """As accumulation does. Catches: buffers shared between calls."""
    hidden, head = normal(2, 6, 8), head_of(8, 11)
    targets = targets_of(2, 6, vocab_size=11)
    want = value_and_gradients(whole, hidden, head, targets, "sum")
    head.zero_grad()
    parts = [hidden[:, :2].clone().requires_grad_(), hidden[:, 2:].clone().requires_grad_()]
    for part, part_targets in zip(parts, targets.split([2, 4], dim=1), strict=True):
        token_loss(part, head, part_targets, "sum").backward()
    got = [torch.cat([part.grad for part in parts], dim=1), head.weight.grad, head.bias.grad]
    assert_equal(got, want[1:], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("bad", [-1, 11, -99])
def test_a_target_outside_the_vocabulary_is_named(reduction, bad):
    """Catches: a gather that reads another row; −1 taken for padding."""
    targets = torch.tensor([[1, bad, IGNORE]])
    with pytest.raises(ValueError) as caught:
        token_loss(normal(1, 3, 8), head_of(8, 11), targets, reduction)
    one_line(caught.value, f"target {bad} ", "0 to 10", "-100")


def test_targets_of_another_shape_are_refused():
    """Catches: rows paired with the wrong targets after flattening."""
    with pytest.raises((ValueError, TypeError)) as caught:
        token_loss(normal(2, 3, 8), head_of(8, 11), targets_of(3, 2, vocab_size=11))
    if type(caught.value) is ValueError:
        one_line(caught.value, "(3, 2)", "(2, 3)")


def test_a_second_derivative_is_refused():
    """Catches: one that takes the first for a constant, and is wrong in silence."""
    hidden, head = normal(1, 3, 8).requires_grad_(), head_of(8, 11)
    loss = token_loss(hidden.tanh(), head, targets_of(1, 3, vocab_size=11))
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.autograd.grad(loss, hidden, create_graph=True)


@pytest.mark.nohook
@pytest.mark.parametrize("reduction", ["mena", None])
def test_an_unknown_reduction_is_refused(reduction):
    """Catches: a slip that means "mean"."""
    with pytest.raises(ValueError) as caught:
        token_loss(normal(1, 3, 8), head_of(8, 11), targets_of(1, 3, vocab_size=11), reduction)
    one_line(caught.value, "reduction=")
