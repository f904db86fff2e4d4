"""A sandbox for one submission: no network, no files but Python's own, and limits on everything.

The grader never imports, unpickles or executes anything of a student's. It sends inputs into the
sandbox and reads results, as JSON lines.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import tfcourse
from tfcourse.grading.questions import Lost, LostCell, Question, Student, text_of

Mode = Literal["bubblewrap", "uid", "unsafe"]
PACKAGE = Path(tfcourse.__file__).resolve().parent
FIRST_UID = 61_000
"""A submission runs as a user of this number or above; no person has it."""
UIDS = 4_000
"""So many users in turn: what one may leave behind in the kernel, the next ones cannot read."""
START = 60.0
"""Seconds that a sandbox may take to import torch."""
MOST = 64 * 2**20
"""Bytes of one answer."""
REMEDY = (
    "install bubblewrap (`apt-get install bubblewrap`); in a container, start it with "
    "`--security-opt seccomp=unconfined --security-opt apparmor=unconfined`; on Ubuntu 24.04, "
    "`sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0`; or, as root, use the weaker "
    "--sandbox uid"
)


class SandboxError(ValueError):
    """No sandbox could be started; the message says what to do."""


def command(mode: Mode, control: int, uid: int) -> list[str]:
    """Return the command that starts the server in a sandbox."""
    server = [sys.executable, "-m", "tfcourse.grading.server", str(control), str(uid)]
    if mode != "bubblewrap":
        return server
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        raise SandboxError(f"bubblewrap is missing; {REMEDY}")
    as_root = uid != 0
    binds: list[str] = []
    for path in ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64"):
        if os.path.islink(path):
            binds += ["--symlink", os.readlink(path), path]
        elif os.path.exists(path):
            binds += ["--ro-bind", path, path]
    python = {sys.prefix, sys.base_prefix, str(Path(sys.executable).resolve().parents[1])}
    installed = any(PACKAGE.is_relative_to(path) for path in ("/usr", *python))
    seen = ["/course/tfcourse", *([str(PACKAGE)] if installed else [])]
    for path in sorted(python):
        if not path.startswith("/usr"):
            binds += ["--ro-bind", path, path]
    return [
        bwrap,
        *("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"),
        *([] if as_root else ["--unshare-user"]),
        *("--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL"),
        # To become the unused user; with the change of user both are gone.
        *(["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"] if as_root else []),
        # First, so that an environment that lies below /tmp can be seen in it.
        *("--proc", "/proc", "--dev", "/dev"),
        *("--perms", "1777", "--size", str(2**28), "--tmpfs", "/tmp"),
        *("--perms", "1777", "--size", str(2**28), "--tmpfs", "/dev/shm"),  # multiprocessing's
        # Else bubblewrap makes them with mode 700, and the unused user could import nothing more.
        *(word for path in _above([*sorted(python), "/course/tfcourse"]) for word in _open(path)),
        *binds,
        *("--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"),
        *("--ro-bind", str(PACKAGE), "/course/tfcourse"),
        # What the checks compare with, also where the package was installed.
        *(word for package in seen for word in ("--tmpfs", f"{package}/grading/sets")),
        *("--perms", "1777", "--dir", "/tmp/home", "--chdir", "/tmp/home"),
        *(word for name, value in ENVIRONMENT.items() for word in ("--setenv", name, value)),
        *("--setenv", "PYTHONPATH", "/course"),
        *server,
    ]


def _above(paths: Sequence[str]) -> list[str]:
    """List the directories above these paths, upper ones first."""
    return sorted({str(d) for path in paths for d in Path(path).parents} - {"/"})


def _open(path: str) -> tuple[str, ...]:
    return "--perms", "0755", "--dir", path


ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/tmp/home",
    "LANG": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
    "MPLBACKEND": "agg",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
}


class Sandbox:
    """One submission's sandbox. Start it with `with`; ask for each question's `student`.

    Raises `SandboxError` where the host cannot start one.
    """

    started = itertools.count()

    def __init__(self, mode: Mode = "bubblewrap") -> None:
        self.mode, self.number = mode, next(Sandbox.started) % UIDS
        self.process: subprocess.Popen | None = None
        self.closed = False

    def __enter__(self) -> Sandbox:
        self._start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End it with everything in it, for good; whoever waits for an answer gets `Lost`."""
        self.closed = True
        self._end()

    def _start(self) -> None:
        uid = FIRST_UID + self.number if os.geteuid() == 0 and self.mode != "unsafe" else 0
        if self.mode == "uid" and uid == 0:
            raise SandboxError("--sandbox uid has to become another user; start it as root")
        self.control, theirs = socket.socketpair()
        environment = ENVIRONMENT | {"PYTHONPATH": str(PACKAGE.parent)}
        with theirs:
            self.process = subprocess.Popen(
                command(self.mode, theirs.fileno(), uid),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=None if self.mode == "bubblewrap" else environment,
                cwd="/" if self.mode == "uid" else None,
                start_new_session=True,
            )
        if self._expect(START) != b"ready\n":
            self._end()
            said = self.process.communicate()[1].decode(errors="replace").strip()
            raise SandboxError(f"no sandbox starts here ({said[-200:]}); {REMEDY}")

    def _end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.control.close()

    def _expect(self, seconds: float) -> bytes:
        self.control.settimeout(seconds)
        try:
            return self.control.recv(64)
        except OSError:
            return b""

    @contextlib.contextmanager
    def student(self, question: Question, own: str, shared: Sequence[str]) -> Iterator[Student]:
        """Run a question's cells in a process of its own; give the student's answer to the checks.

        `own` is the question's cell, `shared` the cells before it that belong to no question.
        Shared cells have the question's time three times over, and its own cell with all checks
        once. Raises `LostCell` where a shared cell does not come to an end, and `Lost` where its
        own does not, or raises. Whatever the process does, the next question gets a fresh one.
        """
        ours, theirs = socket.socketpair()
        message = {
            "op": "start",
            "own": own,
            "cells": list(shared),
            "forbid": list(question.forbid),
            "seconds": 4 * question.seconds,
        }
        try:
            with ours:
                self._tell(message, theirs)
                channel = Channel(ours, 3 * question.seconds)
                for source in shared:
                    try:
                        channel.read()
                    except Lost:
                        raise LostCell(source) from None
                channel.begin(question.seconds)
                answer = channel.read()
                if "error" in answer:
                    raise Lost(f"The cell raised {text_of(answer['error'])}")
                yield Student(channel.request, question.name)
        finally:
            self._tell({"op": "stop"})

    def _tell(self, message: dict, theirs: socket.socket | None = None) -> None:
        """Send a message to the server; where it is gone, start another."""
        line = json.dumps(message).encode() + b"\n"
        for _ in range(2):
            with contextlib.suppress(OSError):
                if theirs is None:
                    self.control.sendall(line)
                else:
                    sent = socket.send_fds(self.control, [line], [theirs.fileno()])
                    self.control.sendall(line[sent:])
                if self._expect(10.0) == b"done\n":
                    break
            self._end()
            if self.closed:
                raise Lost("The grading was stopped.")
            self._start()
            if theirs is None:  # a new sandbox has nothing to stop
                break
        else:
            raise Lost("The process ended before it could answer.")
        if theirs is not None:
            theirs.close()


class Channel:
    """Requests to a question's process and its answers, all within one deadline."""

    def __init__(self, pipe: socket.socket, seconds: float) -> None:
        self.pipe, self.buffer = pipe, bytearray()
        self.begin(seconds)

    def begin(self, seconds: float) -> None:
        """Count the time anew."""
        self.seconds, self.end = seconds, time.monotonic() + seconds

    def request(self, message: dict) -> dict:
        """Send a request and read its answer. Raises `Lost` as `read` does."""
        try:
            self.pipe.settimeout(max(0.01, self.end - time.monotonic()))
            self.pipe.sendall(json.dumps(message).encode() + b"\n")
        except TimeoutError:
            raise Lost(f"It gave no answer within {self.seconds:g} seconds.") from None
        except OSError:
            raise Lost("Its process ended before it answered.") from None
        return self.read()

    def read(self) -> dict:
        """Read one answer. Raises `Lost` for silence, an end, too many bytes, or no JSON object."""
        while b"\n" not in self.buffer:
            left = self.end - time.monotonic()
            if len(self.buffer) > MOST:
                raise Lost("Its answer is larger than 64 MiB.")
            try:
                self.pipe.settimeout(max(0.01, left))
                more = self.pipe.recv(2**20)
            except TimeoutError:
                raise Lost(f"It gave no answer within {self.seconds:g} seconds.") from None
            except OSError:
                more = b""
            if not more:
                raise Lost("Its process ended before it answered.")
            self.buffer += more
        line, _, rest = bytes(self.buffer).partition(b"\n")
        self.buffer = bytearray(rest)
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise Lost("What its process sent is no answer.")
        return answer
