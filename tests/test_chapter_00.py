"""Chapter 00: what its text, its figures and its widget say, recomputed from the package."""

from __future__ import annotations

import math
import re
import tomllib
from itertools import pairwise
from pathlib import Path

import notebooks
import pytest
import torch
from helpers import ids, normal, tiny

from tfcourse.architectures import DecoderLM
from tfcourse.blocks import Block
from tfcourse.config import ModelConfig
from tfcourse.data.batching import EmailData
from tfcourse.data.bigrams import bigram_nats, bigram_table
from tfcourse.data.emails import EMAILS
from tfcourse.figures.overview import (
    answers,
    draw_against_length,
    draw_answers,
    draw_forward_pass,
    draw_hulls,
    draw_predictors,
    forward_stages,
    hull,
    inside,
)
from tfcourse.losses import IGNORE
from tfcourse.widgets.next_word import guess_email

ROOT = Path(__file__).resolve().parent.parent
CHAPTER = ROOT / "chapters" / "00_overview.ipynb"
SQUARE = torch.tensor([[0.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.0, 2.0]])


@pytest.fixture(scope="module")
def data() -> EmailData:
    return EmailData(n_held_out=200)


@pytest.fixture(scope="module")
def table(data) -> torch.Tensor:
    return bigram_table(data, 10_000)[0]


def tokens_of(data: EmailData, row: int) -> list[int]:
    targets = next(data.held_out_batches(200)).targets[row]
    return [data.bos_id, *targets[targets != IGNORE].tolist()]


def text() -> str:
    cells = notebooks.read(CHAPTER).cells
    return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


# --- what the text says ---


def test_the_covered_word_is_the_name_from_the_greeting(data, table):
    """Word 37 of held-out email 9. The table gives a line break two times out of three, and hardly
    ever the name; the grammar is certain. Catches: another email at this place."""
    email = tokens_of(data, 9)
    words = [data.decode([t]) for t in email[1:]]
    assert words[36] == words[5] == "Ingrid" and words[4] == "Hey" and words[35] == ","
    best = int(table[email[36]].argmax())
    assert data.decode([best]) == "\n"
    assert 0.6 < float(table[email[36], best]) < 0.7
    assert float(table[email[36], email[37]]) < 0.02
    assert EMAILS.next_word_probs(words[:36]) == {"Ingrid": 1.0}


def test_the_table_knows_this_is_and_is_lost_at_the_closing(data, table):
    """The text below the widget names both. Catches: another grammar."""
    email = [data.decode([t]) for t in tokens_of(data, 9)]

    def p(before: str, after: str) -> float:
        return float(table[data.encode(before)[0], data.encode(after)[0]])

    assert p("This", "is") > 0.99
    assert max(p("\n", "Bye"), p("\n", "Amara")) < 0.1 and p("find", "her") < 0.6
    assert [w for w in email[30:34] if w in ("You", "can", "find", "her")]


def test_an_open_forget_gate_keeps_over_99_percent():
    """Bias 5, where the rest of the gate's input is 0. Catches: another bias in the text."""
    assert 0.99 < torch.sigmoid(torch.tensor(5.0)) < 1
    assert "With a bias of 5 each step keeps over 99 %" in " ".join(text().split())


@pytest.mark.slow
def test_the_place_makes_up_for_half_of_the_distance(data):
    """ "About half", "some 0.7 nats". Catches: a table with positions that looks only at those."""
    n = sum(int((b.targets != IGNORE).sum()) for b in data.held_out_batches(200))
    floor = float(data.floor.sum()) / n
    word, place = (float(bigram_nats(data, 10_000, p).sum()) / n for p in (False, True))
    assert 0.4 < (word - place) / (word - floor) < 0.6
    assert 0.65 < place - floor < 0.75
    assert round(place, 2) == 1.40
    more = float(bigram_nats(data, 40_000, True).sum()) / n  # chapter 05 names both
    assert round(more, 2) == 1.36


def test_the_table_holds_probabilities_and_scores_like_its_rows(data, table):
    """Catches: rows that do not add up to 1; a position's table used for another position."""
    assert table.shape == (data.vocab_size, data.vocab_size)
    torch.testing.assert_close(table.sum(dim=1), torch.ones(data.vocab_size))
    placed = bigram_table(data, 500, use_position=True)
    assert placed.shape == (data.max_len, data.vocab_size, data.vocab_size)
    email = tokens_of(data, 3)
    by_hand = -sum(math.log(placed[i, a, b]) for i, (a, b) in enumerate(pairwise(email)))
    assert float(bigram_nats(data, 500, use_position=True)[3]) == pytest.approx(by_hand, rel=1e-4)


def test_the_paper_s_table_is_printed_as_it_is():
    """Table 1 of the 2017 paper in our letters. Catches: a factor in the wrong cell."""
    rows = re.findall(r"^\| (attention|recurrent|convolution) \| (.+?) \|$", text(), re.M)
    cells = {name: [c.strip() for c in rest.split("|")] for name, rest in rows}
    assert cells["attention"] == ["$L^2 d$", "1", "1"]
    assert cells["recurrent"] == ["$L d^2$", "$L$", "$L$"]
    assert cells["convolution"] == [r"$\text{window} \cdot L d^2$", "1", r"$L / \text{window}$"]
    assert "50 \\cdot 50 \\cdot 128 = 320{,}000" in text() and 50 * 50 * 128 == 320_000
    assert "50 \\cdot 128 \\cdot 128 = 819{,}200" in text() and 50 * 128 * 128 == 819_200


def test_each_of_the_fifteen_parts_has_a_place():
    """A chapter, a file of the package, or a source. Catches: a part without one; a file moved."""
    rows = re.findall(r"^\| (\d+) \| (.+?) \| (.+?) \|$", text(), re.M)
    assert [int(number) for number, _, _ in rows] == list(range(1, 16))
    keys = (ROOT / "chapters" / "references.bib").read_text(encoding="utf-8")
    for _, _, place in rows:
        named = re.findall(r"{cite:t}`(\w+)`", place)
        files = re.findall(r"`(tfcourse/\S+|tests/)`", place)
        chapters = re.findall(r"\b0[0-6] [A-Z]\w+|this chapter", place)
        assert named or files or chapters or "tfcourse costs" in place, place
        assert all(f"{{{key}," in keys for key in named), place
        assert all((ROOT / name).exists() for name in files), place


def test_the_notation_table_maps_every_letter():
    """Each quantity once, with the letter of each text. Catches: a letter left out or moved."""
    notation = (ROOT / "chapters" / "notation.md").read_text(encoding="utf-8")
    part = notation.split("## The same things in other texts")[1].split("\n## ")[0]
    rows = [row.split("\n```")[0].split("\n  - ") for row in part.split("\n* - ")[1:]]
    assert all(len(row) == 8 for row in rows), [row for row in rows if len(row) != 8]
    assert rows[0] == ["In words", "Here", "Code", "D0", "D1", "D2", "D4", "2017"]
    by_name = {row[0]: " ".join(row[1:]) for row in rows}
    expected = {
        "rows in a batch": ["$B$", "`B`"],
        "length of a text": ["$L$", "`seq`", "$T$", "$n$", "`T`"],
        "width of a row": ["$d$", r"$d_{\text{model}}$", "`d_model`"],
        "heads": ["$H$", "$h$", "`n_heads`"],
        "width of a head": ["$d_k$", "$d_{head}$", "$d_v$", "`head_dim`"],
        "hidden width of the MLP": ["$m$", "$d_{ff}$", "`d_ff`"],
        "blocks": ["$N$", "$L$", "`n_layers`"],
        "entries in the vocabulary": ["$V$", "$v$", "`vocab`", "`vocab_size`"],
    }
    for name, letters in expected.items():
        assert all(letter in by_name[name] for letter in letters), name


def test_the_statements_with_a_source_stand_in_the_text():
    """Catches: a sentence that was changed and its source left behind; an unknown source."""
    path = ROOT / "chapters" / "claims" / "00_overview.toml"
    registry = tomllib.loads(path.read_text(encoding="utf-8"))
    keys = (ROOT / "chapters" / "references.bib").read_text(encoding="utf-8")
    for statement in registry["statements"]:
        assert statement["text"] in text(), statement["text"]
        assert f"{{{statement['source']}," in keys and statement["locator"]


# --- what the figures show ---


def test_who_answers_is_read_off_the_layer():
    """Catches: the two axes exchanged; a change too small to be seen."""
    config = ModelConfig(vocab_size=2, d_model=16)
    torch.manual_seed(0)
    block, x = Block(config), normal(5, 16)
    assert torch.equal(answers(block.feed_forward.sublayer, x), torch.eye(5).bool())
    assert torch.equal(answers(block.attention.sublayer, x), torch.ones(5, 5).bool().tril())
    shifted = answers(lambda rows: rows.roll(1, dims=1), x)  # row 0 goes to row 1
    assert shifted.nonzero().tolist() == [[0, 4], [1, 0], [2, 1], [3, 2], [4, 3]]


def test_the_grid_is_filled_where_a_row_answers():
    """Catches: the transposed picture, which would let rows read the future."""
    fig = draw_answers({"some": torch.ones(3, 3).bool().tril()}, ["mlp"], ["a", "b", "c"])
    filled, empty = (c.get_offsets().tolist() for c in fig.axes[0].collections)
    assert [0, 2] in filled and [2, 0] in empty and len(filled) == 6 and len(empty) == 3
    assert fig.axes[0].get_ylim()[0] > fig.axes[0].get_ylim()[1]  # the first row is on top


def test_the_hull_has_the_corners_and_nothing_else():
    """Catches: points within, or on a side, taken for corners."""
    more = torch.cat([SQUARE, torch.tensor([[1.0, 1.0], [1.0, 0.0], [0.5, 1.5]])])
    assert sorted(hull(more).tolist()) == sorted(SQUARE.tolist())
    points = torch.tensor([[1.0, 1.0], [2.0, 1.0], [2.1, 1.0], [-1.0, 3.0]])
    assert inside(points, more).tolist() == [True, True, False, False]


@pytest.mark.parametrize("seed", range(5))
def test_a_weighted_mean_is_inside(seed):
    """Catches: a sign error in the turn, which would put points inside that are outside."""
    corners = normal(7, 2, seed=seed)
    weights = normal(50, 7, seed=seed + 50).softmax(dim=1)
    assert inside(weights @ corners, corners).all()
    assert not inside(3 * corners[corners.norm(dim=1).argmax()][None], corners).any()


def test_the_hull_figure_draws_corners_and_points():
    """Catches: corners and points exchanged."""
    points = torch.tensor([[1.0, 1.0]])
    axes = draw_hulls({"title": (SQUARE, points)}, ["attention"]).axes[0]
    circles, crosses = (c.get_offsets().tolist() for c in axes.collections)
    assert circles == SQUARE.tolist() and crosses == points.tolist()


@pytest.mark.nohook
def test_the_bars_and_lines_are_as_long_as_they_should_be():
    """Catches: a bar of another predictor; a name at a point that is not in the picture."""
    ax = draw_predictors({"a": 2.0, "b": 1.0}, ["mlp", "stream"], floor=0.5).axes[0]
    assert [patch.get_width() for patch in ax.patches] == [2.0, 1.0]
    assert set(ax.lines[0].get_xdata()) == {0.5}
    lines = {"stays": [1.0, 0.5, 0.25], "dies": [1.0, 1e-3, 1e-20]}
    ax = draw_against_length([1, 10, 100], lines, "share", low=1e-8).axes[0]
    assert [list(line.get_ydata()) for line in ax.lines] == list(lines.values())
    assert ax.get_ylim()[0] == 1e-8
    assert [(t.get_text(), t.xy) for t in ax.texts] == [
        ("stays", (100, 0.25)),
        ("dies", (10, 1e-3)),
    ]


@pytest.mark.nohook
def test_the_forward_pass_shows_the_shapes_of_the_running_model():
    """Catches: shapes that are written and not read; a stage of another block."""
    model = DecoderLM(tiny(vocab_size=50, d_model=32, n_heads=4, n_layers=3, d_ff=80))
    stages = forward_stages(model, ids(2, 9))
    assert dict(stages)["inside the MLP"] == (2, 9, 80)
    assert [s.name for s in stages if s.name.startswith("block")] == [
        "block 1",
        "block 2",
        "block 3",
    ]
    assert not any(module._forward_hooks for module in model.modules())
    shown = [t.get_text() for t in draw_forward_pass(stages).axes[0].texts]
    assert shown.count("[2 9 32]") == 9 and shown.count("[2 9 50]") == 2 and "[2 9]" in shown
    assert "blocks 2 to 3" in shown


# --- what the widget shows ---


def test_an_email_is_guessed_by_table_and_grammar(data, table):
    """Catches: the two exchanged; entries that begin at the second word; a missing last entry."""
    email = tokens_of(data, 2)
    record = guess_email(data, email, table, "title")
    words = [data.decode([t]) for t in email[1:-1]]
    exact = [math.exp(token.log_p) for token in EMAILS.score(words)]
    assert record["title"] == "title" and record["tokens"][:2] == ["BOS", "Subject"]
    assert [entry["answer"] for entry in record["grammar"]] == pytest.approx(exact)
    pairs = [float(table[a, b]) for a, b in pairwise(email)]
    assert [entry["answer"] for entry in record["table"]] == pytest.approx(pairs)
    assert record["grammar"][-1]["words"] == ["EOS"]
    assert all(len(entry["words"]) == 5 for entry in record["table"])


@pytest.fixture(scope="module")
def widget() -> dict:
    """The state of the chapter's widget, as it is stored in the notebook."""
    models = notebooks.read(CHAPTER).metadata.widgets[notebooks.STATE]["state"].values()
    (state,) = [m["state"] for m in models if "all_words" in m["state"]]
    return state


def test_the_widget_starts_at_the_covered_word(widget):
    """Catches: a start at the first word, where nobody can know anything."""
    assert (widget["email"], widget["word"]) == (0, 37)
    assert (widget["all_words"], widget["revealed"]) == (True, True)


def test_the_widget_shows_what_table_and_grammar_say(widget, data, table):
    """Catches: a stored widget of an older grammar; probabilities shifted by one word."""
    for shown, row in zip(widget["emails"], (9, 5, 12), strict=True):
        email = tokens_of(data, row)
        words = [data.decode([t]) for t in email[1:-1]]
        assert shown["tokens"] == ["BOS", *(w.replace("\n", "↵") for w in words), "EOS"]
        exact = [math.exp(token.log_p) for token in EMAILS.score(words)]
        pairs = [float(table[a, b]) for a, b in pairwise(email)]
        assert [e["answer"] for e in shown["grammar"]] == pytest.approx(exact, abs=1e-5)
        assert [e["answer"] for e in shown["table"]] == pytest.approx(pairs, abs=1e-5)
        for i, entry in enumerate(shown["table"]):
            assert entry["p"] == pytest.approx(table[email[i]].topk(5)[0].tolist(), abs=1e-5)
        for i in (0, 20, 36, len(words)):
            p = EMAILS.next_word_probs(words[:i]) or {"EOS": 1.0}
            best = {w.replace("\n", "↵"): v for w, v in p.items()}
            entry = shown["grammar"][i]
            assert [best[w] for w in entry["words"]] == pytest.approx(entry["p"], abs=1e-5)
            assert entry["p"] == pytest.approx(sorted(best.values(), reverse=True)[:5], abs=1e-5)
