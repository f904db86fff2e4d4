"""The exercises of chapter 04 on weights: how many, how large, and read by whom."""

from __future__ import annotations

import math
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
    Wrong,
    as_module,
    compare,
    require,
    tensor,
)
from tfcourse.grading.sets.attention import COUNTED
from tfcourse.grading.wire import Kept, Tool

CHAPTER = "04_stacking.html"


def drawn_decoder(draw: Draw, **fields: Any) -> tuple[DecoderLM, tuple[dict, dict]]:
    """Make a decoder of large random weights, and what a tool needs to make the same one."""
    model = DecoderLM(ModelConfig(**fields)).requires_grad_(False)
    for parameter in model.parameters():
        parameter.copy_(draw.normal(*parameter.shape, std=0.5) + (parameter.ndim == 1))
    return model, (fields, dict(model.state_dict()))


count_parameters = Question(
    "04.count_parameters",
    "count_parameters",
    title="Count every parameter",
    points=2,
    minutes=10,
    difficulty=2,
    section=f"{CHAPTER}#count-every-parameter",
    forbid=COUNTED,
)


def compare_count(
    student: Student,
    V: int,
    d: int,
    N: int,
    H: int,
    d_ff: int,
    places: int,
    tied: bool,
    learned: bool,
    bias: bool,
) -> None:
    """Compare with the package's model, built without memory; name what is missing or too much."""
    config = ModelConfig(
        vocab_size=V,
        d_model=d,
        n_layers=N,
        n_heads=H,
        d_ff=d_ff,
        max_len=places,
        tie_embeddings=tied,
        position="learned" if learned else "none",
        bias=bias,
    )
    with torch.device("meta"):
        right = DecoderLM(config).n_params()
    options = (tied, learned, bias)
    defaults = options == (True, True, False)  # what the signature says where nothing is given
    got = student(V, d, N, H, d_ff, places, *(() if defaults else options))
    kind = got.kind if isinstance(got, Kept) else type(got).__name__
    require(type(got) is int, f"The result is a {kind}; a count is an int.")
    in_blocks = 3 * d + d + d_ff + d
    mistakes = {
        "a tied head is the table, which counts once": V * d if tied else 0,
        "a head that is not tied has a matrix of its own": 0 if tied else -V * d,
        "the final norm is left out, it seems": -2 * d,
        "the places count where they are learned, and only there": places * d * (1 - 2 * learned),
        "do linear layers have biases here?": N * in_blocks * (1 - 2 * bias),
        "the head has no bias": V,
        "attention's output has a bias, too": -N * d if bias else 0,
        "the MLP's first bias has d_ff numbers": N * (d - d_ff) if bias else 0,
        "the norms in the blocks look left out": -N * 4 * d,
        "each block is 2d short. Count its norms and its biases": -N * 2 * d,
        "a LayerNorm has γ and β": -(2 * N + 1) * d,
        "the MLP looks counted with d_ff = 4d": N * 2 * d * (4 * d - d_ff),
        "heads share the matrices; they have none of their own": N * 4 * d * d * (H - 1),
        "queries, keys and values have a matrix each": -N * 2 * d * d,
        "attention's output has a matrix, too": -N * d * d,
        "the MLP has two matrices": -N * d * d_ff,
        "the MLP has two matrices and no gate": N * d * d_ff,
        "where the head is tied, the table is still there": -V * d if tied else 0,
        "only one block seems to be counted": -(N - 1) * (4 * d * d + 2 * d * d_ff + 4 * d),
    }
    for says, difference in mistakes.items():
        if difference and got - right == difference:
            raise Wrong(f"For d = {d}, N = {N} the count is {abs(difference):,} off: {says}.")
    far = "too many" if got > right else "too few"
    require(
        got == right,
        f"V = {V}, d = {d}, N = {N}, d_ff = {d_ff}, {places} places, tied = {tied}, learned = "
        f"{learned}, bias = {bias}: you count {abs(got - right):,} {far}.",
    )


@count_parameters.check
def _(student: Student, draw: Draw) -> None:
    """The published model of the chapter."""
    compare_count(student, 1000, 512, 6, 8, 2048, 512, True, True, False)


@count_parameters.check
def _(student: Student, draw: Draw) -> None:
    """Small models with each option alone."""
    sizes = 17, 6, 3, 2, 10, 5
    for options in ((True, True), (False, True), (True, False), (False, False)):
        compare_count(student, *sizes, *options, False)


@count_parameters.check
def _(student: Student, draw: Draw) -> None:
    """A small model with biases."""
    compare_count(student, 19, 6, 3, 3, 11, 8, True, True, True)


tied_model = Question(
    "04.tied_model",
    "TiedModel",
    title="One matrix, two readers",
    points=2,
    minutes=10,
    difficulty=2,
    section=f"{CHAPTER}#one-matrix-two-readers",
)


def check_tied(
    student: Student, tokens: Tensor, table: Tensor, weight: Tensor, weights: Tensor, tool: str
) -> None:
    """Check one Parameter, the forward pass with `table`, and a gradient from both readers.

    The body is x ↦ tanh(x Mᵀ) or x ↦ x Mᵀ, as `tool` says, with `weight` for M.
    """
    (V, d), act = table.shape, torch.tanh if tool == "tanh_of" else lambda x: x
    tokens[0, 0] = 0  # the first word is a word like all others
    kept = as_module(student(V, d, Tool(tool, (weight,))))
    state = student.state(kept)
    drawn = [t for t in state.values() if t.shape == table.shape]
    require(bool(drawn), f"It has no parameter of shape [V d] = [{V} {d}].")
    says = "All numbers of the new table are equal. Draw them at random."
    require(float(drawn[0].std()) > 0, says)
    tables = [k for k in state if state[k].shape == table.shape]
    student.load(kept, state | {k: torch.full_like(table, i) for i, k in enumerate(tables)})
    again = student.state(kept)
    require(
        all(again[k].equal(again[tables[0]]) for k in tables),
        "There are two tables of shape [V d] when the object is made. Equal numbers are not "
        "enough: an optimizer that is built now holds both.",
    )
    student.load(kept, state | dict.fromkeys(tables, table))
    run = student.run(kept, tokens, backward=weights)
    z = tensor(run.value, (*tokens.shape, V), "The logits")

    # Two leaves here, so that each reader's gradient can be told apart.
    E, W = table.clone().requires_grad_(), table.clone().requires_grad_()
    hidden = act(E[tokens] @ weight.T)
    right = hidden @ W.T
    first, second = torch.autograd.grad((right * weights).sum(), [E, W])
    others = [k for k in run.gradients if state[k].shape not in (table.shape, weight.shape)]
    require(not others, f"It has a parameter that nobody asked for: {', '.join(others)}.")
    compare(
        z.detach(),
        right.detach(),
        {
            "`body` looks left out.": (E[tokens] @ W.T).detach(),
            "√d looks applied to the embedding. Nobody asked for it here.": (
                act(math.sqrt(d) * E[tokens] @ weight.T) @ W.T
            ).detach(),
            "These look like probabilities. Logits are the scores before the "
            "softmax.": right.detach().softmax(dim=-1),
        },
        "With a table of other numbers the logits are not body(E[w]) Eᵀ. Does each reader see "
        "the table as it is now?",
    )
    found = [g for k, g in run.gradients.items() if state[k].shape == table.shape]
    require(
        len(found) < 2,
        "There are two parameters of shape [V d], and each gets a part of the gradient. Two "
        "readers need one parameter.",
    )
    says = "`parameters()` does not find those of `body`. Make it an attribute of the object."
    body = [k for k in run.gradients if state[k].shape == weight.shape]
    require(tool != "linear" or bool(body), says)
    require(bool(found), "The table is no parameter that learns: an optimizer would leave it.")
    gradient = found[0]
    if gradient is None:
        raise Wrong("No gradient reaches the table.")
    padding = first.clone()
    padding[0] = 0
    compare(
        gradient,
        first + second,
        {
            "Word 0 looks taken for padding: the embedding sends it no gradient. It is a word like "
            "all others.": padding + second,
            "Only the embedding's gradient reaches the table; the head's is missing.": first,
            "Only the head's gradient reaches the table; the embedding's is missing.": second,
        },
        "The gradient of the table is not the sum of its two readers'.",
    )


@tied_model.check
def _(student: Student, draw: Draw) -> None:
    """One parameter, read twice, with a gradient from each."""
    tokens, table, W = draw.integers(0, 7, 2, 5), draw.normal(7, 4), draw.normal(4, 4)
    check_tied(student, tokens, table, W, draw.normal(2, 5, 7), "tanh_of")


@tied_model.check
def _(student: Student, draw: Draw) -> None:
    """A body that has a parameter of its own."""
    tokens, table, W = draw.integers(0, 9, 1, 4), draw.normal(9, 3), draw.normal(3, 3)
    check_tied(student, tokens, table, W, draw.normal(1, 4, 9), "linear")


draw_weights = Question(
    "04.draw_weights",
    "draw_weights",
    title="An initialization that starts at ln V",
    points=3,
    minutes=15,
    difficulty=3,
    section=f"{CHAPTER}#an-initialization-that-starts-at-ln-v",
    forbid=("DecoderLM", "Stack", "embedding_std", "initialize", "initialize_linear"),
)
SMALL = dict(n_heads=2, head_dim=8, d_ff=64, max_len=16)


def check_draw_weights(student: Student, draw: Draw, **fields: Any) -> None:
    """Check the first loss, then the size of each kind of weight, then that tying is kept."""
    model, tool = drawn_decoder(draw, **SMALL | fields)
    V, d = model.config.vocab_size, model.config.d_model
    kept = as_module(student(Tool("decoder", tool)))
    state = student.state(kept)
    require(
        state.keys() == model.state_dict().keys(),
        "The model that comes back has other parameters than the one that went in.",
    )
    norms = [k for k in state if "norm" in k]
    matrices = [k for k in state if state[k].ndim == 2 and "embedding" not in k and "head" not in k]
    E = state["stack.embedding.weight"]

    def std(name: str) -> float:
        return float(state[name].double().std())

    for k, tensor_ in state.items():
        require(bool(torch.isfinite(tensor_).all()), f"{k} holds NaN or infinity.")
        require(
            k in norms or not tensor_.equal(model.state_dict()[k]),
            f"{k} still has its old numbers.",
        )
    tokens, targets = draw.integers(0, V, 16, 16), draw.integers(0, V, 16, 16)
    weights = draw.normal(16, 16, V)
    run = student.run(kept, tokens, backward=weights)
    logits = tensor(run.value, (16, 16, V), "The logits")
    loss = float(F.cross_entropy(logits.flatten(0, 1), targets.flatten()))
    own = logits.gather(-1, tokens[..., None]).mean()
    require(
        loss < math.log(V) + 0.3,
        f"The first loss is {loss:.2f}, and ln V is {math.log(V):.2f} (d = {d}). The word just "
        f"read scores {own:.1f} on average, and all logits spread by ±{logits.std():.1f}. How "
        "large are the rows that the head multiplies by?",
    )
    for k in norms:
        gain = not k.endswith("bias")
        require(
            torch.equal(state[k], torch.full_like(state[k], float(gain))),
            f"{k} is not {int(gain)}. A new norm changes nothing after it has normalized.",
        )
    for k in (k for k in state if state[k].ndim == 1 and k not in norms):
        require(not bool(state[k].any()), f"{k} is a bias, and not 0.")
    readers = {"stack.embedding.weight": E, "head.weight": state["head.weight"]}
    for k, rows in readers.items():
        score = std(k) * d
        near_0 = " So near to 0 the words cannot be told apart." if score < 0.5 else ""
        says = f"{k}: s · d is {score:.3g} for d = {d}; it has to be 0.5 to 3.{near_0}"
        require(0.5 <= score <= 3, says)
        require(abs(float(rows.mean())) < 0.2 * std(k), f"{k} is not drawn around 0.")
    n_tensors = sum(k in run.gradients for k in readers)
    says = "The table and the head were {}. Write into the tensors; do not replace them."
    if model.config.tie_embeddings:
        require(n_tensors == 1, says.format("one tensor, and are two now"))
    else:
        require(n_tensors == 2, says.format("two tensors, and are one now"))
        says = (
            "head.weight is a copy of the table. A head that is not tied gets numbers of its own."
        )
        require(not torch.equal(state["head.weight"], E), says)
    for k in (k for k in state if "positions" in k):
        ratio = std(k) / std("stack.embedding.weight")
        require(
            1 / 3 < ratio < 3,
            f"{k} is {ratio:.2g} times as large as the rows that it is added to.",
        )
    for k in matrices:
        require(0.002 < std(k) < 0.04, f"{k} has standard deviation {std(k):.2g}, not about 0.02.")
        require(abs(float(state[k].mean())) < 0.2 * std(k), f"{k} is not drawn around 0.")
    for k in matrices:
        twin = k.replace("blocks.0.", "blocks.1.")
        require(
            twin == k or twin not in state or not torch.equal(state[k], state[twin]),
            "The two blocks have got the same numbers. Each needs numbers of its own.",
        )
    student.load(kept, dict(model.state_dict()))
    student(kept)
    require(
        not torch.equal(
            student.state(kept)["stack.embedding.weight"], model.stack.embedding.weight
        ),
        "The model that was handed in keeps its old weights: a copy of it comes back. Draw in "
        "place.",
    )


@draw_weights.check
def _(student: Student, draw: Draw) -> None:
    """A narrow model of two blocks."""
    check_draw_weights(student, draw, vocab_size=60, d_model=64, n_layers=2)


@draw_weights.check
def _(student: Student, draw: Draw) -> None:
    """A wide model, where 0.02 is too much."""
    check_draw_weights(student, draw, vocab_size=40, d_model=384, n_layers=1)
