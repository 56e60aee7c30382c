"""Why a node is in no layer of an engine, and why a layer has no node: what the graph and the layers tell about it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from trt_lab.edit.schema import RANDOM
from trt_lab.engine_nodes import is_reformat
from trt_lab.graph.view import GraphView
from trt_lab.types import LayerInfo, NodeId, NodeInfo, TensorId

ReasonKind = Literal[
    "constant", "shape", "no_op", "data_movement", "quantization", "weights", "dead", "holder",
    "reformat", "host", "sync", "made_up", "foreign", "not_told",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something has no link.

    Attributes:
        kind: For filters; `not_told` is the only one that explains nothing.
        text: For people.
        folded: The node needs no kernel of its own, so it is accounted for.
    """

    kind: ReasonKind
    text: str
    folded: bool = True


_NOT_TOLD = Reason("not_told", "no layer names it, and the graph does not tell why", folded=False)
_MOVES_DATA = (
    "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Slice", "Split", "Concat", "Expand", "Tile", "Pad",
    "Gather", "DepthToSpace", "SpaceToDepth",
)  # fmt: skip
_KEEPS_ALL = ("Identity", "Dropout")
_VIEWS = ("Reshape", "Squeeze", "Unsqueeze", "Flatten", "Expand", "Transpose", "Cast", "Pad", "Slice", "Concat")
_LINEAR = ("Conv", "ConvTranspose", "Gemm", "MatMul")
_SCALES = ("BatchNormalization", "Mul", "Div", "Add", "Sub")
_SYNC = re.compile(r"^\[?(?:trainStation\d*|signal|wait)\b", re.IGNORECASE)
_MADE_UP = re.compile(r"^(?:__my[el]|\(Unnamed Layer|ONNXTRT_)")


@dataclass(frozen=True)
class Fate:
    """What becomes of the values of a graph before any kernel runs.

    Attributes:
        constant: Tensors known while building: initializers and all that is computed from them alone.
        shapes: Tensors computed from shapes alone: known once the inputs' shapes are.
        alive: Nodes on which an output depends.
    """

    constant: frozenset[TensorId]
    shapes: frozenset[TensorId]
    alive: frozenset[NodeId]

    @classmethod
    def of(cls, view: GraphView) -> Fate:
        """Walks the graph once forwards and once backwards: O(nodes + edges)."""
        constant = {t for t, info in view.tensors.items() if info.role == "initializer" and not info.overridable}
        shapes: set[TensorId] = set()
        for node in view.nodes.values():
            reads = [t for t in (*node.inputs, *node.captures) if t]
            made = [t for t in node.outputs if t]
            if node.op_type in RANDOM or node.subgraphs:
                continue
            if all(t in constant for t in reads):
                constant.update(made)
            elif node.op_type in ("Shape", "Size") or all(t in constant or t in shapes for t in reads):
                shapes.update(made)
        return cls(frozenset(constant), frozenset(shapes), frozenset(_alive(view)))


def _alive(view: GraphView) -> set[NodeId]:
    found: set[NodeId] = set()
    waiting = [t for graph in view.graphs.values() for t in graph.outputs]
    while waiting:
        made_by = view.tensors[waiting.pop()].producer
        if made_by is None or made_by in found:
            continue
        found.add(made_by)
        node = view.nodes[made_by]
        waiting += [t for t in (*node.inputs, *node.captures) if t]
    return found


def explain_node(node: NodeInfo, view: GraphView, fate: Fate, mapped: Collection[NodeId]) -> Reason:
    """Why no layer names `node`.

    Cases, first that holds: nothing reads it; it is constant; it is shape arithmetic; it changes nothing; it holds
    subgraphs whose nodes are layers; it quantises; its constant went into the weights of the layer before it; it only
    moves data. Else it is not told.

    Args:
        fate: Of the same graph.
        mapped: Nodes that have a layer.
    """
    made = [t for t in node.outputs if t]
    if node.id not in fate.alive:
        return Reason("dead", "no output depends on it, so it was removed")
    if node.op_type == "Constant" or (made and all(t in fate.constant for t in made)):
        return Reason("constant", "constant: computed while building")
    if made and all(t in fate.shapes for t in made):
        return Reason("shape", "shape arithmetic: computed with the shapes, by no kernel")
    if _changes_nothing(node, view):
        return Reason("no_op", f"no-op: this {node.op_type} changes nothing")
    if node.subgraphs and any(view.nodes[n].graph.startswith(node.subgraphs) for n in mapped):
        return Reason("holder", "its subgraphs' nodes are layers")
    if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
        return Reason("quantization", "taken into the kernels around it, which compute in the quantised type")
    before = [view.tensors[t].producer for t in node.inputs if t and t not in fate.constant]
    if node.op_type in _SCALES and len(before) == 1 and before[0] is not None and before[0] in mapped:
        ahead = view.nodes[before[0]]
        if ahead.op_type in _LINEAR:
            return Reason("weights", f"folded into the weights of '{ahead.id}'")
    if node.op_type in _MOVES_DATA:
        return Reason("data_movement", "only moves data: the kernels around it read and write in its order")
    return _NOT_TOLD


def _changes_nothing(node: NodeInfo, view: GraphView) -> bool:
    """Identity and the like, and nodes whose output has the type and the whole shape of their input."""
    if node.op_type in _KEEPS_ALL:
        return True
    if node.op_type not in _VIEWS or not node.inputs or not node.inputs[0] or not node.outputs[0]:
        return False
    before, after = view.tensors[node.inputs[0]], view.tensors[node.outputs[0]]
    if node.op_type == "Cast":
        return before.dtype is not None and before.dtype == after.dtype
    if node.op_type == "Transpose":
        order = [part.strip() for part in node.attributes.get("perm", "").strip("[]()").split(",") if part.strip()]
        return bool(order) and order == [str(i) for i in range(len(order))]
    known = before.shape is not None and all(isinstance(size, int) for size in before.shape)
    return known and before.shape == after.shape


def explain_layer(layer: LayerInfo, constants: Collection[str], *, detailed: bool, known: bool) -> Reason:
    """Why a layer has no node.

    Args:
        constants: Names of tensors that are constant: initializers, and outputs of layers of type Constant.
        detailed: Whether the engine told more than names.
        known: Whether the names were checked against a model.
    """
    if layer.type == "Constant":
        return Reason("constant", "holds a constant that no node made")
    if is_reformat(layer):
        return Reason("reformat", "changes type or layout of a tensor between layers")
    if layer.type in ("signal", "wait", "trainStation", "TrainStation") or _SYNC.match(layer.name):
        return Reason("sync", "keeps streams and host in step; computes nothing")
    if layer.type == "shape_call":
        return Reason("host", "computes shapes on the host for the kernels behind it")
    if layer.inputs and all(t.name in constants for t in layer.inputs):
        return Reason("constant", f"copies the constant {layer.inputs[0].name}")
    if not detailed:
        return Reason("not_told", "names no node, and the engine tells names only", folded=False)
    if layer.attributes.get("Metadata") and known:
        return Reason("foreign", "names nodes that this model does not have", folded=False)
    if _MADE_UP.match(layer.name):
        return Reason("made_up", "made by the builder; it names no node", folded=False)
    return Reason("not_told", "names no node of the model" if known else "names no node", folded=False)


def constant_names(layers: Sequence[LayerInfo], initializers: Mapping[str, object] | Collection[str]) -> frozenset[str]:
    """Tensors that hold constants: initializers, what Constant layers hold, and copies of these."""
    names = set(initializers)
    for layer in layers:
        outputs = [t.name for t in layer.outputs]
        if layer.type == "Constant" or (layer.inputs and all(t.name in names for t in layer.inputs)):
            names.update(outputs)
    return frozenset(names)
