"""A precision plan put into a model: as an FP32 model that rounds (emulation), or as a typed ONNX (engines).

ONNX Runtime on the CPU computes float16 graphs in float32 and drops the casts between neighbours, so a float16
model run there says nothing about float16. Explicit pairs Cast(to=FLOAT16) → Cast(to=FLOAT) are kept by its
optimiser at every level. Emulation rounds after each node; a fused kernel rounds less often, so it is a prediction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trt_lab.edit.lowering import NO_DATA, Lowering, lower
from trt_lab.edit.realise import Draft, write_emulation, write_typed
from trt_lab.edit.schema import TYPE_NAMES
from trt_lab.graph import GraphView
from trt_lab.model import Model
from trt_lab.types import NodeId, PrecisionPlan


@dataclass(frozen=True)
class Realised:
    """A model with a precision plan in it.

    Attributes:
        model: The very model given when the plan asks for FP32. Nodes of its main graph are called by their NodeId.
        origin: Node name in `model` → node of the model given, for each node that the latter does not have:
            casts, and nodes of inlined functions. A cast belongs to the node whose input or output it rounds.
        forced_fp32: Nodes that the plan would lower and that stay FP32, with the reason.
        notes: What the user should know, one line each.
        lowered: Nodes that compute in the low type.
    """

    model: Model
    origin: Mapping[str, NodeId] = field(default_factory=dict)
    forced_fp32: Mapping[NodeId, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    lowered: tuple[NodeId, ...] = ()


def emulate(model: Model, plan: PrecisionPlan) -> Realised:
    """An FP32 model that rounds where an engine of this plan would hold low-precision numbers.

    Behind each float output of a low node, and before low readers of FP32 tensors (graph inputs, outputs of
    kept nodes), stands a Cast pair; weights of low nodes are rounded, once each. Sizes and scales (Resize, shapes,
    quantisers) stay. Inputs, outputs and all tensor names are those of `model`.

    Args:
        model: Stays equal.
        plan: Default type, and the nodes kept in FP32.

    Raises:
        EditError: The plan names a node that is not there; weights are missing; functions cannot be inlined.
    """
    if plan.default == "fp32":
        return Realised(model)
    lowering = lower(model, plan)
    return _realised(write_emulation(lowering), lowering)


def typed(model: Model, plan: PrecisionPlan) -> Realised:
    """A strongly typed ONNX of the plan: low nodes in float16 or bfloat16, casts only where the type changes.

    There is no cast between two kept neighbours, and one cast a tensor and direction. Graph inputs and outputs
    keep their FP32 types, names and order. For bfloat16 the opset is raised to 22 where its schemas want that.

    Args:
        model: Stays equal.
        plan: Default type, and the nodes kept in FP32.

    Raises:
        EditError: The plan names a node that is not there; weights are missing; functions cannot be inlined.
    """
    if plan.default == "fp32":
        return Realised(model)
    lowering = lower(model, plan)
    return _realised(write_typed(lowering), lowering, lowering.raised.notes)


def describe(model: Model, plan: PrecisionPlan) -> dict[NodeId, dict[str, str]]:
    """Precision of every node and why, ready for JSON: `{node: {"precision": "fp16", "why": "…"}}`.

    Local functions are shown by the nodes in them.

    Raises:
        EditError: See `emulate`.
    """
    if plan.default == "fp32":
        reason = {"precision": "fp32", "why": "the plan's default is fp32"}
        return {node: dict(reason) for node in GraphView.of(model).nodes}
    lowering = lower(model, plan)
    return {
        lowering.inlined.origin.get(node, node): {"precision": found.precision, "why": found.why}
        for node, found in lowering.nodes.items()
    }


def _realised(draft: Draft, lowering: Lowering, notes: tuple[str, ...] = ()) -> Realised:
    names = lowering.inlined.origin
    forced = {
        names.get(node, node): found.why
        for node, found in lowering.nodes.items()
        if found.forced and found.precision == "fp32"
    }
    lowered = tuple(names.get(node, node) for node, found in lowering.nodes.items() if found.precision == lowering.low)
    return Realised(draft.finish(), draft.origin, forced, (*lowering.inlined.notes, *notes, *_notes(lowering)), lowered)


def _notes(lowering: Lowering) -> list[str]:
    low = [node for node, found in lowering.nodes.items() if found.precision == lowering.low]
    if low:
        return []
    reasons = [found.why for found in lowering.nodes.values() if found.forced and found.why != NO_DATA]
    return [
        f"asked for {TYPE_NAMES[lowering.low]}, but no node can or may take it, so everything stays FP32"
        + (f": {max(set(reasons), key=reasons.count)}" if reasons else "")
    ]
