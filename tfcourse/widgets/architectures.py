"""Chapter 06's widget: where do queries, keys and values come from, and who may read whom?"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import anywidget
import traitlets

from tfcourse.architectures import Model
from tfcourse.figures.architectures import Part, by_column, seen_tokens, trace
from tfcourse.widgets.base import FOLDER, STYLE, field, script, series, within

FOLLOW = ("query", "key", "value")


def describe(
    model: Model, title: str, words: Mapping[str, Sequence[str]], *inputs: Any, **options: Any
) -> dict[str, Any]:
    """Run a model; return the record of it that `ThreeArchitectures` shows.

    `words` has the tokens of the first row by the name of the side they stand on, the encoder's
    first: `{"source": [...], "target": [...]}`. A model of one stack has one side.
    """
    parts = trace(model, *inputs, **options)
    seen = seen_tokens(model, *inputs, **options)
    sides, columns = list(words), by_column(parts)
    tokens = [[side, word] for side in sides for word in words[side]]
    start = {side: [s for s, _ in tokens].index(side) for side in sides}
    by_name = {part.name: part for part in parts}
    layers = []
    for part in parts:
        if part.weights is None:
            continue
        own = sides[0] if part.column == "encoder" else sides[-1]
        read = sides[0] if part.source else own
        n_queries, n_keys = part.weights.shape
        layers.append(
            {
                "part": part.name,
                "title": f"{_of(part)}, {part.label}",
                "queries": list(range(start[own], start[own] + n_queries)),
                "keys": list(range(start[read], start[read] + n_keys)),
                "query_from": part.reads,
                "key_from": part.source or part.reads,
                "weights": part.weights.tolist(),
                "query_seen": seen[part.name]["queries"],
                "key_seen": seen[part.name]["keys"],
            }
        )
    return {
        "title": title,
        "tokens": tokens,
        "parts": [
            {
                "name": part.name,
                "label": part.label,
                "title": _title(part),
                "column": column,
                "row": row,
                "reads": part.reads if part.reads in by_name else "",
                "source": part.source,
            }
            for column, stack in enumerate(columns.values())
            for row, part in enumerate(stack)
        ],
        "layers": layers,
    }


class ThreeArchitectures(anywidget.AnyWidget):
    """Follow a query, a key or a value through an encoder, a decoder, an encoder–decoder.

    `models` holds one record of `describe` per architecture. `architecture` and `layer` are
    positions in the lists of models and of their attention layers, `follow` is "query", "key" or
    "value", `position` the place of what is followed. All can be set and read later.

    Raises `ValueError` for a record that lacks something or whose numbers do not fit its tokens.
    """

    _esm = script("architectures.js")
    _css = STYLE + (FOLDER / "architectures.css").read_text(encoding="utf-8")

    models: traitlets.List = traitlets.List().tag(sync=True)
    architecture = traitlets.Int(0).tag(sync=True)
    layer = traitlets.Int(0).tag(sync=True)
    follow = traitlets.Enum(FOLLOW, "query").tag(sync=True)
    position = traitlets.Int(0).tag(sync=True)

    def __init__(self, models: Iterable[Mapping], **start: Any):
        records = [_record(f"models[{i}]", m) for i, m in enumerate(models)]
        if not records:
            raise ValueError("models is empty; give at least one")
        super().__init__(models=records, **start)

    @traitlets.validate("architecture")
    def _is_a_model(self, proposal):
        return within("architecture", proposal["value"], 0, len(self.models) - 1)


def _of(part: Part) -> str:
    stack = f"{part.column} " if part.column in ("encoder", "decoder") else ""
    return f"{stack}block {part.block}" if part.block else stack.strip()


def _title(part: Part) -> str:
    """Say in words what the result of a part is."""
    if part.block:
        return f"the {part.label} of {_of(part)}"
    place = "last norm" if part.label == "norm" else part.label
    return f"the {_of(part)}’s {place}" if _of(part) else f"the {place}"


def _record(where: str, given: Mapping) -> dict:
    record = {name: field(where, given, name) for name in ("title", "tokens", "parts", "layers")}
    n_tokens = len(record["tokens"])
    layers = []
    for i, layer in enumerate(record["layers"]):
        place = f"{where}.layers[{i}]"
        queries, keys = (field(place, layer, name) for name in ("queries", "keys"))
        weights = field(place, layer, "weights")
        if len(weights) != len(queries):
            raise ValueError(f"{place}.weights has {len(weights)} rows; give {len(queries)}")
        rows = [series(f"{place}.weights", row, len(keys), 0.0, 1.0) for row in weights]
        for name, of in (("query_seen", queries), ("key_seen", keys)):
            marks = field(place, layer, name)
            if len(marks) != len(of) or any(len(m) != n_tokens for m in marks):
                raise ValueError(f"{place}.{name}: give {len(of)} texts of {n_tokens} marks")
        layers.append({**layer, "weights": rows})
    return {**record, "layers": layers}
