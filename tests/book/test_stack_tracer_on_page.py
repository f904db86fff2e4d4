"""The stack tracer of chapter 04, on the static page, shows what its state holds."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tfcourse.widgets.stack_tracer import unpack

PAGE = "chapters/04_stacking.html"
STATE = 'script[type="application/vnd.jupyter.widget-state+json"]'


def spoken(widget) -> str:
    return " ".join(widget.locator("[aria-live]").all_inner_texts())


@pytest.fixture
def playing(visit):
    """Open the page with a clock that only the test moves, and press Play."""
    page = visit("http")
    page.page.clock.install()
    page.open(PAGE)
    widget = page.page.locator(".tft-tracer")
    widget.get_by_role("button", name="Play").click()
    return page, widget


def numbers(texts: list):
    """Read what the page shows, with its typographic minus sign."""
    if texts and isinstance(texts[0], list):
        return np.array([numbers(row) for row in texts])
    return np.array([float(text.replace("−", "-")) for text in texts])


def test_the_stack_tracer_shows_the_numbers_of_its_state(visit):
    """Every stage of one text, for its last and its second word, against the stored tensors.

    Catches: bytes read in the wrong order or with another stage's scale, a row off by one, heads
    and rows exchanged, a guess of another stage, Play that never stops.
    """
    page = visit("http")
    page.open(PAGE)
    state = json.loads(page.page.locator(STATE).inner_text())["state"]
    (state,) = [m["state"] for m in state.values() if "texts" in m["state"]]
    widget = page.page.locator(".tft-tracer")
    widget.locator("summary").click()
    text, words, last = state["texts"][1], state["words"], len(state["stages"]) - 1
    widget.locator("select").nth(0).select_option(index=1)
    for row in (len(text["ids"]) - 1, 1):
        widget.locator("select").nth(1).select_option(index=row)
        widget.get_by_role("button", name="Start again").click()
        for number, stage in enumerate(state["stages"]):
            values, said = unpack(text["tensors"][number]), spoken(widget)
            assert f"Step {number + 1} of {last + 1}." in said
            shape = " × ".join(str(n) for n in values.shape)
            assert widget.locator(".tft-shape").inner_text().endswith(f"= {shape}")
            shown = widget.locator("tbody td").all_inner_texts()
            if stage["kind"] == "ids":
                assert shown[1::2] == [str(i) for i in text["ids"]]
            elif stage["kind"] == "weights":
                heads = len(values)
                columns = [shown[h + 1 :: heads + 1] for h in range(heads)]
                assert numbers(columns) == pytest.approx(values[:, row].numpy(), abs=6e-4)
            elif stage["axes"] == "L V":
                best, digit = values[row].topk(20).values, 1e-2 if number < last else 1e-3
                assert numbers(shown[1::2]) == pytest.approx(best.numpy(), abs=0.6 * digit)
                assert shown[0] == words[int(values[row].argmax())].replace("\n", "↵")
            else:
                cells = [cell for i, cell in enumerate(shown) if i % 9]
                assert numbers(cells) == pytest.approx(values[row].numpy(), abs=6e-3)
            if look := text["guesses"][number]:
                word, p = look[row][0]
                assert f"“{words[word]}” next ({100 * p:.1f} %)".replace("\n", "↵") in said
            if number < last:
                widget.get_by_role("button", name="Step").click()
    assert page.complaints == []


def test_the_stack_tracer_plays_and_stops(playing):
    """Catches: a timer that runs on behind the page, Play that does not say so."""
    page, widget = playing
    assert "Playing" in spoken(widget)
    page.page.clock.run_for(3000)
    assert "Step 3 of" in spoken(widget)
    widget.get_by_role("button", name="Pause").click()
    page.page.clock.run_for(10_000)
    assert "Step 3 of" in spoken(widget) and "Playing" not in spoken(widget)
    widget.get_by_role("button", name="Play").click()
    page.page.clock.run_for(120_000)
    assert widget.get_by_role("button", name="Play").count() == 1
    slider = widget.get_by_role("slider", name="Stage")
    assert slider.input_value() == slider.get_attribute("max")


def test_the_slider_moves_while_the_trace_plays(playing):
    """Catches: a first move that only stops the play, because drawing resets the slider."""
    _, widget = playing
    slider = widget.get_by_role("slider", name="Stage")
    slider.press("End")
    assert slider.input_value() == slider.get_attribute("max")
    assert "Playing" not in spoken(widget)
