"""Families of public checkpoints: their settings, and their names for our tensors.

Each family is a TOML file of tables, ours on the left and theirs on the right: `Family` says what
each table is for. Here is only what is no table. Their names are those in the files that Hugging
Face's `save_pretrained` writes.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tfcourse.architectures import ARCHITECTURES, Model
from tfcourse.config import ModelConfig
from tfcourse.positions import angle_table

Settings = dict[str, Any]
Table = dict[str, str | list[str] | dict[str, str]]
"""Our name, and theirs. Several of theirs are stacked by rows to make one of ours, and one that is
kept in another form says so, as in `{ transposed = "their.name" }`; the forms are those in
`pretrained._to_ours`.

A name of ours that is no tensor's is a module's: it stands for the weight, and for the bias where
ours has one, which is always kept as it is.
"""
Names = Iterator[tuple[str, list[str], str]]
"""Our tensor, theirs, and the form in which they keep it."""


@dataclass(frozen=True)
class Family:
    """How one family of public checkpoints maps to a model of this course."""

    architecture: type[Model]
    prefix: str  # files of some versions lack it
    unused: str  # tensors that carry nothing that the model needs
    fields: dict[str, str]  # our field, their setting of the same meaning
    always: Settings  # our fields that the family leaves no choice about
    supported: dict[str, list[Any]]  # their settings, the values that we can follow; last: written
    names: Table  # what there is once
    layers: Table  # what there is in each block `{i}`
    decoder_layers: Table = field(default_factory=dict)  # the same, of a decoder beside an encoder
    untied: Table = field(default_factory=dict)  # what there is if the head has its own matrix
    optional: dict[str, str] = field(default_factory=dict)  # as `fields`, but may be missing
    read: Callable[[Settings], Settings] = lambda theirs: {}  # our fields that need more
    write: Callable[[ModelConfig], Settings] = lambda ours: {}

    def read_config(self, theirs: Settings) -> ModelConfig:
        """Translate their settings.

        Raises:
            ValueError: a setting is missing, or has a value that this package cannot follow.
        """
        for name, choices in self.supported.items():
            if name in theirs and theirs[name] not in choices:
                only = " or ".join(repr(choice) for choice in choices)
                raise ValueError(f"{name}={theirs[name]!r} is not supported; only {only} is")
        if missing := [name for name in self.fields.values() if theirs.get(name) is None]:
            raise ValueError(f"config.json has no {missing[0]}")
        ours = {name: theirs.get(other) for name, other in (self.fields | self.optional).items()}
        given = ours | self.always | self.read(theirs)
        return ModelConfig(**{name: value for name, value in given.items() if value is not None})

    def write_config(self, ours: ModelConfig) -> Settings:
        """Translate our config back."""
        required = {name: choices[-1] for name, choices in self.supported.items()}
        both = (self.fields | self.optional).items()
        return required | {other: getattr(ours, name) for name, other in both} | self.write(ours)

    def tensors(self, model: Model) -> Names:
        """Say for each tensor of a model which of theirs hold it.

        Raises:
            ValueError: a table names what the model does not have.
        """
        config, ours = model.config, model.state_dict()
        for table, times in (
            (self.names, 1),
            (self.untied, 0 if config.tie_embeddings else 1),
            (self.layers, config.n_layers),
            (self.decoder_layers, config.n_decoder_layers),
        ):
            for i in range(times):
                for name, entry in table.items():
                    yield from _tensors(name, entry, i, ours)


def _tensors(name: str, entry: Any, i: int, ours: dict[str, Tensor]) -> Names:
    """Fill in the number of the block, and `.weight` and `.bias` after a module's name."""
    form, theirs = next(iter(entry.items())) if isinstance(entry, dict) else ("same", entry)
    theirs = [theirs] if isinstance(theirs, str) else theirs
    mine, *others = (each.replace("{i}", str(i)) for each in (name, *theirs))
    if mine in ours:
        yield mine, others, form
        return
    parts = [part for part in (".weight", ".bias") if mine + part in ours]
    if not parts:
        raise ValueError(f"a table of names has {name!r}, but the model does not; correct it")
    for part in parts:
        yield mine + part, [other + part for other in others], form if part == ".weight" else "same"


def _read_rope(theirs: Settings) -> Settings:
    rope = theirs.get("rope_parameters") or theirs.get("rope_scaling") or {}
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind != "default":
        raise ValueError(f"rope_type={kind!r} is not supported; only 'default' is")
    return {
        "rope_theta": rope.get("rope_theta", theirs.get("rope_theta", 10_000.0)),
        "tie_embeddings": theirs.get("tie_word_embeddings", False),
    }


def _write_rope(ours: ModelConfig) -> Settings:
    return {
        "rope_parameters": {"rope_type": "default", "rope_theta": ours.rope_theta},
        "tie_word_embeddings": ours.tie_embeddings,
    }


def _read_image(theirs: Settings) -> Settings:
    size = theirs["image_size"]
    height, width = size if isinstance(size, list | tuple) else (size, size)
    return {
        "image_height": height,
        "image_width": width,
        "n_classes": len(theirs.get("id2label", "ab")),  # two, where the file says nothing
    }


def _write_image(ours: ModelConfig) -> Settings:
    return {
        "image_size": [ours.image_height, ours.image_width],
        "id2label": {str(i): f"LABEL_{i}" for i in range(ours.n_classes)},
    }


def _read_marian(theirs: Settings) -> Settings:
    for name in ("attention_heads", "ffn_dim"):
        ours, other = theirs[f"encoder_{name}"], theirs.get(f"decoder_{name}")
        if ours != other:
            raise ValueError(f"decoder_{name}={other} is not supported, only the encoder's {ours}")
    if theirs.get("decoder_vocab_size") not in (None, theirs["vocab_size"]):
        raise ValueError("decoder_vocab_size is not vocab_size: two vocabularies are not supported")
    activation = theirs["activation_function"]
    return {"activation": "silu" if activation == "swish" else activation}


def _write_marian(ours: ModelConfig) -> Settings:
    return {
        "activation_function": ours.activation,
        "decoder_attention_heads": ours.n_heads,
        "decoder_ffn_dim": ours.d_ff,
        "decoder_vocab_size": ours.vocab_size,
        "pad_token_id": ours.vocab_size - 1,  # as in all public ones; it also starts the target
        "decoder_start_token_id": ours.vocab_size - 1,
    }


def fixed_tables(config: ModelConfig) -> dict[str, Tensor]:
    """Return Marian's position tables: all sines first, then all cosines, for both stacks."""
    angles = angle_table(torch.arange(config.max_len).unsqueeze(0), config.d_model, 10_000.0)[0]
    table = torch.cat([angles.sin(), angles.cos()], dim=-1)
    return {f"model.{part}.embed_positions.weight": table for part in ("encoder", "decoder")}


def _load(name: str, **functions: Callable[[Any], Settings]) -> Family:
    tables = tomllib.loads((Path(__file__).parent / f"{name}.toml").read_text(encoding="utf-8"))
    return Family(**tables | {"architecture": ARCHITECTURES[tables["architecture"]]} | functions)


FAMILIES = {
    "gpt2": _load("gpt2"),
    "llama": _load("llama", read=_read_rope, write=_write_rope),
    "bert": _load("bert"),
    "vit": _load("vit", read=_read_image, write=_write_image),
    "marian": _load("marian", read=_read_marian, write=_write_marian),
}
