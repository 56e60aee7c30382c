"""Messages with named arrays, cut into parts that a notebook server lets through.

A message without arrays that is small travels as it is. Any other becomes one stream of bytes, the message as JSON and
then each array at a multiple of 8, and the stream is cut into parts of at most `PART_BYTES`:

    {"kind": "part", "transfer": id, "index": i, "count": n, "json_bytes": j, "arrays": [{name, dtype, shape}]}

with one binary buffer each. `labextension/src/widgets/transfer.ts` does the same in the browser.
"""

from __future__ import annotations

import json
import math
import threading
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

PART_BYTES = 960 * 1024
"""Largest buffer of one message, so that it stays below 1 MB with its header."""

MAX_TRANSFER_BYTES = 256 * 1024 * 1024
MAX_PARTS = math.ceil(MAX_TRANSFER_BYTES / PART_BYTES)
MAX_OPEN_TRANSFERS = 16

DTYPES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "float64")
"""What both sides have a typed array for."""

Arrays = Mapping[str, np.ndarray]


class TransferError(Exception):
    """A part or message that does not follow the form above."""


@dataclass
class _Open:
    """A transfer of which not all parts have come."""

    count: int
    json_bytes: int
    arrays: list[dict[str, Any]]
    parts: dict[int, bytes] = field(default_factory=dict)


def _padded(size: int) -> int:
    return -(-size // 8) * 8


def pack(message: Mapping[str, Any], arrays: Arrays | None = None) -> Iterator[tuple[dict[str, Any], list[bytes]]]:
    """Yields what to send, in order: content and buffers of each part.

    Raises:
        TransferError: An array is of a type that has no typed array, or a number in `message` is not finite.
    """
    try:
        text = json.dumps(message, allow_nan=False, separators=(",", ":"), ensure_ascii=False).encode()
    except (TypeError, ValueError) as error:
        raise TransferError(f"message cannot be written as JSON: {error}") from error
    arrays = arrays or {}
    if not arrays and len(text) <= PART_BYTES:
        yield dict(message), []
        return
    chunks = [text.ljust(_padded(len(text)))]
    descriptions = []
    for name, array in arrays.items():
        if array.dtype.name not in DTYPES:
            raise TransferError(
                f"array {name!r}: {array.dtype.name} has no typed array; use one of {', '.join(DTYPES)}"
            )
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        chunks.append(little.tobytes().ljust(_padded(little.nbytes), b"\0"))
        descriptions.append({"name": name, "dtype": array.dtype.name, "shape": list(array.shape)})
    stream = memoryview(b"".join(chunks))
    transfer, count = uuid.uuid4().hex, max(1, math.ceil(len(stream) / PART_BYTES))
    for index in range(count):
        content: dict[str, Any] = {"kind": "part", "transfer": transfer, "index": index, "count": count}
        if index == 0:
            content |= {"json_bytes": len(text), "arrays": descriptions}
        yield content, [bytes(stream[index * PART_BYTES : (index + 1) * PART_BYTES])]


def _description(content: Mapping[str, Any]) -> tuple[str, int, int, int, list[dict[str, Any]]]:
    """The checked header of a part. Raises TransferError."""
    transfer, index, count = content.get("transfer"), content.get("index"), content.get("count")
    json_bytes, arrays = content.get("json_bytes", 0), content.get("arrays", [])
    whole = [type(value) is int and value >= 0 for value in (index, count, json_bytes)]
    if not isinstance(transfer, str) or not all(whole) or not isinstance(arrays, list):
        raise TransferError("part without transfer, index or count")
    if not index < count <= MAX_PARTS:  # type: ignore[operator]  # both were just seen to be int
        raise TransferError(f"part {index} of {count} is out of range (at most {MAX_PARTS} parts)")
    for array in arrays:
        shape = array.get("shape") if isinstance(array, dict) else None
        fits = isinstance(shape, list) and all(type(size) is int and size >= 0 for size in shape)
        if not fits or array.get("dtype") not in DTYPES or not isinstance(array.get("name"), str):
            raise TransferError("part with an array that has no name, known dtype and shape")
    return transfer, index, count, json_bytes, arrays  # type: ignore[return-value]  # checked above


class Assembler:
    """Puts parts together again. Safe to use from several threads.

    At most `MAX_OPEN_TRANSFERS` may be unfinished; the oldest is dropped beyond that.
    """

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}
        self._lock = threading.Lock()

    def add(self, content: Any, buffers: list[Any]) -> tuple[dict[str, Any], dict[str, np.ndarray]] | None:
        """The whole message and its arrays, or None while parts are missing.

        Raises:
            TransferError: The part or the message in it is malformed; its transfer is forgotten.
        """
        if not isinstance(content, dict):
            raise TransferError("message is not an object")
        if content.get("kind") != "part":
            return content, {}
        transfer, index, count, json_bytes, arrays = _description(content)
        if len(buffers) != 1 or memoryview(buffers[0]).nbytes > PART_BYTES:
            raise TransferError(f"part {index} needs one buffer of at most {PART_BYTES} bytes")
        with self._lock:
            entry = self._open.setdefault(transfer, _Open(count, 0, []))
            if entry.count != count:
                del self._open[transfer]
                raise TransferError(f"transfer {transfer}: parts disagree about their number")
            if index == 0:
                entry.json_bytes, entry.arrays = json_bytes, arrays
            entry.parts[index] = bytes(buffers[0])
            if len(entry.parts) < count:
                while len(self._open) > MAX_OPEN_TRANSFERS:
                    del self._open[next(iter(self._open))]
                return None
            del self._open[transfer]
        return _unpack(entry)


def _unpack(entry: _Open) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    stream = b"".join(entry.parts[index] for index in range(entry.count))
    try:
        message = json.loads(stream[: entry.json_bytes])
    except ValueError as error:
        raise TransferError(f"transfer holds no JSON: {error}") from error
    if not isinstance(message, dict):
        raise TransferError("message is not an object")
    arrays: dict[str, np.ndarray] = {}
    offset = _padded(entry.json_bytes)
    for description in entry.arrays:
        dtype = np.dtype(description["dtype"]).newbyteorder("<")
        size = math.prod(description["shape"])
        if offset + size * dtype.itemsize > len(stream):
            raise TransferError(f"array {description['name']!r} is longer than what was sent")
        flat = np.frombuffer(stream, dtype, size, offset)
        arrays[description["name"]] = flat.reshape(description["shape"])
        offset += _padded(size * dtype.itemsize)
    return message, arrays
