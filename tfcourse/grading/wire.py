"""How values cross between a student's process and the grader's: as JSON, by exact type.

Nothing is unpickled and no class is looked up by name, so that reading an answer runs no code.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
        *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
    )
}


class NotAnAnswer(TypeError):
    """A value of a type that no question asks for."""


@dataclass(frozen=True)
class Kept:
    """An object that stays in the student's process, by its number there."""

    number: int
    kind: str


@dataclass(frozen=True)
class Tool:
    """Something that the grader hands to the student's code: `tools.<name>(*args)`."""

    name: str
    args: tuple = field(default=())


def encode(value: Any, keep: Callable[[Any], Kept] | None = None) -> Any:
    """Turn a value into JSON; `keep` is asked for what has to stay where it is.

    NumPy's numbers count as numbers, a `NamedTuple` as a tuple. Raises `NotAnAnswer` for other
    types. Types are compared exactly: an object of a subclass may answer as it likes when it is
    compared.
    """
    if isinstance(value, np.generic):
        value = value.item()
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind in (torch.Tensor, torch.nn.Parameter):
        return _encode_tensor(value.detach())
    if kind in (list, tuple) or (issubclass(kind, tuple) and hasattr(kind, "_fields")):
        name = "list" if kind is list else "tuple"
        return {name: [encode(item, keep) for item in value]}
    if kind is dict:
        return {"dict": [[encode(k, keep), encode(v, keep)] for k, v in value.items()]}
    if kind is Kept:
        return {"kept": value.number, "kind": value.kind}
    if kind is Tool:
        return {"tool": value.name, "args": [encode(item) for item in value.args]}
    if keep is not None:
        return encode(keep(value))
    raise NotAnAnswer(f"a {kind.__module__}.{kind.__qualname__} is no tensor, number, text or list")


def decode(code: Any, resolve: Callable[[Kept | Tool], Any] | None = None) -> Any:
    """Turn JSON into a value; `resolve` says what a kept object or a tool stands for.

    Raises `ValueError` for what `encode` did not make.
    """
    if code is None or type(code) in (bool, int, float, str):
        return code
    if type(code) is not dict or not code:
        raise ValueError(f"no value: {str(code)[:80]}")
    name = next(iter(code))
    if name == "tensor":
        return _decode_tensor(code)
    if name in ("list", "tuple"):
        items = [decode(item, resolve) for item in _list(code[name])]
        return items if name == "list" else tuple(items)
    if name == "dict":
        pairs = [_list(pair) for pair in _list(code[name])]
        return {decode(k, resolve): decode(v, resolve) for k, v in pairs}
    if name == "kept":
        value: Kept | Tool = Kept(int(code[name]), str(code.get("kind")))
    elif name == "tool":
        value = Tool(str(code[name]), tuple(decode(item) for item in _list(code.get("args"))))
    else:
        raise ValueError(f"no value: {str(code)[:80]}")
    return resolve(value) if resolve else value


def _list(code: Any) -> list:
    if type(code) is not list:
        raise ValueError(f"no list: {str(code)[:80]}")
    return code


def _encode_tensor(tensor: torch.Tensor) -> dict:
    if tensor.layout is not torch.strided or tensor.device.type == "meta":
        raise NotAnAnswer("a sparse or empty-storage tensor; return a dense one")
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype not in DTYPES:
        raise NotAnAnswer(f"a tensor of {dtype}; return one of real numbers")
    flat = tensor.cpu().contiguous().reshape(-1).view(torch.uint8)
    data = base64.b64encode(flat.numpy().tobytes()).decode("ascii")
    return {
        "tensor": data,
        "dtype": dtype,
        "shape": list(tensor.shape),
        "contiguous": tensor.is_contiguous(),
    }


def _decode_tensor(code: dict) -> torch.Tensor:
    dtype, shape = DTYPES.get(code.get("dtype", "")), _list(code.get("shape"))
    # So many axes, and so long ones, no answer has; their product takes hours to compute.
    if (
        dtype is None
        or len(shape) > 16
        or any(type(n) is not int or not 0 <= n < 2**40 for n in shape)
    ):
        raise ValueError("no tensor: its dtype or shape is none")
    data = bytearray(base64.b64decode(code["tensor"], validate=True))
    if len(data) != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{len(data)} bytes are no tensor of shape {shape}")
    tensor = torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)
    tensor = tensor.reshape(shape).clone()
    if code.get("contiguous", True) or not shape:
        return tensor
    # Every second element of a larger tensor: such an input must not change the result.
    wide = torch.zeros(*shape[:-1], 2 * shape[-1], dtype=dtype)
    wide[..., ::2] = tensor
    return wide[..., ::2]
