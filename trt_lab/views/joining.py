"""Bars too narrow to see are joined before they are sent: what a view shows is bounded, whatever the number of events."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trt_lab.views.lanes import Bars

BUDGET = 2000
"""Most bars sent for one view."""

PIXELS = 1000
"""Assumed width of a timeline, in pixels of the page."""


@dataclass(frozen=True)
class Groups:
    """Bars as they are drawn: `first` and `count` say which entries of `Bars`, one after another, each one joins."""

    first: np.ndarray
    count: np.ndarray
    left: np.ndarray
    right: np.ndarray
    busy: np.ndarray
    """Sum of the durations joined, in ms."""

    def holding(self, bars: np.ndarray) -> np.ndarray:
        """Indices of the groups that hold some of these entries of `Bars`, each once."""
        if not self.first.size:
            return np.zeros(0, np.int64)
        at = np.searchsorted(self.first, bars, side="right") - 1
        inside = (at >= 0) & (bars < self.first[at] + self.count[at])
        return np.unique(at[inside])


def join_narrow(bars: Bars, start: float, end: float, *, pixels: int = PIXELS, budget: int = BUDGET) -> Groups:
    """Joins neighbours of one lane that are narrower than a pixel and begin in the same one.

    Only bars that touch [start, end] (ms) are kept. Pixels are made coarser until at most `budget` bars are left
    (but never fewer than one a lane).
    """
    stop = bars.start + bars.duration
    shown = np.flatnonzero((stop >= start) & (bars.start <= end))
    if not shown.size:
        empty = np.zeros(0, np.int64)
        return Groups(empty, empty, np.zeros(0), np.zeros(0), np.zeros(0))
    lane, begin, length = bars.lane[shown], bars.start[shown], bars.duration[shown]
    near = (lane[1:] == lane[:-1]) & (np.diff(shown) == 1)
    least = max(budget, int(np.unique(lane).size))
    pixel = max((end - start) / pixels, np.finfo(np.float64).tiny)
    while True:
        narrow = length < pixel
        bucket = np.floor((begin - start) / pixel)
        together = near & narrow[1:] & narrow[:-1] & (bucket[1:] == bucket[:-1])
        first = np.flatnonzero(np.concatenate([[True], ~together]))
        if first.size <= least:
            break
        pixel *= 2
    return Groups(
        first=shown[first],
        count=np.diff(np.append(first, shown.size)),
        left=begin[first],
        right=np.maximum.reduceat(stop[shown], first),
        busy=np.add.reduceat(length, first),
    )
