"""The stack tracer holds what the model computes, and refuses what it cannot show."""

from __future__ import annotations

import json
import math

import pytest
import torch
from helpers import ids, tiny, tiny_lm
from torch import Tensor

from tfcourse.architectures import DecoderLM
from tfcourse.widgets import StackTracer
from tfcourse.widgets.stack_tracer import FINE, pack, read_early, trace, unpack


def named(token: int) -> str:
    return f"w{token}"


def tracer(model: DecoderLM, **texts) -> StackTracer:
    return StackTracer(model, texts or {"a": [1, 2, 3], "b": [4, 5, 6, 7]}, named)


def seen_by_hooks(model: DecoderLM, tokens: Tensor) -> dict[str, Tensor]:
    """Run the model once and keep what each of its modules returned, by name."""
    seen: dict[str, Tensor] = {}
    handles = [
        module.register_forward_hook(lambda m, i, out, name=name: seen.__setitem__(name, out[0]))
        for name, module in model.named_modules()
        if name
    ]
    model(tokens)
    for handle in handles:
        handle.remove()
    return seen


@pytest.mark.parametrize("position", ["learned", "sinusoidal", "rope", "none"])
@pytest.mark.parametrize("activation", ["gelu", "swiglu"])
def test_every_stage_is_what_a_module_of_the_model_returned(position, activation):
    """Tolerance: the probes add up in another order, 1e-5.

    Catches: a norm applied to the stream after the branch; an update shown as the stream; the
    blocks' order turned round; the final norm left out before the logits.
    """
    torch.manual_seed(0)
    model = tiny_lm(position=position, activation=activation, n_layers=2)
    tokens = ids(1, 6)
    seen, stages = seen_by_hooks(model, tokens), trace(model, tokens)
    expected = ["embedding"]
    if position in ("learned", "sinusoidal"):
        expected.append("positions")
    for i in (0, 1):
        at = f"blocks.{i}."
        expected += [at + "attention.norm", at + "attention.sublayer.qkv", None]
        expected += [at + "attention.dropout", at + "attention"]
        expected += [at + "feed_forward.norm", None]
        expected += [at + "feed_forward.dropout", at + "feed_forward"]
    expected = [name and f"stack.{name}" for name in expected] + ["stack.final_norm", "head"]
    assert stages[0].values.tolist() == tokens[0].tolist()
    assert len(stages) == len(expected) + 2
    for stage, name in zip(stages[1:-1], expected, strict=True):
        if name == "stack.positions":
            name = "stack.dropout"  # the sum leaves through dropout, which is off
        if name:
            torch.testing.assert_close(stage.values, seen[name], atol=1e-5, rtol=1e-5)
    weights = [stage.values for stage in stages if stage.kind == "weights"]
    for w in weights:
        torch.testing.assert_close(w.sum(dim=-1), torch.ones(w.shape[:2]))
        assert torch.count_nonzero(w.triu(diagonal=1)) == 0
    for i, stage in enumerate(s for s in stages if s.kind == "hidden"):
        down = model.stack.blocks[i].feed_forward.sublayer.down
        update = seen[f"stack.blocks.{i}.feed_forward.sublayer"]
        torch.testing.assert_close(down(stage.values), update, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(stages[-1].values, model(tokens)[0].softmax(dim=-1))


@pytest.mark.parametrize("levels", [2047, FINE])
def test_what_is_packed_comes_back_to_half_a_level(levels):
    """Catches: 8 bits; bytes in another order; a scale of one row used for all; a lost shape."""
    torch.manual_seed(0)
    for values in (torch.randn(3, 5, 7), torch.zeros(2, 2), torch.tensor([1.0, 362.0])):
        back = unpack(json.loads(json.dumps(pack(values, levels))))
        assert back.shape == values.shape
        assert (back - values).abs().max() <= 0.501 / levels * values.abs().max()


def test_ids_weights_and_probabilities_are_kept_finely():
    """Catches: an id that comes back as its neighbour; weights that add up to 1.01."""
    widget, tokens = tracer(tiny_lm(), a=list(range(1, 9))), torch.arange(1, 9)
    stages = zip(widget.stages, trace(tiny_lm(), tokens[None]), strict=True)
    for (stage, true), packed in zip(stages, widget.texts[0]["tensors"], strict=True):
        error = float((unpack(packed) - true.values).abs().max() / true.values.abs().max())
        assert error <= (1.6e-5 if stage["kind"] in ("ids", "weights", "probabilities") else 2.5e-4)


def test_the_guess_at_the_last_stream_is_the_models_own_prediction():
    """Catches: a lens without the final norm, or one that reads another position."""
    torch.manual_seed(0)
    model, tokens = tiny_lm(n_layers=2), ids(1, 6)
    widget = tracer(model, a=tokens[0].tolist())
    last = [look for look in widget.texts[0]["guesses"] if look][-1]
    p = model(tokens)[0].softmax(dim=-1)
    for row, best in zip(p, last, strict=True):
        assert best[0][0] == int(row.argmax())
        assert [q for _, q in best] == pytest.approx(row.topk(3).values.tolist(), abs=1e-4)
    chances = [look for look in widget.texts[0]["chances"] if look]
    assert chances[-1] == pytest.approx(p.max(dim=-1).values.tolist(), abs=1e-4)
    early = read_early(model, trace(model, tokens)[1].values)
    assert chances[0] == pytest.approx(early[range(6), p.argmax(dim=-1)].tolist(), abs=1e-4)


def test_dropout_is_off_while_a_text_is_traced():
    """Catches: a trace of a model in training mode that drops features."""
    model = tiny_lm(dropout=0.5).train()
    first, second = (trace(model, ids(1, 4))[-1].values for _ in range(2))
    assert torch.equal(first, second) and model.training


def test_it_starts_at_the_embedding_and_looks_at_the_last_word():
    """Catches: a start at the end, or at the first word of which nothing can be said."""
    widget = tracer(tiny_lm())
    assert (widget.text, widget.stage, widget.row) == (0, 1, 2)
    assert widget.words[3] == "w3" and widget.stages[1]["name"] == "embedding"


def test_it_refuses_what_it_cannot_show():
    """Catches: each of the checks taken out (its own line turns red)."""
    with pytest.raises(ValueError, match="texts has no text, or an empty one"):
        StackTracer(tiny_lm(), {}, named)
    with pytest.raises(ValueError, match="texts has no text, or an empty one"):
        tracer(tiny_lm(), a=[1], b=[])
    with pytest.raises(ValueError, match="use a pre-norm model"):
        tracer(DecoderLM(tiny(norm_position="post")))
    widget = tracer(tiny_lm())
    for name, value in (("text", 2), ("row", 4), ("stage", len(widget.stages))):
        with pytest.raises(
            ValueError, match=f"{name}={value}; give a number from 0 to {value - 1}"
        ):
            setattr(widget, name, value)


def test_the_state_is_plain_json_and_small():
    """Catches: tensors sent as decimal numbers, which take three times as much."""
    state = tracer(tiny_lm(), a=list(range(1, 9))).get_state()
    state.pop("layout")
    numbers = sum(math.prod(t["shape"]) for t in state["texts"][0]["tensors"])
    assert len(json.dumps(state["texts"])) < 3 * numbers + 20_000
