"""What stands in the built files, without a browser."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import claims
import nbformat
import pytest
import yaml
from conftest import ROOT, all_pages, chapter_pages

STATE = "application/vnd.jupyter.widget-state+json"
VIEW = "application/vnd.jupyter.widget-view+json"
WIDGET_SCRIPTS = ("require.js", "embed-amd.js", "anywidget", "widgets.js")
LIMIT = 1_000_000


def scripts(text: str, kind: str) -> list:
    pattern = rf'<script type="{re.escape(kind)}">(.*?)</script>'
    return [json.loads(body) for body in re.findall(pattern, text, re.S)]


def local_files(page: Path, text: str) -> set[Path]:
    """List the files of the book that a page loads at once."""
    tags = re.findall(r"<(?:script|link|img)\b[^>]*>", text)
    found = set()
    for tag in tags:
        address = re.search(r'(?:src|href)="([^"]+)"', tag)
        if not address or re.search(r'rel="(?:index|search|next|prev|author)"', tag):
            continue
        parts = urlsplit(address[1])
        assert not parts.scheme or parts.scheme == "data", f"{page.name}: {tag}"
        found.add((page.parent / unquote(parts.path)).resolve())
    return found


@pytest.mark.parametrize("path", all_pages())
def test_a_page_loads_files_that_are_there_and_few_of_them(html, path):
    """At most 1 MB compressed before widget scripts, with MathJax's usual fonts.

    Catches: the theme's icon script put back (529 KB), a script tag to another host, widget
    scripts on a page without a widget, the search index where nothing is searched.
    """
    page = html / path
    text = page.read_text(encoding="utf-8")
    files = local_files(page, text)
    assert [file for file in files if not file.is_file()] == []
    is_widget_script = {f: any(name in str(f) for name in WIDGET_SCRIPTS) for f in files}
    assert any(file.name == "searchindex.js" for file in files) == (path == "search.html")
    assert any(is_widget_script.values()) == bool(scripts(text, VIEW))
    loaded = [page, *(f for f, widget in is_widget_script.items() if not widget)]
    if "tex-chtml.js" in text:
        fonts = html / "_static/mathjax/es5/output/chtml/fonts/woff-v2"
        usual = ("Main-Regular", "Math-Italic", "Main-Bold", "Size1-Regular", "Size2-Regular")
        loaded += [fonts / f"MathJax_{name}.woff" for name in usual]
    assert sum(len(gzip.compress(file.read_bytes(), 6)) for file in loaded) <= LIMIT


def test_widget_views_find_their_models(html):
    """Case 73. Catches: state stored without one of the models that a view or model names."""
    pages_with_widgets = 0
    for path in chapter_pages():
        text = (html / path).read_text(encoding="utf-8")
        views = {view["model_id"] for view in scripts(text, VIEW)}
        states = scripts(text, STATE)
        assert bool(views) == bool(states), path
        if views:
            models = states[0]["state"]
            named = set(re.findall(r"IPY_MODEL_([\w-]+)", json.dumps(models)))
            assert views | named <= set(models)
            pages_with_widgets += 1
    assert pages_with_widgets >= 2


def test_launch_buttons_lead_to_notebooks(html):
    """Case 77. Catches: another branch or folder in the address, a button on a .md page."""
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    repository = config["repository"]["url"].removeprefix("https://github.com/")
    start = (
        f"{config['launch_buttons']['colab_url']}/github/{repository}"
        f"/blob/{config['repository']['branch']}/"
    )
    notebooks = 0
    for path in chapter_pages():
        text = (html / path).read_text(encoding="utf-8")
        links = set(re.findall(r'href="(https://colab[^"]+)"', text))
        source = ROOT / Path(path).with_suffix(".ipynb")
        assert links >= (
            {start + Path(path).with_suffix(".ipynb").as_posix()} if source.exists() else set()
        )
        for link in links:
            assert link.startswith(start), link
            notebook = nbformat.read(ROOT / link.removeprefix(start), as_version=4)
            nbformat.validate(notebook)
            notebooks += 1
    assert notebooks >= 3


def test_every_image_of_the_text_says_what_it_shows(html):
    """Catches: a figure shown without `tfcourse.figures.show`, or outputs stored by hand."""
    for path in chapter_pages():
        text = (html / path).read_text(encoding="utf-8")
        article = text[text.index("<article") : text.index("</article>")]
        for tag in re.findall(r"<img\b[^>]*>", article):
            alt = re.search(r'alt="([^"]*)"', tag)
            assert alt and len(alt[1]) > 15, f"{path}: {tag[:200]}"
            assert not re.search(r"\.png|_build|\$|\\\(", alt[1]), f"{path}: {alt[1]}"


def test_titles_hold_no_raw_math(html):
    """Catches: a formula in a chapter's title, which browser tabs and menus show as TeX."""
    for path in all_pages():
        text = (html / path).read_text(encoding="utf-8")
        title = re.search(r"<title>(.*?)</title>", text, re.S)[1]
        assert not re.search(r"[\\$]", title), title


def test_links_inside_the_book_lead_somewhere(html):
    """Catches: a section that was renamed, a file that was moved."""
    ids: dict[Path, set[str]] = {}
    for path in all_pages():
        page = (html / path).resolve()
        text = page.read_text(encoding="utf-8")
        article = re.sub(r"<script.*?</script>", "", text[text.index("<main") :], flags=re.S)
        for address in re.findall(r'<a\b[^>]*href="([^"]+)"', article):
            parts = urlsplit(address.replace("&amp;", "&"))
            if parts.scheme:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            assert target.is_file(), f"{path}: {address}"
            if parts.fragment and target.suffix == ".html":
                if target not in ids:
                    found = re.findall(r'\bid="([^"]+)"', target.read_text(encoding="utf-8"))
                    ids[target] = set(found)
                assert unquote(parts.fragment) in ids[target], f"{path}: {address}"


def test_the_sections_of_the_registry_are_on_the_pages(html):
    """Catches: an anchor made by another rule than Sphinx's."""
    for chapter in claims.read_registry():
        for entry in [*chapter.covers, *chapter.claims]:
            page, anchor = claims.place(chapter, entry.section)
            text = (html / "chapters" / f"{page.stem}.html").read_text(encoding="utf-8")
            assert f'id="{anchor}"' in text, entry.section
