"""Hidden checks of the exercises on blocks: other sizes, extreme numbers, half precision."""

import torch

from tfcourse.attention import causal_mask
from tfcourse.grading import tools
from tfcourse.grading.oracle import Hidden
from tfcourse.grading.questions import (
    Wrong,
    apart,
    as_module,
    compare,
    require,
    tensor,
)
from tfcourse.grading.sets.attention import (
    attention_on,
    causal_mask_on,
    gradient,
    masked_softmax_on,
    products_beyond_half,
    readable,
    reference_attention,
    reference_softmax,
)
from tfcourse.grading.sets.blocks import (
    block_parameters_on,
    mlp_on,
    mlp_state,
    package_block,
    parts,
    transformer_block_on,
)
from tfcourse.grading.sets.heads import (
    causal_attention_on,
    grouped_attention_on,
    layer_state,
    make_filled,
    per_head_on,
)

HIDDEN = Hidden()


@HIDDEN.check("03.causal_mask")
def _(student, draw):
    """Other sizes."""
    n = draw.integer(6, 40)
    causal_mask_on(student, n, n)
    causal_mask_on(student, n, n + draw.integer(1, 30))


@HIDDEN.check("03.causal_mask")
def _(student, draw):
    """One query: alone, and behind others."""
    causal_mask_on(student, 1, 1)
    causal_mask_on(student, 1, draw.integer(2, 9))


@HIDDEN.check("03.masked_softmax")
def _(student, draw):
    """A padding mask that holds for all heads and queries, of scores that lie apart in memory."""
    B, M = draw.integer(2, 5), draw.integer(5, 12)
    masked_softmax_on(student, apart(draw.normal(B, 3, 4, M)), readable(draw, B, 1, 1, M))


@HIDDEN.check("03.masked_softmax")
def _(student, draw):
    """Half precision, large scores, and a query that may read nothing."""
    scores, mask = draw.normal(6, 7, std=10, dtype=torch.float16), readable(draw, 6, 7)
    mask[3] = False
    masked_softmax_on(student, scores, mask, tolerance=2e-2)


@HIDDEN.check("03.masked_softmax")
def _(student, draw):
    """One key, and all scores far below 0 where nothing is large."""
    masked_softmax_on(student, draw.normal(3, 1), torch.tensor([[True], [False], [True]]))
    masked_softmax_on(student, draw.normal(4, 6) - 1e4, readable(draw, 4, 6), tolerance=2e-3)


@HIDDEN.check("03.masked_softmax")
def _(student, draw):
    """The gradient, with a query that may read nothing."""
    scores, mask, w = draw.normal(3, 5), readable(draw, 3, 5), draw.normal(3, 5)
    mask[1] = False
    found = gradient(student, w, scores, mask)
    finite = torch.isfinite(found).all(-1)
    where = " where a query may read nothing" if finite[[0, 2]].all() else ""
    require(
        bool(finite.all()), f"The weights are right, but their gradient is NaN or infinite{where}."
    )
    weights = reference_softmax(scores, mask)
    right = weights * (w - (weights * w).sum(-1, keepdim=True))
    compare(found.double(), right, says="The weights are right, their gradient is not.")


@HIDDEN.check("03.attention")
def _(student, draw):
    """Heads, a padding mask that holds for all queries, inputs that lie apart in memory."""
    B, H, L, M, d_k = 2, draw.integer(2, 5), draw.integer(2, 6), draw.integer(6, 12), 8
    q, k, v = draw.normal(B, H, L, d_k, std=2), draw.normal(B, H, M, d_k), draw.normal(B, H, M, 5)
    attention_on(student, apart(q), apart(k), apart(v), readable(draw, B, 1, 1, M))


@HIDDEN.check("03.attention")
def _(student, draw):
    """Scores in the thousands."""
    q, k, v = draw.normal(3, 4, std=100), draw.normal(5, 4, std=100), draw.normal(5, 4)
    attention_on(student, q, k, v, readable(draw, 3, 5))
    # Scores as they stand in q: what is hidden is far above the rest, or the rest far below 0.
    q, k, mask = draw.normal(4, 4), 2 * torch.eye(4), readable(draw, 4, 4)
    q[:3, -1], q[3], mask[0, -1] = torch.tensor([2e4, 2e4, 5e3]), q[3] - 2e4, True
    attention_on(student, q, k, draw.normal(4, 3), mask)


@HIDDEN.check("03.attention")
def _(student, draw):
    """Half precision, and one position alone."""
    q, k, v = (draw.normal(2, 6, 16, dtype=torch.float16) for _ in range(3))
    attention_on(student, q, k, v, causal_mask(6, 6), tolerance=1e-2)
    one = torch.ones(1, 1, dtype=torch.bool)
    attention_on(student, *(draw.normal(1, 4) for _ in range(3)), one)


@HIDDEN.check("03.attention")
def _(student, draw):
    """The gradients that reach queries, keys and values, also where a query may read nothing."""
    q, k, v, w = draw.normal(4, 6), draw.normal(5, 6), draw.normal(5, 3), draw.normal(4, 3)
    mask = readable(draw, 4, 5)
    for where in ("", " where a query may read nothing"):
        if where:
            mask[1] = False
        found = student.run(student.name, q, k, v, mask, backward=w).gradients.values()
        leaves = [t.clone().requires_grad_(True) for t in (q, k, v)]
        right = torch.autograd.grad((reference_attention(*leaves, mask) * w).sum(), leaves)
        for name, given, gradient_of in zip(("q", "k", "v"), found, right, strict=True):
            require(given is not None, f"The result is right, but no gradient reaches {name}.")
            finite = bool(torch.isfinite(given).all())
            require(finite, f"The result is right; the gradient of {name} is NaN{where}.")
            says = f"The result is right; the gradient of {name} is not{where}."
            compare(given, gradient_of, says=says)


@HIDDEN.check("03.per_head")
def _(student, draw):
    """Other sizes, an input whose elements lie apart in memory."""
    H, L, d_k = draw.integer(2, 6), draw.integer(2, 9), draw.integer(2, 6)
    x = draw.normal(draw.integer(1, 4), L, H * d_k)
    per_head_on(student, apart(x), draw.normal(H, L, L))
    per_head_on(student, x.mT.contiguous().mT, draw.normal(H, L, L))


@HIDDEN.check("03.per_head")
def _(student, draw):
    """One head; heads of one feature; one position."""
    per_head_on(student, draw.normal(2, 5, 4), draw.normal(1, 5, 5))
    per_head_on(student, draw.normal(2, 5, 4), draw.normal(4, 5, 5))
    per_head_on(student, draw.normal(3, 1, 4), draw.normal(2, 1, 1))


@HIDDEN.check("03.grouped_attention")
def _(student, draw):
    """Other sizes, each row with its own mask, inputs that lie apart in memory."""
    K, groups, L, M = (draw.integer(2, 5) for _ in range(4))
    q = draw.normal(2, K * groups, L, 4, std=2)
    k, v = draw.normal(2, K, L + M, 4), draw.normal(2, K, L + M, 4)
    mask = readable(draw, 2, 1, L, L + M)
    grouped_attention_on(student, apart(q), apart(k), apart(v), mask)


@HIDDEN.check("03.grouped_attention")
def _(student, draw):
    """As many key and value heads as query heads; one query, one row."""
    q, k, v = (draw.normal(2, 4, 3, 6) for _ in range(3))
    grouped_attention_on(student, q, k, v, causal_mask(3, 3))
    q, k, v = draw.normal(1, 8, 1, 4, std=2), draw.normal(1, 2, 6, 4), draw.normal(1, 2, 6, 4)
    grouped_attention_on(student, q, k, v, causal_mask(1, 6))


@HIDDEN.check("03.grouped_attention")
def _(student, draw):
    """Scores in the thousands, and half precision."""
    k, v = draw.normal(2, 2, 5, 4, std=100), draw.normal(2, 2, 5, 4)
    grouped_attention_on(student, draw.normal(2, 4, 5, 4, std=100), k, v, causal_mask(5, 5))
    q, k, v = (draw.normal(1, n, 4, 8, dtype=torch.float16) for n in (6, 3, 3))
    grouped_attention_on(student, q, k, v, causal_mask(4, 4), tolerance=1e-2)


@HIDDEN.check("03.grouped_attention")
def _(student, draw):
    """Products that half precision cannot hold, though it holds the scores."""
    given = products_beyond_half(student, draw, (2, 4), (2, 2))
    grouped_attention_on(student, *given, tolerance=1e-2)


@HIDDEN.check("03.mlp")
def _(student, draw):
    """Other sizes; a lone vector; an input whose elements lie apart in memory."""
    d, d_ff = draw.integer(3, 9), draw.integer(4, 16)
    for gated in (False, True):
        mlp_on(student, draw, d, d_ff, gated, draw.normal(d))
        mlp_on(student, draw, d, d_ff, gated, apart(draw.normal(1, 7, d)))


@HIDDEN.check("03.mlp")
def _(student, draw):
    """Numbers of thousands."""
    for gated in (False, True):
        mlp_on(student, draw, 5, 8, gated, draw.normal(2, 3, 5, std=3e3))


@HIDDEN.check("03.mlp")
def _(student, draw):
    """A gradient for every matrix."""
    for gated in (False, True):
        state = mlp_state(draw, 4, 6, gated)
        module = make_filled(student, state, 4, 6, gated)
        run = student.run(module, draw.normal(3, 4), backward=draw.normal(3, 4))
        for name in state:
            found = run.gradients.get(name)
            require(found is not None, f"No gradient reaches {name}.")
            require(bool(found.abs().max() > 0), f"The gradient of {name} is 0 everywhere.")


@HIDDEN.check("03.block_parameters")
def _(student, draw):
    """Other sizes."""
    for _ in range(3):
        K, groups, d_k = draw.integer(1, 5), draw.integer(1, 5), draw.integer(1, 9)
        H = K * groups
        block_parameters_on(student, H * d_k, draw.integer(1, 99), H, K)


@HIDDEN.check("03.block_parameters")
def _(student, draw):
    """The sizes of large models, where a count by floating-point numbers could go wrong."""
    block_parameters_on(student, 12288, 4 * 12288, 96, 96)
    block_parameters_on(student, 8192, 28672, 64, 8)
    block_parameters_on(student, 55, 220, 11, 1)


@HIDDEN.check("03.causal_attention")
def _(student, draw):
    """Other sizes, an input whose elements lie apart in memory."""
    H, d_k, L = draw.integer(2, 5), draw.integer(2, 6), draw.integer(3, 9)
    causal_attention_on(student, draw, H * d_k, H, apart(draw.normal(2, L, H * d_k)))


@HIDDEN.check("03.causal_attention")
def _(student, draw):
    """One position; one head; heads of one feature; a long sequence."""
    causal_attention_on(student, draw, 8, 2, draw.normal(3, 1, 8))
    causal_attention_on(student, draw, 5, 1, draw.normal(2, 4, 5))
    causal_attention_on(student, draw, 4, 4, draw.normal(2, 3, 4))
    causal_attention_on(student, draw, 4, 2, draw.normal(1, 300, 4))


@HIDDEN.check("03.causal_attention")
def _(student, draw):
    """Calls of several lengths, one after the other."""
    state, done = layer_state(draw, 6), ""
    module = make_filled(student, state, 6, 2)
    layer = tools.attention_layer(state["qkv.weight"], state["out.weight"], 2)
    for L in (4, 7, 3):
        x = draw.normal(2, L, 6)
        try:
            y = tensor(student.call(module, x), x.shape)
            compare(y, layer(x).detach())
        except Wrong as wrong:
            says = f"With {L} positions a call{done} goes wrong. Is something kept of it?"
            raise Wrong(f"{says} {wrong}" if done else str(wrong)) from None
        done = f" after one with {L}"


@HIDDEN.check("03.causal_attention")
def _(student, draw):
    """Scores in the thousands."""
    causal_attention_on(student, draw, 8, 2, draw.normal(2, 4, 8, std=100), tolerance=1e-3)


@HIDDEN.check("03.causal_attention")
def _(student, draw):
    """The gradients of both matrices."""
    state = layer_state(draw, 6)
    module = make_filled(student, state, 6, 2)
    x, w = draw.normal(2, 4, 6), draw.normal(2, 4, 6)
    found = student.run(module, x, backward=w).gradients
    layer = tools.attention_layer(state["qkv.weight"], state["out.weight"], 2)
    (layer(x) * w).sum().backward()
    for name, weight in layer.named_parameters():
        require(found.get(name) is not None, f"No gradient reaches {name}.")
        compare(
            tensor(found[name], weight.shape, f"The gradient of {name}"),
            weight.grad,
            says=f"The result is right; the gradient of {name} is not.",
            tolerance=1e-3,
        )


@HIDDEN.check("03.transformer_block")
def _(student, draw):
    """Other sizes; one position; an input whose elements lie apart in memory."""
    H, d_k, L = draw.integer(1, 4), draw.integer(2, 6), draw.integer(2, 8)
    d = H * d_k
    for position in ("pre", "post"):
        transformer_block_on(
            student, parts(draw, d, H), d, H, position, apart(draw.normal(2, L, d, std=3))
        )
        transformer_block_on(student, parts(draw, 4, 2), 4, 2, position, draw.normal(1, 1, 4))


@HIDDEN.check("03.transformer_block")
def _(student, draw):
    """A stream of thousands."""
    for position in ("pre", "post"):
        transformer_block_on(
            student, parts(draw, 4, 2), 4, 2, position, draw.normal(2, 3, 4, std=1e4)
        )


@HIDDEN.check("03.transformer_block")
def _(student, draw):
    """The parts themselves, not copies of them."""
    for position in ("pre", "post"):
        inner = as_module(student(*parts(draw, 6, 2), position))
        outer = as_module(student(*[inner] * 4, position))
        state = {name: value + 1 for name, value in student.state(inner).items()}
        student.load(inner, state)
        own = all(any(v.equal(w) for w in state.values()) for v in student.state(outer).values())
        require(own, "Copies of the parts look trained: the ones handed in stay behind.")


@HIDDEN.check("03.transformer_block")
def _(student, draw):
    """The gradient that reaches x."""
    given, x, w = parts(draw, 6, 2), draw.normal(2, 3, 6, std=3), draw.normal(2, 3, 6)
    for position in ("pre", "post"):
        found = gradient(student, w, x, target=as_module(student(*given, position)))
        leaf = x.clone().requires_grad_(True)
        (package_block(given, 6, 2, position)(leaf) * w).sum().backward()
        compare(
            found,
            leaf.grad,
            says="The result is right, but the gradient of x is not: is a way through the block "
            "cut off from the gradient?",
            tolerance=1e-3,
        )
