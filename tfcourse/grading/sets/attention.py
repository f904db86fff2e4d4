"""The exercises of chapter 03 on the mask, the softmax and one head's attention.

`blocks.py` lists all exercises of the chapter.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tfcourse import attention as oracle
from tfcourse.grading.questions import (
    Draw,
    Question,
    Student,
    Wrong,
    close,
    compare,
    require,
    tensor,
)
from tfcourse.grading.wire import Kept

CHAPTER = "03_attention.html"
READY_MADE = (
    *("scaled_dot_product_attention", "MultiheadAttention", "multi_head_attention_forward"),
    *("MultiHeadAttention", "with_weights"),
)
COUNTED = (
    *("numel", "parameters", "n_params", "costs", "cost_table", "training_memory"),
    *("MultiHeadAttention", "FeedForward", "SwiGLU", "make_feed_forward", "Block", "Stack"),
    *("DecoderLM", "Encoder", "EncoderDecoder", "VisionTransformer"),
)
"""What a question that asks for a count does not allow: what counts, and what can be counted."""
UNDIVIDED = "The scores look undivided. What keeps their size the same at every d_k?"
TOO_SMALL = "The scores look divided by d_k, not by its root."
LATE = "The mask looks applied after the softmax: what it hides still counts in the sum."
AXIS = "The softmax looks taken down the columns. The weights of one query add up to 1."
UNMASKED = "The mask looks ignored."
NOT_FINITE = "The result is NaN or infinite. Does an exponential overflow, or is a divisor 0?"
ZERO = "What may not be read looks given a finite score, such as 0, and so keeps a weight."
NEAR = "What may not be read looks set to a score that is not far enough below the others."
INVERTED = "The mask looks read the other way round. True means: may be read."


def readable(draw: Draw, *shape: int) -> Tensor:
    """Draw a mask in which every query may read the first key at least, and never all keys."""
    mask = draw.uniform(0, 1, *shape) < 0.6
    mask[..., 0], mask[..., -1] = True, shape[-1] == 1
    return mask


def not_finite(y: Tensor, inverted: Tensor, says: str = INVERTED) -> str:
    """Say why a result is not finite; `inverted` is that of a mask read the other way round."""
    rows = torch.isfinite(y).all(-1)
    if rows.any() and close(y[rows].double(), inverted[rows].double(), 1e-3):
        return f"{says} Some query is left with nothing to read, and gives NaN."
    return NOT_FINITE


def same_dtype(value: Tensor, given: Tensor) -> None:
    """Fail unless the result has the dtype of what it was made from."""
    says = f"It turns {given.dtype} into {value.dtype}. The result has the dtype of the input."
    require(value.dtype == given.dtype, says)


def gradient(student: Student, weights: Tensor, *args: Any, target: Kept | None = None) -> Tensor:
    """Return the first input's gradient of the weighted result."""
    run = student.run(target or student.name, *args, backward=weights)
    found = run.gradients["input 0"]
    require(found is not None, "No gradient flows from the result back to the input.")
    return tensor(found, args[0].shape, "The gradient")


# --- the mask ---------------------------------------------------------------------------------

causal_mask = Question(
    "03.causal_mask",
    "causal_mask",
    title="Who may read whom",
    points=1,
    minutes=5,
    difficulty=1,
    section=f"{CHAPTER}#the-mask-a-weight-of-exactly-0",
    forbid=("causal_mask", "generate_square_subsequent_mask"),
)


def causal_mask_on(student: Student, n_queries: int, n_keys: int) -> None:
    """Compare one mask with the right one and with known mistakes."""
    value = student(n_queries, n_keys)
    if isinstance(value, Tensor) and value.shape != (n_queries, n_keys):
        turned = value.shape == (n_keys, n_queries)
        require(not turned, "The axes are swapped: a row for each query, a column for each key.")
    mask = tensor(value, (n_queries, n_keys))
    require(mask.dtype is torch.bool, f"The mask holds {mask.dtype}; it has to hold True or False.")
    right = oracle.causal_mask(n_queries, n_keys)
    ones, more = torch.ones_like(right), n_keys - n_queries
    mistakes = {
        "True and False look swapped. True means: may be read.": ~right,
        "A query looks kept from its own position. It may read itself.": ones.tril(more - 1),
        "A query looks able to read one position of the future.": ones.tril(more + 1),
        "The diagonal looks counted from the top left. The last query stands at the last key, so "
        "the first query already has keys before it.": ones.tril(),
        "A query looks able to read itself and what comes later. Is there a row for each query, "
        "a column for each key?": ones.triu(more),
        "A query looks able to read its own position alone.": ones.triu(more) & right,
        "The keys before the first query look hidden.": right & (torch.arange(n_keys) >= more),
        "Everything may be read: the future as well.": ones,
    }
    i, j = (mask != right).nonzero()[0].tolist() if (mask != right).any() else (0, 0)
    found = (
        f"lets query {i} read key {j}" if mask[i, j] else f"keeps query {i} from reading key {j}"
    )
    compare(
        mask.float(),
        right.float(),
        {message: result.float() for message, result in mistakes.items()},
        says=f"With {n_queries} queries and {n_keys} keys, counted from 0, it {found}. Where does "
        "that query stand?",
    )


@causal_mask.check
def _(student: Student, draw: Draw) -> None:
    """As many keys as queries."""
    causal_mask_on(student, 4, 4)


@causal_mask.check
def _(student: Student, draw: Draw) -> None:
    """More keys than queries: the first keys stand before every query."""
    causal_mask_on(student, 3, 5)


# --- softmax ----------------------------------------------------------------------------------

masked_softmax = Question(
    "03.masked_softmax",
    "masked_softmax",
    title="A softmax that survives",
    points=3,
    minutes=12,
    difficulty=2,
    section=f"{CHAPTER}#the-mask-a-weight-of-exactly-0",
    forbid=(
        *("softmax", "log_softmax", "softmin", "Softmax", "LogSoftmax", "Softmin", "_softmax"),
        *("special_softmax", "special_log_softmax", "cross_entropy", *READY_MADE),
    ),
)


def reference_softmax(
    scores: Tensor,
    mask: Tensor,
    *,
    axis: int = -1,
    late: bool = False,
    hidden: float = -math.inf,
) -> Tensor:
    """Compute the weights in float64; a query that may read nothing gets zeros.

    The options are what known misconceptions do; `hidden` is the score of what may not be read.
    """
    scores = scores.double()
    if late:
        return scores.softmax(axis) * mask
    return scores.masked_fill(~mask, hidden).softmax(axis).nan_to_num()


def fault_of(weights: Tensor, mask: Tensor, tolerance: float) -> str:
    """Say which property of attention weights fails; the scores decide about the rest."""
    mask = mask.expand(weights.shape)
    total = weights.double().sum(-1)[mask.any(-1)]
    off = (total - 1).abs()
    if off.numel() and off.max() > tolerance:
        return f"The weights of a query add up to {total[off.argmax()]:.3f}, not to 1."
    if (weights[~mask].abs() > tolerance).any():
        return "What may not be read has a weight that is not 0."
    return "The weights of a query add up to 1, but are not the softmax of the scores."


def masked_softmax_on(
    student: Student, scores: Tensor, mask: Tensor, tolerance: float = 1e-4
) -> None:
    """Compare the weights with the right ones and with known mistakes."""
    weights = tensor(student(scores, mask), scores.shape)
    right = reference_softmax(scores, mask)
    empty = ~mask.any(-1, keepdim=True)
    finite = torch.isfinite(weights)
    if not finite.all():
        size = float(scores.abs().max())
        only_empty = (finite | empty).all()
        where = f"with scores up to ±{size:.0f}"
        if only_empty:
            where = "for a query that may read nothing"
        half = f", in {scores.dtype}" if scores.dtype is not torch.float32 else ""
        raise Wrong(
            f"The weights are NaN or infinite {where}{half}. What are its largest score, its "
            "exponentials and their sum?"
        )
    nothing = (weights == 0).all(-1, keepdim=True)
    require(
        not (nothing & ~empty).any(),
        "All weights of a query are 0, though it may read something. Can all of its exponentials "
        "become 0?",
    )
    mistakes = {
        "A query that may read nothing has to get zeros, not weights.": torch.where(
            empty, 1 / scores.shape[-1], right
        ),
        LATE: reference_softmax(scores, mask, late=True),
        AXIS: reference_softmax(scores, mask, axis=-2),
        INVERTED: reference_softmax(scores, ~mask),
        UNMASKED: scores.double().softmax(-1),
        ZERO: reference_softmax(scores, mask, hidden=0.0),
        NEAR: reference_softmax(scores, mask, hidden=-1e4),
        "The weights of a query do not add up to 1.": scores.double().exp() * mask,
    }  # fmt: skip
    says, size = fault_of(weights, mask, tolerance), float(scores.abs().max())
    if size > 100:
        says += f" Scores go up to ±{size:.0f} here."
    compare(weights.double(), right, mistakes, says, tolerance)
    same_dtype(weights, scores)
    require(
        bool((weights.masked_select(~mask) == 0).all()),
        "The weight of what may not be read is not exactly 0.",
    )


@masked_softmax.check
def _(student: Student, draw: Draw) -> None:
    """Its weights for three queries and five keys."""
    masked_softmax_on(student, draw.normal(2, 3, 5, std=2), readable(draw, 2, 3, 5))


@masked_softmax.check
def _(student: Student, draw: Draw) -> None:
    """A query that may read nothing."""
    mask = readable(draw, 3, 5)
    mask[1] = False
    masked_softmax_on(student, draw.normal(3, 5), mask)


@masked_softmax.check
def _(student: Student, draw: Draw) -> None:
    """Scores of ±10,000, the largest among those that may not be read.

    At this size float32 has three digits left behind the point.
    """
    masked_softmax_on(student, 1e4 * draw.normal(3, 5).sign(), readable(draw, 3, 5), tolerance=2e-3)
    scores, mask = draw.normal(3, 5) - 1e4, readable(draw, 3, 5)
    scores[0] += 2e4
    scores[:, -1] = 1e4
    masked_softmax_on(student, scores, mask, tolerance=2e-3)


# --- attention --------------------------------------------------------------------------------

attention = Question(
    "03.attention",
    "attention",
    title="Scaled dot-product attention",
    points=3,
    minutes=12,
    difficulty=2,
    section=f"{CHAPTER}#three-vectors-look-for-offer-hand-over",
    forbid=READY_MADE,
)


def reference_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor,
    *,
    divide: float | None = None,
    **options: Any,
) -> Tensor:
    """Attend in float64; `divide` replaces √d_k, and the options go to the softmax."""
    scores = q.double() @ k.double().mT / (divide or math.sqrt(q.shape[-1]))
    return reference_softmax(scores, mask, **options) @ v.double()


def attention_on(
    student: Student, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, tolerance: float = 1e-4
) -> None:
    """Compare attention with the right one and with known mistakes."""
    y = tensor(student(q, k, v, mask), (*q.shape[:-1], v.shape[-1]))
    some = mask.any(-1, keepdim=True)
    finite = torch.isfinite(y)
    if not finite.all():
        where = " for a query that may read nothing" if (finite | ~some).all() else ""
        inverted = reference_attention(q, k, v, ~mask)
        raise Wrong(f"The result is NaN or infinite{where}." if where else not_finite(y, inverted))
    attend, root = functools.partial(reference_attention, q, k, v), math.sqrt(q.shape[-1])
    right, everything = attend(mask), torch.ones_like(mask)
    mistakes = {
        UNDIVIDED: attend(mask, divide=1),
        TOO_SMALL: attend(mask, divide=q.shape[-1]),
        "The scores look divided by the root of the number of keys. d_k is the width of a query.":
        attend(mask, divide=math.sqrt(k.shape[-2])),
        "The scores look divided by the root of the values' width. d_k is that of a query.":
        attend(mask, divide=math.sqrt(v.shape[-1])),
        "The division looks applied after the softmax. It belongs to the scores.":
        attend(mask, divide=1) / root,
        LATE: attend(mask, late=True),
        AXIS: attend(mask, axis=-2),
        INVERTED: attend(~mask),
        UNMASKED: attend(everything),
        ZERO: attend(mask, hidden=0.0),
        NEAR: attend(mask, hidden=-1e4),
        "The mask that is given looks ignored, and a causal one used.": attend(everything.tril()),
        "A query that may read nothing has to get zeros.": torch.where(
            some, right, v.double().mean(-2, keepdim=True)
        ),
    }  # fmt: skip
    says = ""
    if not close(y.double(), right, tolerance):  # with one value for each key, the weights come out
        eye = torch.eye(k.shape[-2], dtype=v.dtype).expand(*k.shape[:-1], k.shape[-2])
        weights = tensor(student(q, k, eye, mask), (*q.shape[:-1], k.shape[-2]))
        says = "The weights are right, but not what they make of the values."
        if not close(weights.double(), reference_attention(q, k, eye, mask), tolerance):
            says = fault_of(weights, mask, max(tolerance, 1e-3))
    compare(y.double(), right, mistakes, says, tolerance)
    same_dtype(y, q)


@attention.check
def _(student: Student, draw: Draw) -> None:
    """Four queries, six keys, values of another width."""
    q, k, v = draw.normal(2, 4, 8, std=2), draw.normal(2, 6, 8), draw.normal(2, 6, 3)
    attention_on(student, q, k, v, readable(draw, 2, 4, 6))


@attention.check
def _(student: Student, draw: Draw) -> None:
    """A query that may read nothing."""
    mask = readable(draw, 4, 5)
    mask[2] = False
    attention_on(student, *(draw.normal(4, 2), draw.normal(5, 2), draw.normal(5, 3)), mask)


def products_beyond_half(
    student: Student, draw: Draw, heads: Sequence[int], shared: Sequence[int]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Attend in float16, with scores of ±20,000 and products q · k of ±160,000; return the inputs.

    `heads` are the axes of the queries before [L d_k], `shared` those of keys and values.
    """
    q = torch.full((*heads, 3, 64), 50.0, dtype=torch.float16)
    k = 50 * draw.normal(*shared, 5, 1).sign().expand(*shared, 5, 64).to(q.dtype)
    v, mask = draw.normal(*shared, 5, 64, dtype=q.dtype), readable(draw, 3, 5)
    y, wide = (
        tensor(student(*(t.to(dtype) for t in (q, k, v)), mask), q.shape)
        for dtype in (torch.float16, torch.float32)
    )
    require(bool(torch.isfinite(wide).all()), NOT_FINITE)
    require(
        bool(torch.isfinite(y).all()),
        "In float16 the result is NaN or infinite where q · k leaves its range, which ends at "
        "65,504. The scores, divided by √d_k, do not. What can be divided first?",
    )
    return q, k, v, mask


@attention.check
def _(student: Student, draw: Draw) -> None:
    """Products that half precision cannot hold, though it holds the scores."""
    attention_on(student, *products_beyond_half(student, draw, (), ()), tolerance=1e-2)
