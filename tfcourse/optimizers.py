"""The learning rate over time, and which optimizer takes which weights."""

from __future__ import annotations

import math

import torch

from tfcourse.architectures import Model
from tfcourse.config import TrainConfig


def schedule(step: int, config: TrainConfig) -> float:
    """Return the share of the peak learning rate at a step, counted from 0.

    It rises in a line, reaches 1 at the last warm-up step, then falls along half a cosine to
    `min_lr_ratio` (Loshchilov & Hutter 2017, eq. 5).
    """
    if step < config.warmup:
        return (step + 1) / config.warmup
    if step >= config.steps:
        return config.min_lr_ratio
    done = (step - config.warmup) / (config.steps - config.warmup)
    return config.min_lr_ratio + (1 - config.min_lr_ratio) * (1 + math.cos(math.pi * done)) / 2


def set_learning_rate(optimizers: list[torch.optim.Optimizer], share: float) -> None:
    """Give every parameter group its peak learning rate times `share`."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["peak_lr"] * share


def make_optimizers(model: Model, config: TrainConfig) -> list[torch.optim.Optimizer]:
    """Build AdamW, and Muon for the blocks' matrices where the config asks for it.

    Only matrices decay: pulling a norm's gain or a bias towards zero would change what the layer
    computes instead of keeping its weights small.
    """
    named = dict(model.named_parameters())
    muon = [
        p
        for name, p in named.items()
        if config.optimizer == "muon" and "blocks" in name and p.ndim == 2
    ]
    taken = {id(p) for p in muon}
    rest = [p for p in named.values() if id(p) not in taken]
    device = next(iter(named.values())).device
    adamw = torch.optim.AdamW(
        [
            {"params": [p for p in rest if p.ndim >= 2], "weight_decay": config.weight_decay},
            {"params": [p for p in rest if p.ndim < 2], "weight_decay": 0.0},
        ],
        lr=config.lr,
        betas=(config.beta1, config.beta2),
        fused=device.type in ("cpu", "cuda"),
    )
    optimizers: list[torch.optim.Optimizer] = [adamw]
    if muon:
        optimizers.append(
            torch.optim.Muon(muon, lr=config.muon_lr, weight_decay=config.weight_decay)
        )
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["peak_lr"] = group["lr"]
    return optimizers
