"""Public checkpoints: what we read computes what the reference computes, and writes back.

Random weights, loud ones, so that a wrong place shows. Three mutations were tried on each family
and turn its parity red: one square matrix transposed, one position shifted, one mask flipped;
`test_parity_sees_*` repeat them.
"""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace

import pytest
import torch
import transformers
from helpers import ids, loud, normal, one_line
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from tfcourse import pretrained
from tfcourse.architectures import DecoderLM, Model
from tfcourse.families import FAMILIES
from tfcourse.pretrained import read_pretrained, to_hf, write_pretrained

TOLERANCE = dict(atol=1e-4, rtol=1e-4)
TEXT = dict(vocab_size=50)
WIDTHS = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48)
PAIR = dict(
    d_model=32, encoder_layers=2, decoder_layers=3, pad_token_id=0, decoder_start_token_id=0,
    encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48,
    max_position_embeddings=24, decoder_vocab_size=50,
)  # fmt: skip
SHAPES = [
    ("gpt2", dict(TEXT, n_embd=32, n_layer=2, n_head=4, n_positions=16)),
    ("gpt2", dict(TEXT, n_embd=48, n_layer=3, n_head=3, n_positions=24, n_inner=64)),
    ("llama", dict(TEXT, **WIDTHS, num_key_value_heads=2, max_position_embeddings=32)),
    ("llama", dict(TEXT, **WIDTHS, head_dim=12, rope_theta=500_000.0, tie_word_embeddings=True)),
    ("bert", dict(TEXT, **WIDTHS, max_position_embeddings=16)),
    ("bert", dict(TEXT, **WIDTHS | {"num_attention_heads": 2}, type_vocab_size=3)),
    ("vit", dict(WIDTHS, image_size=[16, 24], patch_size=8, num_channels=3)),
    ("vit", dict(WIDTHS, image_size=8, patch_size=2, num_channels=1, num_labels=10)),
    ("marian", dict(TEXT, **PAIR, activation_function="relu", scale_embedding=True)),
    ("marian", dict(TEXT, **PAIR, activation_function="swish")),
]
FIRST = [SHAPES[i] for i in range(0, len(SHAPES), 2)]
MODELS = {
    "gpt2": transformers.GPT2LMHeadModel,
    "llama": transformers.LlamaForCausalLM,
    "bert": transformers.BertForMaskedLM,
    "vit": transformers.ViTForImageClassification,
    "marian": transformers.MarianMTModel,
}


def reference(family: str, settings: dict) -> nn.Module:
    """Build Hugging Face's model with random weights; Marian's table of positions stays."""
    eos = {} if family in ("vit", "bert", "marian") else {"bos_token_id": 0, "eos_token_id": None}
    config = transformers.CONFIG_MAPPING[family](**settings, **eos)
    model = loud(MODELS[family](config)).eval()
    if family == "marian":
        for part in (model.model.encoder, model.model.decoder):
            part.embed_positions.weight.data = part.embed_positions.create_weight()
        model.final_logits_bias.copy_(0.3 * normal(1, 50, seed=5))
    return model


def inputs(family: str, settings: dict) -> dict[str, Tensor]:
    """Draw what the reference reads: rows of 7, 4 and 1 tokens, or two images."""
    if family == "vit":
        size = settings["image_size"]
        height, width = size if isinstance(size, list) else (size, size)
        return {"pixel_values": normal(2, settings["num_channels"], height, width)}
    mask = torch.arange(7) < torch.tensor([[7], [4], [1]])
    given = {"input_ids": ids(3, 7), "attention_mask": mask.long()}
    if family == "bert":
        given["token_type_ids"] = ids(3, 7, vocab_size=2, seed=1)
    if family == "marian":
        given["decoder_input_ids"] = ids(3, 9, seed=2)
    return given


def ours(model: Model, family: str, given: dict[str, Tensor]) -> Tensor:
    """Ask our model the same."""
    if family == "vit":
        return model(given["pixel_values"])
    mask = given["attention_mask"].bool()
    if family == "marian":
        return model(given["decoder_input_ids"], given["input_ids"], source_mask=mask)
    types = (given["token_type_ids"],) if family == "bert" else ()
    return model(given["input_ids"], mask, *types)


def worst(model: Model, theirs: nn.Module, family: str, given: dict[str, Tensor]) -> float:
    """Return the largest difference of the logits at real positions, all positions of a row."""
    with torch.no_grad():
        difference = (ours(model, family, given) - theirs(**given).logits).abs()
    return float(real(difference, family, given).max())


def real(logits: Tensor, family: str, given: dict[str, Tensor]) -> Tensor:
    """Leave out the positions of padding, whose logits nobody reads."""
    if family in ("vit", "marian"):
        return logits
    return logits[given["attention_mask"].bool()]


@pytest.fixture(params=SHAPES, ids=lambda shape: shape[0])
def pair(request, tmp_path):
    family, settings = request.param
    theirs = reference(family, settings)
    theirs.save_pretrained(tmp_path)
    return family, theirs, read_pretrained(tmp_path), inputs(family, settings)


def test_logits_equal_the_reference_at_every_position(pair):
    """With padding on the right. Catches: any weight in a wrong place, another GELU, norm, ε."""
    family, theirs, model, given = pair
    assert worst(model, theirs, family, given) < 1e-4


def test_bfloat16_stays_near_the_float32_reference(pair):
    """Catches: a table or a norm that is computed in bfloat16."""
    family, theirs, model, given = pair
    with torch.no_grad():
        want = theirs(**given).logits
        given = {k: v.bfloat16() if v.is_floating_point() else v for k, v in given.items()}
        got = ours(model.bfloat16(), family, given)
    assert got.dtype == torch.bfloat16
    difference = real((got.float() - want).abs(), family, given)
    assert float(difference.mean()) < 0.03 * float(want.std())


def test_what_is_written_is_what_was_read(pair, tmp_path):
    """The reference loads our file without a missing or an unknown tensor.

    Catches: a transposition that is not undone; queries, keys and values cut at wrong rows.
    """
    family, theirs, model, given = pair
    write_pretrained(model, family, tmp_path / "ours")
    back, report = MODELS[family].from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not report["unexpected_keys"] and not report["mismatched_keys"]
    tied = ("lm_head.weight", "embed_tokens.weight", "cls.predictions.decoder")
    assert not [key for key in report["missing_keys"] if not any(t in key for t in tied)]
    want = theirs.state_dict()
    for name, tensor in back.state_dict().items():
        # Marian's fixed table is computed, theirs in float64.
        atol = 2e-6 if "embed_positions" in name else 0
        torch.testing.assert_close(tensor, want[name], atol=atol, rtol=0)
    again = read_pretrained(tmp_path / "ours")
    assert again.config == model.config
    assert worst(again, theirs, family, given) < 1e-4


def family_pair(family, settings, tmp_path):
    theirs = reference(family, settings)
    theirs.save_pretrained(tmp_path)
    return theirs, read_pretrained(tmp_path), inputs(family, settings)


@pytest.mark.parametrize(("family", "settings"), FIRST, ids=lambda x: x if type(x) is str else "")
def test_parity_sees_one_transposed_weight(family, settings, tmp_path):
    """Catches: a tolerance, or weights, that hide a wrong matrix."""
    theirs, model, given = family_pair(family, settings, tmp_path)
    with torch.no_grad():
        out = next(
            p for n, p in model.named_parameters() if n.endswith("0.attention.sublayer.out.weight")
        )
        out.copy_(out.T.clone())
    assert worst(model, theirs, family, given) > 1e-2


@pytest.mark.parametrize(("family", "settings"), FIRST, ids=lambda x: x if type(x) is str else "")
def test_parity_sees_one_shifted_position(family, settings, tmp_path, monkeypatch):
    """RoPE turns on distances alone, so there the keys are shifted against the queries."""
    theirs, model, given = family_pair(family, settings, tmp_path)
    with torch.no_grad():
        if family == "llama":
            attention = model.stack.blocks[0].attention.sublayer
            right = type(attention)._heads

            def shifted(self, *args):
                q, k, v = right(self, *args)
                return q, k.roll(1, dims=2), v

            monkeypatch.setattr(type(attention), "_heads", shifted)
        else:
            table = next(p for n, p in model.named_parameters() if "positions" in n)
            table.copy_(table.roll(1, dims=-2))
    assert worst(model, theirs, family, given) > 1e-2


@pytest.mark.parametrize(("family", "settings"), FIRST, ids=lambda x: x if type(x) is str else "")
def test_parity_sees_one_flipped_mask(family, settings, tmp_path):
    """A causal model without its rule, an encoder with it, or a source read where it is padded."""
    theirs, model, given = family_pair(family, settings, tmp_path)
    if family == "marian":
        given = given | {"attention_mask": torch.ones_like(given["attention_mask"])}
        right = inputs(family, settings)
        with torch.no_grad():
            wrong = ours(model, family, given) - theirs(**right).logits
        assert float(wrong.abs().max()) > 1e-2
        return
    attention = model.stack.blocks[0].attention.sublayer
    attention.causal = not attention.causal
    assert worst(model, theirs, family, given) > 1e-2


@pytest.mark.parametrize(
    ("family", "change", "named"),
    [
        ("llama", {"rope_parameters": {"rope_type": "llama3", "factor": 32}}, "rope_type='llama3'"),
        ("llama", {"hidden_act": "gelu"}, "hidden_act='gelu'"),
        ("gpt2", {"activation_function": "relu"}, "activation_function='relu'"),
        ("gpt2", {"n_embd": None}, "n_embd"),
        ("bert", {"position_embedding_type": "relative_key"}, "position_embedding_type"),
        ("vit", {"hidden_act": "gelu_new"}, "hidden_act='gelu_new'"),
        ("marian", {"decoder_ffn_dim": 7}, "decoder_ffn_dim=7"),
        ("bert", {"model_type": "deberta"}, "model_type='deberta'"),
    ],
)
def test_what_we_cannot_compute_is_refused_by_name(family, change, named, tmp_path):
    """Catches: a checkpoint that loads and computes something else."""
    settings = dict(SHAPES)[family]
    reference(family, settings).save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    config = json.loads(file.read_text()) | change
    file.write_text(json.dumps({k: v for k, v in config.items() if v is not None}))
    with pytest.raises(ValueError) as caught:
        read_pretrained(tmp_path)
    one_line(caught.value, named)


@pytest.mark.parametrize("damage", ["missing", "extra", "shape"])
def test_weights_that_do_not_fit_are_named(damage, tmp_path):
    """Catches: a hole that keeps its random start; a tensor that is dropped silently."""
    family, settings = SHAPES[0]
    reference(family, settings).save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    name = "transformer.h.1.mlp.c_fc.weight"
    if damage == "missing":
        del weights[name]
    elif damage == "extra":
        weights[name := "transformer.h.7.mlp.c_fc.weight"] = torch.zeros(2)
    else:
        weights[name] = weights[name].T.contiguous()
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.raises(ValueError) as caught:
        read_pretrained(tmp_path)
    one_line(caught.value, name)


def test_names_of_old_files_are_understood(tmp_path):
    """GPT-2's first file has no prefix and holds masks; BERT's says gamma and beta.

    Catches: the most used checkpoints of all, refused.
    """
    for family, settings in (SHAPES[0], SHAPES[4]):
        theirs = reference(family, settings)
        folder = tmp_path / family
        theirs.save_pretrained(folder)
        weights = load_file(folder / "model.safetensors")
        if family == "gpt2":
            weights = {name.removeprefix("transformer."): w for name, w in weights.items()}
            weights["h.0.attn.bias"] = torch.ones(1, 1, 16, 16)
        else:
            weights = {
                name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
                    "LayerNorm.bias", "LayerNorm.beta"
                ): w
                for name, w in weights.items()
            }
            weights["cls.seq_relationship.weight"] = torch.zeros(2, 32)
        save_file(weights, folder / "model.safetensors")
        model = read_pretrained(folder)
        assert worst(model, theirs, family, inputs(family, settings)) < 1e-4


def test_a_model_that_a_family_cannot_hold_is_not_written(tmp_path):
    """Catches: an export that drops what the family lacks."""
    family, settings = SHAPES[0]
    reference(family, settings).save_pretrained(tmp_path)
    model = read_pretrained(tmp_path)
    with pytest.raises(ValueError, match="bert holds the architecture Encoder, not DecoderLM"):
        to_hf(model, "bert")
    with pytest.raises(ValueError, match="llama has no"):
        to_hf(model, "llama")


def test_a_misspelt_name_in_a_table_is_named(tmp_path, monkeypatch):
    """Catches: a line of a table that fills nothing of ours, skipped without a word."""
    family, settings = SHAPES[0]
    reference(family, settings).save_pretrained(tmp_path)
    model = read_pretrained(tmp_path)
    wrong = {"stack.blocks.{i}.attention.nrom": "transformer.h.{i}.ln_1"}
    table = FAMILIES[family]
    monkeypatch.setitem(FAMILIES, family, replace(table, layers=wrong | table.layers))
    for use in (lambda: read_pretrained(tmp_path), lambda: to_hf(model, family)):
        with pytest.raises(ValueError) as caught:
            use()
        one_line(caught.value, "stack.blocks.{i}.attention.nrom")


def test_a_folder_without_a_checkpoint_is_named(tmp_path):
    """Catches: a path that is looked up on the network."""
    with pytest.raises(FileNotFoundError, match="is no folder"):
        read_pretrained(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError, match=r"config\.json"):
        read_pretrained(tmp_path)


def test_a_name_on_the_hub_may_hold_a_dot(tmp_path, monkeypatch):
    """Catches: ".1-8B" taken for the ending of a file, so that most public models are refused."""
    _, model, _ = family_pair(*FIRST[0], tmp_path)
    asked = []
    monkeypatch.setattr(pretrained, "_fetch", lambda name: asked.append(name) or tmp_path)
    again = read_pretrained("some-one/Llama-3.1-8B").state_dict()
    assert asked == ["some-one/Llama-3.1-8B"]
    assert all(torch.equal(w, again[n]) for n, w in model.state_dict().items())
    with pytest.raises(FileNotFoundError, match="is no folder"):
        read_pretrained("folder/model.safetensors")


FAULTS = {
    "weights cut": lambda f: (f / "model.safetensors").write_bytes(
        (f / "model.safetensors").read_bytes()[:-100]
    ),
    "weights empty": lambda f: (f / "model.safetensors").write_bytes(b""),
    "settings cut": lambda f: (f / "config.json").write_text('{"model_type": '),
    "settings a list": lambda f: (f / "config.json").write_text("[]"),
    "settings with a list": lambda f: change(f, model_type=["gpt2"]),
    "settings of another type": lambda f: change(f, n_embd="16"),
}


def change(folder, **settings):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))


@pytest.mark.nohook
@pytest.mark.parametrize("fault", FAULTS)
def test_a_damaged_file_is_an_error_of_one_line(fault, tmp_path):
    """Catches: the reader's own errors, which name no file and have many types."""
    family_pair(*FIRST[0], tmp_path)
    FAULTS[fault](tmp_path)
    with pytest.raises((ValueError, TypeError)) as error:
        read_pretrained(tmp_path)
    one_line(error.value)


def test_settings_may_begin_with_a_byte_order_mark(tmp_path):
    """As some editors on Windows save them. Catches: a file that looks right and is refused."""
    _, model, _ = family_pair(*FIRST[0], tmp_path)
    path = tmp_path / "config.json"
    path.write_text(path.read_text(encoding="utf-8"), encoding="utf-8-sig")
    again = read_pretrained(tmp_path)
    assert again.config == model.config
    assert all(torch.equal(w, again.state_dict()[n]) for n, w in model.state_dict().items())


def test_a_file_of_weights_stands_for_itself(tmp_path):
    """Catches: a `.safetensors` file that is taken for a name on the hub."""
    _, model, _ = family_pair(*FIRST[0], tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "other.safetensors")
    again = read_pretrained(tmp_path / "other.safetensors").state_dict()
    assert all(torch.equal(w, again[n]) for n, w in model.state_dict().items())


def test_a_head_that_is_not_the_embedding_is_not_dropped(tmp_path):
    """Catches: another head than the embedding, left out because the config says that it is tied.

    The reference implementation uses such a head, so our logits would be others.
    """
    family_pair(*FIRST[0], tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    embedding = weights["transformer.wte.weight"]
    save_file(weights | {"lm_head.weight": embedding.clone()}, tmp_path / "model.safetensors")
    read_pretrained(tmp_path)
    save_file(weights | {"lm_head.weight": embedding + 1}, tmp_path / "model.safetensors")
    with pytest.raises(ValueError) as error:
        read_pretrained(tmp_path)
    one_line(error.value, "lm_head.weight", "tie_word_embeddings")


@pytest.mark.parametrize("name", ["lm_head.weight", "model.encoder.embed_tokens.weight"])
def test_a_copy_of_a_shared_matrix_is_compared_with_it(name, tmp_path):
    """Catches: a KeyError, since an encoder-decoder has no `stack`; a copy with values of its own.

    The reference implementation computes with such a copy, so our logits would be others.
    """
    family_pair("marian", dict(SHAPES)["marian"], tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    shared = weights["model.shared.weight"]
    save_file(weights | {name: shared.clone()}, tmp_path / "model.safetensors")
    read_pretrained(tmp_path)
    save_file(weights | {name: shared + 1}, tmp_path / "model.safetensors")
    with pytest.raises(ValueError) as error:
        read_pretrained(tmp_path)
    one_line(error.value, name, "tie_word_embeddings")


def test_a_vision_transformer_reads_images_larger_than_it_was_trained_on(tmp_path):
    """Catches: a limit for tokens that is applied to images, whose positions are interpolated."""
    settings = dict(WIDTHS, image_size=16, patch_size=8, num_channels=3)
    theirs, model, _ = family_pair("vit", settings, tmp_path)
    images = normal(2, 3, 32, 40)
    with torch.no_grad():
        want = theirs(images, interpolate_pos_encoding=True).logits
        torch.testing.assert_close(model(images), want, **TOLERANCE)


def test_quantized_weights_are_refused(tmp_path):
    """Catches: whole numbers that are read as if they were the weights."""
    family_pair(*FIRST[0], tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    weights = {n: w.to(torch.int8) if "c_fc.weight" in n else w for n, w in weights.items()}
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.raises(ValueError) as error:
        read_pretrained(tmp_path)
    one_line(error.value, "c_fc.weight", "torch.int8")


def test_a_full_disk_leaves_the_older_model_whole(tmp_path, monkeypatch):
    """Catches: new settings beside old weights."""
    _, model, _ = family_pair(*FIRST[0], tmp_path)
    write_pretrained(model, FIRST[0][0], tmp_path / "kept")
    other = DecoderLM(replace(model.config, d_ff=24))

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as error:
        write_pretrained(other, FIRST[0][0], tmp_path / "kept")
    one_line(error.value, "model.safetensors")
    kept = read_pretrained(tmp_path / "kept").state_dict()
    assert all(torch.equal(w, kept[n]) for n, w in model.state_dict().items())
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == [
        "config.json",
        "model.safetensors",
    ]
