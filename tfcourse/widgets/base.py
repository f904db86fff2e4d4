"""What all widgets share: their front-end files and the check of what they are given."""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

FOLDER = Path(__file__).parent
STYLE = (FOLDER / "widgets.css").read_text(encoding="utf-8")


def script(*names: str) -> str:
    """Return one ES module: the shared helpers, then the widget's own files.

    Joined here because a static page has no address from which one could import the other.
    """
    return "\n".join((FOLDER / f).read_text(encoding="utf-8") for f in ("shared.js", *names))


def field(where: str, record: Mapping, name: str):
    """Return `record[name]`, or say which record lacks it."""
    if name not in record:
        raise ValueError(f"{where} has no {name!r}; give one")
    return record[name]


def within(name: str, value: int, low: int, high: int) -> int:
    """Return `value`, or say from where to where it may lie."""
    if not low <= value <= high:
        raise ValueError(f"{name}={value}; give a number from {low} to {high}")
    return value


def series(
    where: str, values: Iterable, length: int, low: float = 0.0, high: float = math.inf
) -> list[float]:
    """Return `values` as floats of six significant digits, checked for length and range.

    Six digits are more than a widget shows and keep the stored state small. Values that miss
    the range by rounding error alone (1e-5) are moved onto its edge.
    """
    numbers = [float(v) for v in values]
    if len(numbers) != length:
        raise ValueError(f"{where} has {len(numbers)} values; give {length}")
    for i, v in enumerate(numbers):
        if not math.isfinite(v) or not low - 1e-5 <= v <= high + 1e-5:
            bounds = f">= {low:g}" if high == math.inf else f"from {low:g} to {high:g}"
            raise ValueError(f"{where}[{i}]={v}; give a finite number {bounds}")
    # Adding 0.0 turns −0.0 into 0.0.
    return [float(f"{min(max(v, low), high):.6g}") + 0.0 for v in numbers]
