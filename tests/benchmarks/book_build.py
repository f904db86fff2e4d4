"""How long the HTML takes from stored outputs, and how large its pages are."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.table import Line

ROOT = Path(__file__).resolve().parents[2]
# The scripts of live widgets; they are on pages with a widget only.
WIDGET_SCRIPTS = ("require.js", "embed-amd.js", "anywidget", "widgets.js")


def lines() -> list[Line]:
    """Build the book into an empty folder and weigh its pages."""
    with tempfile.TemporaryDirectory() as folder:
        jupyter_book = Path(sys.executable).with_name("jupyter-book")
        command = [str(jupyter_book), "build", ".", "-W", "--keep-going", "-n", "--quiet"]
        begin = time.perf_counter()
        subprocess.run([*command, "--path-output", folder], cwd=ROOT, check=True)
        seconds = time.perf_counter() - begin
        sizes = {page: page_size(page) for page in Path(folder).glob("_build/html/**/*.html")}
    largest = max(sizes, key=sizes.__getitem__)
    return [
        Line("HTML from stored outputs", f"{seconds:.0f} s", "≤ 30 s", seconds <= 30),
        Line(
            "largest page, compressed, before widget scripts",
            f"{sizes[largest] / 1e6:.2f} MB ({largest.stem})",
            "≤ 1 MB",
            sizes[largest] <= 1e6,
        ),
    ]


def page_size(page: Path) -> int:
    """Add up what the page and the files that it names weigh after gzip (without fonts)."""
    files = {page}
    for tag in re.findall(r"<(?:script|link|img)\b[^>]*>", page.read_text(encoding="utf-8")):
        address = re.search(r'(?:src|href)="([^":?#]+)', tag)
        if address and not re.search(r'rel="(?:index|search|next|prev|author)"', tag):
            files.add((page.parent / address[1]).resolve())
    return sum(
        len(gzip.compress(file.read_bytes(), 6))
        for file in files
        if file.is_file() and not any(name in str(file) for name in WIDGET_SCRIPTS)
    )
