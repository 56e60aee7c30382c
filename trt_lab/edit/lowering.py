"""What a precision plan means for a model: the one description that both realisations are made from.

A low node (float16 or bfloat16) reads its data in the low type and gives it out in the low type. A node kept in
FP32 reads and writes FP32. So each tensor has one type, and a cast stands only where a reader wants the other:

* *down*: a tensor in FP32 (graph input, kept node's output) that low nodes read. They round, and overflow, there.
* *up*: a tensor in the low type that kept nodes read, or that is a graph output (those stay FP32).

Weights and Constant nodes are of no type by themselves: each reader gets what it wants.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import onnx_ir as ir

from trt_lab.edit.inline import Inlined, inline_functions
from trt_lab.edit.opset import Raised, raise_for_bfloat16
from trt_lab.edit.probe import is_probe
from trt_lab.edit.schema import (
    CONTROL_FLOW,
    FIRST_IR_WITH_FREE_INITIALIZERS,
    TYPE_BLIND,
    LowPrecision,
    exempt_input_name,
    positions,
)
from trt_lab.errors import EditError, ModelError
from trt_lab.graph import GraphView
from trt_lab.model import Model
from trt_lab.types import NodeId, NodeInfo, Precision, PrecisionPlan, TensorId

NO_DATA = "has no FP32 data"


class Read(NamedTuple):
    """One reading of a tensor: input `index` of `node`."""

    node: NodeId
    index: int


@dataclass(frozen=True, slots=True)
class NodePrecision:
    """Type in which one node computes.

    Attributes:
        why: For the user.
        forced: FP32 although the plan asks for low precision.
    """

    precision: Precision
    why: str
    forced: bool = False


@dataclass(frozen=True, slots=True)
class Candidate:
    """What may be low in one node, whatever the plan; `reason` says why nothing may."""

    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class Lowering:
    """A plan worked out for a model. Ids are those of `model`, whose local functions are inlined.

    Attributes:
        low: The low type.
        inlined: The model and how its nodes relate to the user's.
        raised: The same model at an opset whose schemas have the low type; node and tensor ids are equal.
        nodes: Precision of every node, nested ones included.
        low_tensors: Tensors computed in the low type, with the node that makes them, in graph order.
        down: FP32 tensor → low readings of it.
        up: Low tensor → FP32 readings of it.
        up_outputs: Low tensors that are graph outputs.
        weights: Initializer or Constant output that low nodes read → their readings.
        shared_weights: Those of `weights` that something else reads in FP32.
    """

    low: LowPrecision
    inlined: Inlined
    raised: Raised
    nodes: Mapping[NodeId, NodePrecision]
    low_tensors: Mapping[TensorId, NodeId] = field(default_factory=dict)
    down: Mapping[TensorId, tuple[Read, ...]] = field(default_factory=dict)
    up: Mapping[TensorId, tuple[Read, ...]] = field(default_factory=dict)
    up_outputs: tuple[TensorId, ...] = ()
    weights: Mapping[TensorId, tuple[Read, ...]] = field(default_factory=dict)
    shared_weights: frozenset[TensorId] = frozenset()

    @property
    def model(self) -> Model:
        """The model with local functions inlined."""
        return self.inlined.model


def lower(model: Model, plan: PrecisionPlan) -> Lowering:
    """Works out a plan whose default is fp16 or bf16.

    Raises:
        EditError: The plan keeps a node that the model does not have.
    """
    low = plan.default
    if low == "fp32":
        raise EditError("a plan with default fp32 lowers nothing; give fp16 or bf16")
    inlined = inline_functions(model)
    raised = raise_for_bfloat16(inlined.model) if low == "bf16" else Raised(inlined.model)
    kept = _kept_nodes(model, inlined, plan)
    view = GraphView.of(raised.model)
    possible = candidates(raised.model, low)
    low_nodes: dict[NodeId, Candidate] = {}
    nodes: dict[NodeId, NodePrecision] = {}
    for node_id, info in view.nodes.items():
        candidate = possible[node_id]
        if node_id in kept:
            nodes[node_id] = NodePrecision("fp32", "kept in FP32 by the plan")
        elif candidate.reason:
            nodes[node_id] = NodePrecision("fp32", candidate.reason, info.op_type != "Constant")
        else:
            nodes[node_id] = NodePrecision(low, f"the plan's default is {low}")
            low_nodes[node_id] = candidate
    return _place_casts(view, inlined, raised, nodes, low_nodes, low)


def _kept_nodes(model: Model, inlined: Inlined, plan: PrecisionPlan) -> set[NodeId]:
    """Ids in the inlined model of the nodes to keep; keeping a function call keeps all in it."""
    original = GraphView.of(model)
    asked = set(plan.keep_fp32)
    for node in plan.keep_fp32:
        if node not in original.nodes:
            try:
                original.node(node)
            except ModelError as error:
                raise EditError(f"the plan keeps a node that is not there: {error}") from error
    kept: set[NodeId] = set()
    for node in GraphView.of(inlined.model).nodes:
        source: NodeId | None = inlined.origin.get(node, node)
        while source is not None:
            if source in asked:
                kept.add(node)
                break
            info = original.nodes.get(source)
            source = original.graphs[info.graph].node if info is not None else None
    return kept


# --- what may be low, whatever the plan -------------------------------------------------


def candidates(model: Model, low: LowPrecision) -> Mapping[NodeId, Candidate]:
    """For every node what may be low in it; worked out once a model."""
    key = f"lowering.{low}"
    known = model.memo.get(key)
    if not isinstance(known, dict):
        view = GraphView.of(model)
        known = {node_id: _candidate(view, info, low) for node_id, info in view.nodes.items()}
        for node_id in _size_makers(view, known):
            known[node_id] = Candidate(reason="computes only sizes (scales of a Resize), which stay FP32")
        model.memo[key] = known
    return known


def _candidate(view: GraphView, info: NodeInfo, low: LowPrecision) -> Candidate:
    if info.graph:
        return Candidate(reason=f"inside the subgraph '{info.graph}': subgraphs compute in FP32")
    if info.subgraphs or (info.op_type in CONTROL_FLOW and not info.domain):
        return Candidate(reason="control flow: its subgraphs compute in FP32")
    if not info.domain and info.op_type == "Constant":
        return Candidate(reason="a constant: each reader gets it in its own type")
    if not info.domain and info.op_type in TYPE_BLIND:
        return Candidate(reason="reads no numbers, only sizes")
    if is_probe(view.ir_node(info.id)):
        return Candidate(reason="a probe: shows its tensor as it is")
    kinds = [(t, view.tensors[t].dtype) for t in (*info.inputs, *info.outputs) if t is not None]
    unknown = next((tensor for tensor, dtype in kinds if dtype is None), None)
    if unknown is None and all(dtype != "float32" for _, dtype in kinds):
        return Candidate(reason=NO_DATA)
    found = positions(info.op_type, info.domain, view.model.opset.get(info.domain, 1), low)
    if isinstance(found, str):
        return Candidate(reason=found)
    if unknown is not None:
        return Candidate(reason=f"the type of its tensor '{unknown}' is not known")
    reads = tuple(i for i, t in enumerate(info.inputs) if t and view.tensors[t].dtype == "float32" and found.input(i))
    writes = tuple(
        i for i, t in enumerate(info.outputs) if t and view.tensors[t].dtype == "float32" and found.output(i)
    )
    if not reads and not writes:
        return Candidate(reason=f"its FP32 inputs are sizes or scales, for which {info.op_type} takes FP32 only")
    return Candidate(reads, writes)


def _size_makers(view: GraphView, candidates: Mapping[NodeId, Candidate]) -> set[NodeId]:
    """Nodes whose float outputs are read only where sizes are read: lowering them would change shapes."""
    makers: set[NodeId] = set()
    for node_id in reversed(view.graphs[""].nodes):
        candidate = candidates[node_id]
        if candidate.reason or not candidate.writes:
            continue
        info = view.nodes[node_id]
        outputs = [info.outputs[i] for i in candidate.writes]
        if all(_is_size(view, output, makers) for output in outputs if output is not None):
            makers.add(node_id)
    return makers


def _is_size(view: GraphView, tensor: TensorId, makers: set[NodeId]) -> bool:
    info = view.tensors[tensor]
    if info.is_output or not info.consumers:
        return False
    for node_id in info.consumers:
        reader = view.nodes[node_id]
        if node_id in makers:
            continue
        places = [i for i, read in enumerate(reader.inputs) if read == tensor]
        if reader.graph or any(exempt_input_name(reader.op_type, reader.domain, i) is None for i in places):
            return False
    return True


# --- where casts stand -------------------------------------------------------------------


def _place_casts(
    view: GraphView,
    inlined: Inlined,
    raised: Raised,
    nodes: dict[NodeId, NodePrecision],
    low_nodes: Mapping[NodeId, Candidate],
    low: LowPrecision,
) -> Lowering:
    low_tensors: dict[TensorId, NodeId] = {}
    wanted: dict[TensorId, list[Read]] = {}
    others: dict[TensorId, list[Read]] = {}
    for node_id in view.nodes:
        info = view.nodes[node_id]
        candidate = low_nodes.get(node_id)
        for read, tensor in _reads(info):
            wants_low = candidate is not None and read.index in candidate.reads
            (wanted if wants_low else others).setdefault(tensor, []).append(read)
        if candidate is not None:
            low_tensors.update((t, node_id) for i in candidate.writes if (t := info.outputs[i]) is not None)
        elif _follows(view, info) and info.inputs[0] in low_tensors:
            nodes[node_id] = NodePrecision(low, nodes[node_id].why)
            low_tensors.update((output, node_id) for output in info.outputs if output and _is_float(view, output))
    up = {
        tensor: blunt
        for tensor in low_tensors
        if (blunt := tuple(read for read in others.get(tensor, ()) if not _follows(view, view.nodes[read.node])))
    }
    weights = {tensor: tuple(reads) for tensor, reads in wanted.items() if is_weight(view, tensor)}
    for tensor in weights:
        producer = view.tensors[tensor].producer
        if producer is not None and tensor not in others and not view.tensors[tensor].is_output:
            nodes[producer] = NodePrecision(low, nodes[producer].why)
    return Lowering(
        low=low,
        inlined=inlined,
        raised=raised,
        nodes=nodes,
        low_tensors=low_tensors,
        down={t: tuple(r) for t, r in wanted.items() if t not in low_tensors and t not in weights},
        up=up,
        up_outputs=tuple(tensor for tensor in low_tensors if view.tensors[tensor].is_output),
        weights=weights,
        shared_weights=frozenset(t for t in weights if t in others or view.tensors[t].is_output),
    )


def _reads(info: NodeInfo) -> Iterator[tuple[Read, TensorId]]:
    for index, tensor in enumerate(info.inputs):
        if tensor is not None:
            yield Read(info.id, index), tensor


def _is_float(view: GraphView, tensor: TensorId) -> bool:
    return view.tensors[tensor].dtype == "float32"


def _follows(view: GraphView, info: NodeInfo) -> bool:
    """Whether a node takes its input in whatever type it has: Shape, Size, a probe."""
    if info.graph:
        return False
    return (info.op_type in TYPE_BLIND and not info.domain) or is_probe(view.ir_node(info.id))


def is_weight(view: GraphView, tensor: TensorId) -> bool:
    """Whether a tensor of the main graph has fixed values: an initializer that cannot be fed, or a Constant."""
    info = view.tensors[tensor]
    if info.graph:
        return False
    if info.role == "initializer":
        return not info.overridable or (view.model.ir.ir_version or 0) < FIRST_IR_WITH_FREE_INITIALIZERS
    if info.producer is None:
        return False
    producer = view.nodes[info.producer]
    return producer.op_type == "Constant" and not producer.domain


def constant_tensor(value: ir.Value) -> ir.TensorProtocol | None:
    """Tensor of an initializer or of a Constant node's output; None when its values are not there."""
    if value.const_value is not None and value.producer() is None:
        return value.const_value
    node = value.producer()
    attribute = node.attributes.get("value") if node is not None else None
    if attribute is not None and not attribute.is_ref():
        return attribute.as_tensor()
    for name in ("value_float", "value_floats"):
        found = node.attributes.get(name) if node is not None else None
        if found is not None and not found.is_ref():
            return ir.tensor(found.value, dtype=ir.DataType.FLOAT)
    return None
