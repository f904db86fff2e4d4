"""Run a student's code on request and tell what came out. This runs where the student's code runs.

It decides nothing: what is right is known to the other side alone (`questions.py`).
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from tfcourse.grading import tools
from tfcourse.grading.wire import Kept, Tool, decode, encode


class Forbidden(RuntimeError):
    """The answer calls what the question asks to write."""


class Forbid(TorchFunctionMode):
    """Refuse PyTorch's own version of what is to be written, by whatever name it was imported."""

    def __init__(self, names: frozenset[str]) -> None:
        super().__init__()
        self.names = names

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        if name in self.names:
            raise Forbidden(name)
        return func(*args, **(kwargs or {}))


def _line(error: Exception) -> str:
    """Name the line of the student's code that raised, or called what did."""
    frames = [
        line
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_globals.get("__name__") == "__main__"
    ]
    return f", line {frames[-1]}" if frames else ""


class Worker:
    """Answer requests about the objects of one question.

    A request names what to do in `op`:

    - `call`: call `target` (a name, or an object kept before) with `args` and `kwargs`. With
      `backward`, one weight per element of the result, the gradients of the weighted sum follow.
      `training` sets a module's mode first;
    - `state`, `load`: read or write a module's parameters and buffers.

    The answer has `value`, or `error` with what the student's code raised, or `refused`.
    """

    def __init__(self, objects: dict[str, Any], forbidden: frozenset[str] = frozenset()) -> None:
        self.objects, self.forbidden = objects, forbidden
        self.kept: list[Any] = []

    def answer(self, request: dict) -> dict:
        """Carry out one request; whatever goes wrong becomes part of the answer."""
        try:
            with warnings.catch_warnings():  # they would name a line of this file
                warnings.simplefilter("ignore")
                return getattr(self, f"_{request['op']}")(request)
        except Forbidden as error:
            return {"refused": str(error)}
        except Exception as error:
            return {"error": f"{type(error).__name__}{_line(error)}: {str(error)[:300]}"}

    def _keep(self, value: Any) -> Kept:
        if not any(kept is value for kept in self.kept):
            self.kept.append(value)
        number = next(i for i, kept in enumerate(self.kept) if kept is value)
        kind = "module" if isinstance(value, nn.Module) else type(value).__name__
        return Kept(number, kind)

    def _resolve(self, value: Kept | Tool) -> Any:
        if isinstance(value, Kept):
            return self.kept[value.number]
        return getattr(tools, value.name)(*value.args)

    def _target(self, request: dict) -> Any:
        target = decode(request["target"], self._resolve)
        if not isinstance(target, str):
            return target
        if target not in self.objects:
            raise NameError(f"there is no {target}; keep the name that the question gives")
        return self.objects[target]

    def _call(self, request: dict) -> dict:
        target = self._target(request)
        args = decode(request["args"], self._resolve)
        kwargs = decode(request["kwargs"], self._resolve)
        backward = request.get("backward")
        if request.get("training") is not None:
            target.train(request["training"])
        inputs = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.Tensor)]
        given = [a for a in inputs if backward and a.is_floating_point()]
        for tensor in given:
            tensor.requires_grad_(True)
        torch.manual_seed(request.get("seed", 0))
        with Forbid(self.forbidden), torch.set_grad_enabled(request.get("grad", True)):
            value = target(*args, **kwargs)
        answer = {"value": encode(value, self._keep), "inputs": encode(inputs)}
        if backward:
            weights = decode(backward)
            leaves = {f"input {i}": tensor for i, tensor in enumerate(given)}
            if isinstance(target, nn.Module):
                leaves |= {k: p for k, p in target.named_parameters() if p.requires_grad}
            found: Sequence[torch.Tensor | None] = [None] * len(leaves)
            if isinstance(value, torch.Tensor) and value.requires_grad:  # else nothing leads back
                with torch.enable_grad():  # a student's cell may have switched it off
                    weighted = (value * weights).sum()
                found = torch.autograd.grad(weighted, list(leaves.values()), allow_unused=True)
            answer["gradients"] = encode(dict(zip(leaves, found, strict=True)))
        return answer

    def _state(self, request: dict) -> dict:
        module = self._target(request)
        state = {name: tensor.detach() for name, tensor in module.state_dict().items()}
        graphs = [name for name, buffer in module.named_buffers() if buffer.requires_grad]
        return {"value": encode(state), "graphs": graphs}

    def _load(self, request: dict) -> dict:
        self._target(request).load_state_dict(decode(request["state"]))
        return {"value": None}
