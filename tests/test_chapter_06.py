"""Chapter 06: what its text, figures and widget say, recomputed from the package."""

from __future__ import annotations

import json
import re
from pathlib import Path

import notebooks
import pytest
import torch
from helpers import ids, loud, tiny
from torch import nn

from tfcourse.architectures import DecoderLM, Encoder, EncoderDecoder, VisionTransformer
from tfcourse.config import ModelConfig
from tfcourse.data.dates import LOCALES, DateData
from tfcourse.embeddings import TokenEmbedding
from tfcourse.figures.architectures import (
    draw_architectures,
    draw_attention_map,
    draw_patches,
    seen_tokens,
    trace,
)
from tfcourse.probes import attention_weights
from tfcourse.widgets import ThreeArchitectures
from tfcourse.widgets.architectures import describe

CHAPTER = Path(__file__).resolve().parent.parent / "chapters" / "06_architectures.ipynb"


def encoder_decoder(**fields) -> EncoderDecoder:
    return loud(EncoderDecoder(tiny(**fields))).eval()


def pair() -> tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
    """Return a target of 5 tokens, a source of 7 of which 2 are padding, and its mask."""
    source = ids(1, 7, seed=1).clamp(min=1)
    source[0, 5:] = 0
    return ids(1, 5), source, {"source_mask": source != 0}


# --- the picture of who reads whom


@pytest.mark.parametrize("norm_position", ["pre", "post"])
def test_every_cross_attention_is_handed_the_encoders_last_result(norm_position):
    """Catches: a decoder block that reads the encoder block beside it, or the source's embeddings;
    a trace that takes the last part for the maker of everything."""
    model = encoder_decoder(n_layers=3, norm_position=norm_position)
    target, source, options = pair()
    parts = {part.name: part for part in trace(model, target, source, **options)}
    last = "encoder.final_norm" if norm_position == "pre" else "encoder.blocks.2.feed_forward"
    readers = [part for part in parts.values() if part.source]
    assert [part.name for part in readers] == [f"decoder.blocks.{i}.cross" for i in range(3)]
    assert {part.source for part in readers} == {last}
    assert [part.reads for part in readers] == [f"decoder.blocks.{i}.attention" for i in range(3)]
    assert parts["decoder.blocks.1.attention"].reads == "decoder.blocks.0.feed_forward"
    assert parts["decoder.blocks.0.attention"].reads == "decoder.embedding"
    assert parts["head"].reads.startswith("decoder.")


@pytest.mark.parametrize("fields", [{}, {"position": "rope"}, {"position": "sinusoidal"}])
def test_a_trace_lists_the_parts_in_the_order_of_their_work(fields):
    """Whatever the positions are. Catches: a part named twice, or named after a step within it."""
    names = [part.label for part in trace(loud(DecoderLM(tiny(**fields))), ids(1, 5))]
    assert names == ["embedding", *["self-attention", "MLP"] * 2, "norm", "head"]
    image = tiny(n_classes=3, image_height=4, image_width=4, patch_size=2, pooling="mean")
    parts = trace(VisionTransformer(image), torch.zeros(1, 1, 4, 4))
    assert [part.label for part in parts][::6] == ["patches", "head"]
    assert parts[-1].reads == "stack.final_norm"


def test_a_trace_holds_the_models_own_weights_and_leaves_no_hook():
    """Catches: weights of another layer; a mode or a hook that stays."""
    model = loud(EncoderDecoder(tiny(dropout=0.5))).train()
    target, source, options = pair()
    weights = attention_weights(model, target, source, **options)
    for part in trace(model, target, source, **options):
        if part.weights is not None:
            torch.testing.assert_close(part.weights, weights[f"{part.name}.sublayer"][0].mean(0))
    seen_tokens(model, target, source, **options)
    assert model.training
    assert not any(module._forward_hooks for module in model.modules())


def test_the_tokens_that_had_a_part_are_those_whose_change_is_felt():
    """The gradient says the same as another word at that place does.

    Catches: the encoder's tokens and the decoder's swapped; a key credited with the query's tokens.
    """
    model = encoder_decoder(n_layers=2)
    target, source, options = pair()
    seen = seen_tokens(model, target, source, **options)

    def inputs_of_layers(target, source):
        found = {}

        def hook(name):
            def keep(module, args, context, output):
                other = context.get("source")
                found[name] = args[0][0], (args[0] if other is None else other)[0]

            return keep

        handles = [
            module.register_forward_hook(hook(name), with_kwargs=True)
            for name, module in model.named_modules()
            if name.endswith((".attention.sublayer", ".cross.sublayer"))
        ]
        with torch.no_grad():
            model(target, source, **options)
        for handle in handles:
            handle.remove()
        return found

    before = inputs_of_layers(target, source)
    assert {f"{name}.sublayer" for name in seen} == set(before)
    for token in range(12):
        changed = [source.clone(), target.clone()]
        which, place = (0, token) if token < 7 else (1, token - 7)
        changed[which][0, place] = (changed[which][0, place] + 1) % 50
        after = inputs_of_layers(changed[1], changed[0])
        for name, marks in seen.items():
            for side, kind in enumerate(("queries", "keys")):
                old, new = before[f"{name}.sublayer"][side], after[f"{name}.sublayer"][side]
                felt = (old - new).abs().amax(dim=-1) > 1e-6
                assert [m[token] == "1" for m in marks[kind]] == felt.tolist(), (name, kind, token)


def test_a_square_is_filled_where_the_weight_is_not_zero():
    """Catches: a triangle that is drawn whatever the model does; rows upside down."""
    model = loud(DecoderLM(tiny(n_layers=1)))
    parts = trace(model, ids(1, 4))
    (axes,) = draw_architectures([{"Decoder": parts}]).axes
    squares = [p for p in axes.patches if type(p).__name__ == "Rectangle"]
    assert len(squares) == 16
    place = sorted(squares, key=lambda p: (-round(p.get_y(), 6), p.get_x()))
    filled = [p.get_facecolor() != (1.0, 1.0, 1.0, 1.0) for p in place]
    assert torch.tensor(filled).view(4, 4).equal(torch.ones(4, 4).tril().bool())
    boxes = [text.get_text() for text in axes.texts if text.get_text() in {p.label for p in parts}]
    assert boxes == ["embedding", "self-attention", "MLP", "norm", "head"]


def test_cross_attention_gets_its_own_arrow_from_the_encoder():
    """Catches: Q, K and V all taken from below in every attention."""
    target, source, options = pair()
    parts = trace(encoder_decoder(n_layers=2), target, source, **options)
    (axes,) = draw_architectures([{"Both": parts}]).axes
    letters = [text.get_text() for text in axes.texts]
    assert [letters.count(word) for word in ("Q", "K, V", "Q, K, V")] == [2, 2, 4]


def test_a_map_and_patches_are_drawn_as_given():
    """Catches: a map transposed; patches numbered by columns."""
    weights = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.25, 0.75]])
    (axes,) = draw_attention_map(weights, ["a", "b"], ["x", "y", "z"], "").axes
    assert torch.equal(torch.tensor(axes.images[0].get_array().data), weights)
    assert [t.get_text() for t in axes.get_xticklabels()] == ["x", "y", "z"]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["a", "b"]
    (axes,) = draw_patches(torch.zeros(4, 6), 2).axes
    at = {text.get_text(): text.get_position() for text in axes.texts}
    assert len(at) == 6 and at["1"][0] > at["0"][0] and at["3"][1] > at["2"][1]


# --- the widget


@pytest.fixture(scope="module")
def state() -> dict:
    """The state of the chapter's widget, as it is stored in the notebook."""
    models = notebooks.read(CHAPTER).metadata.widgets[notebooks.STATE]["state"].values()
    (state,) = [m["state"] for m in models if "models" in m["state"]]
    return state


def chapters_models() -> list[dict]:
    """Build the three models of the chapter again, and their records."""
    words = ["PAD", "BOS", "le", "chat", "dort", "the", "cat", "sleeps"]
    sizes = dict(vocab_size=len(words), d_model=8, n_heads=1, n_layers=2, max_len=8)
    models = []
    for architecture in (Encoder, DecoderLM, EncoderDecoder):
        torch.manual_seed(0)
        model = architecture(ModelConfig(**sizes))
        for weight in model.parameters():
            if weight.dim() > 1:
                nn.init.normal_(weight, std=0.3)
        models.append(model)
    source, target = torch.tensor([[2, 3, 4, 0, 0]]), torch.tensor([[1, 5, 6, 7]])
    french, english = ([words[i] for i in row[0]] for row in (source, target))
    return [
        describe(models[0], "Encoder", {"text": french}, source, padding_mask=source != 0),
        describe(models[1], "Decoder", {"text": english}, target),
        describe(
            models[2],
            "Encoder–decoder",
            {"source": french, "target": english},
            target,
            source,
            source_mask=source != 0,
        ),
    ]


def test_the_widget_shows_what_the_models_do(state):
    """Catches: a widget that was not stored again after a change of the model or of the trace."""
    for stored, now in zip(state["models"], chapters_models(), strict=True):
        assert {k: v for k, v in stored.items() if k != "layers"} == {
            k: v for k, v in now.items() if k != "layers"
        }
        for a, b in zip(stored["layers"], now["layers"], strict=True):
            assert {k: v for k, v in a.items() if k != "weights"} == {
                k: v for k, v in b.items() if k != "weights"
            }
            torch.testing.assert_close(
                torch.tensor(a["weights"]), torch.tensor(b["weights"]), atol=1e-4, rtol=1e-3
            )


def test_the_three_masks_are_those_of_the_table(state):
    """Everyone reads everyone but PAD; a triangle; a rectangle. Catches: models swapped."""
    encoder, decoder, both = state["models"]

    def allowed(layer):
        return torch.tensor(layer["weights"]) > 0

    no_pad = torch.tensor([True, True, True, False, False])
    for layer in (*encoder["layers"], *both["layers"][:2]):
        assert allowed(layer).equal(no_pad.expand(5, 5))
    triangle = torch.ones(4, 4).tril().bool()
    for layer in (*decoder["layers"], both["layers"][2], both["layers"][4]):
        assert allowed(layer).equal(triangle)
    for layer in (both["layers"][3], both["layers"][5]):
        assert allowed(layer).equal(no_pad.expand(4, 5))
        assert layer["key_from"] == "encoder.final_norm"
        assert layer["key_seen"][0] == "111000000"
    assert both["layers"][3]["query_seen"] == [f"00000{'1' * i:0<4}" for i in (1, 2, 3, 4)]
    assert decoder["layers"][1]["key_seen"] == [f"{'1' * i:0<4}" for i in (1, 2, 3, 4)]
    assert {m for m in encoder["layers"][0]["key_seen"]} == {f"{1 << i:05b}" for i in range(5)}


def test_the_widget_starts_at_a_key_of_cross_attention(state):
    """Catches: a start that teaches nothing new."""
    at = [state[name] for name in ("architecture", "layer", "follow", "position")]
    assert at == [2, 3, "key", 1]
    assert "cross" in state["models"][2]["layers"][3]["part"]


def test_the_stored_widget_carries_the_script_and_style_of_today(state):
    """Catches: a script edited without executing the chapter."""
    assert state["_esm"] == str(ThreeArchitectures._esm)
    assert state["_css"] == str(ThreeArchitectures._css)
    assert state["_esm"].count("export default") == 1
    assert len(json.dumps(state)) < 100_000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.pop("tokens"), r"models\[0\] has no 'tokens'"),
        (lambda r: r["layers"][0].pop("keys"), r"layers\[0\] has no 'keys'"),
        (lambda r: r["layers"][0]["weights"].pop(), r"weights has 3 rows; give 4"),
        (lambda r: r["layers"][1]["weights"][0].pop(), r"weights has 3 values; give 4"),
        (lambda r: r["layers"][0]["key_seen"].pop(), r"key_seen: give 4 texts of 4 marks"),
        (lambda r: r["layers"][0]["weights"].__setitem__(0, [2.0] * 4), "from 0 to 1"),
    ],
)
def test_the_widget_refuses_what_it_cannot_show(change, message):
    """Catches: any one of the checks taken out (its own line turns red)."""
    record = chapters_models()[1]
    change(record)
    with pytest.raises(ValueError, match=message):
        ThreeArchitectures([record])


def test_the_widget_refuses_what_is_not_there():
    """Catches: a menu set to a model that does not exist; nothing to show at all."""
    with pytest.raises(ValueError, match="models is empty"):
        ThreeArchitectures([])
    widget = ThreeArchitectures(chapters_models())
    with pytest.raises(ValueError, match="architecture=3; give a number from 0 to 2"):
        widget.architecture = 3


# --- what the text says


def test_the_chapters_dates_are_a_part_of_the_full_task():
    """Catches: locales or styles that are ignored, or that change the full task's data."""
    few = DateData(n_held_out=50, locales=("de", "fr"), styles=("long",))
    written = [few.decode(source) for source, _ in few._held_out]
    assert {text.split()[0] for text in written} == {"de", "fr"}
    assert not any(re.search(r"\d[./]\d\d[./]\d", text) for text in written)
    everything = DateData(n_held_out=300)
    assert {everything.decode(s).split()[0] for s, _ in everything._held_out} == set(LOCALES)


def test_a_model_of_one_stack_has_one_embedding():
    """What `seen_tokens` relies on. Catches: an embedding that is called twice in a pass."""
    counts = {DecoderLM: 1, Encoder: 1, EncoderDecoder: 2}
    for architecture, n in counts.items():
        modules = architecture(tiny()).modules()
        assert sum(isinstance(module, TokenEmbedding) for module in modules) == n


def text_of_the_chapter() -> str:
    return "\n".join(c.source for c in notebooks.read(CHAPTER).cells if c.cell_type == "markdown")


def test_every_row_of_the_table_of_tasks_names_a_source():
    """Catches: a row that only claims. The keys' being in `references.bib` the build checks."""
    section = text_of_the_chapter().split("## Which for which task")[1]
    rows = [line for line in section.splitlines() if line.startswith("| ")][2:]
    assert len(rows) == 4
    assert all("{cite" in row for row in rows)


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_the_hand_count_of_2017_is_that_of_the_model():
    """The text's table, formulas and numbers. Catches: a norm or a matrix that is not counted."""
    d, d_ff, text = 512, 2048, text_of_the_chapter()
    with torch.device("meta"):
        config = ModelConfig(
            vocab_size=1, d_model=d, n_layers=1, n_heads=8, d_ff=d_ff, norm_position="post"
        )
        model = EncoderDecoder(config)
    encoder = 4 * d**2 + 8 * d**2 + 2 * 2 * d
    decoder = 4 * d**2 + 4 * d**2 + 8 * d**2 + 3 * 2 * d
    assert count(model.encoder.blocks[0]) == encoder
    assert count(model.decoder.blocks[0]) == decoder
    for number in (encoder, decoder, 32_000 * d, 37_000 * d):
        assert f"{number:,}" in text
    total = 6 * (encoder + decoder) + 37_000 * d
    assert f"{total / 1e6:.2f}" == "63.01" and "63.01" in text
    everything = total + 6 * (4 * d + d_ff + d) + 6 * (8 * d + d_ff + d) + 512 * d
    assert f"{everything / 1e6:.2f}" == "63.34" and "63.34" in text
    assert 64.5e6 - everything > 1e6


def test_a_source_that_is_padded_and_masked_reads_as_if_alone():
    """Catches: a source mask that does not reach the encoder, or not the decoder."""
    model = encoder_decoder()
    target, source, _ = pair()
    alone = model(target, source[:, :5])
    masked = model(target, source, source_mask=source != 0)
    torch.testing.assert_close(masked, alone, atol=1e-5, rtol=1e-5)
    assert (model(target, source) - alone).abs().max() > 1e-2


def test_the_first_position_and_the_mean_differ_by_one_position():
    """16 patches, and one vector more before them. Catches: a CLS that replaces a patch."""
    for pooling, n in (("first", 17), ("mean", 16)):
        config = tiny(n_classes=3, image_height=8, image_width=8, patch_size=2, pooling=pooling)
        parts = trace(VisionTransformer(config), torch.zeros(1, 1, 8, 8))
        assert [p.weights.shape for p in parts if p.weights is not None] == [(n, n)] * 2
