"""The exercises of chapter 03 on the MLP and the block, and the list of all."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from tfcourse.blocks import Block
from tfcourse.config import ModelConfig
from tfcourse.feedforward import make_feed_forward
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
    COUNTED,
    NOT_FINITE,
    attention,
    causal_mask,
    masked_softmax,
)
from tfcourse.grading.sets.heads import (
    causal_attention,
    fault_in_training,
    grouped_attention,
    layer_state,
    make_filled,
    per_head,
)
from tfcourse.grading.wire import Kept, Tool

CHAPTER = "03_blocks.html"

mlp = Question(
    "03.mlp",
    "MLP",
    title="The MLP, plain and gated",
    points=3,
    minutes=12,
    difficulty=2,
    section=f"{CHAPTER}#the-bend",
    forbid=("FeedForward", "SwiGLU", "make_feed_forward"),
)


def mlp_state(draw: Draw, d: int, d_ff: int, gated: bool) -> dict[str, Tensor]:
    """Draw the matrices of an MLP."""
    state = {"up.weight": draw.normal(d_ff, d), "down.weight": draw.normal(d, d_ff, std=0.5)}
    return {"gate.weight": draw.normal(d_ff, d), **state} if gated else state


def mlp_on(student: Student, draw: Draw, d: int, d_ff: int, gated: bool, x: Tensor) -> None:
    """Compare the layer with the package's, and with known mistakes."""
    state = mlp_state(draw, d, d_ff, gated)
    module = make_filled(student, state, d, d_ff, gated)
    y = tensor(student.call(module, x), x.shape)
    require(bool(torch.isfinite(y).all()), NOT_FINITE)
    kind: Any = "swiglu" if gated else "gelu"
    layer = make_feed_forward(
        ModelConfig(vocab_size=2, d_model=d, n_heads=1, d_ff=d_ff, activation=kind)
    )
    down = state["down.weight"].T
    p = x @ state["up.weight"].T
    if gated:
        g = x @ state["gate.weight"].T
        both = torch.cat([state["gate.weight"], state["up.weight"]])
        layer.load_state_dict({"gate_up.weight": both, "down.weight": state["down.weight"]})
        mistakes = {
            "The gate looks exchanged with what passes: SiLU belongs to the gate.": F.silu(p) * g,
            "The gate looks like a sigmoid. SiLU is g · sigmoid(g).": g.sigmoid() * p,
            "The gate looks bent by GELU. SwiGLU has SiLU.": F.gelu(g) * p,
            "The gate and what passes look added. They are multiplied.": F.silu(g) + p,
            "SiLU looks applied to the product. Only the gate is bent.": F.silu(g * p),
            "SiLU looks applied to both halves. Only the gate is bent.": F.silu(g) * F.silu(p),
            "What passes looks bent as well, by GELU. Only the gate is bent.": F.silu(g)
            * F.gelu(p),
            "The gate looks used without its bend. It goes through SiLU.": g * p,
            "The gate looks left out. What passes is multiplied by it.": F.silu(p),
            "With gated=True it looks like the plain MLP.": F.gelu(p),
        }
    else:
        layer.load_state_dict(state)
        mistakes = {
            "The two matrices look joined without a bend. Then they are one matrix.": p,
            "It looks like ReLU. The plain MLP has GELU.": p.relu(),
            "It looks like SiLU. The plain MLP has GELU.": F.silu(p),
            "It looks like tanh. The plain MLP has GELU.": p.tanh(),
            "GELU looks applied before the first matrix. It bends what that matrix measures.": (
                F.gelu(x) @ state["up.weight"].T
            ),
        }
    wrong = {message: hidden @ down for message, hidden in mistakes.items()}
    if not gated:
        wrong["GELU looks applied after the last matrix. It stands between the two."] = F.gelu(
            p @ down
        )
    with torch.no_grad():
        right, normed = layer(x), layer(F.layer_norm(x, x.shape[-1:]))
    wrong["It looks as if x itself was added. The block does that."] = right + x
    wrong["x looks normed first. The block does that."] = normed
    wrong["The result looks bent once more, after the last matrix."] = F.gelu(right)
    tolerance = 3e-3  # GELU's usual approximation by tanh may pass
    says = "" if close(y, right, tolerance) else fault_in_training(student, module, x, y)
    compare(y, right, wrong, says or "The numbers are not the right ones.", tolerance)


@mlp.check
def _(student: Student, draw: Draw) -> None:
    """The plain MLP with known weights."""
    mlp_on(student, draw, 6, 10, False, draw.normal(2, 4, 6))


@mlp.check
def _(student: Student, draw: Draw) -> None:
    """The gated one with known weights."""
    mlp_on(student, draw, 6, 10, True, draw.normal(2, 4, 6))


block_parameters = Question(
    "03.block_parameters",
    "block_parameters",
    title="Count a block",
    points=2,
    minutes=8,
    difficulty=2,
    section=f"{CHAPTER}#where-the-parameters-are",
    forbid=COUNTED,
)


def block_parameters_on(student: Student, d: int, d_ff: int, H: int, K: int) -> None:
    """Compare the count with that of a live block, and with known mistakes."""
    value = student(d, d_ff, H, K)
    require(type(value) is int, f"The count is a {type(value).__name__}; it has to be an int.")
    config = ModelConfig(vocab_size=2, d_model=d, d_ff=d_ff, n_heads=H, n_kv_heads=K)
    with torch.device("meta"):  # shapes without numbers, so that a large one costs nothing
        right = sum(p.numel() for p in Block(config).parameters())
    kv, mlp_part, norms = 2 * d * K * (d // H), 2 * d * d_ff, 4 * d
    left_out = "The output projection looks left out. It is a matrix of attention, too."
    if K == H:  # all four are of one size
        left_out = "d² are missing: one of attention's four matrices looks left out."
    mistakes = {
        "The norms look left out: their γ and β are parameters, too.": right - norms,
        "12d² is the count for d_ff = 4d and no norms.": 12 * d**2,
        "12d² is for d_ff = 4d and as many heads of keys and values as of queries.": 12 * d**2
        + norms,
        "d_ff looks taken as 4d. It is an argument.": right - mlp_part + 8 * d**2,
        "2d are missing. A block has two norms, each with a gain γ and a shift β.": right - 2 * d,
        left_out: right - d * d,
        "Keys and values look counted for every query head.": right - kv + 2 * d * d,
        "The heads look counted at full width. Each has d / n_heads features.": right
        - (2 * d * d + kv)
        + 2 * H * d * d
        + 2 * K * d * d,
        "Keys and values are missing. Does a division come out as 0?": right - kv,
        "Keys and values look counted for one head, whatever n_kv_heads is.": right
        - kv
        + 2 * d * (d // H),
        "Only one of keys and values looks counted. Each has its matrix.": right - kv // 2,
        "Only one of keys and values looks shared. Both are.": right - kv // 2 + d * d,
        "The output projection looks as narrow as the shared values. It reads what all query heads "
        "hand over.": right - d * d + kv // 2,
        "Attention looks counted for one head alone. Its matrices serve all heads.": right
        - 2 * d * d
        - kv
        + 4 * d * (d // H),
        "Three norms look counted. The last one of a stack is no part of a block.": right + 2 * d,
        "Biases look counted in the MLP. The matrices of this block have none.": right + d_ff + d,
        "The MLP has two matrices; one looks left out.": right - mlp_part // 2,
        "The MLP has two matrices; it looks as if three were counted.": right + mlp_part // 2,
        "Biases look counted. The matrices of this block have none.": right
        + (2 * d + 2 * K * (d // H) + d_ff + d),
    }
    for message, count in mistakes.items():
        if value == count != right:
            raise Wrong(message)
    much = "many" if value > right else "few"
    require(
        value == right,
        f"It counts {abs(value - right)} too {much} for d = {d}, d_ff = {d_ff}, n_heads = {H} and "
        f"n_kv_heads = {K}.",
    )


@block_parameters.check
def _(student: Student, draw: Draw) -> None:
    """Every query head has its own keys and values."""
    block_parameters_on(student, 16, 64, 4, 4)


@block_parameters.check
def _(student: Student, draw: Draw) -> None:
    """Another hidden width, and shared keys and values."""
    block_parameters_on(student, 24, 40, 12, 3)


# --- the block --------------------------------------------------------------------------------

Position = Literal["pre", "post"]

transformer_block = Question(
    "03.transformer_block",
    "TransformerBlock",
    title="A block in two orders",
    points=3,
    minutes=15,
    difficulty=3,
    section=f"{CHAPTER}#four-moves-two-orders",
    forbid=("Block", "ResidualBranch", "TransformerEncoderLayer", "TransformerDecoderLayer"),
)


def parts(draw: Draw, d: int, H: int) -> list[Tool]:
    """Draw attention, norm, MLP and norm of a block."""
    state, (up, down) = layer_state(draw, d), mlp_state(draw, d, 2 * d, False).values()
    norms = [Tool("layer_norm", (draw.uniform(0.5, 2, d), draw.normal(d))) for _ in range(2)]
    attention_part = Tool("attention_layer", (state["qkv.weight"], state["out.weight"], H))
    return [attention_part, norms[0], Tool("feed_forward", (up, down)), norms[1]]


def fault_of_parts(student: Student, module: Kept, given: list[Tool]) -> str:
    """Say whether the block's weights lack one of its parts', or hold one that no part has."""
    own = student.state(module)
    names = ("attention", "norm_1", "mlp", "norm_2")
    weights = [
        (name, weight)
        for name, tool in zip(names, given, strict=True)
        for weight in tool.args
        if isinstance(weight, Tensor)
    ]
    for name, weight in weights:
        if not any(weight.equal(value) for value in own.values()):
            return (
                f"The weights of {name} are not among the block's. A module finds the parameters "
                "of modules that are its attributes; an optimizer trains those alone."
            )
    extra = [name for name, value in own.items() if not any(value.equal(w) for _, w in weights)]
    return f"It holds {', '.join(extra)}, which no part has." if extra else ""


def package_block(given: list[Tool], d: int, H: int, position: Position) -> Block:
    """Put the same parts into the package's block."""
    block = Block(ModelConfig(vocab_size=2, d_model=d, n_heads=H, norm_position=position))
    made = [getattr(tools, tool.name)(*tool.args) for tool in given]
    attention, mlp = block.branches
    attention.sublayer, attention.norm, mlp.sublayer, mlp.norm = made
    return block


def transformer_block_on(
    student: Student, given: list[Tool], d: int, H: int, position: Position, x: Tensor
) -> None:
    """Compare the block with the package's, and with known mistakes."""
    module = as_module(student(*given, position))
    y = tensor(student.call(module, x), x.shape)
    block = package_block(given, d, H, position)
    first, second = block.branches
    a, n, m, o = first.sublayer, first.norm, second.sublayer, second.norm
    with torch.no_grad():
        right = block(x)
        u = x + a(n(x))
        v, w = n(x + a(x)), x + n(a(x))
        normed = n(x)
        copy = normed + a(normed)
        swapped = x + a(o(x))
        thought = x + m(o(x))
        pre = {
            "It looks like a post-norm block. Here norm_position is “pre”.": o(v + m(v)),
            "The update looks added to the normed copy, not to the stream.": o(copy) + m(o(copy)),
            "The MLP's update looks added to x, so what attention wrote is lost.": x + m(o(u)),
            "Attention and MLP both look at x. The MLP reads what attention wrote.": u + m(o(x)),
            "The residuals look left out.": m(o(a(n(x)))),
            "What attention wrote looks handed to the MLP, but not added.": x + m(o(a(n(x)))),
            "x looks added once more in the second sum: u holds it already.": x + u + m(o(u)),
            "The second residual looks left out.": m(o(u)),
            "The first residual looks left out.": a(n(x)) + m(o(a(n(x)))),
            "The two norms look exchanged. norm_1 is attention's.": swapped + m(n(swapped)),
            "The first norm looks used twice. The MLP's branch has its own.": u + m(n(u)),
            "The MLP looks placed before attention.": thought + a(n(thought)),
            "The MLP looks fed without its norm.": u + m(u),
            "The second norm looks applied to the stream at the end, not in the branch.": o(
                u + m(u)
            ),
        }
        post = {
            "It looks like a pre-norm block. Here norm_position is “post”.": u + m(o(u)),
            "The norm looks applied to the update, before the addition.": w + o(m(w)),
            "The MLP's update looks added to x, so what attention wrote is lost.": o(x + m(v)),
            "Attention and MLP both look at x. The MLP reads what attention wrote.": o(v + m(x)),
            "The residuals look left out.": o(m(n(a(x)))),
            "The norms look applied before the parts and after the sums.": (
                o(n(x + a(n(x))) + m(o(n(x + a(n(x))))))
            ),
            "The second residual looks left out.": o(m(v)),
            "The two norms look exchanged. norm_1 is attention's.": n(o(x + a(x)) + m(o(x + a(x)))),
            "The first norm looks used twice. The second sum has its own.": n(v + m(v)),
            "The last norm looks left out.": v + m(v),
            "The norm after attention looks left out.": o(x + a(x) + m(x + a(x))),
        }
    lost = fault_of_parts(student, module, given)
    require(not lost, lost)
    says = "" if close(y, right) else fault_in_training(student, module, x, y)
    advice = "gives back x" if position == "pre" else "norms x twice"
    says = says or (
        f"With “{position}” the numbers are not the right ones. With both updates 0 the block "
        f"{advice}: does yours?"
    )
    compare(y, right, pre if position == "pre" else post, says)


@transformer_block.check
def _(student: Student, draw: Draw) -> None:
    """Pre-norm with all parts at work."""
    transformer_block_on(student, parts(draw, 6, 2), 6, 2, "pre", draw.normal(2, 4, 6, std=3))


@transformer_block.check
def _(student: Student, draw: Draw) -> None:
    """Post-norm with all parts at work."""
    transformer_block_on(student, parts(draw, 6, 2), 6, 2, "post", draw.normal(2, 4, 6, std=3))


QUESTIONS = [
    causal_mask,
    masked_softmax,
    attention,
    per_head,
    grouped_attention,
    mlp,
    block_parameters,
    causal_attention,
    transformer_block,
]
