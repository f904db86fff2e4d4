"""Run the notebooks of the book and store their outputs and widget state in place."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import notebooks
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError


class OwnKernel(KernelSpecManager):
    """This environment's Python, whatever kernel a notebook or the machine names."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=argv, display_name="Python 3", language="python")


def execute(path: Path) -> None:
    """Run one notebook from the top and write it back, or raise and leave it as it is."""
    notebook = notebooks.read(path)
    notebooks.stamp_setup_cell(notebook)
    client = NotebookClient(
        notebook,
        km=AsyncKernelManager(kernel_spec_manager=OwnKernel()),
        timeout=900,
        record_timing=False,
        coalesce_streams=True,
        store_widget_state=True,
        resources={"metadata": {"path": str(path.parent)}},
    )
    client.execute()
    notebooks.tidy(notebook, path.stem)
    notebooks.write(notebook, path)


def main() -> int:
    # Threads that spin while they wait make a chapter four times slower beside another program.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="notebooks; all chapters without")
    failed = 0
    for path in parser.parse_args().files or notebooks.chapters():
        start = time.perf_counter()
        try:
            execute(path)
        except (CellExecutionError, ValueError, OSError) as error:
            failed = 1
            print(f"{path}: {error}", file=sys.stderr)
        else:
            print(f"{path.name}: {time.perf_counter() - start:.0f} s")
    return failed


if __name__ == "__main__":
    sys.exit(main())
