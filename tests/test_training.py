"""One step, the schedule around it, and what a whole run returns."""

import math

import pytest
import torch
from counting import Counting, counting_lm, equal_weights, plan
from helpers import ids, one_line, tiny_lm

from tfcourse import training
from tfcourse.data.batching import Batch
from tfcourse.generation import generate
from tfcourse.losses import IGNORE
from tfcourse.optimizers import make_optimizers, schedule, set_learning_rate
from tfcourse.runs import Run
from tfcourse.training import take_step, train


def descent(model, lr=1.0, **fields):
    """Return a run with plain gradient descent: its steps show the gradient."""
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    scaler = fields.pop("scaler", torch.amp.GradScaler("cpu", enabled=False))
    precision = fields.pop("precision", "fp32")
    return Run(model, Counting(), plan(**fields), [optimizer], scaler, precision)


def changes(model, batch, **fields):
    """Take one step of plain descent from loud weights; return loss, norm and −gradient."""
    before = [p.detach().clone() for p in model.parameters()]
    run = descent(model, **{"clip": 0.0, **fields})
    loss, norm = take_step(run, batch, model.loss)
    return loss, norm, [p.detach() - b for p, b in zip(model.parameters(), before, strict=True)]


def uneven_batch():
    """Eight rows with 1 to 20 targets that count, and one with none."""
    inputs, targets = ids(8, 20), ids(8, 20, seed=1)
    for row, n in enumerate((20, 1, 2, 20, 3, 0, 10, 1)):
        targets[row, n:] = IGNORE
    return Batch(inputs, targets)


# --- accumulation


@pytest.mark.parametrize("accumulate", [2, 3, 4, 8])
@pytest.mark.parametrize("reduced", [True, False])
def test_computing_a_batch_in_parts_changes_neither_loss_nor_gradient(accumulate, reduced):
    """Rows with 0 to 20 targets, so that no two parts have equally many; 1e-6.

    Catches: parts added without being divided; each part's mean weighted alike, however few
    targets it has; a part without targets that gives NaN.
    """
    batch = uneven_batch()
    if not reduced:  # equally many targets: here a mean of means would do, but not a sum of them
        batch = Batch(batch.inputs, ids(8, 20, seed=1))
    whole = changes(tiny_lm(), batch)
    parts = changes(tiny_lm(), batch, accumulate=accumulate)
    assert parts[0] == pytest.approx(whole[0], abs=1e-6)
    assert parts[1] == pytest.approx(whole[1], rel=1e-5)
    for a, b in zip(parts[2], whole[2], strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)


def test_the_loss_of_a_step_is_the_mean_over_its_targets():
    """Catches: a sum; a loss that counts padding; the loss after the update."""
    batch, model = uneven_batch(), tiny_lm()
    want = model.loss(batch.inputs, batch.targets).item()
    assert changes(model, batch)[0] == pytest.approx(want, abs=1e-6)


def test_a_batch_without_targets_changes_nothing():
    """Catches: 0/0."""
    batch = Batch(ids(2, 5), torch.full((2, 5), IGNORE))
    loss, norm, change = changes(tiny_lm(), batch)
    assert loss == norm == 0 and not any(c.abs().sum() for c in change)


# --- clipping


def length_of(change):
    return math.sqrt(sum(float(c.double().square().sum()) for c in change))


def test_a_gradient_is_cut_to_the_limit_and_its_norm_reported_before():
    """Catches: the norm after clipping; a limit on each parameter alone; 0 for a limit of zero."""
    batch = uneven_batch()
    _, norm, free = changes(tiny_lm(), batch, clip=0.0)
    assert length_of(free) == pytest.approx(norm, rel=1e-4)
    _, same_norm, cut = changes(tiny_lm(), batch, clip=norm / 4)
    assert same_norm == pytest.approx(norm, rel=1e-6)
    assert length_of(cut) == pytest.approx(norm / 4, rel=1e-3)
    _, _, loose = changes(tiny_lm(), batch, clip=4 * norm)
    assert length_of(loose) == pytest.approx(norm, rel=1e-4)


@pytest.mark.parametrize("accumulate", [1, 4])
def test_a_scaled_loss_is_clipped_by_its_true_gradient(accumulate):
    """With a scale of 65,536 norm, loss and step are those without a scaler.

    Catches: clipping before the gradient is unscaled, which leaves a step of 1/65,536.
    """
    batch = uneven_batch()
    want = changes(tiny_lm(), batch, clip=0.5)
    scaler = torch.amp.GradScaler("cpu", init_scale=65536.0)
    got = changes(tiny_lm(), batch, clip=0.5, scaler=scaler, accumulate=accumulate)
    assert got[:2] == pytest.approx(want[:2], rel=1e-4)
    for a, b in zip(got[2], want[2], strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_half_precision_steps_follow_float32(precision):
    """Loss to 1 %, gradient norm to 5 %. Catches: autocast left off, or around the backward."""
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, enabled=precision == "fp16")
    want = changes(tiny_lm(), uneven_batch())
    seen, model = [], tiny_lm()
    model.stack.blocks[0].attention.sublayer.qkv.register_forward_hook(
        lambda module, args, output: seen.append(output.dtype)
    )
    got = changes(model, uneven_batch(), precision=precision, scaler=scaler)
    assert seen == [{"bf16": torch.bfloat16, "fp16": torch.float16}[precision]]
    assert got[0] == pytest.approx(want[0], rel=0.01)
    assert got[1] == pytest.approx(want[1], rel=0.05)


def test_a_step_that_overflows_is_tried_again_with_half_the_scale():
    """The third step meets an infinite gradient once. Weights stay until it passes, and the run
    ends as if nothing had happened.

    Catches: a scaler that is not told of the skipped step; a step that is lost; weights that took
    an infinite update.
    """

    def five_steps(inject):
        model = counting_lm()
        scaler = torch.amp.GradScaler("cpu", init_scale=65536.0, growth_interval=10**6)
        settings, data = plan(), Counting()
        run = Run(model, data, settings, make_optimizers(model, settings), scaler, "fp32")
        calls, weights, scales = [], [], []

        def loss_function(*args, **kwargs):
            calls.append(1)
            weights.append(model.head.weight.detach().clone())
            scales.append(scaler.get_scale())
            loss = model.loss(*args, **kwargs)
            return loss * math.inf if inject and len(calls) == 3 else loss

        for step in range(5):
            set_learning_rate(run.optimizers, schedule(step, settings))
            take_step(run, data.train_batch(step, 8), loss_function)
        return model, weights, scales

    (clean, _, _), (model, weights, scales) = five_steps(False), five_steps(True)
    assert scales == [65536.0] * 3 + [32768.0] * 3
    assert torch.equal(weights[2], weights[3])
    assert not torch.equal(weights[3], weights[4])
    for a, b in zip(model.parameters(), clean.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("fault", ["loss", "gradient"])
def test_overflow_that_no_scale_can_mend_ends_in_an_error(fault):
    """An infinite loss with finite gradients never lowers the scale; NaN lowers it to 1.

    Catches: a loop without end.
    """
    model, scaler = tiny_lm(), torch.amp.GradScaler("cpu")
    run = descent(model, scaler=scaler)

    def loss_function(*args, **kwargs):
        loss = model.loss(*args, **kwargs)
        return loss + math.inf if fault == "loss" else loss * math.nan

    before = [p.detach().clone() for p in model.parameters()]
    with pytest.raises(FloatingPointError) as caught:
        take_step(run, uneven_batch(), loss_function)
    one_line(caught.value, "not finite", "lower lr")
    assert all(torch.equal(p, b) for p, b in zip(model.parameters(), before, strict=True))


# --- whole runs


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_model_learns_to_count(optimizer):
    """After training it goes on with 5 6 7 8 …: each position predicts the very next token.

    Catches: targets shifted twice (it would count 5 7 9); a sign; a model that is not in training.
    """
    data, model = Counting(), counting_lm()
    settings = plan(steps=120, batch_size=32, lr=1e-2, optimizer=optimizer, warmup=5)
    history = train(model, data, settings, progress=False)
    prompt = [data.bos_id, *data.tokenizer.encode_words(["n05", "n06"])]
    (new,) = generate(model, [prompt], 4, temperature=0.0, stop_tokens=[data.eos_id])
    counted = data.tokenizer.encode_words(["n07", "n08", "n09", "n10"])
    assert new in [[*counted[:k], data.eos_id] for k in range(4)] + [counted]
    assert history.records[-1]["loss"] < 0.7 * history.records[0]["loss"]
    assert history.evaluation.loss < 1.5


def test_the_history_records_every_step():
    """Catches: tokens counted with their padding; the rate of another step; a missing step."""
    data, settings = Counting(), plan(eval_every=4)
    history = train(counting_lm(), data, settings, progress=False)
    assert [r["step"] for r in history.records] == list(range(1, 11))
    rates = [schedule(step, settings) * settings.lr for step in range(10)]
    assert [r["lr"] for r in history.records] == pytest.approx(rates)
    targets = [int((data.train_batch(s, 8).targets != IGNORE).sum()) for s in range(10)]
    assert [r["n_tokens"] for r in history.records] == [sum(targets[: s + 1]) for s in range(10)]
    assert [r["step"] for r in history.records if "held_out_loss" in r] == [4, 8, 10]
    assert history.summary().startswith(f"held-out loss {history.evaluation.loss:.3f}")


def test_a_run_depends_on_its_seed_and_on_nothing_else():
    """Catches: dropout drawn from a generator that the seed does not reach; scoring on the way
    that changes the draws.
    """
    runs = []
    for seed, eval_every in ((0, 0), (0, 3), (1, 0)):
        model = counting_lm(dropout=0.2)
        torch.rand(seed + eval_every)  # whatever was drawn before
        train(model, Counting(), plan(seed=seed, eval_every=eval_every), progress=False)
        runs.append(model)
    assert equal_weights(runs[0], runs[1]) and not equal_weights(runs[0], runs[2])


def test_quiet_means_silent(capfd):
    """Catches: a bar or a print although `progress=False`."""
    train(counting_lm(), Counting(), plan(steps=3), progress=False)
    assert capfd.readouterr() == ("", "")


def test_the_bar_shows_loss_and_speed(capfd):
    """Catches: a bar without its numbers."""
    train(counting_lm(), Counting(), plan(steps=3))
    shown = capfd.readouterr().err
    assert "3/3" in shown and "loss=" in shown and "tokens/s=" in shown


@pytest.mark.parametrize(
    ("fields", "parts"),
    [
        (dict(vocab_size=22), ("23", "vocab_size=22", "vocab_size=23")),
        (dict(max_len=8), ("9", "max_len=8", "max_len=9")),
    ],
    ids=str,
)
def test_a_model_too_small_for_the_data_is_refused_at_once(fields, parts):
    """Catches: an index error after a minute, at the first long row or rare word."""
    with pytest.raises(ValueError) as caught:
        train(counting_lm(**fields), Counting(), plan(), progress=False)
    one_line(caught.value, *parts)


@pytest.mark.parametrize(
    "name",
    [
        "stack.embedding",
        "stack.blocks.0.attention.sublayer.qkv",
        "stack.blocks.1.feed_forward.sublayer.down",
        "stack.final_norm",
    ],
)
def test_a_loss_that_is_not_finite_names_step_and_layer_and_changes_no_weight(name):
    """Catches: weights updated with NaN; the last layer blamed for the first one's fault."""
    model = counting_lm()
    with torch.no_grad():
        model.get_submodule(name).weight.fill_(math.nan)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    with pytest.raises(FloatingPointError) as caught:
        train(model, Counting(), plan(), progress=False)
    one_line(caught.value, "step 1:", f"first seen in {name})", "lower lr")
    for key, value in model.state_dict().items():
        torch.testing.assert_close(value, before[key], equal_nan=True, atol=0, rtol=0)


def test_a_rate_that_is_far_too_high_ends_in_one_line():
    """Catches: a run that goes on with NaN to its end."""
    with pytest.raises(FloatingPointError) as caught:
        train(counting_lm(), Counting(), plan(lr=1e30, clip=0.0, warmup=0), progress=False)
    one_line(caught.value, "step ", "not finite")


def test_a_compiled_model_is_trained_through_its_compiled_loss(monkeypatch):
    """Catches: `compile` accepted and ignored."""
    compiled = []

    def fake(function, *args, **kwargs):
        def wrapped(*inner_args, **inner_kwargs):
            compiled.append(1)
            return function(*inner_args, **inner_kwargs)

        return wrapped

    monkeypatch.setattr(training.torch, "compile", fake)
    train(counting_lm(), Counting(), plan(steps=3, compile=True), progress=False)
    assert len(compiled) == 3
