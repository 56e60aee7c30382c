"""Rules that look for time given away, each with what it saw and what could be gained at most.

Gains are estimates from the engine's own figures; `basis` says how each was made. Nothing here runs an engine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from trt_lab.engine_json import count_tensor_types
from trt_lab.engine_nodes import is_copy
from trt_lab.graph.patterns import norm_chains
from trt_lab.graph.view import GraphView
from trt_lab.profiling.kernels import aligned_to, is_matrix_layer, on_tensor_cores, quantizes
from trt_lab.profiling.shares import is_pure_reformat, reformats, tensor_bytes
from trt_lab.profiling.source import Engine
from trt_lab.types import JsonValue, LayerInfo, NodeId

Severity = Literal["error", "warning", "info"]

HOT_SHARE = 0.05
"""Share of the layer sum from which a layer is hot."""
TINY_MS = 0.005
"""A kernel shorter than this takes about as long to launch as to run."""
TINY_LAYERS = 10
"""Fewer tiny kernels than this are no finding."""
IMAGE_CHANNELS = 4
WASTE = 0.1
"""Share of padding in a product from which it is worth a line."""
_NORM_OPS = ("LayerNormalization", "GroupNormalization", "InstanceNormalization", "RMSNormalization")
REQUESTS = {"fp16": ("float16",), "bf16": ("bfloat16",), "int8": ("int8",), "fp8": ("float8_e4m3fn",)}
"""Precision that can be asked for → types of tensors of which one must be there."""


@dataclass(frozen=True, slots=True)
class Lint:
    """One finding.

    Attributes:
        rule: Its name, stable for filters.
        layers: Indices of the layers it is about, the worst first.
        nodes: ONNX nodes of these layers, as far as they are known.
        message: What was seen, and what to do.
        evidence: The figures behind it.
        gain_ms: What could be saved at most, of the layer sum; None where no figure supports one.
        gain_share: The same as a share of the layer sum.
        basis: How the gain was estimated.
    """

    rule: str
    severity: Severity
    layers: tuple[int, ...]
    nodes: tuple[NodeId, ...]
    message: str
    evidence: Mapping[str, JsonValue] = field(default_factory=dict)
    gain_ms: float | None = None
    gain_share: float | None = None
    basis: str = ""


def lints(engine: Engine, *, precision: str | None = None) -> tuple[Lint, ...]:
    """All findings: errors first, then by what could be gained.

    Args:
        precision: What was asked for (`fp16`, `bf16`, `int8`, `fp8`); by default what the engine's facts say.
    """
    found = [*_asked(engine, precision), *(lint for rule in RULES for lint in rule(engine))]
    order = {"error": 0, "warning": 1, "info": 2}
    return tuple(sorted(found, key=lambda lint: (order[lint.severity], -(lint.gain_ms or 0.0))))


def _lint(
    engine: Engine, rule: str, severity: Severity, layers: Iterable[int], message: str, *,
    evidence: dict[str, JsonValue], gain_ms: float | None = None, basis: str = "",
) -> Lint:  # fmt: skip
    indices = tuple(layers)
    by_index = {layer.index: layer for layer in engine.layers}
    nodes = dict.fromkeys(node for index in indices for node in by_index[index].nodes)
    return Lint(rule, severity, indices, tuple(nodes), message, evidence, gain_ms, engine.share(gain_ms), basis)


def _asked(engine: Engine, precision: str | None) -> Iterator[Lint]:
    """A precision was asked for, or several were allowed, and no tensor of the engine has one of them."""
    told = precision or engine.facts.get("precision")
    asked = [p for p in ("fp8", "int8", "fp16", "bf16") if isinstance(told, str) and p in told.lower()]
    types = count_tensor_types(engine.layers)
    total = sum(types.values()) - types.get("unknown", 0)
    if not asked or not total or any(types.get(kind) for p in asked for kind in REQUESTS[p]):
        return
    word = {"fp16": "half", "bf16": "bfloat16"}.get(asked[-1], asked[-1])
    yield _lint(
        engine, "precision_missing", "error", (),
        f"requested {' or '.join(asked).upper()}; 0 of {total} layer tensors are {word}: TensorRT 11 and RTX have no "
        "precision switch, and weakly typed builds may choose FP32; give a typed ONNX model (trt-lab build --precision)",
        evidence={"requested": list(asked), "layer_tensors": total, "types": dict(types)},
    )  # fmt: skip


def _tensor_cores(engine: Engine) -> Iterator[Lint]:
    """A hot convolution or matrix product whose kernel does not use tensor cores."""
    for layer, ms, share in _hot(engine):
        if not is_matrix_layer(layer, engine.view) or on_tensor_cores(layer) is not False:
            continue
        yield _lint(
            engine, "tensor_cores", "warning", [layer.index],
            f"'{layer.name}' takes {share:.0%} of the layer sum and is not on tensor cores "
            f"({layer.precision or 'type not told'}); FP16, BF16, INT8 or TF32 with aligned channels would be",
            evidence={"tactic": layer.tactic, "precision": layer.precision, "average_ms": ms, "share": share},
            gain_ms=ms / 2, basis="half its time: the least that halved traffic gives; compute gains more",
        )  # fmt: skip


def _alignment(engine: Engine) -> Iterator[Lint]:
    """Channels of a warm convolution or matrix product that are no multiple of what tensor cores take.

    Images of up to four channels are left out: there are kernels for them.
    """
    for layer, ms, share in _hot(engine, least=HOT_SHARE / 5):
        channels = aligned_to(layer)
        if channels is None or not is_matrix_layer(layer, engine.view):
            continue
        inner, outer, multiple = channels
        padded = [math.ceil(size / multiple) * multiple for size in (inner, outer)]
        waste = 1 - inner * outer / (padded[0] * padded[1])
        if inner <= IMAGE_CHANNELS or waste < WASTE:
            continue
        yield _lint(
            engine, "alignment", "warning", [layer.index],
            f"'{layer.name}' has {inner} input and {outer} output channels; {layer.precision} tensor cores take "
            f"multiples of {multiple}: {padded[0]} and {padded[1]} cost the same",
            evidence={"in": inner, "out": outer, "multiple": multiple, "average_ms": ms, "share": share},
            gain_ms=ms * waste, basis=f"{waste:.0%} of its time is spent on padding",
        )  # fmt: skip


def _reformat_pairs(engine: Engine) -> Iterator[Lint]:
    """A change of type or layout that is taken back: one behind the other, or both sides of one layer."""
    makers = {t.name: layer for layer in engine.layers for t in layer.outputs}
    for layer in engine.layers:
        if not is_pure_reformat(layer) or not layer.inputs or not layer.outputs:
            continue
        behind = makers.get(layer.inputs[0].name)
        if behind is None or not behind.inputs:
            continue
        first = behind if is_pure_reformat(behind) else makers.get(behind.inputs[0].name)
        if first is None or first is layer or not is_pure_reformat(first) or not first.inputs:
            continue
        before, after = first.inputs[0], layer.outputs[0]
        if before.dtype is None or (before.dtype, before.format) != (after.dtype, after.format):
            continue
        if first.outputs and (before.dtype, before.format) == (first.outputs[0].dtype, first.outputs[0].format):
            continue
        times = [engine.time_of[x.index].average_ms for x in (first, layer) if x.index in engine.time_of]
        if times and not sum(times):
            continue  # both were taken out: TensorRT keeps them as layers that cost nothing
        round_what = f"round '{behind.name}' alone" if first is not behind else "one behind the other"
        yield _lint(
            engine, "reformat_pair", "warning", [first.index, layer.index],
            f"two reformats {round_what}: {before.dtype} to {first.outputs[0].dtype if first.outputs else 'other'} "
            "and back; keep the neighbours in one type and layout",
            evidence={"reformats": [first.name, layer.name], "between": behind.name if first is not behind else None},
            gain_ms=sum(times) if times else None, basis="the time of both reformats",
        )  # fmt: skip


def _reformat_cost(engine: Engine) -> Iterator[Lint]:
    """Reformats that together take a hot share."""
    found = [r for r in reformats(engine) if r.time_ms]
    cost = math.fsum(r.time_ms or 0.0 for r in found)
    total = engine.layer_sum_ms
    if found and total and cost / total >= HOT_SHARE:
        yield _lint(
            engine, "reformat_cost", "warning", [r.index for r in found],
            f"{len(found)} reformats take {cost / total:.0%} of the layer sum; the largest is '{found[0].name}'. Inputs "
            "and outputs in the engine's own type and layout, and fewer changes of precision, save them",
            evidence={"reformats": len(found), "time_ms": cost, "share": cost / total}, gain_ms=cost,
            basis="the time of all reformats",
        )  # fmt: skip


def _quantization(engine: Engine) -> Iterator[Lint]:
    """Q/DQ that stayed a kernel of its own inside the graph."""
    given = {binding.name for binding in engine.bindings if binding.is_input is not False}
    made = {t.name for layer in engine.layers for t in layer.outputs}
    kept: list[tuple[LayerInfo, float | None]] = []
    for layer in engine.layers:
        inner = any(t.name in made and t.name not in given for t in layer.inputs)
        if inner and quantizes(layer, engine.view):
            time = engine.time_of.get(layer.index)
            kept.append((layer, time.average_ms if time else None))
    if not kept:
        return
    kept.sort(key=lambda item: -(item[1] or 0.0))
    times = [ms for _, ms in kept if ms is not None]
    count = (
        "1 Q/DQ layer is a kernel of its own" if len(kept) == 1 else f"{len(kept)} Q/DQ layers are kernels of their own"
    )
    yield _lint(
        engine, "qdq_unfused", "warning", [layer.index for layer, _ in kept],
        f"{count}, the slowest '{kept[0][0].name}': place Q/DQ so that each "
        "quantises the input of an operator that has an INT8 kernel, residual branches included",
        evidence={"layers": len(kept), "time_ms": math.fsum(times) if times else None},
        gain_ms=math.fsum(times) if times else None, basis="the time of these kernels",
    )  # fmt: skip


def _int8_float_output(engine: Engine) -> Iterator[Lint]:
    """INT8 layers that write floats, which the layers behind read at two or four times the size.

    What only goes on to an output of the engine is left out.
    """
    readers: dict[str, list[LayerInfo]] = {}
    for layer in engine.layers:
        for tensor in layer.inputs:
            readers.setdefault(tensor.name, []).append(layer)
    found: list[LayerInfo] = []
    behind: dict[int, LayerInfo] = {}
    extra = 0
    for layer in engine.layers:
        if layer.precision != "int8" or not is_matrix_layer(layer, engine.view):
            continue
        wide = [t for t in layer.outputs if t.dtype in ("float32", "float16")]
        next_layers = [r for t in wide for r in readers.get(t.name, ())]
        if not any(not is_pure_reformat(r) or any(t.name in readers for t in r.outputs) for r in next_layers):
            continue
        found.append(layer)
        behind.update((r.index, r) for r in next_layers if quantizes(r, engine.view) or is_copy(r))
        extra += sum((tensor_bytes(t.dtype, t.shape) or 0) - (tensor_bytes("int8", t.shape) or 0) for t in wide)
    if not found:
        return
    times = [engine.time_of[index].average_ms for index in behind if index in engine.time_of]
    count = "1 INT8 layer writes" if len(found) == 1 else f"{len(found)} INT8 layers write"
    yield _lint(
        engine, "int8_float_output", "warning", [layer.index for layer in found],
        f"{count} floats, first '{found[0].name}': quantise what follows, so that they can write INT8",
        evidence={
            "layers": [x.name for x in found], "behind": [x.name for x in behind.values()], "extra_bytes": extra or None,
        },
        gain_ms=math.fsum(times) if times else None,
        basis="the time of the conversions behind them" if times else "",
    )  # fmt: skip


def _tiny_kernels(engine: Engine) -> Iterator[Lint]:
    """Most kernels are so short that launching them costs as much."""
    timed = [(t.average_ms, t.index) for t in engine.times if t.average_ms > 0 and t.index < len(engine.layers)]
    tiny = sorted((ms, index) for ms, index in timed if ms < TINY_MS)
    if len(tiny) < TINY_LAYERS or len(tiny) * 2 < len(timed):
        return
    total, cost = engine.layer_sum_ms or 0.0, math.fsum(ms for ms, _ in tiny)
    latency = engine.median_latency_ms
    gap = latency - total if latency is not None and latency > total else None
    yield _lint(
        engine, "tiny_kernels", "info", [index for _, index in tiny],
        f"{len(tiny)} of {len(timed)} kernels take less than {TINY_MS * 1000:g} µs each ({cost / total:.0%} of the layer "
        "sum): a CUDA graph, a larger batch or fewer pieces in the model save launches",
        evidence={"kernels": len(tiny), "of": len(timed), "time_ms": cost, "latency_ms": latency}, gain_ms=gap,
        basis="the median latency less the layer sum" if gap is not None else "",
    )  # fmt: skip


def _host_shapes(engine: Engine) -> Iterator[Lint]:
    """Shapes that are computed on the host while the GPU waits."""
    found = [
        layer for layer in engine.layers
        if layer.type == "shape_call" or layer.name.startswith(("copy_d2h", "[ShapeHostToDevice"))
        or layer.type in ("ShapeHostToDevice", "DeviceToShapeHost")
        or any((t.location or "").lower() == "host" for t in (*layer.inputs, *layer.outputs))
    ]  # fmt: skip
    times = [engine.time_of[layer.index].average_ms for layer in found if layer.index in engine.time_of]
    cost = math.fsum(times)
    total = engine.layer_sum_ms
    if found and (not times or (total and cost / total >= 0.01)):
        count = "1 layer computes" if len(found) == 1 else f"{len(found)} layers compute"
        yield _lint(
            engine, "host_shapes", "info", [layer.index for layer in found],
            f"{count} shapes on the host, first '{found[0].name}': fixed sizes where they are known, and constants "
            "instead of Shape, Gather and Concat, take them out",
            evidence={"layers": len(found), "time_ms": cost if times else None},
            gain_ms=cost if times else None, basis="their own time; waiting comes on top" if times else "",
        )  # fmt: skip


def _norm_pieces(engine: Engine) -> Iterator[Lint]:
    """A normalisation, one node or the chain that exporters make of it, that runs as several kernels."""
    if engine.map is None or engine.view is None:
        return
    for nodes in _norms(engine.view):
        places = sorted({index for node in nodes for index in engine.map.computed_in(node)})
        if len(places) < 2:
            continue
        times = [engine.time_of[index].average_ms for index in places if index in engine.time_of]
        gain = math.fsum(times) - max(times) if len(times) == len(places) else None
        kind = engine.view.nodes[nodes[-1]].op_type if len(nodes) == 1 else f"{len(nodes)} nodes of a LayerNorm"
        yield _lint(
            engine, "norm_pieces", "info", places,
            f"'{nodes[-1]}' ({kind}) runs in {len(places)} kernels, which write what lies between to memory",
            evidence={"nodes": list(nodes), "kernels": len(places), "average_ms": math.fsum(times) if times else None},
            gain_ms=gain, basis="all but its longest kernel; these do other nodes' work too" if gain is not None else "",
        )  # fmt: skip


def _norms(view: GraphView) -> Iterator[tuple[NodeId, ...]]:
    """Normalisation nodes, then chains that are one written out; the last node last."""
    yield from ((node,) for node, info in view.nodes.items() if info.op_type in _NORM_OPS)
    yield from norm_chains(view)


RULES: tuple[Callable[[Engine], Iterator[Lint]], ...] = (
    _tensor_cores, _alignment, _reformat_pairs, _reformat_cost, _quantization, _int8_float_output, _tiny_kernels,
    _host_shapes, _norm_pieces,
)  # fmt: skip


def _hot(engine: Engine, least: float = HOT_SHARE) -> Iterator[tuple[LayerInfo, float, float]]:
    """(layer, average ms, share) of timed layers with at least that share, the slowest first."""
    total = engine.layer_sum_ms
    for time in sorted(engine.times, key=lambda t: -t.average_ms):
        if not total or time.average_ms / total < least:
            return
        if time.index < len(engine.layers):
            yield engine.layers[time.index], time.average_ms, time.average_ms / total
