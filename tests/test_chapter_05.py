"""Chapter 05: what its text, figures and widget say, recomputed from the package."""

from __future__ import annotations

import math
from pathlib import Path

import notebooks
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from tfcourse.architectures import DecoderLM
from tfcourse.attention import MultiHeadAttention
from tfcourse.config import ModelConfig
from tfcourse.data.batching import EmailData
from tfcourse.data.emails import EMAILS
from tfcourse.figures import panels
from tfcourse.figures.graphs import (
    depends,
    direct_edges,
    draw_graph,
    longest_path,
    shortest_chain,
)
from tfcourse.figures.losses import draw_kinds, draw_losses
from tfcourse.losses import IGNORE
from tfcourse.presets import PRESETS

CHAPTER = Path(__file__).resolve().parent.parent / "chapters" / "05_training_loss.ipynb"


def leaves(n: int) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(4, requires_grad=True) for _ in range(n)]


def attend(xs: list[torch.Tensor], causal: bool = True) -> list[torch.Tensor]:
    torch.manual_seed(1)
    config = ModelConfig(vocab_size=9, d_model=4, n_heads=2, causal=causal)
    ys = MultiHeadAttention(config)(torch.stack(xs).unsqueeze(0))
    return [ys[0, i] for i in range(len(xs))]


def recurrent(xs: list[torch.Tensor]) -> list[torch.Tensor]:
    states = [torch.zeros(4)]
    for x in xs:
        states.append(torch.tanh(x + states[-1]))
    return states[1:]


def named(layer, n: int = 3) -> dict[str, torch.Tensor]:
    xs = leaves(n)
    return {f"x{i}": x for i, x in enumerate(xs)} | {f"y{i}": y for i, y in enumerate(layer(xs))}


def test_attention_reads_its_own_and_earlier_inputs_directly():
    """Catches: edges taken from the graph alone, where masked inputs are reached as well."""
    edges = direct_edges(named(attend))
    assert set(edges) == {(f"x{j}", f"y{i}") for i in range(3) for j in range(i + 1)}


def test_attention_without_a_mask_reads_everything():
    """Catches: a triangle that is drawn whatever the layer computes."""
    edges = direct_edges(named(lambda xs: attend(xs, causal=False)))
    assert set(edges) == {(f"x{j}", f"y{i}") for i in range(3) for j in range(3)}


def test_a_recurrent_state_depends_directly_on_the_last_state_and_its_input():
    """Catches: a walk that goes on through a named tensor, so that all earlier inputs count."""
    edges = direct_edges(named(recurrent))
    steps = {(f"y{i}", f"y{i + 1}") for i in range(2)}
    assert set(edges) == steps | {(f"x{i}", f"y{i}") for i in range(3)}
    assert shortest_chain(edges, "x0", "y2") == ["x0", "y0", "y1", "y2"]


def test_a_dependency_that_cancels_in_the_sum_is_seen():
    """Catches: the gradient of the sum of the output, which is 0 for a softmax."""
    (x,) = leaves(1)
    assert depends(x.softmax(dim=0), x)
    assert not depends(x * 0, x)


def test_no_chain_is_an_error_that_names_both_ends():
    """Catches: an endless search, or an empty chain."""
    with pytest.raises(ValueError, match="no path leads from y2 to x0"):
        shortest_chain(direct_edges(named(attend)), "y2", "x0")


def test_the_recurrent_chain_grows_with_the_text_and_that_of_attention_does_not():
    """Catches: the number of all operations counted in place of the longest path."""
    lengths = [4, 8, 16]
    chains = [longest_path(recurrent(leaves(n))[-1]) for n in lengths]
    assert chains[2] - chains[1] == 2 * (chains[1] - chains[0]) > 0
    assert len({longest_path(attend(leaves(n))[-1]) for n in lengths}) == 1


def test_a_second_layer_of_attention_waits_for_the_first_whatever_the_length():
    """Catches: layers that are counted as if they ran at the same time."""
    once = longest_path(attend(leaves(4))[-1])
    twice = [longest_path(attend(attend(leaves(n)))[-1]) for n in (4, 8)]
    assert once < twice[0] == twice[1]


def test_tiny_is_a_longer_run_of_a_deeper_model():
    """The chapter's own run has 2 layers and 400 steps. Catches: a smaller preset."""
    assert PRESETS["tiny"]["model"]["n_layers"] > 2
    assert PRESETS["tiny"]["train"]["steps"] > 400


def test_the_longest_path_of_a_known_graph():
    """Catches: the shortest path, or nodes counted in place of operations."""
    (x,) = leaves(1)
    assert longest_path(x) == 0
    assert longest_path(x.exp().exp() + x) == 3


@pytest.mark.parametrize("backward", [False, True])
def test_the_graph_shows_every_edge_in_its_direction(backward):
    """Catches: arrows not turned round; an edge left out because it is on the marked path."""
    edges = direct_edges(named(recurrent))
    (axes,) = panels(1)[1]
    draw_graph(axes, edges, ["x0", "y0", "y1", "y2"], backward)
    place = {text.get_text(): text.get_position() for text in axes.texts if text.get_text()}
    arrows = {(a.xyann, a.xy) for a in axes.texts if getattr(a, "arrow_patch", None)}
    expected = {(place[f"${a[0]}_{a[1]}$"], place[f"${b[0]}_{b[1]}$"]) for a, b in edges}
    assert arrows == ({(b, a) for a, b in expected} if backward else expected)
    bold = [a for a in axes.texts if getattr(a, "arrow_patch", None)]
    assert sum(a.arrow_patch.get_linewidth() > 2 for a in bold) == 3


def test_the_loss_figure_draws_what_it_is_given():
    """Catches: a level drawn at another height; a curve without its name."""
    (axes,) = panels(1)[1]
    losses = {"ours": [3.0, 1.0], "other": [3.0, 2.0]}
    draw_losses(axes, [10.0, 20.0], losses, {"table": 2.5, "floor": 0.7})
    curves = [list(line.get_ydata()) for line in axes.lines]
    assert curves == [[3.0, 1.0], [3.0, 2.0], [2.5, 2.5], [0.7, 0.7]]
    assert [text.get_text() for text in axes.texts] == ["ours", "other", "table", "floor"]


def test_the_name_of_a_line_stands_where_the_line_is_alone():
    """Catches: names at the lines' ends, where all lines meet."""
    (axes,) = panels(1)[1]
    steps = [10.0, 20.0, 30.0, 40.0]
    above = {
        "fixed words": [0.1, 0.0, 0.0, 0.0],
        "wording": [0.9, 0.4, 0.1, 0.1],
        "agreement": [1.6, 1.3, 0.7, 0.3],
        "names that return": [4.0, 3.9, 0.2, 0.1],
        "things that return": [3.7, 2.0, 0.1, 0.1],
        "details that return": [2.3, 2.2, 2.1, 2.1],
    }
    draw_kinds(axes, steps, above | {"first mentions": [1.0] * 4})
    assert {line.get_ydata()[0] for line in axes.lines} == {v[0] for v in above.values()}
    names = {text.get_text(): text.xy for text in axes.texts}
    assert names == {
        "fixed words": (10, 0.1),
        "wording": (10, 0.9),
        "agreement": (20, 1.3),
        "names that return": (20, 3.9),
        "things that return": (10, 3.7),
        "details that return": (30, 2.1),
    }


def test_there_are_44_names_7_days_and_12_teams():
    """The text takes the logarithms of these. Catches: a name added to the grammar."""
    data = EmailData(n_held_out=200)
    for row in next(data.held_out_batches(200)).targets[:20]:
        words = [data.decode([t]) for t in row.tolist() if t not in (IGNORE, data.eos_id)]
        drawn = {t.slot: t.log_p for t in EMAILS.score(words) if t.kind == "new"}
        for slot, choices in [("to", 44), ("day", 7), ("team", 12)]:
            assert -drawn[slot] == pytest.approx(math.log(choices))


def test_the_sender_of_the_first_email_costs_the_opening_and_one_of_43_names():
    """The text says ln 3 + ln 43. Catches: another opening, or another first held-out email."""
    row = next(EmailData(n_held_out=200).held_out_batches(200)).targets[0].tolist()
    data = EmailData(n_held_out=1)
    words = [data.decode([t]) for t in row if t not in (IGNORE, data.eos_id)]
    cost = {(t.word, t.slot): -t.log_p for t in EMAILS.score(words) if t.kind == "new"}
    assert cost["Ivan", "from"] == pytest.approx(math.log(3) + math.log(43))
    assert cost["Kofi", "to"] == pytest.approx(math.log(44))


def test_forward_and_backward_cost_six_operations_per_parameter_and_token():
    """Tolerance: 10 %, for attention's own products and the norms, which the rule leaves out.

    Catches: a second pass over the logits in the loss.
    """
    torch.manual_seed(0)
    model = DecoderLM(ModelConfig(vocab_size=300, max_len=50, position="rope"))
    tokens = torch.randint(300, (4, 50))
    with FlopCounterMode(display=False) as counter:
        model.loss(tokens, tokens).backward()
    assert counter.get_total_flops() / (model.n_params() * tokens.numel()) == pytest.approx(
        6, rel=0.1
    )


def test_what_the_page_says_of_the_email_that_the_model_wrote_is_true():
    """Its cell is `trained`, and its words differ between machines: so the stored ones are scored.

    Catches: an email stored with the verdict on another one.
    """
    printed = [
        o.text for c in notebooks.read(CHAPTER).cells for o in c.get("outputs", []) if "text" in o
    ]
    (stored,) = [text for text in printed if "\npossible: " in text]
    email, verdict = stored.replace("\n  ", " ").strip().split("\n\npossible: ")
    data = EmailData(n_held_out=1)
    scored = EMAILS.score([data.decode([token]) for token in data.encode(email)])
    impossible = [token.word for token in scored if token.log_p == -math.inf]
    assert verdict == (f"not with “{impossible[0]}”" if impossible else "yes")


@pytest.fixture(scope="module")
def widget_emails() -> list[dict]:
    notebook = notebooks.read(CHAPTER)
    models = notebook.metadata.widgets[notebooks.STATE]["state"].values()
    (state,) = [m["state"] for m in models if "emails" in m["state"]]
    return state["emails"]


def test_the_widget_shows_the_held_out_emails_with_their_exact_probabilities(widget_emails):
    """Catches: a stored widget of an older grammar; kinds or numbers shifted by one row."""
    data = EmailData(n_held_out=200)
    targets = next(data.held_out_batches(200)).targets
    assert len(widget_emails) == 2
    for record, row in zip(widget_emails, targets, strict=False):
        words = [data.decode([t]) for t in row.tolist() if t not in (IGNORE, data.eos_id)]
        tokens = EMAILS.score(words)
        assert record["tokens"] == ["BOS", *words, "EOS"]
        assert record["source_nll"] == pytest.approx([-t.log_p for t in tokens], abs=1e-4)
        for shown, token in zip(record["kinds"], tokens, strict=True):
            assert (shown == "first mentions") == (token.kind == "new")


def test_in_the_widget_only_the_model_without_a_mask_is_below_the_floor(widget_emails):
    """Catches: the two models exchanged; numbers of an untrained model."""
    for record in widget_emails:
        floor = sum(record["source_nll"])
        assert sum(record["unmasked_nll"]) < floor / 2
        assert floor - 3 < sum(record["causal_nll"]) < 2 * floor
