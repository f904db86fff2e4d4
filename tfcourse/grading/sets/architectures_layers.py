"""The exercises of chapter 06 on layers; `architectures` lists those of the whole set."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor

from tfcourse.attention import MultiHeadAttention
from tfcourse.config import ModelConfig
from tfcourse.embeddings import PatchEmbedding
from tfcourse.grading.questions import Draw, Question, Student, compare, require, tensor
from tfcourse.grading.wire import Kept, Tool

CHAPTER = "06_architectures.html"


def padded(draw: Draw, n_rows: int, length: int) -> Tensor:
    """Draw which tokens are real, [B L]: the first of each row; one row is full, the others not."""
    lengths = draw.integers(1, length, n_rows)
    lengths[0] = length
    return torch.arange(length) < lengths.unsqueeze(1)


def several(value: Any, names: str) -> list:
    """Return the parts of a result that is to have one for each name."""
    n = len(names.split(", "))
    right = isinstance(value, tuple | list) and len(value) == n
    require(right, f"It has to return {n} things: {names}.")
    return list(value)


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor,
    scale: float | None = None,
    hide: float = -math.inf,
) -> Tensor:
    """Compute attention in float64; `scale` is 1/√d_k unless given, `hide` is added to masked."""
    scores = q.double() @ k.double().mT * (scale or q.shape[-1] ** -0.5)
    weights = (scores + torch.where(mask, 0.0, hide)).softmax(dim=-1)
    return (weights @ v.double()).float()


cross_attention = Question(
    "06.cross_attention",
    "cross_attention",
    title="Cross-attention to a padded source",
    points=3,
    minutes=15,
    difficulty=3,
    section=f"{CHAPTER}#one-extra-branch",
    forbid=("MultiHeadAttention", "MultiheadAttention", "multi_head_attention_forward"),
)

Layers = list[tuple[Tensor, Tensor]]


def draw_layers(draw: Draw, d: int, std: float = 0.5) -> Layers:
    """Draw weight and bias of the layers for queries, keys, values, and the result."""
    return [(draw.normal(d, d, std=std), draw.normal(d, std=std)) for _ in range(4)]


def reference_cross_attention(
    x: Tensor, source: Tensor, real: Tensor, layers: Layers, n_heads: int
) -> Tensor:
    """Let the package's attention, with these weights, read the source."""
    config = ModelConfig(vocab_size=1, d_model=x.shape[2], n_heads=n_heads, bias=True, causal=False)
    with torch.device("meta"):
        attention = MultiHeadAttention(config)
    weights, biases = zip(*layers, strict=True)
    parts = {"qkv.weight": torch.cat(weights[:3]), "qkv.bias": torch.cat(biases[:3])}
    parts |= {"out.weight": weights[3], "out.bias": biases[3]}
    attention.load_state_dict(parts, assign=True)
    return attention(x, mask=real[:, None, None], source=source).detach()


def mistakes_of_cross_attention(
    x: Tensor, source: Tensor, real: Tensor, layers: Layers, n_heads: int
) -> dict[str, Tensor]:
    """What known misconceptions compute from the same inputs."""
    (w_q, w_k, w_v, w_o), d = layers, x.shape[2]
    mask = real[:, None, None, :].expand(-1, 1, x.shape[1], -1)

    def heads(t: Tensor, n: int = n_heads) -> Tensor:
        return rearrange(t, "b l (h k) -> b h l k", h=n)

    def joined(mixed: Tensor) -> Tensor:
        return F.linear(rearrange(mixed, "b h l k -> b l (h k)"), *w_o)

    flat = F.linear(x, *w_q), F.linear(source, *w_k), F.linear(source, *w_v)
    q, k, v = map(heads, flat)
    by_column = (q @ k.mT / math.sqrt(d // n_heads)).masked_fill(~mask, -1e30).softmax(dim=-2)
    cut_q, cut_k, cut_v = (t.reshape(len(t), n_heads, -1, d // n_heads) for t in flat)
    every = torch.ones_like(mask)
    shares = attend(q, k, torch.eye(source.shape[1]).expand(len(x), n_heads, -1, -1), every)
    stacked = attend(q, k, v, mask).reshape(x.shape)
    found = {
        "The mask looks like a large number taken from the scores. Scores can be larger.": joined(
            attend(q, k, v, mask, hide=-1e4)
        ),
        "The source's PADs look read.": joined(attend(q, k, v, every)),
        "The weights look masked after the softmax: they no longer sum to 1.": joined(
            (shares * mask) @ v
        ),
        "The mask looks inverted: True is a real token.": joined(attend(q, k, v, ~mask)),
        "The scores look divided by √d. A head has d_k = d / H features.": joined(
            attend(q, k, v, mask, scale=d**-0.5)
        ),
        "The scores look undivided. What keeps their size from growing with d_k?": joined(
            attend(q, k, v, mask, scale=1.0)
        ),
        "It looks like one head for all d features.": joined(
            attend(heads(flat[0], 1), heads(flat[1], 1), heads(flat[2], 1), mask)
        ),
        "The heads look cut so that they mix positions: L and H were exchanged by a reshape.": (
            joined(attend(cut_q, cut_k, cut_v, mask))
        ),
        "The heads look put together without moving them beside their position first.": F.linear(
            stacked, *w_o
        ),
        "The last layer, out, looks left out.": rearrange(
            attend(q, k, v, mask), "b h l k -> b l (h k)"
        ),
        "The softmax looks taken over the queries. Each query shares 1 among the keys.": joined(
            by_column @ v
        ),
        "The values look made by the layer for keys.": joined(attend(q, k, k, mask)),
        "The mask looks causal. The source is complete before the first word is written.": joined(
            attend(q, k, v, mask & every.tril())
        ),
    }
    if x.shape == source.shape:
        own_k, own_v, asked = (
            heads(F.linear(t, *w)) for t, w in ((x, w_k), (x, w_v), (source, w_q))
        )
        found |= {
            "Keys and values look made from x: that is self-attention.": joined(
                attend(q, own_k, own_v, mask)
            ),
            "The values look made from x.": joined(attend(q, k, own_v, mask)),
            "Queries look made from the source, keys and values from x.": joined(
                attend(asked, own_k, own_v, mask)
            ),
        }
    return found


def check_cross_attention(
    student: Student, x: Tensor, source: Tensor, real: Tensor, layers: Layers, n_heads: int
) -> None:
    """Compare with the package's attention, on these weights."""
    given = (x, source, real, layers, n_heads)
    tools = [Tool("linear", pair) for pair in layers]
    y = tensor(student(x, source, real, *tools, n_heads), x.shape)
    says = "It gives NaN. Is there a softmax over nothing but −∞, or an exponential too large?"
    require(bool(torch.isfinite(y).all()), says)
    compare(y, reference_cross_attention(*given), mistakes_of_cross_attention(*given))


@cross_attention.check
def _(student: Student, draw: Draw) -> None:
    """A source as long as the target."""
    x, source, real = draw.normal(3, 4, 8), draw.normal(3, 4, 8), padded(draw, 3, 4)
    check_cross_attention(student, x, source, real, draw_layers(draw, 8), 2)


@cross_attention.check
def _(student: Student, draw: Draw) -> None:
    """A source that is longer than the target."""
    x, source, real = draw.normal(2, 3, 12), draw.normal(2, 7, 12), padded(draw, 2, 7)
    check_cross_attention(student, x, source, real, draw_layers(draw, 12), 3)


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
        raw = self.images.reshape(len(x), x.shape[1], -1)
        raw = F.linear(raw, self.state["project.weight"], self.state["project.bias"])
        return {
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
            "CLS looks put at the end.": torch.cat([x, first], dim=1) + positions,
            "CLS looks put before the patches after positions were added to them.": torch.cat(
                [first, x + positions[:, :-1]], dim=1
            ),
        }

    def load(self, student: Student) -> Kept:
        """Make the student's module and give it these weights."""
        _, channels, height, width = self.images.shape
        d = len(self.state["project.bias"])
        module = student(height, width, channels, self.patch_size, d)
        require(isinstance(module, Kept) and module.kind == "module", "It is no nn.Module.")
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
    compare(y, right, case.mistakes())


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
    points=2,
    minutes=12,
    difficulty=3,
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
        "The rows of the grid look taken for its columns.": resize(crossed),
        "The patches look numbered column by column. They run row by row.": torch.cat(
            [first, rearrange(by_columns, "1 (h w) d -> 1 (w h) d", h=new[0])], dim=1
        ),
        "Features look taken for places: reshape cannot move d in front of the grid.": resize(
            learned.reshape(1, -1, *old)
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
    require(bool((y[:, :1] == first).all()), "The first position, CLS's, is to stay as it is.")
    compare(y, right, mistakes)


@resize_positions.check
def _(student: Student, draw: Draw) -> None:
    """From 2 × 3 patches to 4 × 6."""
    check_resize_positions(student, draw.normal(1, 7, 5), (2, 3), (4, 6))


@resize_positions.check
def _(student: Student, draw: Draw) -> None:
    """From 3 × 4 patches to fewer, and to the same."""
    positions = draw.normal(1, 13, 4)
    check_resize_positions(student, positions, (3, 4), (2, 3))
    same = tensor(student(positions, (3, 4), (3, 4)), positions.shape)
    compare(same, positions, says="On the grid that was learned, positions have to stay.")
