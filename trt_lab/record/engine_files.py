"""`layers.json`, `profile.json` and `build.log.jsonl`: in trtexec's own forms, so that any tool reads them.

What those forms cannot carry (ONNX nodes, times of each run, symbolic sizes) stands under further keys, which other
readers leave alone: `trt_lab` in a layer and a tensor, `runsMs` and `startMs` in a profile row.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from trt_lab.engine_json import layers_from, load_json
from trt_lab.engine_profile import duration, number
from trt_lab.errors import RecordError
from trt_lab.record.schema import dump_json
from trt_lab.types import LayerInfo, LayerTensor, LayerTime, LogLine

_WORDS = {
    "float32": "Float",
    "float16": "Half",
    "bfloat16": "BFloat16",
    "int8": "Int8",
    "uint8": "UInt8",
    "int32": "Int32",
    "int64": "Int64",
    "int4": "Int4",
    "bool": "Bool",
    "float8_e4m3fn": "FP8",
    "float4_e2m1fn": "FP4",
}
"""TensorRT's names of element types, as its inspector writes them."""

_OWN = "trt_lab"


def layers_json(layers: Sequence[LayerInfo], bindings: Sequence[str]) -> bytes:
    """The layers as `trtexec --exportLayerInfo` writes them."""
    return dump_json({"Layers": [_layer_out(layer) for layer in layers], "Bindings": list(bindings)})


def read_layers(path: Path, data: bytes) -> tuple[LayerInfo, ...]:
    """Layers of a record; those of a file from elsewhere are read with what trtexec tells.

    Raises:
        RecordError: Broken JSON, or no layer file.
    """
    content = load_json(data, str(path))
    plain = layers_from(content, name=str(path)).layers
    return tuple(_layer_in(path, layer, item) for layer, item in zip(plain, content["Layers"], strict=True))


def profile_json(times: Sequence[LayerTime]) -> bytes:
    """The times as `trtexec --exportProfile` writes them, one row a layer."""
    runs = max((len(time.runs_ms) for time in times), default=0)
    total = sum(time.average_ms for time in times)
    rows: list[dict[str, Any]] = [{"count": runs or 1}]
    for time in times:
        row = {
            "name": time.name,
            "timeMs": time.average_ms * (runs or 1),
            "averageMs": time.average_ms,
            "medianMs": time.median_ms,
            "percentage": 100.0 * time.average_ms / total if total else 0.0,
        }
        row[_OWN] = {"index": time.index, "runsMs": time.runs_ms, "startMs": time.start_ms}
        rows.append(row)
    return dump_json(rows)


def read_profile(path: Path, data: bytes) -> tuple[LayerTime, ...]:
    """Times of a record. Raises RecordError when it is no profile."""
    content = load_json(data, str(path))
    if not isinstance(content, list):
        raise RecordError(f"{path}: no list of rows; this is no profile, copy the record again")
    times = []
    for item in content:
        if not isinstance(item, Mapping) or "name" not in item:
            continue
        average = duration(item.get("averageMs"))
        if average is None:
            continue  # a layer without a time has none, not 0
        told = item.get(_OWN)
        own = told if isinstance(told, Mapping) else {}
        index, runs = own.get("index"), own.get("runsMs")
        times.append(
            LayerTime(
                index=index if type(index) is int and index >= 0 else len(times),
                name=str(item["name"]),
                average_ms=average,
                median_ms=duration(item.get("medianMs")),
                runs_ms=tuple(ms for run in runs if (ms := duration(run)) is not None)
                if isinstance(runs, list)
                else (),
                start_ms=number(own.get("startMs")),
            )
        )
    return tuple(times)


def log_jsonl(lines: Sequence[LogLine]) -> bytes:
    """One JSON object a line."""
    return b"".join(dump_json(line) + b"\n" for line in lines)


def read_log(path: Path) -> Iterator[LogLine]:
    """The lines of a log, one at a time, however long it is. Raises RecordError at a broken line."""
    known = {field.name for field in fields(LogLine)}
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                yield LogLine(**{key: value for key, value in json.loads(line).items() if key in known})
            except (ValueError, TypeError, AttributeError, RecursionError) as error:
                raise RecordError(f"{path}: line {number} is broken ({error}); copy the record again") from error


def _layer_out(layer: LayerInfo) -> dict[str, Any]:
    item: dict[str, Any] = {
        "Name": layer.name,
        "LayerType": layer.type,
        "Inputs": [_tensor_out(tensor) for tensor in layer.inputs],
        "Outputs": [_tensor_out(tensor) for tensor in layer.outputs],
    }
    if layer.stream is not None:
        item["StreamId"] = layer.stream
    item.update({key: value for key, value in layer.attributes.items() if key not in item and key != _OWN})
    if layer.tactic is not None:
        item.setdefault("TacticName", layer.tactic)
    item[_OWN] = {
        "precision": layer.precision,
        "tactic": layer.tactic,
        "nodes": layer.nodes,
        "nodes_from": layer.nodes_from,
        "attributes": list(layer.attributes),
    }
    return item


def _tensor_out(tensor: LayerTensor) -> dict[str, Any]:
    item: dict[str, Any] = {"Name": tensor.name, "Location": tensor.location}
    item["Dimensions"] = [size if isinstance(size, int) else -1 for size in tensor.shape or ()]
    item["Format/Datatype"] = _WORDS.get(tensor.dtype or "", tensor.dtype)
    if tensor.format is not None:
        item["Format"] = tensor.format
    item[_OWN] = {"dtype": tensor.dtype, "shape": tensor.shape}
    return item


def _layer_in(path: Path, layer: LayerInfo, item: Any) -> LayerInfo:
    own = item.get(_OWN) if isinstance(item, Mapping) else None
    if not isinstance(own, Mapping):
        return layer
    try:
        return LayerInfo(
            index=layer.index,
            name=item["Name"],
            type=item["LayerType"],
            inputs=tuple(_tensor_in(tensor) for tensor in item["Inputs"]),
            outputs=tuple(_tensor_in(tensor) for tensor in item["Outputs"]),
            precision=own["precision"],
            tactic=own["tactic"],
            stream=item.get("StreamId"),
            nodes=tuple(own["nodes"]),
            nodes_from=own["nodes_from"],
            attributes={key: item[key] for key in own["attributes"] if key in item},
        )
    except (KeyError, TypeError) as error:
        raise RecordError(f"{path}: layer {layer.index} is damaged ({error!r}); copy the record again") from error


def _tensor_in(item: Mapping[str, Any]) -> LayerTensor:
    own = item[_OWN]
    shape = own["shape"]
    return LayerTensor(
        name=item["Name"],
        dtype=own["dtype"],
        shape=None if shape is None else tuple(shape),
        format=item.get("Format"),
        location=item.get("Location"),
    )
