"""What chapter 01 says in its text holds for the model; what its widget shows was measured."""

import json
import math
from pathlib import Path

import pytest
import torch
from helpers import normal
from torch.func import jacrev

from tfcourse.architectures import DecoderLM
from tfcourse.config import ModelConfig
from tfcourse.probes import measure_stream

CHAPTER = Path(__file__).parent.parent / "chapters" / "01_residuals.ipynb"


def measure(depth: int, seed: int = 0, **switches) -> dict:
    """Measure an untrained stack in the sizes of the chapter's first measurement."""
    torch.manual_seed(0)
    words = torch.randint(400, (4, 25))
    torch.manual_seed(seed)
    sizes = dict(vocab_size=400, d_model=64, n_layers=depth, max_len=32, norm_eps=1e-12)
    model = DecoderLM(ModelConfig(**(sizes | switches)))
    return measure_stream(model, words[:, :-1], words[:, 1:])


@pytest.fixture(scope="module")
def widget() -> dict:
    """The state of the chapter's widget, as it is stored in the notebook."""
    metadata = json.loads(CHAPTER.read_text(encoding="utf-8"))["metadata"]
    models = metadata["widgets"]["application/vnd.jupyter.widget-state+json"]["state"]
    (state,) = [m["state"] for m in models.values() if "measurements" in m["state"]]
    return state


def test_the_widget_shows_what_the_model_does(widget):
    """Six digits are stored; 1e-3 leaves room for another CPU's rounding. Below 1e-6 a gradient is
    nothing but rounding, and the widget says no more than that.

    Catches: a widget state that was not stored again after the model or its initialization changed;
    one gradient stored as the other.
    """
    checked = 0
    for stored in widget["measurements"]:
        if stored["depth"] > 16:  # the deep ones differ in nothing but time
            continue
        switches = {} if stored["residual"] else {"residual": False}
        measured = measure(stored["depth"], residual_decay=stored["alpha"], **switches)
        assert stored["cosine"] == pytest.approx(measured["cosine"], abs=1e-3)
        for name in ("stream_rms", "weight_gradient", "query_key_gradient"):
            assert stored[name] == pytest.approx(measured[name], rel=1e-3, abs=1e-6)
        checked += 1
    assert checked == 15
    assert (widget["depth"], widget["alpha"]) == (32, 1.0)


def test_in_the_widget_the_difference_goes_first_and_the_gradient_as_a_whole_stays(widget):
    """As the text below it says. Catches: a widget of other models, or another text."""
    runs = {(m["residual"], m["depth"]): m for m in widget["measurements"] if m["alpha"] == 1}
    for depth, low, high in ((8, 0.5, 1), (16, 0, 0.01), (32, 0, 1e-4)):
        kept, dropped = runs[True, depth], runs[False, depth]
        assert dropped["cosine"][-1] > 0.99
        assert low < dropped["query_key_gradient"][0] / kept["query_key_gradient"][0] < high
    assert runs[False, 4]["query_key_gradient"][0] > runs[True, 4]["query_key_gradient"][0]
    depths = [4, 8, 16, 32, 64]
    assert all(
        runs[False, n]["weight_gradient"][0] > runs[True, n]["weight_gradient"][0] for n in depths
    )


@pytest.mark.parametrize("seed", range(5))
def test_without_the_residual_differences_die_and_most_of_the_gradient_does_not(seed):
    """ "Never below 5" in five seeds, and at every block several times the gradient; but none of it
    for the queries and keys. The stream is about ten times smaller from block 1 on.

    Catches: `residual=False` that still adds x; an initialization that changes the chapter's story.
    """
    kept, dropped = measure(32, seed), measure(32, seed, residual=False)
    assert max(kept["cosine"]) < 0.1
    assert min(dropped["cosine"][10:]) > 0.99
    ratios = [
        b / a for a, b in zip(kept["weight_gradient"], dropped["weight_gradient"], strict=True)
    ]
    assert ratios[0] > 5 and min(ratios) > 3
    assert min(kept["query_key_gradient"]) > 5e-4
    assert max(dropped["query_key_gradient"]) < 1e-6
    sizes = zip(kept["stream_rms"][1:], dropped["stream_rms"][1:], strict=True)
    assert all(6 < a / b < 15 for a, b in sizes)


@pytest.mark.parametrize("seed", range(5))
def test_mlps_alone_make_positions_alike_too_but_more_slowly(seed):
    """The aside in the answer. Catches: an MLP that mixes positions, or one that is linear."""
    alike = measure(32, seed, residual=False, attention=False)["cosine"]
    assert alike[0] < 0.1 and 0.2 < alike[-1] < 0.8


@pytest.mark.slow
def test_the_gradient_vanishes_only_where_norms_stop_working():
    """The alternative text of the depth figure, and the explanation below it: + x needs no small ε.

    Catches: a norm that ignores ε; branches whose first size no longer shrinks with depth.
    """
    depths = (4, 16, 64)
    kept = [measure(n, norm_eps=ε)["weight_gradient"][0] for n in depths for ε in (1e-12, 1e-5)]
    dropped = [measure(n, residual=False) for n in depths]
    guarded = [measure(n, residual=False, norm_eps=1e-5)["weight_gradient"][0] for n in depths]
    assert max(kept) < 1.2 * min(kept) and 0.5 < min(kept) < max(kept) < 1.5
    assert all(4 <= run["weight_gradient"][0] < 20 for run in dropped)
    assert 3 < guarded[0] < 20 and guarded[-1] < 1e-15
    assert dropped[-1]["stream_rms"][1] < math.sqrt(1e-5)


def test_decay_loses_the_input_and_not_the_gradient():
    """The table over α at 12 blocks, and what the text says about queries and keys.

    Catches: α applied to the update instead of the stream.
    """
    runs = [measure(12, residual_decay=alpha) for alpha in (1.0, 0.9, 0.7, 0.5)]
    runs.append(measure(12, residual=False))
    gradients = [run["weight_gradient"][0] for run in runs]
    assert gradients == sorted(gradients)
    alike = [run["cosine"][-1] for run in runs]
    assert alike[0] < 0.1 and 0.3 < alike[1] < 0.6 and min(alike[2:]) > 0.95
    choosing = [run["query_key_gradient"][0] for run in runs]
    assert choosing[0] > 1.5 * max(choosing[2:])


def test_the_jacobian_of_a_branch_is_that_of_its_update_and_the_identity():
    """Catches: a branch that scales x, or adds the normed x."""
    torch.manual_seed(0)
    model = DecoderLM(ModelConfig(vocab_size=2, d_model=16, n_layers=1)).requires_grad_(False)
    branch = model.stack.blocks[0].feed_forward
    x = normal(1, 1, 16)
    difference = jacrev(branch)(x) - jacrev(branch.update)(x)
    torch.testing.assert_close(difference.view(16, 16), torch.eye(16))


def test_adding_in_place_is_noticed_in_training_where_the_old_value_is_needed():
    """ "PyTorch often notices". Catches: a torch that lets it pass, which the text would hide."""
    x = torch.ones(3, requires_grad=True) * 1.0
    squares = x * x
    x += 1
    with pytest.raises(RuntimeError, match="inplace"):
        squares.sum().backward()


def test_unrelated_updates_of_the_size_of_x_let_stream_and_gradient_grow_alike():
    """64 branches: $2^{32}$ for both. Tolerance: a factor of 2, for one draw of the matrices.

    Catches: one factor of the root of 2 per block in place of one per branch.
    """
    torch.manual_seed(0)
    x = start = torch.randn(1, 512, requires_grad=True)
    for _ in range(64):
        x = x + x @ torch.randn(512, 512) / math.sqrt(512)
    backward = torch.randn(1, 512)
    (gradient,) = torch.autograd.grad(x, start, backward)
    for growth in (x.detach().norm() / start.detach().norm(), gradient.norm() / backward.norm()):
        assert 0.5 < float(growth) / 2**32 < 2
