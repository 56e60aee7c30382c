"""Arithmetic that the figures share: differences in a wide type, and short texts for numbers."""

from __future__ import annotations

import numpy as np

FloatArray = np.ndarray
"""float64 array, as used for drawing."""


def is_numeric(array: np.ndarray) -> bool:
    """Whether values can be drawn: floats, integers, bools and the small types of ml_dtypes; no strings or objects."""
    return array.dtype.kind in "biuf" or (array.dtype.kind == "V" and array.dtype.names is None)


def as_float(array: np.ndarray) -> FloatArray:
    """Values as float64 (64-bit integers lose their last bits: fit for drawing, not for differences)."""
    if array.dtype.kind == "V":  # bfloat16, float8, int4, ...: ml_dtypes converts to float32 exactly
        return array.astype(np.float32).astype(np.float64)
    return array.astype(np.float64)


def subtract(engine: np.ndarray, golden: np.ndarray) -> FloatArray:
    """engine − golden as float64, taken in a type wide enough for both.

    Non-finite values: where both sides hold the same (NaN with NaN, equal infinities) the result is NaN,
    "nothing to say"; where they disagree it is +Inf.
    """
    if engine.dtype.kind in "iu" and golden.dtype.kind in "iu" and max(engine.itemsize, golden.itemsize) == 8:
        wide = np.longdouble  # 64 bits of mantissa where the platform has them: exact
        return (engine.astype(wide) - golden.astype(wide)).astype(np.float64)
    a, b = as_float(engine), as_float(golden)
    finite = np.isfinite(a) & np.isfinite(b)
    if finite.all():
        return a - b
    agree = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        return np.where(finite, a - b, np.where(agree, np.nan, np.inf))


def number(value: float | bool | None) -> str:
    """A number for people: four digits, integers whole, "not defined" for None."""
    if value is None:
        return "not defined"
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, int | np.integer):
        return str(int(value))
    value = float(value)
    if np.isnan(value):
        return "NaN"
    if np.isinf(value):
        return "+Inf" if value > 0 else "−Inf"
    return f"{value:.4g}".replace("-", "−") if abs(value) < 1e-4 or abs(value) >= 1e6 else f"{value:.4g}"


def shape_text(shape: tuple[int, ...] | None) -> str:
    """`[1, 3, 224, 224]`, `scalar` for rank 0."""
    if shape is None:
        return "unknown shape"
    return f"[{', '.join(map(str, shape))}]" if shape else "scalar"


def plural(count: int, word: str) -> str:
    """`1 layer`, `2 layers`, with thousands apart."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"
