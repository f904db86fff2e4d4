"""Attention: which keys a query reads, with what weight, and what comes of it."""

import pytest
import torch
import torch.nn.functional as F
from einops import rearrange
from helpers import ListCache, few, loud, naive_attention, normal, one_line, tiny
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tfcourse.attention import MultiHeadAttention, causal_mask
from tfcourse.positions import RotaryPositions

TOLERANCE = dict(atol=1e-5, rtol=1e-5)


def attention(**fields):
    return loud(MultiHeadAttention(tiny(**fields))).eval()


def projections(module, x):
    """Return q [B H L k], k and v [B K L k] as the module's own weights give them."""
    heads = rearrange(module.qkv(x), "b l (h k) -> b h l k", k=module.head_dim)
    return heads.split([module.n_heads, module.n_kv_heads, module.n_kv_heads], dim=1)


def by_hand(module, x, allowed, rotate=lambda heads: heads):
    """Return the module's output computed in loops; allowed [B L L]."""
    q, k, v = projections(module, x)
    q, k = rotate(q), rotate(k)
    mixed = torch.stack([naive_attention(*parts) for parts in zip(q, k, v, allowed, strict=True)])
    return module.out(rearrange(mixed, "b h l k -> b l (h k)"))


# --- against references


@pytest.mark.parametrize("n_kv_heads", [1, 2, 4])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("padded", [True, False])
def test_output_agrees_with_loops_over_heads_and_queries(n_kv_heads, causal, padded):
    """The causal rule and a padding mask are combined by AND, for every grouping of heads.

    Catches: key heads tiled instead of repeated; OR for AND; one of two masks dropped; scores
    divided by √d_model or not at all.
    """
    module = attention(n_kv_heads=n_kv_heads, causal=causal, bias=True)
    x = normal(2, 6, 32)
    real = torch.ones(2, 6, dtype=torch.bool)
    if padded:
        real[0, 4:] = False
        real[1, :2] = False
    allowed = real[:, None, :].expand(2, 6, 6)
    if causal:
        allowed = allowed & torch.ones(6, 6, dtype=torch.bool).tril()
    got = module(x, mask=real[:, None, None, :] if padded else None)
    torch.testing.assert_close(got, by_hand(module, x, allowed), **TOLERANCE)


@pytest.mark.parametrize("bias", [True, False])
def test_output_and_weights_agree_with_torch_s_multihead_attention(bias):
    """Copied weights, padding, no causal rule; per-head weights, not their average.

    Catches: heads split along the wrong axis; q, k, v in another order.
    """
    ours = attention(causal=False, bias=bias)
    theirs = nn.MultiheadAttention(32, 4, bias=bias, batch_first=True).eval()
    with torch.no_grad():
        theirs.in_proj_weight.copy_(ours.qkv.weight)
        theirs.out_proj.weight.copy_(ours.out.weight)
        if bias:
            theirs.in_proj_bias.copy_(ours.qkv.bias)
            theirs.out_proj.bias.copy_(ours.out.bias)
    x, real = normal(2, 6, 32), torch.ones(2, 6, dtype=torch.bool)
    real[0, 4:] = False
    want, want_weights = theirs(x, x, x, key_padding_mask=~real, average_attn_weights=False)
    got, got_weights = ours.with_weights(x, mask=real[:, None, None, :])
    torch.testing.assert_close(got, want, **TOLERANCE)
    torch.testing.assert_close(got_weights, want_weights, **TOLERANCE)
    torch.testing.assert_close(ours(x, mask=real[:, None, None, :]), want, **TOLERANCE)


def test_grouped_heads_agree_with_torch_s_own_grouping():
    """Catches: query heads that share a key head with the wrong neighbours."""
    module, x = attention(n_kv_heads=2), normal(2, 6, 32)
    q, k, v = projections(module, x)
    mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    want = module.out(rearrange(mixed, "b h l k -> b l (h k)"))
    torch.testing.assert_close(module(x), want, **TOLERANCE)


@pytest.mark.parametrize("path", ["forward", "with_weights"])
def test_neighbouring_query_heads_share_a_key_head(path):
    """Of 4 query heads over 2 key heads, 2 and 3 read the second one, 1 does not.

    One key head would not tell tiling (0 1 0 1) from repeating (0 0 1 1). Catches: tiling.
    """
    module = MultiHeadAttention(tiny(n_kv_heads=2, qkv_bias=True)).eval()
    with torch.no_grad():
        module.qkv.weight.normal_()
        module.qkv.weight[-16:] = 0.0  # the values of both key heads come from the bias
        module.qkv.bias.zero_()
        module.qkv.bias[-8:] = 7.0
        module.out.weight.copy_(torch.eye(32))
    got = module(normal(2, 5, 32))
    if path == "with_weights":
        got = module.with_weights(normal(2, 5, 32))[0]
    heads = rearrange(got, "b l (h k) -> h b l k", h=4)
    torch.testing.assert_close(heads[:2], torch.zeros(2, 2, 5, 8), **TOLERANCE)
    torch.testing.assert_close(heads[2:], torch.full((2, 2, 5, 8), 7.0), **TOLERANCE)


@pytest.mark.parametrize("n_kv_heads", [2, 4])
def test_queries_and_keys_are_rotated_and_values_are_not(n_kv_heads):
    """And only the distance of two positions matters: all of them may move by 40.

    Catches: keys left as they are; values turned along.
    """
    module, x = attention(n_kv_heads=n_kv_heads), normal(2, 6, 32)
    rotation, positions = RotaryPositions(tiny()).rotation, torch.arange(6).unsqueeze(0)
    got = module(x, rotate=rotation(positions))
    causal = torch.ones(2, 6, 6, dtype=torch.bool).tril()
    torch.testing.assert_close(got, by_hand(module, x, causal, rotation(positions)), **TOLERANCE)
    torch.testing.assert_close(module(x, rotate=rotation(positions + 40)), got, **TOLERANCE)
    assert not torch.allclose(got, module(x), atol=1e-2)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("n_kv_heads", [1, 2, 4])
@pytest.mark.parametrize("n_new", [1, 2, 6])
@pytest.mark.parametrize("rope", [True, False])
def test_the_path_that_returns_weights_gives_the_same_output(
    causal, masked, n_kv_heads, n_new, rope
):
    """Both paths, for every mask, grouping, rotation and cached chunk.

    Catches: a rule (causal, bottom-right, padding, empty rows) that only one path knows.
    """
    module = attention(causal=causal, n_kv_heads=n_kv_heads)
    rotation = RotaryPositions(tiny()).rotation if rope else lambda positions: None
    mask = None
    if masked:
        mask = torch.ones(2, 1, 1, 6, dtype=torch.bool)
        mask[0, ..., :3] = False
        mask[1, ..., 5:] = False
    x, outputs = normal(2, 6, 32), []
    for call in (module, module.with_weights):
        cache = None
        if n_new < 6:
            cache = ListCache()
            old = x[:, : 6 - n_new]
            module(old, rotate=rotation(torch.arange(6 - n_new)[None]), cache=cache)
        new, positions = x[:, 6 - n_new :], torch.arange(6 - n_new, 6)[None]
        outputs.append(call(new, mask=mask, rotate=rotation(positions), cache=cache))
    plain, (explicit, weights) = outputs
    torch.testing.assert_close(plain, explicit, **TOLERANCE)
    assert weights.shape == (2, 4, n_new, 6)
    sums = weights.sum(dim=-1)
    assert bool(((sums - 1).abs() < 1e-5).logical_or(sums == 0).all())


# --- the causal rule


def test_the_last_query_stands_at_the_last_key():
    """Two queries over five keys: row i sees keys up to i + 3. Catches: a top-left triangle."""
    want = torch.tensor([[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]], dtype=torch.bool)
    assert torch.equal(causal_mask(2, 5), want)
    assert torch.equal(causal_mask(3, 3), torch.ones(3, 3, dtype=torch.bool).tril())


@pytest.mark.parametrize("n_cached", range(1, 5))
@pytest.mark.parametrize("padded", [True, False])
def test_new_queries_read_the_cache_as_the_full_pass_does(n_cached, padded):
    """Any split of five positions gives the rows of one pass.

    Catches: torch's causal flag used with a cache (it counts from the top left, so that a lone
    query sees key 0 only).
    """
    module, x, cache = attention(), normal(1, 5, 32), ListCache()
    real = torch.tensor([[False, True, True, True, True]])[:, None, None, :] if padded else None
    old = real[..., :n_cached] if padded else None
    parts = [module(x[:, :n_cached], mask=old, cache=cache)]
    parts.append(module(x[:, n_cached:], mask=real, cache=cache))
    torch.testing.assert_close(torch.cat(parts, dim=1), module(x, mask=real), **TOLERANCE)


def test_no_weight_falls_on_a_later_key():
    """Exactly zero, not almost. Catches: −1e4 in place of −∞; the mask after the softmax."""
    _, weights = attention().with_weights(100 * normal(2, 6, 32))
    assert torch.count_nonzero(weights.triu(diagonal=1)) == 0


@few
@given(position=st.integers(1, 7), seed=st.integers(0, 9))
def test_changing_a_later_position_leaves_earlier_outputs_alone(position, seed):
    """Bit-equal. Catches: a triangle that starts one too high."""
    module, x = attention(), normal(1, 8, 32, seed=seed)
    other = x.clone()
    other[:, position:] += 1.0
    before, after = module(x), module(other)
    assert torch.equal(before[:, :position], after[:, :position])
    assert not torch.equal(before[:, position:], after[:, position:])


# --- masks


NUMERIC = [torch.float32, torch.float16, torch.int64, torch.uint8]


@pytest.mark.parametrize("dtype", NUMERIC)
@pytest.mark.parametrize("path", ["forward", "with_weights"])
def test_a_mask_of_numbers_is_refused(dtype, path):
    """Catches: 1 and 0 added to the scores in silence."""
    module = attention(causal=False)
    with pytest.raises(TypeError):
        getattr(module, path)(normal(2, 6, 32), mask=torch.ones(6, 6).tril().to(dtype)[None, None])


@pytest.mark.nohook
def test_a_mask_of_numbers_is_refused_in_one_line_with_the_fix():
    """Catches: an error that does not say which way round True is."""
    with pytest.raises(TypeError) as caught:
        attention()(normal(2, 6, 32), mask=torch.ones(1, 1, 6, 6))
    one_line(caught.value, "mask", "torch.float32", "True where a query may attend")


def test_true_means_may_attend():
    """Catches: torch.nn's opposite convention, where True hides a key."""
    module, x = attention(causal=False), normal(2, 6, 32)
    mask = torch.ones(6, 6, dtype=torch.bool).tril()[None, None]
    _, weights = module.with_weights(x, mask=mask)
    assert torch.count_nonzero(weights.triu(diagonal=1)) == 0
    torch.testing.assert_close(module(x, mask=mask), attention(causal=True)(x), **TOLERANCE)


def test_a_mask_may_differ_between_heads_and_rows():
    """Catches: a mask squeezed to one head or one example."""
    module, x = attention(causal=False), normal(2, 5, 32)
    mask = torch.rand(2, 4, 5, 5, generator=torch.Generator().manual_seed(0)) < 0.6
    mask |= torch.eye(5, dtype=torch.bool)
    _, weights = module.with_weights(x, mask=mask)
    assert torch.equal(weights > 0, mask)
    torch.testing.assert_close(module(x, mask=mask), module.with_weights(x, mask=mask)[0])


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("path", ["forward", "with_weights"])
@pytest.mark.parametrize("n_kv_heads", [2, 4])
def test_a_query_that_may_attend_to_nothing_gets_zeros_and_no_nan(causal, path, n_kv_heads):
    """One row all padding, one padded on the left, one full: the others are as if alone.

    Catches: softmax over nothing; a NaN that reaches the gradients of shared weights.
    """
    module = attention(causal=causal, n_kv_heads=n_kv_heads)
    x = normal(3, 6, 32).requires_grad_()
    real = torch.ones(3, 6, dtype=torch.bool)
    real[0] = False
    real[1, :3] = False

    def run(*args, **kwargs):
        result = getattr(module, path)(*args, **kwargs)
        return result if path == "forward" else result[0]

    y = run(x, mask=real[:, None, None, :])
    assert torch.equal(y[0], torch.zeros(6, 32))
    torch.testing.assert_close(y[2:], run(x[2:]), **TOLERANCE)
    torch.testing.assert_close(y[1:2, 3:], run(x[1:2, 3:]), **TOLERANCE)
    y.square().sum().backward()
    assert bool(y.isfinite().all()) and bool(x.grad.isfinite().all())
    assert all(bool(p.grad.isfinite().all()) for p in module.parameters())
    assert torch.equal(x.grad[0], torch.zeros(6, 32))


# --- symmetries


@few
@given(order=st.permutations(range(6)))
def test_without_mask_and_positions_order_is_invisible(order):
    """Permuting the inputs permutes the outputs. Catches: any use of the index."""
    module, x = attention(causal=False), normal(2, 6, 32)
    torch.testing.assert_close(module(x[:, order]), module(x)[:, order], **TOLERANCE)


def test_a_row_is_the_same_alone_and_in_a_batch():
    """Catches: batch and head axes mixed up in a reshape."""
    module, x = attention(n_kv_heads=2), normal(4, 6, 32)
    torch.testing.assert_close(module(x)[2:3], module(x[2:3]), **TOLERANCE)


def test_head_width_need_not_be_d_model_over_heads():
    """Catches: head_dim computed again from d_model (Qwen3 and Gemma set it apart)."""
    module = attention(head_dim=16, n_kv_heads=2)
    assert module.qkv.weight.shape == ((4 + 2 * 2) * 16, 32)
    assert module.out.weight.shape == (32, 64)
    causal = torch.ones(2, 5, 5, dtype=torch.bool).tril()
    x = normal(2, 5, 32)
    torch.testing.assert_close(module(x), by_hand(module, x, causal), **TOLERANCE)


# --- dropout


@pytest.mark.parametrize("masked", [True, False])
def test_dropout_stops_in_evaluation(masked):
    """Twice the same, and the same as without dropout; in training the two calls differ.

    Catches: the functional form, which drops out whatever the mode.
    """
    module, plain, x = attention(dropout=0.5), attention(), normal(2, 6, 32)
    mask = torch.ones(2, 1, 1, 6, dtype=torch.bool) if masked else None
    assert torch.equal(module(x, mask=mask), module(x, mask=mask))
    torch.testing.assert_close(module(x, mask=mask), plain(x, mask=mask), **TOLERANCE)
    module.train()
    assert not torch.equal(module(x, mask=mask), module(x, mask=mask))


def test_biases_follow_the_config():
    """Catches: `bias` and `qkv_bias` exchanged (Qwen2 has the second without the first)."""
    only_qkv = attention(qkv_bias=True)
    assert only_qkv.qkv.bias is not None and only_qkv.out.bias is None
    neither = attention()
    assert neither.qkv.bias is None and neither.out.bias is None
