"""Handwritten digits, 8 × 8 pixels: real images that come with scikit-learn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from tfcourse.config import ModelConfig
from tfcourse.data.batching import Batch, DataSet, at_least

SIZE = 8
"""Pixels along each side."""

N_CLASSES = 10

MAX_SHIFT = 1
"""Pixels by which an image of training is moved at random, each way."""


class DigitData(DataSet):
    """1,797 digits, each written once: some to train on, moved a little each time, some held out.

    Pixels are scaled to mean 0 and variance 1 over the images of training.

    Source: Alpaydin & Kaynak 1998, the test part of their set.
    """

    unit = "image"

    def __init__(self, seed: int = 0, n_held_out: int = 360) -> None:
        from sklearn.datasets import load_digits

        at_least("n_held_out", n_held_out, 1)
        digits = load_digits()
        n = len(digits.target)
        if n_held_out >= n:
            raise ValueError(f"n_held_out={n_held_out} leaves nothing of {n} images to train on")
        order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
        images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1)[order]
        labels = torch.tensor(digits.target, dtype=torch.long).unsqueeze(1)[order]
        trained = images[n_held_out:]
        images = (images - trained.mean()) / trained.std()
        self._seed = seed
        self._held_out = Batch(images[:n_held_out], labels[:n_held_out])
        self._train = Batch(images[n_held_out:], labels[n_held_out:])
        self._blank = float(images.min())

    def held_out_batches(self, batch_size: int) -> Iterator[Batch]:
        at_least("batch_size", batch_size, 1)
        return iter(self._held_out.chunk(-(-len(self._held_out.targets) // batch_size)))

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "digits", "seed": self._seed, "n_held_out": len(self._held_out.targets)}

    def model_fields(self) -> dict[str, int]:
        return {
            "image_height": SIZE,
            "image_width": SIZE,
            "image_channels": 1,
            "n_classes": N_CLASSES,
        }

    def check_fit(self, config: ModelConfig) -> None:
        for name, value in self.model_fields().items():
            if getattr(config, name) != value:
                raise ValueError(
                    f"digits have {name}={value}, the model {getattr(config, name)}; "
                    f"build it with {name}={value}"
                )

    def score(self, model: Any) -> tuple[str, float]:
        """Return the share of held-out images whose likeliest class is the right one."""
        right, device = 0, model.head.weight.device
        with torch.no_grad(), model.evaluating():
            for batch in self.held_out_batches(256):
                guess = model(batch.inputs.to(device)).argmax(dim=1).cpu()
                right += int((guess == batch.targets[:, 0]).sum())
        return "accuracy", right / len(self._held_out.targets)

    def _train_batch(self, step: int, batch_size: int) -> Batch:
        n = len(self._train.targets)
        draw = torch.Generator().manual_seed(self._seed + 1)
        epoch, rows = -1, []
        for place in range(step * batch_size, (step + 1) * batch_size):
            if place // n != epoch:
                epoch = place // n
                order = torch.randperm(n, generator=draw.manual_seed(_mix(self._seed, epoch)))
            rows.append(int(order[place % n]))
        draw.manual_seed(_mix(self._seed, step) + 1)
        shifts = torch.randint(-MAX_SHIFT, MAX_SHIFT + 1, (batch_size, 2), generator=draw)
        images = shift(self._train.inputs[rows], shifts, self._blank)
        return Batch(images, self._train.targets[rows])


def shift(
    images: Float[Tensor, "B C height width"], by: Int[Tensor, "B 2"], blank: float
) -> Float[Tensor, "B C height width"]:
    """Move each image by whole pixels, down and right; fill with `blank` what is left empty."""
    height, width = images.shape[2:]
    margin = MAX_SHIFT
    wide = F.pad(images, (margin, margin, margin, margin), value=blank)
    corners = (margin - by).tolist()
    moved = [
        image[:, top : top + height, left : left + width]
        for image, (top, left) in zip(wide, corners, strict=True)
    ]
    return torch.stack(moved)


def _mix(seed: int, number: int) -> int:
    """Combine two numbers, so that neither (0, 1) and (1, 0) nor neighbours share a stream."""
    mixed = (seed * 1_000_003 + number) * 2 + 7
    return (mixed + 2**63) % 2**64 - 2**63  # its last 64 bits, which is what a generator takes
