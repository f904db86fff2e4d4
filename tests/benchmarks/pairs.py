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
from tfcourse.pretrained import to_hf

Loss = Callable[[Tensor, Tensor], Tensor]
Step = Callable[[Tensor, Tensor], float]


SMALLER_GPT2 = ModelConfig(
    vocab_size=4096,
    max_len=256,
    d_model=384,
    n_layers=6,
    n_heads=6,
    bias=True,
    activation="gelu_tanh",
)


def make_pair(config: ModelConfig = SMALLER_GPT2) -> tuple[DecoderLM, GPT2LMHeadModel]:
    """Build both models of a GPT-2's shape, with the same random weights."""
    torch.manual_seed(0)
    ours = DecoderLM(config)
    fields, weights = to_hf(ours, "gpt2")
    fields |= dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    fields |= {"activation_function": "gelu_new"}  # as in the files of GPT-2
    fields |= {"bos_token_id": 0, "eos_token_id": None, "attn_implementation": "sdpa"}
    theirs = GPT2LMHeadModel(GPT2Config.from_dict(fields))
    theirs.load_state_dict(weights | {"lm_head.weight": weights["transformer.wte.weight"]})
    return ours, theirs


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
    device = next(model.parameters()).device.type
    scaler = torch.amp.GradScaler(device, enabled=dtype is torch.float16)
    model.train()

    def step(tokens: Tensor, targets: Tensor) -> float:
        with torch.autocast(device, dtype=dtype, enabled=dtype is not None):
            loss = loss_function(tokens, targets)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
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
