"""Questions, their checks, and the student's answer as the checks see it."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from tfcourse.grading.names import used_names
from tfcourse.grading.wire import Kept, decode, encode

Request = Callable[[dict], dict]


class Wrong(Exception):
    """A check failed: what it looks like, said to the student."""


class Lost(Exception):
    """The student's process ended or did not answer; the message is the reason."""


class LostCell(Lost):
    """A cell that belongs to no question did it."""

    def __init__(self, source: str) -> None:
        super().__init__("A cell that belongs to no question ends the process, or does not end.")
        self.source = source


@dataclass
class Run:
    """What one call gave: its value, the inputs afterwards, and gradients where asked for."""

    value: Any
    inputs: list[Tensor]
    gradients: dict[str, Tensor | None] = field(default_factory=dict)


class Student:
    """A student's answer, called here or in a sandbox: the checks cannot tell which.

    Calling it calls the student's function, or makes an object of the student's class, which
    `call` then calls. An exception of the student's code, a result of another type and an input
    that was changed are failed checks.
    """

    def __init__(self, request: Request, name: str) -> None:
        self.request, self.name = request, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.run(self.name, *args, **kwargs).value

    def call(self, target: Kept, *args: Any, **kwargs: Any) -> Any:
        """Call an object that the student's code made before."""
        return self.run(target, *args, **kwargs).value

    def run(
        self,
        target: str | Kept,
        *args: Any,
        backward: Tensor | None = None,
        training: bool | None = None,
        grad: bool = True,
        **kwargs: Any,
    ) -> Run:
        """Call and return everything; `backward` weights the result for the gradients.

        Gradients are named "input 0", "input 1", … in the order of the floating-point inputs, and
        by the names of a module's parameters.
        """
        before = [a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)]
        answer = self._ask(
            op="call",
            target=encode(target),
            args=encode(list(args)),
            kwargs=encode(kwargs),
            backward=None if backward is None else encode(backward),
            training=training,
            grad=grad or backward is not None,
        )
        after = decode(answer.get("inputs", {"list": []}))
        for old, new in zip(before, after, strict=True):
            if not _same(old, new):
                raise Wrong("It changes its input in place. The caller still needs those numbers.")
        value = decode(answer["value"])
        return Run(value, after, decode(answer.get("gradients", {"dict": []})))

    def state(self, target: Kept) -> dict[str, Tensor]:
        """Read the parameters and buffers of a module."""
        return decode(self._ask(op="state", target=encode(target))["value"])

    def graphs(self, target: Kept) -> list[str]:
        """Name the buffers of a module that keep the graph of an earlier call alive."""
        return self._ask(op="state", target=encode(target))["graphs"]

    def load(self, target: Kept, state: dict[str, Tensor]) -> None:
        """Write the parameters and buffers of a module."""
        self._ask(op="load", target=encode(target), state=encode(state))

    def _ask(self, **request: Any) -> dict:
        answer = self.request(request)
        if "refused" in answer:
            raise Wrong(f"{text_of(answer['refused'])} is not allowed in this question.")
        if "error" in answer:
            error = text_of(answer["error"])
            if error.startswith("NotImplementedError"):
                raise Wrong("Nothing is written yet: the cell still raises NotImplementedError.")
            raise Wrong(f"Your code raised {error.rstrip('.')}.")
        return answer


def text_of(value: Any) -> str:
    """Return a text from a student's process, cut to one that people read."""
    return value[:400] if isinstance(value, str) else "what is no text"


def _same(a: Tensor, b: Any) -> bool:
    return (
        isinstance(b, Tensor)
        and a.shape == b.shape
        and a.dtype == b.dtype
        and torch.equal(a.nan_to_num(), b.nan_to_num())
    )


class Draw:
    """Random inputs of one check, the same ones for the same seed."""

    def __init__(self, *seed: Any) -> None:
        digest = hashlib.sha256(repr(seed).encode()).digest()
        self.generator = torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))

    def normal(self, *shape: int, std: float = 1.0, dtype: torch.dtype = torch.float32) -> Tensor:
        """Draw normal numbers of mean 0."""
        return (std * torch.randn(shape, generator=self.generator)).to(dtype)

    def uniform(self, low: float, high: float, *shape: int) -> Tensor:
        """Draw numbers between `low` and `high`, each as likely."""
        return low + (high - low) * torch.rand(shape, generator=self.generator)

    def integers(self, low: int, high: int, *shape: int) -> Tensor:
        """From `low` to `high`, the upper end left out."""
        return torch.randint(low, high, shape, generator=self.generator)

    def integer(self, low: int, high: int) -> int:
        """Draw one integer from `low` to `high`, the upper end left out."""
        return int(self.integers(low, high, 1))

    def choice(self, options: Sequence[Any]) -> Any:
        """Draw one of the options."""
        return options[self.integer(0, len(options))]


Check = Callable[[Student, Draw], None]


@dataclass
class Question:
    """One question of a set: what is asked for, what it is worth, and how it is checked.

    `id` is the set's number and the question's name, such as `02.layer_norm`. `name` is the
    function or class that the student writes. `section` is where the book treats it. `forbid` names
    the functions and classes that do the work already. `seconds` is the time that all checks of
    it may take.
    """

    id: str
    name: str
    title: str
    points: int
    minutes: int
    difficulty: int
    section: str
    forbid: tuple[str, ...] = ()
    seconds: float = 20.0
    checks: list[tuple[str, Check]] = field(default_factory=list)

    def check(self, check: Check) -> Check:
        """Add a public check. Its docstring's first line names what it looks at."""
        self.checks.append((first_line(check), check))
        return check

    def problem(
        self,
        student: Student,
        source: str,
        seed: int,
        checks: Sequence[tuple[str, Check]],
        shared: Sequence[str] = (),
    ) -> str:
        """Run checks until one fails; return what is wrong, or nothing where all pass.

        `source` is the answer's cell, and `shared` are cells whose names it may use.
        """
        if named := used_names(source, shared) & {*self.forbid, "grading"}:
            names = ", ".join(sorted(named))
            return f"The cell uses {names}, which this question does not allow."
        for title, check in checks:
            try:
                check(student, Draw(seed, self.id, title))
            except Wrong as wrong:
                return str(wrong)
            except Lost as lost:
                return str(lost)
            except Exception:  # an answer of another kind than any that the check thought of
                return f"It returns something else than the question asks for ({title})."
        return ""


def first_line(check: Check) -> str:
    """Return what a check looks at: the first line of its docstring, without the full stop."""
    return (inspect.getdoc(check) or check.__name__).splitlines()[0].rstrip(".")


def tensor(value: Any, shape: Sequence[int], what: str = "The result") -> Tensor:
    """Return `value` if it is a tensor of this shape, or say what it is instead."""
    if not isinstance(value, Tensor):
        kind = value.kind if isinstance(value, Kept) else type(value).__name__
        raise Wrong(f"{what} is a {kind}; it has to be a torch.Tensor.")
    if tuple(value.shape) != tuple(shape):
        raise Wrong(f"{what} has shape {list(value.shape)}; it has to be {list(shape)}.")
    return value


def as_module(value: Any) -> Kept:
    """Return `value` if it is a module of the student's, or say what it is instead."""
    if not isinstance(value, Kept) or value.kind != "module":
        kind = value.kind if isinstance(value, Kept) else type(value).__name__
        raise Wrong(
            f"A {kind} comes back; it has to be an nn.Module. Derive the class from it, and call "
            "its __init__ in yours."
        )
    return value


def several(value: Any, n: int, names: str) -> Sequence[Any]:
    """Return a tuple or list of `n`, or say what it has to be."""
    if type(value) not in (tuple, list) or len(value) != n:
        raise Wrong(f"It has to return {names}.")
    return value


def apart(x: Tensor) -> Tensor:
    """Return the same numbers, lying apart in memory: every second of a larger tensor."""
    return x.repeat_interleave(2, dim=-1)[..., ::2]


def close(a: Tensor, b: Tensor, tolerance: float = 1e-4) -> bool:
    """Whether two tensors agree, relative to the larger of 1 and the second's largest value."""
    if a.shape != b.shape or not torch.isfinite(a).equal(torch.isfinite(b)):
        return False
    a, b = a.double().nan_to_num(), b.double().nan_to_num()
    size = max(1.0, float(b.abs().max()) if b.numel() else 1.0)
    return bool((a - b).abs().max() <= tolerance * size) if b.numel() else True


def require(condition: bool, says: str) -> None:
    """Fail the check with this message unless the condition holds."""
    if not condition:
        raise Wrong(says)


def compare(
    value: Tensor,
    right: Tensor,
    mistakes: dict[str, Tensor] | None = None,
    says: str = "The numbers are not the right ones.",
    tolerance: float = 1e-4,
) -> None:
    """Fail unless `value` is `right`; where it is one of the known mistakes, say which."""
    if close(value, right, tolerance):
        return
    for message, result in (mistakes or {}).items():
        if not close(result, right, tolerance) and close(value, result, tolerance):
            raise Wrong(message)
    raise Wrong(says)
