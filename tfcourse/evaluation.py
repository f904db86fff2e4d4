"""Read a loss against what can be known: the held-out loss beside the entropy floor."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from tfcourse.architectures import Model
from tfcourse.data.batching import DataSet
from tfcourse.distributed import ALONE, World
from tfcourse.losses import IGNORE


@dataclass(frozen=True)
class Evaluation:
    """A held-out loss in nats per token, and the floor of the same tokens where it is known.

    `score` is a share that the data set measures in its own way, with its name.
    """

    loss: float
    n_tokens: int
    floor: float | None = None
    standard_error: float | None = None  # of `above_floor`
    score: tuple[str, float] | None = None
    unit: str = "token"

    @property
    def above_floor(self) -> float | None:
        """What the model has still to learn: its loss minus the source's own −log p."""
        return None if self.floor is None else self.loss - self.floor

    def __str__(self) -> str:
        parts = [f"held-out loss {self.loss:.3f}"]
        if self.floor is not None:
            parts += [f"entropy floor {self.floor:.3f}", f"above floor {self.above_floor:.3f}"]
        if self.score is not None:
            name, share = self.score
            parts.append(f"{name} {100 * share:.1f} %")
        return "  ".join(parts)


@torch.no_grad()
def held_out_nll(
    model: Model, data: DataSet, batch_size: int = 64, world: World = ALONE
) -> tuple[Float[Tensor, "rows"], Float[Tensor, "rows"]]:
    """Return each held-out row's summed loss in nats and its number of targets.

    Several processes take turns with the batches; each returns all rows.
    """
    device = model.head.weight.device
    found = {}
    with model.evaluating():
        for i, batch in enumerate(data.held_out_batches(batch_size)):
            if i % world.size != world.rank:
                continue
            there = batch.to(device)
            losses = model.loss(there.inputs, there.targets, reduction="none", **there.context)
            nll = losses.cpu().double().sum(dim=1)  # a GPU of Apple's has no float64
            found[i] = nll, (batch.targets != IGNORE).sum(dim=1).double()
    for theirs in world.gather(found):
        found |= theirs
    all_nll, all_counts = zip(*(found[i] for i in sorted(found)), strict=True)
    return torch.cat(all_nll), torch.cat(all_counts)


def entropy_floor(data: DataSet) -> float | None:
    """Return the source's own loss on the held-out rows, in nats per token, where it is known."""
    if data.floor is None:
        return None
    n_tokens = sum(batch.n_targets for batch in data.held_out_batches(1000))
    return float(data.floor.double().sum() / n_tokens)


def evaluate(model: Model, data: DataSet, batch_size: int = 64, world: World = ALONE) -> Evaluation:
    """Score the held-out rows; compare with the floor of the same rows where it is known."""
    nll, counts = held_out_nll(model, data, batch_size, world)
    n_tokens = int(counts.sum())
    loss = float(nll.sum() / n_tokens)
    score = data.score(model)
    if data.floor is None:
        return Evaluation(loss, n_tokens, score=score, unit=data.unit)
    _, error = mean_difference(nll, data.floor.double(), counts)
    floor = float(data.floor.double().sum() / n_tokens)
    return Evaluation(loss, n_tokens, floor, error, score, data.unit)


def mean_difference(
    nll: Float[Tensor, "rows"], other: Float[Tensor, "rows"], counts: Float[Tensor, "rows"]
) -> tuple[float, float]:
    """Return the difference of two losses per token, and its standard error.

    Both were taken on the same rows, so the rows' own difficulty cancels; tokens of one row are not
    independent, so rows are the sample. The mean is a ratio of sums, its error the usual
    linearization of that (Cochran 1977, section 6.4).
    """
    difference = nll - other
    mean = difference.sum() / counts.sum()
    residual = difference - mean * counts
    n = len(counts)
    if n < 2:
        return float(mean), math.inf
    variance = residual.square().sum() * n / (n - 1)
    return float(mean), float(variance.sqrt() / counts.sum())
