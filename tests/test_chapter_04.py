"""What chapter 04 says in its text holds for the model; what its widget shows is in its state."""

from __future__ import annotations

import math
from pathlib import Path

import notebooks
import pytest
import torch
import torch.nn.functional as F
from helpers import ids
from published import published, question
from torch import nn

from tfcourse.architectures import DecoderLM
from tfcourse.config import ModelConfig
from tfcourse.embeddings import embedding_std
from tfcourse.figures.stacking import draw_first_losses, draw_logit_scales
from tfcourse.presets import PRESETS
from tfcourse.widgets.stack_tracer import unpack

CHAPTER = Path(__file__).parent.parent / "chapters" / "04_stacking.ipynb"


@pytest.fixture(scope="module")
def widget() -> dict:
    """The state of the chapter's widget, as it is stored in the notebook."""
    metadata = notebooks.read(CHAPTER).metadata
    models = metadata["widgets"][notebooks.STATE]["state"]
    (state,) = [m["state"] for m in models.values() if "texts" in m["state"]]
    return state


def test_the_published_model_is_the_one_that_pytorch_would_draw():
    """Its linear layers are within ±1/√fan-in, uniformly, and its tables standard normal.

    Catches: the package's own small weights left in place.
    """
    model = published()
    up = model.stack.blocks[0].feed_forward.sublayer.up.weight
    plain = nn.Linear(512, 2048, bias=False).weight.detach()
    assert float(up.std()) == pytest.approx(float(plain.std()), rel=0.01)
    assert float(up.abs().max()) <= 1 / math.sqrt(512)
    assert float(model.stack.embedding.weight.std()) == pytest.approx(1, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_a_large_tied_row_scores_itself_and_only_the_head_or_the_rows_repair_it(seed):
    """The opening and the table of suspects, for other words than the chapter's.

    Catches: a head that is not tied; a scale that is not applied; rows that the initialization
    draws small after all.
    """
    x, y = question(seed=seed)
    model = published(seed)
    z = model(x)
    own = z.gather(-1, x[..., None])
    assert 500 < float(model.loss(x, y)) < 525
    assert torch.equal(z.argmax(dim=-1), x)
    assert float(own.mean()) == pytest.approx(512, rel=0.03)
    assert 20 < float(z.masked_fill(z == own, 0).std()) < 26  # about √512 = 22.6
    assert float(published(seed, n_layers=1).loss(x, y)) > 480
    assert 300 < float(published(seed, embedding_scale=False).loss(x, y)) < 380
    assert float(published(seed, tie_embeddings=False).loss(x, y)) < 7.4
    assert float(published(seed, std=0.02).loss(x, y)) < 7.9


def test_the_own_score_by_hand():
    """Catches: a sum that does not hold for four numbers."""
    e, f = torch.tensor([1.0, -1, 1, -1]), torch.tensor([1.0, 1, -1, -1])
    for s in (1.0, 3.0):
        assert float(F.layer_norm(s * e, (4,)) @ (s * e)) == pytest.approx(4 * s, rel=1e-4)
        assert float(F.layer_norm(s * e, (4,)) @ (s * f)) == pytest.approx(0, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_deleting_the_scale_moves_the_logits_by_two_thirds(seed):
    """Catches: a norm behind the sum, which would divide the scale out."""
    x, _ = question(seed=seed)
    model = published(seed)
    z = model(x)
    model.stack.embedding.scale = 1.0
    assert 0.63 < float((model(x) - z).norm() / z.norm()) < 0.70


def test_a_scale_of_the_whole_sum_would_be_divided_out():
    """What is true in the claim. Catches: a norm that keeps the size of its input."""
    torch.manual_seed(0)
    x = torch.randn(8, 64)
    assert torch.allclose(F.layer_norm(22.6 * x, (64,)), F.layer_norm(x, (64,)), atol=1e-4)


def test_sinusoids_have_the_size_that_the_text_says():
    """√(1/2), for each pair is a sine and a cosine. Catches: a table scaled by √d."""
    model = DecoderLM(ModelConfig(vocab_size=2, d_model=512, position="sinusoidal"))
    waves = model.stack.positions(torch.zeros(1, 100, 512), torch.arange(100)[None])
    assert float(waves.square().mean().sqrt()) == pytest.approx(math.sqrt(0.5), abs=1e-4)


@pytest.mark.parametrize("d", [64, 100, 512, 4096])
def test_the_packages_rows_keep_the_own_score_at_most_at_two(d):
    """Catches: 0.02 for every width."""
    s = embedding_std(ModelConfig(vocab_size=2, d_model=d, n_heads=1))
    assert s * d <= 2 + 1e-9 and (s == 0.02 or s * d == pytest.approx(2))


def test_a_block_of_the_stated_rule_has_the_stated_parameters():
    """12 d² + 4 d. Catches: biases; an MLP of another width."""
    for d in (64, 512):
        block = DecoderLM(ModelConfig(vocab_size=2, d_model=d)).stack.blocks[0]
        assert sum(p.numel() for p in block.parameters()) == 12 * d * d + 4 * d


@pytest.mark.parametrize("seed", range(3))
def test_the_mask_alone_tells_the_order_from_the_second_layer_on(seed):
    """For the last word, when those before it are shuffled. Catches: positions that are added."""
    words = ids(1, 8)
    shuffled = words[:, [2, 5, 0, 6, 1, 4, 3, 7]]
    moves = []
    for n_layers in (1, 2):
        torch.manual_seed(seed)
        sizes = dict(vocab_size=50, d_model=32, n_layers=n_layers, max_len=8)
        model = DecoderLM(ModelConfig(**sizes, position="none")).requires_grad_(False)
        for weight in model.parameters():
            if weight.ndim == 2:
                nn.init.normal_(weight, std=0.3)
        z, after = (model(x)[0, -1] for x in (words, shuffled))
        moves.append(float((z - after).norm() / z.norm()))
    assert moves[0] < 1e-5 and moves[1] > 0.05


ROWS = {
    "2017 base": (512, "6 + 6", 8, 2048),
    "GPT-2 small": (768, "12", 12, 3072),
    "GPT-3 175B": (12288, "96", 96, 49152),
    "Gemma 7B": (3072, "28", 16, 24576),
    "Llama 3 8B": (4096, "32", 32, 14336),
    "Llama 3 70B": (8192, "80", 64, 28672),
    "Llama 3 405B": (16384, "126", 128, 53248),
}


def test_the_table_of_public_shapes_is_calculated_rightly():
    """Its last two columns follow from the others, and the presets and the published sizes agree.

    Catches: a misprint in a row; the rule said to be close where it is not.
    """
    (table,) = [c.source for c in notebooks.read(CHAPTER).cells if "public-shapes" in c.source]
    for name, (d, depth, heads, d_ff) in ROWS.items():
        (row,) = [r.split("\n  - ") for r in table.split("\n* - ") if r.startswith(name)]
        n = sum(int(part) for part in depth.split(" + "))
        assert row[1:5] == [f"{d:,}", depth, str(heads), f"{d_ff / d:g}"]
        billions = 12 * n * d * d / 1e9
        digits = 2 if billions < 1 else 1 if billions < 10 else 0
        assert row[5].split("\n")[0] == f"{billions:.{digits}f}"
    for name, preset in (("GPT-2 small", "gpt2"), ("Llama 3 8B", "llama3-8b")):
        config = ModelConfig(**PRESETS[preset]["model"])
        d, depth, heads, d_ff = ROWS[name]
        shape = (config.d_model, str(config.n_layers), config.n_heads, config.d_ff)
        assert shape == (d, depth, heads, d_ff)
    assert abs(12 * 96 * 12288**2 / 175e9 - 1) < 0.02
    assert abs(12 * 126 * 16384**2 / 405e9 - 1) < 0.02
    assert 16384 / 512 == 32 and (126 / 12, 126 / 6) == (10.5, 21)


def test_a_replaced_weight_is_unknown_to_an_optimizer_that_was_built_before():
    """ "The other way round". Catches: an optimizer that finds parameters by their names."""
    model = DecoderLM(ModelConfig(vocab_size=20, d_model=16, n_layers=1, max_len=8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    new = nn.Parameter(model.head.weight.detach().clone())
    model.head.weight = model.stack.embedding.weight = new
    before = new.detach().clone()
    words = ids(1, 8, vocab_size=20)
    model.loss(words[:, :-1], words[:, 1:]).backward()
    optimizer.step()
    assert new.grad is not None and torch.equal(new, before)


def test_the_figures_show_what_they_are_given():
    """Catches: a line that is drawn from other data, or under another's name."""
    fig = draw_first_losses([0.1, 1.0], {"tied": [7.0, 512.0], "own": [7.0, 7.1]}, 6.9, 0.0135)
    (ax,) = fig.axes
    assert list(ax.lines[0].get_ydata()) == [7.0, 512.0]
    assert [text.get_text() for text in ax.texts][:2] == ["tied", "own"]
    fig = draw_logit_scales([2, 4], {"a": [1.0, 1.0], "b": [1.0, 2.0], "c": [0.1, 0.1]})
    assert list(fig.axes[0].lines[1].get_ydata()) == [1.0, 2.0]
    assert [text.get_text() for text in fig.axes[0].texts] == ["a", "b", "c"]


def test_the_stored_tensors_fit_together(widget):
    """From stage to stage the widget's numbers are those of one forward pass.

    Tolerance: three levels of 2,047. Catches: stages of two runs mixed up; a state that was stored
    before the model was trained again; a probability that is not the softmax of its logits.
    """
    kinds = [stage["kind"] for stage in widget["stages"]]
    assert len(widget["texts"]) >= 4 and kinds[0] == "ids" and kinds[-1] == "probabilities"
    for text in widget["texts"]:
        length = len(text["ids"])
        tensors = [unpack(packed) for packed in text["tensors"]]
        stream = None
        for kind, tensor, packed in zip(kinds, tensors, text["tensors"], strict=True):
            step = 5e-4 * float(tensor.abs().max())
            assert packed["shape"][-2 if kind != "ids" else -1] == length
            if kind.endswith("update"):
                update = tensor
            elif kind == "stream":
                torch.testing.assert_close(stream + update, tensor, atol=3 * step, rtol=0)
            elif kind == "weights":
                torch.testing.assert_close(
                    tensor.sum(dim=-1), torch.ones(tensor.shape[:2]), atol=2e-3, rtol=0
                )
                assert torch.count_nonzero(tensor.triu(diagonal=1)) == 0
            elif kind == "norm":
                assert tensor.square().mean(dim=-1).sqrt().sub(1).abs().max() < 0.6
            if kind in ("embedding", "positions", "stream"):
                stream = tensor
        torch.testing.assert_close(tensors[-2].softmax(-1), tensors[-1], atol=5e-3, rtol=0)


def test_the_widgets_state_is_small(widget):
    """1.5 MB. Catches: tensors stored as decimal text."""
    assert len(notebooks.json.dumps(widget)) < 1_500_000
