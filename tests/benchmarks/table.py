"""The table of the benchmarks: its lines, and the machine that they were measured on."""

from __future__ import annotations

import datetime
import os
import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path


@dataclass(frozen=True)
class Line:
    """One line of the table."""

    what: str
    measured: str
    target: str
    met: bool

    def __str__(self) -> str:
        return (
            f"| {self.what} | {self.measured} | {self.target} | {'yes' if self.met else '**no**'} |"
        )


HEADER = "| what | measured | target | met |\n| --- | --- | --- | --- |"


def machine() -> str:
    """Say in one line when, where and with which versions the table was made."""
    import torch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    parts = [
        datetime.date.today().isoformat(),
        f"{processor()}, {cores} cores",
        f"{torch.get_num_threads()} threads",
        f"Python {platform.python_version()}",
        *(f"{name} {version(name)}" for name in ("torch", "transformers", "jupyter-book")),
    ]
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
