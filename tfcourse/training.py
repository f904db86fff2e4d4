"""Train a language model: batches in, a loss that falls towards its floor, checkpoints out."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from tfcourse import distributed
from tfcourse.architectures import Model
from tfcourse.config import TrainConfig
from tfcourse.data.batching import Batch, DataSet
from tfcourse.devices import choose_device, choose_precision
from tfcourse.evaluation import Evaluation, entropy_floor, evaluate
from tfcourse.optimizers import make_optimizers, schedule, set_learning_rate
from tfcourse.runs import History, Run, RunFiles


def train(
    model: Model,
    data: DataSet,
    config: TrainConfig,
    out_dir: Path | str | None = None,
    resume: bool = False,
    progress: bool = True,
) -> History:
    """Train the model in place and return what was measured.

    With `out_dir` the run writes `checkpoint.pt` and `metrics.jsonl` there. `resume` goes on from
    that checkpoint; on a CPU with the same number of threads the weights end bit-equal to those of
    a run that was never stopped. Ctrl-C finishes the current step, saves (with `out_dir`),
    and raises KeyboardInterrupt; a second Ctrl-C does not wait.

    Processes that `torchrun` has started share each batch and all return the same history. With
    `config.fsdp` each keeps only its part of the model; the checkpoint holds the whole.

    Raises:
        ValueError: the model does not fit the data, `out_dir` holds a run and `resume` is off, or
            a batch does not fill all processes.
        CheckpointError: the checkpoint belongs to another model, data set or configuration.
        FloatingPointError: the loss or the gradient is no longer finite; the message names the step
            and the layer. The last checkpoint is untouched.
        KeyboardInterrupt: the run was interrupted; the message says after which step.
        ConnectionError: another process of the run has ended.
    """
    if resume and out_dir is None:
        raise ValueError("resume=True needs out_dir, the folder that holds the checkpoint")
    data.check_fit(model.config)
    world, device = distributed.join(choose_device(config.device))
    precision = choose_precision(config.precision, device)
    _check_processes(config, world.size, precision)
    model.to(device).train()
    if config.fsdp:
        distributed.shard(model)
    loss_function = compile_loss(model) if config.compile else model.loss
    if world.size > 1 and not config.fsdp:
        loss_function = distributed.replicate(model, loss_function)
    scaler = torch.amp.GradScaler(device.type, enabled=precision == "fp16")
    run = Run(model, data, config, make_optimizers(model, config), scaler, precision, world)
    torch.manual_seed(config.seed + world.rank)
    first_step = 0
    files = RunFiles(Path(out_dir), writes=world.rank == 0) if out_dir is not None else None
    if files is not None:
        if resume:
            first_step = files.restore(run)
        else:
            files.begin()

    quiet = not progress or world.rank > 0
    bar = tqdm(total=config.steps, initial=first_step, disable=quiet, desc="train")
    floor = entropy_floor(data)
    started = time.perf_counter() - run.history.seconds
    with distributed.lost_peers(), interrupts_after_step(world.size == 1) as interrupted, bar:
        for step in range(first_step, config.steps):
            batch = data.train_batch(step, config.batch_size)
            set_learning_rate(run.optimizers, schedule(step, config))
            try:
                loss, norm = take_step(run, batch, loss_function)
            except FloatingPointError as error:
                raise FloatingPointError(f"step {step + 1}: {error}") from None
            done = step + 1
            run.history.n_tokens += batch.n_targets
            run.history.seconds = time.perf_counter() - started
            record: dict[str, int | float] = {
                "step": done,
                "loss": loss,
                "grad_norm": norm,
                "lr": run.optimizers[0].param_groups[0]["lr"],
                "n_tokens": run.history.n_tokens,
                "seconds": round(run.history.seconds, 3),
            }
            # Asked once a step: what ends the run is also saved. One process stops all.
            stop = world.sum(float(interrupted()), device) > 0
            save = stop or _due(done, config.save_every, config.steps)
            score = _due(done, config.eval_every, config.steps)
            if save or score:
                check_weights(model, done)
            run.history.records.append(record)
            if files is not None:
                files.append(record)  # first: to resume drops what lies after the checkpoint
            if files is not None and save:
                files.save(run, done)  # before scoring, which may take long or fail
            if score:
                run.history.evaluation = _evaluate(run)
                record |= _scores(run.history.evaluation)
            if files is not None and score:
                files.rewrite(run.history.records)
            _show(bar, run.history, floor)
            if stop and done < config.steps:
                saved = "saved" if files is not None else "not saved"
                raise KeyboardInterrupt(f"interrupted after step {done}, {saved}")
    if run.history.evaluation is None:  # resumed after its last step
        run.history.evaluation = _evaluate(run)
    return run.history


def _check_processes(config: TrainConfig, n_processes: int, precision: str) -> None:
    if config.fsdp and n_processes == 1:
        raise ValueError(
            "fsdp=True needs several processes; start with torchrun, or use fsdp=False (--no-fsdp)"
        )
    if config.fsdp and precision == "fp16":
        raise ValueError("fsdp=True does not scale gradients; use precision='bf16' or 'fp32'")
    if config.batch_size < config.accumulate * n_processes:
        raise ValueError(
            f"batch_size={config.batch_size} rows do not fill accumulate={config.accumulate} parts "
            f"on {n_processes} processes; use at least {config.accumulate * n_processes}"
        )


def _evaluate(run: Run) -> Evaluation:
    with distributed.whole_weights(run.model):
        return evaluate(run.model, run.data, run.config.batch_size, run.world)


def compile_loss(model: Model) -> Callable[..., Tensor]:
    """Compile the model's loss. From the second row length on, one program serves all lengths."""
    # Left alone, the compiler computes tanh on a CPU twice as slowly as PyTorch's own GELU does.
    return torch.compile(model.loss, options={"cpp.use_decompose_tanh": True})


def take_step(run: Run, batch: Batch, loss_function: Callable[..., Tensor]) -> tuple[float, float]:
    """Update the weights once; return the loss per target and the gradient norm before clipping.

    The batch may be computed in parts. Each part adds its *sum* of losses divided by the number of
    targets in the whole batch, so that parts with few targets do not weigh more than they should.
    So does each process, with its share of the rows.

    In float16 a gradient that overflows makes the scaler halve its scale, and the step is tried
    again: weights, schedule and data position stay where they were.

    Raises:
        FloatingPointError: the loss or the gradient is not finite; no weight was changed.
    """
    device = run.model.head.weight.device
    dtype = _autocast_dtype(run)
    n_targets, world = max(1, batch.n_targets), run.world
    parts = batch.chunk(world.size)[world.rank].to(device).chunk(run.config.accumulate)
    while True:
        total = 0.0
        for part in parts:
            with distributed.exchange_if(part is parts[-1], run.model, loss_function):
                with torch.autocast(device.type, dtype=dtype, enabled=dtype is not None):
                    loss = loss_function(part.inputs, part.targets, reduction="sum", **part.context)
                    loss = loss / n_targets
                # The exchange averages over the processes, and a sum is wanted.
                run.scaler.scale(loss * world.size).backward()
            total += loss.item()
        total = world.sum(total, device)
        for optimizer in run.optimizers:
            run.scaler.unscale_(optimizer)  # clip the true gradient, not the scaled one
        limit = run.config.clip or math.inf
        norm = distributed.whole(nn.utils.clip_grad_norm_(run.model.parameters(), limit)).item()
        finite = math.isfinite(total) and math.isfinite(norm)
        if finite:
            for optimizer in run.optimizers:
                run.scaler.step(optimizer)
        scale = run.scaler.get_scale()
        if run.scaler.is_enabled():
            run.scaler.update()
        for optimizer in run.optimizers:
            optimizer.zero_grad()
        if finite:
            return total, norm
        if not run.scaler.get_scale() < scale or scale <= 1:
            raise FloatingPointError(_describe_overflow(run, batch, total))


def check_weights(model: Model, step: int) -> None:
    """Refuse weights that an update has made infinite, before they replace good ones.

    Raises:
        FloatingPointError: a weight is not finite; the message names it.
    """
    for name, weight in model.named_parameters():
        if not weight.isfinite().all():
            raise FloatingPointError(
                f"step {step}: {name} is not finite after the update; lower lr or lengthen warmup"
            )


def first_non_finite(run: Run, batch: Batch) -> str | None:
    """Run the batch again, in the same precision; name the first layer with a wrong output."""
    found: list[str] = []

    def watch(name: str) -> Callable[..., None]:
        def look(module: nn.Module, inputs: Any, output: Any) -> None:
            if isinstance(output, Tensor) and not found and not output.isfinite().all():
                found.append(name)

        return look

    device, dtype = run.model.head.weight.device, _autocast_dtype(run)
    modules = run.model.named_modules()
    hooks = [module.register_forward_hook(watch(name)) for name, module in modules if name]
    try:
        with torch.no_grad(), torch.autocast(device.type, dtype=dtype, enabled=dtype is not None):
            for part in batch.to(device).chunk(run.config.accumulate):
                run.model.loss(part.inputs, part.targets, reduction="none", **part.context)
    finally:
        for hook in hooks:
            hook.remove()
    return found[0] if found else None


def _describe_overflow(run: Run, batch: Batch, loss: float) -> str:
    layer = first_non_finite(run, batch)
    where = f"first seen in {layer}" if layer else "every layer's output is finite"
    what = "gradient" if math.isfinite(loss) else "loss"
    more = "" if run.precision == "fp32" else ", or use precision='fp32'"
    return f"the {what} is not finite ({where}); lower lr or lengthen warmup{more}"


def _autocast_dtype(run: Run) -> torch.dtype | None:
    return {"bf16": torch.bfloat16, "fp16": torch.float16}.get(run.precision)


@contextmanager
def interrupts_after_step(once: bool = True) -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C or SIGTERM into a note that is read when the step is done.

    Halfway through a step some weights are updated and others not: nothing to save. Without `once`
    a second one changes nothing: `torchrun` sends its processes the Ctrl-C that they have also had
    from the terminal, and ends those that take more than half a minute.
    """
    noted = False
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False  # only the main thread may set handlers
        return
    # A handler that was not set from Python reads as None.
    old = {s: signal.getsignal(s) or signal.SIG_DFL for s in (signal.SIGINT, signal.SIGTERM)}
    # Who started the run with a signal ignored (`nohup`, a job in the background) meant it.
    old = {s: handler for s, handler in old.items() if handler != signal.SIG_IGN}

    def note(number: int, frame: Any) -> None:
        nonlocal noted
        noted = True
        if once:
            for s, handler in old.items():
                signal.signal(s, handler)

    for s in old:
        signal.signal(s, note)
    try:
        yield lambda: noted
    finally:
        for s, handler in old.items():
            signal.signal(s, handler)


def _due(done: int, every: int, steps: int) -> bool:
    return done == steps or (every > 0 and done % every == 0)


def _scores(evaluation: Evaluation) -> dict[str, float]:
    scores = {"held_out_loss": evaluation.loss}
    if evaluation.score is not None:
        scores["score"] = evaluation.score[1]
    if evaluation.floor is not None and evaluation.standard_error is not None:
        scores |= {"floor": evaluation.floor, "standard_error": evaluation.standard_error}
    return scores


def _show(bar: tqdm, history: History, floor: float | None) -> None:
    shown = {
        "loss": f"{history.records[-1]['loss']:.3f}",
        "tokens/s": f"{history.n_tokens / history.seconds:.0f}",
    }
    if floor is not None:
        shown["floor"] = f"{floor:.3f}"
    bar.set_postfix(shown, refresh=False)
    bar.update()
