"""A block is two residual branches, and computes what torch's encoder layer computes."""

import pytest
import torch
from helpers import loud, normal, tiny
from torch import nn

from tfcourse.attention import MultiHeadAttention
from tfcourse.blocks import Block
from tfcourse.feedforward import FeedForward


def torch_layer(block, norm_first, activation):
    """Return torch's encoder layer with the block's weights."""
    layer = nn.TransformerEncoderLayer(
        32, 4, 128, dropout=0.0, activation=activation, batch_first=True, norm_first=norm_first
    )
    attention, feed_forward = block.branches
    copies = {
        "self_attn.in_proj_weight": attention.sublayer.qkv.weight,
        "self_attn.in_proj_bias": attention.sublayer.qkv.bias,
        "self_attn.out_proj.weight": attention.sublayer.out.weight,
        "self_attn.out_proj.bias": attention.sublayer.out.bias,
        "linear1.weight": feed_forward.sublayer.up.weight,
        "linear1.bias": feed_forward.sublayer.up.bias,
        "linear2.weight": feed_forward.sublayer.down.weight,
        "linear2.bias": feed_forward.sublayer.down.bias,
        "norm1.weight": attention.norm.weight,
        "norm1.bias": attention.norm.bias,
        "norm2.weight": feed_forward.norm.weight,
        "norm2.bias": feed_forward.norm.bias,
    }
    layer.load_state_dict(copies)
    return layer


@pytest.mark.parametrize("norm_position", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("causal", [True, False])
def test_output_and_gradients_agree_with_torch_s_encoder_layer(norm_position, activation, causal):
    """Both arrangements of the norm, copied weights, in training mode: no fast path of torch's.

    Catches: post-norm in the text and pre-norm in the code; one norm for both branches; norms
    exchanged.
    """
    fields = dict(norm_position=norm_position, activation=activation, causal=causal, bias=True)
    block = loud(Block(tiny(**fields)))
    theirs = torch_layer(block, norm_position == "pre", activation)
    hidden = torch.ones(6, 6, dtype=torch.bool).triu(1) if causal else None
    results = []
    for run in (block, lambda x: theirs(x, src_mask=hidden)):
        x = normal(2, 6, 32).requires_grad_()
        y = run(x)
        (y * normal(2, 6, 32, seed=1)).sum().backward()
        results.append((y, x.grad))
    for got, want in zip(*results, strict=True):
        torch.testing.assert_close(got, want, atol=2e-5, rtol=1e-4)


def test_padding_agrees_with_torch_s_encoder_in_training_and_evaluation():
    """The last two columns are padding in every row; the width is kept and real columns agree.

    Torch's encoder may cut such columns off in evaluation: nested tensors are off for it here.
    Catches: a result that is narrower; padding that is read in one of the two modes.
    """
    blocks = [loud(Block(tiny(causal=False, bias=True, activation="relu")), s) for s in (0, 1)]
    layers = [torch_layer(block, True, "relu") for block in blocks]
    theirs = nn.TransformerEncoder(layers[0], 2, enable_nested_tensor=False)
    theirs.layers = nn.ModuleList(layers)
    x, real = normal(2, 6, 32), torch.ones(2, 6, dtype=torch.bool)
    real[:, 4:] = False
    real[0, 3:] = False
    for training in (True, False):
        theirs.train(training)
        want = theirs(x, src_key_padding_mask=~real)
        got = x
        for block in blocks:
            got = block.train(training)(got, mask=real[:, None, None, :])
        assert got.shape == want.shape == (2, 6, 32)
        torch.testing.assert_close(got[real], want[real], atol=2e-5, rtol=1e-4)


def test_branches_are_attention_then_feed_forward():
    """Catches: the two exchanged; a branch that `branches` does not list."""
    block = Block(tiny())
    kinds = [type(branch.sublayer) for branch in block.branches]
    assert kinds == [MultiHeadAttention, FeedForward]
    x = normal(2, 5, 32)
    first, second = block.branches
    assert torch.equal(block(x), second(first(x)))


@pytest.mark.parametrize("left", ["attention", "mlp"])
def test_a_branch_that_is_left_out_has_no_weights_and_no_effect(left):
    """Catches: a switch that keeps the norm, or that leaves out the other branch."""
    block = loud(Block(tiny(**{left: False})))
    (only,) = block.branches
    assert type(only.sublayer) is (FeedForward if left == "attention" else MultiHeadAttention)
    x = normal(2, 5, 32)
    assert torch.equal(block(x), only(x))
    assert sum(p.numel() for p in block.parameters()) == sum(p.numel() for p in only.parameters())
    empty = Block(tiny(attention=False, mlp=False))
    assert empty.branches == [] and torch.equal(empty(x), x)


@pytest.mark.parametrize("norm", ["layernorm", "rmsnorm"])
@pytest.mark.parametrize("norm_position", ["pre", "post"])
def test_the_stream_keeps_its_dtype(norm, norm_position):
    """A bfloat16 model ends in bfloat16; under autocast the stream stays as it came in.

    Catches: a float32 gain that promotes a half stream, which the next layer then refuses.
    """
    block = loud(Block(tiny(norm=norm, norm_position=norm_position, activation="swiglu")))
    x = normal(2, 5, 32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert block(x).dtype == torch.float32
        assert block(x.bfloat16()).dtype == torch.bfloat16
    want = block(x)
    got = block.to(torch.bfloat16)(x.bfloat16())
    assert got.dtype == torch.bfloat16
    error = (got.float() - want).norm() / want.norm()
    assert error < 0.03  # bfloat16 rounds to 3 digits; a handful of roundings in a row
