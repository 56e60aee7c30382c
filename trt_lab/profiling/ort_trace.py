"""ONNX Runtime's profile file (a Chrome trace) without the session that wrote it: the kernels that ran are its layers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Any

from trt_lab.backends.onnxruntime.profile import times_in
from trt_lab.engine_json import dtype_of
from trt_lab.errors import RecordError
from trt_lab.types import JsonValue, LayerInfo, LayerTensor, LayerTime

_KERNEL = "_kernel_time"
_US = 1000.0


def is_ort_profile(content: Any) -> bool:
    """Whether the parsed JSON is a list of ONNX Runtime's own events (other Chrome traces are not)."""
    return isinstance(content, list) and any(
        isinstance(event, Mapping) and event.get("cat") in ("Session", "Node") and "ts" in event for event in content
    )


def read_ort_profile(
    events: list[Any], name: str
) -> tuple[tuple[LayerInfo, ...], tuple[LayerTime, ...], dict[str, JsonValue]]:
    """Layers, their times over all runs in the file, and facts (`profiled_runs`, `profiled_run_ms`).

    Two kernels with one name and one operator are one layer. Tensors have types and shapes, no names: the file has none.

    Raises:
        RecordError: No run in it, or an event lacks a key.
    """
    events = [event for event in events if isinstance(event, Mapping)]
    runs = [float(e["dur"]) / _US for e in events if e.get("cat") == "Session" and e.get("name") == "model_run"]
    if not runs:
        raise RecordError(f"{name}: no 'model_run' event; the profile was cut, or nothing was run.")
    try:
        layers = tuple(_layers(events))
        times = times_in(events, layers, [layer.name for layer in layers], len(runs))
    except (KeyError, TypeError) as error:
        raise RecordError(f"{name}: an event lacks a key ({error}); was the profile cut?") from error
    return layers, times, {"profiled_runs": len(runs), "profiled_run_ms": fmean(runs)}


def _layers(events: Iterable[Mapping[str, Any]]) -> Iterable[LayerInfo]:
    seen: set[tuple[str, str]] = set()
    for event in sorted((e for e in events if e.get("cat") == "Node"), key=lambda e: e["ts"]):
        if not str(event["name"]).endswith(_KERNEL):
            continue
        name, told = str(event["name"]).removesuffix(_KERNEL), event.get("args") or {}
        kind = str(told.get("op_name", ""))
        if (name, kind) in seen:
            continue
        seen.add((name, kind))
        outputs = _tensors(told.get("output_type_shape"))
        kept: dict[str, JsonValue] = {key: str(told[key]) for key in ("provider", "node_index") if key in told}
        for key in ("parameter_size", "activation_size", "output_size"):
            if str(told.get(key, "")).isdigit():
                kept[key] = int(told[key])
        yield LayerInfo(len(seen) - 1, name, kind, _tensors(told.get("input_type_shape")), outputs, attributes=kept)


def _tensors(told: Any) -> tuple[LayerTensor, ...]:
    """`[{"float": [1, 3]}, …]` as tensors."""
    if not isinstance(told, list):
        return ()
    return tuple(
        LayerTensor("", dtype_of(kind), tuple(shape) if isinstance(shape, list) else None)
        for item in told
        if isinstance(item, Mapping)
        for kind, shape in item.items()
    )
