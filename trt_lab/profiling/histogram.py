"""Times in buckets of growing width: any number of them in bounded memory, quantiles to a few percent."""

from __future__ import annotations

import math
from dataclasses import dataclass

STEPS = 8
"""Buckets an octave; so a quantile is off by 9 % at most."""

OCTAVES = 30
"""From 1 µs to 2^30 µs, about 18 minutes. What lies outside is counted in the first or last bucket."""

_US = 1e3


def bound_ms(bucket: int) -> float:
    """Upper end of a bucket, in ms."""
    return 2.0 ** ((bucket + 1) / STEPS) / _US


@dataclass(frozen=True)
class Histogram:
    """Times in ms.

    Attributes:
        counts: Bucket → how many; empty buckets are not in it. `bound_ms` tells the upper end of each.
        count, sum_ms: Of all times. min_ms, max_ms: None while there is none.
    """

    counts: dict[int, int]
    count: int = 0
    sum_ms: float = 0.0
    min_ms: float | None = None
    max_ms: float | None = None

    @property
    def mean_ms(self) -> float | None:
        """Average; None while there is none."""
        return self.sum_ms / self.count if self.count else None

    def quantile_ms(self, share: float) -> float | None:
        """The time below which `share` (0 to 1) of all lie, to 9 %; None while there is none."""
        if not self.count or self.min_ms is None or self.max_ms is None:
            return None
        rank = share * self.count
        seen = 0
        for bucket in sorted(self.counts):
            seen += self.counts[bucket]
            if seen >= rank:
                return min(max(bound_ms(bucket), self.min_ms), self.max_ms)
        return self.max_ms

    def up_to(self, octaves: int) -> list[tuple[float, int]]:
        """(upper end in ms, how many lie up to it) for steps of so many octaves; the last holds all."""
        found, total = [], 0
        ends = list(range(octaves * STEPS - 1, OCTAVES * STEPS, octaves * STEPS))
        waiting = sorted(self.counts.items())
        for end in ends:
            while waiting and waiting[0][0] <= end:
                total += waiting.pop(0)[1]
            found.append((bound_ms(end), total))
        return found


class Collecting:
    """A histogram that grows. Not safe for several threads by itself."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._count = 0
        self._sum = 0.0
        self._min: float | None = None
        self._max: float | None = None

    def add(self, ms: float) -> None:
        """Counts one time."""
        us = ms * _US
        bucket = 0 if us <= 1.0 else min(math.ceil(math.log2(us) * STEPS) - 1, OCTAVES * STEPS - 1)
        self._counts[max(bucket, 0)] = self._counts.get(max(bucket, 0), 0) + 1
        self._count += 1
        self._sum += ms
        self._min = ms if self._min is None else min(self._min, ms)
        self._max = ms if self._max is None else max(self._max, ms)

    def snapshot(self) -> Histogram:
        """What was counted so far."""
        return Histogram(dict(self._counts), self._count, self._sum, self._min, self._max)
