"""The learning rate over time, which optimizer takes what, and the number format."""

import math
from itertools import pairwise

import pytest
import torch
from counting import counting_lm, plan
from helpers import normal, one_line

from tfcourse import devices
from tfcourse.optimizers import Muon, make_optimizers, orthogonalize, schedule, set_learning_rate

# --- the learning rate


@pytest.mark.parametrize(
    ("steps", "warmup"), [(10, 0), (10, 1), (10, 5), (10, 9), (10, 10), (1, 0), (1, 1)]
)
@pytest.mark.parametrize("low", [0.0, 0.1])
def test_the_learning_rate_starts_above_zero_peaks_and_falls(steps, warmup, low):
    """Catches: a first step of rate zero; 0/0 where warm-up takes the whole run; a peak that is
    never reached.
    """
    settings = plan(steps=steps, warmup=warmup, min_lr_ratio=low)
    shares = [schedule(step, settings) for step in range(steps)]
    assert shares[0] > 0
    assert max(shares) == 1.0 == shares[max(0, warmup - 1)]
    assert all(a < b for a, b in pairwise(shares[:warmup]))
    tail = shares[max(warmup, 1) :]
    assert all(low < share <= 1 for share in tail)
    assert all(a > b for a, b in pairwise(tail))
    assert [schedule(step, settings) for step in (steps, steps + 1, 10 * steps)] == [low] * 3


def test_the_learning_rate_by_hand():
    """Four steps of warm-up, then half a cosine over four. Catches: a line for a cosine."""
    settings = plan(steps=8, warmup=4, min_lr_ratio=0.2)
    shares = [schedule(step, settings) for step in range(8)]
    cosine = [0.2 + 0.8 * (1 + math.cos(math.pi * k / 4)) / 2 for k in range(4)]
    assert shares == pytest.approx([0.25, 0.5, 0.75, 1.0, *cosine])


def test_the_rate_of_a_step_is_the_peak_times_the_share():
    """Twice in a row. Catches: a rate that is multiplied anew at every step."""
    optimizers = make_optimizers(counting_lm(), plan(lr=0.5, optimizer="muon", muon_lr=0.25))
    for share in (0.5, 0.5):
        set_learning_rate(optimizers, share)
    rates = [[group["lr"] for group in optimizer.param_groups] for optimizer in optimizers]
    assert rates == [[0.25, 0.25], [0.125]]


# --- the optimizer


@pytest.mark.parametrize("shape", [(16, 48), (48, 16), (24, 24)])
def test_muon_takes_the_steps_of_torchs(shape):
    """Ten steps; torch's orthogonalization rounds to bfloat16, so 2 % of the way is allowed.

    Catches: a momentum or a decay of another kind; no Nesterov step; a rate that does not grow with
    tall matrices.
    """
    start = normal(*shape)
    ours, theirs = (torch.nn.Parameter(start.clone()) for _ in range(2))
    optimizers = Muon([ours], lr=0.02, weight_decay=2.0), torch.optim.Muon([theirs], 0.02, 2.0)
    for step in range(10):
        for p, optimizer in zip((ours, theirs), optimizers, strict=True):
            p.grad = normal(*shape, seed=1 + step)
            optimizer.step()
    way = (theirs - start).norm()
    assert (ours - theirs).norm() < 0.02 * way


@pytest.mark.parametrize("shape", [(1, 40), (40, 1), (30, 50), (50, 30)])
def test_orthogonalize_keeps_the_singular_vectors(shape):
    """Catches: a missing transposition; coefficients in another order; the Frobenius norm left."""
    matrix = normal(*shape)
    u, values, v = torch.linalg.svd(matrix, full_matrices=False)
    inner = u.T @ orthogonalize(1e3 * matrix) @ v.T
    assert values.min() > 0.01 * values.max()
    assert inner.diagonal().min() > 0.68 and inner.diagonal().max() < 1.21
    assert (inner - inner.diagonal().diag()).abs().max() < 1e-4


def test_only_matrices_decay():
    """Catches: gains and biases pulled to zero; a parameter that no group or two groups hold."""
    model = counting_lm(bias=True, head_bias=True)
    (adamw,) = make_optimizers(model, plan(weight_decay=0.3, beta1=0.8, beta2=0.95))
    decay = {id(p): g["weight_decay"] for g in adamw.param_groups for p in g["params"]}
    assert sum(len(g["params"]) for g in adamw.param_groups) == len(list(model.parameters()))
    for parameter in model.parameters():
        assert decay[id(parameter)] == (0.3 if parameter.ndim == 2 else 0.0)
    assert {g["betas"] for g in adamw.param_groups} == {(0.8, 0.95)}


def test_muon_takes_the_blocks_matrices_and_nothing_else():
    """Catches: the embedding, a table of rows, orthogonalized as if it were a map."""
    model = counting_lm(bias=True)
    adamw, muon = make_optimizers(model, plan(optimizer="muon"))
    muons = {id(p) for g in muon.param_groups for p in g["params"]}
    others = {id(p) for g in adamw.param_groups for p in g["params"]}
    for name, parameter in model.named_parameters():
        is_muon = parameter.ndim == 2 and "blocks" in name
        assert (id(parameter) in muons, id(parameter) in others) == (is_muon, not is_muon)


# --- precision and device


@pytest.mark.parametrize(
    ("capability", "want"),
    [((7, 0), "fp16"), ((7, 5), "fp16"), ((8, 0), "bf16"), ((8, 9), "bf16"), ((10, 0), "bf16")],
)
def test_a_gpu_that_only_emulates_bfloat16_gets_float16(monkeypatch, capability, want):
    """A T4 (7.5) says that it supports bfloat16. Catches: trusting that probe."""
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda *args, **kwargs: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: capability)
    assert devices.choose_precision("auto", torch.device("cuda")) == want


def test_a_cpu_never_gets_float16_and_mps_gets_float32():
    """Catches: float16 without a GPU, unasked or asked."""
    assert devices.choose_precision("auto", torch.device("cpu")) == "fp32"
    assert devices.choose_precision("auto", torch.device("mps")) == "fp32"
    assert devices.choose_precision("bf16", torch.device("cpu")) == "bf16"
    for device in ("cpu", "mps"):
        with pytest.raises(ValueError) as caught:
            devices.choose_precision("fp16", torch.device(device))
        one_line(caught.value, "precision='fp16'", device, "use")


@pytest.mark.parametrize("name", ["gpu", "cuda", "cuda:0", "mps", ""])
def test_a_device_that_is_not_there_is_refused(monkeypatch, name):
    """Catches: torch's own error, which names no fix."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(ValueError) as caught:
        devices.choose_device(name)
    one_line(caught.value, f"device='{name.split(':')[0]}", "use")
    assert devices.choose_device("auto").type == "cpu"
