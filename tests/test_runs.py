"""A run that was stopped goes on as if it had not been, and its files are never half written."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings

import pytest
import torch
from counting import Counting, counting_lm, equal_weights, plan
from helpers import one_line

from tfcourse import files, runs, training
from tfcourse.checkpoints import CheckpointError, load_checkpoint, save_checkpoint
from tfcourse.training import train


class Stop(Exception):
    """Stands for whatever ends a process."""


class Until(Counting):
    """Data that calls `action` before a step's batch, once."""

    def __init__(self, step, action):
        super().__init__()
        self._step, self._action = step, action

    def _train_batch(self, step, batch_size):
        if step == self._step:
            self._step = None
            self._action()
        return super()._train_batch(step, batch_size)


def stop():
    raise Stop


def metrics(folder):
    """Read the metrics without the seconds, which differ from run to run."""
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in record.items() if k != "seconds"} for record in records]


HARD = dict(dropout=0.1, head_bias=True)  # a resumed run has to draw the same dropout


# --- resuming


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize("stopped_before", [3, 5, 7, 9])
def test_a_stopped_run_ends_bit_equal_to_one_that_was_not(tmp_path, optimizer, stopped_before):
    """Saved every 3 steps, in parts of a batch, with dropout; stopped on and between saves.

    Catches: moments of the optimizer, the step, or a random state that is not put back; metrics
    of lost steps that are kept, so that steps occur twice.
    """
    settings = plan(optimizer=optimizer, save_every=3, eval_every=4, accumulate=2)
    whole = counting_lm(**HARD)
    want = train(whole, Counting(), settings, tmp_path / "whole", progress=False)

    folder = tmp_path / "run"
    with pytest.raises(Stop):
        train(counting_lm(**HARD), Until(stopped_before, stop), settings, folder, progress=False)
    assert len(metrics(folder)) == stopped_before
    torch.rand(17)  # a new process has drawn other numbers
    model = counting_lm(seed=9, **HARD)
    got = train(model, Counting(), settings, folder, resume=True, progress=False)

    assert equal_weights(model, whole)
    assert metrics(folder) == metrics(tmp_path / "whole")
    assert got.evaluation == want.evaluation and got.n_tokens == want.n_tokens
    assert [r["step"] for r in got.records] == list(range(1, 11))
    states = [load_checkpoint(f)["optimizers"] for f in (folder, tmp_path / "whole")]
    assert str(states[0]) == str(states[1])


def test_resuming_twice_and_after_the_end_changes_nothing_more(tmp_path):
    """Catches: a finished run that trains one more step, or has no score to show."""
    settings, data = plan(), Counting()
    whole = train(counting_lm(), data, settings, tmp_path, progress=False)
    content = (tmp_path / "metrics.jsonl").read_bytes()
    model = counting_lm(seed=1)
    again = train(model, data, settings, tmp_path, resume=True, progress=False)
    assert again.evaluation == whole.evaluation and len(again.records) == 10
    assert (tmp_path / "metrics.jsonl").read_bytes() == content


def test_a_line_that_a_crash_cut_off_is_dropped(tmp_path):
    """Catches: a decoding error at every later resume."""
    settings = plan(save_every=3)
    with pytest.raises(Stop):
        train(counting_lm(), Until(7, stop), settings, tmp_path, progress=False)
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write('{"step": 8, "lo')
    train(counting_lm(), Counting(), settings, tmp_path, resume=True, progress=False)
    assert [r["step"] for r in metrics(tmp_path)] == list(range(1, 11))


@pytest.mark.parametrize("killed_in", ["append", "save", "_evaluate"])
def test_a_run_that_is_killed_as_it_saves_loses_no_record(tmp_path, killed_in, monkeypatch):
    """At step 4, before, between and after its files are written.

    Catches: a checkpoint whose own step is missing from the metrics for ever.
    """
    place = training if killed_in == "_evaluate" else runs.RunFiles

    def break_it():
        monkeypatch.setattr(place, killed_in, lambda *args, **options: stop())

    settings = plan(save_every=2, eval_every=4)
    with pytest.raises(Stop):
        train(counting_lm(), Until(3, break_it), settings, tmp_path, progress=False)
    monkeypatch.undo()
    got = train(counting_lm(), Counting(), settings, tmp_path, resume=True, progress=False)
    assert [r["step"] for r in got.records] == list(range(1, 11))
    assert [r["step"] for r in metrics(tmp_path)] == list(range(1, 11))
    assert "held_out_loss" in metrics(tmp_path)[7]


def test_the_scaler_is_resumed_with_its_scale(tmp_path):
    """Catches: a scale that starts again at its first value."""
    folder = runs.RunFiles(tmp_path)
    made = []
    for scale in (65536.0, 2.0):
        scaler = torch.amp.GradScaler("cpu", init_scale=scale)
        scaler.scale(torch.ones(1))
        model = counting_lm()
        made.append(runs.Run(model, Counting(), plan(), [], scaler, "fp16"))
    made[0].scaler.update(1024.0)
    folder.save(made[0], 4)
    assert folder.restore(made[1]) == 4
    assert made[1].scaler.get_scale() == 1024.0


def test_what_does_not_reach_the_weights_may_change(tmp_path):
    """Catches: a run that cannot be scored more often, or saved less, after a stop."""
    with pytest.raises(Stop):
        train(counting_lm(), Until(5, stop), plan(save_every=5), tmp_path, progress=False)
    changed, whole, model = plan(save_every=2, eval_every=3), counting_lm(), counting_lm()
    train(whole, Counting(), plan(), progress=False)
    train(model, Counting(), changed, tmp_path, resume=True, progress=False)
    assert equal_weights(model, whole)


@pytest.mark.parametrize(
    ("model", "data", "fields", "named"),
    [
        (dict(d_ff=64), {}, {}, "d_ff was 128 and is 64"),
        ({}, {}, dict(lr=0.5), "lr was 0.001 and is 0.5"),
        ({}, {}, dict(steps=20), "steps was 10 and is 20"),
        ({}, {}, dict(accumulate=2), "accumulate was 1 and is 2"),
        ({}, dict(seed=5), {}, "seed was 0 and is 5"),
    ],
    ids=str,
)
def test_a_checkpoint_of_another_run_is_refused_and_stays(tmp_path, model, data, fields, named):
    """Catches: a run that silently goes on with other settings, so that no one can repeat it."""
    train(counting_lm(), Counting(), plan(), tmp_path, progress=False)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    with pytest.raises(CheckpointError) as caught:
        train(
            counting_lm(**model),
            Counting(**data),
            plan(**fields),
            tmp_path,
            resume=True,
            progress=False,
        )
    one_line(caught.value, named, str(tmp_path))
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_a_file_without_the_optimizer_can_be_sampled_from_but_not_resumed(tmp_path):
    """Catches: a KeyError; an optimizer that starts anew in silence."""
    save_checkpoint(tmp_path / "checkpoint.pt", counting_lm())
    with pytest.raises(CheckpointError) as caught:
        train(counting_lm(), Counting(), plan(), tmp_path, resume=True, progress=False)
    one_line(caught.value, "optimizers", "not resumed")


def test_resuming_where_nothing_is_says_so(tmp_path):
    """Catches: a run from scratch that calls itself resumed."""
    with pytest.raises(FileNotFoundError) as caught:
        train(counting_lm(), Counting(), plan(), tmp_path, resume=True, progress=False)
    one_line(caught.value, str(tmp_path))


def test_an_earlier_run_is_never_written_over(tmp_path):
    """Catches: an evening's work lost to a repeated command."""
    train(counting_lm(), Counting(), plan(), tmp_path, progress=False)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    with pytest.raises(ValueError) as caught:
        train(counting_lm(), Counting(), plan(), tmp_path, progress=False)
    one_line(caught.value, str(tmp_path), "resume")
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_another_number_of_threads_is_a_warning(tmp_path, monkeypatch):
    """Sums are then added in another order. Catches: a promise that cannot be kept."""
    train(counting_lm(), Counting(), plan(), tmp_path, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(counting_lm(), Counting(), plan(), tmp_path, resume=True, progress=False)
    threads = torch.get_num_threads()
    monkeypatch.setattr(runs.torch, "get_num_threads", lambda: threads + 1)
    with pytest.warns(UserWarning, match=f"n_threads={threads} and goes on with {threads + 1}"):
        train(counting_lm(), Counting(), plan(), tmp_path, resume=True, progress=False)


# --- errors on the way


def test_a_loss_that_is_not_finite_leaves_the_last_good_checkpoint(tmp_path):
    """Catches: NaN saved over the last good weights."""
    model = counting_lm()

    def poison():
        with torch.no_grad():
            model.stack.blocks[1].feed_forward.sublayer.down.weight.fill_(torch.nan)

    with pytest.raises(FloatingPointError) as caught:
        train(model, Until(7, poison), plan(save_every=3), tmp_path, progress=False)
    one_line(caught.value, "step 8:", "blocks.1.feed_forward.sublayer.down")
    state = load_checkpoint(tmp_path)
    assert state["step"] == 6
    assert all(bool(w.isfinite().all()) for w in state["model"].values())


def test_a_full_disk_stops_the_run_with_its_last_good_checkpoint(tmp_path, monkeypatch):
    """And when there is room again, the run resumes to the same end.

    Catches: a run that goes on without being saved; a checkpoint that is half written.
    """
    whole = counting_lm(**HARD)
    train(whole, Counting(), plan(), progress=False)

    def fill():
        def full(*args):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(files.os, "fsync", full)

    with pytest.raises(OSError) as caught:
        train(counting_lm(**HARD), Until(5, fill), plan(save_every=4), tmp_path, progress=False)
    one_line(caught.value, "checkpoint.pt", "No space left")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["checkpoint.pt", "metrics.jsonl"]
    assert load_checkpoint(tmp_path)["step"] == 4
    monkeypatch.undo()
    model = counting_lm(**HARD)
    train(model, Counting(), plan(save_every=4), tmp_path, resume=True, progress=False)
    assert equal_weights(model, whole)


@pytest.mark.parametrize("save_every", [1, 0])
def test_weights_that_an_update_broke_are_neither_saved_nor_scored(tmp_path, save_every):
    """Loss and gradient are fine, the rate is absurd.

    Catches: a checkpoint of infinite weights in place of a good one; a loss of NaN and exit 0.
    """
    settings = plan(steps=3, lr=1e38, warmup=0, save_every=save_every)
    with pytest.raises(FloatingPointError, match=r"step [12]: .* not finite"):
        train(counting_lm(), Counting(), settings, tmp_path, progress=False)
    assert not (tmp_path / "checkpoint.pt").exists()


def test_metrics_of_a_run_that_has_not_saved_yet_are_left_alone(tmp_path):
    """Catches: a second run that deletes what the first is writing."""
    (tmp_path / "metrics.jsonl").write_text("notes")
    with pytest.raises(ValueError, match=r"metrics\.jsonl is there already"):
        train(counting_lm(), Counting(), plan(), tmp_path, progress=False)
    assert (tmp_path / "metrics.jsonl").read_text() == "notes"


@pytest.mark.parametrize("damage", [b"[]", b"3", b"null", b'{"a": 1}', b"\xff\xfe"])
def test_a_damaged_line_of_the_metrics_ends_them(tmp_path, damage):
    """Catches: a run that cannot go on because of its log."""
    train(counting_lm(), Counting(), plan(), tmp_path, progress=False)
    metrics = tmp_path / "metrics.jsonl"
    lines = metrics.read_bytes().splitlines(keepends=True)
    metrics.write_bytes(b"".join(lines[:4]) + damage + b"\n" + b"".join(lines[4:]))
    history = train(counting_lm(), Counting(), plan(), tmp_path, resume=True, progress=False)
    assert [record["step"] for record in history.records] == [1, 2, 3, 4]


# --- being interrupted


@pytest.mark.skipif(os.name != "posix", reason="sends POSIX signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_finishes_the_step_saves_and_leaves(tmp_path, number):
    """The signal comes within step 4; the run resumes to the same weights.

    Catches: weights saved in the middle of an update; handlers that stay behind.
    """
    old = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)]
    data = Until(3, lambda: os.kill(os.getpid(), number))
    with pytest.raises(KeyboardInterrupt):
        train(counting_lm(**HARD), data, plan(save_every=0), tmp_path, progress=False)
    assert [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)] == old
    assert load_checkpoint(tmp_path)["step"] == 4
    whole, model = counting_lm(**HARD), counting_lm(**HARD)
    train(whole, Counting(), plan(save_every=0), progress=False)
    train(model, Counting(), plan(save_every=0), tmp_path, resume=True, progress=False)
    assert equal_weights(model, whole)


@pytest.mark.skipif(os.name != "posix", reason="sends POSIX signals")
def test_a_second_interrupt_does_not_wait(tmp_path):
    """Catches: a run that cannot be stopped while a step hangs."""

    def twice():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)
        raise AssertionError("the second interrupt was ignored")

    with pytest.raises(KeyboardInterrupt):
        train(counting_lm(), Until(3, twice), plan(save_every=2), tmp_path, progress=False)
    assert load_checkpoint(tmp_path)["step"] == 2


@pytest.mark.skipif(os.name != "posix", reason="sends POSIX signals")
def test_a_signal_that_was_ignored_stays_ignored():
    """As under `nohup`. Catches: a handler that brings the signal back to life."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        data = Until(3, lambda: os.kill(os.getpid(), signal.SIGINT))
        assert len(train(counting_lm(), data, plan(), progress=False).records) == 10
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_training_in_a_thread_works_without_handlers():
    """As in a notebook's worker. Catches: `signal` called outside the main thread."""
    results = []
    thread = threading.Thread(
        target=lambda: results.append(train(counting_lm(), Counting(), plan(), progress=False))
    )
    thread.start()
    thread.join()
    assert len(results[0].records) == 10


CHILD = """
import sys, time
sys.path[:0] = [{tests!r}]
from counting import Counting, counting_lm, plan
from tfcourse.training import train

class Slow(Counting):
    def _train_batch(self, step, batch_size):
        time.sleep(0.02)  # long enough to be hit between two saves
        return super()._train_batch(step, batch_size)

train(counting_lm(dropout=0.1), Slow(), plan(steps=40, save_every=1), {folder!r},
      resume={resume}, progress=False)
"""


@pytest.mark.nohook
@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="kills by POSIX signal")
def test_a_process_that_is_killed_twice_ends_bit_equal(tmp_path):
    """Kill −9 at different moments, a checkpoint at every step, a new process each time.

    Catches: a file that is replaced before it is complete; state that only lives in the process.
    """
    folder, tests = tmp_path / "run", os.path.dirname(__file__)

    def start(resume):
        code = CHILD.format(tests=tests, folder=str(folder), resume=resume)
        return subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)

    def step():
        path = folder / "checkpoint.pt"
        return load_checkpoint(path)["step"] if path.exists() else 0

    for target in (5, 20):
        child = start(resume=target > 5)
        while step() < target and child.poll() is None:
            time.sleep(0.003)
        child.kill()
        _, errors = child.communicate()
        assert child.returncode == -signal.SIGKILL, errors
        assert target <= step() < 40
    child = start(resume=True)
    _, errors = child.communicate(timeout=120)
    assert child.returncode == 0, errors

    whole = counting_lm(dropout=0.1)
    train(whole, Counting(), plan(steps=40), tmp_path / "whole", progress=False)
    states = [load_checkpoint(f) for f in (folder, tmp_path / "whole")]
    for name, weight in states[1]["model"].items():
        assert torch.equal(states[0]["model"][name], weight), name
    assert metrics(folder) == metrics(tmp_path / "whole")
    assert sorted(p.name for p in folder.iterdir()) == ["checkpoint.pt", "metrics.jsonl"]
