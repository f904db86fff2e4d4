"""Hidden checks of the exercises on stacking: other sizes, other settings, extreme regimes."""

import torch
import torch.nn.functional as F

from tfcourse.architectures import DecoderLM
from tfcourse.grading.oracle import Hidden
from tfcourse.grading.questions import close, compare, require, tensor
from tfcourse.grading.sets.stacking import (
    compare_embed,
    compare_logits,
    compare_rotate,
    compare_sinusoids,
)
from tfcourse.grading.sets.stacking_models import (
    Tiny,
    check_causal,
    check_count,
    check_ends,
    check_first_loss,
    check_trace,
)
from tfcourse.grading.sets.stacking_weights import check_draw_weights, check_tied, compare_count
from tfcourse.grading.wire import Tool

HIDDEN = Hidden()


@HIDDEN.check("04.embed")
def _(student, draw):
    """As many rows as positions, and every place used."""
    n, d = draw.integer(3, 7), 2 * draw.integer(3, 9)
    tokens = draw.integers(0, 20, n, n)
    compare_embed(student, tokens, draw.normal(20, d), draw.normal(n, d), True)


@HIDDEN.check("04.embed")
def _(student, draw):
    """One word."""
    tokens = draw.integers(0, 30, 1, 1)
    compare_embed(
        student, tokens, draw.normal(30, 5), draw.normal(4, 5), draw.choice([True, False])
    )


@HIDDEN.check("04.embed")
def _(student, draw):
    """Half precision, tables whose elements lie apart in memory."""
    table, places = draw.normal(12, 16)[:, ::2], draw.normal(9, 16)[:, ::2]
    tokens = draw.integers(0, 12, 2, 6)
    compare_embed(student, tokens, table.bfloat16(), places.bfloat16(), True)


@HIDDEN.check("04.to_logits")
def _(student, draw):
    """As many words as features."""
    d = draw.integer(4, 12)
    x, gain, shift = draw.normal(3, 4, d, std=2), draw.uniform(0.5, 2, d), draw.normal(d)
    normed = F.layer_norm(x, (d,), gain, shift)
    head = draw.normal(d, d), draw.normal(d)
    compare_logits(student, x, normed, Tool("layer_norm", (gain, shift)), *head)


@HIDDEN.check("04.to_logits")
def _(student, draw):
    """A stream that has grown to 10,000, read at one position."""
    x, gain, shift = draw.normal(1, 1, 16, std=1e4)[..., ::2], torch.ones(8), torch.zeros(8)
    normed = F.layer_norm(x, (8,))
    compare_logits(student, x, normed, Tool("layer_norm", (gain, shift)), draw.normal(5, 8))


@HIDDEN.check("04.sinusoids")
def _(student, draw):
    """Other widths, positions in any order."""
    d = 2 * draw.integer(4, 20)
    compare_sinusoids(student, draw.integers(0, 500, draw.integer(5, 12)), d)


@HIDDEN.check("04.sinusoids")
def _(student, draw):
    """One pair, one position."""
    compare_sinusoids(student, torch.tensor([draw.integer(1, 50)]), 2)


@HIDDEN.check("04.sinusoids")
def _(student, draw):
    """Far positions, which half precision cannot tell apart."""
    start = draw.integer(20_000, 60_000)
    compare_sinusoids(student, torch.arange(start, start + 3), 64, tolerance=0.03)


@HIDDEN.check("04.rotate")
def _(student, draw):
    """Other sizes, another base, positions in any order."""
    k, length = 2 * draw.integer(2, 9), draw.integer(3, 7)
    x = draw.normal(draw.integer(1, 4), length, length, k)
    compare_rotate(student, x, draw.integers(0, 100, length), float(draw.choice([50, 1000, 5e5])))


@HIDDEN.check("04.rotate")
def _(student, draw):
    """One pair, one position, elements that lie apart in memory."""
    x = draw.normal(2, 2, 1, 4)[..., ::2]
    compare_rotate(student, x, torch.tensor([draw.integer(1, 30)]), 10_000.0)


@HIDDEN.check("04.rotate")
def _(student, draw):
    """Half precision at far positions: the angles need more digits than the vectors."""
    start = draw.integer(2000, 3000)
    x = draw.normal(1, 2, 8, 16).bfloat16()
    compare_rotate(student, x, torch.arange(start, start + 8), 10_000.0, tolerance=0.02)


@HIDDEN.check("04.count_parameters")
def _(student, draw):
    """GPT-2's sizes, with biases."""
    compare_count(student, 50257, 768, 12, 12, 3072, 1024, True, True, True)


@HIDDEN.check("04.count_parameters")
def _(student, draw):
    """Sizes at random, every option."""
    for tied in (True, False):
        for learned in (True, False):
            for bias in (True, False):
                heads = draw.integer(1, 5)
                sizes = (
                    *(draw.integer(20, 90), heads * draw.integer(2, 6), draw.integer(1, 6), heads),
                    *(draw.integer(5, 70), draw.integer(3, 30)),
                )
                compare_count(student, *sizes, tied, learned, bias)


@HIDDEN.check("04.tied_model")
def _(student, draw):
    """Other sizes."""
    V, d, n, length = (draw.integer(low, low + 5) for low in (20, 4, 2, 5))
    tokens, weights = draw.integers(0, V, n, length), draw.normal(n, length, V)
    check_tied(student, tokens, draw.normal(V, d), draw.normal(d, d), weights, "tanh_of")


@HIDDEN.check("04.tied_model")
def _(student, draw):
    """One word, again and again."""
    tokens = torch.full((1, 6), draw.integer(0, 5))
    weights = draw.normal(1, 6, 5)
    check_tied(student, tokens, draw.normal(5, 3), draw.normal(3, 3), weights, "linear")


@HIDDEN.check("04.draw_weights")
def _(student, draw):
    """A head of its own, with a bias; biases everywhere."""
    options = dict(tie_embeddings=False, head_bias=True, bias=True)
    check_draw_weights(student, draw, vocab_size=50, d_model=192, n_layers=2, **options)


@HIDDEN.check("04.draw_weights")
def _(student, draw):
    """RMSNorm and RoPE, a wide stream."""
    options = dict(norm="rmsnorm", position="rope")
    check_draw_weights(student, draw, vocab_size=30, d_model=512, n_layers=1, **options)


@HIDDEN.check("04.trace")
def _(student, draw):
    """Post-norm, sinusoids, and no final norm."""
    options = dict(norm_position="post", position="sinusoidal", embedding_scale=True)
    check_trace(student, draw, 2, 7, n_layers=draw.integer(3, 5), **options)


@HIDDEN.check("04.trace")
def _(student, draw):
    """One word, as many places as it takes; RMSNorm, a head's bias."""
    check_trace(student, draw, 1, 1, norm="rmsnorm", head_bias=True, bias=True)


@HIDDEN.check("04.trace")
def _(student, draw):
    """No block at all, and the longest text."""
    check_trace(student, draw, 2, 9, n_layers=0, position=draw.choice(["learned", "rope"]))


@HIDDEN.check("04.tiny_decoder")
def _(student, draw):
    """Other sizes: the parameters, and no look ahead."""
    tiny = Tiny(student, 41, 24, draw.integer(1, 5), draw.choice([1, 3, 4]), 13)
    check_count(tiny, draw)
    check_causal(tiny, draw)


@HIDDEN.check("04.tiny_decoder")
def _(student, draw):
    """The first loss of a wide model."""
    check_first_loss(Tiny(student, 30, 320, 1, 4, 8), draw)


@HIDDEN.check("04.tiny_decoder")
def _(student, draw):
    """Both ends, for one word and for the longest text."""
    for length in (1, 2, 11):  # with 2, as many rows as positions
        check_ends(Tiny(student, 29, 12, 2, 3, 11), draw, length)


@HIDDEN.check("04.tiny_decoder")
def _(student, draw):
    """What the head reads, and that rows do not mix."""
    tiny = Tiny(student, 37, 12, 3, 2, 9)
    E, _ = tiny.fill(draw, 0.5)
    tokens = draw.integers(0, 37, 3, 9)
    z = tiny.logits(tokens)
    read = z @ torch.linalg.pinv(E).T
    says = "The head reads vectors that are not normalized: the last thing before it is the norm."
    require(close(read.square().mean(dim=-1), torch.ones(3, 9), 1e-2), says)
    run = tiny.student.run(tiny.kept, tokens, training=False)
    says = "Training and evaluation differ. Is there dropout? Nobody asked for it."
    compare(tensor(run.value, z.shape), z, says=says)
    compare(tiny.logits(tokens[1:2]), z[1:2], says="A row's logits depend on the other rows.")


@HIDDEN.check("04.tiny_decoder")
def _(student, draw):
    """That the number of heads matters."""
    one, three = (Tiny(student, 37, 12, 2, n_heads, 9) for n_heads in (1, 3))
    shapes = [{name: t.shape for name, t in tiny.state.items()} for tiny in (one, three)]
    if shapes[0] != shapes[1]:
        return  # each head has matrices of its own
    one.fill(draw, 0.5)
    student.load(three.kept, student.state(one.kept))
    tokens = draw.integers(0, 37, 2, 8)
    says = "With the same weights, 1 head and 3 give the same logits. What does `n_heads` do?"
    require(not close(three.logits(tokens), one.logits(tokens), 1e-3), says)


@HIDDEN.check("04.tiny_decoder")
def _(student, draw):
    """The whole, against the package's model with the same weights, where blocks are its own."""
    tiny = Tiny(student, 37, 12, 3, draw.choice([2, 3, 6]), 9)
    E, P = tiny.fill(draw, 0.5)
    state = student.state(tiny.kept)
    model = DecoderLM(tiny.config).requires_grad_(False)
    model.stack.embedding.weight.copy_(E)
    model.stack.positions.embedding.weight.copy_(P)
    for name in model.stack.blocks[0].state_dict():
        found = [t for k, t in state.items() if k.endswith(f".{name}")]
        if len(found) != tiny.N:
            return  # blocks of another kind: the other checks have to do
        for block, weight in zip(model.stack.blocks, found, strict=True):
            block.get_parameter(name).copy_(weight)
    tokens = draw.integers(0, 37, 2, 8)
    compare(
        tiny.logits(tokens),
        model(tokens),
        says="The package's model gives other logits with the same weights. Are the blocks run in "
        "their order, once each, with `n_heads` heads?",
    )
