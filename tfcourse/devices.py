"""Where to compute, and in which number format."""

from __future__ import annotations

import torch


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
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError("device='cuda', but torch finds no GPU; use device='cpu' or 'auto'")
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise ValueError("device='mps', but torch finds none; use device='cpu' or 'auto'")
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
