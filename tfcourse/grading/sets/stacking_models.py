"""The exercises of chapter 04 on whole models."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tfcourse.architectures import DecoderLM
from tfcourse.config import ModelConfig
from tfcourse.grading.questions import (
    Draw,
    Question,
    Student,
    as_module,
    close,
    compare,
    require,
    tensor,
)
from tfcourse.grading.sets.stacking_weights import drawn_decoder
from tfcourse.grading.wire import Kept, Tool

CHAPTER = "04_stacking.html"

trace = Question(
    "04.trace",
    "trace",
    title="A whole stack, part by part",
    points=3,
    minutes=15,
    difficulty=3,
    section=f"{CHAPTER}#the-whole-stack",
    forbid=("DecoderLM", "Stack"),
)


def run_parts(
    model: DecoderLM, tokens: Tensor, omit: Collection[str] = ()
) -> tuple[list[Tensor], Tensor]:
    """Run a decoder part by part; `omit` names what is left out."""
    stack, places = model.stack, torch.arange(tokens.shape[1])[None]
    if "first position" in omit:
        places = (places + 1).clamp(max=model.config.max_len - 1)
    x = stack.embedding.weight[tokens] if "scale" in omit else stack.embedding(tokens)
    if "positions" not in omit:
        x = stack.positions(x, places)
    if "second scale" in omit:
        x = x + (math.sqrt(model.config.d_model) - 1) * stack.embedding(tokens)
    turn = None if "rotation" in omit else stack.positions.rotation(places)
    streams = [x]
    for block in stack.blocks:
        part: Any = stack.blocks[0] if "other blocks" in omit else block
        x = (part.attention if "feed-forward" in omit else part)(x, rotate=turn)
        streams.append(x)
        turn = None if "later rotations" in omit else turn
    z = (x if "final norm" in omit else stack.final_norm(x)) @ model.head.weight.T
    if model.head.bias is not None and "bias" not in omit:
        z = z + model.head.bias
    return streams, z


def check_trace(student: Student, draw: Draw, n_rows: int, length: int, **fields: Any) -> None:
    """Compare each state of the stream, then the logits, with the model's own."""
    sizes = dict(vocab_size=11, d_model=8, n_layers=2, n_heads=2, max_len=9)
    model, tool = drawn_decoder(draw, **sizes | fields)
    tokens = draw.integers(0, 11, n_rows, length)
    value = student(Tool("decoder_parts", tool), tokens)
    two = isinstance(value, list | tuple) and len(value) == 2 and isinstance(value[0], list)
    require(two, "The result has to be a pair: the list of streams, and the logits.")
    streams, z = value
    right, _ = run_parts(model, tokens)
    n, d = len(right) - 1, model.config.d_model
    require(
        len(streams) == n + 1,
        f"There are {len(streams)} streams. With N = {n} blocks there are {n + 1}: one before the "
        "first block and one after each.",
    )
    without = {
        part: run_parts(model, tokens, [part])
        for part in (
            *("scale", "second scale", "positions", "first position", "rotation"),
            "later rotations",
            *("other blocks", "feed-forward", "final norm", "bias"),
        )
    }
    for i, stream in enumerate(streams):
        tensor(stream, (n_rows, length, d), f"Stream {i}")
    require(
        n == 0 or not all(close(stream, right[-1]) for stream in streams),
        "All streams are what the last one should be. Is it one tensor, written into again and "
        "again? Each stream needs a tensor of its own.",
    )
    for i, stream in enumerate(streams):
        of_start = {
            "The positions look left out.": without["positions"][0][i],
            "The embedding looks read without its factor √d. The part "
            "`embedding` knows it.": without["scale"][0][i],
            "The words look multiplied by √d once too often. The part `embedding` does it where "
            "it is due.": without["second scale"][0][i],
            "The positions look counted from 1.": without["first position"][0][i],
        }
        of_block = {
            "Only the attention of each block seems to run.": without["feed-forward"][0][i],
            "Queries and keys look not rotated. With RoPE each block needs `rotate`.": without[
                "rotation"
            ][0][i],
            "Only the first block seems to get `rotate`. Each needs it.": without[
                "later rotations"
            ][0][i],
            "The stream looks added to a block's result, in which it is already.": right[i - 1]
            + right[i],
            "The first block seems to run again in place of the others.": without["other blocks"][
                0
            ][i],
            "It looks normalized already. The stream is kept as it is; the final norm comes "
            "after it.": model.stack.final_norm(right[i]),
        }
        if i:
            says = f"Stream {i - 1} is right, stream {i} is not. Look at what is between the two."
            compare(stream, right[i], of_start | of_block, says)
        else:
            says = "Stream 0 is not what the first block reads. Which parts come before it?"
            compare(stream, right[i], of_start, says)
    tensor(z, (n_rows, length, model.config.vocab_size), "The logits")
    mistakes = {
        "The final norm looks left out.": without["final norm"][1],
        "The head's bias looks left out.": without["bias"][1],
        "The head looks like the embedding table. Is the model tied?": F.linear(
            model.stack.final_norm(right[-1]), model.stack.embedding.weight, model.head.bias
        ),
        "The final norm looks like one of your own: where are γ and β?": model.head(
            F.layer_norm(right[-1], (d,))
        ),
        "The final norm looks applied twice.": model.head(
            model.stack.final_norm(model.stack.final_norm(right[-1]))
        ),
    }
    compare(z, model(tokens), mistakes, "The streams are right, but the logits are not.")


@trace.check
def _(student: Student, draw: Draw) -> None:
    """Learned places, √d, a tied head with a bias."""
    check_trace(student, draw, 2, 6, embedding_scale=True, head_bias=True)


@trace.check
def _(student: Student, draw: Draw) -> None:
    """RoPE, three blocks, a head of its own."""
    check_trace(student, draw, 3, 5, position="rope", tie_embeddings=False, n_layers=3)


tiny_decoder = Question(
    "04.tiny_decoder",
    "TinyDecoder",
    title="A whole decoder",
    points=5,
    minutes=25,
    difficulty=3,
    section=f"{CHAPTER}#the-whole-stack",
    forbid=("DecoderLM", "Stack"),
)


class Tiny:
    """A student's decoder with what the checks ask of it again and again."""

    def __init__(self, student: Student, V: int, d: int, N: int, H: int, places: int) -> None:
        self.student, self.V, self.d, self.N, self.places = student, V, d, N, places
        self.kept: Kept = as_module(student(V, d, N, H, places))
        self.state = student.state(self.kept)
        self.config = ModelConfig(vocab_size=V, d_model=d, n_layers=N, n_heads=H, max_len=places)

    def logits(self, tokens: Tensor) -> Tensor:
        z = self.student.call(self.kept, tokens)
        return tensor(z, (*tokens.shape, self.V), "The logits")

    def gradients(self, tokens: Tensor, draw: Draw) -> dict[str, Tensor | None]:
        weights = draw.normal(*tokens.shape, self.V)
        run = self.student.run(self.kept, tokens, backward=weights)
        tensor(run.value, weights.shape, "The logits")
        return run.gradients

    def shaped(self, n: int) -> list[str]:
        """Name the tables of n rows of d numbers."""
        return [k for k, t in self.state.items() if t.ndim >= 2 and t.shape[-2:] == (n, self.d)]

    def fill(self, draw: Draw, matrices: float) -> tuple[Tensor, Tensor]:
        """Write new tables, and matrices of this standard deviation into the blocks.

        Several matrices may stand in one parameter, and so may several norms: what is 1 stays.
        """
        words, places = self.shaped(self.V), self.shaped(self.places)
        require(bool(words), f"It has no table of words, [V d] = [{self.V} {self.d}].")
        require(bool(places), f"It has no table of places, [{self.places} {self.d}].")
        E, P = draw.normal(self.V, self.d), draw.normal(self.places, self.d)
        tables = dict.fromkeys(words, E) | {k: P.expand_as(self.state[k]) for k in places}
        learned = self.gradients(torch.zeros(1, 1, dtype=torch.int64), draw)
        self.student.load(
            self.kept,
            {
                k: tables[k]
                if k in tables
                else draw.normal(*t.shape, std=matrices)
                if k in learned and t.ndim >= 2 and not bool((t == 1).all())
                else t
                for k, t in self.state.items()
            },
        )
        return E, P


def check_count(tiny: Tiny, draw: Draw) -> None:
    """Compare the number of parameters with the package's model, and see that all take part."""
    V, d, N = tiny.V, tiny.d, tiny.N
    gradients = tiny.gradients(draw.integers(0, V, 2, tiny.places), draw)
    got = sum(tiny.state[k].numel() for k in gradients)
    with torch.device("meta"):
        right = DecoderLM(tiny.config).n_params()
    block = 12 * d * d + 4 * d
    mistakes = {
        "the head has a matrix of its own. Tie it": V * d,
        "the final norm seems to be missing": -2 * d,
        "the blocks seem to be missing. A Python list hides them": -N * block,
        "it looks like one block, used again. Each block needs weights of its own": (1 - N) * block,
        "the places seem not to be learned": -tiny.places * d,
        "the head has a bias": V,
        "the linear layers in the blocks have biases": 9 * d * N,
        "the MLPs have biases": 5 * d * N,
        "the layers of attention have biases": 4 * d * N,
    }
    for says, difference in mistakes.items():
        require(
            not difference or got - right != difference,
            f"It has {got:,} parameters that learn in place of {right:,}: {says}.",
        )
    require(got == right, f"It has {got:,} parameters that learn; it should have {right:,}.")
    for k, gradient in gradients.items():
        require(gradient is not None, f"{k} takes no part in the logits.")


def check_first_loss(tiny: Tiny, draw: Draw) -> None:
    """Compare the first loss with ln V."""
    tokens, targets = (draw.integers(0, tiny.V, 16, tiny.places) for _ in range(2))
    z = tiny.logits(tokens)
    loss, even = float(F.cross_entropy(z.flatten(0, 1), targets.flatten())), math.log(tiny.V)
    own = z.gather(-1, tokens[..., None]).mean()
    require(
        loss < even + 0.3,
        f"The first loss is {loss:.2f}, and ln V is {even:.2f} (d = {tiny.d}). The word just read "
        f"scores {own:.1f} on average, and all logits spread by ±{z.std():.1f}. How large are the "
        "rows that the head multiplies by?",
    )
    require(float(z.std()) > 1e-4, "All words have the same logit. Draw the table at random.")


def check_causal(tiny: Tiny, draw: Draw) -> None:
    """Change a later word, then the order of all words but the last."""
    L = min(6, tiny.places)
    tiny.fill(draw, 0.3)
    tokens = torch.arange(L)[None] % tiny.V
    later = tokens.clone()
    later[0, -1] = tiny.V - 1
    z, changed = tiny.logits(tokens), tiny.logits(later)
    require(
        close(changed[:, :-1], z[:, :-1]),
        "A later word changes the logits of earlier positions: they see what they have to predict.",
    )
    turned = torch.cat([tokens[:, :-1].flip(1), tokens[:, -1:]], dim=1)
    require(
        not close(tiny.logits(turned)[:, -1], z[:, -1]),
        "The last position reads the same when the words before it come in another order. Who "
        "tells it the order, and does it read other positions at all?",
    )


def check_ends(tiny: Tiny, draw: Draw, length: int) -> None:
    """Write 0 into all matrices of the blocks: what is left is norm(E[w] + P) Eᵀ."""
    E, P = tiny.fill(draw, 0.0)
    tokens = draw.integers(0, tiny.V, 2, length)
    z = tiny.logits(tokens)
    x, norm = E[tokens] + P[:length], (tiny.d,)
    right = F.layer_norm(x, norm) @ E.T
    other_sums = {
        "the places look left out.": E[tokens],
        "√d looks applied. It was not asked for here.": x + (math.sqrt(tiny.d) - 1) * E[tokens],
        "the places look read at the words' ids.": E[tokens] + P[tokens % len(P)],
        "the last rows of the table of places look used.": E[tokens] + P[-length:],
        "the places seem to follow the rows of the batch. They belong to positions.": E[tokens]
        + P[: len(tokens), None],
        "the last place seems to come first.": E[tokens] + P[:length].flip(0),
    }
    mistakes = {says: F.layer_norm(other, norm) @ E.T for says, other in other_sums.items()}
    mistakes |= {
        "the head seems to read the stream without the norm.": x @ E.T,
        "the logits have gone through a softmax, it seems.": right.softmax(dim=-1),
    }
    silent = "With 0 in all matrices of the blocks, "
    mistakes = {silent + says: other for says, other in mistakes.items()}
    if not close(z, right):
        quiet = tensor(tiny.student.run(tiny.kept, tokens, training=False).value, z.shape)
        tiny.student.run(tiny.kept, tokens, training=True)
        says = "the logits are right in evaluation mode only. Is there dropout? Nobody asked for it"
        require(not close(quiet, right), f"{silent}{says}.")
    compare(z, right, mistakes, silent + "the logits should be norm(E[w] + P[i]) Eᵀ.")
    norms = [
        k
        for k, g in tiny.gradients(tokens, draw).items()
        if g is not None and tiny.state[k].ndim == 1 and float(g.abs().max()) > 1e-6
    ]
    require(
        len(norms) <= 2,
        silent + "the final norm alone should act, and others do: that looks like post-norm.",
    )


@tiny_decoder.check
def _(student: Student, draw: Draw) -> None:
    """The number of parameters."""
    check_count(Tiny(student, 23, 8, 3, 2, 10), draw)


@tiny_decoder.check
def _(student: Student, draw: Draw) -> None:
    """The first loss."""
    check_first_loss(Tiny(student, 40, 128, 1, 4, 12), draw)


@tiny_decoder.check
def _(student: Student, draw: Draw) -> None:
    """That no position reads a later one, and that order matters."""
    check_causal(Tiny(student, 23, 16, 2, 2, 10), draw)


@tiny_decoder.check
def _(student: Student, draw: Draw) -> None:
    """Both ends: embedding and places, final norm and head."""
    check_ends(Tiny(student, 23, 15, 2, 3, 10), draw, 7)
