"""What the numbers of one node say about why it is wrong in a low type."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from trt_lab.edit.schema import QUANTISED, LowPrecision
from trt_lab.types import NodeInfo

Kind: TypeAlias = Literal[
    "overflow",
    "underflow",
    "cancellation",
    "accumulation",
    "masked softmax",
    "integer cut",
    "non-finite constant",
    "quantisation",
    "rounding",
]

CANCELLATION = 16.0
"""A sum this much smaller than what goes into it has lost 4 bits or more."""

LONG = 64
"""A sum of more terms than this is called long."""

_BITS: dict[LowPrecision, int] = {"fp16": 11, "bf16": 8}
_LIMIT: dict[LowPrecision, float] = {"fp16": 65504.0, "bf16": 3.3895313892515355e38}
TO_INFINITY: dict[LowPrecision, float] = {"fp16": 65520.0, "bf16": 3.3961775292304957e38}
"""From here on a number is rounded to infinity: half a step above the limit."""
TO_ZERO: dict[LowPrecision, float] = {"fp16": 2.0**-25, "bf16": 2.0**-134}
"""Up to here a number is rounded to zero: half of the smallest number of the type."""
_SMALLEST_NORMAL: dict[LowPrecision, float] = {"fp16": 2.0**-14, "bf16": 2.0**-126}

_ADDING = frozenset(
    {"Add", "Sub", "Sum", "ReduceSum", "ReduceMean", "Mean", "MatMul", "Gemm", "Conv", "CumSum", "Einsum"}
)
_SUMMING = frozenset(
    {"MatMul", "Gemm", "Conv", "ConvTranspose", "ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare"}
    | {"CumSum", "Einsum", "GlobalAveragePool", "AveragePool", "LayerNormalization", "InstanceNormalization"}
)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Range and sums of one node on golden inputs.

    Attributes:
        kind: What it points to.
        text: Why, in words.
        largest: Largest finite magnitude that it reads or makes.
        limit: Largest number of the low type.
        lost: Values that it reads or makes that are not 0 and become 0 in the low type.
        cancellation: Largest magnitude read over largest made, for sums; None for others.
        depth: Terms of each sum; None for others.
        sample: Sample that it was seen on.
    """

    kind: Kind
    text: str
    largest: float
    limit: float
    lost: int
    cancellation: float | None
    depth: int | None
    sample: int = 0


def gather(
    info: NodeInfo,
    inputs: Mapping[str, np.ndarray],
    outputs: Mapping[str, np.ndarray],
    alone: Mapping[str, np.ndarray],
    low: LowPrecision,
    *,
    weights: Iterable[str] = (),
    before_softmax: bool = False,
    sample: int = 0,
) -> Evidence:
    """Looks at a node on golden numbers.

    Args:
        inputs, outputs: What it reads and makes in FP32.
        alone: What it makes in the low type from `inputs`.
        weights: Those of `inputs` that are fixed.
        before_softmax: A Softmax follows within a few nodes.
    """
    fixed = set(weights)
    read, made = _floats(inputs.values()), _floats(outputs.values())
    wrong = _floats(alone.values())
    top_read, top_made = _largest(read), _largest(made)
    largest = max(top_read, top_made)
    lost = sum(_lost(array, low) for array in (*read, *made))
    ratio = top_read / top_made if info.op_type in _ADDING and top_made > 0 else None
    depth = _depth(info, inputs, outputs)
    figures = (largest, _LIMIT[low], lost, ratio, depth, sample)
    over = TO_INFINITY[low]
    constants = _largest(_floats(inputs[name] for name in fixed))
    nan = any(bool(np.isnan(array).any()) for array in wrong)
    if info.op_type in QUANTISED:
        return Evidence("quantisation", "its scales decide its precision", *figures)
    if (info.op_type in ("Softmax", "LogSoftmax") and nan) or (before_softmax and _only_below(over, made)):
        text = f"a mask of magnitude {largest:.4g} becomes -Inf, and rows that are masked whole become NaN"
        return Evidence("masked softmax", text, *figures)
    if constants >= over or any(bool(np.isinf(inputs[name]).any()) for name in fixed if _is_float(inputs[name])):
        shown = f"a constant of {constants:.4g}" if constants >= over else "a constant that is infinite"
        return Evidence("non-finite constant", f"{shown} leaves the range of {low} ({_LIMIT[low]:.5g})", *figures)
    if largest >= over:
        text = f"largest magnitude {largest:.4g}, limit of {low} {_LIMIT[low]:.5g}"
        return Evidence("overflow", text, *figures)
    if _is_counting(read, made, low):
        text = f"whole numbers up to {largest:.6g}; {low} holds them only up to {2 ** _BITS[low]}"
        return Evidence("integer cut", text, *figures)
    if _is_lost(read, made, low):
        text = f"{lost} values become 0" if lost else "values are below the normal numbers, where digits are few"
        return Evidence("underflow", f"{text}; {low} holds down to {TO_ZERO[low] * 2:.2g}", *figures)
    if ratio is not None and ratio >= CANCELLATION:
        text = f"terms of {top_read:.4g} leave {top_made:.4g}: {min(round(math.log2(ratio)), _BITS[low])} of {_BITS[low]} bits are lost"
        return Evidence("cancellation", text, *figures)
    if depth is not None and depth > LONG:
        return Evidence("accumulation", f"each value is a sum of {depth} terms", *figures)
    return Evidence("rounding", f"{_BITS[low]} bits are too few here", *figures)


def _is_float(array: object) -> bool:
    return isinstance(array, np.ndarray) and array.dtype.kind == "f"


def _floats(arrays: Iterable[object]) -> list[np.ndarray]:
    return [array for array in arrays if isinstance(array, np.ndarray) and array.dtype.kind in "fiu"]


def _largest(arrays: Iterable[np.ndarray]) -> float:
    top = 0.0
    for array in arrays:
        if array.dtype.kind == "f" and array.size:
            finite = array[np.isfinite(array)]
            top = max(top, float(np.abs(finite).max())) if finite.size else top
    return top


def _only_below(over: float, arrays: Iterable[np.ndarray]) -> bool:
    """Whether numbers leave the range on the negative side only, as those of a mask do."""
    sides = [(float(a.min()), float(a.max())) for a in arrays if a.dtype.kind == "f" and a.size]
    return any(low <= -over for low, _ in sides) and all(high < over for _, high in sides)


def _lost(array: np.ndarray, low: LowPrecision) -> int:
    if array.dtype.kind != "f":
        return 0
    return int(((array != 0) & (np.abs(array) <= TO_ZERO[low])).sum())


def _is_lost(read: list[np.ndarray], made: list[np.ndarray], low: LowPrecision) -> bool:
    """Whether the largest numbers of a tensor lie below the normal ones of the type, so that their loss counts."""
    for array in (*read, *made):
        if array.dtype.kind == "f" and array.size:
            top = _largest([array])
            if 0 < top < _SMALLEST_NORMAL[low]:
                return True
    return False


def _is_counting(read: list[np.ndarray], made: list[np.ndarray], low: LowPrecision) -> bool:
    """Whether a tensor holds whole numbers beyond those that the type holds one by one."""
    for array in (*read, *made):
        finite = array[np.isfinite(array)] if array.dtype.kind == "f" else array
        if (
            finite.size > 1
            and float(np.abs(finite).max()) > 2 ** _BITS[low]
            and bool((finite == np.rint(finite)).all())
        ):
            return True
    return False


def _depth(info: NodeInfo, inputs: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray]) -> int | None:
    if info.op_type not in _SUMMING or info.inputs[0] is None or info.inputs[0] not in inputs:
        return None
    first = inputs[info.inputs[0]]
    if info.op_type in ("MatMul", "Gemm"):
        return int(first.shape[-1]) if first.ndim else 1
    if info.op_type in ("Conv", "ConvTranspose") and len(info.inputs) > 1:
        weight = inputs.get(info.inputs[1] or "")
        return int(np.prod(weight.shape[1:])) if weight is not None else None
    made = next(iter(outputs.values()), None)
    if made is None or not made.size:
        return None
    if info.op_type == "CumSum":
        return max(first.shape, default=1)
    return max(1, first.size // made.size)
