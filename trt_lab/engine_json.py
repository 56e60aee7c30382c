"""Engine layer JSON of any TensorRT version → `LayerInfo`.

Dialects: TensorRT 8 (`Format/Datatype` as prose, no metadata), 10 (`Bindings`, types as words,
metadata; 8.6 and 9 wrote the same where they tell metadata), 11 (`I/O Tensors`, `Format` and `Datatype` apart), and plain strings (built without
detailed verbosity). Made by the engine inspector or by `trtexec --exportLayerInfo`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from trt_lab.engine_nodes import NodeIndex, is_reformat, map_layers, split_profile
from trt_lab.errors import RecordError
from trt_lab.types import Dim, JsonValue, LayerInfo, LayerTensor

NOT_DETAILED = "layer details not recorded: build with detailed verbosity (ProfilingVerbosity.DETAILED)"

_WORD_TYPES = {
    "float": "float32",
    "fp32": "float32",
    "float32": "float32",
    "tf32": "float32",
    "half": "float16",
    "fp16": "float16",
    "float16": "float16",
    "bfloat16": "bfloat16",
    "bf16": "bfloat16",
    "int8": "int8",
    "uint8": "uint8",
    "int32": "int32",
    "int64": "int64",
    "bool": "bool",
    "int4": "int4",
    "fp8": "float8_e4m3fn",
    "fp4": "float4_e2m1fn",
    "e8m0": "float8_e8m0fnu",
    "double": "float64",
}
_PROSE_TYPE = re.compile(r"\b(FP32|FP16|BF16|BFloat16|Int8|UInt8|Int32|Int64|Bool|Int4|FP8|FP4|E8M0)\b", re.IGNORECASE)
_FLOATS = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float4_e2m1fn", "int8", "int4")
_FIELDS = frozenset(("Name", "LayerType", "Inputs", "Outputs", "StreamId"))
_SCALAR = re.compile(r"_(?:alpha|beta)$")
"""Factors of a matrix product that Myelin lists as inputs; always Float, whatever the product computes in."""
_TF32_TACTIC = re.compile(r"(?:^|_)\w*tf32", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class EngineTensor:
    """An input or output of the whole engine; type and shape are None where the dialect does not tell."""

    name: str
    is_input: bool | None = None
    dtype: str | None = None
    shape: tuple[Dim, ...] | None = None


@dataclass(frozen=True, slots=True)
class EngineJson:
    """A read layer file.

    Attributes:
        layers: In the file's order, `nodes` filled.
        dialect: `names` (plain strings), `trt8`, `trt10` or `trt11`; `empty` with no layer.
        bindings: Inputs and outputs of the engine.
        notes: One line each: what is missing, how the layers were mapped.
    """

    layers: tuple[LayerInfo, ...]
    dialect: str
    bindings: tuple[EngineTensor, ...] = ()
    notes: tuple[str, ...] = ()


def read_engine_json(path: str | Path, index: NodeIndex | None = None) -> EngineJson:
    """Reads a layer file. Raises RecordError naming the file and, for broken text, the byte place."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror or error}.") from error
    return parse_engine_json(data, name=str(path), index=index)


def parse_engine_json(data: bytes | str, *, name: str = "layer JSON", index: NodeIndex | None = None) -> EngineJson:
    """Parses layer JSON; see `layers_from` for what the content must be."""
    notes: list[str] = []
    read = layers_from(load_json(data, name, notes), name=name, index=index)
    return replace(read, notes=(*read.notes, *notes)) if notes else read


def load_json(data: bytes | str, name: str, notes: list[str] | None = None) -> Any:
    """JSON as TensorRT's tools write it: UTF-8, a byte order mark allowed, raw control characters in strings.

    NaN, Infinity and figures too large for a float become None; how many is added to `notes`. Raises RecordError with the byte place when the text
    is broken.
    """
    words: list[str] = []

    def finite(text: str) -> float | None:
        value = float(text)
        return value if math.isfinite(value) else words.append(text)

    if isinstance(data, bytes):
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise RecordError(
                f"{name}: not UTF-8 text (byte {error.start}). Save the file as UTF-8 and try again."
            ) from error
    else:
        text = data.removeprefix("\ufeff")
    try:
        content = json.loads(text, strict=False, parse_constant=words.append, parse_float=finite)
    except RecursionError as error:
        raise RecordError(f"{name}: nested too deeply to be an engine's JSON.") from error
    except json.JSONDecodeError as error:
        place = len(text[: error.pos].encode())
        raise RecordError(
            f"{name}: broken JSON at byte {place} (line {error.lineno}): {error.msg}. Was it cut?"
        ) from error
    except ValueError as error:  # Python refuses whole numbers of more than 4300 digits
        raise RecordError(
            f"{name}: a number in it has thousands of digits, which no tool of TensorRT writes."
        ) from error
    if words and notes is not None:
        notes.append(
            f"{len(words)} figures in the file are no numbers ({', '.join(sorted(set(words)))}): read as missing"
        )
    return content


def layers_from(content: Any, *, name: str = "layer JSON", index: NodeIndex | None = None) -> EngineJson:
    """Layers of a parsed layer file `{"Layers": […], "Bindings" | "I/O Tensors": […]}`, as `load_json` gives it.

    Raises:
        RecordError: The key `Layers` is missing, or holds something else than layers.
    """
    if not isinstance(content, Mapping):
        kind = "a list" if isinstance(content, Sequence) and not isinstance(content, str) else type(content).__name__
        raise RecordError(f"{name}: {kind} at top level where an object with the key 'Layers' is expected.")
    if "Layers" not in content:
        keys = ", ".join(repr(k) for k in list(content)[:5]) or "none"
        raise RecordError(f"{name}: the key 'Layers' is missing (keys found: {keys}). It is no engine layer file.")
    items = content["Layers"]
    if not isinstance(items, list):
        raise RecordError(f"{name}: 'Layers' holds no list.")
    dialect = _dialect(content, items)
    notes = []
    if not items:
        notes.append("no layers")
    elif all(isinstance(item, str) for item in items):
        notes.append(NOT_DETAILED)
    layers = map_layers([_layer(i, item, name) for i, item in enumerate(items)], index)
    return EngineJson(layers, dialect, _bindings(content, layers), tuple(notes))


@lru_cache(4096)
def dtype_of(text: str | None) -> str | None:
    """Name of a type as TensorInfo writes it, from a word (`Half`) or prose (`Channel major FP16 format…`)."""
    if not text:
        return None
    word = _WORD_TYPES.get(text.strip().lower())
    if word:
        return word
    found = _PROSE_TYPE.search(text)
    return _WORD_TYPES[found.group(1).lower()] if found else None


def precision_of(
    inputs: Sequence[LayerTensor], outputs: Sequence[LayerTensor], weights: str | None, tactic: str | None, kind: str
) -> str | None:
    """Type in which a layer computes, as far as the engine tells.

    The type of the weights; else the type that all its floating (or quantised) tensors share; for a
    layer that only converts, the type it makes; `tf32` if the kernel's name says so. None if tensors
    of several types meet, since a fused kernel may compute in either.
    """
    found = dtype_of(weights)
    if found is None:
        kinds_out = {t.dtype for t in outputs if t.dtype}
        kinds = {t.dtype for t in (*inputs, *outputs) if t.dtype and not _SCALAR.search(t.name)}
        floats = {k for k in kinds if k in _FLOATS}
        if kind in ("Reformat", "NoOp", "Cast", "copy") and len(kinds_out) == 1:
            found = next(iter(kinds_out))
        elif len(floats) == 1:
            found = next(iter(floats))
        elif not floats and len(kinds) == 1:
            found = next(iter(kinds))
    return "tf32" if found == "float32" and tactic and _TF32_TACTIC.search(tactic) else found


def count_precisions(layers: Sequence[LayerInfo]) -> dict[str, int]:
    """Number of layers by `precision`; layers that do not tell count under `unknown`."""
    counts: dict[str, int] = {}
    for layer in layers:
        key = layer.precision or "unknown"
        counts[key] = counts.get(key, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: -item[1]))


def count_tensor_types(layers: Sequence[LayerInfo]) -> dict[str, int]:
    """Number of distinct layer tensors (inputs and outputs, by name) by type; reformats are left out."""
    types: dict[str, str] = {}
    for layer in layers:
        if not is_reformat(layer):
            for tensor in (*layer.inputs, *layer.outputs):
                types.setdefault(tensor.name, tensor.dtype or "unknown")
    counts: dict[str, int] = {}
    for kind in types.values():
        counts[kind] = counts.get(kind, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: -item[1]))


def _dialect(content: Mapping[str, Any], items: list[Any]) -> str:
    if not items:
        return "empty"
    layers = [item for item in items if isinstance(item, dict)]
    if not layers:
        return "names"
    tensors = (t for item in layers for t in (*_list(item, "Inputs"), *_list(item, "Outputs")) if isinstance(t, dict))
    if "I/O Tensors" in content or any("Datatype" in t for t in tensors):
        return "trt11"
    if any("Metadata" in item or "StreamId" in item for item in layers):
        return "trt10"
    return "trt8"


def _layer(index: int, item: Any, source: str) -> LayerInfo:
    if isinstance(item, str):
        bare, profile = split_profile(item)
        return LayerInfo(index, bare, "", attributes={} if profile is None else {"profile": profile})
    if not isinstance(item, dict):
        raise RecordError(f"{source}: layer {index} is neither an object nor a name.")
    if not isinstance(item.get("Name"), str):
        raise RecordError(f"{source}: layer {index} has no key 'Name'.")
    bare, profile = split_profile(item["Name"])
    kind = str(item.get("LayerType", ""))
    inputs = tuple(_tensor(t) for t in _list(item, "Inputs"))
    outputs = tuple(_tensor(t) for t in _list(item, "Outputs"))
    weights = item.get("Weights")
    weight_type = _text(weights, "Type") if isinstance(weights, dict) else None
    tactic = item.get("TacticName") or item.get("TacticValue")
    stream = item.get("StreamId")
    attributes: dict[str, JsonValue] = {k: v for k, v in item.items() if k not in _FIELDS}
    if profile is not None:
        attributes["profile"] = profile
    return LayerInfo(
        index=index,
        name=bare,
        type=kind,
        inputs=inputs,
        outputs=outputs,
        precision=precision_of(inputs, outputs, weight_type, _text(item, "TacticName"), kind),
        tactic=str(tactic) if tactic else None,
        stream=stream if _is_whole(stream) else None,
        attributes=attributes,
    )


def _tensor(item: Any) -> LayerTensor:
    if not isinstance(item, dict):
        return LayerTensor(str(item))
    joint = _text(item, "Format/Datatype")
    kind = _text(item, "Datatype") or _text(item, "DataType") or joint
    form = _text(item, "Format")
    if form is None and joint is not None and joint.strip().lower() not in _WORD_TYPES:
        form = joint
    shape = _shape(item.get("Dimensions"))
    return LayerTensor(str(item.get("Name", "")), dtype_of(kind), shape, form, _text(item, "Location"))


def _text(item: Mapping[str, Any], key: str) -> str | None:
    value = item.get(key)
    return value if isinstance(value, str) else None


def _shape(dims: Any) -> tuple[Dim, ...] | None:
    """Sizes; −1 (unknown until run time), and what is no size, become None."""
    if not isinstance(dims, list):
        return None
    return tuple([d if isinstance(d, str) or (_is_whole(d) and d >= 0) else None for d in dims])


def _is_whole(value: Any) -> bool:
    """Whether it is a whole number of 64 bits; JSON may hold larger ones."""
    return type(value) is int and -(2**63) <= value < 2**63


def _bindings(content: Mapping[str, Any], layers: Sequence[LayerInfo]) -> tuple[EngineTensor, ...]:
    made = {t.name: t for layer in layers for t in layer.outputs}
    read = {t.name: t for layer in layers for t in layer.inputs}
    found = []
    for item in _list(content, "I/O Tensors") or _list(content, "Bindings"):
        if isinstance(item, Mapping):
            mode = str(item.get("IOMode", "")).lower()
            found.append(
                EngineTensor(
                    str(item.get("Name", "")),
                    {"input": True, "output": False}.get(mode),
                    dtype_of(_text(item, "DataType") or _text(item, "Datatype")),
                    _shape(item.get("Dimensions")),
                )
            )
        else:
            bare = split_profile(str(item))[0]
            known = made.get(bare) or read.get(bare)
            is_input = None if known is None else bare not in made
            found.append(EngineTensor(bare, is_input, known and known.dtype, known and known.shape))
    return tuple(found)


def _list(item: Mapping[str, Any], key: str) -> list[Any]:
    value = item.get(key)
    return value if isinstance(value, list) else []
