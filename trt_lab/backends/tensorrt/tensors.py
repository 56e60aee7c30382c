"""numpy arrays ↔ bytes as TensorRT holds them, for every type it has."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from trt_lab.errors import RunError

_DTYPES: dict[str, np.dtype] = {
    "FLOAT": np.dtype(np.float32),
    "HALF": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "INT8": np.dtype(np.int8),
    "UINT8": np.dtype(np.uint8),
    "INT32": np.dtype(np.int32),
    "INT64": np.dtype(np.int64),
    "BOOL": np.dtype(np.bool_),
    "FP8": np.dtype(ml_dtypes.float8_e4m3fn),
    "INT4": np.dtype(ml_dtypes.int4),
    "FP4": np.dtype(ml_dtypes.float4_e2m1fn),
    "E8M0": np.dtype(ml_dtypes.float8_e8m0fnu),
}
_PACKED = ("INT4", "FP4")
"""Two elements a byte, the first in the low half."""


def numpy_type(kind: Any) -> np.dtype:
    """numpy (or ml_dtypes) type of a TensorRT DataType. Raises RunError for an unknown one."""
    found = _DTYPES.get(kind.name)
    if found is None:
        raise RunError(f"type {kind.name} of this TensorRT is not known to trt-lab; cast the tensor in the model")
    return found


def byte_count(kind: Any, elements: int) -> int:
    """Bytes that `elements` take on the GPU."""
    if kind.name in _PACKED:
        return (elements + 1) // 2
    return elements * numpy_type(kind).itemsize


def to_bytes(kind: Any, array: np.ndarray) -> np.ndarray:
    """The array as TensorRT wants it: C order, packed where two elements share a byte."""
    flat = np.ascontiguousarray(array)
    if kind.name not in _PACKED:
        return flat
    nibbles = flat.reshape(-1).view(np.uint8) & 0x0F
    if nibbles.size % 2:
        nibbles = np.append(nibbles, np.uint8(0))
    return nibbles[0::2] | (nibbles[1::2] << 4)


def from_bytes(kind: Any, data: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The array in `data` (uint8), unpacked."""
    dtype = numpy_type(kind)
    if kind.name not in _PACKED:
        return data.view(dtype).reshape(shape)
    count = int(np.prod(shape, dtype=np.int64))
    nibbles = np.empty(data.size * 2, np.uint8)
    nibbles[0::2], nibbles[1::2] = data & 0x0F, data >> 4
    nibbles = nibbles[:count]
    if kind.name == "INT4":  # ml_dtypes keeps the sign in the upper half of the byte
        nibbles = np.where(nibbles & 0x08, nibbles | 0xF0, nibbles).astype(np.uint8)
    return nibbles.view(dtype).reshape(shape)
