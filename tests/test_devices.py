"""How fast a GPU could be, and the script that measures how fast it is."""

import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tfcourse.devices import peak_flops

ROOT = Path(__file__).resolve().parent.parent

# --- the table of peaks


@pytest.mark.parametrize(
    ("gpu", "tera"),
    [
        ("Tesla T4", 65),
        ("NVIDIA L4", 121),
        ("NVIDIA A100-SXM4-40GB", 312),
        ("NVIDIA A100-SXM4-80GB", 312),
        ("NVIDIA A100-PCIE-40GB", 312),
        ("NVIDIA A100 80GB PCIe", 312),
        ("NVIDIA H100 80GB HBM3", 989),
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA H200", 989),
    ],
)
def test_a_gpu_of_the_table_has_its_datasheets_dense_peak(gpu, tera):
    """By the names that torch gives. Catches: the peak with sparsity, twice as high; an H100 that
    is a PCIe card taken for a module; bfloat16 on a T4, which only emulates it.
    """
    assert peak_flops(gpu, "fp16") == tera * 1e12
    assert peak_flops(gpu, "bf16") == (None if "T4" in gpu else tera * 1e12)
    assert peak_flops(gpu, "fp32") is None


@pytest.mark.parametrize(
    "gpu",
    [
        "NVIDIA L40S",
        "NVIDIA GH200 480GB",
        "NVIDIA H100 NVL",
        "NVIDIA H200 NVL",
        "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
        "NVIDIA T400 4GB",
        "NVIDIA GeForce RTX 4090",
        "",
    ],
)
def test_a_gpu_that_is_not_in_the_table_has_no_peak(gpu):
    """Catches: a search for a part of the name, which finds an L4 in an L40S."""
    assert peak_flops(gpu, "bf16") is None
    assert peak_flops(gpu, "fp16") is None


# --- the benchmark for a GPU, at a small size

WITH_A_BROKEN_PART = """
import sys
from tests.benchmarks import gpu

def broken(size, device):
    yield gpu.Line("half", "1 s")
    raise RuntimeError("no memory left")

gpu.PARTS = {"broken": broken, **gpu.PARTS}
sys.exit(gpu.main(["--small"]))
"""

SIDES = [
    f"{side}{compiled}"
    for side in ("ours", "HF", "nn.TransformerEncoder")
    for compiled in ("", ", compiled")
]


@pytest.mark.slow
@pytest.mark.nohook
def test_the_script_for_a_gpu_measures_every_part_and_outlives_a_broken_one():
    """On a CPU. The script itself asserts that the sides compute the same logits and losses.

    Catches: a part that breaks, or ends the script; a side that is left out; other weights for one
    side; a loss that is not that of uniform guesses; a resumed run that draws other dropout masks.
    """
    result = subprocess.run(
        [sys.executable, "-c", WITH_A_BROKEN_PART],
        cwd=ROOT,
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
    )
    cells = [line.strip("| ").split(" | ") for line in result.stdout.splitlines() if "|" in line]
    assert cells[:3] == [["what", "measured"], ["---", "---"], ["half", "1 s"]], result.stderr
    table = dict(cells[3:])
    failed = re.findall(r"(\w+) \d+ \(failed\)", table.pop("seconds of each part"))
    assert failed == ["broken"], result.stderr
    assert result.returncode == 1 and "no memory left" in result.stderr

    language = "training, 0.022M parameters, bf16, 2 × 32 tokens: "
    images = "training, vision transformer, 0.0379M parameters, bf16, 32 × 32 pixels: "
    steps = "resumed training, bf16, 10 steps against 5 and 5 in a new process"
    assert set(table) == {
        *(language + side for side in SIDES),
        *(images + side for side in ("eager", "compiled")),
        "decoding, float32: tokens as HF's",
        *(f"decoding, bf16, batch {rows}" for rows in (1, 16)),
        steps,
        "memory of training, bf16, 2 × 32 tokens",
    }
    for what, measured in table.items():
        numbers = re.findall(r"nan|inf|-?\d[\d,.]*\b", measured.replace(",", ""))
        assert numbers and all(0 < float(n) < math.inf for n in numbers), (what, measured)
    assert table["decoding, float32: tokens as HF's"] == "100.0%"
    assert table[steps] == "bit-equal; the 10 steps twice: bit-equal"
    assert "× HF" in table[language + "ours"] and "MFU" not in table[language + "ours"]
