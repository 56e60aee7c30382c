"""Layer times as a Chrome trace, which Perfetto and `chrome://tracing` open.

Source of the format: the Trace Event Format document of the Chromium project. One process an engine, one thread a
stream, one complete event (`ph: X`) a layer and run; times in µs, durations of 0 kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trt_lab import __version__
from trt_lab.errors import RecordError
from trt_lab.profiling.text import whole_text
from trt_lab.tensors.atomic import replacing
from trt_lab.types import JsonValue, LayerInfo, LayerTime

if TYPE_CHECKING:
    from trt_lab.profiling.source import Engine

GAP_NS = 50_000
"""Between two runs, so that they can be told apart."""

NO_STREAM = -1
"""Stands for the stream of layers of which none is known."""

_RUNS_LANE = 1
_FIRST_LANE = 2


@dataclass(frozen=True, slots=True)
class _Placed:
    """A layer in one run, in ns from the start of the trace."""

    time: LayerTime
    layer: LayerInfo | None
    stream: int
    start: int
    duration: int


def write_chrome_trace(engines: Sequence[Engine], path: str | Path) -> Path:
    """Writes the layer times of engines to `path` and returns it.

    Layers stand in lanes by stream, run after run. Where the profiler tells no starts, the layers of a run stand one
    after another in the engine's order, and the trace says so. Where it tells starts, those are kept as far as events
    of one lane do not overlap.

    Raises:
        RecordError: No engine, or one without layer times; the file cannot be written.
    """
    text = json.dumps(chrome_trace(engines), separators=(",", ":"), allow_nan=False)
    target = Path(path).expanduser()
    with replacing(target) as file:
        file.write(text.encode())
    return target


def chrome_trace(engines: Sequence[Engine]) -> dict[str, JsonValue]:
    """The trace as JSON values: `{"traceEvents": [...], "displayTimeUnit": "ms", "otherData": {...}}`.

    Raises:
        RecordError: No engine, or one without layer times.
    """
    if not engines:
        raise RecordError("no engine to write as a trace; give at least one file with layer times")
    events: list[JsonValue] = []
    other: dict[str, JsonValue] = {"written_by": f"trt-lab {__version__}"}
    for number, engine in enumerate(engines, 1):
        if not engine.times:
            raise RecordError(
                f"{engine.origin or engine.label}: holds no layer times, so there is no trace to write; profile it "
                "(trt-lab build, or trtexec --exportProfile) and give that file as well"
            )
        events += _engine_events(number, engine)
        other[f"engine_{number}"] = {
            "label": whole_text(engine.label),
            "starts": _starts(engine),
            **{key: _plain(value) for key, value in engine.facts.items()},
        }
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": other}


def _starts(engine: Engine) -> str:
    """Where the starts of the events come from."""
    if _has_starts(engine.times):
        return "median over runs, as the profiler told"
    return "made up: the profiler tells durations only, so layers stand one after another"


def _has_starts(times: Sequence[LayerTime]) -> bool:
    return all(time.start_ms is not None for time in times)


def _engine_events(pid: int, engine: Engine) -> Iterator[dict[str, JsonValue]]:
    layers = {layer.index: layer for layer in engine.layers}
    streams = sorted({_stream(layers.get(time.index)) for time in engine.times})
    lanes = {stream: _FIRST_LANE + rank for rank, stream in enumerate(streams)}
    yield _meta("process_name", pid, 0, {"name": whole_text(engine.label)})
    yield _meta("process_sort_index", pid, 0, {"sort_index": pid})
    yield from _lane_names(pid, lanes)
    cursor = 0
    for run in range(max(1, *(len(time.runs_ms) for time in engine.times))):
        placed = _place(engine.times, layers, run, cursor)
        end = max((p.start + p.duration for p in placed), default=cursor)
        yield _run_event(pid, engine, run, cursor, end, placed)
        for item in placed:
            yield _layer_event(pid, lanes[item.stream], run, item)
        cursor = end + GAP_NS


def _place(times: Sequence[LayerTime], layers: Mapping[int, LayerInfo], run: int, begin: int) -> list[_Placed]:
    """Layers of one run; those that did not run in it are left out."""
    known = _has_starts(times)
    free: dict[int, int] = {}
    placed = []
    for time in sorted(times, key=lambda t: (t.start_ms or 0.0, t.index)) if known else times:
        ms = time.average_ms if not time.runs_ms and run == 0 else _value(time.runs_ms, run)
        if ms is None:
            continue
        layer = layers.get(time.index)
        stream = _stream(layer)
        lane = stream if known else NO_STREAM  # without starts nothing is known to run beside another
        earliest = free.get(lane, begin)
        start = max(earliest, begin + _ns(time.start_ms)) if known and time.start_ms is not None else earliest
        placed.append(_Placed(time, layer, stream, start, _ns(ms)))
        free[lane] = start + _ns(ms)
    return placed


def _value(values: Sequence[float], at: int) -> float | None:
    return values[at] if at < len(values) else None


def _ns(ms: float) -> int:
    return max(0, round(ms * 1e6))


def _stream(layer: LayerInfo | None) -> int:
    return NO_STREAM if layer is None or layer.stream is None else layer.stream


def _lane_names(pid: int, lanes: Mapping[int, int]) -> Iterator[dict[str, JsonValue]]:
    named = {"runs": _RUNS_LANE}
    named |= {"layers" if stream == NO_STREAM else f"stream {stream}": lane for stream, lane in lanes.items()}
    for name, lane in named.items():
        yield _meta("thread_name", pid, lane, {"name": name})
        yield _meta("thread_sort_index", pid, lane, {"sort_index": lane})


def _meta(name: str, pid: int, tid: int, args: dict[str, JsonValue]) -> dict[str, JsonValue]:
    return {"ph": "M", "name": name, "pid": pid, "tid": tid, "ts": 0, "args": args}


def _run_event(
    pid: int, engine: Engine, run: int, start: int, end: int, placed: Sequence[_Placed]
) -> dict[str, JsonValue]:
    measured = any(time.runs_ms for time in engine.times)
    args: dict[str, JsonValue] = {
        "layer_sum_ms": round(sum(p.duration for p in placed) / 1e6, 6),
        "latency_ms": _value(engine.latency_ms, run),
        "latency_note": "measured apart, without the profiler" if engine.latency_ms else "not measured",
    }
    return {
        "ph": "X", "cat": "run", "name": f"run {run + 1}" if measured else "average of the runs",
        "pid": pid, "tid": _RUNS_LANE, "ts": start / 1e3, "dur": (end - start) / 1e3, "args": args,
    }  # fmt: skip


def _layer_event(pid: int, lane: int, run: int, item: _Placed) -> dict[str, JsonValue]:
    layer, time = item.layer, item.time
    args: dict[str, JsonValue] = {
        "layer": time.index,
        "run": run + 1,
        "average_ms": time.average_ms,
        "median_ms": time.median_ms,
        "nodes": [],
    }
    if layer is not None:
        args["nodes"] = [whole_text(str(node)) for node in layer.nodes]
        args |= {"nodes_from": layer.nodes_from, "type": whole_text(layer.type), "precision": layer.precision}
        args |= {"tactic": None if layer.tactic is None else whole_text(layer.tactic)}
    return {
        "ph": "X", "cat": whole_text(layer.type) if layer is not None and layer.type else "layer",
        "name": whole_text(time.name), "pid": pid, "tid": lane,
        "ts": item.start / 1e3, "dur": item.duration / 1e3, "args": args,
    }  # fmt: skip


def _plain(value: object) -> JsonValue:
    """A fact as a number or text; what is nested is written out."""
    return value if value is None or isinstance(value, (bool, int)) else whole_text(str(value))
