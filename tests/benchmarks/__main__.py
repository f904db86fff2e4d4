"""Run the benchmarks and print their table as Markdown, for the CHANGELOG.

python -m tests.benchmarks                  all but set_up (about ten minutes)
python -m tests.benchmarks training_speed   one or some, by the name of their file
"""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module

NAMES = ["training_speed", "generation_speed", "step_memory", "tiny_preset", "book_build"]
EXTRA = ["set_up"]  # downloads everything again: only when asked for


def main(chosen: list[str]) -> int:
    """Print one line of the table as soon as it is known; return 1 if a benchmark broke."""
    if unknown := sorted(set(chosen) - {*NAMES, *EXTRA}):
        print(f"no benchmark {unknown[0]!r}; choose from {', '.join(NAMES + EXTRA)}")
        return 2
    os.environ["HF_HUB_OFFLINE"] = "1"  # nothing is downloaded: all weights are random
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    from tests.benchmarks.table import HEADER, machine

    print(f"{machine()}\n\n{HEADER}", flush=True)
    broken = False
    for name in chosen or NAMES:
        try:
            for line in import_module(f"tests.benchmarks.{name}").lines():
                print(line, flush=True)
        except Exception:  # one that breaks must not cost the others' minutes
            traceback.print_exc()
            broken = True
    return int(broken)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
