"""What the two pages of chapter 03 say in their text, figures and widgets holds for the package."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from helpers import WORDS, last_gradient, loud, normal, untrained
from torch import nn

from tfcourse.architectures import DecoderLM
from tfcourse.attention import MultiHeadAttention
from tfcourse.blocks import Block
from tfcourse.config import ModelConfig
from tfcourse.data.batching import EmailData
from tfcourse.data.emails import EMAILS
from tfcourse.feedforward import ACTIVATIONS, FeedForward
from tfcourse.figures import blocks as figures
from tfcourse.figures.attention import draw_map
from tfcourse.losses import IGNORE
from tfcourse.probes import record_stream
from tfcourse.widgets import AttentionTriangle, FourMoves

CHAPTERS = Path(__file__).parent.parent / "chapters"


def widget_state(page: str, trait: str) -> dict:
    """The state of the page's widget, as it is stored in the notebook."""
    metadata = json.loads((CHAPTERS / page).read_text(encoding="utf-8"))["metadata"]
    models = metadata["widgets"]["application/vnd.jupyter.widget-state+json"]["state"]
    (state,) = [m["state"] for m in models.values() if trait in m["state"]]
    return state


def one_layer(seed: int = 0, **fields) -> MultiHeadAttention:
    torch.manual_seed(seed)
    return MultiHeadAttention(ModelConfig(vocab_size=2, **fields))


# Attention.


def test_the_email_at_the_start_and_the_names_that_return():
    """365 names, 24 distances from 14 to 38, and the best one right in one of eight.

    Catches: a changed grammar; a distance counted from another mention than the first.
    """
    data = EmailData(n_held_out=200)
    distances = []
    for n, row in enumerate(next(data.held_out_batches(200)).targets):
        email = [data.decode([t]) for t in row.tolist() if t not in (IGNORE, data.eos_id)]
        if n == 0:  # "36 words earlier" on the card
            assert email[-1] == "Ivan" and len(email) - 1 - email.index("Ivan") == 36
        sender = [t for t in EMAILS.score(email) if t.word == email[-1]][-1]
        assert (sender.kind, sender.slot) == ("again", "from")  # "like all of them"
        first: dict[str, int] = {}
        for place, token in enumerate(EMAILS.score(email)):
            if token.kind == "new":
                first.setdefault(token.slot, place)
            elif token.kind == "again" and token.slot in ("to", "from", "cc"):
                distances.append(place - 1 - first[token.slot])
    counts = [distances.count(d) for d in set(distances)]
    assert (len(distances), len(counts)) == (365, 24)
    assert (min(distances), max(distances)) == (14, 38)
    assert round(max(counts) / 365, 2) == 0.12


def test_three_words_by_hand_are_what_the_layer_computes():
    """0.11, 0.79, 0.11 for the comma; with the mask [1 0 0] and [½ ½ 0] above it.

    Catches: a division by d_k in place of its root; a mask after the softmax.
    """
    x = torch.tensor([[[1.0, 0, 0, 0], [0, 1, 0, 1], [0, 0, 1, 0]]])
    layer = one_layer(d_model=4, n_heads=1).requires_grad_(False)
    layer.qkv.weight.zero_()
    layer.qkv.weight[1, 2] = layer.qkv.weight[4 + 1, 1] = 2
    layer.qkv.weight[8:] = torch.eye(4)
    layer.out.weight[:] = torch.eye(4)
    y, weights = layer.with_weights(x)
    e2 = math.exp(2)
    comma = torch.tensor([1, e2, 1]) / (2 + e2)
    expected = torch.stack([torch.tensor([1.0, 0, 0]), torch.tensor([0.5, 0.5, 0]), comma])
    torch.testing.assert_close(weights[0, 0], expected)
    assert (weights[0, 0].triu(1) == 0).all()
    torch.testing.assert_close(y[0, 2], torch.tensor([comma[0], comma[1], comma[2], comma[1]]))
    assert [round(float(w), 2) for w in comma] == [0.11, 0.79, 0.11]


@pytest.mark.parametrize("seed", range(5))
def test_without_the_division_a_wide_softmax_saturates(seed):
    """The table over d_k, in five draws. Catches: weights that are divided twice, or not at all."""
    torch.manual_seed(seed)
    raw, divided = {}, {}
    for d_k in (1, 4, 16, 64, 256):
        scores = (torch.randn(2000, 1, d_k) @ torch.randn(2000, 10, d_k).mT)[:, 0]
        assert float(scores.std()) == pytest.approx(math.sqrt(d_k), rel=0.1)
        raw[d_k] = float(scores.softmax(-1).amax(-1).mean())
        divided[d_k] = float((scores / math.sqrt(d_k)).softmax(-1).amax(-1).mean())
    assert raw[64] > 0.8 and raw[256] > 0.9
    assert all(0.25 < value < 0.35 for value in divided.values())


@pytest.mark.parametrize("seed", range(5))
def test_without_the_division_weights_answer_less_and_the_queries_get_more_gradient(seed):
    """ "Several times": more than three times as much in each of five draws.

    Catches: a factor that reaches the gradient but not the scores.
    """
    layer = one_layer(seed, d_model=256, n_heads=1, causal=False)
    nn.init.normal_(layer.qkv.weight, std=1 / 16)
    x, direction = torch.randn(32, 10, 256), torch.randn(32, 10, 256)
    answers, gradients = [], []
    for factor in (1.0, 16.0):
        weight = layer.qkv.weight.detach().clone()
        weight[:256] *= factor
        weight.requires_grad_()
        y, a = torch.func.functional_call(_WithWeights(layer), {"layer.qkv.weight": weight}, (x,))
        (y * direction).sum().backward()
        answers.append(float((a.detach() * (1 - a.detach())).sum(-1).mean()))
        gradients.append(float(weight.grad[:256].norm()) * factor)
    assert answers[0] > 0.75 and answers[1] < 0.15
    assert gradients[1] > 3 * gradients[0]


class _WithWeights(nn.Module):
    def __init__(self, layer: MultiHeadAttention) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer.with_weights(x)


@pytest.mark.parametrize("d", [64, 128, 512])
def test_at_the_packages_own_start_no_weight_is_large_in_a_small_model_divided_or_not(d):
    """ "None stands out" among ten at 64 and 128, "at 512 they need it": without the division a
    third and more goes to one. Catches: an initialization with larger queries and keys.
    """
    torch.manual_seed(0)
    block = DecoderLM(ModelConfig(vocab_size=2, d_model=d, n_layers=1)).stack.blocks[0]
    layer, x = block.attention.sublayer, block.attention.norm(normal(4, 10, d))
    for factor in (1.0, math.sqrt(layer.head_dim)):
        with torch.no_grad():
            layer.qkv.weight[:d] *= factor
        weights = layer.with_weights(x)[1][:, :, -1].detach()  # the last of 10 readers
        if d < 512 or factor == 1:
            assert float(weights.amax()) < 0.3 and float(weights.amax(-1).mean()) < 0.2
        else:
            assert float(weights.amax()) > 0.6 and float(weights.amax(-1).mean()) > 0.35


def test_a_first_layer_that_carries_the_word_before_lets_a_second_find_what_followed():
    """The hand-made pair of heads is right always; the second alone is not.

    Catches: a first layer that does not look one place back.
    """
    V, L = 8, 16
    first, second = induction_pair(V, L)
    right = alone = asked = 0
    for seed in range(50):
        torch.manual_seed(seed)
        period = int(torch.randint(3, V + 1, ()))
        text = torch.randperm(V)[:period].repeat(L)[:L]
        x = torch.zeros(1, L, 2 * V + L)
        x[0, torch.arange(1, L), text[: L - 1]] = 1
        x[0, torch.arange(L), 2 * V + torch.arange(L)] = 1
        target = text[period + 1 :]
        right += int((second(x + first(x))[0, period + 1 :, :V].argmax(-1) == target).sum())
        alone += int((second(x)[0, period + 1 :, :V].argmax(-1) == target).sum())
        asked += len(target)
    assert right == asked
    assert alone < asked / 2


def induction_pair(V: int, L: int) -> tuple[MultiHeadAttention, MultiHeadAttention]:
    d = 2 * V + L
    layers = [one_layer(d_model=d, n_heads=1).requires_grad_(False) for _ in range(2)]
    for n, layer in enumerate(layers):
        layer.qkv.weight.zero_()
        layer.out.weight.zero_()
        q, k, v = layer.qkv.weight.chunk(3)
        for w in range(V):
            v[w, w] = 1
            layer.out.weight[(V if n == 0 else 0) + w, w] = 1
            if n == 1:
                q[w, w] = k[w, V + w] = 20
        if n == 0:
            for j in range(L - 1):
                q[j, 2 * V + j + 1] = k[j, 2 * V + j] = 20
    return layers[0], layers[1]


def test_the_map_marks_the_words_of_the_answer():
    """Catches: weights of another row; an answer in the colour of the others."""
    weights = torch.eye(4)
    weights[3] = torch.tensor([0.1, 0.6, 0.2, 0.1])
    _, below = draw_map(weights, ["a", "b", "c", "d"], row=3, columns=[1]).axes
    assert [bar.get_width() for bar in below.patches] == pytest.approx([0.1, 0.6, 0.2, 0.1])
    colors = [bar.get_facecolor() for bar in below.patches]
    assert [color == colors[1] for color in colors] == [False, True, False, False]
    assert [text.get_text() for text in below.get_yticklabels()] == ["0: a", "1: b", "2: c", "3: d"]


def test_the_triangle_shows_what_the_layer_computes():
    """Six digits are stored; 1e-3 leaves room for another CPU's rounding.

    Catches: a state that was not stored again after attention changed; weights of a reader that
    looks ahead; the two settings of the division swapped.
    """
    state = widget_state("03_attention.ipynb", "readings")
    torch.manual_seed(4)
    checked = 0
    for width in (1, 4, 16, 64, 256):
        layer = MultiHeadAttention(ModelConfig(vocab_size=2, d_model=width, n_heads=1))
        nn.init.normal_(layer.qkv.weight, std=width**-0.5)
        x = torch.randn(1, 3, width)
        q, k, _ = layer.qkv(x)[0].detach().chunk(3, dim=-1)
        raw = q @ k.T
        for stored in state["readings"]:
            if stored["width"] != width:
                continue
            i = stored["reader"]
            scores = raw[i, : i + 1] / (math.sqrt(width) if stored["divided"] else 1)
            assert stored["scores"] == pytest.approx(scores.tolist(), abs=1e-3, rel=1e-3)
            assert stored["weights"] == pytest.approx(scores.softmax(0).tolist(), abs=1e-3)
            checked += 1
    assert checked == 30
    assert (state["width"], state["divided"], state["reader"]) == (4, True, 2)


def test_the_triangle_tells_its_story():
    """As the text below it says: into a corner without the division, well inside with it.

    Catches: a draw in which nothing is to be seen.
    """
    readings = widget_state("03_attention.ipynb", "readings")["readings"]
    largest = {(r["width"], r["divided"]): max(r["weights"]) for r in readings if r["reader"] == 2}
    assert largest[64, False] > 0.99 and largest[256, False] > 0.99
    assert all(largest[width, True] < 0.9 for width in (1, 4, 16, 64, 256))


# The MLP.


def test_two_rows_of_relu_make_an_absolute_value():
    """The worked example. Catches: an activation before the first matrix."""
    mlp = FeedForward(ModelConfig(vocab_size=2, d_model=2, n_heads=1, d_ff=3, activation="relu"))
    mlp.requires_grad_(False)
    mlp.up.weight[:] = torch.tensor([[1.0, 0], [-1, 0], [0, 1]])
    mlp.down.weight[:] = torch.tensor([[1.0, 1, 0], [0, 0, 1]])
    x = torch.tensor([[[3.0, -2], [-3, -2], [-1, 5]]])
    assert mlp(x)[0].tolist() == [[3, 0], [3, 0], [1, 5]]


@pytest.mark.parametrize("seed", range(5))
def test_about_half_of_the_rows_bend_on_a_straight_walk(seed):
    """In five draws, at four widths. Tolerance: 15 points, for the smallest width.

    Catches: bends counted once per step in place of once per row.
    """
    torch.manual_seed(seed)
    start, end = torch.randn(2, 64)
    walk = start + torch.linspace(0, 1, 1001)[:, None] * (end - start)
    for factor in (1, 2, 4, 8):
        on = walk @ torch.randn(factor * 64, 64).T > 0
        bends = int((on[1:] != on[:-1]).sum())
        assert abs(bends / (factor * 64) - 0.5) < 0.15


def test_the_activations_are_drawn_as_the_package_computes_them():
    """Catches: a curve under another name."""
    (axes,) = figures.draw_activations(("relu", "gelu", "silu")).axes
    for line, text in zip(axes.lines, axes.texts, strict=True):
        z = torch.as_tensor(line.get_xdata())
        drawn = torch.as_tensor(line.get_ydata())
        torch.testing.assert_close(drawn, ACTIVATIONS[text.get_text().lower()](z))


# The block in both orders.


def both_orders(**fields) -> dict[str, Block]:
    sizes = dict(vocab_size=2, d_model=8, n_heads=2) | fields
    pair = {o: loud(Block(ModelConfig(**sizes, norm_position=o))) for o in ("pre", "post")}
    pair["post"].load_state_dict(pair["pre"].state_dict())
    return {order: block.requires_grad_(False) for order, block in pair.items()}


def test_the_recorded_moves_are_the_equations():
    """Each recorded tensor, against the equations of the text.

    Catches: a norm drawn on the wrong side; a sum taken for a norm.
    """
    x = normal(2, 5, 8)
    pre, post = both_orders().values()
    attend, think = pre.attention.sublayer, pre.feed_forward.sublayer
    n1, n2 = pre.attention.norm, pre.feed_forward.norm

    u = x + attend(n1(x))
    expected = [
        ("input", x, None), ("norm", x, n1(x)), ("attention", x, attend(n1(x))), ("add", u, None),
        ("norm", u, n2(u)), ("MLP", u, think(n2(u))), ("add", u + think(n2(u)), None),
    ]  # fmt: skip
    check_moves(figures.record_moves(pre, x), expected)

    a, u = x + attend(x), n1(x + attend(x))
    expected = [
        ("input", x, None), ("attention", x, attend(x)), ("add", a, None), ("norm", u, None),
        ("MLP", u, think(u)), ("add", u + think(u), None), ("norm", n2(u + think(u)), None),
    ]  # fmt: skip
    check_moves(figures.record_moves(post, x), expected)


def check_moves(moves, expected) -> None:
    assert [move.name for move in moves] == [name for name, *_ in expected]
    for move, (_, stream, branch) in zip(moves, expected, strict=True):
        torch.testing.assert_close(move.stream, stream)
        assert (move.branch is None) == (branch is None)
        if branch is not None:
            torch.testing.assert_close(move.branch, branch)


def test_recording_leaves_the_block_as_it_was():
    """Catches: hooks that stay."""
    (block, _) = both_orders().values()
    figures.record_moves(block, normal(1, 5, 8))
    assert not any(m._forward_hooks for m in block.modules())


@pytest.mark.nohook
def test_the_drawing_has_one_box_or_plus_for_each_move():
    """A norm of the stream stands on the stream's line, one of a branch beside it.

    Catches: both orders drawn alike.
    """
    x = normal(1, 5, 8)
    moves = {order: figures.record_moves(block, x) for order, block in both_orders().items()}
    (axes,) = figures.draw_moves(moves).axes
    marks = [
        (t.get_text().replace("+", "add"), *t.get_position())
        for t in axes.texts
        if t.get_text() in ("+", "norm", "attention", "MLP")
    ]
    for column, steps in enumerate(moves.values()):
        left = 2.9 * column
        mine = [m for m in marks if left - 0.5 < m[1] < left + 2]
        mine.sort(key=lambda m: m[2])
        assert [name for name, *_ in mine] == [step.name for step in steps[1:]]
        on_stream = [abs(at - left) < 0.1 for _, at, _ in mine]
        assert on_stream == [step.branch is None for step in steps[1:]]


def test_attention_alone_reaches_other_rows():
    """What the widget lets one find. Catches: a norm over positions; an MLP that mixes them."""
    for block in both_orders().values():
        steps = figures.perturb_rows(block, normal(5, 8), 0.5 * normal(8, seed=1))
        for before, step in pairwise(steps):
            for j in range(5):
                place = "stream_moved" if step["branch"] is None else "branch_moved"
                source = "branch_moved" if before["branch"] is not None else "stream_moved"
                was = {i for i in range(5) if before[source][j][i] > 1e-6}
                now = {i for i in range(5) if step[place][j][i] > 1e-6}
                if step["name"] == "attention":
                    assert was == {j} and now == set(range(j, 5))
                else:
                    assert now <= was | {i for i in range(5) if step["stream_moved"][j][i] > 1e-6}
                    assert now <= set(range(j, 5))


def test_the_four_moves_show_what_the_block_computes():
    """Catches: a state that was not stored again after the block changed; the orders swapped."""
    state = widget_state("03_blocks.ipynb", "blocks")
    torch.manual_seed(0)
    config = dict(vocab_size=2, d_model=8, n_heads=2)
    pair = {o: Block(ModelConfig(**config, norm_position=o)) for o in ("pre", "post")}
    for weight in pair["pre"].parameters():
        if weight.dim() == 2:
            nn.init.normal_(weight, std=weight.shape[1] ** -0.5)
    pair["post"].load_state_dict(pair["pre"].state_dict())
    x = torch.randn(1, 5, 8)
    shift = 0.5 * torch.randn(8)
    for order, block in pair.items():
        for stored, step in zip(
            state["blocks"][order], figures.perturb_rows(block, x[0], shift), strict=True
        ):
            assert stored["name"] == step["name"]
            for place in ("stream", "branch", "stream_moved", "branch_moved"):
                if step[place] is None:
                    assert stored[place] is None
                    continue
                for a, b in zip(stored[place], step[place], strict=True):
                    assert a == pytest.approx(b, abs=1e-3)
    last = torch.tensor(state["blocks"]["post"][-1]["stream"]).norm(dim=-1)
    torch.testing.assert_close(last, torch.full((5,), math.sqrt(8)), atol=1e-3, rtol=0)


def test_the_same_parts_in_the_other_order_give_another_result():
    """ "Noise in the other": the cosine between both results is far from 1.

    Catches: a switch that does nothing.
    """
    pre, post = both_orders(d_model=64, n_heads=4).values()
    x = normal(4, 10, 64)
    cosine = nn.functional.cosine_similarity(pre(x), post(x), dim=-1)
    assert float(cosine.mean()) < 0.9


# Before training: gradients and sizes. The stacks of the page.


@pytest.mark.parametrize("seed", range(5))
def test_the_order_with_more_gradient_depends_on_the_first_weights(seed):
    """Xavier: post-norm flat, pre-norm smaller and falling by half; the package: reversed.

    Catches: an initialization that changes the story.
    """
    post = [last_gradient(untrained(n, "post", "xavier", seed)) for n in (6, 24)]
    pre = [last_gradient(untrained(n, "pre", "xavier", seed)) for n in (6, 24)]
    assert post[1] == pytest.approx(post[0], rel=0.35)
    assert pre[0] < 0.7 * post[0] and 0.35 < pre[1] / pre[0] < 0.65
    post = [last_gradient(untrained(n, "post", "package", seed)) for n in (6, 24)]
    pre = [last_gradient(untrained(n, "pre", "package", seed)) for n in (6, 24)]
    assert min(pre) > 20 * max(post)
    assert max(pre) < 1.2 * min(pre) and max(post) < 1.2 * min(post)


@pytest.mark.parametrize("seed", range(3))
def test_the_final_norm_makes_the_gradient_of_the_last_mlp_large(seed):
    """With the package's weights a pre-norm stack loses its large gradient with its final norm,
    by as much as the stream is smaller than 1. Catches: a stream that is not small.
    """
    stack = untrained(6, weights="package", seed=seed)
    normed, size = last_gradient(stack), float(growth(stack)[-1])
    assert 0.02 < size < 0.04
    stack.stack.final_norm = nn.Identity()
    assert last_gradient(stack) == pytest.approx(normed * size, rel=0.2)


def growth(stack: DecoderLM) -> torch.Tensor:
    return record_stream(stack, WORDS[:, :-1])[::2].square().mean(dim=(1, 2, 3)).sqrt()


@pytest.mark.parametrize("seed", range(5))
def test_the_square_of_the_streams_size_grows_in_a_straight_line_under_xavier(seed):
    """Equal steps per 8 blocks, within 35 % of their mean. With the package's weights no growth
    with depth. Embedding rows are about 0.02 there.

    Catches: the size itself in a straight line; an initialization without 1/√2N.
    """
    squares = growth(untrained(24, seed=seed))[::8] ** 2
    steps = squares.diff()
    assert ((steps / steps.mean() - 1).abs() < 0.35).all()
    ratios = []
    for n in (6, 24):
        sizes = growth(untrained(n, weights="package", seed=seed))
        assert 0.015 < float(sizes[0]) < 0.025
        ratios.append(float(sizes[-1] / sizes[0]))
    assert ratios == pytest.approx([1.4, 1.4], abs=0.1)


@pytest.mark.parametrize("seed", range(3))
def test_without_the_final_norm_logits_grow_with_depth(seed):
    """Catches: a head that is not the same size in all three stacks."""
    bare, normed = [], []
    for n in (6, 12, 24):
        stack = untrained(n, seed=seed)
        with torch.no_grad():
            x = record_stream(stack, WORDS[:, :-1])[-1]
            bare.append(float(stack.head(x).std()))
            normed.append(float(stack.head(stack.stack.final_norm(x)).std()))
    assert bare[2] > 1.5 * bare[0]
    assert max(normed) < 1.1 * min(normed)


# The widgets refuse what they cannot show.


def reading(width=4, divided=True, reader=2, **changed):
    record = {
        "width": width,
        "divided": divided,
        "reader": reader,
        "scores": [-1.0] * (reader + 1),
        "weights": [1 / (reader + 1)] * (reader + 1),
    }
    return {**record, **changed}


def readings(widths=(1, 4)):
    return [reading(w, on, i) for w in widths for on in (True, False) for i in range(3)]


def triangle(**changed):
    given = dict(
        words=["a", "b", "c"], corners=[[0, 0], [0.5, 1], [1, 0]], readings=readings(), width=4
    )
    return AttentionTriangle(**{**given, **changed})


@pytest.mark.nohook
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"words": ["a"]}, "1 words and 3 corners; give 3 of each"),
        ({"readings": []}, "readings is empty"),
        ({"readings": readings()[1:]}, "0 records with width=1, divided=True, reader=0"),
        ({"readings": [*readings(), reading()]}, "2 records with width=4, divided=True, reader=2"),
        ({"readings": [reading(reader=3)]}, r"readings\[0\]\.reader=3; give 0, 1 or 2"),
        ({"readings": [reading(weights=[0.5, 0.1, 0.1])]}, r"weights add up to 0\.7"),
        ({"readings": [reading(scores=[0.0])]}, r"scores has 1 values; give 3"),
        ({"width": 9}, "width=9 was not computed; choose one of 1, 4"),
        ({"corners": [[0, 0], [math.nan, 1], [1, 0]]}, r"corners\[1\]\[0\]=nan"),
    ],
)
def test_the_triangle_refuses_what_it_cannot_show(changed, message):
    """Catches: any one of the checks taken out (its own line turns red)."""
    with pytest.raises(ValueError, match=message):
        triangle(**changed)


def step(length=3, **changed):
    rows = [[0.0, 1.0]] * length
    record = {
        "name": "norm",
        "stream": rows,
        "branch": rows,
        "stream_moved": [[0.0] * length] * length,
        "branch_moved": [[0.0] * length] * length,
    }
    return {**record, **changed}


def moves(**changed):
    given = dict(words=["a", "b", "c"], blocks={"pre": [step()] * 3, "post": [step()] * 3})
    return FourMoves(**{**given, **changed})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"blocks": {"pre": [step()] * 3}}, "blocks has no 'post'; give one"),
        ({"blocks": {"pre": [step()], "post": [step()]}}, r"blocks\['pre'\] has 1 steps"),
        ({"blocks": {"pre": [step()] * 3, "post": [step()] * 2}}, "same number of steps"),
        (
            {"blocks": {"pre": [step(), step(stream=[[0.0]])], "post": [step()] * 2}},
            r"blocks\['pre'\]\[1\]\.stream has 1 rows; give 3",
        ),
        (
            {"blocks": {"pre": [step(), step(stream_moved=[])], "post": [step()] * 2}},
            r"stream_moved has 0 lists; give 3",
        ),
        ({"step": 3}, "step=3; give a number from 0 to 2"),
        ({"changed": 3}, "changed=3; give a number from -1 to 2"),
        ({"row": 3}, "row=3; give a number from 0 to 2"),
    ],
)
def test_the_four_moves_refuse_what_they_cannot_show(changed, message):
    """Catches: any one of the checks taken out (its own line turns red)."""
    with pytest.raises(ValueError, match=message):
        moves(**changed)


@pytest.mark.parametrize(
    ("page", "trait", "cls"),
    [
        ("03_attention.ipynb", "readings", AttentionTriangle),
        ("03_blocks.ipynb", "blocks", FourMoves),
    ],
)
def test_the_stored_widgets_are_small_and_carry_the_script_of_today(page, trait, cls):
    """Catches: a script edited without `make chapters`; a state that grew."""
    state = widget_state(page, trait)
    assert state["_esm"] == str(cls._esm), "run: make chapters"
    assert state["_css"] == str(cls._css), "run: make chapters"
    assert str(cls._esm).count("export default") == 1
    assert len(json.dumps(state)) < 150_000
