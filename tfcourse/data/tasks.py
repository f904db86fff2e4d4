"""What can be trained by one command: a data set, an architecture, and settings that fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

DATA = {"data_seed": 0, "vocab_size": 4096, "max_len": 256}
"""What decides the data, where neither a flag nor the checkpoint does."""

FROM_DATA = {
    *("vocab_size", "max_len", "n_classes", "n_token_types", "cross_attention"),
    *("image_height", "image_width", "image_channels"),
}
"""Fields of the model that the task decides, whatever it is."""


class Task(NamedTuple):
    """What can be trained: on which data, and with which settings where none are given."""

    meaning: str
    presets: tuple[str, ...] = ("tiny", "base")  # the first, where none is named
    n_held_out: int = 2000
    without: frozenset[str] = frozenset({"patch_size", "pooling", "n_decoder_layers"})
    """Fields of the model that have no effect here, and therefore no flag."""


TASKS = {
    "emails": Task("generated emails with an exactly known entropy"),
    "masked": Task(
        "the same emails, some words to be filled in by an encoder",
        ("masked",),
        without=frozenset({"patch_size", "pooling", "n_decoder_layers", "causal"}),
    ),
    "digits": Task(
        "handwritten digits, told apart by a vision transformer",
        ("digits",),
        360,
        frozenset(
            {"n_decoder_layers", "causal", "position", "rope_theta", "tie_embeddings"}
            | {"embedding_scale", "residual_decay"}
        ),
    ),
    "dates": Task(
        "dates in 33 locales, turned into ISO 8601 by an encoder-decoder",
        ("dates",),
        1000,
        frozenset({"patch_size", "pooling", "causal"}),
    ),
    "mailbox": Task("your own mail; nothing leaves this machine"),
}
"""What `tfcourse train` can be asked for, by name."""


def make_task(name: str, values: dict[str, int], path: Path | None = None) -> tuple[Any, Any]:
    """Return a task's architecture and its data; `path` is the reader's mailbox."""
    from tfcourse.architectures import DecoderLM, Encoder, EncoderDecoder, VisionTransformer
    from tfcourse.data.batching import EmailData, MaskedEmailData, TextData
    from tfcourse.data.dates import DateData
    from tfcourse.data.digits import DigitData
    from tfcourse.data.mailbox import read_mailbox
    from tfcourse.data.tokenizers import train_bpe

    generated = {
        "emails": (DecoderLM, EmailData),
        "masked": (Encoder, MaskedEmailData),
        "digits": (VisionTransformer, DigitData),
        "dates": (EncoderDecoder, DateData),
    }
    if name in generated:
        architecture, data = generated[name]
        return architecture, data(values["data_seed"], values["n_held_out"])
    assert path is not None
    texts, report = read_mailbox(path)
    print(report)
    tokenizer = train_bpe(texts, values["vocab_size"])
    return DecoderLM, TextData(texts, tokenizer, values["max_len"], values["data_seed"])
