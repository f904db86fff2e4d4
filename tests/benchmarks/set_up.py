"""How long a fresh clone takes to its first book, with nothing in any download cache."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from pathlib import Path

from tests.benchmarks.table import Line

ROOT = Path(__file__).resolve().parents[2]
CACHES = ("PIP_CACHE_DIR", "UV_CACHE_DIR", "npm_config_cache")


def lines() -> list[Line]:
    """Clone the last commit, run `make book` with PyTorch's CPU build, and delete it again."""
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "clone"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        environment = os.environ | {name: f"{folder}/{name}" for name in CACHES}
        begin = time.perf_counter()
        subprocess.run(
            ["make", "book", "TORCH=cpu"],
            cwd=clone,
            env=environment,
            stdout=subprocess.DEVNULL,
            check=True,
        )
        seconds = time.perf_counter() - begin
    return [
        Line(
            "set-up and first build of a fresh clone, nothing cached, CPU build of torch",
            f"{seconds:.0f} s",
            "≤ 300 s",
            seconds <= 300,
        )
    ]
