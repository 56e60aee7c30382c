"""Names of element types, as in `types.TensorInfo.dtype`: numpy and ml_dtypes names, and `string`."""

from __future__ import annotations

import ml_dtypes
import numpy as np

STRING = "string"

_ML_NAMES = tuple(
    name
    for name in (
        "bfloat16",
        "float8_e3m4",
        "float8_e4m3",
        "float8_e4m3b11fnuz",
        "float8_e4m3fn",
        "float8_e4m3fnuz",
        "float8_e5m2",
        "float8_e5m2fnuz",
        "float8_e8m0fnu",
        "float6_e2m3fn",
        "float6_e3m2fn",
        "float4_e2m1fn",
        "int4",
        "uint4",
        "int2",
        "uint2",
    )
    if hasattr(ml_dtypes, name)
)
ML_DTYPES: dict[str, np.dtype] = {name: np.dtype(getattr(ml_dtypes, name)) for name in _ML_NAMES}
"""Types that numpy lacks, by name."""

_NUMPY_NAMES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)


def dtype_name(dtype: np.dtype) -> str:
    """The name of an element type; every kind of text and of object array is `string`."""
    if dtype.kind in "OUST":
        return STRING
    return dtype.name


def as_numpy_dtype(name: str) -> np.dtype:
    """The numpy type of that name; `string` is an object array of str.

    Raises:
        ValueError: The name is not an element type.
    """
    if name in ML_DTYPES:
        return ML_DTYPES[name]
    if name in _NUMPY_NAMES:
        return np.dtype(name)
    if name == STRING:
        return np.dtype(object)
    raise ValueError(f"unknown element type '{name}'")


def widened(array: np.ndarray) -> np.ndarray:
    """The same values in a type that plain numpy has; the array itself where it is one already.

    Every value of the small types is a float32 or an int8 / uint8, so nothing is lost.
    """
    name = array.dtype.name
    if name not in ML_DTYPES:
        return array
    if name.startswith("int"):
        return array.astype(np.int8)
    if name.startswith("uint"):
        return array.astype(np.uint8)
    return array.astype(np.float32)
