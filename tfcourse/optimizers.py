"""The learning rate over time, Muon, and which optimizer takes which weights."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

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


class Muon(torch.optim.Optimizer):
    """Move each matrix in the nearest orthogonal direction to its mean gradient.

    What `torch.optim.Muon` does, but in float32. Rounded to bfloat16, a gradient gains small
    singular values that are noise, and the iteration makes them as large as the true ones: the same
    gradient, summed in another order by several processes, then gives another update.

    Source: Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks".
    """

    def __init__(self, matrices: Sequence[Tensor], lr: float, weight_decay: float) -> None:
        super().__init__(matrices, {"lr": lr, "weight_decay": weight_decay, "momentum": 0.95})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update all matrices that have a gradient."""
        for group in self.param_groups:
            momentum = group["momentum"]
            for p in [p for p in group["params"] if p.grad is not None]:
                if p not in self.state:
                    self.state[p]["momentum_buffer"] = torch.zeros_like(p)
                mean = self.state[p]["momentum_buffer"]
                mean.lerp_(p.grad, 1 - momentum)
                update = orthogonalize(p.grad.lerp(mean, momentum))  # Nesterov: one step ahead
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(update, alpha=-group["lr"] * max(1, p.shape[0] / p.shape[1]) ** 0.5)


def orthogonalize(matrix: Float[Tensor, "m n"]) -> Float[Tensor, "m n"]:
    """Bring all singular values near 1, and keep the singular vectors.

    Five steps of x ← a x + b (x xᵀ) x + c (x xᵀ)² x. The coefficients lift small values fast, and
    leave them all between 0.68 and 1.21, but for those under a hundredth of the largest or so.
    """
    x = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(5):
        gram = x @ x.T
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x.T if matrix.shape[0] > matrix.shape[1] else x


def make_optimizers(model: Model, config: TrainConfig) -> list[torch.optim.Optimizer]:
    """Build AdamW, and Muon for the blocks' matrices where the config asks for it.

    Only matrices decay, and what is kept as one: tables of vectors, and the vector that a vision
    transformer reads the class from, [1 1 d]. Pulling a norm's gain or a bias towards zero would
    change what the layer computes instead of keeping its weights small.
    """
    named, wanted = dict(model.named_parameters()), config.optimizer == "muon"
    muon = {n: p for n, p in named.items() if wanted and "blocks" in n and p.ndim == 2}
    rest = [p for n, p in named.items() if n not in muon]
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
        optimizers.append(Muon(list(muon.values()), config.muon_lr, config.weight_decay))
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["peak_lr"] = group["lr"]
    return optimizers
