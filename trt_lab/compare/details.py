"""What is worked out for the one tensor that is opened: quantiles, ULP distance, errors over magnitude, ties of indices.

These make copies in float64, unlike `metrics`; they are not for screening.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trt_lab.compare.blocks import is_integral
from trt_lab.errors import CompareError
from trt_lab.tensors.dtypes import STRING, dtype_name

QUANTILES = (0.5, 0.9, 0.99, 0.999, 1.0)


@dataclass(frozen=True)
class ErrorHistogram:
    """How many elements have which error at which magnitude of the reference.

    Attributes:
        magnitude_edges, error_edges: Edges of the bins, log10 of |b| and of |a − b|.
        counts: (magnitude bins, error bins).
        exact: Equal elements by magnitude bin; log10 has no place for them.
        zero_reference: Elements where b is 0.
        not_finite: Elements that are not finite on both sides.
    """

    magnitude_edges: np.ndarray
    error_edges: np.ndarray
    counts: np.ndarray
    exact: np.ndarray
    zero_reference: int
    not_finite: int


@dataclass(frozen=True)
class IndexTies:
    """Indices (of ArgMax or TopK) that differ, and whether their scores explain it.

    Attributes:
        differing: Positions where the indices differ.
        ties: Of these, where the two scores are within `margin`: either choice is right.
        wrong: The others.
        largest_margin: Largest score given away, None when nothing differs.
        largest_margin_at: Its position in the index tensor.
    """

    differing: int
    ties: int
    wrong: int
    largest_margin: float | None
    largest_margin_at: tuple[int, ...] | None


def quantiles(a: np.ndarray, b: np.ndarray, at: Sequence[float] = QUANTILES) -> dict[float, float]:
    """Exact quantiles of |a − b| over finite pairs; empty when there are none.

    Raises:
        CompareError: Shapes differ, or the tensors hold text.
    """
    x, y = _flat(a, b)
    d = np.abs(x - y)
    d = d[np.isfinite(d)]
    return dict(zip(at, np.quantile(d, at).tolist(), strict=True)) if d.size else {}


def ulp_distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Representable values between a and b, element by element, as uint64; 0 where a pair is not finite.

    Both are taken in the coarser of the two types, so a float16 engine is measured in steps of float16. Zeros of both
    signs are one value.

    Raises:
        CompareError: Shapes differ, or a tensor is not of a real floating type.
    """
    x, y = _flat(a, b)
    dtype = min((np.asarray(a).dtype, np.asarray(b).dtype), key=_precision)
    if is_integral(dtype) or dtype.kind == "c":
        raise CompareError(f"ULP distance is of floating types, not {dtype_name(dtype)}; look at the differing count")
    finite = np.isfinite(x) & np.isfinite(y)
    with np.errstate(all="ignore"):
        left, right = (_steps(side.astype(dtype)) for side in (x, y))
    gap = np.where(
        left > right, left.astype(np.uint64) - right.astype(np.uint64), right.astype(np.uint64) - left.astype(np.uint64)
    )
    return np.where(finite, gap, np.uint64(0)).reshape(np.shape(a))


def error_histogram(a: np.ndarray, b: np.ndarray, bins: int = 40) -> ErrorHistogram:
    """Errors over the magnitude of the reference, both on log axes.

    Raises:
        CompareError: Shapes differ, or the tensors hold text.
    """
    x, y = _flat(a, b)
    with np.errstate(all="ignore"):
        d, size = np.abs(x - y), np.abs(y)
    finite = np.isfinite(d)
    known = finite & (size > 0)
    off = known & (d > 0)
    magnitude_edges = _edges(size[known], bins)
    error_edges = _edges(d[off], bins)
    counts, _, _ = np.histogram2d(np.log10(size[off]), np.log10(d[off]), bins=(magnitude_edges, error_edges))
    exact, _ = np.histogram(np.log10(size[known & (d == 0)]), bins=magnitude_edges)
    return ErrorHistogram(
        magnitude_edges,
        error_edges,
        counts.astype(np.int64),
        exact,
        int((finite & (size == 0)).sum()),
        int((~finite).sum()),
    )


def index_ties(a: np.ndarray, b: np.ndarray, scores: np.ndarray, *, axis: int = -1, margin: float = 1e-3) -> IndexTies:
    """Tells a tie from a wrong choice where the indices of ArgMax or TopK differ.

    Args:
        a, b: Indices of the engine and the reference, of one shape: that of `scores` with `axis` replaced by k, or (ArgMax
            with keepdims=0) removed.
        scores: What the reference chose from.
        axis: Axis the indices point into.
        margin: Largest difference of two scores that counts as a tie.

    Raises:
        CompareError: The shapes do not fit, or an index is out of range.
    """
    a, b, scores = np.asarray(a), np.asarray(b), np.asarray(scores)
    if a.shape != b.shape:
        raise CompareError(f"indices of shapes {a.shape} and {b.shape} are not compared; run both on the same input")
    axis %= scores.ndim
    dropped = a.ndim == scores.ndim - 1
    left, right = (np.expand_dims(side, axis) if dropped else side for side in (a, b))
    wanted = tuple(size for i, size in enumerate(scores.shape) if i != axis)
    if left.ndim != scores.ndim or tuple(size for i, size in enumerate(left.shape) if i != axis) != wanted:
        raise CompareError(f"indices of shape {a.shape} do not fit scores of shape {scores.shape} on axis {axis}")
    size = scores.shape[axis]
    if left.size and (min(left.min(), right.min()) < -size or max(left.max(), right.max()) >= size):
        raise CompareError(f"an index is out of range: axis {axis} has {size} scores")
    picked = [np.take_along_axis(scores, side % size, axis).astype(np.float64) for side in (left, right)]
    gap = np.where(left != right, np.abs(picked[0] - picked[1]), -1.0)
    differing = int((left != right).sum())
    if not differing:
        return IndexTies(0, 0, 0, None, None)
    wrong = int((gap > margin).sum())
    at = np.unravel_index(int(np.argmax(gap)), gap.shape)
    place = tuple(int(i) for i in at)
    return IndexTies(
        differing, differing - wrong, wrong, float(gap[at]), place[:axis] + place[axis + 1 :] if dropped else place
    )


def _flat(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape:
        raise CompareError(f"shapes differ: {a.shape} against {b.shape}; nothing is broadcast")
    if STRING in (dtype_name(a.dtype), dtype_name(b.dtype)):
        raise CompareError("text has no distance; look at the differing count")
    return a.astype(np.float64).reshape(-1), b.astype(np.float64).reshape(-1)


def _precision(dtype: np.dtype) -> float:
    """Orders floating types by the step at 1, the finest last; integers count as finer than any."""
    if is_integral(dtype) or dtype.kind == "c":
        return math.inf
    one = np.array([1.0]).astype(dtype)
    return float(-np.log2(_neighbour_gap(one)))


def _neighbour_gap(one: np.ndarray) -> float:
    """Distance from 1 to the next value of the type."""
    above = (one.view(f"u{one.dtype.itemsize}") + 1).astype(f"u{one.dtype.itemsize}").view(one.dtype)
    return float(above.astype(np.float64)[0]) - 1.0


def _steps(values: np.ndarray) -> np.ndarray:
    """Position of each value in the order of its type's values; zero at 0."""
    size = values.dtype.itemsize
    codes = np.ascontiguousarray(values).view(f"u{size}").astype(np.uint64)
    if dtype_name(values.dtype) == "float8_e8m0fnu":
        return codes.astype(np.int64)  # it has no sign
    bits = 4 if dtype_name(values.dtype) == "float4_e2m1fn" else 8 * size
    magnitude = (codes & np.uint64((1 << (bits - 1)) - 1)).astype(np.int64)
    return np.where((codes >> np.uint64(bits - 1)) & np.uint64(1), -magnitude, magnitude)


def _edges(values: np.ndarray, bins: int) -> np.ndarray:
    """Whole decades when there are few, else even parts, of log10 of the values; one decade when there are none."""
    if not values.size:
        return np.array([0.0, 1.0])
    low, high = math.floor(math.log10(values.min())), math.floor(math.log10(values.max())) + 1
    return np.linspace(low, high, min(bins, max(1, (high - low) * 4)) + 1)
