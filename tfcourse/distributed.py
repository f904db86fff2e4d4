"""Several processes train one model: who takes which rows, and how their sums become one.

Each process makes the whole batch, which is a function of the step, and keeps its share of the
rows. So no two have a row in common, none is left out, and a run can go on with any number of
processes.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from tfcourse.architectures import Model
from tfcourse.blocks import Block


@dataclass(frozen=True)
class World:
    """The processes of a run, and which of them this is. Process 0 writes the files."""

    rank: int = 0
    size: int = 1

    def sum(self, value: float, device: torch.device) -> float:
        """Add up one number of each process, in float64."""
        if self.size == 1:
            return value
        total = torch.tensor(value, dtype=torch.float64, device=device)
        dist.all_reduce(total)
        return total.item()

    def gather(self, thing: Any) -> list[Any]:
        """Return what each process has, in the order of their ranks."""
        if self.size == 1:
            return [thing]
        things = [None] * self.size
        dist.all_gather_object(things, thing)
        return things


ALONE = World()


def join(device: torch.device) -> tuple[World, torch.device]:
    """Meet the other processes, where `torchrun` started this one; return this one's device.

    Raises:
        ValueError: there are more processes on this machine than GPUs, or the device is Apple's.
    """
    launched = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR"} <= os.environ.keys()
    if not (dist.is_initialized() or launched) or os.environ.get("WORLD_SIZE") == "1":
        return ALONE, device
    if device.type == "mps":
        raise ValueError("device='mps' has no exchange between processes; use device='cpu'")
    if device.type == "cuda":
        index, n_gpus = int(os.environ.get("LOCAL_RANK", 0)), torch.cuda.device_count()
        if index >= n_gpus:
            raise ValueError(f"more processes than GPUs; start with --nproc-per-node {n_gpus}")
        device = torch.device("cuda", index)
        torch.cuda.set_device(device)
    if not dist.is_initialized():
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
        atexit.register(dist.destroy_process_group)
    return World(dist.get_rank(), dist.get_world_size()), device


class _Loss(nn.Module):
    """The model's loss as a forward pass: DDP looks at nothing else."""

    def __init__(self, model: Model, loss: Callable[..., Tensor]) -> None:
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, *inputs: Any, **options: Any) -> Tensor:
        return self.loss(*inputs, **options)


def replicate(model: Model, loss: Callable[..., Tensor]) -> DistributedDataParallel:
    """Let all processes hold the model of process 0, and average their gradients (DDP)."""
    return DistributedDataParallel(_Loss(model, loss))


def shard(model: Model) -> None:
    """Split each weight, and with it gradient and optimizer state, over the processes (FSDP2).

    All start from the model of process 0. A block's weights are gathered when it computes and let
    go afterwards.
    """
    for parameter in model.parameters():
        dist.broadcast(parameter.data, 0)
    for module in model.modules():
        if isinstance(module, Block):
            fully_shard(module)
    fully_shard(model)
    register_fsdp_forward_method(model, "loss")


@contextmanager
def exchange_if(last: bool, model: Model, loss: Callable[..., Tensor]) -> Iterator[None]:
    """Exchange gradients in the backward pass of a batch's last part alone.

    DDP decides in the *forward* pass whether it will, so that has to be within, too.
    """
    if isinstance(model, FSDPModule):
        model.set_requires_gradient_sync(last)
    silent = isinstance(loss, DistributedDataParallel) and not last
    with loss.no_sync() if silent else nullcontext():  # type: ignore[attr-defined]
        yield


@contextmanager
def whole_weights(model: Model) -> Iterator[None]:
    """Gather all weights of a sharded model for a while: to generate, and to score in its own time.

    That takes the memory of the weights alone, a quarter of what training them with AdamW takes.
    """
    parts: list[Any] = [module for module in model.modules() if isinstance(module, FSDPModule)]
    for part in parts:
        part.set_reshard_after_forward(False)
        part.unshard()
    try:
        yield
    finally:
        for part in parts:
            part.set_reshard_after_forward(True)
            part.reshard()


def whole(tensor: Any) -> Any:
    """Gather a tensor that is spread over the processes; all of them have to ask."""
    return tensor.full_tensor().cpu() if isinstance(tensor, DTensor) else tensor


def spread_like(tensor: Tensor, pattern: Tensor) -> Tensor:
    """Split a whole tensor as `pattern` is split."""
    if not isinstance(pattern, DTensor):
        return tensor
    return distribute_tensor(tensor.to(pattern.device), pattern.device_mesh, pattern.placements)


@contextmanager
def lost_peers() -> Iterator[None]:
    """Turn what the exchange reports when another process is gone into one clear line.

    Raises:
        ConnectionError: another process of the run has ended.
    """
    try:
        yield
    except RuntimeError as error:
        words = ("gloo", "nccl", "connection")
        if not dist.is_initialized() or not any(word in str(error).lower() for word in words):
            raise
        raise ConnectionError(
            "another process of this run has ended, and this one cannot go on alone; see what that "
            "one said; the last checkpoint is intact: start again with resume=True (--resume)"
        ) from error
