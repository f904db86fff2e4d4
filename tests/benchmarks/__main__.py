"""Run the benchmarks and print their table as Markdown, for the CHANGELOG.

python -m tests.benchmarks                  all but set_up (about three quarters of an hour)
python -m tests.benchmarks training_speed   one or some, by the name of their file
"""

from __future__ import annotations

import sys
from importlib import import_module

from tests.benchmarks.table import HEADER, machine, print_lines

NAMES = [
    "training_speed",
    "generation_speed",
    "step_memory",
    "tiny_preset",
    "muon",
    "book_build",
    "grading_speed",
]
EXTRA = ["set_up"]  # only when asked for: it downloads everything again


def main(chosen: list[str]) -> int:
    """Print one line of the table as soon as it is known; return 1 if a benchmark broke."""
    if unknown := sorted(set(chosen) - {*NAMES, *EXTRA}):
        print(f"no benchmark {unknown[0]!r}; choose from {', '.join(NAMES + EXTRA)}")
        return 2
    print(f"{machine()}\n\n{HEADER}", flush=True)
    done = [
        print_lines(lambda name=name: import_module(f"tests.benchmarks.{name}").lines())
        for name in chosen or NAMES
    ]
    return int(not all(done))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
