"""How two arrays differ: one pass, block by block, sums in float64, on all cores.

The numbers are those of plain float64 arithmetic over the whole tensors:

- error |a − b|; over tolerance when |a − b| > atol + rtol·|b|, b the reference (numpy.allclose);
- RMSE √(Σ(a−b)²/n); cosine Σab/√(Σa²·Σb²); SNR 10·log10(Σb²/Σ(a−b)²) in dB, all over pairs that are finite;
- integers are compared exactly, in a wider type; of the tolerance only `atol` counts for them, since an
  index off by one is wrong however large it is. Bools and text must be equal.
- NaN against NaN, and an infinity against the same one, agree. Shapes that differ are never broadcast.

Float32 arithmetic is used only to find the blocks that can hold a new largest error or an element over tolerance; what is
reported is then computed in float64. `verdict` is `differs` when shapes differ or any element is over tolerance.
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from trt_lab.compare.blocks import BLOCK, Reader, dot, fits_float32, is_integral, squares
from trt_lab.tensors.dtypes import STRING, dtype_name
from trt_lab.types import TensorStats, Tolerance, Verdict

_PARALLEL_FROM = 1 << 22
_MOST_THREADS = 2
"""More of them wait for the lock longer than they work."""

_SLACK = 1.0 + 2.0**-20
"""Float32 screening is off by less than this factor."""

_UNDER = 1.0 - 2.0**-50
"""Below any rounding of one product in float64."""

_TINY = 1e-280
"""Sums below it are near the end of float64, where the identity for Σab would lose digits."""

_FLOAT32_MAX = float(np.finfo(np.float32).max)


def compare_arrays(
    a: np.ndarray, b: np.ndarray, tolerance: Tolerance, *, name: str = "", sample: int = 0, sums: bool = True
) -> TensorStats:
    """Compares the engine's tensor `a` with the reference's `b`.

    Args:
        a, b: Of any shape and any numpy or ml_dtypes type; the two types may differ. Not copied.
        tolerance: See `Tolerance`.
        name: Tensor id, for the result.
        sample: Number of the sample, for the result.
        sums: Whether RMSE, cosine and SNR are worked out. Without them (screening) it is two to three times quicker, they are
            None, and verdict, counts and largest errors are the same.
    """
    a, b = np.asarray(a), np.asarray(b)
    base = {"name": name, "dtype_a": dtype_name(a.dtype), "dtype_b": dtype_name(b.dtype), "sample": sample}
    base |= {"shape_a": a.shape, "shape_b": b.shape}
    if a.shape != b.shape:
        note = f"shapes differ: {_shape(a.shape)} against {_shape(b.shape)}"
        return TensorStats(verdict="differs", note=note, **base)
    if a.size == 0:
        return TensorStats(verdict="same", exact=True, note="0 elements, shapes equal", **base)
    if STRING in (base["dtype_a"], base["dtype_b"]):
        return _compare_text(a, b, base)
    if "c" in (a.dtype.kind, b.dtype.kind):
        return _compare_complex(a, b, tolerance, name, sample, sums)
    totals = _totals(a, b, _effective(a.dtype, b.dtype, tolerance), sums)
    return _stats(totals, a.shape, base)


@dataclass
class _Totals:
    """What is gathered over blocks. Places are flat indices; −1 is nowhere. `dd` is NaN when no sums were made."""

    count: int = 0
    differing: int = 0
    finite: int = 0
    over: int = 0
    zero_reference: int = 0
    nan_both: int = 0
    nan_only_a: int = 0
    nan_only_b: int = 0
    inf_both: int = 0
    inf_mismatch: int = 0
    pos_inf_a: int = 0
    neg_inf_a: int = 0
    pos_inf_b: int = 0
    neg_inf_b: int = 0
    aa: float = 0.0
    bb: float = 0.0
    ab: float = 0.0
    dd: float = 0.0
    max_abs: float = -1.0
    max_abs_at: int = -1
    max_rel: float = -1.0
    max_rel_at: int = -1

    def absorb(self, later: _Totals) -> None:
        """Adds the totals of a part that lies behind this one."""
        for key in ("max_abs", "max_rel"):
            if getattr(later, key) > getattr(self, key):
                setattr(self, key, getattr(later, key))
                setattr(self, f"{key}_at", getattr(later, f"{key}_at"))
        for key, value in vars(later).items():
            if not key.startswith("max_"):
                setattr(self, key, getattr(self, key) + value)


def _effective(dtype_a: np.dtype, dtype_b: np.dtype, tolerance: Tolerance) -> Tolerance:
    if dtype_a == np.bool_ and dtype_b == np.bool_:
        return Tolerance(0.0, 0.0)
    if is_integral(dtype_a) and is_integral(dtype_b):
        return Tolerance(tolerance.atol, 0.0)
    return tolerance


def _totals(a: np.ndarray, b: np.ndarray, tolerance: Tolerance, sums: bool) -> _Totals:
    """Splits the work over threads (numpy lets other threads run inside its loops) and joins the parts in order."""
    workers = min(_cores(), -(-a.size // BLOCK)) if a.size >= _PARALLEL_FROM else 1
    if workers == 1:
        return _part(a, b, tolerance, sums, 0, a.size)
    blocks = -(-a.size // BLOCK)
    edges = [blocks * i // workers * BLOCK for i in range(workers)] + [a.size]
    with ThreadPoolExecutor(workers) as pool:
        parts = list(pool.map(lambda i: _part(a, b, tolerance, sums, edges[i], edges[i + 1]), range(workers)))
    for part in parts[1:]:
        parts[0].absorb(part)
    return parts[0]


def _cores() -> int:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(count, _MOST_THREADS)


def _part(a: np.ndarray, b: np.ndarray, tolerance: Tolerance, sums: bool, start: int, stop: int) -> _Totals:
    screen = fits_float32(a.dtype) and fits_float32(b.dtype)
    wide = not screen and (_is_wide(a.dtype) or _is_wide(b.dtype)) and is_integral(a.dtype) and is_integral(b.dtype)
    totals = _Totals() if sums else _Totals(dd=math.nan)
    work = _Work(Reader(a), Reader(b), tolerance, totals, min(BLOCK, max(stop - start, 0)), sums)
    step = work.screened_block if screen else work.wide_block if wide else work.plain_block
    with np.errstate(all="ignore"):
        for begin in range(start, stop, BLOCK):
            step(begin, min(begin + BLOCK, stop))
    return totals


def _is_wide(dtype: np.dtype) -> bool:
    return dtype.kind in "iu" and dtype.itemsize == 8


class _Work:
    """Buffers of one thread and the three ways to take in a block."""

    def __init__(self, a: Reader, b: Reader, tolerance: Tolerance, totals: _Totals, size: int, sums: bool) -> None:
        self.a, self.b, self.tolerance, self.totals, self.sums = a, b, tolerance, totals, sums
        self.rows = np.empty((4, size))
        self.a64, self.b64, _, self.spare = self.rows
        self.a32, self.b32, self.s32 = (np.empty(size, np.float32) for _ in range(3))
        self.mask = np.empty(size, bool)

    def screened_block(self, start: int, stop: int) -> None:
        """Both types fit float32: float32 tells whether the block can matter, float64 makes the sums."""
        n, totals = stop - start, self.totals
        a, b = self.a.read(start, stop, self.a32), self.b.read(start, stop, self.b32)
        gap = self.s32[:n]
        np.subtract(a, b, gap)
        np.abs(gap, gap)
        largest = float(np.maximum.reduce(gap))
        x, y, d = self.rows[:3, :n]
        if self.sums or not math.isfinite(largest):
            np.copyto(x, a)
            np.copyto(y, b)
        if not math.isfinite(largest):
            self._special(start, x, y)
            return
        if self.sums:
            self._block_sums(x, y, d, same=largest == 0.0)
        totals.count += n
        totals.finite += n
        if largest == 0.0:
            self._equal(start, b)
            return
        totals.differing += int(np.count_nonzero(gap.view(np.int32)))  # sizes, so no negative zero is among them
        reach = largest * _SLACK
        may_exceed = reach > self.tolerance.atol
        if may_exceed or reach > totals.max_abs or self._may_hold_relative(b, gap, reach):
            if not self.sums:
                np.copyto(d, a)
                np.copyto(y, b)
                np.subtract(d, y, d)
            np.abs(d, d)
            self._exact(start, y, d, check_over=may_exceed)

    def _may_hold_relative(self, b: np.ndarray, gap: np.ndarray, reach: float) -> bool:
        """Whether an element can have a larger relative error than any so far, or a zero reference.

        Most blocks are ruled out by their smallest |b|. Else gap ≥ limit·|b| with the limit a little low is looked
        for. Rounding is monotone, so this misses none even among subnormals; elements that are equal are left out,
        since 0 ≥ 0 says nothing.
        """
        bound, mask = self.a32[: len(b)], self.mask[: len(b)]  # the copy of a in a32 has served by now
        np.abs(b, bound)
        if reach < float(np.minimum.reduce(bound)) * self.totals.max_rel:
            return False
        limit = np.float32(min(max(self.totals.max_rel, 0.0) / _SLACK, _FLOAT32_MAX))
        np.multiply(bound, limit, bound)
        np.greater_equal(gap, bound, mask)
        return bool(mask.any()) and bool(gap[mask].any())

    def _equal(self, start: int, y: np.ndarray) -> None:
        """A block without any difference: its errors are zero, which counts while nothing larger is known."""
        if self.totals.max_abs < 0.0:
            self.totals.max_abs, self.totals.max_abs_at = 0.0, start
        if self.totals.max_rel < 0.0 and (nonzero := y != 0.0).any():
            self.totals.max_rel, self.totals.max_rel_at = 0.0, start + int(nonzero.argmax())

    def plain_block(self, start: int, stop: int) -> None:
        """Types that fit float64."""
        n = stop - start
        x, y = self.a64[:n], self.b64[:n]
        np.copyto(x, self.a.read(start, stop, self.a64))
        np.copyto(y, self.b.read(start, stop, self.b64))
        if not (np.isfinite(x).all() and np.isfinite(y).all()):
            self._special(start, x, y)
            return
        self._add_finite(start, x, y)

    def wide_block(self, start: int, stop: int) -> None:
        """64-bit integers, whose differences a float64 of each would lose."""
        n = stop - start
        left, right = self.a.integers(start, stop), self.b.integers(start, stop)
        x, y, d = self.a64[:n], self.b64[:n], _gap(left, right)
        np.copyto(x, left, casting="unsafe")
        np.copyto(y, right, casting="unsafe")
        if self.sums:
            self._add_sums(dot(x, x), dot(y, y), dot(x, y), dot(d, d))
        self._finite(start, y, d)

    def _block_sums(self, x: np.ndarray, y: np.ndarray, d: np.ndarray, *, same: bool) -> None:
        """Adds the sums of a block of finite pairs, the first columns of `rows`, and leaves a − b in `d`."""
        if same:
            bb = dot(y, y)
            self._add_sums(bb, bb, bb, 0.0)
            return
        np.subtract(x, y, d)
        aa, bb, dd = squares(self.rows[:3, : len(x)])
        # Σab = (Σa² + Σb² − Σ(a−b)²) / 2 loses nothing while the two are of one size, and saves a pass.
        balanced = aa <= 4.0 * bb <= 16.0 * aa and bb > _TINY
        self._add_sums(aa, bb, (aa + bb - dd) / 2 if balanced else dot(x, y), dd)

    def _add_sums(self, aa: float, bb: float, ab: float, dd: float) -> None:
        totals = self.totals
        if not math.isfinite(aa + bb + dd):
            totals.dd = math.inf  # beyond float64: RMSE, cosine and SNR are not defined
            return
        totals.aa, totals.bb, totals.ab, totals.dd = totals.aa + aa, totals.bb + bb, totals.ab + ab, totals.dd + dd

    def _add_finite(self, start: int, x: np.ndarray, y: np.ndarray, places: np.ndarray | None = None) -> None:
        """Takes in finite pairs; `places` are their flat indices where they are not a whole block."""
        aa, bb, ab = (dot(x, x), dot(y, y), dot(x, y)) if self.sums else (0.0, 0.0, 0.0)
        np.subtract(x, y, x)
        if self.sums:
            self._add_sums(aa, bb, ab, dot(x, x))
        self._finite(start, y, x, places)

    def _finite(self, start: int, y: np.ndarray, d: np.ndarray, places: np.ndarray | None = None) -> None:
        """Counts a block of finite pairs whose sums are in already; `d` holds a − b or its size."""
        np.abs(d, out=d)
        self.totals.count += len(d)
        self.totals.finite += len(d)
        self.totals.differing += int(np.count_nonzero(d))
        self._exact(start, y, d, check_over=True, places=places)

    def _exact(
        self, start: int, y: np.ndarray, d: np.ndarray, *, check_over: bool, places: np.ndarray | None = None
    ) -> None:
        """Largest errors and elements over tolerance, in float64. `d` is |a − b|; `y` is overwritten by |b|."""
        totals, tolerance = self.totals, self.tolerance
        at = int(d.argmax())
        if d[at] > totals.max_abs:
            totals.max_abs = float(d[at])
            totals.max_abs_at = int(places[at]) if places is not None else start + at
        np.abs(y, y)
        spare, mask = self.spare[: len(d)], self.mask[: len(d)]
        if check_over:
            np.multiply(y, tolerance.rtol, spare)
            np.add(spare, tolerance.atol, spare)
            np.greater(d, spare, mask)
            totals.over += int(np.count_nonzero(mask))
        smallest = float(np.minimum.reduce(y))
        if smallest == 0.0:
            np.divide(d, y, spare)
            np.equal(y, 0.0, mask)
            np.copyto(spare, -1.0, where=mask)
            np.logical_and(mask, d.view(np.int64), mask)  # sizes, so no negative zero is among them
            totals.zero_reference += int(np.count_nonzero(mask))
        elif float(d[at]) < smallest * totals.max_rel * _UNDER:
            return  # no quotient can be as large as the largest so far
        else:
            np.divide(d, y, spare)
        at = int(spare.argmax())
        if spare[at] > totals.max_rel:
            totals.max_rel = float(spare[at])
            totals.max_rel_at = int(places[at]) if places is not None else start + at

    def _special(self, start: int, x: np.ndarray, y: np.ndarray) -> None:
        """A block with NaN or infinities: they are counted, the finite pairs go the exact way."""
        totals = self.totals
        nan_x, nan_y, inf_x, inf_y = np.isnan(x), np.isnan(y), np.isinf(x), np.isinf(y)
        same_inf = inf_x & inf_y & (x == y)
        only_x, only_y = nan_x & ~nan_y, nan_y & ~nan_x
        mismatch = (inf_x | inf_y) & ~same_inf & ~nan_x & ~nan_y
        finite = ~(nan_x | nan_y | inf_x | inf_y)
        counts = {"nan_both": nan_x & nan_y, "nan_only_a": only_x, "nan_only_b": only_y}
        counts |= {"inf_both": same_inf, "inf_mismatch": mismatch}
        counts |= {
            "pos_inf_a": x == np.inf,
            "neg_inf_a": x == -np.inf,
            "pos_inf_b": y == np.inf,
            "neg_inf_b": y == -np.inf,
        }
        for key, found in counts.items():
            setattr(totals, key, getattr(totals, key) + int(np.count_nonzero(found)))
        wrong = int(np.count_nonzero(only_x) + np.count_nonzero(only_y) + np.count_nonzero(mismatch))
        places = np.flatnonzero(finite)
        totals.count += len(x) - len(places)
        totals.over += wrong
        totals.differing += wrong
        if len(places):
            self._add_finite(start, x[places], y[places], places + start)


def _gap(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """|a − b| of integers as float64, rounded once: equal signs are subtracted as unsigned, exactly."""
    larger = a > b
    high, low = np.where(larger, a, b), np.where(larger, b, a)
    if a.dtype != b.dtype and np.uint64 in (a.dtype, b.dtype):
        return _gap_mixed(a, b, larger)
    return (high.astype(np.uint64) - low.astype(np.uint64)).astype(np.float64)


def _gap_mixed(a: np.ndarray, b: np.ndarray, larger: np.ndarray) -> np.ndarray:
    """uint64 against a signed type: no numpy type holds both, a negative value is split off first."""
    parts = [(np.where(v < 0, 0, v).astype(np.uint64), np.where(v < 0, v, 0).astype(np.float64)) for v in (a, b)]
    (up_a, down_a), (up_b, down_b) = parts
    positive = np.where(larger, up_a - np.minimum(up_a, up_b), up_b - np.minimum(up_a, up_b))
    return positive.astype(np.float64) + np.abs(down_a - down_b)


def _compare_text(a: np.ndarray, b: np.ndarray, base: dict) -> TensorStats:
    if base["dtype_a"] != base["dtype_b"]:
        note = f"types differ: {base['dtype_a']} against {base['dtype_b']}"
        return TensorStats(verdict="differs", note=note, count=a.size, differing=a.size, over_tolerance=a.size, **base)
    left, right = ([_as_text(item) for item in side.reshape(-1).tolist()] for side in (a, b))
    wrong = [i for i, (x, y) in enumerate(zip(left, right, strict=True)) if x != y]
    note = ""
    if wrong:
        place = tuple(int(i) for i in np.unravel_index(wrong[0], a.shape))
        note = f"{len(wrong)} of {a.size} texts differ, first at {list(place)}"
    return TensorStats(
        verdict="differs" if wrong else "same",
        count=a.size, exact=not wrong, differing=len(wrong), over_tolerance=len(wrong), note=note, **base,
    )  # fmt: skip


def _as_text(item: object) -> str:
    return item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item)


def _compare_complex(
    a: np.ndarray, b: np.ndarray, tolerance: Tolerance, name: str, sample: int, sums: bool
) -> TensorStats:
    """Real and imaginary parts as a last axis of two."""
    parts = []
    for side in (a, b):
        full = np.ascontiguousarray(side if side.dtype.kind == "c" else side.astype(np.complex128))
        parts.append(full.view(full.real.dtype).reshape(*side.shape, 2))
    stats = compare_arrays(parts[0], parts[1], tolerance, name=name, sample=sample, sums=sums)
    note = "; ".join(filter(None, ("real and imaginary parts", stats.note)))
    return replace(
        stats, dtype_a=dtype_name(a.dtype), dtype_b=dtype_name(b.dtype), shape_a=a.shape, shape_b=b.shape, note=note
    )


def _stats(totals: _Totals, shape: tuple[int, ...], base: dict) -> TensorStats:
    notes: list[str] = []
    exact = totals.differing == 0
    finite = totals.finite > 0
    defined = finite and math.isfinite(totals.dd)
    rmse = math.sqrt(totals.dd / totals.finite) if defined else None
    cosine = snr = None
    if not finite:
        notes.append("no finite pair")
    elif math.isnan(totals.dd):
        pass  # screened only
    elif not defined:
        notes.append("sums beyond float64")
    else:
        norm = math.sqrt(totals.aa) * math.sqrt(totals.bb)
        if norm > 0.0:
            cosine = max(-1.0, min(1.0, totals.ab / norm))
        elif not exact:
            notes.append("cosine not defined (zero vector)")
        if totals.dd > 0.0 and totals.bb > 0.0:
            snr = 10.0 * (math.log10(totals.bb) - math.log10(totals.dd))  # the quotient can leave float64
    verdict: Verdict = "differs" if totals.over else "same"
    counters = {
        key: getattr(totals, key)
        for key in (
            *("count", "differing", "finite", "zero_reference", "nan_both", "nan_only_a", "nan_only_b"),
            *("inf_both", "inf_mismatch", "pos_inf_a", "neg_inf_a", "pos_inf_b", "neg_inf_b"),
        )
    }
    return TensorStats(
        verdict=verdict,
        max_abs=_number(totals.max_abs, notes, "largest difference beyond float64"),
        max_abs_at=_place(totals.max_abs_at, shape),
        max_rel=_number(totals.max_rel, notes, "largest relative difference beyond float64"),
        max_rel_at=_place(totals.max_rel_at, shape),
        rmse=rmse,
        cosine=1.0 if exact and cosine is not None else cosine,
        snr_db=snr,
        exact=exact,
        over_tolerance=totals.over,
        note="; ".join(notes),
        **counters,
        **base,
    )


def _number(value: float, notes: list[str], beyond: str) -> float | None:
    if value < 0.0:
        return None
    if math.isinf(value):
        notes.append(beyond)
        return None
    return value


def _place(at: int, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    return None if at < 0 else tuple(int(i) for i in np.unravel_index(at, shape))


def _shape(shape: tuple[int, ...]) -> str:
    return "(" + ", ".join(str(size) for size in shape) + ("," if len(shape) == 1 else "") + ")"
