"""What two processes of `torchrun` do for test_distributed.py: `processes.py FOLDER`.

Each run is also made by one process there, with the same functions.
"""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from counting import Counting, counting_lm, plan
from helpers import ids, loud, tiny_lm
from torch.nn.parallel import DistributedDataParallel

from tfcourse import distributed, training
from tfcourse.architectures import EncoderDecoder
from tfcourse.config import ModelConfig, TrainConfig
from tfcourse.data.batching import Batch, EmailData
from tfcourse.data.dates import DateData
from tfcourse.distributed import join, replicate, shard, whole
from tfcourse.evaluation import evaluate
from tfcourse.losses import IGNORE
from tfcourse.runs import Run

Fields = dict[str, Any]

# Rows that do not divide evenly by two, nor by parts; a rate at which 20 steps change much.
STEPS = {"steps": 20, "batch_size": 17, "lr": 1e-2, "save_every": 10, "eval_every": 10}
RUNS: dict[str, Fields] = {
    "ddp": {},
    "ddp muon": {"optimizer": "muon"},
    "ddp accumulate": {"accumulate": 4},
    "ddp compile": {"compile": True},
    "fsdp": {"fsdp": True},
    "fsdp muon": {"fsdp": True, "optimizer": "muon"},
    "fsdp accumulate": {"fsdp": True, "accumulate": 4},
    "fsdp compile": {"fsdp": True, "compile": True},
}


def settings(**fields: Any) -> TrainConfig:
    return plan(**{**STEPS, **fields})


def run_counting(folder: Path, resume: bool = False, **fields: Any) -> Fields:
    """Train on counting rows; return what the process has at the end.

    The processes come with different models; that of process 0 counts.
    """
    rank = int(os.environ.get("RANK", "0"))
    return _train(counting_lm(seed=rank), Counting(), settings(**fields), folder, resume)


def run_dropout(folder: Path, resume: bool = False, **fields: Any) -> Fields:
    """The same with dropout, and as many rows here as there: they draw equally often."""
    config = settings(batch_size=16, **fields)
    return _train(counting_lm(dropout=0.3), Counting(), config, folder, resume)


def run_dates(folder: Path, **fields: Any) -> Fields:
    """Train an encoder–decoder, whose batches have more parts, and score what it writes."""
    data = DateData(n_held_out=5)
    torch.manual_seed(0)
    model = EncoderDecoder(ModelConfig(**data.model_fields(), d_model=32, n_layers=1, d_ff=32))
    return _train(model, data, settings(**fields), folder, False)


def _train(model: Any, data: Any, config: TrainConfig, folder: Path, resume: bool) -> Fields:
    history = training.train(model, data, config, folder, resume=resume, progress=False)
    weights = model.state_dict().values()
    return {
        "losses": [record["loss"] for record in history.records],
        "norms": [record["grad_norm"] for record in history.records],
        "n_tokens": history.n_tokens,
        "held_out": history.evaluation.loss,
        "score": history.evaluation.score,
        "share": sum(w.to_local().numel() if hasattr(w, "to_local") else w.numel() for w in weights)
        / sum(w.numel() for w in weights),
        "sum": sum(float(whole(w).double().sum()) for w in model.state_dict().values()),
    }


def evaluate_emails(world: Any) -> list[float | None]:
    """Score a model on emails, whose floor is known row by row."""
    data = EmailData(n_held_out=7)
    found = evaluate(tiny_lm(**data.model_fields()), data, batch_size=2, world=world)
    return [found.loss, found.standard_error, found.n_tokens]


def uneven_batch() -> Batch:
    """Six rows with 1 to 20 targets, and one without any."""
    inputs, targets = ids(7, 20), ids(7, 20, seed=1)
    for row, n in enumerate((20, 1, 2, 20, 3, 0, 10)):
        targets[row, n:] = IGNORE
    return Batch(inputs, targets)


def gradient(kind: str, accumulate: int, world: Any) -> tuple[float, torch.Tensor]:
    """Return the loss and the gradient of one step, as all processes together form it."""
    model = tiny_lm().train()
    if kind == "fsdp":
        shard(model)
    loss = replicate(model, model.loss) if kind == "ddp" else model.loss
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    before = [whole(p).detach().clone() for p in model.parameters()]
    config = plan(clip=0.0, accumulate=accumulate, batch_size=8)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    run = Run(model, Counting(), config, [optimizer], scaler, "fp32", world)
    value, _ = training.take_step(run, uneven_batch(), loss)
    pairs = zip(before, model.parameters(), strict=True)
    return value, torch.cat([(b - whole(p).detach()).flatten() for b, p in pairs])


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    world, _ = join(torch.device("cpu"))
    rank = world.rank
    seen: Fields = {}

    for name, fields in RUNS.items():
        seen[name] = run_counting(folder / name, **fields)
    for name in ("ddp", "fsdp"):
        seen[f"{name} dates"] = run_dates(folder / f"{name} dates", fsdp=name == "fsdp", steps=5)
        seen[f"{name} dropout"] = run_dropout(folder / f"{name} dropout", fsdp=name == "fsdp")

    # What was stopped after ten steps goes on: on both engines, with as many processes or more.
    for start, ends in {
        "ddp": ("ddp", "fsdp"),
        "fsdp": ("ddp", "fsdp"),
        "one": ("ddp", "fsdp"),
    }.items():
        for end in ends:
            there = folder / f"{start} to {end}"
            if start != "one":
                halt(there, fsdp=start == "fsdp")
            seen[f"{start} to {end}"] = run_counting(there, resume=True, fsdp=end == "fsdp")
    halt(folder / "to one")
    for name in ("ddp", "fsdp"):
        there = folder / f"{name} dropout again"
        halt(there, run_dropout, fsdp=name == "fsdp")
        seen[f"{name} dropout again"] = run_dropout(there, resume=True, fsdp=name == "fsdp")

    for kind in ("ddp", "fsdp"):
        for parts in (1, 3):
            value, vector = gradient(kind, parts, world)
            seen[f"gradient {kind} {parts}"] = value
            if rank == 0:
                torch.save(vector, folder / f"gradient {kind} {parts}.pt")

    seen["emails"] = evaluate_emails(world)
    seen["exchanges"] = count_exchanges(accumulate=4)
    seen["refusal"] = refusal(lambda: run_counting(folder / "no", batch_size=1))
    seen["refusal parts"] = refusal(lambda: run_counting(folder / "no", batch_size=7, accumulate=4))
    seen["blow-up"] = blow_up(rank)
    (folder / f"rank {rank}.json").write_text(json.dumps(seen))


def halt(folder: Path, run_it: Any = run_counting, **fields: Any) -> None:
    """Leave the checkpoint of step 10 of a run of 20, and two records that came after it."""
    real = training.RunFiles.save

    def save_once(files: Any, run: Any, step: int) -> None:
        if step <= 10:
            real(files, run, step)

    training.RunFiles.save = save_once  # type: ignore[method-assign]
    try:
        run_it(folder, **fields)
    finally:
        training.RunFiles.save = real  # type: ignore[method-assign]
    dist.barrier() if dist.is_initialized() else None


def count_exchanges(accumulate: int) -> int:
    """Count how often DDP adds up a bucket of gradients in one step."""
    count = 0

    def hook(state, bucket):  # type: ignore[no-untyped-def]  # torch wants types that are no text
        nonlocal count
        count += 1
        work = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
        return work.then(lambda future: future.value()[0] / dist.get_world_size())

    def counted(*args: Any) -> DistributedDataParallel:
        ddp = replicate(*args)
        ddp.register_comm_hook(None, hook)
        return ddp

    distributed.replicate = counted  # type: ignore[assignment]
    config = settings(steps=1, warmup=1, accumulate=accumulate, batch_size=8)
    training.train(counting_lm(), Counting(), config, progress=False)
    distributed.replicate = replicate  # type: ignore[assignment]
    return count


def refusal(call: Any) -> str:
    try:
        call()
    except ValueError as error:
        return str(error)
    return "accepted"


def blow_up(rank: int) -> str:
    """One process alone meets a row that breaks the loss; say how the run ends here."""

    class Poisoned(Counting):
        def _train_batch(self, step: int, batch_size: int) -> Batch:
            batch = super()._train_batch(step, batch_size)
            return Batch(batch.inputs, batch.targets, {"poison": torch.arange(batch_size) + step})

    model = counting_lm()
    honest = model.loss

    def loss(inputs: Any, targets: Any, reduction: str, poison: Any) -> torch.Tensor:
        broken = bool((poison == 9).any())  # row 9 in step 0, row 8 in step 1: never of both
        return honest(inputs, targets, reduction) * (math.nan if broken else 1.0)

    model.loss = loss  # type: ignore[method-assign]
    try:
        training.train(loud(model), Poisoned(), settings(eval_every=0), progress=False)
    except FloatingPointError as error:
        return str(error)
    return "went on"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
