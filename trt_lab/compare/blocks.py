"""Two tensors read block by block, widened on the way, so that no tensor is ever copied whole."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from trt_lab.tensors.dtypes import ML_DTYPES, dtype_name

BLOCK = 1 << 15
"""Elements a block: its buffers stay in the second-level cache, and threads meet at the interpreter's lock seldom enough."""

_PIECE = 8192
"""Elements of a sum that BLAS starts no threads of its own for."""

_IN_FLOAT32 = {"bool", "int8", "int16", "uint8", "uint16", "float16", "float32", *ML_DTYPES}


def fits_float32(dtype: np.dtype) -> bool:
    """Whether every value of the type is a float32."""
    return dtype_name(dtype) in _IN_FLOAT32


def is_integral(dtype: np.dtype) -> bool:
    """Bools and integers, the 4- and 2-bit ones too."""
    return dtype.kind in "biu" or dtype_name(dtype).lstrip("u").startswith("int")


@dataclass
class Reader:
    """Reads one array flat, in C order.

    An array that is not contiguous is gathered a block at a time; one-byte types that numpy lacks
    are looked up in a table of their 256 values.
    """

    array: np.ndarray
    flat: np.ndarray | np.flatiter = field(init=False)
    table: np.ndarray | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        array = self.array
        name = dtype_name(array.dtype)
        if name in ML_DTYPES and array.dtype.itemsize == 1:
            self.table = np.arange(256, dtype=np.uint8).view(array.dtype).astype(np.float32)
            array = array.view(np.uint8)
        self.flat = array.reshape(-1) if array.flags.c_contiguous else array.flat

    def integers(self, start: int, stop: int) -> np.ndarray:
        """The elements of an integer tensor as numpy integers, exactly."""
        block = self.flat[start:stop]
        return block if self.table is None else self.table[block].astype(np.int64)

    def read(self, start: int, stop: int, out: np.ndarray) -> np.ndarray:
        """The elements in the type of `out`; a view of the tensor where it has that type already."""
        block = self.flat[start:stop]
        if self.table is not None:
            target = out[: stop - start]
            if out.dtype == np.float32:
                return np.take(self.table, block, out=target, mode="clip")
            target[:] = self.table[block]
            return target
        if block.dtype == out.dtype and block.dtype.isnative:
            return block
        target = out[: stop - start]
        np.copyto(target, block, casting="unsafe")
        return target


def dot(x: np.ndarray, y: np.ndarray) -> float:
    """Sum of products in float64, in pieces short enough that BLAS starts no threads of its own."""
    if len(x) <= _PIECE:
        return float(np.dot(x, y))
    return float(sum(np.dot(x[i : i + _PIECE], y[i : i + _PIECE]) for i in range(0, len(x), _PIECE)))


def squares(rows: np.ndarray) -> list[float]:
    """Sum of squares of each row of a float64 matrix, in one call where the pieces come out even."""
    width = rows.shape[1]
    if width % _PIECE or not rows.flags.c_contiguous:
        return [dot(row, row) for row in rows]
    pieces = rows.reshape(len(rows), -1, _PIECE)
    return np.vecdot(pieces, pieces).sum(axis=1).tolist()
