"""Checks given inputs against a model: names, shapes, types."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

import ml_dtypes
import numpy as np

from trt_lab.edit.schema import FIRST_IR_WITH_FREE_INITIALIZERS
from trt_lab.errors import InputError
from trt_lab.graph import GraphView
from trt_lab.model import Model
from trt_lab.types import TensorInfo


class CheckedFeeds(dict[str, np.ndarray]):
    """Inputs that fit the model, and what was changed to make them fit: `notes`, one line each."""

    def __init__(self, feeds: Mapping[str, np.ndarray], notes: tuple[str, ...]) -> None:
        """Keeps `notes` beside the feeds."""
        super().__init__(feeds)
        self.notes = notes


def check_feeds(model: Model, feeds: Mapping[str, np.ndarray]) -> CheckedFeeds:
    """Inputs in the model's order and types.

    Types are changed where every number stays what it was (int64 → int32, float64 holding float32 numbers). A float
    type that rounds (float64 → float32) is taken as well, with a note; nothing may become infinite.

    Args:
        model: The model.
        feeds: Arrays by input name. Initializers that are also inputs may be left out.

    Raises:
        InputError: A name, shape or type does not fit; the message says which input, what is wanted and what came.
    """
    view = GraphView.of(model)
    if not isinstance(feeds, Mapping):
        raise InputError(f"{model.name}: inputs must be arrays by name, {type(feeds).__name__} given")
    wanted = {view.tensors[tensor].name: view.tensors[tensor] for tensor in view.inputs}
    optional: dict[str, TensorInfo] = {}
    if (model.ir.ir_version or 0) >= FIRST_IR_WITH_FREE_INITIALIZERS:
        optional = {info.name: info for info in view.tensors.values() if info.overridable and not info.graph}
    for name in feeds:
        if name not in wanted and name not in optional:
            raise InputError(_unknown(model, str(name), wanted))
    notes: list[str] = []
    checked: dict[str, np.ndarray] = {}
    for name, info in {**wanted, **optional}.items():
        if name in feeds:
            checked[name] = _check_array(model, info, feeds[name], notes)
        elif name in wanted:
            came = ", ".join(f"'{n}'" for n in list(feeds)[:8]) or "nothing"
            raise InputError(f"{model.name}: input '{name}' ({_wanted(info)}) is not fed; given: {came}")
    return CheckedFeeds(checked, tuple(notes))


def _unknown(model: Model, name: str, wanted: Mapping[str, TensorInfo]) -> str:
    close = difflib.get_close_matches(name, list(wanted), n=1, cutoff=0.5)
    listed = ", ".join(f"'{n}' ({_wanted(info)})" for n, info in list(wanted.items())[:8]) or "it has none"
    advice = f"did you mean '{close[0]}'? " if close else ""
    return f"{model.name}: '{name}' is no input of the model; {advice}inputs: {listed}"


def _wanted(info: TensorInfo) -> str:
    if info.shape is None:
        return f"{info.dtype}, any rank"
    sizes = ", ".join("?" if d is None or (isinstance(d, int) and d < 0) else str(d) for d in info.shape)
    return f"{info.dtype} [{sizes}]"


def _check_array(model: Model, info: TensorInfo, given: object, notes: list[str]) -> np.ndarray:
    try:
        array = np.asarray(given)
    except (ValueError, TypeError) as error:
        raise InputError(
            f"{model.name}: input '{info.name}' wants {_wanted(info)}; what was given is no array ({error})"
        ) from error
    where = f"{model.name}: input '{info.name}' wants {_wanted(info)}, got {array.dtype} {list(array.shape)}"
    _check_shape(where, info, array.shape)
    if info.dtype is None:
        return array
    if info.dtype == "string":
        if array.dtype.kind not in "OUS":
            raise InputError(f"{where}; give an array of strings")
        return array.astype(object)
    dtype = np.dtype(getattr(ml_dtypes, info.dtype)) if hasattr(ml_dtypes, info.dtype) else np.dtype(info.dtype)
    return array if array.dtype == dtype else _cast(where, info, array, dtype, notes)


def _check_shape(where: str, info: TensorInfo, shape: tuple[int, ...]) -> None:
    if info.shape is None:
        return
    if len(shape) != len(info.shape):
        raise InputError(
            f"{where}; the number of axes differs ({len(info.shape)} wanted, {len(shape)} given): reshape it"
        )
    for axis, (dim, size) in enumerate(zip(info.shape, shape, strict=True)):
        if isinstance(dim, int) and dim >= 0 and dim != size:
            raise InputError(f"{where}; axis {axis} must be {dim}, it is {size}: give an array of that size")


def _cast(where: str, info: TensorInfo, array: np.ndarray, dtype: np.dtype, notes: list[str]) -> np.ndarray:
    advice = f"convert it yourself with .astype('{info.dtype}') if that is meant"
    if array.dtype.kind in "OUS":
        raise InputError(f"{where}; give numbers")
    with np.errstate(all="ignore"):
        made = (array if dtype.kind == "c" else np.real(array)).astype(dtype)
        kept = np.asarray(_kept(array, made))
        if kept.all():
            return made
        lost = _lost(array, made, kept)
    if not (_is_float(array.dtype) and _is_float(dtype)):
        raise InputError(f"{where}; its numbers do not fit {info.dtype}, a cast would change {lost}: {advice}")
    gone = np.isfinite(array.astype(np.float64)) & ~np.isfinite(made.astype(np.float64))
    if gone.any():
        raise InputError(
            f"{where}; {int(gone.sum())} of its numbers are too large for {info.dtype}, a cast would change {lost}: "
            f"scale them, or {advice}"
        )
    notes.append(f"input '{info.name}' was rounded from {array.dtype} to {info.dtype}: {lost}")
    return made


def _lost(before: np.ndarray, after: np.ndarray, kept: np.ndarray) -> str:
    """What a cast changes: how many numbers, and the one that moves furthest."""
    kind = np.complex128 if "c" in (before.dtype.kind, after.dtype.kind) else np.float64
    gap = np.abs(before.astype(kind) - after.astype(kind))
    gap = np.where(kept, -1.0, np.where(np.isnan(gap), np.inf, gap))
    at = np.unravel_index(int(gap.argmax()), gap.shape)
    return f"{int((~kept).sum())} of {kept.size} numbers, the furthest {_figure(before[at])} → {_figure(after[at])}"


def _figure(value: np.generic) -> str:
    """A number with enough digits to see a rounding."""
    if value.dtype.kind == "c":
        return str(value)
    return str(int(value)) if value.dtype.kind in "iub" else f"{float(value):.12g}"


def _kept(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Numbers that a cast did not change; NaN stays NaN."""
    if before.dtype.kind == "c" and after.dtype.kind != "c":
        return (np.imag(before) == 0) & _kept(np.real(before), after)
    whole = before.dtype.kind in "biu"
    if whole and after.dtype.kind in "biu":
        return (after.astype(before.dtype) == before) & ((after < 0) == (before < 0))
    if whole and after.dtype.kind != "c":
        back = after.astype(np.float64)
        return np.isfinite(back) & (np.abs(back) < 2**63) & (back.astype(before.dtype) == before)
    kind = np.complex128 if after.dtype.kind == "c" else np.float64
    old, new = before.astype(kind), after.astype(kind)
    return (old == new) | (np.isnan(old) & np.isnan(new))


def _is_float(dtype: np.dtype) -> bool:
    return dtype.kind == "f" or (dtype.kind == "V" and dtype.name.startswith(("bfloat", "float")))
