"""One training run: its parts, what it measured, and its files."""

from __future__ import annotations

import json
import warnings
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from tfcourse.architectures import Model
from tfcourse.checkpoints import (
    FILE_NAME,
    CheckpointError,
    load_checkpoint,
    load_weights,
    rng_state,
    save_checkpoint,
    set_rng_state,
)
from tfcourse.config import ModelConfig, TrainConfig
from tfcourse.data.batching import DataSet
from tfcourse.distributed import ALONE, World, spread_like, whole
from tfcourse.evaluation import Evaluation
from tfcourse.files import write_whole


@dataclass
class History:
    """What a run measured: one record per step, and the held-out scores."""

    records: list[dict[str, int | float]] = field(default_factory=list)
    evaluation: Evaluation | None = None
    n_tokens: int = 0  # targets trained on, over all parts of a resumed run
    seconds: float = 0.0

    def summary(self) -> str:
        """Say in one line how the run ended."""
        unit = self.evaluation.unit if self.evaluation is not None else "token"
        return (
            f"{self.evaluation}  (nats per {unit}, {self.n_tokens / 1e6:.1f}M {unit}s, "
            f"{self.seconds:.0f} s)"
        )


@dataclass
class Run:
    """The parts of a run that change together at every step."""

    model: Model
    data: DataSet
    config: TrainConfig
    optimizers: list[torch.optim.Optimizer]
    scaler: torch.amp.GradScaler
    precision: str
    world: World = ALONE
    history: History = field(default_factory=History)


class RunFiles:
    """The files of one run: `checkpoint.pt`, and `metrics.jsonl` with one record per line."""

    # What a resumed run may change. Another device or compiled code may round differently.
    FREE = ("device", "compile", "fsdp", "eval_every", "save_every")

    # What only a resumed run needs of a checkpoint.
    PARTS = (
        *("optimizers", "step", "train_config", "data", "scaler", "rng"),
        *("n_threads", "precision", "n_tokens", "seconds"),
    )

    def __init__(self, folder: Path, writes: bool = True) -> None:
        self.folder = folder
        self.writes = writes  # of several processes one does
        self.checkpoint = folder / FILE_NAME
        self.metrics = folder / "metrics.jsonl"

    def check_unused(self) -> None:
        """Refuse to write over an earlier run, or into one that has yet to save."""
        if self.checkpoint.exists():
            raise ValueError(
                f"{self.folder} already holds a run; go on with resume=True (--resume), or choose "
                "another folder"
            )
        if self.metrics.exists():
            raise ValueError(
                f"{self.metrics} is there already, of a run that has not saved a checkpoint; "
                "delete it if that run has ended, or choose another folder"
            )

    def begin(self) -> None:
        """Make the folder for a new run."""
        if self.writes:
            self.check_unused()
            self.folder.mkdir(parents=True, exist_ok=True)

    def append(self, record: dict[str, int | float]) -> None:
        """Add one record to the metrics."""
        if not self.writes:
            return
        try:
            with open(self.metrics, "a") as file:
                file.write(json.dumps(record) + "\n")
        except OSError as error:
            problem = f"could not write {self.metrics} ({error.strerror}); make room and resume"
            raise OSError(error.errno, problem) from error

    def rewrite(self, records: list[dict[str, int | float]]) -> None:
        """Replace the metrics, in one step that no crash can split."""
        text = "".join(json.dumps(record) + "\n" for record in records)
        if self.writes:
            write_whole(self.metrics, lambda file: file.write(text.encode()))

    def save(self, run: Run, step: int) -> None:
        """Write the checkpoint after `step` steps; all processes of a run have to call this."""
        save_checkpoint(
            self.checkpoint,
            run.model,
            write=self.writes,
            step=step,
            train_config=asdict(run.config),
            data=run.data.to_dict(),
            optimizers=[_whole_state(optimizer) for optimizer in run.optimizers],
            scaler=run.scaler.state_dict(),
            rng=run.world.gather(rng_state()),
            n_threads=torch.get_num_threads(),
            precision=run.precision,
            n_tokens=run.history.n_tokens,
            seconds=run.history.seconds,
        )

    def restore(self, run: Run) -> int:
        """Put the run back to where its checkpoint was written; return the steps done.

        Raises:
            CheckpointError: the checkpoint belongs to another model, data set or configuration.
        """
        state = load_checkpoint(self.checkpoint)
        if missing := [part for part in self.PARTS if part not in state]:
            raise CheckpointError(
                f"{self.checkpoint} has no {missing[0]}: it can be sampled from, not resumed"
            )
        # Through the classes, so that a field that is newer than the file has its default.
        saved_model = asdict(ModelConfig(**state["model_config"]))
        saved_training = asdict(TrainConfig(**state["train_config"]))
        self._check_same("model_config", saved_model, asdict(run.model.config))
        self._check_same("train_config", saved_training, asdict(run.config))
        self._check_same("data", state["data"], run.data.to_dict())
        for what, was, now, effect in (
            ("n_threads", state["n_threads"], torch.get_num_threads(), "sums may round otherwise"),
            ("precision", state["precision"], run.precision, "products round otherwise"),
            ("processes", len(state["rng"]), run.world.size, "what dropout draws begins anew"),
        ):
            if was != now:
                warnings.warn(
                    f"the run had {what}={was} and goes on with {now}: {effect}", stacklevel=3
                )
        load_weights(run.model, state)
        for optimizer, saved in zip(run.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
            for weight, values in optimizer.state.items():
                for name, value in values.items():
                    if value.shape == weight.shape:
                        values[name] = spread_like(value, weight)
        if state["scaler"]:  # empty where the run needed none
            run.scaler.load_state_dict(state["scaler"])
        if len(state["rng"]) == run.world.size:
            set_rng_state(state["rng"][run.world.rank])
        run.history.n_tokens, run.history.seconds = state["n_tokens"], state["seconds"]
        run.history.records = self._cut_metrics(state["step"])
        return state["step"]

    def _check_same(self, what: str, saved: dict[str, Any], given: dict[str, Any]) -> None:
        for name in [*saved, *(given.keys() - saved.keys())]:
            if name not in self.FREE and saved.get(name) != given.get(name):
                values = f" was {saved.get(name)} and is {given.get(name)}"
                raise CheckpointError(
                    f"{self.checkpoint} was written with another {what}: {name}"
                    f"{values if len(values) < 100 else ' differs'}; give what the run began with, "
                    "or begin another in a folder of its own"
                )

    def _cut_metrics(self, step: int) -> list[dict[str, int | float]]:
        """Drop what was recorded after the checkpoint, and a line that a crash cut off."""
        records = []
        lines = self.metrics.read_text(errors="replace") if self.metrics.exists() else ""
        for line in lines.splitlines():
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                break
            if not isinstance(record, dict) or record.get("step") not in range(1, step + 1):
                break
            records.append(record)
        self.rewrite(records)
        return records


def _whole_state(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    saved = optimizer.state_dict()
    states = saved["state"].items()
    return saved | {"state": {i: {k: whole(v) for k, v in state.items()} for i, state in states}}
