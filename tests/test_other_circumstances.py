"""A run that goes on elsewhere, or meets what was not planned."""

import errno
import os
import stat

import pytest
import torch
from counting import Counting, counting_lm, plan
from helpers import tiny_lm

from tfcourse import training
from tfcourse.checkpoints import CheckpointError, load_checkpoint, load_model, save_checkpoint
from tfcourse.data.batching import TextData
from tfcourse.data.tokenizers import train_bpe
from tfcourse.optimizers import make_optimizers
from tfcourse.runs import Run, RunFiles
from tfcourse.training import first_non_finite, train


def test_a_run_without_a_scaler_goes_on_with_one(tmp_path):
    """As from a CPU to a GPU that computes in float16.

    Catches: a scaler that is handed the empty state of one that was switched off.
    """
    model, settings = counting_lm(), plan()
    train(model, Counting(), settings, tmp_path, progress=False)
    scaler = torch.amp.GradScaler("cpu", enabled=True)
    run = Run(model, Counting(), settings, make_optimizers(model, settings), scaler, "fp16")
    with pytest.warns(UserWarning, match="had precision=fp32 and goes on with fp16"):
        assert RunFiles(tmp_path).restore(run) == 10
    assert scaler.get_scale() > 1


def test_the_last_step_is_saved_before_it_is_scored(tmp_path, monkeypatch):
    """Catches: a score that fails, or is stopped, and takes the last steps with it."""

    def broken(*args):
        raise RuntimeError("no memory left")

    monkeypatch.setattr(training, "evaluate", broken)
    with pytest.raises(RuntimeError, match="no memory left"):
        train(counting_lm(), Counting(), plan(save_every=4), tmp_path, progress=False)
    assert load_checkpoint(tmp_path)["step"] == 10


def test_a_folder_that_cannot_be_synced_does_not_stop_a_run(tmp_path, monkeypatch):
    """Mounted drives refuse it. Catches: a saved file that is reported as not written."""
    real = os.fsync

    def refuse_folders(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", refuse_folders)
    save_checkpoint(tmp_path / "checkpoint.pt", tiny_lm())
    assert load_checkpoint(tmp_path)["model"]


def test_another_corpus_of_the_same_size_is_noticed(tmp_path):
    """Catches: a resumed run that goes on with other texts."""
    texts = [f"mail {i:02} says that tea is ready" for i in range(40)]
    bpe = train_bpe(texts, 259)  # bytes alone, so that both have as many tokens
    model = counting_lm(vocab_size=bpe.vocab_size)
    train(model, TextData(texts, bpe, 8), plan(), tmp_path, progress=False)
    others = [text.replace("tea", "ink") for text in texts]
    with pytest.raises(CheckpointError, match=r"another data: digest .*folder of its own"):
        train(model, TextData(others, bpe, 8), plan(), tmp_path, resume=True, progress=False)


def test_a_checkpoint_from_before_a_field_existed_can_be_resumed(tmp_path):
    """Catches: a field with a default that makes every older file useless."""
    train(counting_lm(), Counting(), plan(), tmp_path, progress=False)
    state = load_checkpoint(tmp_path)
    del state["model_config"]["residual_decay"], state["train_config"]["min_lr_ratio"]
    torch.save(state, tmp_path / "checkpoint.pt")
    history = train(counting_lm(), Counting(), plan(), tmp_path, resume=True, progress=False)
    assert history.evaluation is not None


def test_resuming_without_a_folder_is_refused():
    """Catches: a run that begins anew although it was to go on."""
    with pytest.raises(ValueError, match="resume=True needs out_dir"):
        train(counting_lm(), Counting(), plan(), resume=True, progress=False)


def test_a_loaded_model_does_not_drop_anything(tmp_path):
    """Catches: a model that is still in training mode, so that two calls differ."""
    train(counting_lm(dropout=0.5), Counting(), plan(), tmp_path, progress=False)
    model, _ = load_model(tmp_path)
    tokens = torch.tensor([[1, 5, 6]])
    assert torch.equal(model(tokens), model(tokens))


def test_an_overflow_that_exists_in_half_precision_alone_is_found():
    """Catches: a search for the layer that runs in float32, where nothing overflows."""
    model, settings = counting_lm(), plan()
    with torch.no_grad():
        model.stack.blocks[1].feed_forward.sublayer.up.weight.fill_(0.0)
        model.stack.blocks[1].feed_forward.sublayer.up.weight[:, 0] = 60_000.0
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    batch = Counting().train_batch(0, 8)
    for precision, layer in (("fp32", None), ("fp16", "stack.blocks.1.feed_forward.sublayer.up")):
        run = Run(model, Counting(), settings, [], scaler, precision)
        assert first_non_finite(run, batch) == layer
