"""Public weights: read a Hugging Face checkpoint into a model of this course, and write one.

The tables in `families/` say which of their tensors fill which of ours. What a checkpoint asks for
and this package cannot do is refused by name, never loaded as if it were something else.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from tfcourse.architectures import Model
from tfcourse.config import ModelConfig
from tfcourse.families import FAMILIES, Family, fixed_tables
from tfcourse.files import write_whole


def read_pretrained(source: Path | str) -> Model:
    """Load a model from a folder with `config.json` and `model.safetensors`, or from the hub.

    A `.safetensors` file stands for itself and the `config.json` beside it. A name that is neither,
    such as "openai-community/gpt2", is fetched with `huggingface_hub`. The model has float32
    weights, also where the file's are smaller; `model.bfloat16()` makes them so again.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a damaged file, an unknown family, a setting that this package does not have, or
            weights that do not fit; the message names it.
    """
    path = Path(source).expanduser()
    if not path.exists():
        if path.suffix == ".safetensors" or str(source).startswith((".", "/", "~")):
            raise FileNotFoundError(f"{path} is no folder; give one that holds config.json")
        path = _fetch(str(source))
    weights = path if path.is_file() else path / "model.safetensors"
    settings = weights.with_name("config.json")
    for file in (settings, weights):
        if not file.is_file():
            raise FileNotFoundError(f"{file.parent} holds no {file.name}")
    try:
        theirs, tensors = json.loads(settings.read_text(encoding="utf-8-sig")), load_file(weights)
    except (ValueError, SafetensorError) as error:
        raise ValueError(f"a file in {settings.parent} is damaged: {error}") from error
    return from_hf(theirs, tensors)


def write_pretrained(model: Model, family: str, folder: Path | str) -> None:
    """Write `config.json` and `model.safetensors` that Hugging Face's model of a family reads."""
    config, weights = to_hf(model, family)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    data = save({name: weight.contiguous() for name, weight in weights.items()})
    write_whole(folder / "model.safetensors", lambda file: file.write(data))  # the large one first
    write_whole(folder / "config.json", lambda file: file.write(json.dumps(config).encode()))


def from_hf(config: dict[str, Any], weights: dict[str, Tensor]) -> Model:
    """Build our model of a Hugging Face config and weights, in float32 and evaluation mode.

    The weights have the names that files give them; a live model's may have others.
    """
    try:
        family = _family(config.get("model_type"))
        ours = family.read_config(config)
    except (KeyError, TypeError, AttributeError, ZeroDivisionError) as error:
        raise ValueError(f"config.json has a setting that cannot be read: {error!r}") from error
    model = family.architecture(ours)
    given = {_current_name(name, family.prefix): weight for name, weight in weights.items()}
    if config["model_type"] == "marian":  # files leave out what can be computed
        given = fixed_tables(ours) | given
    expected = model.state_dict()
    loaded: dict[str, Tensor] = {}
    for name, sources, form in family.tensors(model):
        if missing := [source for source in sources if source not in given]:
            raise ValueError(f"the weights hold no {missing[0]}")
        weight = loaded[name] = _to_ours([given.pop(source) for source in sources], form)
        if not weight.is_floating_point():
            raise ValueError(f"{sources[0]} holds {weight.dtype}; quantized ones are not read")
        if weight.shape != expected[name].shape:
            raise ValueError(
                f"{sources[0]} has shape {tuple(weight.shape)} for {name}, and "
                f"{tuple(expected[name].shape)} is needed: the weights do not fit config.json"
            )
    for name in expected.keys() - loaded.keys():  # tied: the embeddings to the head, or it to one
        loaded[name] = loaded["stack.embedding.weight" if name == "head.weight" else "head.weight"]
    for name in given:  # a copy of what the config ties together
        copy = re.search(r"(lm_head|predictions\.decoder|embed_tokens)\.weight$", name)
        if copy and not torch.equal(given[name], loaded["head.weight"]):
            raise ValueError(f"{name} is not the embedding, to which tie_word_embeddings ties it")
    if extra := [name for name in given if not re.search(family.unused, name)]:
        raise ValueError(f"the model has no place for {sorted(extra)[0]}")
    model.load_state_dict(loaded)
    return model.eval()


def to_hf(model: Model, family: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the config and the state dictionary of Hugging Face's model of a family.

    Raises:
        ValueError: the family cannot hold this model; the message names what differs.
    """
    entry = _family(family)
    wanted, given = entry.architecture, type(model)
    if given is not wanted:
        raise ValueError(f"{family} holds the architecture {wanted.__name__}, not {given.__name__}")
    config = entry.write_config(model.config) | {"model_type": family}
    back = entry.read_config(config)
    for field, value in vars(model.config).items():
        if getattr(back, field) != value:
            raise ValueError(f"{family} has no {field}={value!r}; it has {getattr(back, field)!r}")
    ours: dict[str, Tensor] = model.state_dict()
    weights: dict[str, Tensor] = {}
    for name, targets, form in entry.tensors(model):
        weights |= _to_theirs(ours[name], targets, form, model.config)
    return config, weights


def _family(name: str | None) -> Family:
    if name not in FAMILIES:
        raise ValueError(f"model_type={name!r} is unknown; choose from {', '.join(FAMILIES)}")
    return FAMILIES[name]


def _fetch(name: str) -> Path:
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(name, allow_patterns=["config.json", "model.safetensors"]))


def _current_name(name: str, prefix: str) -> str:
    name = re.sub(r"\.gamma$", ".weight", re.sub(r"\.beta$", ".bias", name))  # of 2018
    heads = ("lm_head", "cls", "classifier", "final_logits_bias")
    return name if name.startswith((prefix, *heads)) else prefix + name


def _to_ours(parts: list[Tensor], form: str) -> Tensor:
    forms = {
        "same": lambda theirs: theirs,
        "transposed": lambda theirs: theirs.T,
        "patches": lambda theirs: theirs.flatten(1),  # a convolution's kernels
        "row": lambda theirs: theirs.flatten(),
    }
    return forms[form](parts[0]) if len(parts) == 1 else torch.cat(parts)


def _to_theirs(
    weight: Tensor, names: list[str], form: str, config: ModelConfig
) -> dict[str, Tensor]:
    if form == "transposed":
        return {names[0]: weight.T}
    if form == "patches":
        shape = (-1, config.image_channels, config.patch_size, config.patch_size)
        return {names[0]: weight.reshape(shape)}
    if form == "row":
        return {names[0]: weight.unsqueeze(0)}
    widths = [len(weight) // len(names)] * len(names)
    if len(names) == 3:  # queries, keys, values
        heads = (config.n_heads, config.n_kv_heads, config.n_kv_heads)
        widths = [n * config.head_dim for n in heads]
    return dict(zip(names, weight.split(widths), strict=True))
