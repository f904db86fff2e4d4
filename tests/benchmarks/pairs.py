"""The same GPT-2 twice, ours and that of Hugging Face transformers, and a fair way to time both."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel

from tfcourse.architectures import DecoderLM
from tfcourse.config import ModelConfig
from tfcourse.losses import IGNORE

Loss = Callable[[Tensor, Tensor], Tensor]
Step = Callable[[Tensor, Tensor], float]


def make_pair(vocab_size: int = 4096) -> tuple[DecoderLM, GPT2LMHeadModel]:
    """Build both models, 6 layers of width 384 with 256 positions, with the same random weights."""
    torch.manual_seed(0)
    theirs = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=vocab_size,
            n_positions=256,
            n_embd=384,
            n_layer=6,
            n_head=6,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            attn_implementation="sdpa",
            bos_token_id=0,
            eos_token_id=None,
        )
    )
    ours = DecoderLM(
        ModelConfig(
            vocab_size=vocab_size,
            max_len=256,
            d_model=384,
            n_layers=6,
            n_heads=6,
            bias=True,
            activation="gelu_tanh",
        )
    )
    copy_weights(theirs, ours)
    return ours, theirs


def copy_weights(theirs: GPT2LMHeadModel, ours: DecoderLM) -> None:
    """Give our model the weights of theirs; each of ours is written exactly once."""
    written: set[int] = set()

    def copy(target: Tensor, source: Tensor) -> None:
        target.data.copy_(source)
        written.add(id(target))

    stack, body = ours.stack, theirs.transformer
    copy(stack.embedding.weight, body.wte.weight)
    copy(stack.positions.embedding.weight, body.wpe.weight)
    copy(stack.final_norm.weight, body.ln_f.weight)
    copy(stack.final_norm.bias, body.ln_f.bias)
    for block, layer in zip(stack.blocks, body.h, strict=True):
        attention, feed_forward = block.branches
        for mine, other in ((attention.norm, layer.ln_1), (feed_forward.norm, layer.ln_2)):
            copy(mine.weight, other.weight)
            copy(mine.bias, other.bias)
        for mine, other in (
            (attention.sublayer.qkv, layer.attn.c_attn),
            (attention.sublayer.out, layer.attn.c_proj),
            (feed_forward.sublayer.up, layer.mlp.c_fc),
            (feed_forward.sublayer.down, layer.mlp.c_proj),
        ):
            copy(mine.weight, other.weight.T)  # theirs is stored as [in, out]
            copy(mine.bias, other.bias)
    assert written == {id(parameter) for parameter in ours.parameters()}


def random_batch(vocab_size: int, rows: int = 8, length: int = 256) -> tuple[Tensor, Tensor]:
    """Draw token ids, and the targets that they give; the last position of a row has none."""
    tokens = torch.randint(vocab_size, (rows, length), generator=torch.Generator().manual_seed(1))
    return tokens, torch.cat([tokens[:, 1:], tokens.new_full((rows, 1), IGNORE)], dim=1)


def their_loss(theirs: GPT2LMHeadModel) -> Loss:
    """Return their loss as a function of tokens and targets; it shifts the tokens itself."""
    return lambda tokens, targets: theirs(tokens, labels=tokens, use_cache=False).loss


def training_step(model: nn.Module, loss_function: Loss, dtype: torch.dtype | None = None) -> Step:
    """Return a function that takes one step and returns the loss; it moves no weight (lr 0)."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, fused=True)
    model.train()

    def step(tokens: Tensor, targets: Tensor) -> float:
        with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
            loss = loss_function(tokens, targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return step


def alternate(sides: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Time the sides in turn and return the seconds of each run.

    Taking turns spreads the machine's moods over all sides. Each round starts with another side.
    """
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    names = list(sides)
    for i in range(rounds):
        for name in names[i % len(names) :] + names[: i % len(names)]:
            begin = time.perf_counter()
            sides[name]()
            seconds[name].append(time.perf_counter() - begin)
    return seconds


def ratio(base: list[float], side: list[float]) -> float:
    """Return how many times faster `side` is than `base`: the ratio of their medians."""
    return statistics.median(base) / statistics.median(side)
