"""Checkpoints: everything that a run needs to go on as if it had never stopped."""

from __future__ import annotations

import random
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tfcourse.architectures import ARCHITECTURES, Model
from tfcourse.config import ModelConfig
from tfcourse.distributed import spread_like, whole
from tfcourse.files import write_whole

FORMAT = "tfcourse checkpoint 1"
FILE_NAME = "checkpoint.pt"


class CheckpointError(ValueError):
    """A file that is no checkpoint, is cut off, or lacks what was asked of it."""


def save_checkpoint(path: Path, model: Model, *, write: bool = True, **parts: Any) -> None:
    """Write the model and the given parts to one file, whole or not at all.

    A model that is split over processes is gathered first: all of them call this, one writes.

    `parts` may hold tensors, numbers, strings, and lists and dicts of them: what
    `torch.load(weights_only=True)` accepts, so that opening a checkpoint never runs code.

    Raises:
        OSError: the file could not be written; an older one of the same name is untouched.
        TypeError: the model is of a class that `load_model` does not know.
    """
    # FSDP gives its models classes of their own, and `torch.compile` wraps them.
    kinds = [n for part in model.modules() for n, k in ARCHITECTURES.items() if isinstance(part, k)]
    if not kinds:
        raise TypeError(f"{type(model).__name__} is none of {', '.join(ARCHITECTURES)}; derive it")
    state = {
        "format": FORMAT,
        "architecture": kinds[0],
        "model_config": asdict(model.config),
        "model": {n: whole(w) for n, w in strip_wrappers(model.state_dict()).items()},
        **parts,
    }
    if not write:
        return
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda file: torch.save(state, file))


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint; a folder stands for the `checkpoint.pt` in it.

    Raises:
        FileNotFoundError: there is no such file.
        CheckpointError: the file is no checkpoint of this package, or is cut off.
    """
    path = Path(path)
    if path.is_dir():
        path = path / FILE_NAME
    if not path.is_file():
        raise FileNotFoundError(f"no checkpoint at {path}; give a run's folder or its {FILE_NAME}")
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except PermissionError:
        raise
    except Exception as error:  # the reader raises errors of many types on what it cannot read
        # A file cut in its first half makes torch's reader ask for an impossible position: OSError.
        raise CheckpointError(
            f"{path} cannot be read: it is cut off or was not written by tfcourse"
        ) from error
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise CheckpointError(f"{path} is no '{FORMAT}' file; give one of `tfcourse train`")
    return state


def load_model(path: Path, device: torch.device | str = "cpu") -> tuple[Model, dict[str, Any]]:
    """Build the model that a checkpoint describes, ready to use; return it and the rest.

    It has float32 weights, whatever the dtype of those that were saved.
    """
    state = load_checkpoint(path)
    try:
        architecture = ARCHITECTURES[state.get("architecture", "DecoderLM")]
        model = architecture(ModelConfig(**state["model_config"])).to(device)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} has no usable model_config: {error}") from error
    load_weights(model, state)
    return model.eval(), state


def load_weights(model: torch.nn.Module, state: dict[str, Any]) -> None:
    """Copy a checkpoint's weights into a model of the same shape, all of them or none.

    Raises:
        CheckpointError: names or shapes differ.
    """
    weights = strip_wrappers(state.get("model", {}))
    expected = model.state_dict()
    for name in sorted(expected.keys() ^ weights.keys()):
        lacks = "checkpoint has no" if name in expected else "model has no place for"
        raise CheckpointError(f"the {lacks} {name}; build the model with the saved model_config")
    for name, weight in weights.items():
        if weight.shape != expected[name].shape:
            raise CheckpointError(
                f"{name} has shape {tuple(weight.shape)} in the checkpoint and "
                f"{tuple(expected[name].shape)} in the model; build it with the saved model_config"
            )
    model.load_state_dict({n: spread_like(w, expected[n]) for n, w in weights.items()})


def strip_wrappers(weights: dict[str, Any]) -> dict[str, Any]:
    """Remove the prefixes that `torch.compile` and data parallelism put before names."""
    wrappers = ("_orig_mod", "module")
    return {
        ".".join(part for part in name.split(".") if part not in wrappers): weight
        for name, weight in weights.items()
    }


def rng_state() -> dict[str, Any]:
    """Return the state of every random number generator that training may draw from."""
    _, keys, position, has_gauss, gauss = np.random.get_state(legacy=True)  # type: ignore[misc]
    return {
        "python": random.getstate(),
        "numpy": (keys.tolist(), position, has_gauss, gauss),  # type: ignore[union-attr]
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "mps": [torch.mps.get_rng_state()] if torch.backends.mps.is_available() else [],
    }


def set_rng_state(state: dict[str, Any]) -> None:
    """Put back what `rng_state` returned. GPU generators are put back where there are as many."""
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    keys, *rest = state["numpy"]
    np.random.set_state(("MT19937", np.array(keys, dtype=np.uint32), *rest))
    torch.set_rng_state(state["torch"].cpu())
    if len(state["cuda"]) == torch.cuda.device_count() and state["cuda"]:
        torch.cuda.set_rng_state_all([generator.cpu() for generator in state["cuda"]])
    if state["mps"] and torch.backends.mps.is_available():
        torch.mps.set_rng_state(state["mps"][0].cpu())
