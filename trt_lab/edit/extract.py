"""Parts of a model as models of their own: some of its nodes, or a single one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper

from trt_lab.edit.lowering import constant_tensor, is_weight
from trt_lab.errors import EditError
from trt_lab.graph import GraphView
from trt_lab.model import Model
from trt_lab.types import NodeId, NodeInfo, TensorId

Kind = tuple[str, np.dtype]
"""`tensor` or `sequence`, and the type of the elements."""


@dataclass(frozen=True)
class Extracted:
    """A part of a model.

    Attributes:
        model: Nodes, tensors and weights are called as before; what nobody reads is left out.
        inputs: Tensors that must be fed, in graph order: those that the left-out nodes made, and inputs.
        outputs: Tensors given out.
        notes: What was done, one line each.
    """

    model: Model
    inputs: tuple[TensorId, ...]
    outputs: tuple[TensorId, ...]
    notes: tuple[str, ...] = ()


def read_tensors(info: NodeInfo) -> tuple[TensorId, ...]:
    """Tensors that a node reads, those read inside its subgraphs included; each once. Omitted inputs are none."""
    return tuple(dict.fromkeys(t for t in (*info.inputs, *info.captures) if t))


def boundary(view: GraphView, nodes: Collection[NodeId]) -> tuple[TensorId, ...]:
    """Tensors that `nodes` of the main graph read and do not make, in graph order; fixed weights are left out."""
    made = {t for node in nodes for t in view.nodes[node].outputs if t}
    read = {t for node in nodes for t in read_tensors(view.nodes[node])}
    return tuple(sorted((t for t in read - made if not is_weight(view, t)), key=view.order))


def extract(
    model: Model,
    nodes: Collection[NodeId],
    *,
    outputs: Sequence[TensorId] = (),
    shapes: Mapping[TensorId, tuple[int, ...]] | None = None,
) -> Extracted:
    """Cuts `nodes` out of the main graph.

    An omitted optional input stays omitted: it is no tensor, so it becomes no input. Constant nodes that are
    read come along. An initializer that the file also lists as an input stays a weight.

    Args:
        model: Stays equal.
        outputs: Tensors to give out; default those of `nodes` that others read or that are outputs of the model.
        shapes: Sizes to freeze the new inputs to.

    Raises:
        EditError: No nodes; a node inside a subgraph; an output that none of the nodes makes; an input whose type
            is not known.
    """
    view = GraphView.of(model)
    chosen = _main_nodes(view, nodes)
    made = {t for node in chosen for t in view.nodes[node].outputs if t}
    given_out = tuple(outputs) or _read_outside(view, chosen)
    for tensor in given_out:
        if tensor not in made:
            raise EditError(f"{model.name}: '{tensor}' is made by none of the nodes taken; take the node that makes it")
    inputs = boundary(view, chosen)
    constants = {
        p
        for node in chosen
        for t in read_tensors(view.nodes[node])
        if (p := view.tensors[t].producer) is not None and is_weight(view, t)
    }
    copy = model.clone_ir()
    graph = copy.graph
    ids = dict(zip(graph, view.graphs[""].nodes, strict=True))
    values = _values(graph)
    fed = [_input(view, values[view.tensors[t].name], t, (shapes or {}).get(t)) for t in inputs]
    replaced = {values[view.tensors[t].name]: new for t, new in zip(inputs, fed, strict=True)}
    keep = chosen | constants
    for node in list(graph):
        if ids[node] in keep:
            _reread(node, replaced)
    results = [values[view.tensors[t].name] for t in given_out]
    graph.outputs[:] = results
    graph.inputs[:] = fed
    left_out = [node for node in reversed(list(graph)) if ids[node] not in keep]
    graph.remove(left_out, safe=False)
    _drop_weights(graph)
    frozen = [t for t in inputs if shapes and t in shapes and _is_dynamic(view, t)]
    notes = (f"sizes frozen to those of the sample: {', '.join(frozen)}",) if frozen else ()
    return Extracted(Model.from_ir(copy, path=model.path, notes=model.notes), inputs, given_out, notes)


def one_node(
    view: GraphView, node: NodeId, kinds: Mapping[TensorId, Kind], *, fixed: Collection[TensorId] = ()
) -> onnx.ModelProto:
    """A model of a single node of the main graph, all it reads being inputs, weights too unless they are `fixed`.

    Inputs are called `i0`, `i1`, … by position and outputs `o0`, …, so that equal nodes give equal models; a node
    with subgraphs keeps its names, which its subgraphs use.

    Args:
        kinds: Kind of every tensor that it reads.
        fixed: Weights that become initializers: types that no runtime takes as an input.
    """
    info = view.nodes[node]
    proto = ir.to_proto(view.ir_node(node))
    assert isinstance(proto, onnx.NodeProto)
    proto.ClearField("doc_string")
    proto.ClearField("metadata_props")
    reads = read_tensors(info)
    names = {t: view.tensors[t].name for t in reads}
    if not info.subgraphs:
        proto.name = "n"
        names = {t: f"i{i}" for i, t in enumerate(reads)}
        proto.input[:] = [names[t] if t else "" for t in info.inputs]
        proto.output[:] = [f"o{i}" if t else "" for i, t in enumerate(info.outputs)]
    inputs = [_value_info(names[t], kinds[t]) for t in reads if t not in fixed]
    outputs = [onnx.ValueInfoProto(name=name) for name in proto.output if name]
    graph = helper.make_graph(
        [proto], "node", inputs, outputs, [_weight(view, t, names[t]) for t in reads if t in fixed]
    )
    imports = [helper.make_opsetid(domain, version) for domain, version in view.model.opset.items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=view.model.ir.ir_version or 8)


def _weight(view: GraphView, tensor: TensorId, name: str) -> onnx.TensorProto:
    source = constant_tensor(view.ir_value(tensor))
    if source is None:
        raise EditError(
            f"{view.model.name}: the values of '{tensor}' are not in the file; take a model with its weights"
        )
    proto = ir.to_proto(source)
    assert isinstance(proto, onnx.TensorProto)
    proto.name = name
    return proto


def _value_info(name: str, kind: Kind) -> onnx.ValueInfoProto:
    form, dtype = kind
    number = onnx.TensorProto.STRING if dtype.kind in "OUS" else int(ir.DataType.from_numpy(dtype))
    if form == "sequence":
        return helper.make_tensor_sequence_value_info(name, number, None)
    return helper.make_tensor_value_info(name, number, None)


def _main_nodes(view: GraphView, nodes: Collection[NodeId]) -> set[NodeId]:
    if not nodes:
        raise EditError(f"{view.model.name}: no nodes to take; name at least one")
    for node in nodes:
        info = view.node(node)
        if info.graph:
            raise EditError(
                f"{view.model.name}: '{node}' lies inside the subgraph '{info.graph}'; take the node that holds it"
            )
    return set(nodes)


def _read_outside(view: GraphView, chosen: set[NodeId]) -> tuple[TensorId, ...]:
    found = []
    for node in view.graphs[""].nodes:
        if node not in chosen:
            continue
        for tensor in view.nodes[node].outputs:
            if tensor is None:
                continue
            info = view.tensors[tensor]
            owners = {_main_owner(view, reader) for reader in info.consumers}
            if info.is_output or not owners or owners - chosen:
                found.append(tensor)
    return tuple(found)


def _main_owner(view: GraphView, node: NodeId) -> NodeId:
    while view.nodes[node].graph:
        owner = view.graphs[view.nodes[node].graph].node
        if owner is None:
            return node
        node = owner
    return node


def _values(graph: ir.Graph) -> dict[str, ir.Value]:
    found = {v.name: v for v in (*graph.inputs, *graph.initializers.values()) if v.name}
    found.update((v.name, v) for node in graph for v in node.outputs if v.name)
    return found


def _input(view: GraphView, old: ir.Value, tensor: TensorId, shape: tuple[int, ...] | None) -> ir.Value:
    if old.type is None:
        raise EditError(f"{view.model.name}: the type of '{tensor}' is not known, so it cannot become an input")
    sizes = ir.Shape(shape) if shape is not None else None if old.shape is None else old.shape.copy()
    return ir.Value(name=old.name, type=old.type, shape=sizes)


def _reread(node: ir.Node, replaced: Mapping[ir.Value, ir.Value]) -> None:
    for inner in [node, *_nested(node)]:
        for index, value in enumerate(inner.inputs):
            if value is not None and value in replaced:
                inner.replace_input_with(index, replaced[value])


def _nested(node: ir.Node) -> list[ir.Node]:
    found: list[ir.Node] = []
    for attribute in node.attributes.values():
        graphs = (
            [attribute.as_graph()]
            if attribute.type == ir.AttributeType.GRAPH
            else list(attribute.as_graphs())
            if attribute.type == ir.AttributeType.GRAPHS
            else []
        )
        for graph in graphs:
            found.extend(ir.traversal.RecursiveGraphIterator(graph))
    return found


def _drop_weights(graph: ir.Graph) -> None:
    read = {v for node in graph for inner in [node, *_nested(node)] for v in inner.inputs if v is not None}
    read.update(graph.outputs)
    for name, value in list(graph.initializers.items()):
        if value not in read:
            del graph.initializers[name]


def _is_dynamic(view: GraphView, tensor: TensorId) -> bool:
    shape = view.tensors[tensor].shape
    return shape is None or any(not isinstance(size, int) for size in shape)
