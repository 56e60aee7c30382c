"""Times that a profiler reports by layer name → `LayerTime`, also where several layers share one name."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from trt_lab.engine_nodes import split_profile
from trt_lab.errors import RecordError
from trt_lab.types import LayerInfo, LayerTime

Run = Sequence[tuple[str, float]]
"""What the profiler said in one run: (layer name, ms) in order."""

_INCONSISTENT = 0.01
"""Relative difference between timeMs and count · averageMs from which a row is named; trtexec rounds to 6 digits."""
_LARGEST = 1e12
"""Figures beyond are no times (in ms, 31 years): JSON may hold integers of any length, and sums must stay finite."""


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """One row of a profile file. `average_ms` is one run's; `percentage` and `total_ms` are as the file says, if it does."""

    name: str
    average_ms: float
    median_ms: float | None = None
    total_ms: float | None = None
    percentage: float | None = None


@dataclass(frozen=True, slots=True)
class ProfileFile:
    """A read `trtexec --exportProfile` file.

    Attributes:
        rows: In the file's order.
        count: Runs that were averaged; None where the file does not say.
        percentage_sum: Sum of the file's own percentages; None where a row has none.
        notes: Rows whose figures contradict each other or are missing.
    """

    rows: tuple[ProfileRow, ...]
    count: int | None = None
    percentage_sum: float | None = None
    notes: tuple[str, ...] = ()


def match_times(layers: Sequence[LayerInfo], runs: Sequence[Run]) -> tuple[tuple[LayerTime, ...], tuple[str, ...]]:
    """Times by layer over all runs, and notes.

    Equal names are matched in order. Where a name is reported another number of times than there are layers of
    it, its times are summed once, at the first of them, and a note calls it ambiguous. Reported names that are no
    layer are kept, with indices after the last layer, and noted; layers without a time are noted. Of an engine with
    several optimisation profiles, ` [profile N]` in a reported name says whose layer it is.
    """
    places = _Places(layers)
    values: dict[int, list[float]] = {}
    names: dict[int, str] = {}
    for run in runs:
        reported: dict[str, list[float]] = defaultdict(list)
        for name, ms in run:
            reported[name].append(ms)
        for name, times in reported.items():
            for place, group in places.assign(name, [[ms] for ms in times]):
                values.setdefault(place, []).append(sum(group))
                names[place] = split_profile(name)[0]
    found = tuple(
        LayerTime(place, names[place], fmean(ms), median(ms), tuple(ms)) for place, ms in sorted(values.items())
    )
    return found, places.notes(found)


def parse_profile(content: Any, name: str = "profile") -> ProfileFile:
    """Reads the parsed content of a `trtexec --exportProfile` file: `[{"count": n}, {"name": …, "averageMs": …}, …]`.

    `averageMs` is taken as it stands; where it is missing it is `timeMs / count`. A row without either is left out
    and noted; nothing is filled in. TensorRT 8 wrote no `medianMs` at first.

    Raises:
        RecordError: No list, or no row with a name.
    """
    if not isinstance(content, list):
        raise RecordError(f"{name}: no list of rows; a profile of trtexec --exportProfile is a list.")
    count = next((_whole(item["count"]) for item in content if isinstance(item, Mapping) and "count" in item), None)
    rows: list[ProfileRow] = []
    notes: list[str] = []
    for number, item in enumerate(content):
        if not isinstance(item, Mapping) or "name" not in item:
            if not (isinstance(item, Mapping) and "count" in item):
                notes.append(f"row {number} of the profile has no 'name' and is left out")
            continue
        row, note = _row(item, count)
        if row is not None:
            rows.append(row)
        if note:
            notes.append(note)
    if content and count is None and not any(isinstance(item, Mapping) and "name" in item for item in content):
        raise RecordError(f"{name}: the key 'name' is missing in every row; this is no profile of trtexec.")
    shares = [row.percentage for row in rows if row.percentage is not None]
    total = math.fsum(shares) if rows and len(shares) == len(rows) else None
    if total is not None and abs(total - 100.0) > 0.1:
        notes.append(f"the file's percentages add up to {total:.4g}; shares are computed anew from averageMs")
    return ProfileFile(tuple(rows), count, total, tuple(notes))


def place_rows(
    layers: Sequence[LayerInfo], rows: Sequence[ProfileRow]
) -> tuple[tuple[LayerTime, ...], tuple[str, ...]]:
    """Rows of a profile file by layer, and notes; see `match_times` for equal, foreign and missing names.

    Rows that are summed have no median: the median of a sum is not the sum of medians.
    """
    places = _Places(layers)
    reported: dict[str, list[list[ProfileRow]]] = defaultdict(list)
    for row in rows:
        reported[row.name].append([row])
    found: list[LayerTime] = []
    for name, groups in reported.items():
        for place, group in places.assign(name, groups):
            average = math.fsum(row.average_ms for row in group)
            found.append(
                LayerTime(place, split_profile(name)[0], average, group[0].median_ms if len(group) == 1 else None)
            )
    times = tuple(sorted(found, key=lambda time: time.index))
    return times, places.notes(times)


class _Places:
    """Where a reported name belongs. Keeps what was ambiguous and what was foreign, for the notes."""

    def __init__(self, layers: Sequence[LayerInfo]) -> None:
        self._layers = layers
        self._positions: dict[tuple[str, int | None], list[int]] = defaultdict(list)
        self._profiles: dict[str, set[int | None]] = defaultdict(set)
        for layer in layers:
            profile = layer.attributes.get("profile")
            key = (layer.name, profile if isinstance(profile, int) else None)
            self._positions[key].append(layer.index)
            self._profiles[layer.name].add(key[1])
        self._ambiguous: dict[str, None] = {}
        self._foreign: dict[str, int] = {}

    def assign(self, name: str, groups: list[list[Any]]) -> list[tuple[int, list[Any]]]:
        """(layer index, what was reported for it): one to one in order, or all of it at one place."""
        bare, profile = split_profile(name)
        positions = self._positions.get((bare, profile))
        if positions is None and len(self._profiles[bare]) == 1:  # one side does not tell profiles
            positions = self._positions[bare, next(iter(self._profiles[bare]))]
        together = [item for group in groups for item in group]
        if positions is None:
            return [(self._foreign.setdefault(name, len(self._layers) + len(self._foreign)), together)]
        if len(positions) != len(groups):
            self._ambiguous[name] = None
            return [(positions[0], together)]
        return list(zip(positions, groups, strict=True))

    def notes(self, found: Sequence[LayerTime]) -> tuple[str, ...]:
        notes = [
            f"'{name}': ambiguous, reported another number of times than there are layers; summed once"
            for name in self._ambiguous
        ]
        if self._layers:
            notes += [f"'{name}' was timed but is no layer of the engine" for name in self._foreign]
        timed, summed = {time.index for time in found}, {split_profile(name)[0] for name in self._ambiguous}
        silent = [x.name for x in self._layers if x.index not in timed and x.name not in summed]
        if found and silent:
            count = "1 layer has" if len(silent) == 1 else f"{len(silent)} layers have"
            notes.append(f"{count} no time, first '{silent[0]}'")
        return tuple(notes)


def _row(item: Mapping[str, Any], count: int | None) -> tuple[ProfileRow | None, str]:
    name = str(item["name"])
    average, total = duration(item.get("averageMs")), duration(item.get("timeMs"))
    note = ""
    if average is None and total is not None and count:
        average = total / count
    elif average is not None and total is not None and count and abs(total - count * average) > _INCONSISTENT * total:
        note = f"'{name}': timeMs {total:.6g} is not {count} · averageMs {average:.6g}; averageMs is used"
    if average is None:
        return None, f"'{name}' has no averageMs of 0 or more in the profile; it stays without a time"
    row = ProfileRow(name, average, duration(item.get("medianMs")), total, number(item.get("percentage")))
    return row, note


def duration(value: Any) -> float | None:
    """A time of a file, in the file's unit; None where it is none: text, missing, negative."""
    found = number(value)
    return found if found is not None and found >= 0.0 else None


def number(value: Any) -> float | None:
    """A figure of a file; None where it is none, or too large to be one."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not -_LARGEST < value < _LARGEST:
        return None
    return float(value)


def _whole(value: Any) -> int | None:
    count = number(value)
    return int(count) if count is not None and count >= 1 else None
