"""What runs inside the sandbox: import torch once, then one forked process for each question.

Started as `python -m tfcourse.grading.server CONTROL UID`, with the number of an inherited socket.
On it come JSON lines, `start` (with a socket of its own for the question) and `stop`.
"""

from __future__ import annotations

import array
import ast
import codeop
import contextlib
import json
import linecache
import os
import resource
import signal
import socket
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch
import torch._dynamo  # by torch.func and parts of tfcourse; once here, not once per question

import tfcourse.grading
from tfcourse.grading.names import parse
from tfcourse.grading.worker import Worker

MEMORY = 4 * 2**30
"""Bytes of addresses that a question's process may have; Python and torch take 0.7 GiB."""
FILES = 64 * 2**20
"""Bytes that it may write into one file."""
PROCESSES = 128


def main(control: int, uid: int) -> None:
    """Serve until the control socket is closed."""
    channel = socket.socket(fileno=control)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # where memory runs short, this goes first
    if uid:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
    torch.set_num_threads(1)
    channel.sendall(b"ready\n")
    while True:
        message, fds = _receive(channel)
        if message is None:  # the grader is gone
            _end_all()
            return
        if message["op"] == "start":
            if os.fork() == 0:
                channel.close()
                _serve(message, fds[0])
            os.close(fds[0])
        else:
            _end_all()
        channel.sendall(b"done\n")


def _receive(channel: socket.socket) -> tuple[dict | None, list[int]]:
    """Read one line, and the file descriptors that came with its first byte."""
    size = array.array("i").itemsize
    data, ancillary, *_ = channel.recvmsg(2**16, socket.CMSG_SPACE(size))
    fds = array.array("i")
    for _, _, content in ancillary:
        fds.frombytes(content[: len(content) - len(content) % size])
    while data and not data.endswith(b"\n"):
        more = channel.recv(2**16)
        data = data + more if more else b""
    return (json.loads(data) if data else None), list(fds)


def _end_all() -> None:
    """Kill every process of this sandbox but this one, and wait until they are gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)


def _serve(message: dict, fd: int) -> NoReturn:
    """Be a question's process: run the cells, then answer requests until the socket closes."""
    code = 1
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(nothing, standard)
        _limit(message["seconds"])
        lines = socket.socket(fileno=fd).makefile("rwb")
        done = lambda: _send(lines, {"value": None})  # noqa: E731
        objects, problem = run_cells(message["cells"], message["own"], done)
        worker = Worker(objects, frozenset(message["forbid"]))
        _send(lines, {"error": problem} if problem else {"value": None})
        for line in lines:
            _send(lines, worker.answer(json.loads(line)))
        code = 0
    finally:
        os._exit(code)


def _send(lines: Any, answer: dict) -> None:
    lines.write(json.dumps(answer).encode() + b"\n")
    lines.flush()


def _limit(seconds: float) -> None:
    for what, most in (
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_FSIZE, FILES),
        (resource.RLIMIT_NPROC, PROCESSES),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, int(seconds) + 5),
    ):
        hard = resource.getrlimit(what)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, most))


def run_cells(
    cells: Sequence[str], own: str, done: Callable[[], None]
) -> tuple[dict[str, Any], str]:
    """Run the shared cells, then the question's own; return all names, and what went wrong in it.

    `done` is called after each shared cell. A statement there that raises, such as the import of
    what only Colab has, is left out: the question's cell will notice what it needs.
    """
    tfcourse.grading.check = lambda id, answer: None  # it is graded now; once is enough
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    # A notebook has `display` without an import; here is nobody to look.
    main.display = lambda *args, **kwargs: None  # type: ignore[attr-defined]
    objects = vars(main)
    compiler = codeop.Compile()  # an import from __future__ holds for the cells after it, too
    compiler.flags = 0
    for i, source in enumerate(cells):
        name = _remember(f"<cell {i}>", source)
        for statement in parse(source).body:
            with contextlib.suppress(BaseException):
                one = ast.Module([statement], [])
                exec(compiler(one, name, "exec"), objects)  # type: ignore[arg-type]
        done()
    try:
        exec(compiler(own, _remember("<your cell>", own), "exec"), objects)
    except BaseException as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        return {}, f"{type(error).__name__}{line}: {str(error)[:200]}"
    return objects, ""


def _remember(name: str, source: str) -> str:
    """Keep a cell's source where `inspect` looks for it, as a notebook does; return its name."""
    linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
    return name


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
