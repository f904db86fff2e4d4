"""What the four documents claim about residuals, measured."""

from __future__ import annotations

import math

import pytest
import torch
from helpers import ids, loud, normal
from torch import nn
from torch.func import jacrev

from tfcourse.architectures import DecoderLM
from tfcourse.config import ModelConfig
from tfcourse.norms import LayerNorm
from tfcourse.probes import decompose, measure_stream, record_stream

WORDS = ids(4, 25, vocab_size=400)


def stack(n_layers: int, **switches) -> DecoderLM:
    torch.manual_seed(0)
    sizes = dict(vocab_size=400, d_model=64, n_layers=n_layers, max_len=32, norm_eps=1e-12)
    return DecoderLM(ModelConfig(**(sizes | switches)))


def measure(n_layers: int, **switches) -> dict:
    return measure_stream(stack(n_layers, **switches), WORDS[:, :-1], WORDS[:, 1:])


def one_branch(**switches) -> nn.Module:
    """An MLP branch that works on 16 features, its weights loud."""
    torch.manual_seed(0)
    config = ModelConfig(vocab_size=2, d_model=16, n_layers=1, **switches)
    return loud(DecoderLM(config)).requires_grad_(False).stack.blocks[0].feed_forward


def test_attention_and_mlp_return_to_the_width_of_the_stream(record):
    """Catches: an output projection that keeps the heads' or the hidden width."""
    block = stack(1, head_dim=24).stack.blocks[0]
    collected = block.attention.sublayer.out.weight.shape
    hidden = block.feed_forward.sublayer.down.weight.shape
    assert collected == (64, 4 * 24) and hidden == (64, 4 * 64)
    assert block(normal(2, 5, 64)).shape == (2, 5, 64)
    record(
        f"of {collected[1]} features attention returns {collected[0]}, "
        f"of {hidden[1]} the MLP returns {hidden[0]}"
    )


def test_the_jacobian_of_a_branch_is_the_identity_and_that_of_the_update(record):
    """Catches: a branch that scales x."""
    branch, x = one_branch(), normal(1, 1, 16)
    difference = (jacrev(branch)(x) - jacrev(branch.update)(x)).view(16, 16)
    error = float((difference - torch.eye(16)).abs().max())
    assert error < 1e-5
    record("with 16 features the two Jacobians differ from each other by I, to 1e-5")


def test_in_post_norm_the_norm_multiplies_the_identity_too(record):
    """Catches: a post-norm branch that adds after its norm."""
    branch, x = one_branch(norm_position="post"), normal(1, 1, 16)
    total = x + branch.update(x)
    inner = torch.eye(16) + jacrev(branch.update)(x).view(16, 16)
    of_norm = jacrev(branch.norm)(total).view(16, 16)
    whole = jacrev(branch)(x).view(16, 16)
    torch.testing.assert_close(whole, of_norm @ inner, atol=1e-4, rtol=1e-4)
    rank = int(torch.linalg.matrix_rank(of_norm, atol=1e-4))
    assert rank == 14
    record(
        "the Jacobian of the branch is that of its norm times (I + J), to 1e-4; "
        f"the norm's passes {rank} of 16 directions"
    )


def test_a_branch_that_writes_nothing_leaves_a_pre_norm_stream_as_it_was(record):
    """Catches: a norm on the way around."""
    x, changed = normal(2, 5, 64), {}
    for position in ("pre", "post"):
        block = stack(1, norm_position=position).stack.blocks[0]
        for branch in block.branches:
            list(branch.sublayer.parameters())[-1].data.zero_()  # the last matrix
        changed[position] = float((block(x) - x).detach().abs().max())
    assert changed["pre"] == 0 and changed["post"] > 0.1
    record(
        "with updates of 0 a pre-norm block returns its input bit for bit, a post-norm block not"
    )


def test_the_stream_is_a_sum_of_what_was_written(record):
    """Catches: an increment left out, or counted after the norm."""
    model = loud(stack(12)).eval()
    tokens = WORDS[:, :-1]
    parts, last = decompose(model, tokens), record_stream(model, tokens)[-1]
    error = float((parts.sum(dim=0) - last).abs().max() / last.abs().max())
    assert len(parts) == 25 and error < 1e-5
    with pytest.raises(ValueError, match="no exact sum"):
        decompose(stack(2, norm_position="post"), tokens)
    record(f"12 blocks: {len(parts)} parts add up to the stream, to 1e-5 of its largest number")


def test_post_norm_replaces_the_size_of_the_stream_twice_a_block(record):
    """Catches: a post-norm branch whose norm stands before the sum."""
    sizes = {}
    for position in ("pre", "post"):
        model = stack(4, norm_position=position)
        stream = record_stream(model, WORDS[:, :-1])
        sizes[position] = stream.square().mean(dim=(1, 2, 3)).sqrt()  # [parts]
    assert len(sizes["post"]) == 9
    torch.testing.assert_close(sizes["post"][1:], torch.ones(8), atol=1e-3, rtol=0)
    assert float(sizes["pre"].max()) < 0.1
    record(
        f"4 untrained blocks: post-norm sets the size to {float(sizes['post'][-1]):.2f} "
        f"after each of {len(sizes['post']) - 1} additions; in pre-norm it is nowhere set"
    )


def test_32_blocks_are_64_branches(record):
    """Catches: a sublayer that is no branch of its own."""
    model = stack(32)
    branches = sum(len(block.branches) for block in model.stack.blocks)
    norms = sum(isinstance(layer, LayerNorm) for layer in model.modules())
    assert (branches, norms) == (64, 65)
    record(f"32 blocks: {branches} branches and {norms} norms")


def test_with_residuals_the_first_gradient_does_not_depend_on_the_depth(record):
    """Catches: branches whose first size does not shrink with the depth."""
    first = [measure(n)["weight_gradient"][0] for n in (4, 16, 64)]
    assert max(first) < 1.2 * min(first)
    record(f"gradient at block 1 of 4, 16 and 64: {', '.join(f'{g:.1f}' for g in first)}")


def test_without_residuals_positions_become_alike_and_the_gradient_stays(record):
    """Catches: `residual=False` that still adds x."""
    lines = []
    for n in (12, 32):
        kept, dropped = measure(n), measure(n, residual=False)
        ratio = dropped["weight_gradient"][0] / kept["weight_gradient"][0]
        assert dropped["cosine"][-1] > 0.99 > 0.1 > kept["cosine"][-1]
        assert ratio > 5
        assert dropped["query_key_gradient"][0] < kept["query_key_gradient"][0] / 4
        lines.append(
            f"{n} blocks: cosine between positions {dropped['cosine'][-1]:.2f} "
            f"without and {kept['cosine'][-1]:.1f} with residuals"
        )
    record(f"{'; '.join(lines)}; the gradient at block 1 is over 5 times as large without")


def test_the_gradient_vanishes_where_norms_no_longer_work(record):
    """Catches: a norm that ignores ε."""
    small, usual = (
        [measure(n, residual=False, norm_eps=eps)["weight_gradient"][0] for n in (4, 64)]
        for eps in (1e-12, 1e-5)
    )
    assert min(small) > 1 and usual[0] > 1 and usual[1] < 1e-15
    power = [round(math.log10(g)) for g in (small[1], usual[1])]
    record(
        f"gradient at block 1 of 64, without residuals: 10^{power[0]} with ε = 1e-12, "
        f"10^{power[1]} with ε = 1e-5"
    )


def test_decay_lets_the_first_gradient_rise(record):
    """Catches: α applied to the update in place of the stream."""
    alphas, lines = (1.0, 0.9, 0.5), []
    for n in (12, 32):
        runs = [measure(n, residual_decay=alpha) for alpha in alphas]
        gradients = [run["weight_gradient"][0] for run in runs]
        assert gradients == sorted(gradients)
        assert runs[-1]["cosine"][-1] > 0.95
        lines.append(f"{', '.join(f'{g:.2g}' for g in gradients)} at {n} blocks")
    record(f"gradient at block 1 for α = 1, 0.9, 0.5: {'; '.join(lines)}")


def test_a_scaled_start_keeps_the_stream_from_growing_with_the_depth(record):
    """Undone, by multiplying each branch's last matrix by the root of 2N, it grows.

    Catches: an initialization that is the same for every depth.
    """
    growth = {}
    for n in (8, 32):
        for scaled in (True, False):
            model = stack(n)
            if not scaled:
                for block in model.stack.blocks:
                    for branch in block.branches:
                        list(branch.sublayer.parameters())[-1].data.mul_(math.sqrt(2 * n))
            size = record_stream(model, WORDS[:, :-1]).square().mean(dim=(1, 2, 3)).sqrt()
            growth[n, scaled] = float(size[-1] / size[0])
    assert growth[32, True] < 1.1 * growth[8, True]
    assert growth[32, False] > 1.7 * growth[8, False]
    record(
        f"growth of an untrained stream over 8 and 32 blocks: {growth[8, True]:.1f} and "
        f"{growth[32, True]:.1f} times scaled, {growth[8, False]:.0f} and "
        f"{growth[32, False]:.0f} times unscaled"
    )


def test_a_sum_limits_nothing_and_can_cancel(record):
    """Catches: one factor of the root of 2 per block in place of one per branch."""
    torch.manual_seed(0)
    x = start = torch.randn(1, 512)
    for _ in range(64):
        x = x + x @ torch.randn(512, 512) / math.sqrt(512)
    growth = math.log10(float(x.norm() / start.norm()))
    assert abs(growth - 32 * math.log10(2)) < 0.3
    cancelled = jacrev(lambda x: x + (-x))(start[0, :4])
    assert not cancelled.any()
    record(
        f"64 random branches without norms: grown 10^{growth:.0f} times; "
        "with F(x) = −x the gradient is 0"
    )


# Trained: an order-1 source, as in the chapter.


class Toy:
    """Texts in which each of 32 words depends on the one before it."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.table = torch.softmax(2 * torch.randn(32, 32), dim=-1)
        often = torch.linalg.matrix_power(self.table, 100)[0]
        self.floor = float(-(often @ (self.table * self.table.log()).sum(dim=-1)))
        self.frequencies = float(-(often * often.log()).sum())

    def sample(self, rows: int, length: int, generator: torch.Generator) -> torch.Tensor:
        text = torch.randint(32, (rows, 1), generator=generator)
        for _ in range(length):
            following = torch.multinomial(self.table[text[:, -1]], 1, generator=generator)
            text = torch.cat([text, following], dim=1)
        return text

    def train(self, n_layers: int = 12, steps: int = 40, lr: float = 5e-3, **switches) -> float:
        """Return the mean loss of the last 20 steps."""
        torch.manual_seed(0)
        sizes = dict(vocab_size=32, d_model=32, n_layers=n_layers, max_len=16, norm_eps=1e-12)
        model = DecoderLM(ModelConfig(**sizes, **switches))
        optimizer = torch.optim.Adam(model.parameters(), lr=lr, betas=(0.9, 0.98), fused=True)
        generator, losses = torch.Generator().manual_seed(0), []
        for step in range(steps):
            optimizer.param_groups[0]["lr"] = lr * min(1, (step + 1) / 20)
            text = self.sample(16, 16, generator)
            loss = model.loss(text[:, :-1], text[:, 1:])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        return sum(losses[-20:]) / 20


@pytest.fixture(scope="module")
def toy() -> Toy:
    return Toy()


@pytest.mark.slow
def test_little_decay_trains_and_strong_decay_learns_frequencies_alone(record, toy):
    """Catches: α applied to the update; a decay that is not repeated at each branch."""
    losses = [toy.train(steps=60, residual_decay=alpha) for alpha in (1.0, 0.9, 0.7)]
    assert losses[1] < toy.frequencies - 0.7
    assert abs(losses[2] - toy.frequencies) < 0.1
    record(
        f"12 blocks, 60 steps, α = 1, 0.9, 0.7: loss {', '.join(f'{x:.1f}' for x in losses)}; "
        f"word frequencies alone give {toy.frequencies:.1f}"
    )


@pytest.mark.slow
def test_12_blocks_without_residuals_learn_frequencies_alone_at_three_rates(record, toy):
    """Catches: `residual=False` that still adds x."""
    rates = (1e-3, 5e-3, 2e-2)
    losses = [toy.train(lr=lr, residual=False) for lr in rates]
    assert all(abs(loss - toy.frequencies) < 0.1 for loss in losses)
    record(
        f"12 blocks without residuals, 40 steps, rates 0.001, 0.005 and 0.02: loss "
        f"{', '.join(f'{x:.1f}' for x in losses)}; word frequencies alone give "
        f"{toy.frequencies:.1f}"
    )


@pytest.mark.slow
def test_32_blocks_train_with_residuals_alone(record, toy):
    """Catches: a residual switch that reaches one of the two branches."""
    kept, dropped = (toy.train(32, 35, residual=residual) for residual in (True, False))
    assert kept < toy.frequencies - 0.5
    assert abs(dropped - toy.frequencies) < 0.1
    record(
        f"32 blocks, 35 steps: loss {kept:.1f} with residuals, {dropped:.1f} without; "
        f"word frequencies alone give {toy.frequencies:.1f}"
    )
