"""The exercises of chapter 06: what is public of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tfcourse.architectures import EncoderDecoder
from tfcourse.attention import causal_mask
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
from tfcourse.grading.sets.architectures_attention import (
    CHAPTER,
    cached_attention,
    cross_attention,
    padded,
)
from tfcourse.grading.sets.architectures_images import image_embedding, resize_positions
from tfcourse.grading.sets.architectures_writing import greedy_decode
from tfcourse.losses import IGNORE

mean_pool = Question(
    "06.mean_pool",
    "mean_pool",
    title="One vector for a text: the mean of its tokens",
    points=1,
    minutes=5,
    difficulty=1,
    section=f"{CHAPTER}#the-whole-input-at-once-digits",
)


def check_mean_pool(student: Student, x: Tensor, real: Tensor) -> None:
    """Compare with the mean of each row, taken row by row."""
    y = tensor(student(x, real), (len(x), x.shape[2]))
    right = torch.stack([row[r].mean(dim=0) for row, r in zip(x, real, strict=True)])
    total, n = x.masked_fill(~real.unsqueeze(2), 0.0).sum(dim=1), real.sum(dim=1, keepdim=True)
    mistakes = {
        "The PADs look averaged along with the tokens.": x.mean(dim=1),
        "It looks divided by the length of the filled row, PADs counted.": total / x.shape[1],
        "It looks divided by the number of real tokens of the whole batch.": total / n.sum(),
        "All rows look divided by the same number. Each has a number of real tokens of its own.": (
            total / n.float().mean()
        ),
        "It looks like a sum that nothing divides.": total,
        "The first positions look taken, so many as are real. PADs may stand anywhere.": (
            x.masked_fill((torch.arange(x.shape[1]) >= n).unsqueeze(2), 0.0).sum(dim=1) / n
        ),
        "It looks as if the PADs alone were averaged. True marks a real token.": (
            (x.sum(dim=1) - total) / (x.shape[1] - n).clamp(min=1)
        ),
        "The rows look mixed: each has a mean of its own.": x[real].mean(dim=0).expand_as(y),
        "It looks like the first position alone: that is the other way of pooling.": x[:, 0],
        "It looks like the maximum of each feature.": (
            x.masked_fill(~real.unsqueeze(2), -torch.inf).amax(dim=1)
        ),
    }
    says = "The numbers are not the means. Which vectors are added, and by what are they divided?"
    compare(y, right, mistakes, says)


@mean_pool.check
def _(student: Student, draw: Draw) -> None:
    """Three rows, of which two end in PADs."""
    check_mean_pool(student, draw.normal(3, 5, 4), padded(draw, 3, 5))


@mean_pool.check
def _(student: Student, draw: Draw) -> None:
    """A row without a real token."""
    x, real = draw.normal(2, 3, 4), torch.tensor([[True, True, False], [False] * 3])
    y = tensor(student(x, real), (2, 4))
    says = "A row without a real token gives NaN or infinity. What is divided by what?"
    require(bool(torch.isfinite(y).all()), says)
    compare(y[1], torch.zeros(4), says="A row without a real token has to give zeros.")


attention_mask = Question(
    "06.attention_mask",
    "attention_mask",
    title="Which mask for which attention",
    points=2,
    minutes=8,
    difficulty=1,
    section=f"{CHAPTER}#three-masks",
    forbid=("causal_mask",),
)


def check_attention_mask(student: Student, kind: str, n_queries: int, real: Tensor) -> None:
    """Compare with the rule for this kind of attention."""
    name = f"The mask of “{kind}”"
    mask = tensor(student(kind, n_queries, real), (n_queries, len(real)), name)
    require(mask.dtype == torch.bool, f"The mask has dtype {mask.dtype}; it has to be boolean.")
    every = torch.ones_like(mask)
    past = every.tril()
    right = every & real
    if kind == "decoder":
        right = causal_mask(n_queries, n_queries) & real
    mistakes = {
        f"{name} looks inverted: True is to mean that it may be read.": ~right,
        f"{name} looks as if PADs could be read.": past if kind == "decoder" else every,
        f"{name} looks causal. Is anything still to be written where it reads?": past & real,
        f"{name} looks as if later positions could be read.": every & real,
        f"{name} looks upside down: position i reads j ≥ i.": every.triu() & real,
        f"{name} looks as if no position could read itself.": every.tril(-1) & real,
        f"{name} looks as if PADs stood at the end alone. They may stand anywhere.": (
            (past if kind == "decoder" else every) & (torch.arange(len(real)) < real.sum())
        ),
    }
    if n_queries == len(real):
        rows = real.unsqueeze(1)
        mistakes |= {
            f"{name} looks as if PADs could not read. They must not be read: what counts is the "
            "column.": (past if kind == "decoder" else every) & rows,
            f"{name} looks as if rows of PADs were emptied, too. Their softmax would be one over "
            "nothing.": right & rows,
        }
    i, j = next(iter((mask != right).nonzero().tolist()), (0, 0))
    says = f"{name} is wrong first in row {i}, column {j}. May position {i} read position {j}?"
    compare(mask, right, mistakes, says)


@attention_mask.check
def _(student: Student, draw: Draw) -> None:
    """An encoder, with and without PADs."""
    check_attention_mask(student, "encoder", 5, padded(draw, 2, 5)[1])
    check_attention_mask(student, "encoder", 4, torch.ones(4, dtype=torch.bool))


@attention_mask.check
def _(student: Student, draw: Draw) -> None:
    """A decoder, with and without PADs."""
    check_attention_mask(student, "decoder", 4, torch.ones(4, dtype=torch.bool))
    check_attention_mask(student, "decoder", 5, padded(draw, 2, 5)[1])


@attention_mask.check
def _(student: Student, draw: Draw) -> None:
    """Cross-attention, where source and target differ in length."""
    check_attention_mask(student, "cross", 3, padded(draw, 2, 6)[1])


count_parameters = Question(
    "06.count_parameters",
    "count_parameters",
    title="The parameters of the model of 2017",
    points=2,
    minutes=10,
    difficulty=2,
    section=f"{CHAPTER}#the-model-of-2017-counted",
    forbid=("EncoderDecoder", "DecoderLM", "Stack", "Block", "costs"),
)


def check_count_parameters(student: Student, V: int, d: int, d_ff: int, N: int, M: int) -> None:
    """Compare with the count of a model built so, of N encoder and M decoder blocks."""
    sizes: dict[str, Any] = dict(
        vocab_size=V, d_model=d, d_ff=d_ff, n_layers=N, n_decoder_layers=M, n_heads=1
    )
    with torch.device("meta"):
        right = EncoderDecoder(
            ModelConfig(**sizes, norm_position="post", position="sinusoidal")
        ).n_params()
    n = student(V, d, d_ff, N, M)
    require(type(n) is int, f"A count is an int; this is a {type(n).__name__}.")
    norms, attention = 2 * N + 3 * M, N + 2 * M
    mistakes = {
        "Cross-attention looks left out.": right - M * 4 * d * d,
        "Cross-attention looks left out, with its norm.": right - M * (4 * d * d + 2 * d),
        "Half of cross-attention looks left out. All four matrices are a decoder block's own.": (
            right - M * 2 * d * d
        ),
        "512 positions look counted. Sinusoids are computed, not learned.": right + 512 * d,
        "The third norm of a decoder block looks left out.": right - M * 2 * d,
        "The norms look left out.": right - norms * 2 * d,
        "A norm looks as if it had one vector. LayerNorm has two.": right - norms * d,
        "Source, target and head look counted one by one. They share.": right + 2 * V * d,
        "Two embeddings look counted. Source and target share, and so does the head.": right
        + V * d,
        "Biases look counted in all linear layers.": right
        + 4 * attention * d
        + (N + M) * (d_ff + d),
        "Biases look counted in the MLPs.": right + (N + M) * (d_ff + d),
        "The output projection of attention looks left out.": right - attention * d * d,
        "The MLP looks as if it had one matrix.": right - (N + M) * d * d_ff,
        "The MLP looks as if it were 4 d wide.": right + (N + M) * 2 * d * (4 * d - d_ff),
        "Norms after the last blocks look counted. Post-norm has none.": right + 4 * d,
        "Encoder and decoder blocks look exchanged.": right + (N - M) * (4 * d * d + 2 * d),
        "Encoder blocks look counted in place of decoder blocks.": right
        + (N - M) * (8 * d * d + 2 * d * d_ff + 6 * d),
        "The decoder looks left out.": right - M * (8 * d * d + 2 * d * d_ff + 6 * d),
    }
    exact = {says: torch.tensor(number) for says, number in mistakes.items()}
    far = "too many" if n > right else "too few"
    says = (
        f"V = {V:,}, d = {d}, d_ff = {d_ff}, {N} encoder and {M} decoder blocks: you count "
        f"{abs(n - right):,} {far}."
    )
    compare(torch.tensor(n), torch.tensor(right), exact, says, 0.0)


@count_parameters.check
def _(student: Student, draw: Draw) -> None:
    """The base model."""
    check_count_parameters(student, 37_000, 512, 2048, 6, 6)


@count_parameters.check
def _(student: Student, draw: Draw) -> None:
    """A model of other sizes, with an MLP of another width and a smaller decoder."""
    base, other = (37_000, 512, 2048, 6, 6), (50, 16, 24 + draw.integer(0, 8), 5, 2)
    require(
        student(*base) != student(*other), "It gives the same number for models of different sizes."
    )
    check_count_parameters(student, *other)


mask_tokens = Question(
    "06.mask_tokens",
    "mask_tokens",
    title="BERT's recipe: hide tokens and ask for them",
    points=2,
    minutes=10,
    difficulty=2,
    section=f"{CHAPTER}#the-whole-input-at-once-a-gap-in-a-text",
)


def check_mask_tokens(student: Student, *given: Any) -> None:
    """Compare inputs and targets with the recipe; the arguments are those of the question."""
    tokens, real, chance, lot, other, mask_id = given
    inputs, targets = several(student(*given), 2, "two things: inputs, targets")
    tensor(inputs, tokens.shape, "`inputs`")
    tensor(targets, tokens.shape, "`targets`")
    low = chance < 0.15
    every, chosen = torch.ones_like(real), low & real
    first, second, third = lot < 0.8, (lot >= 0.8) & (lot <= 0.9), lot > 0.9

    def read(chosen: Tensor, hidden: Tensor = first, changed: Tensor = third) -> Tensor:
        return tokens.where(~(chosen & hidden), mask_id).where(~(chosen & changed), other)

    right = read(chosen)
    mistakes = {
        "All chosen tokens look hidden. Some are replaced by another one, some stay.": (
            read(chosen, every, ~every)
        ),
        "The tokens from 0.8 to 0.9 look replaced, and those above look kept.": (
            read(chosen, changed=second)
        ),
        "All chosen tokens that get no MASK look replaced. Some stay.": read(
            chosen, changed=second | third
        ),
        "The tokens above 0.9 look kept.": read(chosen, changed=~every),
        "The tokens from 0.8 to 0.9 look hidden, too. They stay.": read(chosen, first | second),
        "A border looks counted on the other side. Is it < or ≤?": read(
            (chance <= 0.15) & real, lot <= 0.8, lot >= 0.9
        ),
        "A token is chosen below 0.15. One at 0.15 looks chosen, too.": read(
            (chance <= 0.15) & real
        ),
        "A token at a border of the lot looks counted on the other side.": read(
            chosen, lot <= 0.8, lot >= 0.9
        ),
        "A token at 0.9 looks replaced. It stays: those above are replaced.": read(
            chosen, changed=lot >= 0.9
        ),
        "It looks as if chance decided what is hidden. That is for the lot to decide.": read(
            real, chance < 0.12, (chance > 0.135) & (chance < 0.15)
        ),
        "PADs look hidden, too.": read(low),
        "Every MASK looks replaced by another token. Does a second step undo the first?": read(
            chosen, ~every, first | third
        ),
        "Tokens that were not chosen look replaced by another one.": tokens.where(
            ~(chosen & first), mask_id
        ).where(~third, other),
        "The lot looks drawn for all tokens. It decides about the chosen ones.": read(every),
        "MASK looks put where nothing was chosen, and the chosen tokens look kept.": (
            read(~chosen, every, ~every)
        ),
    }
    compare(inputs, right, mistakes, "The inputs are not what these chances and lots give.", 0.0)
    ignore = torch.full_like(tokens, IGNORE)
    mistakes = {
        "The targets look as if each token were asked for.": tokens,
        "The targets look as if PADs were asked for, too.": tokens.where(low, ignore),
        "The targets look as if tokens behind a MASK alone were asked for. All chosen ones are.": (
            tokens.where(chosen & first, ignore)
        ),
        "The targets look as if chosen tokens that stay were not asked for.": (
            tokens.where(chosen & ~second, ignore)
        ),
        "The targets look taken from what the model reads. The answer is the token as it was.": (
            right.where(chosen, ignore)
        ),
        "The targets look turned round: the chosen tokens are those asked for.": (
            tokens.where(~chosen, ignore)
        ),
        "The targets look as if they were 0 where nothing is asked. 0 is a token's id.": (
            tokens.where(chosen, 0)
        ),
        "The targets look as if they were MASK where nothing is asked.": tokens.where(
            chosen, mask_id
        ),
    }
    says = f"The targets are not the chosen tokens, with {IGNORE} elsewhere."
    compare(targets, tokens.where(chosen, ignore), mistakes, says, 0.0)


def masking_case(draw: Draw, n_rows: int, length: int, high: float) -> tuple:
    """Draw the arguments of `mask_tokens`; `high` bounds the chances."""
    shape = (n_rows, length)
    real = padded(draw, *shape)
    tokens = draw.integers(3, 40, *shape).where(real, 0)
    chance, lot = draw.uniform(0, high, *shape), draw.uniform(0, 1, *shape)
    return tokens, real, chance, lot, draw.integers(3, 40, *shape), 2


@mask_tokens.check
def _(student: Student, draw: Draw) -> None:
    """Two texts of twelve tokens, all real and all chosen."""
    tokens, _, chance, _, other, mask_id = masking_case(draw, 2, 12, 0.15)
    lot = torch.linspace(0, 0.99, 24).view(2, 12)
    tokens = tokens.where(tokens > 0, 5)
    check_mask_tokens(student, tokens, tokens > 0, chance, lot, other, mask_id)


@mask_tokens.check
def _(student: Student, draw: Draw) -> None:
    """Longer texts, of which about half is chosen, with PADs."""
    check_mask_tokens(student, *masking_case(draw, 8, 40, 0.3))


QUESTIONS = [
    mean_pool,
    attention_mask,
    count_parameters,
    mask_tokens,
    cross_attention,
    image_embedding,
    resize_positions,
    cached_attention,
    greedy_decode,
]
