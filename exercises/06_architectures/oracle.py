"""Hidden checks of the exercises on architectures: other sizes, extreme numbers, odd padding."""

import torch

from tfcourse.grading.oracle import Hidden
from tfcourse.grading.questions import (
    apart,
    compare,
    require,
    tensor,
)
from tfcourse.grading.sets.architectures import (
    check_attention_mask,
    check_count_parameters,
    check_mask_tokens,
    check_mean_pool,
    masking_case,
)
from tfcourse.grading.sets.architectures_attention import (
    check_cached_attention,
    check_cross_attention,
    draw_layers,
    padded,
)
from tfcourse.grading.sets.architectures_images import (
    ImageCase,
    check_image_embedding,
    check_resize_positions,
)
from tfcourse.grading.sets.architectures_writing import Translation, check_greedy_decode
from tfcourse.grading.wire import Tool

HIDDEN = Hidden()


@HIDDEN.check("06.mean_pool")
def _(student, draw):
    """Other sizes, PADs between tokens, an input whose elements lie apart in memory."""
    B, L = draw.integer(2, 6), draw.integer(3, 9)
    real = draw.uniform(0, 1, B, L) < 0.5
    real[:, draw.integer(0, L)] = True
    check_mean_pool(student, apart(draw.normal(B, L, 6, std=100)), real)


@HIDDEN.check("06.mean_pool")
def _(student, draw):
    """One token in all."""
    check_mean_pool(student, draw.normal(1, 1, 5), torch.ones(1, 1, dtype=torch.bool))


@HIDDEN.check("06.mean_pool")
def _(student, draw):
    """NaN at a PAD."""
    x, real = draw.normal(3, 4, 5), padded(draw, 3, 4)
    right = tensor(student(x.masked_fill(~real.unsqueeze(2), 0.0), real), (3, 5))
    y = tensor(student(x.masked_fill(~real.unsqueeze(2), torch.nan), real), (3, 5))
    require(bool(torch.isfinite(y).all()), "NaN at a PAD reaches the mean. 0 · NaN is NaN.")
    compare(y, right, says="What stands at a PAD changes the mean.")
    x[0, 0, 1] = torch.nan
    y = tensor(student(x, real), (3, 5))
    says = "NaN at a real token is hidden. Only what stands at a PAD does not count."
    require(bool(y[0, 1].isnan()), says)


@HIDDEN.check("06.mean_pool")
def _(student, draw):
    """Its gradient."""
    x, real, w = draw.normal(2, 4, 3), padded(draw, 2, 4), draw.normal(2, 3)
    run = student.run("mean_pool", x, real, backward=w)
    right = real.unsqueeze(2) * w.unsqueeze(1) / real.sum(dim=1)[:, None, None]
    grad = tensor(run.gradients["input 0"], x.shape, "The gradient of x")
    compare(grad, right, says="The gradient of x is not w / n at real tokens and 0 at PADs.")


@HIDDEN.check("06.attention_mask")
def _(student, draw):
    """Other lengths, PADs in front or between tokens."""
    for kind in ("encoder", "decoder", "cross"):
        M = draw.integer(4, 9)
        real = draw.uniform(0, 1, M) < 0.6
        real[0], real[M // 2] = False, True
        check_attention_mask(student, kind, draw.integer(2, 7) if kind == "cross" else M, real)


@HIDDEN.check("06.attention_mask")
def _(student, draw):
    """One position, and a source that is shorter than the target."""
    one = torch.ones(1, dtype=torch.bool)
    for kind in ("encoder", "decoder", "cross"):
        check_attention_mask(student, kind, 1, one)
    check_attention_mask(student, "cross", 6, padded(draw, 2, 3)[1])
    check_attention_mask(student, "cross", 5, padded(draw, 2, 5)[1])


@HIDDEN.check("06.count_parameters")
def _(student, draw):
    """Models of any sizes."""
    for _ in range(3):
        low = (draw.integer(2, 99), draw.integer(1, 20), draw.integer(1, 50))
        check_count_parameters(student, low[0], 2 * low[1], low[2], *draw_blocks(draw))


def draw_blocks(draw):
    return draw.integer(1, 6), draw.integer(1, 6)


@HIDDEN.check("06.count_parameters")
def _(student, draw):
    """The big model, and one without a decoder."""
    check_count_parameters(student, 37_000, 1024, 4096, 6, 6)
    check_count_parameters(student, 10, 8, 12, 3, 0)


@HIDDEN.check("06.mask_tokens")
def _(student, draw):
    """Chances over their whole range, in another shape."""
    check_mask_tokens(student, *masking_case(draw, draw.integer(4, 8), 200, 1.0))


@HIDDEN.check("06.mask_tokens")
def _(student, draw):
    """Numbers on the borders 0.15, 0.8 and 0.9."""
    tokens, other = draw.integers(3, 40, 1, 8), draw.integers(40, 50, 1, 8)
    chance = torch.tensor([[0.15, 0.14, 0.14, 0.14, 0.0, 0.15, 0.14, 0.99]])
    lot = torch.tensor([[0.1, 0.8, 0.91, 0.79, 0.9, 0.85, 0.89, 0.95]])
    real = torch.ones(1, 8, dtype=torch.bool)
    check_mask_tokens(student, tokens, real, chance, lot, other, 2)


@HIDDEN.check("06.mask_tokens")
def _(student, draw):
    """A text of which nothing is chosen, and MASK with another id."""
    tokens, real, chance, lot, other, _ = masking_case(draw, 3, 20, 0.3)
    check_mask_tokens(student, tokens, real, chance + 0.5, lot, other, 41)
    check_mask_tokens(student, tokens, real, chance, lot, other, 41)


@HIDDEN.check("06.cross_attention")
def _(student, draw):
    """Other sizes, PADs in front, sources that lie apart in memory."""
    h = draw.integer(1, 5)
    d, B, L, M = 4 * h, draw.integer(2, 5), draw.integer(2, 7), draw.integer(2, 9)
    real = padded(draw, B, M).flip(1)
    real[:, 0] = False  # no row is full
    x, source = draw.normal(B, L, d), apart(draw.normal(B, M, d))
    check_cross_attention(student, x, source, real, draw_layers(draw, d), h)


@HIDDEN.check("06.cross_attention")
def _(student, draw):
    """Scores of ±10,000 and more, where a PAD's is the largest."""
    x, source, real = draw.normal(8, 6, 8), draw.normal(8, 5, 8, std=3), padded(draw, 8, 5)
    layers = draw_layers(draw, 8)
    layers[:2] = [(70 * w, b) for w, b in layers[:2]]
    layers[2:] = [(w / 4, b) for w, b in layers[2:]]
    # float32 knows such scores to a hundredth only, which shows where the two largest are close.
    check_cross_attention(student, x, source, real, layers, 2, tolerance=0.02)


@HIDDEN.check("06.cross_attention")
def _(student, draw):
    """One position that reads one, one row."""
    x, source, real = draw.normal(1, 1, 6), draw.normal(1, 1, 6), torch.ones(1, 1) > 0
    check_cross_attention(student, x, source, real, draw_layers(draw, 6), 3)


@HIDDEN.check("06.cross_attention")
def _(student, draw):
    """No gradient flows to a PAD, and some to every token."""
    x, source, real = draw.normal(2, 3, 8), draw.normal(2, 5, 8), padded(draw, 2, 5)
    tools = [Tool("linear", pair) for pair in draw_layers(draw, 8)]
    run = student.run("cross_attention", x, source, real, *tools, 2, backward=draw.normal(2, 3, 8))
    for i, (name, t) in enumerate((("x", x), ("the source", source))):
        grad = run.gradients[f"input {i}"]
        require(grad is not None, f"No gradient reaches {name}.")
        tensor(grad, t.shape, f"The gradient of {name}")
    size = run.gradients["input 1"].abs().sum(dim=2)
    require(bool((size[~real] == 0).all()), "A gradient reaches the source's PADs.")
    require(bool((size[real] > 0).all()), "No gradient reaches some of the source's tokens.")


@HIDDEN.check("06.image_embedding")
def _(student, draw):
    """Other sizes, pixels that lie apart in memory."""
    p, c = draw.integer(1, 4), draw.integer(1, 4)
    height, width = p * draw.integer(2, 5), p * draw.integer(2, 5)
    images = apart(draw.normal(draw.integer(2, 4), c, height, width))
    check_image_embedding(student, ImageCase.make(draw, images, p, draw.integer(3, 9)))


@HIDDEN.check("06.image_embedding")
def _(student, draw):
    """One patch for the whole of one image."""
    check_image_embedding(student, ImageCase.make(draw, draw.normal(1, 2, 3, 3), 3, 4))


@HIDDEN.check("06.image_embedding")
def _(student, draw):
    """Its gradients."""
    case = ImageCase.make(draw, draw.normal(3, 2, 4, 6), 2, 5)
    module, w = case.load(student), draw.normal(3, 7, 5)
    found = student.run(module, case.images, backward=w).gradients
    reference = case.reference()
    (reference(case.images) * w).sum().backward()
    for name, parameter in reference.named_parameters():
        grad = found.get(name)
        require(grad is not None, f"No gradient reaches {name}: it would not learn.")
        compare(
            tensor(grad, parameter.shape, f"The gradient of {name}"),
            parameter.grad,
            says=f"The gradient of {name} is not the right one.",
        )


@HIDDEN.check("06.resize_positions")
def _(student, draw):
    """Other grids, one axis growing and the other shrinking."""
    old = draw.integer(2, 7), draw.integer(2, 7)
    new = old[0] + draw.integer(1, 5), max(1, old[1] - draw.integer(1, 3))
    d = draw.integer(2, 9)
    check_resize_positions(student, draw.normal(1, 1 + old[0] * old[1], d), old, new)
    check_resize_positions(student, draw.normal(1, 1 + old[0] * old[1], d), old, new[::-1])


@HIDDEN.check("06.resize_positions")
def _(student, draw):
    """Positions that lie apart in memory; the same grid; the same number of patches otherwise."""
    positions = apart(draw.normal(1, 25, 4))
    same = tensor(student(positions, (4, 6), (4, 6)), positions.shape)
    compare(same, positions, says="On the grid that was learned, positions have to stay.")
    check_resize_positions(student, positions, (4, 6), (6, 4))
    check_resize_positions(student, positions, (4, 6), (2, 12))
    check_resize_positions(student, positions, (4, 6), (1, 1))


@HIDDEN.check("06.resize_positions")
def _(student, draw):
    """Its gradient."""
    positions, w = draw.normal(1, 7, 3), draw.normal(1, 13, 3)
    run = student.run("resize_positions", positions, (2, 3), (4, 3), backward=w)
    grad = tensor(run.gradients["input 0"], positions.shape, "The gradient of the positions")
    compare(grad[:, 0], w[:, 0], says="The gradient of CLS's position is not passed on.")
    # Bicubic weights sum to 1 at each new place, so the sums of the gradients agree.
    says = "The gradient of the patches' positions is not passed on."
    compare(grad[:, 1:].sum(dim=1), w[:, 1:].sum(dim=1), says=says)


@HIDDEN.check("06.cached_attention")
def _(student, draw):
    """Other sizes and chunks."""
    chunks = [draw.integer(1, 6) for _ in range(4)]
    shape = draw.integer(1, 4), draw.integer(1, 4), sum(chunks), draw.integer(2, 9)
    q, k, v = (apart(draw.normal(*shape)) for _ in range(3))
    check_cached_attention(student, q, k, v, chunks)


@HIDDEN.check("06.cached_attention")
def _(student, draw):
    """A long cache and one new position; a long chunk after one that is cached."""
    q, k, v = (draw.normal(1, 2, 50, 8) for _ in range(3))
    check_cached_attention(student, q, k, v, [1], n_cached=49)
    check_cached_attention(student, q, k, v, [49], n_cached=1)


@HIDDEN.check("06.cached_attention")
def _(student, draw):
    """Scores of ±10,000 and more."""
    q, k, v = (draw.normal(4, 2, 9, 4) for _ in range(3))
    check_cached_attention(student, 300 * q, 100 * k, v, [4, 5], tolerance=0.02)


@HIDDEN.check("06.greedy_decode")
def _(student, draw):
    """More sources of other lengths."""
    check_greedy_decode(student, Translation.draw(draw, [draw.integer(1, 9) for _ in range(7)]))


@HIDDEN.check("06.greedy_decode")
def _(student, draw):
    """One source alone."""
    check_greedy_decode(student, Translation.draw(draw, [draw.integer(2, 9)]))


@HIDDEN.check("06.greedy_decode")
def _(student, draw):
    """Another PAD than 0, and a row whose EOS is the last token that may be written."""
    case = Translation.draw(draw, [4, 7, 2, 5], pad=7)
    check_greedy_decode(student, case)
    check_greedy_decode(student, case.short(sorted({len(row) for row in case.written})[1]))
