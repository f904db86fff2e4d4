"""The widgets hold what they were given, refuse what they cannot show, and fetch nothing."""

import json
import math
import re
from pathlib import Path

import pytest

from tfcourse import widgets
from tfcourse.widgets import NextWord, NormLab, PrefixProblems, ResidualLab
from tfcourse.widgets.base import FOLDER

WIDGETS = [getattr(widgets, name) for name in widgets.__all__]
CHAPTERS = sorted((Path(__file__).parents[1] / "chapters").glob("*.ipynb"))
DEPTHS = (1, 2, 4, 8, 16, 32, 64)
ALPHAS = (1.0, 0.9, 0.7, 0.5)


def measurement(residual=True, alpha=1.0, depth=2, **changed):
    layers = range(depth + 1)
    record = {
        "residual": residual,
        "alpha": alpha,
        "depth": depth,
        "cosine": [1 - math.exp(-i - alpha) for i in layers],
        "stream_rms": [math.sqrt(alpha + i) for i in layers],
        "weight_gradient": [math.exp(i * math.pi * alpha) for i in range(depth)],
        "query_key_gradient": [math.exp(-i * math.pi * alpha) for i in range(depth)],
    }
    return {**record, **changed}


def grid(depths=DEPTHS, alphas=ALPHAS):
    return [measurement(True, a, d) for d in depths for a in alphas] + [
        measurement(False, 1.0, d) for d in depths
    ]


def email(length=3, **changed):
    record = {
        "tokens": ["<bos>", *(f"w{i}" for i in range(length - 1)), "<eos>"],
        "causal_nll": [0.1 * (i + 1) for i in range(length)],
        "unmasked_nll": [0.01] * length,
        "source_nll": [0.09, *[0.2 * i for i in range(1, length)]],
    }
    return {**record, **changed}


def guesses(length=3, **changed):
    best = {"words": ["a", "b", "c", "d", "e"], "p": [0.5, 0.2, 0.1, 0.05, 0.01]}
    record = {
        "tokens": ["BOS", *(f"w{i}" for i in range(length - 1)), "EOS"],
        "table": [{**best, "answer": 0.1} for _ in range(length)],
        "grammar": [{**best, "answer": 0.5 if i == 1 else 0.2} for i in range(length)],
    }
    return {**record, **changed}


def test_next_word_holds_what_it_was_given_and_starts_where_the_grammar_is_ahead():
    """Catches: the table and the grammar exchanged; a start at the first word."""
    given = [guesses(4), guesses(2, title="Lunch")]
    widget = NextWord(given)
    state = widget.get_state()
    for g, h in zip(given, state["emails"], strict=True):
        assert (h["tokens"], h["table"], h["grammar"]) == (g["tokens"], g["table"], g["grammar"])
    assert [e["title"] for e in state["emails"]] == ["Email 1", "Lunch"]
    assert (widget.word, widget.email, widget.all_words, widget.revealed) == (2, 0, True, True)
    assert NextWord(given, word=4).word == 4


@pytest.mark.parametrize(
    ("emails", "message"),
    [
        ([], "emails is empty; give at least one"),
        ([guesses(tokens=["BOS"])], r"emails\[0\]\.tokens has 1 tokens; give at least 2"),
        (
            [guesses(), guesses(4, table=guesses(3)["table"])],
            r"emails\[1\]\.table has 3 entries; give 4, one per word",
        ),
        (
            [guesses(1, grammar=[{"words": ["a"], "p": [0.5, 0.5], "answer": 0.5}])],
            r"emails\[0\]\.grammar\[0\]\.p has 2 values; give 1",
        ),
        (
            [guesses(1, table=[{"words": ["a"], "p": [0.5], "answer": 1.5}])],
            r"emails\[0\]\.table\[0\]\.answer\[0\]=1\.5; give a finite number from 0 to 1",
        ),
        ([{"tokens": ["a", "b"]}], r"emails\[0\] has no 'table'; give one"),
    ],
)
def test_next_word_refuses_what_it_cannot_show(emails, message):
    """Catches: any one of the checks taken out (its own line turns red)."""
    with pytest.raises(ValueError, match=message):
        NextWord(emails)


def test_next_word_stays_within_its_emails():
    """Catches: a validator removed; the page would then have nothing to draw."""
    widget = NextWord([guesses(3), guesses(5)])
    with pytest.raises(ValueError, match=r"word=6; give a number from 1 to 5"):
        widget.word = 6
    with pytest.raises(ValueError, match=r"email=2; give a number from 0 to 1"):
        widget.email = 2


def test_the_lab_holds_the_numbers_it_was_given_to_six_digits():
    """Catches: rounding to four digits, or one gradient stored as the other."""
    given = grid()
    held = ResidualLab(given).get_state()["measurements"]
    assert len(held) == len(given)
    for g, h in zip(given, held, strict=True):
        assert (h["residual"], h["alpha"], h["depth"]) == (g["residual"], g["alpha"], g["depth"])
        for name in ("cosine", "stream_rms", "weight_gradient", "query_key_gradient"):
            assert h[name] == pytest.approx(g[name], rel=5e-6)


def test_the_prefix_problems_hold_the_tokens_and_losses_they_were_given():
    """Catches: the causal and the unmasked losses swapped, or a token dropped."""
    given = [email(5, kinds=list("abcde")), email(2, title="Lunch")]
    state = PrefixProblems(given).get_state()
    for g, h in zip(given, state["emails"], strict=True):
        assert h["tokens"] == g["tokens"]
        assert h["kinds"] == g.get("kinds", [])
        for name in ("causal_nll", "unmasked_nll", "source_nll"):
            assert h[name] == pytest.approx(g[name], rel=5e-6)
    assert [e["title"] for e in state["emails"]] == ["Email 1", "Lunch"]


def test_both_start_in_a_state_that_teaches():
    """Catches: the lab starting at one block, or the slider at the first question."""
    lab = ResidualLab(grid())
    assert (lab.depth, lab.alpha, lab.show_with, lab.show_without) == (64, 1.0, True, True)
    problems = PrefixProblems([email(4, source_nll=[0.1, 0.2, 3.0, 0.0])])
    assert (problems.question, problems.mask, problems.email) == (3, True, 0)


def test_the_start_can_be_chosen():
    """Catches: a constructor that ignores `depth`, `alpha` or `question`."""
    lab = ResidualLab(grid(), depth=32, alpha=0.9)
    assert (lab.depth, lab.alpha) == (32, 0.9)
    assert PrefixProblems([email()], question=2).question == 2


@pytest.mark.parametrize(
    ("measurements", "message"),
    [
        ([], "no record with residual=True"),
        ([measurement(False)], "no record with residual=True"),
        ([measurement()], "0 records with residual=False, alpha=1, depth=2; give exactly one"),
        (
            [measurement(), measurement(False), measurement()],
            "2 records with residual=True, alpha=1, depth=2; give exactly one",
        ),
        (
            [*grid((2, 4), (1.0,)), measurement(True, 0.9, 2)],
            "0 records with residual=True, alpha=0.9, depth=4; give exactly one",
        ),
        (
            [measurement(weight_gradient=[1.0, 2.0, 3.0])],
            r"measurements\[0\]\.weight_gradient has 3 values; give 2",
        ),
        (
            [measurement(cosine=[0.0, math.nan, 0.0])],
            r"measurements\[0\]\.cosine\[1\]=nan; give a finite number from -1 to 1",
        ),
        (
            [measurement(cosine=[0.0, 1.1, 0.0])],
            r"measurements\[0\]\.cosine\[1\]=1\.1; give a finite number from -1 to 1",
        ),
        (
            [measurement(stream_rms=[1.0, 1.0, math.inf])],
            r"measurements\[0\]\.stream_rms\[2\]=inf; give a finite number >= 0",
        ),
        (
            [measurement(query_key_gradient=[-1.0, 1.0])],
            r"measurements\[0\]\.query_key_gradient\[0\]=-1\.0; give a finite number >= 0",
        ),
        ([measurement(depth=0)], r"measurements\[0\]\.depth=0; give a number of blocks >= 1"),
        (
            [measurement(False, 0.9)],
            r"measurements\[0\]\.alpha=0\.9 without a residual scales nothing; give 1",
        ),
        ([{"residual": True}], r"measurements\[0\] has no 'alpha'; give one"),
    ],
)
def test_the_lab_refuses_what_it_cannot_show(measurements, message):
    """Catches: any one of the checks taken out (its own line turns red)."""
    with pytest.raises(ValueError, match=message):
        ResidualLab(measurements)


@pytest.mark.parametrize(
    ("emails", "message"),
    [
        ([], "emails is empty; give at least one"),
        ([email(tokens=["<bos>"])], r"emails\[0\]\.tokens has 1 tokens; give at least 2"),
        (
            [email(), email(4, causal_nll=[0.1] * 5)],
            r"emails\[1\]\.causal_nll has 5 values; give 4",
        ),
        (
            [email(unmasked_nll=[0.1, -0.1, 0.1])],
            r"emails\[0\]\.unmasked_nll\[1\]=-0\.1; give a finite number >= 0",
        ),
        ([email(kinds=["name"])], r"emails\[0\]\.kinds has 1 words; give 3, one per target"),
        ([{"tokens": ["a", "b"]}], r"emails\[0\] has no 'causal_nll'; give one"),
    ],
)
def test_the_prefix_problems_refuse_what_they_cannot_show(emails, message):
    """Catches: any one of the checks taken out (its own line turns red)."""
    with pytest.raises(ValueError, match=message):
        PrefixProblems(emails)


def test_a_control_cannot_be_set_where_nothing_was_measured():
    """Catches: a validator removed; the page would then have nothing to draw."""
    lab = ResidualLab(grid((2, 4)))
    with pytest.raises(ValueError, match=r"depth=3 was not measured; choose one of 2, 4"):
        lab.depth = 3
    with pytest.raises(ValueError, match=r"alpha=0\.8 was not measured; choose one of 0\.5, "):
        lab.alpha = 0.8
    with pytest.raises(ValueError, match=r"depth=32 was not measured"):
        ResidualLab(grid((2, 4)), depth=32)
    problems = PrefixProblems([email(3), email(5)])
    with pytest.raises(ValueError, match=r"question=6; give a number from 1 to 5"):
        problems.question = 6
    with pytest.raises(ValueError, match=r"email=2; give a number from 0 to 1"):
        problems.email = 2


def test_rounding_errors_at_the_edge_of_a_range_are_forgiven():
    """Catches: a cosine of 1.0000002, which float32 gives for equal vectors, being refused."""
    lab = ResidualLab([measurement(cosine=[0.0, 1.0, 1.0000002]), measurement(False)])
    assert lab.measurements[0]["cosine"] == [0.0, 1.0, 1.0]
    problems = PrefixProblems([email(causal_nll=[-1e-7, -0.0, 0.1])])
    assert str(problems.emails[0]["causal_nll"]) == "[0.0, 0.0, 0.1]"


@pytest.mark.parametrize(
    "widget",
    [
        lambda: ResidualLab(grid()),
        lambda: PrefixProblems([email(60) for _ in range(8)]),
        lambda: NextWord([guesses(60) for _ in range(5)]),
        NormLab,
    ],
    ids=["residual lab", "prefix problems", "next word", "norm lab"],
)
def test_the_whole_state_stays_small_and_is_plain_json(widget):
    """Catches: a plotting library bundled into the script, or a trait that is not JSON."""
    state = widget().get_state()
    state.pop("layout")
    assert len(json.dumps(state)) < 150_000


@pytest.mark.parametrize(
    "path", sorted([*FOLDER.glob("*.js"), *FOLDER.glob("*.css")]), ids=lambda p: p.name
)
def test_the_front_end_fetches_nothing(path):
    """Catches: a CDN import, a web font, a fetch, or an address of any host."""
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"https?:|//[\w-]+\.\w+|\bimport\b|\bfetch\(|url\(|@font-face", text)


def test_each_script_is_one_module_with_one_default_export():
    """Catches: the shared helpers left out of a widget's script."""
    for cls in WIDGETS:
        source = str(cls._esm)
        assert source.count("export default") == 1
        assert "function makeFrame" in source


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda p: p.name)
def test_a_stored_widget_carries_the_script_and_style_of_today(path):
    """Catches: a script edited without `make chapters`; the book would show the old one."""
    metadata = json.loads(path.read_text(encoding="utf-8"))["metadata"].get("widgets", {})
    stored = metadata.get("application/vnd.jupyter.widget-state+json", {"state": {}})["state"]
    for model in stored.values():
        for cls in WIDGETS:
            if model["state"].get("_anywidget_id", "").endswith(f".{cls.__name__}"):
                assert model["state"]["_esm"] == str(cls._esm), "run: make chapters"
                assert model["state"]["_css"] == str(cls._css), "run: make chapters"
