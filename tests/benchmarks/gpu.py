"""Measure training, decoding and resuming on one GPU; print a table for the CHANGELOG.

python -m tests.benchmarks.gpu            all parts, meant to take less than eight minutes
python -m tests.benchmarks.gpu decoding   one or some of them
python -m tests.benchmarks.gpu --small    the same at a small size, as always without a GPU
"""

from __future__ import annotations

import argparse
import gc
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.benchmarks.generation_speed import writers
from tests.benchmarks.pairs import (
    Loss,
    alternate,
    make_pair,
    random_batch,
    ratio,
    their_loss,
    training_step,
)
from tests.benchmarks.table import Line, machine, print_lines
from tfcourse import costs
from tfcourse.architectures import DecoderLM, Model, VisionTransformer
from tfcourse.checkpoints import load_checkpoint
from tfcourse.config import ModelConfig, TrainConfig
from tfcourse.data.batching import Batch, EmailData
from tfcourse.devices import choose_device, choose_precision, peak_flops
from tfcourse.presets import PRESETS
from tfcourse.training import train

GPT2 = PRESETS["gpt2"]["model"]
VIT = dict(d_model=384, n_layers=12, n_heads=6, patch_size=16, image_channels=3, bias=True)
STOP = 5  # the step after which the run that is resumed stops


@dataclass(frozen=True)
class Size:
    """What is measured: the shapes, and how often."""

    gpt2: ModelConfig
    vit: ModelConfig
    rows: int  # of max_len tokens in a training batch
    images: int
    new_tokens: int
    steps: int  # between two readings of the clock
    rounds: int
    backend: str = "inductor"  # of torch.compile


def full_size() -> Size:
    """GPT-2 small and ViT-S/16, with batches that the memory holds for all sides together."""
    gib = torch.cuda.get_device_properties(0).total_memory / 2**30
    rows = 2 ** int(math.log2(0.2 * gib))  # 2 on a T4, 16 on an H200
    vit = ModelConfig(**VIT, image_height=224, image_width=224, n_classes=1000)
    return Size(ModelConfig(**GPT2), vit, rows, 8 * rows, new_tokens=128, steps=10, rounds=5)


def small_size() -> Size:
    """The same kinds of model, in seconds on a CPU: compiled code is traced and not generated."""
    narrow = dict(d_model=32, n_layers=1, n_heads=2)
    gpt2 = ModelConfig(**GPT2 | narrow | dict(vocab_size=256, max_len=32))
    vit = ModelConfig(**VIT | narrow, image_height=32, image_width=32, n_classes=10)
    return Size(gpt2, vit, rows=2, images=2, new_tokens=8, steps=1, rounds=2, backend="aot_eager")


class Plain(nn.Module):
    """The language model that one gets from `torch.nn.TransformerEncoder`, with our weights."""

    def __init__(self, ours: DecoderLM) -> None:
        super().__init__()
        c = ours.config
        layer = nn.TransformerEncoderLayer(
            c.d_model,
            c.n_heads,
            c.d_ff,
            dropout=0.0,
            activation=partial(F.gelu, approximate="tanh"),
            batch_first=True,
            norm_first=True,
        )
        self.embedding = nn.Embedding(c.vocab_size, c.d_model)
        self.positions = nn.Embedding(c.max_len, c.d_model)
        self.encoder = nn.TransformerEncoder(
            layer, c.n_layers, nn.LayerNorm(c.d_model), enable_nested_tensor=False
        )
        self.embedding.load_state_dict(ours.stack.embedding.state_dict())
        self.positions.load_state_dict(ours.stack.positions.embedding.state_dict())
        self.encoder.norm.load_state_dict(ours.stack.final_norm.state_dict())
        for theirs, block in zip(self.encoder.layers, ours.stack.blocks, strict=True):
            attention, feed_forward = block.branches
            theirs.self_attn.in_proj_weight.data.copy_(attention.sublayer.qkv.weight)
            theirs.self_attn.in_proj_bias.data.copy_(attention.sublayer.qkv.bias)
            theirs.self_attn.out_proj.load_state_dict(attention.sublayer.out.state_dict())
            theirs.linear1.load_state_dict(feed_forward.sublayer.up.state_dict())
            theirs.linear2.load_state_dict(feed_forward.sublayer.down.state_dict())
            theirs.norm1.load_state_dict(attention.norm.state_dict())
            theirs.norm2.load_state_dict(feed_forward.norm.state_dict())

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[1]
        x = self.embedding(tokens) + self.positions(torch.arange(length, device=tokens.device))
        mask = nn.Transformer.generate_square_subsequent_mask(length, tokens.device)
        return F.linear(self.encoder(x, mask, is_causal=True), self.embedding.weight)

    def loss(self, tokens: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(self(tokens).flatten(0, 1).float(), targets.flatten())


def training(size: Size, device: torch.device) -> Iterator[Line]:
    """Train GPT-2's shape in turn: ours, Hugging Face's and torch's, each also compiled."""
    name, dtype = low_precision(device)
    ours, theirs = (model.to(device) for model in make_pair(size.gpt2))
    plain = Plain(ours).to(device)
    compiled = partial(torch.compile, backend=size.backend)
    losses: dict[str, tuple[nn.Module, Loss]] = {
        "ours": (ours, ours.loss),
        "HF": (theirs, their_loss(theirs)),
        "nn.TransformerEncoder": (plain, plain.loss),
        "ours, compiled": (ours, compiled(ours.loss)),
        "HF, compiled": (theirs, their_loss(compiled(theirs))),
        "nn.TransformerEncoder, compiled": (plain, compiled(plain.loss)),
    }
    batch = random_batch(size.gpt2.vocab_size, size.rows, size.gpt2.max_len)
    tokens, targets = (tensor.to(device) for tensor in batch)
    with torch.no_grad():  # in float32; all losses of untrained models are alike
        logits = [ours(tokens[:1]), theirs(tokens[:1]).logits, plain(tokens[:1])]
    for other in logits[1:]:
        assert (other - logits[0]).abs().max() < 1e-4 * logits[0].std(), other - logits[0]
    steps = {side: training_step(model, loss, dtype) for side, (model, loss) in losses.items()}
    first = {side: step(tokens, targets) for side, step in steps.items()}  # compiles, too
    assert all(abs(loss - first["HF"]) < 1e-2 for loss in first.values()), first
    seconds = time_steps({s: partial(step, tokens, targets) for s, step in steps.items()}, size)
    peak = peak_flops(gpu_name(device), name)
    for side, times in seconds.items():
        speed = tokens.numel() * size.steps / statistics.median(times)
        measured = f"{speed:,.0f} tokens/s"
        if peak is not None:
            # The backward pass takes twice the work of the forward pass.
            flops = 3 * sum(costs.flops_per_token(size.gpt2, size.gpt2.max_len).values())
            measured += f", MFU {speed * flops / peak:.1%}"
        if side.startswith("ours"):
            for other in ("HF", "nn.TransformerEncoder"):
                rival = side.replace("ours", other)
                measured += f", {ratio(seconds[rival], times):.2f}× {other}"
        shape = f"{millions(ours)}, {name}, {size.rows} × {size.gpt2.max_len} tokens"
        yield Line(f"training, {shape}: {side}", measured)


def vision(size: Size, device: torch.device) -> Iterator[Line]:
    """Train ViT-S/16's shape on random images."""
    name, dtype = low_precision(device)
    torch.manual_seed(0)
    c = size.vit
    model = VisionTransformer(c).to(device)
    images = torch.randn(
        size.images, c.image_channels, c.image_height, c.image_width, device=device
    )
    classes = torch.randint(c.n_classes, (size.images, 1), device=device)
    steps = {
        "eager": training_step(model, model.loss, dtype),
        "compiled": training_step(model, torch.compile(model.loss, backend=size.backend), dtype),
    }
    for loss in [step(images, classes) for step in steps.values()]:
        assert abs(loss - math.log(c.n_classes)) < 1e-2, loss
    sides = {side: partial(step, images, classes) for side, step in steps.items()}
    for side, times in time_steps(sides, size).items():
        speed = size.images * size.steps / statistics.median(times)
        shape = f"{millions(model)}, {name}, {c.image_height} × {c.image_width} pixels"
        yield Line(f"training, vision transformer, {shape}: {side}", f"{speed:,.0f} images/s")


def decoding(size: Size, device: torch.device) -> Iterator[Line]:
    """Write greedily with a cache, beside Hugging Face's `generate`."""
    name, dtype = low_precision(device)
    ours, theirs = (model.to(device) for model in make_pair(size.gpt2))
    texts = [write() for write in writers(ours, theirs, 16, size.new_tokens).values()]
    same = torch.tensor(texts[0]) == torch.tensor(texts[1])
    yield Line("decoding, float32: tokens as HF's", f"{same.float().mean():.1%}")
    for model in (ours, theirs):
        model.to(dtype)
    for rows in (1, 16):
        sides = writers(ours, theirs, rows, size.new_tokens)
        compiled = writers(ours, theirs, rows, size.new_tokens, compile=True)["ours"]
        sides["ours, compiled"] = compiled
        for write in sides.values():
            write()
        seconds = alternate(sides, max(2, size.rounds - 2))
        speed = {s: rows * size.new_tokens / statistics.median(t) for s, t in seconds.items()}
        yield Line(
            f"decoding, {name}, batch {rows}",
            f"{speed['ours']:,.0f} tokens/s, compiled {speed['ours, compiled']:,.0f}, "
            f"HF {speed['HF']:,.0f}, {ratio(seconds['HF'], seconds['ours']):.2f}× HF",
        )


def resuming(size: Size, device: torch.device) -> Iterator[Line]:
    """Train 10 steps at once, and 5 and 5 in another process; compare the weights."""
    name, _ = low_precision(device)
    with tempfile.TemporaryDirectory() as folder:
        straight, again, resumed = (Path(folder) / name for name in ("once", "twice", "parts"))
        for path in (straight, again):
            train_emails(size, device, path)
        with suppress(OutOfEmails):
            train_emails(size, device, resumed, FewEmails)
        command = [sys.executable, "-m", "tests.benchmarks.gpu", "--resume", str(resumed)]
        small = ["--small"] if size == small_size() else []
        subprocess.run([*command, *small], check=True)
        yield Line(
            f"resumed training, {name}, 10 steps against 5 and 5 in a new process",
            f"{difference(straight, resumed)}; the 10 steps twice: {difference(straight, again)}",
        )


def memory(size: Size, device: torch.device) -> Iterator[Line]:
    """Compare the memory of a training step with what `costs` computes."""
    name, dtype = low_precision(device)
    c = size.gpt2
    computed = costs.training_memory(c, size.rows, c.max_len, name, device.type)["peak"]
    measured = f"computed {computed / 2**20:,.1f} MiB"
    if device.type == "cuda":
        before = torch.cuda.memory_allocated()
        model = DecoderLM(c).to(device)
        step = training_step(model, model.loss, dtype)
        tokens, targets = random_batch(c.vocab_size, size.rows, c.max_len)
        batch = tokens.to(device), targets.to(device)
        step(*batch)  # so that the moments are there
        torch.cuda.reset_peak_memory_stats()
        step(*batch)
        peak = torch.cuda.max_memory_allocated() - before
        measured += f", allocated {peak / 2**20:,.1f} MiB, {computed / peak:.3f}×"
    yield Line(f"memory of training, {name}, {size.rows} × {c.max_len} tokens", measured)


class OutOfEmails(Exception):
    """The run stops here, to be resumed."""


class FewEmails(EmailData):
    """Emails for some steps only."""

    def _train_batch(self, step: int, batch_size: int) -> Batch:
        if step == STOP:
            raise OutOfEmails
        return super()._train_batch(step, batch_size)


def train_emails(
    size: Size,
    device: torch.device,
    folder: Path,
    emails: type[EmailData] = EmailData,
    resume: bool = False,
) -> None:
    """Run the training that is stopped and resumed; with dropout, so that it draws numbers."""
    data = emails(n_held_out=16)
    c = size.gpt2
    shape = dict(d_model=c.d_model, n_layers=c.n_layers, n_heads=c.n_heads, dropout=0.1)
    torch.manual_seed(0)
    model = DecoderLM(ModelConfig(**data.model_fields(), **shape))
    name, _ = low_precision(device)
    config = TrainConfig(
        steps=2 * STOP, save_every=STOP, warmup=2, precision=name, device=device.type
    )
    train(model, data, config, folder, resume=resume, progress=False)


def difference(a: Path, b: Path) -> str:
    """Say how far apart the weights of two runs ended."""
    weights = [load_checkpoint(path)["model"] for path in (a, b)]
    largest = max(float((weights[0][k] - weights[1][k]).abs().max()) for k in weights[0])
    return "bit-equal" if largest == 0 else f"largest difference {largest:.1e}"


def low_precision(device: torch.device) -> tuple[str, torch.dtype]:
    """Return what one trains in: bfloat16, or float16 where the GPU only emulates that."""
    name = choose_precision("auto", device)
    return ("fp16", torch.float16) if name == "fp16" else ("bf16", torch.bfloat16)


def gpu_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else ""


def millions(model: Model) -> str:
    return f"{model.n_params() / 1e6:.3g}M parameters"


def time_steps(sides: dict[str, Callable[[], float]], size: Size) -> dict[str, list[float]]:
    """Time several steps of each side in turn. A step ends with its loss on the CPU."""

    def several(step: Callable[[], float]) -> None:
        for _ in range(size.steps):
            step()

    return alternate({side: partial(several, step) for side, step in sides.items()}, size.rounds)


PARTS = {part.__name__: part for part in (training, vision, decoding, resuming, memory)}


def main(arguments: list[str]) -> int:
    """Print the table part by part; return 1 if a part broke."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help=f"some of: {', '.join(PARTS)}")
    parser.add_argument("--small", action="store_true", help="a small size, as without a GPU")
    parser.add_argument("--resume", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.parts) - set(PARTS)):
        parser.error(f"no part {unknown[0]!r}; choose from {', '.join(PARTS)}")
    device = choose_device("cuda" if torch.cuda.is_available() else "cpu")
    size = small_size() if options.small or device.type == "cpu" else full_size()
    if options.resume:
        train_emails(size, device, options.resume, resume=True)
        return 0
    print(f"{machine()}\n\n| what | measured |\n| --- | --- |", flush=True)
    took, broken = [], False
    for name in options.parts or PARTS:
        begin = time.perf_counter()
        done = print_lines(partial(PARTS[name], size, device))
        took.append(f"{name} {time.perf_counter() - begin:.0f}{'' if done else ' (failed)'}")
        broken |= not done
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()
    print(Line("seconds of each part", ", ".join(took)))
    return int(broken)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
