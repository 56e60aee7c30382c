"""The layers of an engine as a graph of their own, so that all that draws a model draws an engine too."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import onnx_ir as ir

from trt_lab.graph.scopes import common_scope, scope_of
from trt_lab.graph.view import GraphView
from trt_lab.model import Model, hold_collection
from trt_lab.types import JsonValue, LayerInfo, LayerTensor, NodeId

_NODES_NAMED = 3
_LONGEST = 70
_PATHS = re.compile(r"[^\s\[{(+,]*/")
"""The path before a name: `/a/b/` of `/a/b/Conv`."""

_OF_MYELIN = re.compile(r"^(proxy_)*_*mye|^__myln?_", re.IGNORECASE)
"""Constants and scratch tensors of Myelin's kernels."""

_FACTS = ("precision", "tactic", "stream")


@dataclass(frozen=True)
class EngineView:
    """Attributes: the graph; `ids` the node of each layer, by `LayerInfo.index`; `indices` the reverse."""

    view: GraphView
    ids: Mapping[int, NodeId]
    indices: Mapping[NodeId, int]


def engine_view(layers: Sequence[LayerInfo], name: str, given: Collection[str] = ()) -> EngineView:
    """A graph with a node for each layer, of the layer's type, in the scope that its ONNX nodes have in common.

    Args:
        layers: At least one, in the engine's order.
        name: What to call the graph.
        given: Names of the engine's own inputs.

    Cases: a tensor that no layer before makes is an input of the graph if the engine is given it, else a weight
    or constant and left out (where `given` is empty, all but Myelin's own). A tensor that several layers write before
    one reads it (a Concat in place) is a tensor for each of them, and its readers read all. A layer with neither inputs nor outputs stands alone.

    Raises:
        ModelError: There are no layers.
    """
    values: dict[str, list[ir.Value]] = {}
    inputs: list[ir.Value] = []
    nodes: list[ir.Node] = []
    read: set[ir.Value] = set()
    for layer in layers:
        for tensor in layer.inputs:
            if tensor.name not in values and _is_given(tensor, given):
                values[tensor.name] = [_value(tensor)]
                inputs += values[tensor.name]
        taken = [value for tensor in layer.inputs for value in values.get(tensor.name, ())]
        read.update(taken)
        made = [_value(tensor) for tensor in layer.outputs]
        nodes.append(_node(layer, taken, made, left_out=sum(tensor.name not in values for tensor in layer.inputs)))
        for tensor, value in zip(layer.outputs, made, strict=True):
            parts = values.setdefault(tensor.name, [])
            if not read.isdisjoint(parts):
                parts = values[tensor.name] = []
            if tensor.name:
                parts.append(value)
    ends = [value for node in nodes for value in node.outputs if value.name and value not in read]
    with hold_collection():
        graph = ir.Graph(inputs, ends, nodes=nodes, name=name, opset_imports={"": 1})
        view = GraphView.of(Model.from_ir(ir.Model(graph, ir_version=10), inferred=True))
    ids = dict(zip((layer.index for layer in layers), view.graphs[""].nodes, strict=True))
    return EngineView(view, ids, {node: index for index, node in ids.items()})


def _is_given(tensor: LayerTensor, given: Collection[str]) -> bool:
    return tensor.name in given if given else bool(tensor.name) and not _OF_MYELIN.match(tensor.name)


def _node(layer: LayerInfo, inputs: Iterable[ir.Value], outputs: Iterable[ir.Value], *, left_out: int) -> ir.Node:
    facts: dict[str, JsonValue] = {"layer": layer.name}
    facts |= {key: value for key in _FACTS if (value := getattr(layer, key)) is not None}
    if layer.nodes:
        facts["ONNX nodes"] = f"{len(layer.nodes)}, known from {layer.nodes_from}"
    if left_out:
        facts["constants read"] = left_out
    return ir.Node(
        "",
        layer.type or "layer",
        list(inputs),
        [ir.AttrString(key, str(value)) for key, value in facts.items()],
        outputs=list(outputs),
        name=_name(layer),
    )


def _name(layer: LayerInfo) -> str:
    """`/scope/12 Conv + Relu`: a name that puts the layer into the scope of its ONNX nodes."""
    if not layer.nodes:
        return f"{layer.index} {_short(layer.name)}"
    scope = scope_of(layer.nodes[0])
    for node in layer.nodes[1:]:
        scope = common_scope(scope, scope_of(node))
    last = [node.rpartition("/")[2] or node for node in layer.nodes]
    more = f" + {len(last) - _NODES_NAMED} more" if len(last) > _NODES_NAMED else ""
    return f"{scope}/{layer.index} {_short(' + '.join(last[:_NODES_NAMED]))}{more}"


def _short(text: str) -> str:
    """A name without the paths in it, at most 70 characters long."""
    bare = _PATHS.sub("", text).replace("/", "∕") or text.replace("/", "∕")
    return bare if len(bare) <= _LONGEST else f"{bare[: _LONGEST // 2]}…{bare[-_LONGEST // 2 + 1 :]}"


def _value(tensor: LayerTensor) -> ir.Value:
    kind = _dtype(tensor.dtype)
    return ir.Value(
        name=tensor.name or None,
        type=ir.TensorType(kind) if kind is not None else None,
        shape=ir.Shape(tensor.shape) if tensor.shape is not None else None,
    )


def _dtype(name: str | None) -> ir.DataType | None:
    """The type of that numpy or ml_dtypes name; None where ONNX has none."""
    if name is None:
        return None
    try:
        return ir.DataType.from_numpy(np.dtype(getattr(ml_dtypes, name, name)))
    except TypeError:
        return None
