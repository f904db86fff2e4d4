"""A file is written whole or not at all, whatever the disk does."""

import builtins
import errno
import os
import subprocess
import sys

import pytest
from helpers import one_line, tiny_lm

from tfcourse import files
from tfcourse.checkpoints import load_checkpoint, save_checkpoint
from tfcourse.files import write_whole


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run" / "checkpoint.pt"


class Full:
    """A file on a disk that is full after `room` bytes."""

    def __init__(self, file, room):
        self._file, self._room = file, room

    def write(self, data):
        size = memoryview(data).nbytes
        if size > self._room:
            self._file.write(memoryview(data).cast("B")[: self._room])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._room -= size
        return self._file.write(data)

    def __getattr__(self, name):
        return getattr(self._file, name)

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self._file.close()


def fail(*args, **kwargs):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def break_disk(monkeypatch, where):
    if isinstance(where, int):

        def full_open(name, mode, **options):
            return Full(builtins.open(name, mode, **options), where)

        monkeypatch.setattr(files, "open", full_open, raising=False)
    elif where == "open":
        monkeypatch.setattr(files, "open", fail, raising=False)
    else:
        monkeypatch.setattr(files.os, where, fail)


@pytest.mark.parametrize("where", ["open", 0, 1, 100, 5_000, 50_000, "fsync", "replace"])
@pytest.mark.parametrize("older", [True, False])
def test_a_disk_that_fills_up_leaves_the_last_good_checkpoint_and_no_other_file(
    monkeypatch, path, where, older
):
    """Faults at opening, at several bytes, at fsync and at renaming; with and without an older
    file. The error is an OSError of one line that names the file.

    Catches: writing in place; a temporary file left behind; an error of torch's own kind.
    """
    path.parent.mkdir()
    if older:
        save_checkpoint(path, tiny_lm(), step=1)
        content = path.read_bytes()
    with monkeypatch.context() as patch:
        break_disk(patch, where)
        with pytest.raises(OSError) as caught:
            save_checkpoint(path, tiny_lm(seed=1), step=2)
        one_line(caught.value, str(path))
    assert [p.name for p in path.parent.iterdir()] == ([path.name] if older else [])
    if older:
        assert path.read_bytes() == content
        assert load_checkpoint(path)["step"] == 1
    save_checkpoint(path, tiny_lm(seed=1), step=2)
    assert load_checkpoint(path)["step"] == 2


def test_the_new_name_appears_only_after_the_bytes_are_on_the_disk(monkeypatch, tmp_path):
    """Catches: a rename before fsync, after which a power cut leaves an empty file."""
    calls = []
    real = {name: getattr(os, name) for name in ("fsync", "replace")}
    for name, function in real.items():
        monkeypatch.setattr(
            files.os, name, lambda *a, n=name, f=function: (calls.append(n), f(*a))[1]
        )
    write_whole(tmp_path / "x", lambda file: file.write(b"abc"))
    assert calls[:2] == ["fsync", "replace"]
    assert (tmp_path / "x").read_bytes() == b"abc"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, MemoryError])
def test_an_error_while_writing_passes_through_and_leaves_no_file(tmp_path, error):
    """Catches: only OSError cleaned up after."""
    (tmp_path / "x").write_text("old")

    def write(file):
        file.write(b"half")
        raise error

    with pytest.raises(error):
        write_whole(tmp_path / "x", write)
    assert [p.name for p in tmp_path.iterdir()] == ["x"]
    assert (tmp_path / "x").read_text() == "old"


def test_a_leftover_of_a_killed_process_is_no_obstacle(path):
    """Catches: a temporary name that must not exist."""
    path.parent.mkdir()
    path.with_name(path.name + ".tmp").write_bytes(b"half a file")
    save_checkpoint(path, tiny_lm(), step=3)
    assert load_checkpoint(path)["step"] == 3
    assert [p.name for p in path.parent.iterdir()] == [path.name]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a pipe stands for a device")
def test_what_is_no_file_is_not_replaced(tmp_path):
    """Catches: /dev/stdout or /dev/null that becomes a file, for root."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for name in (pipe, tmp_path):
        with pytest.raises(OSError) as caught:
            write_whole(name, lambda file: file.write(b"new"))
        one_line(caught.value, str(name), "no regular file")
    assert pipe.is_fifo() and list(tmp_path.iterdir()) == [pipe]


@pytest.mark.nohook
@pytest.mark.skipif(os.name != "posix", reason="limits on file size are POSIX's")
def test_a_real_refusal_of_the_system_is_one_line_too(tmp_path):
    """A process that may write 4,000 bytes per file. Catches: a fault that only the real torch
    writer shows (it turns Python's error into one of its own).
    """
    code = """
import resource, sys
from pathlib import Path
from tfcourse.architectures import DecoderLM
from tfcourse.checkpoints import save_checkpoint
from tfcourse.config import ModelConfig
model = DecoderLM(ModelConfig(vocab_size=50, d_model=32, n_layers=1))
path = Path(sys.argv[1])
save_checkpoint(path, model, step=1)
resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
try:
    save_checkpoint(path, model, step=2)
except OSError as error:
    print(error)
"""
    path = tmp_path / "checkpoint.pt"
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert str(path) in done.stdout and done.stdout.count("\n") == 1
    assert load_checkpoint(path)["step"] == 1
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint.pt"]
