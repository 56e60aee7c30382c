"""ONNX Runtime's profile (a Chrome trace) as layer times.

Times are those of the layer alone: what the layers of a nested graph took is taken off their owner.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

from trt_lab.types import LayerInfo, LayerTime

_KERNEL = "_kernel_time"
_US = 1000.0


@dataclass(frozen=True)
class _Event:
    name: str
    op: str
    start: int
    duration: int


def read_profile(path: Path, layers: Sequence[LayerInfo], spellings: Sequence[str], runs: int) -> tuple[LayerTime, ...]:
    """Times of the last `runs` runs in a profile.

    Layers that did not run (a branch not taken) are left out. A layer that ran more than once in a run (the
    body of a loop) is summed.

    Args:
        path: JSON file that ONNX Runtime wrote.
        layers: Of the same engine.
        spellings: The name each layer has in the engine, "" when it has none.
        runs: How many runs count.
    """
    return times_in(json.loads(path.read_text(encoding="utf-8")), layers, spellings, runs)


def times_in(
    events: Sequence[Mapping[str, Any]], layers: Sequence[LayerInfo], spellings: Sequence[str], runs: int
) -> tuple[LayerTime, ...]:
    """The same of events that are read already."""
    windows = sorted(
        (e["ts"], e["ts"] + e["dur"]) for e in events if e.get("cat") == "Session" and e["name"] == "model_run"
    )
    windows = windows[-runs:]
    kernels = sorted(_kernels(events), key=lambda event: (event.start, -event.duration))
    matcher = _Matcher(layers, spellings)
    spent: dict[int, list[float]] = {}
    begun: dict[int, list[float]] = {}
    position = 0
    for number, (start, end) in enumerate(windows):
        while position < len(kernels) and kernels[position].start < start:
            position += 1
        first = position
        while position < len(kernels) and kernels[position].start <= end:
            position += 1
        for layer, begin, own in matcher.match(kernels[first:position]):
            values = spent.setdefault(layer, [0.0] * len(windows))
            if not values[number]:
                begun.setdefault(layer, []).append((begin - start) / _US)
            values[number] += own / _US
    return tuple(_time(layers[index], spent[index], begun[index]) for index in sorted(spent))


def _kernels(events: Iterable[Mapping[str, Any]]) -> Iterable[_Event]:
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith(_KERNEL):
            yield _Event(
                event["name"].removesuffix(_KERNEL), event["args"].get("op_name", ""), event["ts"], event["dur"]
            )


class _Matcher:
    """Joins the events of one run to layers, in order: names need not be unique, or there at all."""

    def __init__(self, layers: Sequence[LayerInfo], spellings: Sequence[str]) -> None:
        self._named: dict[tuple[str, str], list[int]] = defaultdict(list)
        self._nameless: dict[str, list[int]] = defaultdict(list)
        for layer, spelling in zip(layers, spellings, strict=True):
            if spelling:
                self._named[spelling, layer.type].append(layer.index)
            else:
                self._nameless[layer.type].append(layer.index)

    def match(self, events: Sequence[_Event]) -> list[tuple[int, int, int]]:
        """(layer, start, own duration) of each event, in µs; events of unknown nodes are left out."""
        taken: dict[tuple[str, str], int] = defaultdict(int)
        own = _own_durations(events)
        found: list[tuple[int, int, int]] = []
        for event, duration in zip(events, own, strict=True):
            key = (event.name, event.op)
            candidates = self._named.get(key)
            if candidates is None:  # a nameless node is called by its operator and a number
                key = ("", event.op)
                candidates = self._nameless.get(event.op)
            if candidates:
                found.append((candidates[taken[key] % len(candidates)], event.start, duration))
                taken[key] += 1
        return found


def _own_durations(events: Sequence[_Event]) -> list[int]:
    """Durations less those of the events inside; sorted by start, the longer first."""
    own = [event.duration for event in events]
    open_events: list[int] = []
    for index, event in enumerate(events):
        end = event.start + event.duration
        while open_events and events[open_events[-1]].start + events[open_events[-1]].duration < end:
            open_events.pop()
        while open_events and event.start >= events[open_events[-1]].start + events[open_events[-1]].duration:
            open_events.pop()
        if open_events:
            own[open_events[-1]] -= event.duration
        open_events.append(index)
    return [max(0, duration) for duration in own]


def _time(layer: LayerInfo, runs_ms: list[float], starts_ms: list[float]) -> LayerTime:
    return LayerTime(
        index=layer.index,
        name=layer.name,
        average_ms=round(fmean(runs_ms), 6),
        median_ms=round(median(runs_ms), 6),
        runs_ms=tuple(round(value, 6) for value in runs_ms),
        start_ms=round(median(starts_ms), 6),
    )
