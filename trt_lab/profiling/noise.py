"""What in a difference of times is noise: a rank test of the runs, and an interval by bootstrap.

Both speak of the runs that were recorded. Two recordings of one engine can differ by more, since clocks and
neighbours change between them; only more recordings tell that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from scipy import stats

SIGNIFICANT = 0.05
"""Share of false alarms among all differences that are called real (Benjamini and Hochberg, 1995)."""

MIN_RUNS = 5
"""With 4 a side the least p-value that ranks can give is 2 / C(8, 4) = 0.029, which no correction leaves below 5 %."""

_RESAMPLES = 2000

Runs = Sequence[float]


def rank_p_values(pairs: Sequence[tuple[Runs, Runs]]) -> list[float | None]:
    """Two-sided p-values of Mann and Whitney's rank test, one for each pair of runs; no normal distribution is assumed.

    Returns:
        None where a side has fewer than `MIN_RUNS` runs; 1.0 where all runs of both sides are equal.
    """
    found: list[float | None] = [None] * len(pairs)
    by_counts: dict[tuple[int, int], list[int]] = defaultdict(list)
    for place, (a, b) in enumerate(pairs):
        if min(len(a), len(b)) >= MIN_RUNS:
            by_counts[len(a), len(b)].append(place)
    for places in by_counts.values():
        a = np.array([pairs[place][0] for place in places], np.float64)
        b = np.array([pairs[place][1] for place in places], np.float64)
        constant = (a.min(1) == b.max(1)) & (a.max(1) == b.min(1))
        with np.errstate(invalid="ignore", divide="ignore"):
            p_values = stats.mannwhitneyu(a, b, axis=1, method="asymptotic").pvalue
        for place, p_value, equal in zip(places, np.atleast_1d(p_values), constant, strict=True):
            found[place] = 1.0 if equal else float(p_value)
    return found


def adjust_p_values(p_values: Sequence[float | None]) -> list[float | None]:
    """P-values corrected for the number of tests, so that of those up to `SIGNIFICANT` only that share is false.

    Source: Benjamini and Hochberg, Controlling the false discovery rate (1995). None stays None.
    """
    known = [p for p in p_values if p is not None]
    if not known:
        return list(p_values)
    adjusted = iter(stats.false_discovery_control(known).tolist())
    return [None if p is None else next(adjusted) for p in p_values]


def bootstrap_interval(a: Runs, b: Runs, *, level: float = 0.95, seed: int = 0) -> tuple[float, float] | None:
    """Interval of median(b) − median(a), in the unit of the runs, by resampling the runs of both sides.

    Source: Efron's percentile method. The same runs and seed give the same interval.

    Returns:
        None where a side has fewer than `MIN_RUNS` runs.
    """
    if min(len(a), len(b)) < MIN_RUNS:
        return None
    rng = np.random.default_rng(seed)
    medians = [
        np.median(np.asarray(runs)[rng.integers(0, len(runs), (_RESAMPLES, len(runs)))], axis=1) for runs in (a, b)
    ]
    low, high = np.quantile(medians[1] - medians[0], [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
