"""The table of the benchmarks: its lines, and the machine that they were measured on."""

from __future__ import annotations

import datetime
import os
import platform
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


@dataclass(frozen=True)
class Line:
    """One line of the table. Without a target it has two columns."""

    what: str
    measured: str
    target: str | None = None
    met: bool = True

    def __str__(self) -> str:
        judged = [] if self.target is None else [self.target, "yes" if self.met else "**no**"]
        return f"| {' | '.join([self.what, self.measured, *judged])} |"


HEADER = "| what | measured | target | met |\n| --- | --- | --- | --- |"


def print_lines(measure: Callable[[], Iterable[Line]]) -> bool:
    """Print each line as soon as it is known; if the benchmark breaks, say how and return False.

    One that breaks must not cost the others' minutes.
    """
    try:
        for line in measure():
            print(line, flush=True)
    except Exception:
        traceback.print_exc()
        return False
    return True


def machine() -> str:
    """Say in one line when, where and with which versions the table was made."""
    import torch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    parts = [
        datetime.date.today().isoformat(),
        f"{processor()}, {cores} cores",
        f"{torch.get_num_threads()} threads",
        f"Python {platform.python_version()}",
    ]
    for name in ("torch", "transformers", "jupyter-book"):
        with suppress(PackageNotFoundError):  # a machine for a GPU alone needs no book
            parts.append(f"{name} {version(name)}")
    if torch.cuda.is_available():
        parts.insert(1, torch.cuda.get_device_name())
    if hasattr(os, "getloadavg"):
        parts.append(f"load {os.getloadavg()[0]:.1f} at the start")
    return ", ".join(parts)


def processor() -> str:
    """Return the processor's name as the system gives it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
