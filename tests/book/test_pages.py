"""Every page, opened as a reader opens it."""

from __future__ import annotations

import re

import pytest
from conftest import COLOURS, PHONE, WIDE, all_pages, chapter_pages, faint

# Text that a reader sees, less code and less what MathJax made.
VISIBLE_TEXT = """() => {
    const copy = document.querySelector("main").cloneNode(true);
    copy.querySelectorAll("pre, code, script, style, mjx-container").forEach(e => e.remove());
    return copy.textContent;
}"""
TEX = re.compile(r"\\[()\[\]]|\\(?:frac|text|mathrm|ell|alpha|theta|sqrt)\b|\$\$")
UNREADABLE_FORMULAS = """() => [...document.querySelectorAll(
    ".math, .math mjx-merror, [data-mml-node=merror]")]
    .filter(e => e.matches(".math") ? !e.querySelector("mjx-container") : true)
    .map(e => e.textContent)"""


def check_width(visit) -> None:
    width = visit.page.viewport_size["width"]
    assert visit.page.evaluate("document.scrollingElement.scrollWidth") <= width
    # The theme cuts off what is too wide at the foot, so the page itself stays narrow.
    rights = "[...document.querySelectorAll('.prev-next-area *')].map("
    rights += "e => e.getBoundingClientRect().right)"
    assert max(visit.page.evaluate(rights), default=0) <= width + 0.5


@pytest.mark.parametrize("path", all_pages())
def test_a_page_is_quiet_readable_and_accessible_over_http(visit, path):
    """One load, then the other theme and a phone's width, each with the rules that it can change.

    Catches: the theme's Thebe script (console error), a font from another host, the search
    button's aria-label put back (axe), a figure or a link at the foot wider than the phone, MathJax
    not found.
    """
    page = visit("http")
    page.open(path)
    assert page.foreign == []
    assert page.page.evaluate(UNREADABLE_FORMULAS) == []
    assert not TEX.search(page.page.evaluate(VISIBLE_TEXT))
    assert page.axe() == []
    page.set_theme("dark")
    assert page.axe(structure=False) == [], "dark"
    page.page.set_viewport_size(PHONE)
    page.page.wait_for_timeout(800)  # the theme marks scrollable code with a delay
    check_width(page)
    assert page.axe(colours=False) == [], "360 pixels"
    assert page.complaints == []
    assert page.foreign == []


@pytest.mark.parametrize("path", all_pages())
def test_a_page_works_from_disk(visit, path):
    """Catches: a script that fetches a file, an address that starts with a slash."""
    page = visit("file", PHONE)
    page.open(path)
    check_width(page)
    assert page.page.evaluate(UNREADABLE_FORMULAS) == []
    assert page.complaints == []
    assert page.foreign == []


@pytest.mark.accept
@pytest.mark.parametrize("scheme", ["http", "file"])
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [WIDE, PHONE, {"width": 768, "height": 1024}])
@pytest.mark.parametrize("path", all_pages())
def test_every_page_theme_width_and_scheme(visit, path, viewport, theme, scheme):
    """The whole matrix, each from a fresh profile. Catches: what only one combination shows."""
    page = visit(scheme, viewport)
    page.open(path)
    page.set_theme(theme)
    check_width(page)
    assert page.axe() == []
    assert page.complaints == []
    assert page.foreign == []


def test_the_front_page_leads_to_the_book(visit):
    """Catches: index.html not written, or a redirect to a page that is not there."""
    page = visit("file")
    page.page.goto(page.base + "index.html")
    page.page.wait_for_url("**/" + chapter_pages()[0])
    assert page.complaints == []


@pytest.mark.parametrize("scheme", ["http", "file"])
def test_search_finds_a_chapter(visit, scheme):
    """Catches: a search index or word list that is missing, or that needs a fetch."""
    page = visit(scheme)
    page.open("search.html")
    page.page.locator("main input[type=search]").fill("residual")
    page.page.keyboard.press("Enter")
    result = page.page.locator("#search-results a[href*='01_residuals.html']").first
    result.wait_for(timeout=10_000)
    assert page.complaints == []
    assert page.foreign == []


def test_the_search_dialog_opens_with_the_keyboard(visit):
    """Catches: a template override that loses the class that the theme's script looks for."""
    page = visit("file")
    page.open(chapter_pages()[0])
    page.page.keyboard.press("Control+k")
    dialog = page.page.locator("#pst-search-dialog")
    dialog.wait_for(state="visible", timeout=5000)
    page.page.keyboard.press("Escape")
    page.page.locator(".search-button-field:visible").first.click()
    dialog.wait_for(state="visible", timeout=5000)
    page.page.keyboard.type("residual")
    page.page.keyboard.press("Enter")
    page.page.wait_for_url("**/search.html?q=residual*")
    assert page.page.locator("#search-results").count() == 1


def test_the_theme_button_changes_the_theme(visit):
    """Catches: the icons' replacement breaking the button that holds them."""
    page = visit("file")
    page.open(chapter_pages()[0])
    modes = []
    for _ in range(3):
        page.page.locator(".theme-switch-button:visible").first.click()
        modes.append(page.page.evaluate("document.documentElement.dataset.mode"))
    assert sorted(modes) == ["auto", "dark", "light"]


@pytest.mark.parametrize("mode", ["dark", "auto"])
def test_the_dark_theme_prints_dark_on_white(visit, mode):
    """Browsers leave out backgrounds. The reader's theme comes back afterwards.

    Catches: light ink on white paper; a reader of the automatic mode left in the light theme.
    """
    page = visit("file")
    page.page.emulate_media(color_scheme="dark")
    page.open("chapters/02_norms.html")
    page.set_theme("dark")
    page.page.evaluate("mode => { document.documentElement.dataset.mode = mode; }", mode)
    text = "main :is(p, pre, pre span, label, td, svg text, .MCButton)"
    note = f"text => {{ window.printed = ({COLOURS})(text); }}"
    page.page.evaluate(f"text => addEventListener('beforeprint', () => ({note})(text))", text)
    page.page.pdf()
    assert faint(page.page.evaluate("window.printed"), "rgb(255, 255, 255)") == []
    assert page.page.evaluate("document.documentElement.dataset.theme") == "dark"


@pytest.mark.parametrize("path", ["chapters/01_residuals.html", "chapters/prerequisites.html"])
def test_icons_come_from_the_small_fonts(visit, path):
    """Catches: an icon that the small font lacks, for which the browser loads the theme's own."""
    page = visit("http")
    fonts = []
    page.page.on("request", lambda request: fonts.append(request.url.rsplit("/")[-1]))
    page.open(path)
    page.page.evaluate("document.fonts.ready.then(() => 0)")
    icons = sorted(name for name in fonts if name.startswith("fa-"))
    assert icons == ["fa-brands-400.subset.woff", "fa-solid-900.subset.woff"]
