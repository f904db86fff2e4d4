"""Chapter 00: what the four texts say about mixing, transforming and recurrence, measured."""

from __future__ import annotations

import math

import pytest
import torch
from helpers import ids, normal, tiny, tiny_lm
from torch import nn

from tfcourse.architectures import DecoderLM
from tfcourse.attention import MultiHeadAttention
from tfcourse.blocks import Block
from tfcourse.config import ModelConfig
from tfcourse.data.batching import EmailData
from tfcourse.data.bigrams import bigram_nats
from tfcourse.figures.graphs import longest_path
from tfcourse.figures.overview import answers, forward_stages, inside
from tfcourse.losses import IGNORE

WIDTH = 64


def loud_block(seed: int = 0, std: float = 0.25, **switches) -> Block:
    """A block whose weights are large enough that nothing hides in the rounding."""
    torch.manual_seed(seed)
    block = Block(ModelConfig(**dict(vocab_size=2, d_model=16, n_heads=2) | switches))
    for weight in block.parameters():
        if weight.dim() == 2:
            nn.init.normal_(weight, std=std)
    return block.requires_grad_(False)


def test_who_answers(record):
    """Catches: an MLP that looks sideways; attention that reads ahead or not at all."""
    earlier = torch.ones(6, 6, dtype=torch.bool).tril()
    for seed in range(5):
        block, x = loud_block(seed), normal(6, 16, seed=seed)
        assert torch.equal(answers(block.feed_forward.sublayer, x), torch.eye(6).bool())
        assert torch.equal(answers(block.attention.sublayer, x), earlier)
        assert torch.equal(answers(block, x), earlier)
        free = loud_block(seed, causal=False)
        assert answers(free.attention.sublayer, x).all()
    record(
        "One row of 6 changed, 5 seeds. MLP: that row alone moves. Causal attention: that row and "
        "all later ones. Without the mask: all."
    )


def test_without_attention_a_model_is_a_bigram_table(record):
    """One word, wherever it stands and whatever stands before it, gets one prediction; and the
    table of pairs is far above the floor. Catches: a position that leaks in; a block that mixes."""
    model = tiny_lm(attention=False, position="none")
    tokens = ids(4, 20)
    tokens[:, [3, 11, 19]] = 7
    with torch.no_grad():
        same = model(tokens)[:, [3, 11, 19]].flatten(0, 1)
    assert (same - same[0]).abs().max() < 1e-5
    placed = tiny_lm(attention=False, position="learned")
    with torch.no_grad():
        both = placed(tokens)
    assert (both[:, 3] - both[0, 3]).abs().max() < 1e-5
    assert (both[0, 3] - both[0, 11]).abs().max() > 0.1

    data = EmailData(n_held_out=200)
    n = sum(int((b.targets >= 0).sum()) for b in data.held_out_batches(200))
    floor = float(data.floor.sum()) / n
    word, place = (float(bigram_nats(data, 10_000, p).sum()) / n for p in (False, True))
    record(
        f"One prediction for one word, whatever came before it. On the emails, nats per token: "
        f"table of word pairs {word:.2f}, with the place {place:.2f}, floor {floor:.2f}."
    )


def test_order_comes_from_positions_or_the_mask(record):
    """Catches: positions added where there should be none; a mask that is always on."""
    blind = {}
    for position in ("none", "learned", "sinusoidal", "rope"):
        for causal in (False, True):
            model = tiny_lm(position=position, causal=causal)
            words, order = (
                ids(1, 12),
                torch.randperm(12, generator=torch.Generator().manual_seed(1)),
            )
            with torch.no_grad():
                gap = (model(words[:, order]) - model(words)[:, order]).abs().max()
            blind[position, causal] = bool(gap < 1e-3)
    assert [key for key, yes in blind.items() if yes] == [("none", False)]

    words, order = ids(1, 12), torch.tensor([4, 2, 0, 1, 3, 10, 9, 8, 7, 6, 5, 11])
    for layers, told in ((1, False), (2, True)):  # by the mask alone, to the last row
        model = tiny_lm(position="none", n_layers=layers)
        with torch.no_grad():
            gap = (model(words[:, order]) - model(words))[:, -1].abs().max()
        assert bool(gap > 1e-3) == told
    record(
        "Words shuffled: outputs are the same ones, shuffled, only without positions and without "
        "a mask. Learned, sinusoidal or rotary positions, or the mask alone, tell the order."
    )


def test_the_hull_of_the_values(record):
    """Two heads of one number each: what the two hand over, side by side, is a point in the plane.

    Catches: weights that are negative or do not add up to 1; a claim about the block that only
    holds for one head.
    """
    heads_out = concatenated_out = block_out = attention_out = 0
    for seed in range(20):
        x = normal(1, 8, 2, seed=seed)
        for n_heads in (1, 2):
            switches = dict(d_model=2, n_heads=n_heads, norm="rmsnorm", causal=False)
            block = loud_block(seed, std=1.0, **switches)
            layer, normed = block.attention.sublayer, block.attention.norm(x)
            _, values = layer.keys_and_values(normed)  # [1 H L k]
            output, weights = layer.with_weights(normed)
            mixed = weights @ values
            if n_heads == 1:
                heads_out += int((~inside(mixed[0, 0], values[0, 0])).sum())
                block_out += int((~inside(block(x)[0], x[0])).sum())
                attention_out += int((~inside(output[0], x[0])).sum())
            else:
                low, high = values[0].amin(dim=1), values[0].amax(dim=1)  # [H 1]
                assert (mixed[0] >= low[:, None] - 1e-5).all()
                assert (mixed[0] <= high[:, None] + 1e-5).all()
                points, corners = mixed[0, :, :, 0].T, values[0, :, :, 0].T
                concatenated_out += int((~inside(points, corners)).sum())
    assert heads_out == 0
    assert concatenated_out > 0 and attention_out > 16 and block_out > 16
    record(
        "160 rows of 20 untrained blocks: one head never leaves the hull of its values. Two heads "
        "side by side, the output matrix, and the whole block do."
    )


@pytest.mark.slow
def test_each_machine_alone(record):
    """Learn the last digit of a sum, from "a b =" to its answer. Every sum is trained on: this asks
    what a model can be, and not what it finds.

    Catches: an MLP that reads other rows; attention that is linear.
    """
    a, b = torch.meshgrid(torch.arange(10), torch.arange(10), indexing="ij")
    inputs = torch.stack([a.flatten(), b.flatten(), torch.full((100,), 10)], dim=1)
    targets = torch.full_like(inputs, IGNORE)
    targets[:, 2] = inputs[:, :2].sum(dim=1) % 10
    right = {}
    for name, switches in (("MLP", dict(attention=False)), ("attention", dict(mlp=False))):
        torch.manual_seed(0)
        config = ModelConfig(vocab_size=11, max_len=3, d_model=64, n_layers=2, **switches)
        model = DecoderLM(config)
        optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.0)
        for step in range(200):
            optimizer.param_groups[0]["lr"] = 5e-3 * min(1, (step + 1) / 20)
            optimizer.zero_grad()
            model.loss(inputs, targets).backward()
            optimizer.step()
        with torch.no_grad():
            right[name] = int((model(inputs)[:, 2].argmax(dim=1) == targets[:, 2]).sum())
    assert right["MLP"] == 10 and right["attention"] > 90
    record(
        "The last digit of a sum of two digits, two blocks: without attention 10 of 100 right, "
        "which is chance; attention without MLPs, over 90 of 100."
    )


def test_waiting(record):
    """Catches: a layer of attention whose positions wait for each other."""
    config = ModelConfig(vocab_size=2, d_model=4, n_heads=1)
    attention, cell = MultiHeadAttention(config), nn.LSTMCell(4, 4)

    def waits(n: int) -> tuple[int, int]:
        rows = [torch.randn(1, 4, requires_grad=True) for _ in range(n)]
        state = None
        for row in rows:
            state = cell(row, state)
        return longest_path(state[0]), longest_path(attention(torch.stack(rows, dim=1))[0, -1])

    lengths = (10, 20, 40)
    recurrent, mixing = zip(*(waits(n) for n in lengths), strict=True)
    per_word = (recurrent[1] - recurrent[0]) / 10
    assert recurrent[2] - recurrent[1] == 20 * per_word and per_word >= 1
    assert len(set(mixing)) == 1
    record(
        "Longest chain on autograd's graph: of an LSTM it grows by the same number with each "
        "word; of attention it is the same for 10, 20 and 40 words."
    )


def test_what_a_whole_layer_multiplies(record):
    """A row is multiplied by each weight of a matrix once; the mixing takes 2 L d more.

    Catches: a layer with more or fewer matrices than the text counts.
    """
    d = 64
    attention = MultiHeadAttention(ModelConfig(vocab_size=2, d_model=d))
    layers = {"attention": attention, "plain": nn.RNN(d, d), "LSTM": nn.LSTM(d, d)}
    matrices = {
        name: sum(p.numel() for p in layer.parameters() if p.dim() == 2) // d**2
        for name, layer in layers.items()
    }
    assert matrices == {"attention": 4, "plain": 2, "LSTM": 8}

    def whole(L: int) -> int:
        return L * matrices["attention"] * d**2 + 2 * L**2 * d  # scores, and the mean of values

    assert all(whole(L) > L * matrices["plain"] * d**2 for L in (1, d, 2 * d))
    assert whole(2 * d) == 2 * d * matrices["LSTM"] * d**2
    record(
        "Matrices of d × d that each row is multiplied by: attention 4, a plain recurrent layer 2, "
        "an LSTM 8. With scores and mean, attention needs as much as an LSTM at L = 2 d."
    )


def share_of_the_first(layer, length: int) -> float:
    return first_row_gradient(layer, length) / first_row_gradient(layer, 1)


def first_row_gradient(layer, length: int) -> float:
    generator = torch.Generator().manual_seed(length)
    x = torch.randn(4, length, WIDTH, generator=generator, dtype=torch.float64).requires_grad_()
    direction = torch.randn(4, WIDTH, generator=generator, dtype=torch.float64)
    (gradient,) = torch.autograd.grad((layer(x)[:, -1] * direction).sum(), x)
    return gradient[:, 0].norm(dim=1).mean().item()


@pytest.mark.slow
def test_the_gradient_of_the_first_word(record):
    """Catches: a story about LSTMs that only holds for one initialization."""
    words, shares = 800, {"plain": [], "bias 1": [], "bias 5": [], "attention": []}
    for seed in range(3):
        torch.manual_seed(seed)
        for name, forget_bias in (("plain", None), ("bias 1", 1.0), ("bias 5", 5.0)):
            lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True).double()
            if forget_bias is not None:
                nn.init.constant_(lstm.bias_hh_l0[WIDTH : 2 * WIDTH], forget_bias)
            shares[name].append(share_of_the_first(lambda x, lstm=lstm: lstm(x)[0], words))
        attention = MultiHeadAttention(ModelConfig(vocab_size=2, d_model=WIDTH)).double()
        shares["attention"].append(share_of_the_first(attention, words))
    assert max(shares["plain"]) < 1e-150
    assert min(shares["bias 1"]) > 1e-80 and max(shares["bias 1"]) < 1e-60
    assert min(shares["bias 5"]) > 0.1 and max(shares["bias 5"]) < 1e4
    assert all(0.3 / words < share < 3 / words for share in shares["attention"])
    record(
        "Gradient at the first of 800 words beside that of a text of one word, untrained, 3 seeds. "
        "LSTM as PyTorch makes it: below 10^-150. Forget bias 1: below 10^-60. Forget bias 5: "
        "not smaller than a tenth. Attention: about one part in 800."
    )


def test_layers_of_convolution_until_the_first_word_is_reached(record):
    """Catches: a stack of windows that reaches further than its arithmetic allows."""

    def layers_needed(length: int, spread: bool) -> int:
        x = torch.randn(1, 1, length, dtype=torch.float64, requires_grad=True)
        y, n = x, 0
        while True:
            gap = 3**n if spread else 1
            kernel = torch.ones(1, 1, 3, dtype=torch.float64)
            y = nn.functional.conv1d(nn.functional.pad(y, (2 * gap, 0)), kernel, dilation=gap)
            n += 1
            (gradient,) = torch.autograd.grad(y[0, 0, -1], x, retain_graph=True)
            if gradient[0, 0, 0]:
                return n

    lengths = (9, 27, 81)
    plain = [layers_needed(n, spread=False) for n in lengths]
    spread = [layers_needed(n, spread=True) for n in lengths]
    assert plain == [(n - 1) // 2 for n in lengths]
    assert spread == [round(math.log(n, 3)) for n in lengths]
    record(
        "Layers of window 3 until the last word sees the first, for 9, 27 and 81 words: "
        f"{', '.join(map(str, plain))}; with windows spread by powers of 3: "
        f"{', '.join(map(str, spread))}."
    )


def test_the_shape_from_end_to_end(record):
    """Catches: a block that returns another width; a head that does not."""
    model = DecoderLM(tiny(vocab_size=50, d_model=32, n_heads=4, n_layers=3))
    shapes = dict(forward_stages(model, ids(2, 9)))
    kept = ("embedding", "+ attention", "block 1", "block 2", "block 3", "final norm")
    assert {shapes[name] for name in kept} == {(2, 9, 32)}
    assert shapes["head"] == shapes["softmax"] == (2, 9, 50)
    assert shapes["queries, keys, values"][-1] == 3 * 32
    assert shapes["inside the MLP"][-1] == 4 * 32
    record(
        "[B L d] at every block boundary, up to the final norm; [B L V] after the head. Inside: "
        "3 d for queries, keys and values, 4 d in the MLP."
    )


def test_the_forward_pass_in_four_lines(record):
    """Embed, repeat the block, project, softmax; in pre-norm a norm stands before the head.

    Catches: a final norm in a post-norm stack, or none in a pre-norm one.
    """
    needed = {}
    for norm_position in ("post", "pre"):
        model = tiny_lm(norm_position=norm_position)
        tokens = ids(2, 9)
        with torch.no_grad():
            x = model.stack.embedding(tokens)
            x = model.stack.positions(x, torch.arange(9)[None])
            for block in model.stack.blocks:
                x = block(x)
            goal = model(tokens).softmax(dim=-1)
            plain = model.head(x).softmax(dim=-1)
            normed = model.head(model.stack.final_norm(x)).softmax(dim=-1)
        torch.testing.assert_close(normed, goal)
        needed[norm_position] = not torch.allclose(plain, goal, atol=1e-3)
    assert needed == {"post": False, "pre": True}
    record("The four lines give the model's own output; a pre-norm model needs its final norm too.")


def test_blocks_have_weights_of_their_own(record):
    """Catches: one block called N times."""
    model = tiny_lm(n_layers=3)
    shapes, storages = [], set()
    for block in model.stack.blocks:
        shapes.append([tuple(p.shape) for p in block.parameters()])
        storages |= {p.data_ptr() for p in block.parameters()}
    assert shapes[0] == shapes[1] == shapes[2]
    assert len(storages) == 3 * len(shapes[0])
    record("Three blocks: the same shapes, and no weight in common.")
