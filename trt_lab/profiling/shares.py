"""Who has which share of an engine: time and layers by precision and by type, memory by layer, the cost of reformats.

Figures are computed from what the engine's files tell. What they do not tell is None, never 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from trt_lab.engine_json import dtype_of
from trt_lab.engine_nodes import is_copy, is_reformat
from trt_lab.errors import UsageError
from trt_lab.profiling.source import Engine
from trt_lab.types import LayerInfo, LayerTensor, NodeId

Grouping = Literal["precision", "type"]

BITS = {
    "float64": 64, "float32": 32, "float16": 16, "bfloat16": 16, "int64": 64, "uint64": 64, "int32": 32, "uint32": 32,
    "int16": 16, "uint16": 16, "int8": 8, "uint8": 8, "bool": 8, "float8_e4m3fn": 8, "float8_e5m2": 8,
    "float8_e8m0fnu": 8, "int4": 4, "uint4": 4, "float4_e2m1fn": 4,
}  # fmt: skip
"""Bits of one element, by the names of `TensorInfo.dtype`."""
MOST_BYTES = 2**50
"""Of one tensor: a pebibyte."""
_OF_NODES = ("QDQ", "CAST", "CONCAT")
"""Where a Reformat layer does the work of a node, as TensorRT tells its origin."""


@dataclass(frozen=True, slots=True)
class Share:
    """What the layers of one precision, or of one type, have together.

    Attributes:
        time_ms: Sum of their average times; None when none of them was timed.
        share: Of the sum of all layer times, 0 to 1; None likewise.
        timed: How many of the layers have a time.
    """

    key: str
    layers: int
    timed: int
    time_ms: float | None
    share: float | None


@dataclass(frozen=True, slots=True)
class LayerMemory:
    """Bytes that one layer reads and writes, padding of vectorised formats left out.

    Attributes:
        weights_bytes: Weights and constants; None where the engine does not tell them.
        input_bytes, output_bytes: Activations; None where a type or a size is not known.
        least_bytes: Activations with every unknown size taken as 1: they are at least this large. None without types.
    """

    index: int
    name: str
    weights_bytes: int | None
    input_bytes: int | None
    output_bytes: int | None
    least_bytes: int | None


@dataclass(frozen=True, slots=True)
class Reformat:
    """A layer that only changes type or layout.

    Attributes:
        change: `type`, `layout`, `type and layout`, or None when the engine does not tell.
        before, after: Type, and format where it is told.
        serves: Nodes of the layer that it stands before or behind.
        moved_bytes: Read and written; None where a size is not known.
        share: Of the sum of all layer times.
    """

    index: int
    name: str
    change: str | None
    before: str | None
    after: str | None
    serves: tuple[NodeId, ...]
    time_ms: float | None
    share: float | None
    moved_bytes: int | None


def precision_key(layer: LayerInfo) -> str:
    """The layer's precision; `none` where it has no tensors at all (signals, waits), `unknown` where it does not tell."""
    if layer.precision:
        return layer.precision
    return "none" if layer.type and not layer.inputs and not layer.outputs else "unknown"


def type_key(layer: LayerInfo) -> str:
    """The layer's type; `unknown` where only names are told."""
    return layer.type or "unknown"


_KEYS: dict[str, Callable[[LayerInfo], str]] = {"precision": precision_key, "type": type_key}


def shares(engine: Engine, by: Grouping) -> tuple[Share, ...]:
    """One entry a precision or type, the most time first, then the most layers.

    Times of names that are no layer count under `unknown`, so that the shares add up to 1.

    Raises:
        UsageError: `by` is neither `precision` nor `type`.
    """
    if by not in _KEYS:
        raise UsageError(f"shares by {by!r} are not known; take one of {', '.join(_KEYS)}")
    key = _KEYS[by]
    times: dict[str, list[float]] = {}
    counts: dict[str, int] = {}
    known = set()
    for layer in engine.layers:
        name = key(layer)
        counts[name] = counts.get(name, 0) + 1
        known.add(layer.index)
        if layer.index in engine.time_of:
            times.setdefault(name, []).append(engine.time_of[layer.index].average_ms)
    for time in engine.times:
        if time.index not in known:
            times.setdefault("unknown", []).append(time.average_ms)
    found = []
    for name in dict.fromkeys((*counts, *times)):
        taken = math.fsum(times[name]) if name in times else None
        found.append(Share(name, counts.get(name, 0), len(times.get(name, ())), taken, engine.share(taken)))
    return tuple(sorted(found, key=lambda s: (-(s.time_ms or 0.0), -s.layers)))


def tensor_bytes(dtype: str | None, shape: Sequence[object] | None, *, unknown: int | None = None) -> int | None:
    """Bytes of a dense tensor; None when the type or a size is not known, or cannot be: negative, more than any memory.

    Args:
        unknown: Taken for each size that is not known, instead.
    """
    if dtype not in BITS or shape is None:
        return None
    sizes = [size if isinstance(size, int) else unknown for size in shape]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes) or any(size < 0 for size in known):
        return None
    found = (math.prod(known) * BITS[dtype] + 7) // 8
    return found if found <= MOST_BYTES else None


def memory(engine: Engine) -> tuple[LayerMemory, ...]:
    """Memory of each layer, in the engine's order.

    Weights are told under `Weights` and `Bias` (convolutions), under `Constants` (TensorRT for RTX), or are inputs
    that neither a layer makes nor the engine is given (Myelin's kernels).
    """
    made = {tensor.name for layer in engine.layers for tensor in layer.outputs}
    given = {binding.name for binding in engine.bindings}
    return tuple(_memory(layer, made, given) for layer in engine.layers)


def reformats(engine: Engine) -> tuple[Reformat, ...]:
    """Layers that only change type or layout, the slowest first. A quantisation that is a node's work is none."""
    found = []
    for layer in engine.layers:
        if not is_pure_reformat(layer):
            continue
        time = engine.time_of.get(layer.index)
        taken = time.average_ms if time is not None else None
        before, after = _one(layer.inputs), _one(layer.outputs)
        sizes = [tensor_bytes(t.dtype, t.shape) for t in (before, after) if t is not None]
        serves = layer.nodes if engine.map is None else engine.map.nodes_of(layer.index)
        moved = sum(s for s in sizes if s is not None) if sizes and None not in sizes else None
        what = _change(before, after), _words(before), _words(after)
        found.append(Reformat(layer.index, layer.name, *what, serves, taken, engine.share(taken), moved))
    return tuple(sorted(found, key=lambda r: -(r.time_ms or 0.0)))


def is_pure_reformat(layer: LayerInfo) -> bool:
    """Whether the layer was put in by the builder to change type or layout, and computes no node."""
    return is_copy(layer) or (
        is_reformat(layer) and layer.attributes.get("Origin") not in _OF_NODES and not layer.nodes
    )


def _memory(layer: LayerInfo, made: set[str], given: set[str]) -> LayerMemory:
    weights = _weights(layer, made, given)
    inputs = [t for t in layer.inputs if not _is_weight(t, made, given)]
    if layer.type == "Constant":
        return LayerMemory(layer.index, layer.name, _sum(layer.outputs), 0, 0, 0)
    return LayerMemory(
        layer.index, layer.name, weights, _sum(inputs), _sum(layer.outputs),
        _sum((*inputs, *layer.outputs), unknown=1) if layer.inputs or layer.outputs else None,
    )  # fmt: skip


def _weights(layer: LayerInfo, made: set[str], given: set[str]) -> int | None:
    told: list[int | None] = []
    for key in ("Weights", "Bias"):
        part = layer.attributes.get(key)
        if isinstance(part, dict) and isinstance(part.get("Count"), int):
            kind = part.get("Type")
            told.append(tensor_bytes(dtype_of(kind if isinstance(kind, str) else None), [part["Count"]]))
    constants = layer.attributes.get("Constants")
    for item in constants if isinstance(constants, list) else ():
        if isinstance(item, dict):
            kind, dims = item.get("Datatype"), item.get("Dimensions")
            shape = dims if isinstance(dims, list) else None
            told.append(tensor_bytes(dtype_of(kind if isinstance(kind, str) else None), shape))
    told += [tensor_bytes(t.dtype, t.shape) for t in layer.inputs if _is_weight(t, made, given)]
    known = [size for size in told if size is not None]
    return sum(known) if known and len(known) == len(told) else None


def _is_weight(tensor: LayerTensor, made: set[str], given: set[str]) -> bool:
    """An input that comes from nowhere, where the engine's own inputs are known."""
    return bool(given) and bool(tensor.name) and tensor.name not in made and tensor.name not in given


def _sum(tensors: Iterable[LayerTensor], *, unknown: int | None = None) -> int | None:
    sizes = [tensor_bytes(t.dtype, t.shape, unknown=unknown) for t in tensors]
    known = [size for size in sizes if size is not None]
    return sum(known) if known and len(known) == len(sizes) else None


def _one(tensors: Sequence[LayerTensor]) -> LayerTensor | None:
    return tensors[0] if tensors else None


def _change(before: LayerTensor | None, after: LayerTensor | None) -> str | None:
    if before is None or after is None or before.dtype is None or after.dtype is None:
        return None
    if before.dtype == after.dtype:
        return "layout"
    return "type and layout" if before.format and after.format and _layout(before) != _layout(after) else "type"


def _layout(tensor: LayerTensor) -> str:
    """The format's words without those of the type: `Row major linear FP32` and `… FP16` are one layout."""
    words = (tensor.format or "").replace(" format", "").split()
    return " ".join(word for word in words if dtype_of(word) is None)


def _words(tensor: LayerTensor | None) -> str | None:
    if tensor is None or tensor.dtype is None:
        return None
    return f"{tensor.dtype}, {_layout(tensor)}" if tensor.format and _layout(tensor) else tensor.dtype
