"""Write files whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Replace `path` by what `write` writes, in one step that no crash can split.

    The bytes go to a neighbour named `<name>.tmp`, are forced to the disk, and only then take the
    name. If anything fails, the old file is untouched and the neighbour is removed; one that a
    killed process left behind is overwritten by the next call.

    Raises:
        OSError: the disk is full, the folder cannot be written, or what stands there is no file,
            such as /dev/null; the message names the path.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, f"{path} is no regular file; choose another name")
    temporary = path.with_name(path.name + ".tmp")
    try:
        with open(temporary, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        # torch.save reports a full disk as a RuntimeError, with the true cause behind it.
        cause = error if isinstance(error, OSError) else error.__context__
        if isinstance(error, Exception) and isinstance(cause, OSError):
            reason = cause.strerror or str(cause)
            raise OSError(
                cause.errno,
                f"could not write {path} ({reason}); what was there before is intact; "
                "make room, or choose another folder",
            ) from error
        raise


def _sync_folder(folder: Path) -> None:
    """Force the new name to the disk too, where that can be done.

    Windows and some mounted drives cannot. The file has its new content by then either way.
    """
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
