"""Open the built book in a browser, over http:// and from disk."""

from __future__ import annotations

import functools
import http.server
import re
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
HTML = ROOT / "_build" / "html"
AXE = ROOT / "book" / "node_modules" / "axe-core" / "axe.min.js"
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 360, "height": 740}
# What html-manager's schema checker says about html-manager's own schema.
HARMLESS = (
    "strict mode: use allowUnionTypes to allow union type keyword at "
    '"#/properties/state/additionalProperties/properties/buffers/items/properties/path/items" '
    "(strictTypes)",
)
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


def chapter_pages() -> list[str]:
    """List the book's pages in reading order, as paths below the built book."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    chapters = [chapter for part in toc["parts"] for chapter in part["chapters"]]
    files = [page["file"] for top in chapters for page in [top, *top.get("sections", [])]]
    return [f"{name}.html" for name in [toc["root"], *files]]


def all_pages() -> list[str]:
    return [*chapter_pages(), "search.html", "genindex.html"]


@dataclass
class Visit:
    """A page in the browser and everything it complained about or asked for."""

    page: Page
    base: str
    complaints: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.complaints.append(f"page error: {error}"))
        self.page.on("request", self._on_request)
        self.page.on(
            "requestfailed",
            lambda request: self.complaints.append(f"failed: {request.url} {request.failure}"),
        )
        self.page.on("response", self._on_response)

    def _on_console(self, message: object) -> None:
        if message.type in ("error", "warning", "assert") and message.text not in HARMLESS:
            self.complaints.append(f"console {message.type}: {message.text}")

    def _on_request(self, request: object) -> None:
        if not request.url.startswith((self.base, "data:", "blob:")):
            self.foreign.append(request.url)

    def _on_response(self, response: object) -> None:
        if response.status >= 400:
            self.complaints.append(f"status {response.status}: {response.url}")

    def open(self, path: str) -> None:
        """Load a page and wait until its math, quizzes and widgets stand."""
        self.page.goto(self.base + path, wait_until="load")
        self.page.evaluate("() => window.MathJax?.startup?.promise?.then(() => 0) ?? 0")
        if self.page.locator('script[type="application/vnd.jupyter.widget-view+json"]').count():
            self.page.wait_for_selector(".tfcourse-widget", timeout=20_000)
        self.page.wait_for_function(
            """() => !document.querySelector("script[type='text/x-quiz']")"""
        )
        # jupyterquiz typesets its quizzes half a second after it shows them.
        self.page.wait_for_timeout(
            700 if self.page.locator("[data-shufflequestions]").count() else 50
        )

    def set_theme(self, theme: str) -> None:
        self.page.evaluate(
            """theme => { localStorage.setItem("mode", theme); localStorage.setItem("theme", theme);
                document.documentElement.dataset.mode = theme;
                document.documentElement.dataset.theme = theme; }""",
            theme,
        )
        self.page.wait_for_timeout(300)  # colours fade into each other

    def axe(self, within: str = "html", colours: bool = True, structure: bool = True) -> list[str]:
        """Run axe-core's rule on contrast, its other rules, or both; a line per violation."""
        if not self.page.evaluate("() => 'axe' in window"):
            # As AMD module it would register with RequireJS instead of becoming a global.
            source = AXE.read_text(encoding="utf-8")
            self.page.evaluate("source => { const define = undefined; eval(source); }", source)
        # preload would read style sheets by XMLHttpRequest, which pages from disk cannot.
        options: dict = {"resultTypes": ["violations"], "preload": False}
        if not structure:
            options["runOnly"] = ["color-contrast"]
        options["rules"] = {"color-contrast": {"enabled": colours}}
        run = "([where, how]) => axe.run({include: [[where]]}, how)"
        result = self.page.evaluate(run, [within, options])
        return [
            f"{violation['id']}: {violation['help']}: {node['target']} {node['html'][:150]}"
            for violation in result["violations"]
            for node in violation["nodes"]
        ]


# Elements and their colours. axe reads `color`, which text in SVG does not have.
COLOURS = """selector => [...document.querySelectorAll(selector)].map(e =>
    [e.outerHTML.slice(0, 150), getComputedStyle(e)[e.closest("svg") ? "fill" : "color"]])"""


def faint(elements: list[list[str]], paper: str, least: float = 4.5) -> list[str]:
    """List the elements that have less contrast with the paper (WCAG 2's ratio)."""

    def luminance(colour: str) -> float:
        srgb = [int(channel) / 255 for channel in re.findall(r"\d+", colour)[:3]]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in srgb]
        return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    def contrast(colour: str) -> float:
        dark, light = sorted((luminance(colour), luminance(paper)))
        return (light + 0.05) / (dark + 0.05)

    return [f"{e}: {colour} on {paper}" for e, colour in elements if contrast(colour) < least]


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        """Keep the test's output for the tests."""


@pytest.fixture(scope="session")
def html() -> Path:
    if not (HTML / "index.html").exists():
        pytest.fail("the book is not built; run: make book")
    return HTML


@pytest.fixture(scope="session")
def bases(html: Path) -> Iterator[dict[str, str]]:
    """The book's address over http:// (a free port of this machine) and from disk."""
    handler = functools.partial(QuietHandler, directory=str(html))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield {
            "http": f"http://127.0.0.1:{server.server_port}/",
            "file": html.as_uri() + "/",
        }
        server.shutdown()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=list(FLAGS)
        )
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Browser, bases: dict[str, str]) -> Iterator:
    """Open pages in a clean profile: `visit("http")` gives a Visit."""
    contexts = []

    def start(scheme: str, viewport: dict[str, int] = WIDE) -> Visit:
        context = browser.new_context(viewport=viewport, reduced_motion="reduce")
        contexts.append(context)
        return Visit(context.new_page(), bases[scheme])

    yield start
    for context in contexts:
        context.close()
