"""Our blocks compute what torch's own encoder and decoder layers compute."""

import pytest
import torch
from helpers import loud, normal, tiny
from torch import nn

from tfcourse.blocks import Block

TOLERANCE = dict(atol=1e-5, rtol=1e-5)
KINDS = [(position, kind) for position in ("pre", "post") for kind in ("relu", "gelu")]
REAL = torch.arange(6) < torch.tensor([[6], [4]])  # [2 6], True at real tokens
SOURCE = torch.arange(9) < torch.tensor([[9], [3]])


def copy_attention(ours, theirs):
    ours.qkv.weight.data.copy_(theirs.in_proj_weight)
    ours.qkv.bias.data.copy_(theirs.in_proj_bias)
    ours.out.load_state_dict(theirs.out_proj.state_dict())


def copy_rest(block, theirs, *norms):
    block.feed_forward.sublayer.up.load_state_dict(theirs.linear1.state_dict())
    block.feed_forward.sublayer.down.load_state_dict(theirs.linear2.state_dict())
    for branch, norm in zip(block.branches, norms, strict=True):
        branch.norm.load_state_dict(norm.state_dict())


def options(norm_position, activation):
    return dict(
        d_model=32, nhead=4, dim_feedforward=48, dropout=0.0, activation=activation,
        batch_first=True, norm_first=norm_position == "pre",
    )  # fmt: skip


def block_of(norm_position, activation, **fields):
    given = dict(norm_position=norm_position, activation=activation, d_ff=48, bias=True)
    return Block(tiny(**given, **fields)).eval()


@pytest.mark.parametrize(("norm_position", "activation"), KINDS)
def test_an_encoder_block_is_torchs_encoder_layer(norm_position, activation):
    """With padding, in training mode: evaluation takes a path of its own there.

    Catches: pre- and post-norm exchanged; queries and keys exchanged; a mask of other polarity.
    """
    theirs = loud(nn.TransformerEncoderLayer(**options(norm_position, activation)))
    block = block_of(norm_position, activation, causal=False)
    copy_attention(block.attention.sublayer, theirs.self_attn)
    copy_rest(block, theirs, theirs.norm1, theirs.norm2)
    x = normal(2, 6, 32)
    want = theirs(x, src_key_padding_mask=~REAL)  # there True means "may not attend"
    got = block(x, mask=REAL[:, None, None, :])
    torch.testing.assert_close(got[REAL], want[REAL], **TOLERANCE)


@pytest.mark.parametrize(("norm_position", "activation"), KINDS)
def test_a_block_with_cross_attention_is_torchs_decoder_layer(norm_position, activation):
    """Catches: a source that is normed twice, or read without its mask; another order."""
    theirs = loud(nn.TransformerDecoderLayer(**options(norm_position, activation)))
    block = block_of(norm_position, activation, cross_attention=True)
    copy_attention(block.attention.sublayer, theirs.self_attn)
    copy_attention(block.cross.sublayer, theirs.multihead_attn)
    copy_rest(block, theirs, theirs.norm1, theirs.norm2, theirs.norm3)
    x, source = normal(2, 6, 32), normal(2, 9, 32, seed=1)
    want = theirs(
        x,
        source,
        tgt_mask=~torch.ones(6, 6, dtype=torch.bool).tril(),
        memory_key_padding_mask=~SOURCE,
    )
    got = block(x, source=source, source_mask=SOURCE[:, None, None, :])
    torch.testing.assert_close(got, want, **TOLERANCE)
