"""The probes report what the model computes, and leave it as it was."""

import pytest
import torch
from helpers import ids, loud, normal, one_line, tiny, tiny_lm

from tfcourse.architectures import EncoderDecoder
from tfcourse.losses import IGNORE
from tfcourse.probes import (
    attention_weights,
    attribute_logits,
    decompose,
    mean_cosine,
    measure_stream,
    mlp_activations,
    part_names,
    record_stream,
)

VARIANTS = [
    dict(),
    dict(norm="rmsnorm", tie_embeddings=False),
    dict(residual_decay=0.8, head_bias=True),
    dict(residual=False),
    dict(attention=False),
    dict(n_layers=0),
    dict(dropout=0.5, embedding_scale=True),
]


@pytest.mark.parametrize("fields", VARIANTS)
def test_the_parts_add_up_to_what_the_final_norm_reads(fields):
    """Catches: a branch left out; increments weighted by α to the wrong power."""
    model, tokens = tiny_lm(**fields), ids(2, 7)
    parts = decompose(model, tokens)
    last = parts.sum(dim=0)
    torch.testing.assert_close(last, record_stream(model, tokens)[-1], atol=1e-4, rtol=1e-4)
    hidden = model.stack.final_norm(last)
    torch.testing.assert_close(hidden, model.hidden(tokens), atol=1e-4, rtol=1e-4)
    assert len(parts) == len(part_names(model))


@pytest.mark.parametrize("fields", VARIANTS)
def test_the_shares_of_a_logit_add_up_to_the_logit(fields):
    """Catches: the norm's shift or the head's bias forgotten; parts not centred for a LayerNorm."""
    model, tokens = tiny_lm(**fields), ids(2, 7)
    shares = attribute_logits(model, tokens)
    assert list(shares) == [*part_names(model), "shift"]
    total = sum(shares.values())
    torch.testing.assert_close(total, model(tokens)[:, -1], atol=1e-4, rtol=1e-4)


def test_parts_are_named_in_the_order_in_which_they_write():
    """Catches: attention and MLP swapped; branches that are switched off still named."""
    assert part_names(tiny_lm(n_layers=2)) == [
        *("embedding", "attention 1", "MLP 1", "attention 2", "MLP 2")
    ]
    assert part_names(tiny_lm(n_layers=2, attention=False)) == ["embedding", "MLP 1", "MLP 2"]


def test_the_first_part_is_the_embedding_with_its_positions():
    """Catches: the stream recorded before positions are added."""
    model, tokens = tiny_lm(), ids(2, 7)
    expected = model.stack.embedding(tokens) + model.stack.positions.embedding.weight[:7]
    torch.testing.assert_close(record_stream(model, tokens)[0], expected)
    torch.testing.assert_close(decompose(model, tokens)[0], expected)


def test_a_post_norm_stream_is_refused_by_name():
    """Catches: parts of a stream that is no sum, handed out as if it were."""
    with pytest.raises(ValueError) as error:
        decompose(tiny_lm(norm_position="post"), ids(1, 3))
    one_line(error.value, "norm_position='post'", "pre-norm")


def test_mean_cosine_of_known_vectors():
    """Catches: a position compared with itself; sizes that matter; pairs counted twice."""
    alike = torch.tensor([[[1.0, 2.0], [3.0, 6.0], [0.1, 0.2]]])
    right_angle = torch.tensor([[[1.0, 0.0], [0.0, 5.0]]])
    two_rows = torch.cat([alike[:, :2], right_angle])
    assert mean_cosine(alike) == pytest.approx(1.0)
    assert mean_cosine(right_angle) == pytest.approx(0.0)
    assert mean_cosine(two_rows) == pytest.approx(0.5)
    assert mean_cosine(1e-30 * alike) == pytest.approx(1.0)  # squares underflow to 0
    x = normal(2, 5, 8)
    pairs = [torch.cosine_similarity(x[b, i], x[b, j], dim=0)
             for b in range(2) for i in range(5) for j in range(5) if i != j]  # fmt: skip
    assert mean_cosine(x) == pytest.approx(float(torch.stack(pairs).mean()), abs=1e-5)


def test_mean_cosine_of_a_single_position_is_an_error():
    """Catches: 0/0 returned as NaN."""
    with pytest.raises(ValueError) as error:
        mean_cosine(normal(2, 1, 8))
    one_line(error.value, "1 positions", "at least 2")


def test_where_there_is_no_gradient_nothing_is_measured():
    """Catches: an error of autograd's about tensors that the reader has not given."""
    frozen = tiny_lm().requires_grad_(False)
    frozen.head.weight.requires_grad_()
    for model in (tiny_lm(n_layers=0), frozen):
        with pytest.raises(ValueError) as error:
            measure_stream(model, ids(2, 5), ids(2, 5))
        one_line(error.value, "n_layers=0", "frozen")


@pytest.mark.parametrize("norm", ["layernorm", "rmsnorm"])
def test_logits_are_attributed_in_bfloat16_too(norm):
    """Catches: parts that are raised to float32, which no product with the head takes."""
    model, tokens = tiny_lm(norm=norm).bfloat16(), ids(2, 7)
    shares = attribute_logits(model, tokens)
    want = model(tokens)[:, -1]
    total = torch.stack(list(shares.values())).sum(dim=0)
    assert total.dtype == torch.bfloat16
    torch.testing.assert_close(total, want, atol=0.05 * float(want.detach().std()), rtol=0)


@pytest.mark.parametrize("fields", [dict(), dict(residual=False), dict(mlp=False, n_kv_heads=1)])
def test_measure_stream_agrees_with_plain_autograd(fields):
    """Catches: gradients of the wrong stream or rows; streams inside a block counted as blocks."""
    model, tokens = tiny_lm(n_layers=3, **fields), ids(2, 9)
    inputs, targets = tokens[:, :-1], tokens[:, 1:].clone()
    targets[0, 5:] = IGNORE
    run = measure_stream(model, inputs, targets)

    streams = []
    for block in model.stack.blocks:
        block.register_forward_pre_hook(lambda _, args: streams.append(args[0]))
    model.stack.final_norm.register_forward_pre_hook(lambda _, args: streams.append(args[0]))
    loss = model.loss(inputs, targets)
    loss.backward()
    assert run["depth"] == 3
    assert run["cosine"] == pytest.approx([mean_cosine(x.detach()) for x in streams], abs=1e-5)
    rms = [float(x.detach().square().mean().sqrt()) for x in streams]
    assert run["stream_rms"] == pytest.approx(rms, rel=1e-4)
    weights = [
        sum(float(p.grad.square().sum()) for p in block.parameters()) ** 0.5
        for block in model.stack.blocks
    ]
    assert run["weight_gradient"] == pytest.approx(weights, rel=1e-4)
    sublayers = [block.attention.sublayer for block in model.stack.blocks]
    choosing = [s.qkv.weight.grad[: s.widths[0] + s.widths[1]] for s in sublayers]
    assert run["query_key_gradient"] == pytest.approx([float(g.norm()) for g in choosing], rel=1e-4)


def test_without_attention_nothing_asks_or_answers():
    """Catches: a probe that looks for queries where there are none."""
    tokens = ids(1, 5)
    run = measure_stream(tiny_lm(n_layers=2, attention=False), tokens[:, :-1], tokens[:, 1:])
    assert run["query_key_gradient"] == [0.0, 0.0]


def test_probes_leave_the_model_as_it_was():
    """Catches: hooks that stay, gradients left behind, a model switched to evaluation."""
    model, tokens = tiny_lm(dropout=0.3), ids(2, 9)
    model.train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    measure_stream(model, tokens[:, :-1], tokens[:, 1:])
    attribute_logits(model, tokens)
    record_stream(model, tokens)
    attention_weights(model, tokens)
    mlp_activations(model, tokens)
    assert model.training
    assert not any(module._forward_hooks for module in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_probes_see_the_model_without_dropout():
    """Catches: a probe in training mode, whose numbers change from call to call."""
    model, tokens = tiny_lm(dropout=0.5), ids(2, 9)
    model.train()
    torch.testing.assert_close(record_stream(model, tokens), record_stream(model, tokens))


@pytest.mark.parametrize("fields", [{}, {"n_kv_heads": 2, "position": "rope"}])
def test_attention_weights_are_those_that_the_output_was_mixed_with(fields):
    """Catches: weights of a layer without its mask or its rotation; two layers under one name."""
    model, tokens = tiny_lm(n_layers=2, **fields), ids(2, 7)
    mask = torch.arange(7) < torch.tensor([[7], [4]])
    weights = attention_weights(model, tokens, mask)
    assert list(weights) == [f"stack.blocks.{i}.attention.sublayer" for i in (0, 1)]
    for block, found in zip(model.stack.blocks, weights.values(), strict=True):
        assert found.shape == (2, 4, 7, 7)
        torch.testing.assert_close(found.sum(dim=-1), torch.ones(2, 4, 7))
        assert (found.triu(1) == 0).all() and (found[1, :, :, 4:] == 0).all()
        sublayer, seen = block.attention.sublayer, []

        def look(layer, args, options, output, seen=seen):
            seen.extend((layer._heads(args[0], options["rotate"], None, None)[2], output))

        with sublayer.register_forward_hook(look, with_kwargs=True):
            model(tokens, mask)
        values, made = seen
        values = values.repeat_interleave(4 // values.shape[1], dim=1)
        mixed = (found @ values).transpose(1, 2).flatten(2)
        torch.testing.assert_close(sublayer.out(mixed), made, atol=1e-5, rtol=1e-5)


def test_attention_weights_of_an_encoder_decoder_include_what_it_reads():
    """Catches: cross-attention that is looked at as if it read its own positions."""
    config = tiny(n_layers=1)
    model = loud(EncoderDecoder(config)).eval()
    weights = attention_weights(model, ids(2, 5), ids(2, 9, seed=1))
    shapes = {name: tuple(w.shape[2:]) for name, w in weights.items()}
    assert shapes == {
        "encoder.blocks.0.attention.sublayer": (9, 9),
        "decoder.blocks.0.attention.sublayer": (5, 5),
        "decoder.blocks.0.cross.sublayer": (5, 9),
    }


@pytest.mark.parametrize("activation", ["relu", "swiglu"])
def test_mlp_activations_are_what_the_last_matrix_is_multiplied_with(activation):
    """Catches: values before the activation; those of another layer."""
    model, tokens = tiny_lm(n_layers=2, activation=activation, bias=False), ids(2, 6)
    rows = mlp_activations(model, tokens)
    assert list(rows) == [f"stack.blocks.{i}.feed_forward.sublayer" for i in (0, 1)]
    stream = record_stream(model, tokens)
    for i, values in enumerate(rows.values()):
        layer = model.stack.blocks[i].feed_forward.sublayer
        assert values.shape == (2, 6, layer.down.in_features)
        change = stream[2 * i + 2] - stream[2 * i + 1]
        torch.testing.assert_close(values @ layer.down.weight.T, change, atol=1e-4, rtol=1e-4)
    if activation == "relu":
        assert min(float(values.min()) for values in rows.values()) == 0.0
