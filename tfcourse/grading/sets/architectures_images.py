"""The exercises of chapter 06 on images; `architectures` lists those of the whole set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor

from tfcourse.config import ModelConfig
from tfcourse.embeddings import PatchEmbedding
from tfcourse.grading.questions import (
    Draw,
    Question,
    Student,
    as_module,
    compare,
    require,
    tensor,
)
from tfcourse.grading.sets.architectures_attention import CHAPTER
from tfcourse.grading.wire import Kept

image_embedding = Question(
    "06.image_embedding",
    "ImageEmbedding",
    title="An image becomes a sequence",
    points=3,
    minutes=15,
    difficulty=3,
    section=f"{CHAPTER}#the-whole-input-at-once-digits",
    forbid=("PatchEmbedding",),
)


@dataclass
class ImageCase:
    """Images of one size, with the weights that embed them."""

    images: Tensor
    patch_size: int
    state: dict[str, Tensor]

    @classmethod
    def make(cls, draw: Draw, images: Tensor, p: int, d: int) -> ImageCase:
        """Draw the weights; names and shapes are those of the package."""
        _, channels, height, width = images.shape
        shapes = {
            "project.weight": (d, channels * p * p),
            "project.bias": (d,),
            "first": (1, 1, d),
            "positions": (1, 1 + (height // p) * (width // p), d),
        }
        state = {name: draw.normal(*shape) for name, shape in shapes.items()}
        return cls(images, p, state)

    def reference(self) -> PatchEmbedding:
        """Make the package's embedding with these weights."""
        _, channels, height, width = self.images.shape
        sizes: dict[str, Any] = dict(
            image_height=height, image_width=width, image_channels=channels, n_heads=1
        )
        d = len(self.state["project.bias"])
        module = PatchEmbedding(ModelConfig(**sizes, patch_size=self.patch_size, d_model=d))
        module.load_state_dict(self.state)
        return module

    def mistakes(self) -> dict[str, Tensor]:
        """What known misconceptions compute from the same images."""
        positions, first = self.state["positions"], self.state["first"]
        first = first.expand(len(self.images), -1, -1)

        def project(pattern: str, cut: str = "(h p) (w q)") -> Tensor:
            p = self.patch_size
            patches = rearrange(self.images, f"b c {cut} -> {pattern}", p=p, q=p)
            return F.linear(patches, self.state["project.weight"], self.state["project.bias"])

        def embed(patches: Tensor, table: Tensor = positions) -> Tensor:
            return torch.cat([first, patches], dim=1) + table

        x = project("b (h w) (c p q)")
        weight = self.state["project.weight"]
        pixels = rearrange(
            self.images, "b c (h p) (w q) -> b (h w) (c p q)", p=self.patch_size, q=self.patch_size
        )
        centred = x - pixels.mean(dim=-1, keepdim=True) * weight.sum(dim=1)
        raw = self.images.reshape(len(x), x.shape[1], -1)
        raw = F.linear(raw, self.state["project.weight"], self.state["project.bias"])
        apart = rearrange(
            self.images, "b c (h p) (w q) -> b (c h w p q)", p=self.patch_size, q=self.patch_size
        ).reshape(len(x), x.shape[1], -1)
        apart = F.linear(apart, self.state["project.weight"], self.state["project.bias"])
        return {
            "Channels look left outside of the patches: move their axis to the pixels.": embed(
                apart
            ),
            "The patches look numbered column by column.": embed(project("b (w h) (c p q)")),
            "The pixels of a patch look ordered with the channel last. It comes first.": embed(
                project("b (h w) (p q c)")
            ),
            "The pixels of a patch look ordered column by column.": embed(
                project("b (h w) (c q p)")
            ),
            "A patch looks gathered from all over the image: cut the rows as (h p), not (p h).": (
                embed(project("b (h w) (c p q)", "(p h) (q w)"))
            ),
            "The image looks reshaped without moving axes: its “patches” are runs of pixels.": (
                embed(raw)
            ),
            "Positions look left out.": embed(x, torch.zeros_like(positions)),
            "All patches look to have the same position.": embed(
                x, torch.cat([positions[:, :1], positions[:, 1:2].expand_as(x[:1])], dim=1)
            ),
            "All places look to have the same position.": embed(x, positions[:, :1]),
            "CLS looks to have no position.": torch.cat([first, x + positions[:, 1:]], dim=1),
            "The positions look moved round by one. The first is CLS's.": embed(
                x, positions.roll(-1, dims=1)
            ),
            "The numbers of a patch look changed before `project`: is their mean taken away?": (
                embed(centred)
            ),
            "CLS looks put at the end.": torch.cat([x, first], dim=1) + positions,
            "CLS looks put before the patches after positions were added to them.": torch.cat(
                [first, x + positions[:, :-1]], dim=1
            ),
        }

    def load(self, student: Student) -> Kept:
        """Make the student's module and give it these weights."""
        _, channels, height, width = self.images.shape
        d = len(self.state["project.bias"])
        module = as_module(student(height, width, channels, self.patch_size, d))
        shapes = {name: list(t.shape) for name, t in student.state(module).items()}
        names, wanted = ", ".join(sorted(shapes)), ", ".join(sorted(self.state))
        require(names == wanted, f"Its weights are {names or 'none'}; they have to be {wanted}.")
        for name, t in self.state.items():
            more = ""
            if name == "positions" and shapes[name] in ([1, 1, d], [1, d], [d]):
                more = " One position for all patches would not tell them apart."
            elif name == "positions" and shapes[name] == [1, t.shape[1] - 1, d]:
                more = " CLS has a place, too."
            wrong = f"{name} has shape {shapes[name]}; it has to be {list(t.shape)}.{more}"
            require(shapes[name] == list(t.shape), wrong)
        student.load(module, self.state)
        return module


def check_image_embedding(student: Student, case: ImageCase) -> None:
    """Compare with the package's embedding, on the case's weights."""
    module = case.load(student)
    right = case.reference()(case.images).detach()
    y = tensor(student.call(module, case.images), right.shape)
    says = (
        "The numbers are not the right ones. In which order are patches, pixels and channels, and "
        "what is added where?"
    )
    compare(y, right, case.mistakes(), says)


@image_embedding.check
def _(student: Student, draw: Draw) -> None:
    """A grey image of two rows of three patches."""
    check_image_embedding(student, ImageCase.make(draw, draw.normal(2, 1, 4, 6), 2, 5))


@image_embedding.check
def _(student: Student, draw: Draw) -> None:
    """Images in colour, higher than wide."""
    check_image_embedding(student, ImageCase.make(draw, draw.normal(2, 3, 9, 6), 3, 4))


resize_positions = Question(
    "06.resize_positions",
    "resize_positions",
    title="Positions for an image of another size",
    points=3,
    minutes=12,
    difficulty=2,
    section=f"{CHAPTER}#the-whole-input-at-once-digits",
    forbid=("PatchEmbedding",),
)


def check_resize_positions(
    student: Student, positions: Tensor, old: tuple[int, int], new: tuple[int, int]
) -> None:
    """Compare with bicubic interpolation of the grid, the first position left as it is."""
    first, learned = positions[:, :1], positions[:, 1:]

    def joined(grid: Tensor) -> Tensor:
        return torch.cat([first, rearrange(grid, "1 d h w -> 1 (h w) d")], dim=1)

    def resize(
        grid: Tensor, mode: str = "bicubic", align: bool | None = False, **options
    ) -> Tensor:
        return joined(F.interpolate(grid, size=new, mode=mode, align_corners=align, **options))

    y = tensor(student(positions, old, new), (1, 1 + new[0] * new[1], positions.shape[2]))
    grid = rearrange(learned, "1 (h w) d -> 1 d h w", h=old[0])
    crossed = rearrange(learned, "1 (h w) d -> 1 d h w", h=old[1])
    line = F.interpolate(learned.mT, size=new[0] * new[1], mode="linear").mT
    whole = F.interpolate(positions.mT, size=y.shape[1], mode="linear").mT
    by_columns = resize(rearrange(learned, "1 (w h) d -> 1 d h w", h=old[0]))[:, 1:]
    mistakes = {
        "The positions come back as they were. Two grids of as many patches may differ.": (
            positions if positions.shape == y.shape else resize(grid)
        ),
        "The rows of the grid look taken for its columns. `old` is (h, w), and need not be "
        "square.": resize(crossed),
        "The patches look numbered column by column. They run row by row.": torch.cat(
            [first, rearrange(by_columns, "1 (h w) d -> 1 (w h) d", h=new[0])], dim=1
        ),
        "Features look taken for places: reshape cannot move d in front of the grid.": resize(
            learned.reshape(1, -1, *old)
        ),
        "Features look taken for places, on both ways: reshape cannot move d.": torch.cat(
            [
                first,
                F.interpolate(learned.reshape(1, -1, *old), size=new, mode="bicubic").reshape(
                    1, -1, learned.shape[2]
                ),
            ],
            dim=1,
        ),
        "The way back looks like a reshape alone. It cannot move d behind the grid.": torch.cat(
            [
                first,
                F.interpolate(grid, size=new, mode="bicubic").reshape(1, -1, learned.shape[2]),
            ],
            dim=1,
        ),
        "Height and width look exchanged in the new size.": joined(
            F.interpolate(grid, size=new[::-1], mode="bicubic", align_corners=False)
        ),
        "It looks bilinear.": resize(grid, "bilinear"),
        "It looks like the nearest place.": resize(grid, "nearest", None),
        "It looks as if corners were aligned. A patch is an area, not a point.": resize(
            grid, align=True
        ),
        "It looks smoothed (antialias).": resize(grid, antialias=True),
        "It looks interpolated along the row of patches. They lie in a grid.": torch.cat(
            [first, line], dim=1
        ),
        "It looks interpolated along the row of patches, CLS with it.": whole,
        "The new grid looks read column by column.": torch.cat(
            [first, rearrange(resize(grid)[:, 1:], "1 (h w) d -> 1 (w h) d", h=new[0])], dim=1
        ),
    }
    right = resize(grid)
    require(bool((y[:, :1] == first).all()), "The first position, CLS's, has to stay as it is.")
    says = (
        "The numbers are not the right ones. Where are rows and columns of each of the two grids?"
    )
    compare(y, right, mistakes, says)


@resize_positions.check
def _(student: Student, draw: Draw) -> None:
    """From 2 × 3 patches to 4 × 6."""
    check_resize_positions(student, draw.normal(1, 7, 5), (2, 3), (4, 6))


@resize_positions.check
def _(student: Student, draw: Draw) -> None:
    """From 4 × 3 patches to fewer, to as many rows, and to the same."""
    positions = draw.normal(1, 13, 4)
    check_resize_positions(student, positions, (4, 3), (2, 3))
    check_resize_positions(student, positions, (4, 3), (4, 5))
    same = tensor(student(positions, (4, 3), (4, 3)), positions.shape)
    compare(same, positions, says="On the grid that was learned, positions have to stay.")
