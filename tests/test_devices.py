"""How fast a GPU could be, and the script that measures how fast it is."""

import pytest

from tfcourse.devices import peak_flops

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
