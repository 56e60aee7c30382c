"""Times that a profiler reports by layer name → `LayerTime`, also where several layers share one name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean, median

from trt_lab.engine_nodes import split_profile
from trt_lab.types import LayerInfo, LayerTime

Run = Sequence[tuple[str, float]]
"""What the profiler said in one run: (layer name, ms) in order."""


def match_times(layers: Sequence[LayerInfo], runs: Sequence[Run]) -> tuple[tuple[LayerTime, ...], tuple[str, ...]]:
    """Times by layer over all runs, and notes.

    Equal names are matched in order. Where a name is reported another number of times than there are layers of
    it, its times are summed once, at the first of them, and a note calls it ambiguous. Reported names that are no
    layer are kept, with indices after the last layer, and noted; layers without a time are noted.
    """
    positions: dict[str, list[int]] = defaultdict(list)
    for layer in layers:
        positions[layer.name].append(layer.index)
    values: dict[int, list[float]] = {}
    names: dict[int, str] = {}
    ambiguous: dict[str, None] = {}
    foreign: dict[str, int] = {}
    for run in runs:
        reported: dict[str, list[float]] = defaultdict(list)
        for name, ms in run:
            reported[split_profile(name)[0]].append(ms)
        for name, times in reported.items():
            places = positions.get(name)
            if places is None:
                places = [foreign.setdefault(name, len(layers) + len(foreign))]
                times = [sum(times)]
            elif len(places) != len(times):
                ambiguous[name] = None
                places, times = places[:1], [sum(times)]
            for place, ms in zip(places, times, strict=True):
                values.setdefault(place, []).append(ms)
                names[place] = name
    found = tuple(
        LayerTime(place, names[place], fmean(ms), median(ms), tuple(ms)) for place, ms in sorted(values.items())
    )
    notes = [
        f"'{name}': ambiguous, reported another number of times than there are layers; summed once"
        for name in ambiguous
    ]
    notes += [f"'{name}' was timed but is no layer of the engine" for name in foreign]
    silent = [layer.name for layer in layers if layer.name not in {t.name for t in found}]
    if found and silent:
        count = "1 layer has" if len(silent) == 1 else f"{len(silent)} layers have"
        notes.append(f"{count} no time, first '{silent[0]}'")
    return found, tuple(notes)
