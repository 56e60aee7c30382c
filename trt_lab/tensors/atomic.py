"""Files that are either the old one or the whole new one, never half."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from trt_lab.errors import RecordError


def fsync_folder(path: Path) -> None:
    """Makes a rename or a new name inside `path` durable, where the system can do that."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return  # Windows cannot open a folder; its renames are durable by themselves
    try:
        os.fsync(handle)
    except OSError:
        pass  # some network file systems refuse; the data itself was synced before
    finally:
        os.close(handle)


def file_target(path: Path) -> Path:
    """Where a file of that name is made or replaced: what a link points to, so that the link stays.

    Raises:
        OSError: There is a folder, or what is no ordinary file: a device or a pipe would be gone after the rename.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "it is a folder: give the name of a file")
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is a device or a pipe: give the name of a file")
    return Path(os.path.realpath(path)) if path.is_symlink() else path


@contextmanager
def replacing(path: Path, *, sync: bool = False) -> Iterator[BinaryIO]:
    """Opens a temporary file beside `path` that takes its place when the block ends well.

    Args:
        path: The file to make or to replace; see `file_target`. Its folder must exist.
        sync: Whether the bytes must be on the disk before the rename.

    Raises:
        RecordError: The folder is missing or cannot be written, `path` is no place for a file, or the disk is full.
    """
    temporary: Path | None = None
    try:
        target = file_target(path)
        temporary = target.with_name(f".trt-lab-{uuid.uuid4().hex[:12]}.tmp")
        with open(temporary, "wb") as file:
            yield file
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        raise RecordError(
            f"{path}: cannot be written ({error.strerror or error}); check the folder and the free space"
        ) from error
    finally:
        if temporary is not None:
            with suppress(OSError):  # the error that led here is the one to tell
                temporary.unlink(missing_ok=True)
