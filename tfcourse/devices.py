"""Where to compute, and in which number format."""

from __future__ import annotations

import re

import torch

# Dense half-precision matrix products with float32 sums, FLOP/s, by the GPU's name as torch gives
# it. From NVIDIA's datasheets "T4", "L4", "A100", "H100" and "H200 Tensor Core GPU"; those of L4,
# H100 and H200 print twice as much, with sparsity.
_PEAK_FLOPS = {
    r"(Tesla|NVIDIA) T4": 65e12,
    r"NVIDIA L4": 121e12,
    r"(NVIDIA )?A100[- ](SXM4|PCIE|80GB)[- ](40GB|80GB|PCIe)": 312e12,
    r"NVIDIA H100 80GB HBM3": 989e12,  # the SXM module
    r"NVIDIA H100 PCIe": 756e12,
    r"NVIDIA H200": 989e12,
}


def choose_device(name: str) -> torch.device:
    """Return the device of that name; "auto" prefers a GPU."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"device={name!r} is unknown; use cpu, cuda, mps or auto") from None
    if device.type not in ("cpu", "cuda", "mps") or (device.type == "cpu" and device.index):
        raise ValueError(f"device={name!r} is not supported; use cpu, cuda, mps or auto")
    for kind, backend in (("cuda", torch.cuda), ("mps", torch.backends.mps)):
        if device.type == kind and not backend.is_available():
            raise ValueError(f"device={kind!r}, but torch finds none; use device='cpu' or 'auto'")
    return device


def choose_precision(name: str, device: torch.device) -> str:
    """Return the number format for matrix products on a device.

    "auto" takes bfloat16 where the GPU computes in it (compute capability 8 and up), float16 with a
    gradient scaler on older GPUs, which only emulate bfloat16 (a T4 is 7.5), and float32 elsewhere.
    """
    if name == "fp16" and device.type != "cuda":
        raise ValueError(f"precision='fp16' needs a GPU, not {device.type}; use 'bf16' or 'fp32'")
    if name == "bf16" and device.type == "mps":
        raise ValueError("precision='bf16' is not tried on mps; use 'fp32'")
    if name != "auto":
        return name
    if device.type != "cuda":
        return "fp32"
    return "bf16" if torch.cuda.get_device_capability(device) >= (8, 0) else "fp16"


def peak_flops(gpu: str, precision: str) -> float | None:
    """Return the most FLOP/s that a GPU's datasheet promises in a precision; None if not known.

    A share of this is a model's MFU (model FLOPs utilization). `gpu` is the whole name: an
    "NVIDIA H100 NVL" or a slice of an H100 has another peak than the cards in the table.

    Source of MFU: Chowdhery et al. 2022 (PaLM), appendix B.
    """
    if precision not in ("bf16", "fp16") or ("T4" in gpu and precision == "bf16"):
        return None  # a T4 only emulates bfloat16
    return next((peak for name, peak in _PEAK_FLOPS.items() if re.fullmatch(name, gpu)), None)
