"""Run all of the course's tests, part by part, and end with one summary.

A part that fails does not stop the others; any failure makes the whole run fail.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
BROWSER = "book in a browser"
UNIT = ["tests", "--ignore=tests/book"]
# A test alone keeps one core busy at most, so as many run at once; each with one thread,
# because two processes with two threads each get in each other's way.
WORKERS = min(os.cpu_count() or 1, 4)
APART = ["-n", str(WORKERS), "--dist", "loadgroup"]
HOOK = ["--jaxtyping-packages=tfcourse,beartype.beartype"]
NBVAL = [
    *["-n", str(WORKERS), "--dist", "loadfile"],  # a notebook's cells stay together
    *["-p", "strict_nbval", "--nbval", "--nbval-current-env", "--nbval-cell-timeout=600"],
    "--timeout=660",  # above that of a cell
    f"--nbval-sanitize-with={ROOT / 'tests' / 'nbval.cfg'}",
]


def parts(accept: bool) -> list[tuple[str, list[str]]]:
    """List the parts: a name, and the arguments of pytest."""
    notebooks = [str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("chapters/*.ipynb"))]
    chosen = [
        ("unit tests, shapes checked", [*APART, *HOOK, "-m", "not nohook and not accept", *UNIT]),
        ("unit tests without the hook", [*APART, "-m", "nohook and not accept", *UNIT]),
        ("notebooks against stored outputs", [*NBVAL, *notebooks]),
        (BROWSER, [*APART, "-m", "not accept", "tests/book"]),
    ]
    if accept:  # apart, because Playwright runs once in a process
        chosen += [
            ("acceptance in a browser", [*APART, "-m", "accept", "tests/book"]),
            ("acceptance", ["-m", "accept", *UNIT]),
        ]  # the last alone: what it trains has minutes on two cores
    return chosen


def apt_get(package: str) -> list[list[str]]:
    """Return the commands that install a Debian package, as root or without a password."""
    as_root = [] if hasattr(os, "geteuid") and os.geteuid() == 0 else ["sudo", "-n"]
    install = ["install", "-y", "-qq", "--no-install-recommends", package]
    return [[*as_root, "apt-get", "update", "-qq"], [*as_root, "apt-get", *install]]


def bring_sandbox() -> None:
    """Install bubblewrap where it is missing; without it the tests of grading fail."""
    for command in apt_get("bubblewrap"):
        if not shutil.which("bwrap") and shutil.which(command[0]):
            subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
    if not shutil.which("bwrap"):
        print("no bubblewrap found, which grading needs; install the package `bubblewrap`")


def bring_browser() -> str:
    """Install Chromium where it is missing; return what a person has to do if that fails."""
    attempts = [
        *apt_get("chromium"),
        [sys.executable, "-m", "playwright", "install", "chromium"],
    ]
    for command in attempts:
        if browser_path():
            return ""
        if shutil.which(command[0]):
            subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
    missing = "no browser found; install Debian's package `chromium`, or run: "
    return "" if browser_path() else missing + " ".join(attempts[-1])


def browser_path() -> str | None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
    return shutil.which("chromium") or (own if Path(own).exists() else None)


def build_book() -> bool:
    jupyter_book = Path(sys.executable).with_name("jupyter-book")
    build = [str(jupyter_book), "build", ".", "-W", "--keep-going", "-n", "--quiet"]
    return subprocess.run(build, cwd=ROOT, check=False).returncode == 0


def run_pytest(arguments: list[str]) -> tuple[int, int]:
    """Run pytest; return how many tests passed and failed (1 if pytest itself could not run)."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    if "-n" in arguments:
        environment["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", f"--junit-xml={report}", *arguments]
        code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
        if not report.exists():
            return 0, 1
        suite = ElementTree.parse(report).getroot().find("testsuite")
    tests, failures, errors, skipped = (
        int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")
    )
    failed = failures + errors
    return tests - failed - skipped, failed if failed or code == 0 else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--accept", action="store_true", help="also run what takes too long")
    accept = parser.parse_args().accept
    # In a job that a shell put in the background Ctrl-C is ignored, and tests send it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    bring_sandbox()
    missing = bring_browser()
    begin = time.perf_counter()
    built = build_book()
    summary = [("book without a warning", int(built), int(not built), time.perf_counter() - begin)]
    for name, arguments in parts(accept):
        print(f"\n== {name}", flush=True)
        if missing and "browser" in name:
            print(missing)
            summary.append((name, 0, 1, 0))
            continue
        begin = time.perf_counter()
        summary.append((name, *run_pytest(arguments), time.perf_counter() - begin))
    print("\n== summary")
    for name, passed, failed, seconds in summary:
        print(f"{name:34} {passed:5} passed {failed:5} failed {seconds:6.0f} s")
    passed, failed = (sum(row[column] for row in summary) for column in (1, 2))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
