"""What chapter 02 says in its text holds for the package; its figures draw what they are given."""

from __future__ import annotations

from pathlib import Path

import notebooks
import pytest
import torch
from helpers import normal
from matplotlib.colors import to_hex
from torch import nn

from tfcourse.architectures import DecoderLM
from tfcourse.config import ModelConfig, TrainConfig
from tfcourse.data.batching import EmailData
from tfcourse.figures import COLORS
from tfcourse.figures.norms import draw_axes, draw_changes, draw_epsilon, draw_readers
from tfcourse.norms import LayerNorm, RMSNorm
from tfcourse.training import train
from tfcourse.widgets import NormLab

CHAPTER = Path(__file__).resolve().parent.parent / "chapters" / "02_norms.ipynb"


def rms(x: torch.Tensor) -> torch.Tensor:
    return x.pow(2).mean(dim=-1).sqrt()


def test_the_mean_square_is_mean_squared_plus_variance():
    """The identity that links both norms. Catches: the sample variance in its place."""
    x = normal(5, 64) + 3
    total = x.mean(dim=-1) ** 2 + x.var(dim=-1, correction=0)
    torch.testing.assert_close(x.pow(2).mean(dim=-1), total)


@pytest.mark.parametrize("eps", [1e-5, 1e-6, 1e-12])
def test_below_the_root_of_epsilon_a_norm_only_multiplies(eps):
    """By 1/√ε, to a percent at a tenth of it; above, the size that leaves is 1.

    Catches: ε outside the root, where the change comes at ε itself.
    """
    norm, direction = LayerNorm(2, eps), torch.tensor([1.0, -1.0])
    small = eps**0.5 / 10
    norm.requires_grad_(False)
    assert float(rms(norm(small * direction))) == pytest.approx(small / eps**0.5, rel=0.01)
    assert float(rms(norm(10 * eps**0.5 * direction))) == pytest.approx(1, rel=0.01)


@pytest.mark.parametrize("value", [0.0, 2.0, -7.0])
def test_outside_the_root_epsilon_does_not_save_the_gradient(value):
    """Catches: a torch whose root has a finite slope at 0; a norm of ours with ε outside."""
    x = torch.full((4,), value, requires_grad=True)
    centred = x - x.mean()
    outside = centred / (centred.pow(2).mean().sqrt() + 1e-5)
    assert torch.equal(outside, torch.zeros(4))
    assert torch.autograd.grad(outside[0], x)[0].isnan().all()
    (slope,) = torch.autograd.grad(LayerNorm(4, 1e-5)(x)[0], x)
    assert float(slope[0]) == pytest.approx(0.75 / 1e-5**0.5, rel=1e-3)


@pytest.mark.parametrize("norm", [LayerNorm, RMSNorm])
def test_length_is_the_root_of_d_after_a_norm(norm):
    """Size 1 for both, so "the same size for every reader". Catches: a division by the length."""
    x = normal(6, 64) * torch.tensor([0.01, 0.1, 1.0, 10.0, 100.0, 1000.0])[:, None]
    torch.testing.assert_close(rms(norm(64, 1e-12)(x)), torch.ones(6), atol=1e-4, rtol=0)


def test_what_the_text_says_about_number_types():
    """Catches: another type's limits in the text."""
    half, brain = torch.finfo(torch.float16), torch.finfo(torch.bfloat16)
    assert half.max == 65504 and half.tiny * half.eps == pytest.approx(6e-8, rel=0.01)
    assert torch.tensor(1e-12).half() == 0
    assert brain.max > 1e38 and brain.eps == 2**-7
    assert nn.RMSNorm(2).eps is None


def test_torch_takes_the_smallest_step_where_rmsnorm_has_no_epsilon():
    """Catches: a torch with another default than the text says."""
    x = normal(4, 8) * 1e-4
    step = torch.finfo(torch.float32).eps
    torch.testing.assert_close(nn.RMSNorm(8)(x), nn.RMSNorm(8, eps=step)(x))
    assert not torch.allclose(nn.RMSNorm(8)(x), nn.RMSNorm(8, eps=1e-5)(x))


def test_batchnorm_in_training_sees_its_row_and_its_neighbours_and_layernorm_over_both_axes_leaks():
    """The bug "one axis too many". Catches: `nn.LayerNorm((L, d))` that works per position."""
    x = normal(1, 20, 8)
    other = x.clone()
    other[0, -1] = 0
    both, one = nn.LayerNorm((20, 8)), nn.LayerNorm(8)
    assert not torch.equal(both(x)[0, :-1], both(other)[0, :-1])
    assert torch.equal(one(x)[0, :-1], one(other)[0, :-1])


def test_the_sample_variance_makes_the_result_too_small_by_eight_per_mille():
    """With d = 64. Catches: a percentage of another width."""
    x = normal(1, 64)
    off = 1 - (x - x.mean()).std() / (x - x.mean()).std(correction=0)
    assert float(abs(off)) == pytest.approx(0.008, abs=2e-4)


def test_one_large_feature_makes_the_others_small_in_one_norm_and_alike_in_the_other():
    """What the widget's last example shows. Catches: the two norms exchanged in the text."""
    x = torch.tensor([0.1, -0.2, 40.0, 0.3])
    layer, root = (norm(4, 1e-5)(x)[[0, 1, 3]] for norm in (LayerNorm, RMSNorm))
    assert root.abs().max() < 0.02
    assert layer.abs().min() > 0.5 and layer.max() - layer.min() < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_without_gain_and_shift_the_same_steps_get_less_far(seed):
    """ "Two other seeds gave 0.07 as well", to 0.03. Catches: gains that are not trained."""
    data = EmailData(n_held_out=50)
    on_cpu = dict(warmup=20, device="cpu", precision="fp32")
    plan = TrainConfig(steps=150, batch_size=16, lr=6e-3, **on_cpu)
    losses = []
    for frozen in (False, True):
        torch.manual_seed(seed)
        shape = dict(vocab_size=data.vocab_size, max_len=data.max_len, d_model=64, n_layers=2)
        model = DecoderLM(ModelConfig(**shape, position="rope", bias=True, head_bias=True))
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(not (frozen and "norm" in name))
        losses.append(train(model, data, plan, progress=False).evaluation.loss)
    assert losses[1] - losses[0] == pytest.approx(0.07, abs=0.03)


# The widget.


def test_the_widget_starts_with_the_worked_example():
    """Catches: another start stored in the notebook than the text computes by hand."""
    models = notebooks.read(CHAPTER).metadata.widgets[notebooks.STATE]["state"].values()
    (state,) = [m["state"] for m in models if "epsilons" in m["state"]]
    assert state["vectors"] == {"x": [1, 3], "gamma": [1, 1], "beta": [0, 0]}
    assert state["eps"] == 1


@pytest.mark.nohook
@pytest.mark.parametrize(
    ("given", "message"),
    [
        (dict(x=[1]), "x has 1 features; give 2 to 4"),
        (dict(x=range(5)), "x has 5 features; give 2 to 4"),
        (dict(gamma=[1, 1, 1]), "gamma has 3 numbers; give 2, as many as x"),
        (dict(beta=[0]), "beta has 1 numbers; give 2, as many as x"),
        (dict(x=[1, float("nan")]), "x holds nan; give finite numbers up to a million"),
        (dict(gamma=[1, 2e6]), "gamma holds 2000000.0; give finite numbers up to a million"),
        (dict(eps=0.5), "eps=0.5; choose one of 0, 1e-12, 1e-06, 1e-05, 0.001, 1"),
    ],
)
def test_the_widget_refuses_what_it_cannot_show(given, message):
    """Catches: any one of the checks taken out (its own line turns red)."""
    with pytest.raises(ValueError, match=message):
        NormLab(**given)


# The figures.


def test_the_axes_figure_marks_one_row_and_one_column():
    """Catches: the two norms exchanged; two rows marked."""
    layer, batch = draw_axes(["a", "b", "c", "d"]).axes
    marked = [
        {p.get_xy() for p in ax.patches if to_hex(p.get_facecolor()).upper() == COLORS["norm"]}
        for ax in (layer, batch)
    ]
    assert {y for _, y in marked[0]} == {2} and len(marked[0]) == 6
    assert {x for x, _ in marked[1]} == {3} and len(marked[1]) == 4


def test_the_map_of_changes_shows_what_moved_and_frames_the_changed_word():
    """Catches: rounding drawn as a change; rows and columns exchanged."""
    values = torch.full((2, 3), 1e-9)
    values[1, 2] = 0.1
    fig = draw_changes({"one": values}, changed=(1, 2), limit=1e-5)
    shown = fig.axes[0].images[0].get_array()
    assert (shown > -5).sum() == 1 and shown[1, 2] == pytest.approx(-1)
    assert fig.axes[0].patches[0].get_xy() == (1.5, 0.5)


def test_the_epsilon_figure_draws_a_line_for_each_epsilon():
    """Catches: a name on another line than its own."""
    after = {1e-5: [0.01, 1.0], 1e-6: [0.02, 1.0], 1e-12: [0.9, 1.0]}
    (ax,) = draw_epsilon([0.1, 1.0], after, {eps: str(eps) for eps in after}).axes
    drawn = [list(line.get_ydata()) for line in ax.lines if len(set(line.get_xdata())) > 1]
    assert drawn == list(after.values())
    assert [text.get_text() for text in ax.texts] == ["1e-05", "1e-06", "1e-12"]


@pytest.mark.nohook
def test_the_figure_of_readers_has_a_range_before_and_after_for_each():
    """Catches: the norm's range drawn for the stream's; readers in reverse order."""
    raw, normed = torch.tensor([[0.1, 0.2], [2.0, 4.0]]), torch.ones(2, 2)
    (ax,) = draw_readers(["a", "b"], raw, normed).axes
    ends = [[round(v, 1) for v in line.get_xdata()] for line in ax.lines]
    assert ends == [[0.1, 0.2], [1, 1], [2.0, 4.1], [1, 1]]
    assert [text.get_text() for text in ax.get_yticklabels()] == ["a", "b"]
    assert ax.yaxis_inverted()
