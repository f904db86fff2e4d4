"""The stack: embedding, positions, blocks, final norm, and what it refuses."""

import math

import pytest
import torch
from helpers import few, ids, loud, one_line, tiny
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tfcourse.stacks import Stack

TOLERANCE = dict(atol=1e-5, rtol=1e-5)
POSITIONS = ["learned", "sinusoidal", "rope", "none"]


def stack(**fields):
    return loud(Stack(tiny(**fields))).eval()


def test_a_final_norm_stands_only_after_a_pre_norm_stack():
    """Catches: a second norm after a post-norm stack; none after a pre-norm one."""
    pre, post = stack(), stack(norm_position="post")
    assert isinstance(post.final_norm, nn.Identity)
    captured = []
    pre.final_norm.register_forward_pre_hook(lambda module, args: captured.append(args[0]))
    tokens = ids(2, 5)
    out = pre(tokens)
    assert torch.equal(out, pre.final_norm(captured[0]))
    assert not torch.allclose(out, captured[0])


@pytest.mark.parametrize("norm_position", ["pre", "post"])
def test_the_stack_is_embedding_positions_blocks_and_norm(norm_position):
    """Catches: a block that is skipped or run twice; positions added twice."""
    module, tokens = stack(norm_position=norm_position), ids(2, 5)
    x = module.embedding.weight[tokens] + module.positions.embedding.weight[:5]
    for block in module.blocks:
        x = block(x)
    assert torch.equal(module(tokens), module.final_norm(x))


def test_embedding_scale_multiplies_the_tokens_and_not_the_positions():
    """Catches: √d_model on the sum, or on nothing."""
    module, tokens = stack(embedding_scale=True, n_layers=0), ids(2, 5)
    x = module.embedding.weight[tokens] * math.sqrt(32) + module.positions.embedding.weight[:5]
    torch.testing.assert_close(module(tokens), module.final_norm(x), **TOLERANCE)


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("norm_position", ["pre", "post"])
def test_padding_on_either_side_changes_nothing(position, side, norm_position):
    """Rows of 3, 7 and 0 real tokens: each as if alone; what stands in the padding is no matter.

    Catches: positions counted from the padding; keys that are padding; a NaN in the empty row.
    """
    module = stack(position=position, norm_position=norm_position)
    rows = [ids(1, 3), ids(1, 7, seed=1), ids(1, 0)]
    outputs = []
    for filler in (0, 49):
        tokens = torch.full((3, 7), filler)
        real = torch.zeros(3, 7, dtype=torch.bool)
        for i, row in enumerate(rows):
            n = row.shape[1]
            place = slice(7 - n, 7) if side == "left" else slice(0, n)
            tokens[i, place], real[i, place] = row[0], True
        out = module(tokens, real)
        assert bool(out.isfinite().all())
        for i, row in enumerate(rows[:2]):
            torch.testing.assert_close(out[i][real[i]], module(row)[0], **TOLERANCE)
        outputs.append(out[real])
    torch.testing.assert_close(*outputs, **TOLERANCE)


@pytest.mark.parametrize("position", POSITIONS)
def test_padding_in_a_stack_without_a_causal_mask(position):
    """Catches: padding hidden by the causal rule alone."""
    module = stack(position=position, causal=False)
    tokens, real = ids(2, 7), torch.ones(2, 7, dtype=torch.bool)
    real[0, 3:] = False
    real[1, :2] = False
    out = module(tokens, real)
    torch.testing.assert_close(out[0, :3], module(tokens[:1, :3])[0], **TOLERANCE)
    torch.testing.assert_close(out[1, 2:], module(tokens[1:, 2:])[0], **TOLERANCE)


def test_gradients_stay_finite_where_a_row_is_all_padding():
    """Catches: a NaN that is hidden in the output and comes back with the gradient."""
    module, real = stack(), torch.ones(2, 5, dtype=torch.bool)
    real[0] = False
    module(ids(2, 5), real).square().sum().backward()
    assert all(bool(p.grad.isfinite().all()) for p in module.parameters() if p.grad is not None)


@few
@given(batch=st.integers(1, 4), length=st.integers(1, 12), seed=st.integers(0, 9))
def test_a_mask_of_all_true_is_no_mask(batch, length, seed):
    """Catches: positions or the causal rule that differ between the two paths."""
    module, tokens = stack(), ids(batch, length, seed=seed)
    real = torch.ones(batch, length, dtype=torch.bool)
    torch.testing.assert_close(module(tokens, real), module(tokens), **TOLERANCE)


def test_dropout_falls_on_the_embeddings_in_training_only():
    """Catches: dropout in evaluation; an embedding that is never dropped."""
    module, tokens = stack(dropout=0.5, n_layers=0), ids(2, 5)
    assert torch.equal(module(tokens), module(tokens))
    module.train()
    assert not torch.equal(module(tokens), module(tokens))


def test_a_stack_without_layers_and_without_tokens_runs():
    """Catches: 1/√(2 · 0) at initialization; a reduction over no positions."""
    assert stack(n_layers=0)(ids(2, 3)).shape == (2, 3, 32)
    assert stack()(ids(2, 0)).shape == (2, 0, 32)


# --- what is refused


@pytest.mark.parametrize("bad", [-1, 50, 10_000])
def test_a_token_outside_the_vocabulary_is_named(bad):
    """Catches: an index error from inside torch; a negative id that wraps around."""
    tokens = ids(2, 5)
    tokens[1, 3] = bad
    with pytest.raises(ValueError) as caught:
        stack()(tokens)
    one_line(caught.value, f"token id {bad} ", "vocab_size - 1 = 49")


@pytest.mark.parametrize("position", POSITIONS)
def test_a_sequence_beyond_max_len_is_refused_with_both_lengths(position):
    """Whatever the kind of position. Catches: a limit that only the learned table has."""
    module = stack(position=position)
    module(ids(1, 32))
    with pytest.raises(ValueError) as caught:
        module(ids(1, 33))
    one_line(caught.value, "33 tokens", "max_len=32", "shorten")


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8])
def test_a_padding_mask_of_numbers_is_refused(dtype):
    """Catches: 1 for real and 1 for padding, which libraries mean by turns."""
    with pytest.raises(TypeError):
        stack()(ids(2, 5), torch.ones(2, 5, dtype=dtype))


@pytest.mark.nohook
def test_the_refusal_of_a_numeric_padding_mask_says_what_true_means():
    """Catches: a message without the fix."""
    with pytest.raises(TypeError) as caught:
        stack()(ids(2, 5), torch.ones(2, 5))
    one_line(caught.value, "padding_mask", "torch.float32", "True at real tokens")


@pytest.mark.parametrize("shape", [(2, 4), (2, 6), (1, 5)])
def test_a_padding_mask_of_another_shape_is_refused(shape):
    """Catches: a mask of one row that is broadcast over the batch in silence."""
    with pytest.raises((ValueError, TypeError)) as caught:
        stack()(ids(2, 5), torch.ones(shape, dtype=torch.bool))
    if type(caught.value) is ValueError:
        one_line(caught.value, "padding_mask", str(shape), "(2, 5)")
