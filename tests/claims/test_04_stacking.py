"""Claims of the documents that chapter 04 weighs, measured with the package."""

from __future__ import annotations

import inspect
import math

import pytest
import torch
from helpers import ids
from published import SHAPE, published, question
from torch import nn

from tfcourse.architectures import DecoderLM, EncoderDecoder
from tfcourse.config import ModelConfig


def count(kind: type = DecoderLM, **changes) -> int:
    with torch.device("meta"):
        return kind(ModelConfig(**(SHAPE | changes))).n_params()


def tied_optimizers() -> tuple[DecoderLM, torch.Tensor]:
    torch.manual_seed(0)
    model = DecoderLM(ModelConfig(vocab_size=50, d_model=32, n_layers=1, max_len=8))
    words = ids(1, 8)
    model.loss(words[:, :-1], words[:, 1:]).backward()
    return model, model.head.weight.detach().clone()


@pytest.mark.slow
def test_sample_start(record):
    """K25. Catches: an initialization that differs from PyTorch's defaults."""
    x, y = question()
    losses, repeats = [], []
    for seed in range(3):
        model = published(seed)
        losses.append(float(model.loss(x, y)))
        repeats.append(float((model(x).argmax(dim=-1) == x).float().mean()))
    small = float(published(std=0.02).loss(x, y))
    assert min(losses) > 490 and max(losses) < 530 and min(repeats) == 1 and small < 8
    record(
        f"first loss about {round(sum(losses) / 3, -1):.0f} nats (ln 1000 = {math.log(1000):.1f}), "
        f"its own input predicted at {repeats[0]:.0%} of the positions; rows of std 0.02: "
        f"about {small:.0f}"
    )


def test_rows_of_2017(record):
    """K25, K24: rows of std 1/√d with √d. Catches: post-norm treated as pre-norm."""
    x, y = question()
    found = {}
    for order in ("post", "pre"):
        torch.manual_seed(0)
        config = ModelConfig(
            **SHAPE, norm_position=order, position="sinusoidal", activation="relu",
            embedding_scale=True,
        )  # fmt: skip
        model = DecoderLM(config).requires_grad_(False)
        for weight in model.stack.blocks.parameters():
            if weight.ndim == 2:
                nn.init.xavier_uniform_(weight)
        nn.init.normal_(model.stack.embedding.weight, std=512**-0.5)
        found[order] = float(model.loss(x, y))
    assert 7.2 < found["post"] < 8.2 < 9.5 < found["pre"] < 12.5
    record(
        f"rows of std 1/√d, √d scale, sinusoids, Xavier: first loss about {found['post']:.0f} nats "
        f"in post-norm order, about {found['pre']:.0f} in pre-norm order"
    )


def test_scale_deleted(record):
    """K23. Catches: a norm behind the embedding."""
    x, _ = question()
    moves = []
    for seed in range(3):
        model = published(seed)
        z = model(x)
        model.stack.embedding.scale = 1.0
        moves.append(float((model(x) - z).norm() / z.norm()))
    assert 0.63 < min(moves) <= max(moves) < 0.70
    record(f"logits move by {min(moves):.0%} to {max(moves):.0%} of their length (3 seeds)")


def test_hand_count(record):
    """K77. Catches: a bias, an untied head, another width of the MLP."""
    n = count()
    assert n == 512_000 + 262_144 + 6 * 3_147_776 + 1_024 == 19_661_824
    assert count(tie_embeddings=False) - n == 512_000
    factor = count(d_ff=4096) / n
    assert factor == pytest.approx(1.64, abs=0.001)
    record(f"{n:,} parameters; untied 512,000 more; d_ff doubled {factor:.2f} times as many")


def test_tying_saves(record):
    """K22. Catches: a decoder with a table of its own."""
    dv = 512 * 32_000
    two = (count(vocab_size=32_000, tie_embeddings=False) - count(vocab_size=32_000)) / dv
    untied = count(EncoderDecoder, vocab_size=32_000, tie_embeddings=False, position="sinusoidal")
    saved = untied - count(EncoderDecoder, vocab_size=32_000, position="sinusoidal")
    assert (two, saved / dv) == (1, 2)
    share = saved / untied
    assert share == pytest.approx(0.35, abs=0.005)
    record(
        f"decoder-only saves 1 × d·V; three-way tying saves 2 × d·V = {saved:,} at V = 32,000, "
        f"{share:.0%} of the untied model"
    )


def test_two_groups_and_two_optimizers(record):
    """K78. Catches: a torch that lets a parameter into two groups."""
    model, before = tied_optimizers()
    table, head = model.stack.embedding.weight, model.head.weight
    with pytest.raises(ValueError, match="more than one parameter group"):
        torch.optim.AdamW([{"params": [table]}, {"params": [head]}])
    ways = []
    for readers in ([table], [table, head]):
        table.data.copy_(before)
        for reader in readers:
            torch.optim.SGD([reader], lr=0.1).step()
        ways.append(float((table - before).norm()))
    assert ways[1] / ways[0] == pytest.approx(2, rel=1e-3)
    record(
        "two groups of one optimizer: ValueError; two optimizers: "
        f"{ways[1] / ways[0]:.1f} times as far in a step, without an error"
    )


def test_changed_d_ff(record):
    """K78. Catches: `load_state_dict` that lets a wrong shape pass."""
    sizes = dict(vocab_size=20, d_model=16, n_layers=1, max_len=8)
    stored = DecoderLM(ModelConfig(**sizes)).state_dict()
    other = DecoderLM(ModelConfig(**sizes, d_ff=48))
    for strict in (True, False):
        with pytest.raises(RuntimeError, match="size mismatch"):
            other.load_state_dict(stored, strict=strict)
    record("loading into another d_ff raises a size mismatch, also with strict=False")


def test_missing_final_norm(record):
    """K38. Catches: a final norm that does nothing."""
    x, _ = question()
    spread: dict[str, list[float]] = {"with": [], "without": []}
    for depth in (2, 48):
        for name, line in spread.items():
            torch.manual_seed(0)
            config = ModelConfig(vocab_size=1000, d_model=128, n_layers=depth, max_len=64)
            model = DecoderLM(config).requires_grad_(False)
            for weight in model.stack.blocks.parameters():
                if weight.ndim == 2:
                    nn.init.xavier_normal_(weight)
            if name == "without":
                model.stack.final_norm = nn.Identity()
            line.append(float(model(x).std()))
    kept, lost = (line[1] / line[0] for line in spread.values())
    assert kept == pytest.approx(1, abs=0.05) and 4 < lost < 6.5
    record(
        f"Xavier, 2 to 48 blocks: the logits' spread grows by a factor of about {lost:.0f} without "
        f"the norm, {kept:.1f} with it"
    )


def test_order_unnoticed(record):
    """K61. Catches: positions that are added although there are none."""
    words, order = ids(1, 8), torch.randperm(8, generator=torch.Generator().manual_seed(1))
    moved = {}
    for position in ("none", "learned", "sinusoidal", "rope"):
        for causal in (False, True):
            torch.manual_seed(0)
            sizes = dict(vocab_size=50, d_model=32, n_layers=2, max_len=8)
            model = DecoderLM(ModelConfig(**sizes, position=position, causal=causal))
            model.requires_grad_(False)
            for weight in model.parameters():
                if weight.ndim == 2:
                    nn.init.normal_(weight, std=0.3)
            after = model(words)[:, order]
            moved[position, causal] = float((model(words[:, order]) - after).norm() / after.norm())
    assert moved.pop(("none", False)) < 1e-5
    assert min(moved.values()) > 0.1
    before = [2, 5, 0, 6, 1, 4, 3, 7]  # the last word stays where it is
    masked = []
    for n_layers in (1, 2):
        torch.manual_seed(0)
        sizes = dict(vocab_size=50, d_model=32, n_layers=n_layers, max_len=8)
        model = DecoderLM(ModelConfig(**sizes, position="none")).requires_grad_(False)
        for weight in model.parameters():
            if weight.ndim == 2:
                nn.init.normal_(weight, std=0.3)
        z, after = (model(x)[0, -1] for x in (words, words[:, before]))
        masked.append(float((z - after).norm() / z.norm()))
    assert masked[0] < 1e-5 and masked[1] > 0.05
    record(
        "only the stack without positions and without a mask gives the same logits, shuffled; with "
        "the mask alone, the order of the words before the last moves its logits in a stack of two "
        "layers, and not in one of one"
    )


def test_blocks_own_weights(record):
    """K67, K68. Catches: one block called N times; a block that changes the shape."""
    model = DecoderLM(ModelConfig(vocab_size=20, d_model=16, n_layers=3, max_len=8))
    blocks = model.stack.blocks
    assert len({id(p) for b in blocks for p in b.parameters()}) == 3 * len(
        [*blocks[0].parameters()]
    )
    shapes = []
    for block in blocks:
        block.register_forward_hook(lambda m, i, out: shapes.append(tuple(out.shape)))
        block.feed_forward.sublayer.up.register_forward_hook(
            lambda m, i, out: shapes.append(tuple(out.shape))
        )
    model(ids(2, 5, vocab_size=20))
    assert shapes == [(2, 5, 64), (2, 5, 16)] * 3
    record("3 blocks, 3 sets of weights; [B, L, d] between blocks, d_ff wide inside the MLP")


def test_head_options(record):
    """D0's bias c. Catches: a bias per position."""
    assert count(head_bias=True) - count() == 1000
    assert "head_bias" in inspect.signature(ModelConfig).parameters
    record("a head with a bias has V = 1000 parameters more; without and with tying: an option")
