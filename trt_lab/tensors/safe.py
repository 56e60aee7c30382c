"""safetensors files, memory-mapped, in every element type a model can have.

The format is an 8-byte little-endian length, a JSON header and the bytes
(https://huggingface.co/docs/safetensors). It is written here and not by the `safetensors` package, which
takes no text and no int4, sorts tensors by name (the order of outputs would be lost) and copies
on reading. Types that the format lacks are stored as U8, with their name and shape under `trt_lab`
in the header's `__metadata__`, so other readers still open the file.
"""

from __future__ import annotations

import json
import math
import mmap
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from trt_lab.errors import RecordError
from trt_lab.tensors.atomic import replacing
from trt_lab.tensors.dtypes import ML_DTYPES, STRING, as_numpy_dtype, dtype_name

_TAGS: dict[str, str] = {
    "BOOL": "bool",
    "I8": "int8",
    "I16": "int16",
    "I32": "int32",
    "I64": "int64",
    "U8": "uint8",
    "U16": "uint16",
    "U32": "uint32",
    "U64": "uint64",
    "F16": "float16",
    "F32": "float32",
    "F64": "float64",
    "C64": "complex64",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F8_E8M0": "float8_e8m0fnu",
}
_TAG_OF = {name: tag for tag, name in _TAGS.items()}
_OWN = "trt_lab"
_HEADER_LIMIT = 100 << 20


def write_safetensors(
    path: str | os.PathLike[str],
    arrays: Mapping[str, np.ndarray],
    *,
    metadata: Mapping[str, str] | None = None,
    sync: bool = False,
) -> Path:
    """Writes tensors; an existing file is replaced at once or not at all.

    Args:
        path: The file to make.
        arrays: By name; the order is kept. Any numpy or ml_dtypes type, and text (object or str arrays).
        metadata: Further strings for the header.
        sync: Whether to wait until the disk has it.

    Raises:
        RecordError: It cannot be written, or an array holds Python objects other than text.
    """
    target = Path(path)
    header: dict[str, Any] = {}
    own: dict[str, Any] = {}
    blobs: list[tuple[str, np.ndarray]] = []
    for name, array in arrays.items():
        tag, stored, note = encode(target, name, np.asarray(array))
        if note is not None:
            own[name] = note
        header[name] = {"dtype": tag, "shape": list(stored.shape)}
        blobs.append((name, stored))
    # Wide elements first, so that every array is aligned in the map.
    offset = 0
    for name, stored in sorted(blobs, key=lambda blob: -_unit(blob[1])):
        header[name]["data_offsets"] = [offset, offset + stored.nbytes]
        offset += stored.nbytes
    extra = dict(metadata or {})
    if own:
        extra[_OWN] = json.dumps(own)
    if extra:
        header = {"__metadata__": extra, **header}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with replacing(target, sync=sync) as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for _, stored in sorted(blobs, key=lambda blob: -_unit(blob[1])):
            if stored.size:
                file.write(stored.reshape(-1).view(np.uint8).data)
    return target


def read_safetensors(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Reads tensors as read-only views of the mapped file; nothing is copied until it is looked at.

    Raises:
        RecordError: No such file, not safetensors, cut short, or a header that contradicts itself.
    """
    source = Path(path)
    view, header, start = _mapped(source)
    notes = _own_notes(source, header.pop("__metadata__", None) or {})
    arrays: dict[str, np.ndarray] = {}
    for name, entry in header.items():
        arrays[name] = _tensor(source, view, start, name, entry, notes.get(name))
    return arrays


def safetensors_loaders(path: str | os.PathLike[str]) -> dict[str, Callable[[], np.ndarray]]:
    """One function a tensor that maps it when called: what is no longer looked at takes no memory.

    Raises:
        RecordError: See `read_safetensors`; the whole header is checked at once.
    """
    source = Path(path)
    view, header, start = _mapped(source)
    notes = _own_notes(source, header.pop("__metadata__", None) or {})
    for name, entry in header.items():
        _tensor(source, view, start, name, entry, notes.get(name))

    def loader(name: str) -> Callable[[], np.ndarray]:
        return lambda: _tensor(source, _map(source), start, name, header[name], notes.get(name))

    return {name: loader(name) for name in header}


def _unit(array: np.ndarray) -> int:
    """Bytes of the widest part that must be aligned."""
    return array.dtype.itemsize // 2 if array.dtype.kind == "c" else array.dtype.itemsize


def encode(path: Path, name: str, array: np.ndarray) -> tuple[str, np.ndarray, dict[str, Any] | None]:
    """Tag, contiguous little-endian array to store, and what the header's metadata must add."""
    if not isinstance(name, str):
        raise RecordError(f"{path}: tensor names are text, not {type(name).__name__}; rename {name!r}")
    kind = dtype_name(array.dtype)
    shape = list(array.shape)
    if kind == STRING:
        words = [_text(path, name, item) for item in array.reshape(-1).tolist()]
        raw = np.frombuffer(json.dumps(words).encode(), np.uint8)
        return "U8", raw, {"dtype": STRING, "shape": shape}
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    flat = np.ascontiguousarray(array).reshape(array.shape)
    if kind in _TAG_OF:
        return _TAG_OF[kind], flat, None
    try:
        as_numpy_dtype(kind)
    except ValueError as error:
        raise RecordError(f"{path}: tensor '{name}': {error}; cast it before saving") from error
    return "U8", flat.reshape(-1).view(np.uint8), {"dtype": kind, "shape": shape}


def _text(path: Path, name: str, item: object) -> str:
    if isinstance(item, bytes):
        return item.decode("utf-8", "replace")
    if isinstance(item, str):
        return item
    raise RecordError(
        f"{path}: tensor '{name}' holds a Python {type(item).__name__}; only text and numbers can be saved"
    )


def _mapped(path: Path) -> tuple[memoryview, dict[str, Any], int]:
    """Maps a file and parses its header. Returns the map, the header and where the data starts."""
    view = _map(path)
    size = len(view)
    length = int.from_bytes(view[:8], "little")
    if length > _HEADER_LIMIT:
        raise RecordError(f"{path}: not a safetensors file (header of {length} bytes); give a .safetensors file")
    if 8 + length > size:
        raise RecordError(f"{path}: cut short, the header has {length} bytes and {size - 8} are there; save it again")
    try:
        header = json.loads(bytes(view[8 : 8 + length]))
    except (ValueError, RecursionError) as error:
        raise RecordError(
            f"{path}: not a safetensors file (header is no JSON: {error}); give a .safetensors file"
        ) from error
    if not isinstance(header, dict):
        raise RecordError(f"{path}: not a safetensors file (header is no JSON object); give a .safetensors file")
    return view, header, 8 + length


def _map(path: Path) -> memoryview:
    """The file in memory, read where it is touched."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < 8:
                raise RecordError(f"{path}: not a safetensors file ({size} bytes); give a .safetensors file")
            view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise RecordError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    return view


def _own_notes(path: Path, metadata: Any) -> dict[str, Any]:
    if not isinstance(metadata, dict) or _OWN not in metadata:
        return {}
    try:
        notes = json.loads(metadata[_OWN])
    except (TypeError, ValueError, RecursionError) as error:
        raise RecordError(f"{path}: header entry '{_OWN}' is damaged ({error}); save it again") from error
    return notes if isinstance(notes, dict) else {}


def _tensor(path: Path, view: memoryview, start: int, name: str, entry: Any, note: Any) -> np.ndarray:
    """One array of the map, its header entry checked first."""
    bad = f"{path}: tensor '{name}'"
    try:
        tag = str(entry["dtype"])
        shape = tuple(int(size) for size in entry["shape"])
        begin, end = (int(place) for place in entry["data_offsets"])
    except (TypeError, KeyError, ValueError) as error:
        raise RecordError(f"{bad}: damaged header entry ({error!r}); save it again") from error
    if begin < 0 or end < begin or min(shape, default=0) < 0:
        raise RecordError(f"{bad}: impossible place or shape in the header; save it again")
    if start + end > len(view):
        raise RecordError(f"{bad}: cut short, ends at byte {start + end} of {len(view)}; save it again")
    raw = view[start + begin : start + end]
    if note is not None:
        return _own_tensor(bad, raw, note)
    if tag == "F4":
        return _float4(bad, raw, shape)
    if tag not in _TAGS:
        raise RecordError(f"{bad}: element type {tag} cannot be read here; convert it to F32")
    return _view(bad, raw, as_numpy_dtype(_TAGS[tag]), shape)


def _view(bad: str, raw: memoryview, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    count = math.prod(shape)
    if count * dtype.itemsize != len(raw):
        raise RecordError(
            f"{bad}: {list(shape)} {dtype} needs {count * dtype.itemsize} bytes, {len(raw)} are there; save it again"
        )
    if count == 0:
        return np.empty(shape, dtype)
    return np.frombuffer(raw, np.uint8).view(dtype).reshape(shape)


def _float4(bad: str, raw: memoryview, shape: tuple[int, ...]) -> np.ndarray:
    """Two elements a byte, the first in the low half."""
    packed = np.frombuffer(raw, np.uint8)
    codes = np.stack([packed & 15, packed >> 4], axis=-1).reshape(-1)
    return _view(bad, memoryview(codes.tobytes()), ML_DTYPES["float4_e2m1fn"], shape)


def _own_tensor(bad: str, raw: memoryview, note: Any) -> np.ndarray:
    try:
        dtype = as_numpy_dtype(note["dtype"])
        shape = tuple(int(size) for size in note["shape"])
        if dtype != object:
            return _view(bad, raw, dtype, shape)
        array = np.empty(math.prod(shape), object)
        array[:] = json.loads(bytes(raw))
        return array.reshape(shape)
    except (TypeError, KeyError, ValueError) as error:
        raise RecordError(f"{bad}: damaged entry '{_OWN}' in the header ({error}); save it again") from error
