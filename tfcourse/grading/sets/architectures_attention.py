"""The exercises of chapter 06 on attention; `architectures` lists those of the whole set."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor

from tfcourse.attention import MultiHeadAttention
from tfcourse.config import ModelConfig
from tfcourse.grading.questions import (
    Draw,
    Question,
    Student,
    compare,
    require,
    several,
    tensor,
)
from tfcourse.grading.wire import Tool

CHAPTER = "06_architectures.html"


def padded(draw: Draw, n_rows: int, length: int) -> Tensor:
    """Draw which tokens are real, [B L]: the first of each row; one row is full, the others not."""
    lengths = draw.integers(1, length, n_rows)
    lengths[0] = length
    return torch.arange(length) < lengths.unsqueeze(1)


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
    filled = (q @ k.mT / math.sqrt(d // n_heads)).masked_fill(~mask, -1e4).softmax(dim=-1)
    cleared = source.masked_fill(~real.unsqueeze(2), 0.0)
    mixed_q, mixed_k, mixed_v = (rearrange(t, "b l (k h) -> b h l k", h=n_heads) for t in flat)
    found = {
        "The mask looks like a large number taken from the scores. Scores can be larger.": joined(
            attend(q, k, v, mask, hide=-1e4)
        ),
        "A large negative number looks put in place of a PAD's score. Scores can be larger.": (
            joined(filled @ v)
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
        "The heads look put together with the features outside: those of a head stand side by "
        "side.": F.linear(rearrange(attend(q, k, v, mask), "b h l k -> b l (k h)"), *w_o),
        "The last layer, out, looks left out.": rearrange(
            attend(q, k, v, mask), "b h l k -> b l (h k)"
        ),
        "The softmax looks taken over the queries. Each query shares 1 among the keys.": joined(
            by_column @ v
        ),
        "The softmax looks taken over the queries, apart from PADs. Each query shares 1 among the "
        "keys.": joined(by_column.masked_fill(~mask, 0.0) @ v),
        "The values look made by the layer for keys.": joined(attend(q, k, k, mask)),
        "PADs look as if their scores were 0. e⁰ is 1, which is still a share.": joined(
            attend(q, k.masked_fill(~real[:, None, :, None], 0.0), v, every)
        ),
        "The source's PADs look cleared, but still read.": joined(
            attend(q, heads(F.linear(cleared, *w_k)), heads(F.linear(cleared, *w_v)), every)
        ),
        "The features of the heads look interleaved. Those of a head stand side by side.": (
            F.linear(
                rearrange(attend(mixed_q, mixed_k, mixed_v, mask), "b h l k -> b l (k h)"), *w_o
            )
        ),
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
            "Queries look made from the source, and keys from x.": joined(
                attend(asked, own_k, v, mask)
            ),
            "The keys look made from x.": joined(attend(q, own_k, v, mask)),
            "The values look made from x.": joined(attend(q, k, own_v, mask)),
            "Queries look made from the source, keys and values from x.": joined(
                attend(asked, own_k, own_v, mask)
            ),
        }
    return found


def check_cross_attention(
    student: Student,
    x: Tensor,
    source: Tensor,
    real: Tensor,
    layers: Layers,
    n_heads: int,
    tolerance: float = 1e-4,
) -> None:
    """Compare with the package's attention, on these weights."""
    given = (x, source, real, layers, n_heads)
    tools = [Tool("linear", pair) for pair in layers]
    y = tensor(student(x, source, real, *tools, n_heads), x.shape)
    says = "It gives NaN. Is there a softmax over nothing but −∞, or an exponential too large?"
    require(bool(torch.isfinite(y).all()), says)
    mistakes = mistakes_of_cross_attention(*given)
    says = (
        "The numbers are not the right ones. What are Q, K and V made from, and how are heads cut "
        "and put together?"
    )
    compare(y, reference_cross_attention(*given), mistakes, says, tolerance)


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


cached_attention = Question(
    "06.cached_attention",
    "cached_attention",
    title="Attention with a cache",
    points=3,
    minutes=15,
    difficulty=3,
    section=f"{CHAPTER}#what-grows-while-it-writes",
    forbid=("causal_mask", "causal_lower_right", "MultiHeadAttention", "KVCache"),
)


def check_cached_attention(
    student: Student,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    chunks: list[int],
    n_cached: int = 0,
    tolerance: float = 1e-4,
) -> None:
    """Compare chunk after chunk with what attention gives when it reads everything at once.

    The first `n_cached` positions are in the cache already.
    """
    full = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    keys, values, start = k[:, :, :n_cached], v[:, :, :n_cached], n_cached
    for n in chunks:
        new = slice(start, start + n)
        answer = student(q[:, :, new], k[:, :, new], v[:, :, new], keys, values)
        mixed, new_keys, new_values = several(answer, 3, "three things: mixed, keys, values")
        tensor(mixed, full[:, :, new].shape, "`mixed`")
        mistakes = mistakes_of_cached_attention(q[:, :, new], k, v, start)
        says = "What a new position gathers is not what it gathers without a cache."
        compare(mixed, full[:, :, new], mistakes, says, tolerance)
        for name, got, everything, other in (
            ("keys", new_keys, k, v),
            ("values", new_values, v, k),
        ):
            old, fresh = everything[:, :, :start], everything[:, :, new]
            right = everything[:, :, : start + n]
            crossed = {
                f"The new {name} look put before the old ones.": torch.cat([fresh, old], dim=2),
                "Keys and values look exchanged in what is returned.": other[:, :, : start + n],
            }
            tensor(got, right.shape, f"The tensor of {name}")
            compare(got, right, crossed, f"The {name} are not the old ones, then the new ones.")
        keys, values, start = new_keys, new_values, start + n


def mistakes_of_cached_attention(q: Tensor, k: Tensor, v: Tensor, start: int) -> dict[str, Tensor]:
    """What known misconceptions compute for new queries; `k` and `v` are those of all positions."""
    n = q.shape[2]
    k, v = k[:, :, : start + n], v[:, :, : start + n]
    every = torch.ones(n, start + n, dtype=torch.bool)
    past = every.tril(start)
    return {
        "The mask looks like a large number taken from the scores. Scores can be larger.": attend(
            q, k, v, past, hide=-1e4
        ),
        "The mask looks aligned at the top left: the first new position reads one key alone. "
        "It stands after all that are cached.": attend(q, k, v, every.tril()),
        "A new position looks as if it read the new ones after it.": attend(q, k, v, every),
        "What is cached looks as if nobody read it.": attend(
            q, k[:, :, start:], v[:, :, start:], every[:, start:].tril()
        ),
        "The new positions look as if they read the cache alone, not themselves.": attend(
            q, k, v, every.tril(start) & (torch.arange(start + n) < start)
        ),
        "The mask looks shifted by one: a new position does not read itself.": attend(
            q, k, v, every.tril(start - 1)
        ),
        "The mask looks shifted by one: a new position reads the next one.": attend(
            q, k, v, every.tril(start + 1)
        ),
        "The scores look undivided. What keeps their size from growing with d_k?": attend(
            q, k, v, past, scale=1.0
        ),
        "The scores look divided by the root of the number of keys. It is √d_k.": attend(
            q, k, v, past, scale=(start + n) ** -0.5
        ),
        "The mask looks shifted by the number of new positions. How many are cached?": attend(
            q, k, v, every.tril(n)
        ),
        "The weights look masked after the softmax: they no longer sum to 1.": (
            attend(q, k, torch.eye(start + n).expand(*k.shape[:2], -1, -1), every) * past
        )
        @ v,
        "The new keys look put before the old ones.": attend(
            q, k.roll(n, dims=2), v.roll(n, dims=2), past
        ),
    }


@cached_attention.check
def _(student: Student, draw: Draw) -> None:
    """One new position, then another."""
    q, k, v = (draw.normal(2, 2, 6, 4) for _ in range(3))
    check_cached_attention(student, q, k, v, [1, 1], n_cached=4)


@cached_attention.check
def _(student: Student, draw: Draw) -> None:
    """Three new positions at once."""
    q, k, v = (draw.normal(2, 2, 7, 4) for _ in range(3))
    check_cached_attention(student, q, k, v, [3], n_cached=4)


@cached_attention.check
def _(student: Student, draw: Draw) -> None:
    """A whole text in chunks, the first with an empty cache."""
    q, k, v = (draw.normal(1, 2, 8, 4) for _ in range(3))
    check_cached_attention(student, q, k, v, [3, 1, 4])
