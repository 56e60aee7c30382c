"""Figures of one Q/DQ pair, gathered over samples: saturation, levels used, error of the pair, error before and behind it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np

from trt_lab.edit.qdq import QdqPair
from trt_lab.types import JsonValue, NodeId, TensorId

_COUNTED_BITS = 8
"""Types of at most this many bits have levels that are worth counting."""

_WIDER = (2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
"""Scales that are tried on paper, as multiples of the one that there is."""

_CHANNELS_AT_LEAST = 4
"""With fewer channels one of them is no outlier."""


@dataclass(frozen=True, slots=True)
class Error:
    """How far values are from the float ones.

    Attributes:
        snr_db: 10·log10(Σx² / Σ(x − q)²) over all samples; None when nothing is wrong, or all is.
        max_abs: Largest |x − q| of finite pairs.
        broken: Values that are finite in float and not finite here.
        exact: No value differs.
    """

    snr_db: float | None = None
    max_abs: float | None = None
    broken: int = 0
    exact: bool = True

    def as_json(self) -> dict[str, JsonValue]:
        """The figures; what is not defined is null."""
        return {"snr_db": self.snr_db, "max_abs": self.max_abs, "broken": self.broken, "exact": self.exact}

    @property
    def badness(self) -> tuple[int, float]:
        """Larger is worse: broken values first, then the lowest ratio."""
        if self.broken:
            return self.broken, 0.0
        if self.exact:
            return 0, -math.inf
        return 0, -self.snr_db if self.snr_db is not None else math.inf


class ErrorSum:
    """Adds up an `Error` over samples."""

    def __init__(self) -> None:
        self._signal = self._noise = 0.0
        self._max_abs: float | None = None
        self._broken = 0
        self._seen = False

    def add(self, exact: object, wrong: object) -> None:
        """Takes in one array of each; anything but numbers of equal shape is passed over."""
        if not isinstance(exact, np.ndarray) or not isinstance(wrong, np.ndarray) or exact.shape != wrong.shape:
            return
        if not exact.size or exact.dtype.kind in "OUS":
            return
        self._seen = True
        x, q = as_float(exact), as_float(wrong)
        fine = np.isfinite(x)
        good = fine & np.isfinite(q)
        self._broken += int(fine.sum() - good.sum())
        x, q = x[good], q[good]
        if not x.size:
            return
        gap = x - q
        self._signal += float(np.dot(x, x))
        self._noise += float(np.dot(gap, gap))
        self._max_abs = max(self._max_abs or 0.0, float(np.abs(gap).max()))

    @property
    def seen(self) -> bool:
        """Whether anything was added."""
        return self._seen

    def error(self) -> Error:
        """The sum so far."""
        snr = 10 * math.log10(self._signal / self._noise) if self._signal > 0 and self._noise > 0 else None
        return Error(snr, self._max_abs, self._broken, self._noise == 0 and not self._broken)


@dataclass(frozen=True, slots=True)
class PairFigures:
    """One Q/DQ pair in numbers, over all samples. What cannot be known is None, never 0.

    Attributes:
        tensor, kind, quantize, dequantize, dtype: See `QdqPair`; the first DequantizeLinear.
        channels: Number of scales.
        axis, scale_min, scale_max, zero_point: Of the scales; `zero_point` is the one furthest from 0.
        count: Values looked at, over all samples; those of a weight count once.
        largest: Largest finite magnitude of the float tensor.
        saturated: Share of values that lie outside of what the type holds, and are cut to its ends.
        zeroed: Share of values that are not 0 and become 0.
        levels_used, levels: Different quantised numbers that occur, of those the type has; types of 8 bits and fewer.
        range_used: `largest` over the largest magnitude that scale and type hold, in the channel where it is largest.
        wider_db: The most that a larger scale (2, 4, … 64 times) would take off the error: rounding is taken to
            be spread evenly over a step (that of FP8 to stay), what is cut shrinks. Negative where all would add.
        local: Error of the pair alone, fed float numbers.
        before, after: Error of the tensor with all quantised: what reaches the pair, and what leaves it.
        outlier: Largest magnitude of the loudest channel over that of the median channel, of one shared scale.
        outlier_channel: (axis, channel).
        dead_channels: Channels of a weight that are 0 throughout.
    """

    tensor: TensorId
    kind: str
    quantize: NodeId | None
    dequantize: NodeId
    dtype: str
    channels: int | None
    axis: int | None
    scale_min: float | None
    scale_max: float | None
    zero_point: int | None
    count: int
    largest: float | None
    saturated: float | None
    zeroed: float | None
    levels_used: int | None
    levels: int | None
    range_used: float | None
    wider_db: float | None
    local: Error | None
    before: Error | None
    after: Error | None
    outlier: float | None = None
    outlier_channel: tuple[int, int] | None = None
    dead_channels: tuple[int, ...] = ()

    @property
    def node(self) -> NodeId:
        """The node that stands for the pair."""
        return self.quantize or self.dequantize


def limits(dtype: str) -> tuple[float, float]:
    """Smallest and largest number of a quantised type, by its numpy or ml_dtypes name."""
    kind = _dtype(dtype)
    if dtype.startswith("float"):
        return float(ml_dtypes.finfo(kind).min), float(ml_dtypes.finfo(kind).max)
    return float(ml_dtypes.iinfo(kind).min), float(ml_dtypes.iinfo(kind).max)


def levels_of(dtype: str) -> int | None:
    """How many numbers a type of at most 8 bits holds; None for wider ones."""
    kind = _dtype(dtype)
    bits = {"int4": 4, "uint4": 4, "float4_e2m1fn": 4, "int2": 2, "uint2": 2}.get(dtype, kind.itemsize * 8)
    return 2**bits if bits <= _COUNTED_BITS else None


def as_float(array: np.ndarray) -> np.ndarray:
    """Flat float64 of any number type."""
    return array.reshape(-1).astype(np.float64)


def spread(values: np.ndarray, axis: int | None, block: int, shape: tuple[int, ...]) -> np.ndarray:
    """Scales or zero points in a form that broadcasts against a tensor of `shape`."""
    if axis is None:
        return np.asarray(values, np.float64).reshape(-1)[:1].reshape(())
    if block:
        return np.repeat(np.asarray(values, np.float64), block, axis=axis)[tuple(slice(size) for size in shape)]
    form = [1] * len(shape)
    form[axis] = -1
    return np.asarray(values, np.float64).reshape(form)


def steps(array: np.ndarray, pair: QdqPair) -> np.ndarray | None:
    """A float tensor in steps of its scale, zero point added, neither rounded nor cut; None without constant scales."""
    if pair.scale is None or (pair.axis is not None and pair.axis >= array.ndim):
        return None
    zero = pair.zero_point if pair.zero_point is not None else np.zeros(())
    with np.errstate(all="ignore"):  # bad scales are what this is about
        scaled = array.astype(np.float64) / spread(pair.scale, pair.axis, pair.block, array.shape)
        return scaled + spread(zero, pair.axis if zero.size > 1 else None, pair.block, array.shape)


@dataclass(slots=True)
class PairSum:
    """Adds up the figures of one pair over samples."""

    pair: QdqPair
    count: int = 0
    largest: float | None = None
    _judged: int = 0
    _saturated: int = 0
    _zeroed: int = 0
    _range: float | None = None
    _noise: float = 0.0
    _wider_noise: np.ndarray = field(default_factory=lambda: np.zeros(len(_WIDER)))
    _used: np.ndarray | None = None
    _peaks: list[np.ndarray] = field(default_factory=list)
    local: ErrorSum = field(default_factory=ErrorSum)
    before: ErrorSum = field(default_factory=ErrorSum)
    after: ErrorSum = field(default_factory=ErrorSum)

    def add_values(self, exact: object) -> None:
        """Takes in the float tensor of one sample."""
        if not isinstance(exact, np.ndarray) or not exact.size or exact.dtype.kind in "OUS":
            return
        self.count += exact.size
        finite = np.where(np.isfinite(exact), exact, 0).astype(np.float64)
        self.largest = max(self.largest or 0.0, float(np.abs(finite).max()))
        self._add_peaks(np.abs(finite))
        scaled = steps(finite, self.pair)
        if scaled is None:
            return
        low, high = limits(self.pair.dtype)
        rounded = scaled if self.pair.dtype.startswith("float") else np.rint(scaled)
        self._judged += exact.size
        self._saturated += int(((rounded < low) | (rounded > high)).sum())
        zero = self.pair.zero_point if self.pair.zero_point is not None else np.zeros(())
        offset = spread(zero, self.pair.axis if zero.size > 1 else None, self.pair.block, exact.shape)
        if self.pair.dtype.startswith("float"):
            with np.errstate(all="ignore"):
                is_zero = scaled.astype(_dtype(self.pair.dtype)).astype(np.float64) == 0
        else:
            is_zero = rounded == offset
        self._zeroed += int((is_zero & (finite != 0)).sum())
        self._add_noise(scaled - offset, low - offset, high - offset, finite)
        reach = np.where(np.isfinite(scaled), np.abs(scaled - offset), np.nan) / max(abs(low), abs(high))
        if not np.isnan(reach).all():
            self._range = max(self._range or 0.0, float(np.nanmax(reach)))

    def add_restored(self, restored: object) -> None:
        """Takes in what a weight that is stored as integers stands for, where its float values are not known."""
        if isinstance(restored, np.ndarray) and restored.size and restored.dtype.kind == "f":
            finite = np.abs(np.where(np.isfinite(restored), restored, 0).astype(np.float64))
            self.count += restored.size
            self.largest = max(self.largest or 0.0, float(finite.max()))
            self._add_peaks(finite)

    def add_codes(self, codes: object) -> None:
        """Takes in the quantised numbers of one sample."""
        if levels_of(self.pair.dtype) is None or not isinstance(codes, np.ndarray) or not codes.size:
            return
        seen = np.bincount(codes.reshape(-1).view(np.uint8), minlength=2**_COUNTED_BITS) > 0
        self._used = seen if self._used is None else self._used | seen

    def add_errors(self, exact: object, alone: object, reached: object, left: object) -> None:
        """Takes in float tensor, the pair's answer to it, and the same two with all quantised."""
        self.local.add(exact, alone)
        self.before.add(exact, reached)
        self.after.add(exact, left)

    def figures(self) -> PairFigures:
        """The sum so far."""
        pair = self.pair
        outlier, channel = self._outlier()
        scales = as_float(pair.scale) if pair.scale is not None else None
        finite = scales[np.isfinite(scales)] if scales is not None else None
        zero = pair.zero_point
        return PairFigures(
            tensor=pair.tensor, kind=pair.kind, quantize=pair.quantize, dequantize=pair.dequantizes[0], dtype=pair.dtype,
            channels=scales.size if scales is not None else None, axis=pair.axis,
            scale_min=float(finite.min()) if finite is not None and finite.size else None,
            scale_max=float(finite.max()) if finite is not None and finite.size else None,
            zero_point=_furthest(zero), count=self.count, largest=self.largest,
            saturated=self._saturated / self._judged if self._judged else None,
            zeroed=self._zeroed / self._judged if self._judged else None,
            levels_used=int(self._used.sum()) if self._used is not None else None,
            levels=levels_of(pair.dtype), range_used=self._range, wider_db=self._wider_db(),
            local=self.local.error() if self.local.seen else None,
            before=self.before.error() if self.before.seen else None,
            after=self.after.error() if self.after.seen else None,
            outlier=outlier, outlier_channel=channel, dead_channels=self._dead(),
        )  # fmt: skip

    # --- inside ----------------------------------------------------------------------------

    def _add_noise(self, scaled: np.ndarray, low: np.ndarray, high: np.ndarray, values: np.ndarray) -> None:
        """Squared error of the pair as it is, and of one whose steps are larger."""
        pair = self.pair
        assert pair.scale is not None
        is_float = pair.dtype.startswith("float")
        with np.errstate(all="ignore"):
            step = spread(pair.scale, pair.axis, pair.block, values.shape)
            cut = scaled - np.clip(scaled, low, high)
            held = np.clip(scaled, low, high)
            nearest = held.astype(_dtype(pair.dtype)).astype(np.float64) if is_float else np.rint(held)
            rounding = float(np.nansum(((held - nearest) * step) ** 2))
            self._noise += rounding + float(np.nansum((cut * step) ** 2))
            spread_evenly = float(np.nansum(np.where(values != 0, step**2, 0.0))) / 12  # variance of a uniform error
            for place, factor in enumerate(_WIDER):
                over = scaled - np.clip(scaled, factor * low, factor * high) if np.any(cut) else cut
                grown = rounding if is_float else spread_evenly * factor**2
                self._wider_noise[place] += grown + float(np.nansum((over * step) ** 2))

    def _wider_db(self) -> float | None:
        best = float(self._wider_noise.min())
        if not (0 < self._noise < math.inf and 0 < best < math.inf):
            return None
        return 10 * math.log10(self._noise / best)

    def _add_peaks(self, magnitudes: np.ndarray) -> None:
        """Largest magnitude a channel, for each axis but the first of an activation."""
        peaks = [
            magnitudes.max(axis=tuple(i for i in range(magnitudes.ndim) if i != a)) for a in range(magnitudes.ndim)
        ]
        if self._peaks and [p.shape for p in peaks] != [p.shape for p in self._peaks]:
            self._peaks = []  # sizes change from sample to sample, so channels cannot be told
            return
        self._peaks = [np.maximum(a, b) for a, b in zip(peaks, self._peaks, strict=True)] if self._peaks else peaks

    def _outlier(self) -> tuple[float | None, tuple[int, int] | None]:
        if self.pair.axis is not None:
            return None, None
        first = 0 if self.pair.kind == "weight" else 1
        best: tuple[float | None, tuple[int, int] | None] = None, None
        for axis, peaks in enumerate(self._peaks):
            middle = float(np.median(peaks)) if peaks.size else 0.0
            if axis < first or peaks.size < _CHANNELS_AT_LEAST or middle <= 0:
                continue
            ratio = float(peaks.max()) / middle
            if best[0] is None or ratio > best[0]:
                best = ratio, (axis, int(peaks.argmax()))
        return best

    def _dead(self) -> tuple[int, ...]:
        axis = self.pair.axis
        if self.pair.kind != "weight" or axis is None or axis >= len(self._peaks):
            return ()
        return tuple(int(i) for i in np.flatnonzero(self._peaks[axis] == 0))


def pair_by_badness(figures: Sequence[PairFigures]) -> tuple[PairFigures, ...]:
    """Worst local error first; pairs whose error is not known come last."""
    return tuple(sorted(figures, key=lambda f: (f.local is None, _negated(f.local.badness if f.local else (0, 0.0)))))


def _negated(badness: tuple[int, float]) -> tuple[int, float]:
    return -badness[0], -badness[1]


def _furthest(zero_point: np.ndarray | None) -> int | None:
    if zero_point is None:
        return None
    values = as_float(zero_point)
    return int(values[np.abs(values).argmax()]) if values.size else 0


def _dtype(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else np.dtype(name)
