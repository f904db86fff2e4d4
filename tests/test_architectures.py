"""The decoder: causal, tied where it says so, and counted right."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from helpers import few, ids, tiny, tiny_lm
from hypothesis import given
from hypothesis import strategies as st

from tfcourse.architectures import DecoderLM
from tfcourse.config import ModelConfig
from tfcourse.losses import IGNORE

TOLERANCE = dict(atol=1e-5, rtol=1e-5)
SHAPES = [
    {},
    dict(norm="rmsnorm", norm_position="post", position="sinusoidal", bias=True),
    dict(position="rope", n_kv_heads=2, activation="swiglu", tie_embeddings=False),
    dict(position="none", norm_position="post", embedding_scale=True, head_bias=True),
]


# --- what a position can know


@few
@given(position=st.integers(1, 9), shape=st.sampled_from(SHAPES), seed=st.integers(0, 9))
def test_changing_a_later_token_leaves_earlier_logits_alone(position, shape, seed):
    """Bit-equal in float32 on a CPU. Catches: a leak of one position; a norm over the sequence."""
    model, tokens = tiny_lm(**shape), ids(2, 10, seed=seed)
    other = tokens.clone()
    other[:, position:] = (other[:, position:] + 1) % 50
    before, after = model(tokens), model(other)
    assert torch.equal(before[:, :position], after[:, :position])
    assert not torch.equal(before[:, position:], after[:, position:])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gradients_do_not_flow_from_a_later_token(shape):
    """The loss at position 4 moves no embedding of a token that stands only behind it.

    Catches: a leak that happens to be zero in the forward pass.
    """
    model = tiny_lm(**{**shape, "tie_embeddings": False})
    tokens = torch.arange(8).unsqueeze(0)
    model(tokens)[0, 4].logsumexp(dim=0).backward()
    moved = model.stack.embedding.weight.grad.abs().sum(dim=1)[:8] > 0
    assert moved.tolist() == [True] * 5 + [False] * 3


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_row_is_the_same_alone_and_in_a_batch(shape):
    """Catches: rows of a batch that mix."""
    model, tokens = tiny_lm(**shape), ids(4, 9)
    torch.testing.assert_close(model(tokens)[1:2], model(tokens[1:2]), **TOLERANCE)


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_changes_no_logit(side):
    """Catches: a padding mask that does not reach the stack."""
    model, row = tiny_lm(position="rope"), ids(1, 5)
    fill, real = torch.zeros(1, 3, dtype=torch.long), torch.ones(1, 8, dtype=torch.bool)
    parts = (fill, row) if side == "left" else (row, fill)
    place = slice(3, 8) if side == "left" else slice(0, 5)
    real[:, :3] = side == "right"
    real[:, 5:] = side == "left" and real[:, 5:]
    if side == "right":
        real[:, 5:] = False
    got = model(torch.cat(parts, dim=1), padding_mask=real)[:, place]
    torch.testing.assert_close(got, model(row), **TOLERANCE)


def test_without_positions_and_mask_the_order_of_tokens_is_invisible():
    """Permuting the tokens permutes the logits. Catches: any hidden use of the index."""
    model, tokens = tiny_lm(position="none", causal=False), ids(2, 6)
    order = [3, 0, 5, 1, 4, 2]
    torch.testing.assert_close(model(tokens[:, order]), model(tokens)[:, order], **TOLERANCE)


# --- the loss


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_loss_is_the_cross_entropy_of_the_logits(shape):
    """Position t predicts the token that follows it, within its own row; by hand from logits.

    Catches: targets shifted a second time; the last target of a row taken from the next row.
    """
    model, tokens = tiny_lm(**shape), torch.tensor([[0, 1, 2, 3], [9, 8, 7, 6]])
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    log_p = model(inputs).log_softmax(dim=-1)
    by_hand = [-log_p[row, t, tokens[row, t + 1]] for row in range(2) for t in range(3)]
    want = torch.stack(by_hand)
    torch.testing.assert_close(model.loss(inputs, targets), want.mean(), **TOLERANCE)
    torch.testing.assert_close(model.loss(inputs, targets, "sum"), want.sum(), **TOLERANCE)
    none = model.loss(inputs, targets, "none")
    torch.testing.assert_close(none, want.view(2, 3), **TOLERANCE)


def test_padding_on_the_right_leaves_the_loss_alone():
    """Catches: padded positions counted; padding that is read."""
    model, tokens = tiny_lm(), ids(1, 7)
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    padded_inputs, padded_targets = F.pad(inputs, (0, 5)), F.pad(targets, (0, 5), value=IGNORE)
    got = model.loss(padded_inputs, padded_targets)
    torch.testing.assert_close(got, model.loss(inputs, targets), **TOLERANCE)


def test_hidden_is_what_the_head_reads():
    """Catches: `hidden` before the final norm."""
    model, tokens = tiny_lm(tie_embeddings=False, head_bias=True), ids(2, 5)
    torch.testing.assert_close(model.head(model.hidden(tokens)), model(tokens), **TOLERANCE)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_parameter_gets_a_gradient(shape):
    """Catches: a weight that is built and never used; a graph cut by detach."""
    model, tokens = tiny_lm(**shape), ids(4, 33)
    model.loss(tokens[:, :-1], tokens[:, 1:]).backward()
    dead = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert dead == []


# --- tied embeddings


def same_storage(model):
    return model.head.weight.data_ptr() == model.stack.embedding.weight.data_ptr()


def test_a_tied_head_stays_one_tensor_through_everything():
    """Step, copy, cast, state dict: always the same storage, equal values.

    Catches: a head that is a copy; a tie that `deepcopy`, `.to()` or loading undoes.
    """
    model, tokens = tiny_lm(), ids(2, 9)
    assert same_storage(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = model.head.weight.detach().clone()
    model.loss(tokens[:, :-1], tokens[:, 1:]).backward()
    optimizer.step()
    assert same_storage(model) and not torch.equal(model.head.weight, before)
    twin = copy.deepcopy(model)
    assert same_storage(twin) and twin.head.weight.data_ptr() != model.head.weight.data_ptr()
    assert same_storage(copy.deepcopy(model).to(torch.float64))
    fresh = DecoderLM(tiny())
    fresh.load_state_dict(model.state_dict())
    assert same_storage(fresh) and torch.equal(fresh(tokens), model.train()(tokens))


def test_a_tied_matrix_gets_the_gradients_of_both_uses():
    """Catches: a head that is detached from the embedding."""
    tied, apart = tiny_lm(), tiny_lm(tie_embeddings=False)
    apart.load_state_dict({**tied.state_dict()})
    tokens = ids(2, 9)
    for model in (tied, apart):
        model.loss(tokens[:, :-1], tokens[:, 1:]).backward()
    want = apart.head.weight.grad + apart.stack.embedding.weight.grad
    torch.testing.assert_close(tied.head.weight.grad, want, **TOLERANCE)


def test_an_untied_head_is_its_own_tensor():
    """Catches: `tie_embeddings` ignored."""
    model = tiny_lm(tie_embeddings=False)
    assert not same_storage(model)
    assert model.n_params() == tiny_lm().n_params() + 50 * 32


# --- counting


def test_the_worked_configuration_counts_19_661_824_parameters():
    """V 1000, d 512, 8 heads, d_ff 2048, 6 layers, 512 positions, tied, linear layers without bias.

    512,000 + 262,144 for the tables, per block 4·512² + 2·512·2048 + 4·512, and the last norm.
    Catches: biases that are there after all; a tied matrix counted twice; a missing final norm.
    """
    config = ModelConfig(
        vocab_size=1000, d_model=512, n_heads=8, d_ff=2048, n_layers=6, max_len=512
    )
    with torch.device("meta"):
        model = DecoderLM(config)
    assert model.n_params() == 19_661_824
    by_hand = 1512 * 512 + 6 * (4 * 512**2 + 2 * 512 * 2048 + 4 * 512) + 2 * 512
    assert model.n_params() == by_hand


@pytest.mark.parametrize(
    ("fields", "more"),
    [
        (dict(position="rope"), -32 * 32),
        (dict(position="sinusoidal"), -32 * 32),
        (dict(norm="rmsnorm"), -5 * 32),
        (dict(norm_position="post"), -2 * 32),
        (dict(n_kv_heads=1), -2 * 2 * 3 * 8 * 32),
        (dict(bias=True), 2 * (3 * 32 + 32 + 128 + 32)),
        (dict(qkv_bias=True), 2 * 3 * 32),
        (dict(head_bias=True), 50),
        (dict(attention=False), -2 * (4 * 32**2 + 2 * 32)),
        (dict(mlp=False), -2 * (2 * 32 * 128 + 2 * 32)),
    ],
    ids=str,
)
def test_each_switch_adds_or_removes_what_it_should(fields, more):
    """Catches: weights of a part that is switched off; key heads that are not shared."""
    assert DecoderLM(tiny(**fields)).n_params() == DecoderLM(tiny()).n_params() + more


# --- number formats and compilation


def test_a_bfloat16_model_agrees_with_float32():
    """Within 5 % of the logits' norm. Catches: a layer that refuses or degrades half precision."""
    model, tokens = tiny_lm(position="rope", norm="rmsnorm"), ids(2, 20)
    want = model(tokens)
    got = model.to(torch.bfloat16)(tokens)
    assert got.dtype == torch.bfloat16
    assert (got.float() - want).norm() < 0.05 * want.norm()


def test_construction_on_the_meta_device_draws_nothing():
    """Catches: an initialization that needs real memory (70 GB for a count)."""
    with torch.device("meta"):
        model = DecoderLM(tiny(d_model=8192, n_layers=2, n_heads=64, vocab_size=128_000))
    assert model.n_params() > 10**9
    assert all(p.is_meta for p in model.parameters())


@pytest.mark.nohook
@pytest.mark.slow
@pytest.mark.parametrize(
    "backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.accept)]
)
@pytest.mark.parametrize("shape", [SHAPES[0], SHAPES[2]], ids=str)
def test_compiled_loss_and_gradients_equal_the_eager_ones(shape, backend):
    """Catches: a graph that is traced wrong (the chunked loss, the checks of ids).

    Tracing is what this package can get wrong; generating machine code takes a minute.
    """
    model, tokens = tiny_lm(**shape), ids(2, 9)
    results = []
    for loss_function in (model.loss, torch.compile(model.loss, backend=backend)):
        model.zero_grad()
        loss = loss_function(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        results.append([loss.detach(), *(p.grad.clone() for p in model.parameters())])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)
    assert math.isfinite(results[0][0].item())


@pytest.mark.nohook
@pytest.mark.slow
@pytest.mark.parametrize("shape", [SHAPES[0], SHAPES[2]], ids=str)
def test_rows_of_all_lengths_share_one_compiled_program(shape):
    """Catches: a length, or a number of chunks, that is baked into the program."""
    torch.compiler.reset()  # it remembers which lengths other tests tried
    programs = []

    def count(graph, inputs):
        programs.append(graph)
        return graph.forward

    model = tiny_lm(**shape)
    loss_function = torch.compile(model.loss, backend=count)
    for length in (9, 5, 7, 6, 8, 4, 3):
        tokens = ids(2, length)
        loss = loss_function(tokens[:, :-1], tokens[:, 1:])
        torch.testing.assert_close(loss, model.loss(tokens[:, :-1], tokens[:, 1:]))
    assert len(programs) == 2  # one for the first length, one for every other
