"""A checkpoint is written whole, read without running code, and loaded strictly."""

import os
import pickle
import random
import zipfile

import numpy as np
import pytest
import torch
from counting import equal_weights
from helpers import ids, loud, one_line, tiny, tiny_lm

from tfcourse.architectures import DecoderLM, Model
from tfcourse.checkpoints import (
    CheckpointError,
    load_checkpoint,
    load_model,
    load_weights,
    rng_state,
    save_checkpoint,
    set_rng_state,
    strip_wrappers,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run" / "checkpoint.pt"


@pytest.fixture
def saved(path):
    save_checkpoint(path, tiny_lm(), step=7)
    return path


# --- what comes back


@pytest.mark.parametrize(
    "fields",
    [
        {},
        dict(tie_embeddings=False, bias=True, norm="rmsnorm", position="rope", n_kv_heads=2),
        dict(activation="swiglu", norm_position="post", head_bias=True, residual_decay=0.5),
    ],
    ids=str,
)
def test_a_model_comes_back_bit_for_bit_with_its_config(path, fields):
    """Catches: a derived field that is derived anew; weights rounded on the way."""
    model, tokens = tiny_lm(**fields), ids(2, 9)
    save_checkpoint(path, model, step=7)
    again, state = load_model(path)
    assert again.config == model.config and state["step"] == 7
    assert equal_weights(again, model)
    assert torch.equal(again.eval()(tokens), model(tokens))


def test_a_tied_matrix_is_stored_once_and_stays_tied(saved):
    """Catches: a file with two copies; a head that is a copy after loading."""
    model, _ = load_model(saved)
    assert model.head.weight.data_ptr() == model.stack.embedding.weight.data_ptr()
    untied = saved.with_name("untied.pt")
    save_checkpoint(untied, tiny_lm(tie_embeddings=False))
    # One matrix of 50 × 32 numbers of 4 bytes more.
    assert untied.stat().st_size - saved.stat().st_size >= 50 * 32 * 4


def test_a_folder_stands_for_the_checkpoint_in_it(saved):
    """Catches: a folder given to `torch.load`."""
    assert load_checkpoint(saved.parent)["step"] == 7


@pytest.mark.parametrize(
    "prefix", ["_orig_mod.", "module.", "_orig_mod.module.", "module._orig_mod."]
)
def test_wrappers_leave_no_trace_in_names(path, prefix):
    """On the way out and on the way in, alone and nested, whole model or one block.

    Catches: names that only a compiled or a distributed model can load.
    """
    model = tiny_lm()
    wrapped = {prefix + name: weight for name, weight in model.state_dict().items()}
    inner = {
        name.replace("blocks.0.", f"blocks.0.{prefix}"): weight
        for name, weight in model.state_dict().items()
    }
    for weights in (wrapped, inner):
        fresh = loud(DecoderLM(tiny()), seed=1)
        load_weights(fresh, {"model": weights})
        assert equal_weights(fresh, model)
        assert strip_wrappers(weights).keys() == model.state_dict().keys()


@pytest.mark.nohook
def test_a_compiled_model_is_saved_under_plain_names(path):
    """Catches: `_orig_mod.` in a file; the wrapper's name for the architecture's."""
    model = tiny_lm()
    compiled = torch.compile(model, backend="eager")
    compiled.config = model.config
    save_checkpoint(path, compiled)
    again, _ = load_model(path)
    assert type(again) is DecoderLM and equal_weights(again, model)


def test_opening_a_checkpoint_runs_no_code(path, tmp_path):
    """Catches: `weights_only=False`, with which a file can do anything."""
    mark = tmp_path / "ran"

    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(mark),)

    path.parent.mkdir()
    for save in (torch.save, lambda state, p: p.write_bytes(pickle.dumps(state))):
        save({"format": "tfcourse checkpoint 1", "model": Evil()}, path)
        with pytest.raises(CheckpointError) as caught:
            load_checkpoint(path)
        one_line(caught.value, str(path))
        assert not mark.exists()


def test_every_generator_is_put_back():
    """Python's, numpy's and torch's, through a file. Catches: one that is forgotten."""

    def draw():
        python = (random.random(), random.gauss(0, 1))
        return python, np.random.rand(), np.random.randn(), torch.rand(1)

    random.gauss(0, 1), np.random.randn()  # both keep a second number for the next call
    state = rng_state()
    want = draw()
    draw()
    set_rng_state(state)
    assert draw() == want


def test_the_state_of_the_generators_passes_through_a_checkpoint(path):
    """Catches: a numpy array or a tuple that loading without code refuses."""
    save_checkpoint(path, tiny_lm(), rng=rng_state())
    want = torch.rand(3)
    set_rng_state(load_checkpoint(path)["rng"])
    assert torch.equal(torch.rand(3), want)


# --- files that are no checkpoints


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.5, 0.9, 0.99, 0.9999])
def test_a_file_that_is_cut_off_is_named_in_one_line(saved, share):
    """Catches: an error from inside the archive reader; a partial model."""
    content = saved.read_bytes()
    saved.write_bytes(content[: int(share * len(content))])
    with pytest.raises(CheckpointError) as caught:
        load_model(saved)
    one_line(caught.value, str(saved), "cut off")


def foreign_files():
    """Yield a name and what writes a file that is no checkpoint of ours."""

    def zipped(path):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("hello.txt", "hello")

    model = tiny_lm()
    yield "text", lambda path: path.write_text("hello\n" * 100)
    yield "bytes", lambda path: path.write_bytes(bytes(range(256)) * 10)
    yield "zip", zipped
    yield "pickle", lambda path: path.write_bytes(pickle.dumps({"format": "x", "a": [1, 2]}))
    yield "state dict", lambda path: torch.save(model.state_dict(), path)
    yield "tensor", lambda path: torch.save(torch.ones(3), path)
    yield "list", lambda path: torch.save([1, 2], path)
    yield "whole module", lambda path: torch.save(model, path)
    yield "other format", lambda path: torch.save({"format": "tfcourse checkpoint 99"}, path)
    yield "no format", lambda path: torch.save({"model": {}}, path)
    yield (
        "old format",
        lambda path: torch.save(
            {"model": model.state_dict()}, path, _use_new_zipfile_serialization=False
        ),
    )


@pytest.mark.parametrize("write", [pytest.param(write, id=name) for name, write in foreign_files()])
def test_a_foreign_file_is_named_in_one_line(path, write):
    """Catches: a KeyError; an unpickling error of five lines."""
    path.parent.mkdir()
    write(path)
    with pytest.raises(CheckpointError) as caught:
        load_model(path)
    one_line(caught.value, str(path))


@pytest.mark.parametrize("where", [0.05, 0.4, 0.8, 0.97])
def test_damaged_bytes_are_an_error_or_harmless_but_never_a_crash(saved, where):
    """Catches: an exception of a kind that nobody foresaw."""
    content = bytearray(saved.read_bytes())
    place = int(where * len(content))
    content[place : place + 64] = bytes(b ^ 0xFF for b in content[place : place + 64])
    saved.write_bytes(content)
    try:
        model, _ = load_model(saved)
    except CheckpointError as error:
        one_line(error)
    else:
        assert model.n_params() > 0


@pytest.mark.parametrize(
    ("state", "named"),
    [
        ({}, "model_config"),
        ({"model_config": {"d_model": 32}}, "model_config"),
        ({"model_config": {"vocab_size": 50, "n_wheels": 4}}, "n_wheels"),
        ({"model_config": {"vocab_size": 50, "n_heads": 5}}, "n_heads=5"),
        ({"model_config": None}, "model_config"),
        ({"model_config": {"vocab_size": 50}}, "has no"),
    ],
    ids=str,
)
def test_a_checkpoint_without_a_usable_part_names_it(path, state, named):
    """Catches: a KeyError or TypeError without the file's name."""
    path.parent.mkdir()
    torch.save({"format": "tfcourse checkpoint 1", **state}, path)
    with pytest.raises(CheckpointError) as caught:
        load_model(path)
    one_line(caught.value, named)


def test_a_class_that_is_not_the_packages_is_refused(path):
    """Catches: an IndexError after hours of training."""

    class Own(Model):
        pass

    with pytest.raises(TypeError) as caught:
        save_checkpoint(path, Own())
    one_line(caught.value, "Own", "DecoderLM")
    assert not path.exists()


@pytest.mark.parametrize("name", ["nothing.pt", "empty_folder", "no/such/folder/checkpoint.pt"])
def test_a_missing_file_is_named(tmp_path, name):
    """Catches: torch's message for a folder."""
    (tmp_path / "empty_folder").mkdir()
    with pytest.raises(FileNotFoundError) as caught:
        load_checkpoint(tmp_path / name)
    one_line(caught.value, str(tmp_path / name), "give")


# --- weights that do not fit


def test_weights_are_loaded_all_or_not_at_all():
    """A missing, an extra and a misshapen weight are each named, and nothing is changed.

    Catches: strict=False; a model that is half loaded after the error.
    """
    model, other = tiny_lm(), loud(DecoderLM(tiny()), seed=1)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    whole = other.state_dict()
    name = "stack.blocks.1.attention.sublayer.out.weight"
    lacking = {k: v for k, v in whole.items() if k != name}
    wrong = {**whole, name: torch.zeros(32, 31)}
    for weights, parts in (
        (lacking, (name,)),
        ({**whole, "stack.blocks.9.extra": torch.zeros(1)}, ("stack.blocks.9.extra",)),
        (wrong, (name, "(32, 31)", "(32, 32)")),
    ):
        with pytest.raises(CheckpointError) as caught:
            load_weights(model, {"model": weights})
        one_line(caught.value, *parts)
        assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
