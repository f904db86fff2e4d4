"""The exercises of chapter 03 on several heads; `blocks.py` lists all of the chapter."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import torch
from einops import rearrange
from torch import Tensor

from tfcourse import attention as oracle
from tfcourse.grading import tools
from tfcourse.grading.questions import (
    Draw,
    Question,
    Student,
    Wrong,
    as_module,
    close,
    compare,
    require,
    tensor,
)
from tfcourse.grading.sets.attention import (
    AXIS,
    CHAPTER,
    INVERTED,
    LATE,
    NEAR,
    READY_MADE,
    TOO_SMALL,
    UNDIVIDED,
    UNMASKED,
    ZERO,
    not_finite,
    reference_attention,
    same_dtype,
)
from tfcourse.grading.wire import Kept, Tool

per_head = Question(
    "03.per_head",
    "per_head",
    title="Heads apart, and side by side again",
    points=2,
    minutes=10,
    difficulty=2,
    section=f"{CHAPTER}#several-heads",
)
SPLIT, MERGE = "b l (h k) -> b h l k", "b h l k -> b l (h k)"


def per_head_on(student: Student, x: Tensor, table: Tensor) -> None:
    """Let each head mix its positions by its own table [H L L]; compare with known mistakes."""
    B, L, d = x.shape
    H = table.shape[0]
    y = tensor(student(x, H, Tool("mix_heads", (table,))), x.shape)
    heads, bare = rearrange(x, SPLIT, h=H), x.reshape(B, H, L, d // H)
    right = table @ heads
    mistakes = {
        "The split looks like a reshape to [B H L d_k] at once. That cuts across the positions: "
        "compare what lies next to each other in memory.": rearrange(table @ bare, MERGE),
        "The merge looks like a reshape of [B H L d_k] at once. That cuts across the heads: which "
        "axes have to be neighbours?": right.reshape(B, L, d),
        "Split and merge both look like a reshape at once, which cuts across the positions.": (
            table @ bare
        ).reshape(B, L, d),
        "The features look dealt out to the heads in turn. Head 1 has the first d_k of them.":
        rearrange(table @ rearrange(x, "b l (k h) -> b h l k", h=H), "b h l k -> b l (k h)"),
        "After f the features look dealt out in turn. Each head's d_k stay together.": rearrange(
            right, "b h l k -> b l (k h)"
        ),
        "f looks left out. It works on the heads between the split and the merge.": x,
    }  # fmt: skip
    fits = close(student(x, H, Tool("scale", (1.0,))), x)
    compare(
        y,
        rearrange(right, MERGE),
        mistakes,
        says="Split and merge fit together, but f does not get each head's own features at every "
        "position, or is not called once."
        if fits
        else "With an f that changes nothing, x does not come back: split and merge do not fit.",
    )


@per_head.check
def _(student: Student, draw: Draw) -> None:
    """Each head mixes its positions in its own way."""
    per_head_on(student, draw.normal(2, 4, 6), draw.normal(3, 4, 4))


@per_head.check
def _(student: Student, draw: Draw) -> None:
    """As many heads as positions, where a wrong order of the axes shows in the numbers alone."""
    per_head_on(student, draw.normal(1, 3, 12), draw.normal(3, 3, 3))


grouped_attention = Question(
    "03.grouped_attention",
    "grouped_attention",
    title="Query heads that share keys and values",
    points=3,
    minutes=12,
    difficulty=2,
    section=f"{CHAPTER}#several-heads",
    forbid=READY_MADE,
)


def grouped_attention_on(
    student: Student, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, tolerance: float = 1e-4
) -> None:
    """Compare grouped attention with the right one and with known mistakes."""
    try:
        y = tensor(student(q, k, v, mask), q.shape)
    except Wrong as wrong:
        student(q, k, v, mask.expand(q.shape[0], 1, q.shape[2], k.shape[2]))
        says = f"It fails where the mask is {list(mask.shape)}, which broadcasts to [B 1 L M]."
        raise Wrong(f"{says} {wrong}") from None
    groups = q.shape[1] // k.shape[1]
    if not torch.isfinite(y).all():
        of_k, of_v = (t.repeat_interleave(groups, dim=1) for t in (k, v))
        raise Wrong(not_finite(y, reference_attention(q, of_k, of_v, ~mask)))
    same_dtype(y, q)
    (near_k, tiled_k, along_k), (near_v, tiled_v, along_v) = (
        (
            t.repeat_interleave(groups, dim=1),
            t.repeat(1, groups, 1, 1),
            t.repeat_interleave(groups, dim=2).reshape(t.shape[0], q.shape[1], *t.shape[2:]),
        )
        for t in (k, v)
    )
    attend = functools.partial(reference_attention, q)
    right = functools.partial(attend, near_k, near_v)
    mean_k, mean_v = k.mean(1, keepdim=True), v.mean(1, keepdim=True)
    mistakes = {
        "The key and value heads look tiled, so that query heads share in turn. Neighbouring query "
        "heads share one.": attend(tiled_k, tiled_v, mask),
        "The keys are shared by neighbours, but the values look tiled.": attend(
            near_k, tiled_v, mask
        ),
        "The values are shared by neighbours, but the keys look tiled.": attend(
            tiled_k, near_v, mask
        ),
        "One head of keys and values looks used for all query heads, the first.": attend(
            k[:, :1], v[:, :1], mask
        ),
        "The key and value heads look averaged. A query head reads one of them.": attend(
            mean_k, mean_v, mask
        ),
        "The positions look repeated, not the heads.": attend(along_k, along_v, mask),
        UNDIVIDED: right(mask, divide=1),
        TOO_SMALL: right(mask, divide=q.shape[-1]),
        LATE: right(mask, late=True),
        AXIS: right(mask, axis=-2),
        INVERTED: right(~mask),
        UNMASKED: right(torch.ones_like(mask)),
        ZERO: right(mask, hidden=0.0),
        NEAR: right(mask, hidden=-1e4),
        "The scores look divided by the root of d_k times the group's size. d_k alone counts.": (
            right(mask, divide=math.sqrt(q.shape[-1] * groups))
        ),
    }
    says = ""
    if not close(y.double(), right(mask), tolerance):
        # Values of 1 add up the weights; those that hold the number of their head say which one
        # each query head reads.
        ones = torch.ones_like(v)
        numbers = ones * torch.arange(float(k.shape[1])).to(v.dtype)[:, None, None]
        total, read = (
            tensor(student(q, k, values, mask), q.shape)[0, :, 0, 0] for values in (ones, numbers)
        )
        which = " ".join(f"{n:.3g}" for n in read.tolist())
        says = f"Counted from 0, the query heads read these heads of values: {which}."
        if not close(total, torch.ones_like(total), 1e-2):
            says = "The weights of a query do not add up to 1."
        elif close(read, torch.arange(len(read)) // groups, 1e-2):
            says = (
                "The values are shared as they should be; the weights are not the right ones. "
                "Which keys meet a query, what divides the scores, and can a large score get past "
                "the mask?"
            )
    compare(y.double(), right(mask), mistakes, says, tolerance)


@grouped_attention.check
def _(student: Student, draw: Draw) -> None:
    """Six query heads, two heads of keys and values."""
    q, k, v = draw.normal(2, 6, 3, 4, std=2), draw.normal(2, 2, 5, 4), draw.normal(2, 2, 5, 4)
    grouped_attention_on(student, q, k, v, oracle.causal_mask(3, 5))


@grouped_attention.check
def _(student: Student, draw: Draw) -> None:
    """One head of keys and values for all."""
    q, k, v = draw.normal(2, 3, 4, 5, std=2), draw.normal(2, 1, 4, 5), draw.normal(2, 1, 4, 5)
    grouped_attention_on(student, q, k, v, oracle.causal_mask(4, 4))


# --- the layer --------------------------------------------------------------------------------

causal_attention = Question(
    "03.causal_attention",
    "CausalAttention",
    title="Multi-head causal attention",
    points=4,
    minutes=20,
    difficulty=3,
    section=f"{CHAPTER}#the-model-does-the-same",
    forbid=READY_MADE,
)


AROUND = "The mask looks turned round: a position reads what comes later, and nothing else."


def make_filled(student: Student, state: dict[str, Tensor], *args: Any) -> Kept:
    """Make the student's module and load weights into it, or say which of them it has not."""
    module = as_module(student(*args))
    own = student.state(module)
    for name, weight in state.items():
        require(
            name in own,
            f"It has no parameter {name}. Keep the attributes' names that the question gives.",
        )
        tensor(own[name], weight.shape, name)
    extra = [name for name in own if name not in state]
    require(not extra, f"It has {', '.join(extra)}, which the question does not ask for.")
    student.load(module, state)
    return module


def fault_in_training(student: Student, module: Kept, x: Tensor, y: Tensor) -> str:
    """Say whether the result is another one in evaluation than in training, where dropout acts."""
    if close(student.run(module, x, training=False).value, y):
        return ""
    return "The result changes when training ends. The question asks for no dropout."


def fault_in_reading(student: Student, module: Kept, x: Tensor) -> str:
    """Say whether the last word changes an earlier result, or the first one no later result."""
    y, L = student.call(module, x), x.shape[1]
    for place, rest, says in (
        (L - 1, slice(0, L - 1), "A later word changes an earlier result."),
        (0, slice(1, L), "The first word changes no later result: which axes does it mix?"),
    ):
        changed = x.clone()
        changed[:, place] += x.abs().max()
        same = close(student.call(module, changed)[:, rest], y[:, rest], 1e-6)
        if L > 1 and same != (place > 0):
            return says
    return ""


def layer_state(draw: Draw, d: int) -> dict[str, Tensor]:
    """Draw the two matrices of an attention layer, large enough that weights differ."""
    return {
        "qkv.weight": draw.normal(3 * d, d, std=1.5 * d**-0.5),
        "out.weight": draw.normal(d, d, std=d**-0.5),
    }


def layer_by_hand(
    x: Tensor,
    state: dict[str, Tensor],
    H: int,
    mask: Tensor,
    layout: str = "(three h k)",
    merge: str = MERGE,
    **options: Any,
) -> Tensor:
    """Compute the layer step by step; the options are what known mistakes do."""
    heads = rearrange(x @ state["qkv.weight"].T, f"b l {layout} -> three b h l k", three=3, h=H)
    mixed = reference_attention(heads[0], heads[1], heads[2], mask, **options).float()
    merged = rearrange(mixed, merge) if merge else mixed.reshape(x.shape)
    return merged @ state["out.weight"].T


def causal_attention_on(
    student: Student, draw: Draw, d: int, H: int, x: Tensor, tolerance: float = 1e-4
) -> None:
    """Compare the layer with the package's, and with known mistakes."""
    state = layer_state(draw, d)
    module = make_filled(student, state, d, H)
    y = tensor(student.call(module, x), x.shape)
    B, L, _ = x.shape
    by_hand = functools.partial(layer_by_hand, x, state, H)
    mask = oracle.causal_mask(L, L)
    if not torch.isfinite(y).all():
        alone = torch.isfinite(y[:, 1:]).all() and L > 1
        raise Wrong(
            "The first position's result is NaN or infinite: may it read itself?"
            if alone
            else not_finite(y, by_hand(~mask), AROUND)
        )
    layer = tools.attention_layer(state["qkv.weight"], state["out.weight"], H)
    right = layer(x).detach()
    # What cuts across positions: [B L d] reshaped to [B H L d_k] at once, for each of the three.
    q, k, v = (t.reshape(B, H, L, d // H) for t in (x @ state["qkv.weight"].T).split(d, dim=-1))
    bare = reference_attention(q, k, v, mask).float()
    asked, rows = ("queries", "keys", "values"), state["qkv.weight"].chunk(3)
    orders = {
        f"The rows of qkv look taken as {', '.join(order)}. All queries come first, then all keys, "
        "then all values.": layer_by_hand(
            x,
            {**state, "qkv.weight": torch.cat([rows[order.index(name)] for name in asked])},
            H,
            mask,
        )
        for order in itertools.permutations(asked)
        if order != asked
    }
    mistakes = {
        UNDIVIDED: by_hand(mask, divide=1),
        TOO_SMALL: by_hand(mask, divide=d // H),
        "The scores look divided by √d, not by √d_k. How wide is one head?": by_hand(
            mask, divide=math.sqrt(d)
        ),
        "The scores look divided by the root of the length. How wide is one head?": by_hand(
            mask, divide=math.sqrt(L)
        ),
        LATE: by_hand(mask, late=True),
        ZERO: by_hand(mask, hidden=0.0),
        NEAR: by_hand(mask, hidden=-1e4),
        "The softmax looks taken over the heads. The weights of one query add up to 1.": by_hand(
            mask, axis=1
        ),
        "A position looks able to read itself and what comes later.": by_hand(mask.T),
        **orders,
        AXIS: by_hand(mask, axis=-2),
        "A position looks able to read all later ones.": by_hand(
            torch.ones_like(mask)
        ),
        "A position looks able to read the next one: the mask is off by one.": by_hand(
            torch.ones_like(mask).tril(1)
        ),
        "A position looks unable to read itself: the mask is off by one.": by_hand(
            mask.tril(-1)
        ),
        "The heads look like a reshape to [B H L d_k] at once, which cuts across the positions.": (
            rearrange(bare, MERGE) @ state["out.weight"].T
        ),
        "Split and merge both look like a reshape at once, which cuts across the positions.": (
            bare.reshape(x.shape) @ state["out.weight"].T
        ),
        "The merge looks like a reshape of [B H L d_k] at once, which cuts across the heads.":
        by_hand(mask, merge=""),
        "The features look dealt out in turn when the heads are joined. Each head's d_k stay "
        "together.": by_hand(mask, merge="b h l k -> b l (k h)"),
        "The rows of qkv look shared out by heads first. All queries come first, then all keys, "
        "then all values.": by_hand(mask, layout="(h three k)"),
        "The features look dealt out to the heads in turn. Head 1 has the first d_k of them.":
        by_hand(mask, layout="(three k h)", merge="b h l k -> b l (k h)"),
        "The output projection looks left out. It comes after the heads are merged.": layer_by_hand(
            x, {**state, "out.weight": torch.eye(d)}, H, mask
        ),
        "It looks like one head of width d. Each head has its own weights.": layer_by_hand(
            x, state, 1, mask
        ),
        "It looks like one head of width d, with scores divided by √d_k. Each head has its own "
        "weights.": layer_by_hand(x, state, 1, mask, divide=math.sqrt(d // H)),
        "It looks as if x itself was added. The block does that.": right + x,
    }  # fmt: skip
    says = ""
    if not close(y, right, tolerance):
        says = fault_in_training(student, module, x, y) or fault_in_reading(student, module, x)
    compare(y, right, mistakes, says or "The numbers are not the right ones.", tolerance)


@causal_attention.check
def _(student: Student, draw: Draw) -> None:
    """Its result with known weights, four heads."""
    causal_attention_on(student, draw, 12, 4, draw.normal(2, 5, 12))


@causal_attention.check
def _(student: Student, draw: Draw) -> None:
    """A later word must not change an earlier result."""
    module = make_filled(student, layer_state(draw, 6), 6, 2)
    says = fault_in_reading(student, module, draw.normal(1, 4, 6))
    require(not says, says)
