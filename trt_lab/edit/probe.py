"""Probes: an Identity node behind a tensor, its output made a graph output.

onnx-graphsurgeon makes the probe nodes and their typed outputs in a small graph of their own; they are then
grafted onto a copy of the model. A whole model sent through onnx-graphsurgeon loses things: metadata of nodes
and values, quantisation annotations, device configurations, denotations, documentation of nodes (its importer
does not read them), and it copies every weight. Grafting leaves all else as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import onnx
import onnx_graphsurgeon as gs
import onnx_ir as ir

from trt_lab.edit.names import Names
from trt_lab.errors import EditError, ModelError
from trt_lab.graph import GraphView
from trt_lab.model import Model
from trt_lab.types import TensorId, TensorInfo

PROBE_KEY = "trt_lab.probe"
"""Metadata key of a probe node; its value is the id of the probed tensor."""

_OPSET_KEY = "trt_lab.added_opset"
_OPSET_FOR_IDENTITY = 13  # bfloat16 came with it, and every runtime still in use knows it


@dataclass(frozen=True)
class Probed:
    """A model whose tensors can be read.

    Attributes:
        model: The edited model; the very model given when nothing had to change.
        outputs: Tensor → name of the graph output that carries it.
        notes: What the user should know, one line each.
    """

    model: Model
    outputs: Mapping[TensorId, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def is_probe(node: ir.Node) -> bool:
    """Whether a node was put there by `add_probes`."""
    return node.op_type == "Identity" and PROBE_KEY in node.metadata_props


def find_tensor(view: GraphView, name: str) -> TensorInfo:
    """The tensor of the main graph called `name`.

    Raises:
        EditError: The name is empty or unknown, the tensor lies in a subgraph, or it has no known tensor type.
    """
    if not name:
        raise EditError(
            f"{view.model.name}: '' names no tensor (it stands for an omitted optional input); name a tensor that exists"
        )
    try:
        found = view.tensor(name)
    except ModelError as error:
        raise EditError(str(error)) from error
    if found.graph:
        raise EditError(_inside_subgraph(view, found))
    if found.dtype is None:
        kind = view.ir_value(found.id).type
        why = (
            f"it is a {_kind(kind)}, and only tensors can be read"
            if kind is not None
            else "it is no tensor, or its type is not known"
        )
        raise EditError(
            f"{view.model.name}: tensor '{name}' cannot be made an output: {why}; choose a tensor before or behind it"
            + ("" if kind is not None else ", or declare its type in the model's value_info")
        )
    return found


def _kind(kind: ir.TypeProtocol) -> str:
    return {ir.SequenceType: "sequence", ir.OptionalType: "optional", ir.SparseTensorType: "sparse tensor"}.get(
        type(kind), "value without a known type"
    )


def _inside_subgraph(view: GraphView, found: TensorInfo) -> str:
    """Says why a tensor in a subgraph cannot be made an output, and which tensors near it can."""
    graph = view.graphs[found.graph]
    outer = graph
    while outer.node is not None and view.nodes[outer.node].graph:
        outer = view.graphs[view.nodes[outer.node].graph]
    near = "" if outer.node is None else ", ".join(f"'{t}'" for t in view.nodes[outer.node].outputs[:3] if t)
    return (
        f"{view.model.name}: tensor '{found.id}' lies inside the subgraph '{found.graph}' of node '{graph.node}'; "
        "only tensors of the main graph can be graph outputs, for a subgraph runs zero times, once or often. "
        + (f"Probe what node '{outer.node}' gives out instead: {near}" if near else "Probe a tensor outside it instead")
    )


def add_probes(model: Model, tensors: Iterable[str]) -> Probed:
    """Puts a probe behind each tensor.

    Cases: an input, initializer or inner tensor gets an Identity at the end of the graph (so no other node
    changes place or id) whose fresh output comes after the existing outputs; a tensor that is an output
    already stays as it is; a tensor asked for or probed twice has one probe. Types and symbolic sizes are
    those of the tensor; of unknown rank, the output has a type and no shape. Other readers still read the
    tensor itself. Shapes that the file declares wrongly are replaced by the inferred ones.

    Args:
        model: Stays equal.
        tensors: Ids of tensors of the main graph.

    Raises:
        EditError: No such tensor, '', a tensor inside a subgraph, or no tensor at all (a sequence).
    """
    view = GraphView.of(model)
    found = [find_tensor(view, name) for name in dict.fromkeys(tensors)]
    outputs: dict[TensorId, str] = {info.id: info.name for info in found if info.is_output}
    for node in model.ir.graph:
        if is_probe(node) and node.outputs[0].is_graph_output():
            probed, name = TensorId(node.metadata_props[PROBE_KEY]), node.outputs[0].name or ""
            if any(info.id == probed for info in found):
                outputs.setdefault(probed, name)
    wanted = [info for info in found if info.id not in outputs]
    ordered = {info.id: info for info in found}
    if not wanted:
        return Probed(model, {tensor: outputs[tensor] for tensor in ordered})
    copy = model.clone_ir()
    added = _graft(copy, view, wanted)
    outputs.update(added)
    return Probed(
        Model.from_ir(copy, path=model.path, notes=model.notes),
        {tensor: outputs[tensor] for tensor in ordered},
        (*_stale_notes(view), *_rankless_notes(wanted)),
    )


def _graft(copy: ir.Model, view: GraphView, wanted: list[TensorInfo]) -> dict[TensorId, str]:
    """Adds one probe a tensor to `copy`; returns the names of the outputs."""
    graph = copy.graph
    adds_opset = "" not in graph.opset_imports
    if adds_opset:
        graph.opset_imports[""] = _OPSET_FOR_IDENTITY
    values = {value.name: value for value in (*graph.inputs, *graph.initializers.values())}
    values.update((value.name, value) for node in graph for value in node.outputs if value.name)
    fragment = _make_fragment(wanted, Names.of(view), graph.opset_imports[""])
    outputs: dict[TensorId, str] = {}
    for info, node, output in zip(wanted, fragment.graph.node, fragment.graph.output, strict=True):
        made = ir.serde.deserialize_value_info_proto(output, None)
        metadata = {PROBE_KEY: str(info.id)} | ({_OPSET_KEY: "1"} if adds_opset else {})
        graph.append(
            ir.Node(
                node.domain, node.op_type, [values[info.name]], name=node.name, outputs=[made], metadata_props=metadata
            )
        )
        graph.outputs.append(made)
        outputs[info.id] = output.name
    return outputs


def _make_fragment(wanted: list[TensorInfo], names: Names, opset: int) -> onnx.ModelProto:
    """A model of nothing but the probes, made by onnx-graphsurgeon."""
    sources: list[gs.Tensor] = []
    probes: list[gs.Tensor] = []
    nodes: list[gs.Node] = []
    for info in wanted:
        sources.append(_variable(info, info.name))
        probes.append(_variable(info, names.tensor(f"{info.name}_probe")))
        name = names.node(f"{info.name}_probe")
        nodes.append(gs.Node("Identity", name, inputs=[sources[-1]], outputs=[probes[-1]]))
    return gs.export_onnx(gs.Graph(nodes, inputs=sources, outputs=probes, opset=opset))


def _variable(info: TensorInfo, name: str) -> gs.Variable:
    """A tensor of the type and shape of `info`; a shape of None is an unknown rank, a size of None an unknown size."""
    assert info.dtype is not None  # find_tensor saw to it
    shape = None if info.shape is None else list(info.shape)
    # The annotation of `shape` leaves out None, which the exporter writes as an unknown size.
    return gs.Variable(name, int(_DTYPES[info.dtype]), shape)  # pyright: ignore[reportArgumentType]


_DTYPES = {
    "string" if dtype == ir.DataType.STRING else dtype.numpy().name: dtype
    for dtype in ir.DataType
    if dtype != ir.DataType.UNDEFINED
}


def _stale_notes(view: GraphView) -> list[str]:
    return [
        f"the shape {list(info.declared_shape)} that the file declares for '{info.name}' was dropped: "
        f"it is {list(info.shape or ())}"
        for info in view.tensors.values()
        if info.declared_shape is not None
    ]


def _rankless_notes(wanted: list[TensorInfo]) -> list[str]:
    """onnx.checker wants a shape on every graph output, but a rank that nobody knows must not be made up."""
    return [
        f"the rank of '{info.name}' is not known, so its output has a type and no shape: runtimes take that, onnx.checker does not"
        for info in wanted
        if info.shape is None
    ]


def remove_probes(model: Model) -> Model:
    """Takes all probes away again; the very model given when there are none.

    The result equals (by `Model.hash`) the model that `add_probes` was given.
    """
    if not any(is_probe(node) for node in model.ir.graph):
        return model
    copy = model.clone_ir()
    graph = copy.graph
    for node in [node for node in graph if is_probe(node)]:
        output, source = node.outputs[0], node.inputs[0]
        kept = [value for value in graph.outputs if value is not output]
        graph.outputs.clear()
        graph.outputs.extend(kept)
        if source is not None:
            output.replace_all_uses_with(source)
        if node.metadata_props.get(_OPSET_KEY):
            graph.opset_imports.pop("", None)
        graph.remove(node, safe=True)
    return Model.from_ir(copy, path=model.path, notes=model.notes)
