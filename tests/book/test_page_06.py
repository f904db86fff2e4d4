"""Chapter 06's widget on its page: what it shows is what is stored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

CHAPTER = Path(__file__).resolve().parents[2] / "chapters" / "06_architectures.ipynb"


@pytest.fixture(scope="module")
def models() -> list[dict]:
    metadata = json.loads(CHAPTER.read_text(encoding="utf-8"))["metadata"]
    states = metadata["widgets"]["application/vnd.jupyter.widget-state+json"]["state"].values()
    (found,) = [m["state"]["models"] for m in states if "models" in m["state"]]
    return found


def test_each_layer_shows_its_own_weights(visit, models):
    """In the table and in the picture, a cross where the mask forbids.

    Catches: the menu of layers not filled again for another architecture; rows and columns swapped.
    """
    page = visit("file").page
    page.goto(CHAPTER.parents[1].joinpath("_build/html/chapters/06_architectures.html").as_uri())
    widget = page.locator(".tfcourse-widget")
    widget.wait_for(timeout=20_000)
    widget.locator("summary").click()
    architecture, layer, follow = widget.locator("select").all()
    for i, model in enumerate(models):
        architecture.select_option(index=i)
        assert layer.locator("option").all_inner_texts() == [v["title"] for v in model["layers"]]
        for j, stored in enumerate(model["layers"]):
            layer.select_option(index=j)
            rows = [row.locator("td").all_inner_texts() for row in widget.locator("tbody tr").all()]
            expected = [
                [f"{w:.3f}" if w > 0 else "–" for w in weights] for weights in stored["weights"]
            ]
            assert [row[1:] for row in rows] == expected
            masked = sum(w == 0 for weights in stored["weights"] for w in weights)
            assert widget.locator("svg .tfc-cross").count() == masked
            for kind, name in (("query", "query_from"), ("key", "key_from")):
                follow.select_option(label=kind)
                (origin,) = [p for p in model["parts"] if p["name"] == stored[name]]
                assert (
                    f"the result of {origin['title']}."
                    in widget.locator("[aria-live]").inner_text()
                )
