"""What in a difference of times is noise: a rank test of the runs, and an interval by bootstrap.

Both speak of the runs that were recorded. Two recordings of one engine can differ by more, since clocks and
neighbours change between them; only more recordings tell that.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

SIGNIFICANT = 0.05
"""Share of false alarms among all differences that are called real (Benjamini and Hochberg, 1995)."""

MIN_RUNS = 5
"""With 4 a side the least p-value that ranks can give is 2 / C(8, 4) = 0.029, which no correction leaves below 5 %."""

_RESAMPLES = 2000

Runs = Sequence[float]


def rank_p_values(pairs: Sequence[tuple[Runs, Runs]]) -> list[float | None]:
    """Two-sided p-values of Mann and Whitney's rank test, one for each pair of runs; no distribution is assumed.

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
        for place, p_value in zip(places, _rank_test(a, b), strict=True):
            found[place] = p_value
    return found


def _rank_test(a: np.ndarray, b: np.ndarray) -> list[float]:
    """P-values by row, by the normal distribution, corrected for ties and for continuity.

    Source: Mann and Whitney (1947); Hollander, Wolfe and Chicken, Nonparametric Statistical Methods, section 4.1. Ours
    and not scipy's, whose `stats` takes longer to import than all else that a session needs; a test holds them equal.
    """
    rows, count_a, count_b = len(a), a.shape[1], b.shape[1]
    both = np.concatenate([a, b], axis=1)
    count = count_a + count_b
    order = np.argsort(both, axis=1, kind="stable")
    ordered = np.take_along_axis(both, order, axis=1)
    starts = np.ones((rows, count), bool)
    starts[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    first = np.flatnonzero(starts)  # of each group of equal values, all rows after one another
    sizes = np.diff(np.append(first, rows * count))
    shared = first % count + (sizes + 1) / 2  # the mean of the ranks, from 1, that a group stands on
    ranks = np.empty((rows, count))
    np.put_along_axis(ranks, order, np.repeat(shared, sizes).reshape(rows, count), axis=1)
    statistic = ranks[:, :count_a].sum(1) - count_a * (count_a + 1) / 2
    ties = np.bincount(first // count, weights=sizes**3.0 - sizes, minlength=rows)
    variance = count_a * count_b / 12 * (count + 1 - ties / (count * (count - 1)))
    distance = np.maximum(np.abs(statistic - count_a * count_b / 2) - 0.5, 0.0)
    return [
        1.0 if spread <= 0 else min(1.0, math.erfc(far / math.sqrt(2 * spread)))
        for far, spread in zip(distance.tolist(), variance.tolist(), strict=True)
    ]


def adjust_p_values(p_values: Sequence[float | None]) -> list[float | None]:
    """P-values corrected for the number of tests, so that of those up to `SIGNIFICANT` only that share is false.

    Source: Benjamini and Hochberg, Controlling the false discovery rate (1995). None stays None.
    """
    known = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    found: list[float | None] = [None] * len(p_values)
    least = 1.0
    for rank in range(len(known), 0, -1):
        p_value, place = known[rank - 1]
        least = min(least, p_value * len(known) / rank)
        found[place] = least
    return found


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
