"""Bars of a timeline: where each layer lies, and how bars too narrow to see are joined before they are sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from trt_lab.record import Record
from trt_lab.types import LayerInfo, LayerTime

BUDGET = 2000
"""Most bars sent for one view."""

PIXELS = 1000
"""Assumed width of a timeline, in pixels of the page."""

MAX_RUNS = 12
"""Most runs shown as small multiples."""


class TimedLike(Protocol):
    """What a timeline needs of a record."""

    @property
    def name(self) -> str: ...
    @property
    def layers(self) -> Sequence[LayerInfo]: ...
    @property
    def times(self) -> Sequence[LayerTime]: ...
    @property
    def latency_ms(self) -> Sequence[float]: ...


Timed: TypeAlias = Record | TimedLike
"""A record, or anything that looks like one here."""


@dataclass(frozen=True)
class Bars:
    """All bars of a figure, one entry each, ordered by lane, then start.

    Attributes:
        lane: Index into `lanes`.
        start, duration: ms from the start of the run.
        low, high: 10 % and 90 % quantiles of the duration over the runs; NaN with fewer than two runs.
        layer: Index of the layer in its engine (`LayerInfo.index`).
        engine: Index of the record the bar belongs to.
        lanes: What each lane is called.
        notes: What the reader must be told about how the bars lie.
    """

    lane: np.ndarray
    start: np.ndarray
    duration: np.ndarray
    low: np.ndarray
    high: np.ndarray
    layer: np.ndarray
    engine: np.ndarray
    lanes: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def end(self) -> float:
        """When the last bar ends, in ms; 0 without bars."""
        return float((self.start + self.duration).max()) if self.start.size else 0.0


def usual_ms(time: LayerTime) -> float:
    """What a bar is as long as: the median over the runs where it is known, else the average."""
    return time.average_ms if time.median_ms is None else time.median_ms


def layer_sum_ms(record: Timed) -> float:
    """Sum of the layers' averages; never the end-to-end latency."""
    return sum(time.average_ms for time in record.times)


def lay_out(records: Sequence[Timed], runs: str = "median") -> Bars:
    """Bars of some records.

    Args:
        records: Each gets its own lanes, one a stream.
        runs: "median": one bar a layer. "each": the lanes are repeated for each of the first `MAX_RUNS` runs.

    Cases: a record where any layer lacks its start time is laid end to end; so are single runs, as
    start times are known as medians only.
    """
    parts: list[tuple[np.ndarray, ...]] = []
    lanes: list[str] = []
    notes: dict[str, list[str]] = {}
    for engine, record in enumerate(records):
        prefix = f"{record.name} · " if len(records) > 1 else ""
        known = {layer.index: layer for layer in record.layers}
        streams = [known[time.index].stream if time.index in known else None for time in record.times]
        names = sorted({stream for stream in streams if stream is not None})
        labels = [f"stream {stream}" for stream in names] or ["layers"]
        lane_of = np.array([names.index(stream) if stream is not None else 0 for stream in streams], dtype=np.int64)
        for title, durations, starts in _runs(record, runs, notes):
            low, high = _spread(record) if runs == "median" else (np.full(durations.size, np.nan),) * 2
            layer = np.array([time.index for time in record.times], dtype=np.int64)
            parts.append(
                (lane_of + len(lanes), starts, durations, low, high, layer, np.full(durations.size, engine, np.int64))
            )
            lanes += [
                prefix + title + label if len(labels) > 1 or not title else prefix + title.strip(" ·")
                for label in labels
            ]
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)] if parts else [np.zeros(0)] * 7
    order = np.lexsort((columns[1], columns[0]))
    lane, start, duration, low, high, layer, engine = (column[order] for column in columns)
    said = _joined(notes, len(records))
    return Bars(lane, start, duration, low, high, layer, engine, lanes=tuple(lanes), notes=said)


def _joined(notes: dict[str, list[str]], records: int) -> tuple[str, ...]:
    """Each note once, with the records it is about where it is not about all."""
    return tuple(text if len(names) == records else f"{', '.join(names)}: {text}" for text, names in notes.items())


def _runs(record: Timed, runs: str, notes: dict[str, list[str]]) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Title, durations and starts of each set of lanes of a record; adds to `notes`."""

    def note(text: str) -> None:
        notes.setdefault(text, []).append(record.name)

    if runs == "each":
        count = min((len(time.runs_ms) for time in record.times), default=0)
        if count:
            if count > MAX_RUNS:
                note(f"the first {MAX_RUNS} of {count} runs are shown")
            note("layers of a run are laid end to end: start times are not kept run by run")
            each = [np.array([time.runs_ms[run] for time in record.times]) for run in range(min(count, MAX_RUNS))]
            return [(f"run {run + 1} · ", durations, _end_to_end(durations)) for run, durations in enumerate(each)]
        note("single runs were not recorded; medians are shown")
    durations = np.array([usual_ms(time) for time in record.times], dtype=np.float64)
    given = [time.start_ms for time in record.times if time.start_ms is not None]
    if len(given) == durations.size:
        return [("", durations, np.array(given, dtype=np.float64))]
    if record.times:
        note("layers are laid end to end in the engine's order: the profiler tells no start times")
    return [("", durations, _end_to_end(durations))]


def _end_to_end(durations: np.ndarray) -> np.ndarray:
    return np.concatenate([[0.0], np.cumsum(durations)[:-1]]) if durations.size else durations


def _spread(record: Timed) -> tuple[np.ndarray, np.ndarray]:
    pairs = [
        tuple(np.quantile(time.runs_ms, (0.1, 0.9))) if len(time.runs_ms) > 1 else (np.nan, np.nan)
        for time in record.times
    ]
    array = np.array(pairs, dtype=np.float64).reshape(-1, 2)
    return array[:, 0], array[:, 1]


@dataclass(frozen=True)
class Groups:
    """Bars as they are drawn: `first` and `count` say which entries of `Bars` each one joins."""

    first: np.ndarray
    count: np.ndarray
    left: np.ndarray
    right: np.ndarray
    busy: np.ndarray
    """Sum of the durations joined, in ms."""


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
    pixel = max((end - start) / pixels, np.finfo(np.float64).tiny)
    while True:
        narrow = length < pixel
        bucket = np.floor((begin - start) / pixel)
        together = (
            narrow[1:] & narrow[:-1] & (bucket[1:] == bucket[:-1]) & (lane[1:] == lane[:-1]) & (np.diff(shown) == 1)
        )
        first = np.flatnonzero(np.concatenate([[True], ~together]))
        if first.size <= max(budget, int(np.unique(lane).size)):
            break
        pixel *= 2
    count = np.diff(np.append(first, shown.size))
    return Groups(
        first=shown[first],
        count=count,
        left=begin[first],
        right=np.maximum.reduceat(stop[shown], first),
        busy=np.add.reduceat(length, first),
    )
