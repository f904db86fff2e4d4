"""Chapter 04's widget: one text on its way through a model, stage by stage."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import anywidget
import numpy as np
import torch
import traitlets
from jaxtyping import Float, Int
from torch import Tensor

from tfcourse.architectures import DecoderLM
from tfcourse.probes import attention_weights, decompose, mlp_activations, record_stream
from tfcourse.widgets.base import FOLDER, STYLE, script, within

N_GUESSES = 3
"""So many next words are kept for each position of each stage."""
FINE = 32_767
_EXACT = ("ids", "weights", "probabilities")
"""Stages that are kept as finely as 16 bits can."""


@dataclass(frozen=True)
class Stage:
    """One stage of a forward pass: its name, what it did, and the tensor that it left."""

    name: str
    where: str
    kind: str
    axes: str
    did: str
    values: Tensor


class StackTracer(anywidget.AnyWidget):
    """Step a text through a pre-norm decoder, from ids to the distribution of the next word.

    `texts` holds the token ids of each text by the title that the menu shows; `word` names one id.
    Every number that the page shows was computed by `model` when this object was made. A tensor
    travels as integers with one scale, so that its largest value has three exact digits; weights
    and probabilities have four.

    `text`, `stage` and `row` (which word's numbers are told) are where the controls stand; they
    can be set and read later.

    Raises `ValueError` for a post-norm model, whose stream is no sum, and for an empty text.
    """

    _esm = script("stack_drawings.js", "stack_tracer.js")
    _css = STYLE + (FOLDER / "stack_tracer.css").read_text(encoding="utf-8")

    words: traitlets.List = traitlets.List().tag(sync=True)
    stages: traitlets.List = traitlets.List().tag(sync=True)
    texts: traitlets.List = traitlets.List().tag(sync=True)
    text = traitlets.Int(0).tag(sync=True)
    stage = traitlets.Int(1).tag(sync=True)
    row = traitlets.Int(0).tag(sync=True)

    def __init__(
        self, model: DecoderLM, texts: Mapping[str, Sequence[int]], word: Callable[[int], str]
    ):
        if not texts or not all(len(ids) for ids in texts.values()):
            raise ValueError("texts has no text, or an empty one; give at least one token id each")
        traces = [trace(model, torch.tensor([list(ids)])) for ids in texts.values()]
        records = [
            _record(title, ids, stages, model)
            for (title, ids), stages in zip(texts.items(), traces, strict=True)
        ]
        super().__init__(
            words=[word(i) for i in range(model.config.vocab_size)],
            stages=[
                {"name": s.name, "where": s.where, "kind": s.kind, "axes": s.axes, "did": s.did}
                for s in traces[0]
            ],
            texts=records,
            row=len(records[0]["ids"]) - 1,
        )

    @traitlets.validate("text", "stage", "row")
    def _is_there(self, proposal):
        name = proposal["trait"].name
        longest = max((len(text["ids"]) for text in self.texts), default=1)
        count = {"text": len(self.texts), "stage": len(self.stages), "row": longest}[name]
        return within(name, proposal["value"], 0, count - 1)


@torch.no_grad()
def trace(model: DecoderLM, tokens: Int[Tensor, "1 L"]) -> list[Stage]:
    """Run a pre-norm decoder on one text; return what each of its stages leaves behind."""
    config, stack = model.config, model.stack
    updates = [u[0] for u in decompose(model, tokens)[1:]]  # raises for a post-norm model
    with model.evaluating():
        streams = [s[0] for s in record_stream(model, tokens)]
        weights = iter(attention_weights(model, tokens).values())
        hidden = iter(mlp_activations(model, tokens).values())
        stages = [
            Stage("ids", "input", "ids", "L", _DID["ids"], tokens[0].float()),
            Stage(
                "embedding", "input", "embedding", "L d",
                _DID["embedding"], stack.embedding(tokens)[0],
            ),
        ]  # fmt: skip
        if config.position in _POSITIONS:
            did = _POSITIONS[config.position]
            stages.append(Stage("+ positions", "input", "positions", "L d", did, streams[0]))
        k = 0
        blocks: Any = stack.blocks
        for number, block in enumerate(blocks, start=1):
            where = f"block {number}"
            for branch in block.branches:
                normed = branch.norm(streams[k])
                stages.append(Stage("norm", where, "norm", "L d", _DID["norm"], normed))
                if branch is block.attention:
                    part, qkv = "attention", branch.sublayer.qkv(normed)
                    read = next(weights)[0]
                    stages += [
                        Stage("queries, keys, values", where, "qkv", "L 3d", _DID["qkv"], qkv),
                        Stage(
                            "attention weights", where, "weights", "H L L", _DID["weights"], read
                        ),
                    ]
                else:
                    part, wide = "MLP", next(hidden)[0]
                    stages.append(
                        Stage("MLP, widened", where, "hidden", "L d_ff", _DID["hidden"], wide)
                    )
                update, after = updates[k], streams[k + 1]
                did = _DID[f"{part} update"]
                stages += [
                    Stage(f"{part} update", where, f"{part} update", "L d", did, update),
                    Stage("added to the stream", where, "stream", "L d", _DID["stream"], after),
                ]
                k += 1
        final = stack.final_norm(streams[-1])
        logits = model.head(final)
        return [
            *stages,
            Stage("final norm", "output", "final norm", "L d", _DID["final norm"], final),
            Stage("logits", "output", "logits", "L V", _DID["logits"], logits),
            Stage(
                "probabilities", "output", "probabilities", "L V",
                _DID["probabilities"], logits.softmax(dim=-1),
            ),
        ]  # fmt: skip


@torch.no_grad()
def read_early(model: DecoderLM, stream: Float[Tensor, "L d"]) -> Float[Tensor, "L V"]:
    """Return the next-word probabilities as if the stack ended with this stream.

    The final norm and the head read the stream as it is.

    Source: nostalgebraist 2020, "Interpreting GPT: the logit lens".
    """
    return model.head(model.stack.final_norm(stream)).softmax(dim=-1)


def pack(values: Tensor, levels: int = 2047) -> dict:
    """Turn a tensor into JSON: its shape, a scale, and integers from −levels to levels in base64.

    All low bytes come first, then all high ones: so the page's compression finds what is alike.
    """
    array = values.detach().cpu().numpy()
    scale = float(np.abs(array).max()) / levels or 1.0
    integers = np.rint(array / scale).astype("<i2")
    planes = np.frombuffer(integers.tobytes(), dtype=np.uint8).reshape(-1, 2).T
    data = base64.b64encode(planes.tobytes()).decode("ascii")
    return {"shape": list(array.shape), "scale": float(f"{scale:.8g}"), "data": data}


def unpack(packed: Mapping) -> Tensor:
    """Turn what `pack` made into a tensor, as the page does."""
    planes = np.frombuffer(base64.b64decode(packed["data"]), dtype=np.uint8).reshape(2, -1)
    integers = np.frombuffer(planes.T.tobytes(), dtype="<i2").astype("float32")
    return torch.from_numpy(integers).mul(packed["scale"]).view(packed["shape"])


def _record(title: str, ids: Sequence[int], stages: list[Stage], model: DecoderLM) -> dict:
    best = stages[-1].values.argmax(dim=-1, keepdim=True)  # what the whole stack expects, [L 1]
    guesses: list[Any] = []
    chances: list[Any] = []
    for stage in stages:
        if stage.kind in ("embedding", "positions", "stream"):
            p = read_early(model, stage.values)
            likely = p.topk(min(N_GUESSES, p.shape[-1]), dim=-1)
            pairs = torch.stack([likely.indices.double(), likely.values.double()], dim=-1)
            guesses.append([[[int(i), round(q, 4)] for i, q in row] for row in pairs.tolist()])
            chances.append([round(q, 4) for q in p.gather(-1, best).squeeze(-1).tolist()])
        else:
            guesses.append(None)
            chances.append(None)
    tensors = [pack(s.values, FINE if s.kind in _EXACT else 2047) for s in stages]
    return {
        "title": title,
        "ids": [int(i) for i in ids],
        "tensors": tensors,
        "guesses": guesses,
        "chances": chances,
    }


_POSITIONS = {
    "learned": "Each place adds a vector of its own, which was learned. From here on the same word "
    "differs from place to place. This is the stream: all blocks read it and add to it.",
    "sinusoidal": "Sines and cosines of the place are added. From here on the same word differs "
    "from place to place. This is the stream: all blocks read it and add to it.",
}
"""What positions did, for the kinds that add something to the embedding."""

_DID = {
    "ids": "Each word is looked up in the vocabulary and becomes a number. Nothing is a vector "
    "yet.",
    "embedding": "Each id takes its row of the table E. The same word gets the same vector, "
    "wherever it stands.",
    "norm": "A copy of each vector is brought to size 1, then γ scales each feature. The stream "
    "itself stays as it is.",
    "qkv": "Three matrices turn each normed vector into a query, a key and a value. Each is cut "
    "into heads.",
    "weights": "Queries meet keys. A row says how much one word reads from itself and from the "
    "words before it, and adds up to 1. The mask keeps the rest at exactly 0.",
    "attention update": "Each head mixes values by its weights. The output matrix makes of the "
    "mixtures an update of the stream's width.",
    "hidden": "Each word alone: a matrix widens its vector, and a nonlinear function decides which "
    "features are on.",
    "MLP update": "A second matrix turns what is on into an update of the stream's width.",
    "stream": "The update is added. Nothing is replaced, and the shape stays.",
    "final norm": "After the last block the stream itself is brought to size 1 and scaled by γ, "
    "once, for the head.",
    "logits": "The head scores every word of the vocabulary, at every position. The shape changes "
    "to one score per word.",
    "probabilities": "Softmax turns each row of scores into probabilities. Each row predicts the "
    "word after it; to go on writing, only the last row is needed.",
}
"""What each kind of stage does."""
