"""Widgets and quizzes answer on the static page, where there is no kernel."""

from __future__ import annotations

import pytest
from conftest import COLOURS, faint

WIDGET_PAGES = [
    "chapters/00_overview.html",
    "chapters/01_residuals.html",
    "chapters/02_norms.html",
    "chapters/03_attention.html",
    "chapters/03_blocks.html",
    "chapters/04_stacking.html",
    "chapters/05_training_loss.html",
    "chapters/06_architectures.html",
]
QUIZ_PAGES = ["chapters/prerequisites.html", *WIDGET_PAGES]
QUIZ = "[data-shufflequestions]"
CONTROLS = "input:visible, select:visible, button:visible"


def spoken(widget) -> str:
    return " ".join(widget.locator("[aria-live]").all_inner_texts())


def operate(control, page) -> bool:
    """Move one control by keyboard alone, as far as it goes; False where it is at its end."""
    if not control.is_enabled():
        return False
    kind = control.evaluate("e => e.type || e.tagName.toLowerCase()")
    control.focus()
    if kind == "range":
        low, high, value = control.evaluate("e => [+e.min, +e.max, +e.value]")
        page.keyboard.press("ArrowLeft" if value > low else "ArrowRight")
        return low < high
    if kind == "select-one":
        first = control.evaluate("e => e.selectedIndex === 0")
        page.keyboard.press("ArrowDown" if first else "ArrowUp")
        return control.evaluate("e => e.options.length > 1")
    page.keyboard.press("ArrowUp" if kind == "number" else "Space")
    return True


@pytest.mark.parametrize("scheme", ["http", "file"])
@pytest.mark.parametrize("path", WIDGET_PAGES)
def test_each_control_changes_what_is_said(visit, path, scheme):
    """Catches: anywidget not found by RequireJS, a listener that is not attached, a control
    that only a mouse can move, state without the model that a view names."""
    page = visit(scheme)
    page.open(path)
    widgets = page.page.locator(".tfcourse-widget")
    views = page.page.locator('script[type="application/vnd.jupyter.widget-view+json"]').count()
    assert views >= 1
    assert widgets.count() == views
    for widget in widgets.all():
        controls = widget.locator(CONTROLS)
        assert controls.count() >= 2
        for number in range(controls.count()):
            control = controls.nth(number)
            before = spoken(widget)
            if operate(control, page.page):
                page.page.wait_for_timeout(150)
                assert spoken(widget) != before, control.evaluate("e => e.outerHTML")
                if control.get_attribute("type") == "checkbox":
                    page.page.keyboard.press("Space")  # back: a switch may silence the others
    assert page.complaints == []
    assert page.foreign == []


@pytest.mark.parametrize("path", WIDGET_PAGES)
def test_moved_widgets_stay_accessible_and_narrow(visit, path):
    """Catches: colours or widths that only another state of the widget has; with forced colours,
    text in the theme's ink, marks in the theme's colours."""
    page = visit("http", {"width": 360, "height": 740})
    page.open(path)
    for summary in page.page.locator(".tfcourse-widget summary").all():
        summary.click()
    for control in page.page.locator(".tfcourse-widget").locator(CONTROLS).all():
        operate(control, page.page)
    assert page.axe(".tfcourse-widget") == []
    page.set_theme("dark")
    assert page.axe(".tfcourse-widget", structure=False) == [], "dark"
    assert page.page.evaluate("document.scrollingElement.scrollWidth") <= 360
    check_forced_colours(page, "light")
    page.set_theme("light")
    check_forced_colours(page, "dark")


def check_forced_colours(visit, canvas: str) -> None:
    """Text and marks stand out on a paper that the reader chose, against the page's theme."""
    visit.page.emulate_media(forced_colors="active", color_scheme=canvas)
    paper = "getComputedStyle(document.querySelector('.tfcourse-widget')).backgroundColor"
    paper = visit.page.evaluate(paper)
    assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(0, 0, 0)"}[canvas]
    marks = ".tfcourse-widget svg :is(rect, circle):is(.tfc-a, .tfc-b, .tfc-c)"
    assert faint(visit.page.evaluate(COLOURS, ".tfcourse-widget svg text"), paper) == []
    assert faint(visit.page.evaluate(COLOURS, marks), paper, least=3) == []


def shown(page) -> list[str]:
    """List what the page's questions show: the feedback of each, and what is chosen."""
    return [
        f"{quiz.locator('.Feedback').inner_text()} | "
        + " ".join(quiz.locator(".correctButton, .incorrectButton").all_inner_texts())
        for quiz in page.page.locator(".Quiz").all()
    ]


@pytest.mark.parametrize(
    ("path", "scheme"), [(QUIZ_PAGES[1], "file"), *((path, "http") for path in QUIZ_PAGES)]
)
def test_answers_are_there_after_a_reload_until_one_starts_again(visit, path, scheme):
    """By keyboard alone; the options stand in another order each time.

    Catches: an option remembered by its place; answers of another page shown; a restored answer
    that takes the focus and scrolls the page; a start that is forgotten at the next reload.
    """
    page = visit(scheme)
    page.open(path)
    empty = shown(page)
    progress = page.page.locator(".quiz-progress")
    n = page.page.locator(".Quiz").count()
    assert progress.locator("button").first.is_disabled()
    for number, quiz in enumerate(page.page.locator(".Quiz").all()):
        if number != 1:  # one stays open
            right = str(number % 2 == 0).lower()
            quiz.locator(f".MCButton[data-correct={right}] input").first.focus()
            page.page.keyboard.press("Space")
    page.page.wait_for_timeout(100)
    before, said = shown(page), progress.all_inner_texts()
    assert sum(a != b for a, b in zip(before, empty, strict=True)) == n - (n > 1)
    page.open(path)
    assert shown(page) == before
    assert progress.all_inner_texts() == said
    assert page.page.evaluate("[scrollY, document.activeElement.tagName]") == [0, "BODY"]
    assert page.axe(QUIZ) == []
    for button in progress.locator("button").all():
        if button.is_disabled():  # a quiz of one question, the one left open
            continue
        button.focus()
        page.page.keyboard.press("Enter")
        assert page.page.evaluate("document.activeElement.matches('.Quiz input')")
    assert shown(page) == empty
    page.open(path)
    assert shown(page) == empty
    assert page.page.evaluate("Object.keys(localStorage).filter(k => k.includes('quiz'))") == []
    assert page.complaints == []


def test_a_quiz_works_where_nothing_can_be_stored(visit):
    """Catches: an exception where a browser forbids localStorage."""
    page = visit("http")
    page.page.add_init_script(
        """for (const name of ["getItem", "setItem", "removeItem"]) {
            const original = Storage.prototype[name];
            Storage.prototype[name] = function (key, ...rest) {
                if (key.includes("quiz")) throw new Error("forbidden");
                return original.call(this, key, ...rest);
            };
        }"""
    )
    page.open(QUIZ_PAGES[1])
    page.page.locator(".MCButton[data-correct=true] input").first.focus()
    page.page.keyboard.press("Space")
    assert "1 of" in page.page.locator(".quiz-progress").first.inner_text()
    assert page.complaints == []


@pytest.mark.parametrize("path", QUIZ_PAGES)
def test_quizzes_answer_in_both_themes(visit, path):
    """Every option of every question by keyboard: feedback appears, readable, and specific.

    Catches: an option without feedback, feedback in a colour too weak for one theme, a quiz
    that looks for MathJax on another host.
    """
    page = visit("file")
    page.open(path)
    questions = page.page.locator(".Quiz")
    assert questions.count() >= 1
    for question in questions.all():
        said = []
        for option in question.locator(".MCButton input").all():
            option.focus()
            page.page.keyboard.press("Space")
            said.append(question.locator(".Feedback").inner_text().strip())
        assert all(len(text) > 12 for text in said), said
        assert len(set(said)) == len(said), said
    assert page.axe(QUIZ) == []
    page.set_theme("dark")
    assert page.axe(QUIZ, structure=False) == [], "dark"
    assert page.complaints == []
    assert page.foreign == []
