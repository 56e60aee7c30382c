"""A safetensors file written tensor by tensor, when what comes is larger than memory."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from trt_lab.errors import RecordError
from trt_lab.tensors.atomic import replacing
from trt_lab.tensors.safe import encode

_ENTRY_BYTES = 260
"""More than a tensor's entry in the header takes beside its name."""


class TensorStream:
    """Takes tensors one by one; see `streaming`."""

    def __init__(self, path: Path, file: BinaryIO, room: int, metadata: Mapping[str, str]) -> None:
        self._path, self._file, self._room = path, file, room
        self._metadata = dict(metadata)
        self._notes: dict[str, Any] = {}
        self._header: dict[str, Any] = {}
        self._held: list[tuple[str, np.ndarray]] = []
        self.bytes = 0
        file.seek(8 + room)

    def add(self, name: str, array: np.ndarray) -> None:
        """Writes a tensor. One that would put those behind it out of step is held back to the end.

        Raises:
            RecordError: It is no tensor of numbers or text.
        """
        tag, stored, note = encode(self._path, name, np.asarray(array))
        if note is not None:
            self._notes[name] = note
        self._header[name] = {"dtype": tag, "shape": list(stored.shape)}
        if self.bytes % stored.dtype.itemsize or stored.nbytes % 4:
            self._held.append((name, np.array(stored)))
        else:
            self._write(name, stored)

    def _write(self, name: str, stored: np.ndarray) -> None:
        self._header[name]["data_offsets"] = [self.bytes, self.bytes + stored.nbytes]
        self.bytes += stored.nbytes
        if stored.size:
            self._file.write(stored.reshape(-1).view(np.uint8).data)

    def finish(self) -> None:
        """Writes what was held back, the widest first, and the header into the room left for it."""
        for name, stored in sorted(self._held, key=lambda item: -item[1].dtype.itemsize):
            self._write(name, stored)
        extra = self._metadata | ({"trt_lab": json.dumps(self._notes)} if self._notes else {})
        text = json.dumps({"__metadata__": extra, **self._header}, ensure_ascii=False, separators=(",", ":")).encode()
        if len(text) > self._room:
            raise RecordError(f"{self._path}: {len(text)} bytes of header, room for {self._room}; name fewer tensors")
        self._file.seek(0)
        self._file.write((self._room).to_bytes(8, "little") + text.ljust(self._room))


@contextmanager
def streaming(
    path: str | os.PathLike[str], names: Iterable[str], *, metadata: Mapping[str, str] | None = None
) -> Iterator[TensorStream]:
    """Opens a file for tensors of these names; it is there, whole, when the block ends well.

    Args:
        path: The file to make.
        names: All that may come; room for the header is left by them. Not all need to come.
        metadata: Further strings for the header.

    Raises:
        RecordError: It cannot be written.
    """
    target = Path(path)
    extra = dict(metadata or {})
    room = sum(2 * len(json.dumps(name)) + _ENTRY_BYTES for name in names) + len(json.dumps(extra)) + _ENTRY_BYTES
    with replacing(target) as file:
        stream = TensorStream(target, file, room + -room % 8, extra)
        yield stream
        stream.finish()
