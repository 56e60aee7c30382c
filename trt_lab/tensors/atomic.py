"""Files that are either the old one or the whole new one, never half."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def replacing(path: Path, *, sync: bool = False) -> Iterator[BinaryIO]:
    """Opens a temporary file beside `path` that takes its place when the block ends well.

    Args:
        path: The file to make or to replace. Its folder must exist.
        sync: Whether the bytes must be on the disk before the rename.

    Raises:
        RecordError: The folder is missing or cannot be written, or the disk is full.
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        with open(temporary, "wb") as file:
            yield file
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise RecordError(
            f"{path}: cannot be written ({error.strerror or error}); check the folder and the free space"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)
