"""What became of a precision plan: per-layer constraints of weakly typed networks, and types the engine really has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from trt_lab.backends.tensorrt.network import nodes_of_layer
from trt_lab.backends.tensorrt.versions import Library
from trt_lab.engine_json import count_tensor_types
from trt_lab.engine_nodes import is_reformat
from trt_lab.types import JsonValue, LayerInfo, NodeId, Precision, PrecisionPlan

TYPE_NAMES: dict[Precision, str] = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
_WORDS = {"fp32": "FP32", "fp16": "FP16", "bf16": "BF16"}
_FLOATS = ("float32", "float16", "bfloat16", "tf32")

State = Literal["honoured", "not honoured", "matched nothing", "not applicable"]


@dataclass(frozen=True)
class ConstraintReport:
    """What became of one request.

    Attributes:
        node: The node asked for, as asked.
        layer: Engine layer that tells, where there is one.
        found: The type found there.
    """

    node: NodeId
    asked: Precision
    state: State
    layer: str | None = None
    found: str | None = None
    note: str = ""

    def facts(self) -> dict[str, JsonValue]:
        """For the record."""
        return {
            "node": self.node,
            "asked": self.asked,
            "state": self.state,
            "layer": self.layer,
            "found": self.found,
            "note": self.note,
        }


def constrain(library: Library, network: Any, config: Any, plan: PrecisionPlan) -> None:
    """Asks a weakly typed network for FP32 in the kept nodes, layer by layer.

    Layers that hold integers or booleans are left alone: asking them for FP32 is an error in TensorRT.
    """
    module = library.module
    kept = set(plan.keep_fp32)
    if not kept:
        return
    config.set_flag(module.BuilderFlag.OBEY_PRECISION_CONSTRAINTS)
    untouched = {module.LayerType.SHAPE, module.LayerType.CONSTANT}
    floating = {module.DataType.FLOAT, module.DataType.HALF, getattr(module.DataType, "BF16", module.DataType.HALF)}
    for i in range(network.num_layers):
        layer = network.get_layer(i)
        if layer.type in untouched or not kept.intersection((*nodes_of_layer(layer), layer.name)):
            continue
        outputs = [layer.get_output(k) for k in range(layer.num_outputs)]
        if not all(output.dtype in floating for output in outputs):
            continue
        layer.precision = module.DataType.FLOAT
        for k, output in enumerate(outputs):
            if not output.is_shape_tensor:
                layer.set_output_type(k, module.DataType.FLOAT)


def report_constraints(
    asked: Mapping[NodeId, Precision], layers: Sequence[LayerInfo], known: Iterable[NodeId] | None = None
) -> tuple[ConstraintReport, ...]:
    """Compares requests with the layers of the engine.

    Args:
        asked: Node → type asked for.
        layers: Of the built engine, `nodes` filled.
        known: Nodes of the model; a request for another one matched nothing.
    """
    there = None if known is None else set(known)
    return tuple(_report(node, precision, layers, there) for node, precision in asked.items())


def check_precision(plan: PrecisionPlan, layers: Sequence[LayerInfo]) -> tuple[str, bool]:
    """One line on the types that the engine has, and whether any tensor has the type asked for.

    An FP32 plan is always met. Layers without details cannot tell, and count as met.
    """
    counts = count_tensor_types(layers)
    floats = {
        kind: count for kind, count in counts.items() if kind in _FLOATS or kind.startswith("float8") or kind == "int8"
    }
    total = sum(floats.values())
    wanted = TYPE_NAMES[plan.default]
    word = "half" if plan.default == "fp16" else wanted
    line = f"requested {_WORDS[plan.default]}; {floats.get(wanted, 0)} of {total} layer tensors are {word}"
    if plan.default == "fp32" or total == 0:
        return line, True
    return line, floats.get(wanted, 0) > 0


def _report(node: NodeId, asked: Precision, layers: Sequence[LayerInfo], known: set[NodeId] | None) -> ConstraintReport:
    mine = [layer for layer in layers if node in layer.nodes and not is_reformat(layer)]
    if not mine:
        note = "no such node in the model" if known is not None and node not in known else "no engine layer holds it"
        return ConstraintReport(node, asked, "matched nothing", note=note)
    wanted = TYPE_NAMES[asked]
    types = {kind for layer in mine for kind in _types(layer)}
    if types and not types.intersection(_FLOATS):
        kinds = ", ".join(sorted(types))
        note = "it holds no floating-point tensor"
        return ConstraintReport(node, asked, "not applicable", mine[0].name, kinds, note)
    for layer in mine:
        other = sorted(_types(layer).intersection(_FLOATS) - {wanted})
        if other:
            return ConstraintReport(node, asked, "not honoured", layer.name, ", ".join(other))
    return ConstraintReport(node, asked, "honoured", mine[0].name, wanted)


def _types(layer: LayerInfo) -> set[str]:
    """Types that a layer computes in, reads and writes."""
    kinds = (layer.precision, *(tensor.dtype for tensor in (*layer.inputs, *layer.outputs)))
    return {kind for kind in kinds if kind is not None}
