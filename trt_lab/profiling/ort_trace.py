"""ONNX Runtime's profile file (a Chrome trace) without the session that wrote it: the kernels that ran are its layers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Any

from trt_lab.backends.onnxruntime.profile import times_in
from trt_lab.engine_json import dtype_of
from trt_lab.engine_profile import duration
from trt_lab.errors import RecordError
from trt_lab.types import JsonValue, LayerInfo, LayerTensor, LayerTime

_KERNEL = "_kernel_time"
_US = 1000.0
_WHOLE = re.compile(r"[0-9]{1,18}")


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
        RecordError: No run in it, or a run or kernel whose time is missing or none; names the key.
    """
    used = [found for event in events if (found := _used(event, name)) is not None]
    runs = [event["dur"] / _US for event in used if event["cat"] == "Session"]
    if not runs:
        raise RecordError(f"{name}: no 'model_run' event; the profile was cut, or nothing was run.")
    layers = tuple(_layers(used))
    times = times_in(used, layers, [layer.name for layer in layers], len(runs))
    return layers, times, {"profiled_runs": len(runs), "profiled_run_ms": fmean(runs)}


def _used(event: Any, file: str) -> dict[str, Any] | None:
    """A whole run or a kernel, its times and operator checked; None for the other events."""
    name = event.get("name") if isinstance(event, Mapping) else None
    if not isinstance(name, str):
        return None
    kind = event.get("cat")
    if not (kind == "Node" and name.endswith(_KERNEL)) and not (kind == "Session" and name == "model_run"):
        return None
    for key in ("ts", "dur"):
        if duration(event.get(key)) is None:
            raise RecordError(f"{file}: '{key}' of event '{name}' is no time (in µs, 0 or more); was the profile cut?")
    args = event.get("args")
    told = dict(args) if isinstance(args, Mapping) else {}
    return {**event, "args": {**told, "op_name": str(told.get("op_name", ""))}}


def _layers(events: Iterable[Mapping[str, Any]]) -> Iterable[LayerInfo]:
    seen: set[tuple[str, str]] = set()
    for event in sorted((e for e in events if e["cat"] == "Node"), key=lambda e: e["ts"]):
        name, told = event["name"].removesuffix(_KERNEL), event["args"]
        kind = told["op_name"]
        if (name, kind) in seen:
            continue
        seen.add((name, kind))
        outputs = _tensors(told.get("output_type_shape"))
        kept: dict[str, JsonValue] = {key: str(told[key]) for key in ("provider", "node_index") if key in told}
        for key in ("parameter_size", "activation_size", "output_size"):
            if _WHOLE.fullmatch(str(told.get(key, ""))):
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
