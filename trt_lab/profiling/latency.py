"""The sum of the layers and the end-to-end latency: two numbers, and what makes the difference.

With the profiler on, `profiled` is the time of a run from end to end, and `busy` the time in which at least one layer
runs. Then, exactly:

    layers − end_to_end = overhead + overlap − gaps

    overhead = profiled − end_to_end    what the profiler costs
    overlap  = layers − busy            layers that ran at the same time count twice in the sum
    gaps     = profiled − busy          no layer ran: launches, copies, the host

Only parts that were measured are told; of the others a bound, where there is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from trt_lab.profiling.node_time import sum_runs
from trt_lab.profiling.source import Engine
from trt_lab.types import JsonValue, LayerTime

_ROUNDING_MS = 1e-9
"""What adding up many floats can be off by."""


@dataclass(frozen=True, slots=True)
class LatencyAccount:
    """Both numbers and their difference, in ms; None where not measured.

    Attributes:
        layers_ms: Sum of the layers, profiler on: median over runs; where runs are not known, sum of the averages.
        end_to_end_ms: Latency, profiler off: median over runs.
        difference_ms: layers − end_to_end.
        profiled_ms: A run from end to end with the profiler on.
        overhead_ms, overlap_ms, gaps_ms: See the module; they explain the difference exactly where all are there.
        streams: How many streams the layers name; None where they name none.
        words: The same in sentences.
    """

    layers_ms: float | None
    end_to_end_ms: float | None
    difference_ms: float | None
    profiled_ms: float | None
    overhead_ms: float | None
    overlap_ms: float | None
    gaps_ms: float | None
    streams: int | None
    words: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self.words)

    def as_json(self) -> dict[str, JsonValue]:
        """For the command line."""
        return {**asdict(self), "words": list(self.words)}


def account_latency(engine: Engine) -> LatencyAccount:
    """Sets the layer sum beside the latency and explains the difference, as far as it was measured."""
    layers = _layer_sum(engine)
    latency = engine.median_latency_ms
    profiled = _profiled(engine.facts)
    streams = len({layer.stream for layer in engine.layers if layer.stream is not None}) or None
    overlap = _overlap(engine.times)
    if overlap is None and streams == 1 and layers is not None:
        overlap = 0.0  # on one stream layers cannot run at the same time
    difference = layers - latency if layers is not None and latency is not None else None
    overhead = profiled - latency if profiled is not None and latency is not None else None
    gaps = (
        profiled - (layers - overlap) if profiled is not None and layers is not None and overlap is not None else None
    )
    return LatencyAccount(
        layers,
        latency,
        difference,
        profiled,
        overhead,
        overlap,
        gaps,
        streams,
        tuple(_words(layers, latency, difference, overhead, overlap, gaps)),
    )


def _layer_sum(engine: Engine) -> float | None:
    runs = sum_runs(engine.times)
    return median(runs) if runs else engine.layer_sum_ms


def _profiled(facts: Mapping[str, Any]) -> float | None:
    told = facts.get("profiler")
    value = told.get("profiled_ms") if isinstance(told, Mapping) else None
    return float(value) if isinstance(value, int | float) else None


def _overlap(times: Sequence[LayerTime]) -> float | None:
    """Sum of the averages less the union of [start, start + average]; None where starts are not told."""
    if not times or any(time.start_ms is None for time in times):
        return None
    busy, reached = 0.0, float("-inf")
    for time in sorted(times, key=lambda time: time.start_ms or 0.0):
        start = time.start_ms or 0.0
        end = start + time.average_ms
        busy += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    overlap = sum(time.average_ms for time in times) - busy
    return overlap if overlap > _ROUNDING_MS else 0.0


def _words(
    layers: float | None,
    latency: float | None,
    difference: float | None,
    overhead: float | None,
    overlap: float | None,
    gaps: float | None,
) -> list[str]:
    if layers is None:
        return ["no layer was timed"]
    if latency is None or difference is None:
        return [f"layers sum to {layers:.4g} ms; the end-to-end latency was not measured, and the sum is not it"]
    found = [f"layers sum to {layers:.4g} ms, end to end it takes {latency:.4g} ms: {difference:+.4g} ms"]
    if overhead is not None:
        found.append(f"profiler: {overhead:+.4g} ms a run (measured with and without it)")
    elif difference > 0:
        found.append(
            "profiler: not measured; what the sum is longer by is its events between layers, and layers that overlap"
        )
    if overlap:
        found.append(f"overlap: {overlap:.4g} ms, in which several layers ran at once and are counted each")
    if gaps is not None:
        found.append(f"gaps: {gaps:.4g} ms of a profiled run in which no layer ran (launches, copies, the host)")
    elif difference < 0:
        found.append(f"gaps: at least {-difference:.4g} ms of a run in which no layer ran (launches, copies, the host)")
    return found
