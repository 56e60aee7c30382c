"""One tensor opened: what is too dear to work out for all of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trt_lab.compare.blocks import is_integral
from trt_lab.compare.details import ErrorHistogram, IndexTies, error_histogram, quantiles, ulp_distance
from trt_lab.compare.in_graph import chosen_from, describe_ties, tie_margin, ties_of
from trt_lab.compare.metrics import compare_arrays
from trt_lab.compare.sides import Side, matched_samples
from trt_lab.compare.tolerance import Tolerances
from trt_lab.compare.words import format_figure, summarize
from trt_lab.errors import CompareError
from trt_lab.graph.view import GraphView
from trt_lab.record.schema import to_json
from trt_lab.tensors.dtypes import STRING, dtype_name
from trt_lab.types import JsonValue, TensorStats, Tolerance


@dataclass(frozen=True)
class OpenedTensor:
    """One tensor of one sample.

    Attributes:
        quantiles: Quantile → |a − b|, exact, over finite pairs.
        ulp: Median and largest distance in representable values of the coarser type; None for other than floats.
        histogram: Errors over the magnitude of the reference; None for shapes that differ and text.
        ties: Of indices whose scores are known.
        notes: One line each.
    """

    stats: TensorStats
    quantiles: dict[float, float]
    ulp: tuple[float, int] | None
    histogram: ErrorHistogram | None
    ties: IndexTies | None
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, JsonValue]:
        """For `--json`; undefined is null."""
        hist = self.histogram
        return {
            "stats": to_json(self.stats),
            "quantiles": {str(at): value for at, value in self.quantiles.items()},
            "ulp": None if self.ulp is None else {"median": self.ulp[0], "max": self.ulp[1]},
            "histogram": None
            if hist is None
            else {
                "log10_magnitude_edges": hist.magnitude_edges.tolist(),
                "log10_error_edges": hist.error_edges.tolist(),
                "counts": hist.counts.tolist(),
                "exact": hist.exact.tolist(),
                "zero_reference": hist.zero_reference,
                "not_finite": hist.not_finite,
            },
            "ties": to_json(self.ties),
            "notes": list(self.notes),
        }

    @property
    def lines(self) -> tuple[str, ...]:
        """For people."""
        stats = self.stats
        place = "" if stats.max_abs_at is None or stats.exact else f"; largest error at {list(stats.max_abs_at)}"
        found = [f"{stats.name}, sample {stats.sample}: {stats.verdict}, {summarize(stats)}{place}"]
        if self.quantiles:
            parts = ", ".join(f"{100 * at:g} % ≤ {format_figure(value)}" for at, value in self.quantiles.items())
            found.append(f"|a − b|: {parts}")
        if self.ulp is not None:
            found.append(f"ULP distance: {self.ulp[0]:g} median, {self.ulp[1]} largest")
        return (*found, *self.notes)


def open_tensor(
    a: Side,
    b: Side,
    name: str,
    *,
    sample: int | None = None,
    tolerance: Tolerance | Tolerances | None = None,
    view: GraphView | None = None,
) -> OpenedTensor:
    """Quantiles, ULP distance, histogram of errors and ties of one tensor. Copies it in float64.

    Args:
        a, b: The engine, and the reference.
        name: Its name on side a.
        sample: Number of the sample; by default the one with the largest error.
        view: Graph of the model, to tell ties of indices.

    Raises:
        CompareError: No such tensor on both sides, or no such sample.
    """
    ours, golden = matched_samples(a, b)
    if not ours:
        raise CompareError(f"{a.label if a.samples == 0 else b.label}: no samples to compare; run it on at least one")
    if name not in ours[0]:
        raise CompareError(f"no tensor '{name}' on both sides; there are: {', '.join(list(ours[0])[:20])}")
    if sample is not None and not 0 <= sample < len(ours):
        raise CompareError(f"no sample {sample}: there are {len(ours)}, 0 to {len(ours) - 1}")
    limits = Tolerances.given(tolerance)

    def compared(index: int) -> TensorStats:
        x, y = ours[index][name], golden[index][name]
        return compare_arrays(x, y, limits.of(name, dtype_name(x.dtype)), name=name, sample=index)

    stats = compared(sample) if sample is not None else max(map(compared, range(len(ours))), key=_error)
    x, y = ours[stats.sample][name], golden[stats.sample][name]
    plain = (
        stats.shape_a == stats.shape_b
        and STRING not in (stats.dtype_a, stats.dtype_b)
        and "c" not in (x.dtype.kind, y.dtype.kind)
    )
    ties, notes = None, []
    if view is not None and stats.differing and chosen_from(view, name) is not None:
        margin = tie_margin(view, name, limits)
        ties = ties_of(view, a, b, name, stats.sample, margin)
        notes.append(describe_ties(view, name, ties, margin))
    return OpenedTensor(
        stats,
        quantiles(x, y) if plain else {},
        _ulp(x, y) if plain else None,
        error_histogram(x, y) if plain else None,
        ties,
        tuple(notes),
    )


def _error(stats: TensorStats) -> tuple[bool, int, float, int]:
    """Orders samples, the worst largest; of equals the first."""
    broken = stats.nan_only_a + stats.nan_only_b + stats.inf_mismatch
    return stats.shape_a != stats.shape_b, broken, stats.max_abs or 0.0, -stats.sample


def _ulp(a: np.ndarray, b: np.ndarray) -> tuple[float, int] | None:
    if not a.size or is_integral(a.dtype) or is_integral(b.dtype):
        return None
    steps = ulp_distance(a, b)
    return float(np.median(steps)), int(steps.max())
