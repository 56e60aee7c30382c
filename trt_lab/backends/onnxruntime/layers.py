"""Layers of an ONNX Runtime engine: the optimised graph it writes out, each node joined to the nodes of the model.

ONNX Runtime keeps no record of what it fused, so a layer is followed from the tensors it makes back to those it
reads, in the graph that was given. Layouts changed for convolutions (the `nchwc` domain) rename tensors; those
names are made out first.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from trt_lab.graph import GraphView
from trt_lab.model.read import parse
from trt_lab.types import JsonValue, LayerInfo, LayerTensor, NodeId, Precision, TensorId

if TYPE_CHECKING:
    import onnx

_NCHWC = "_nchwc"
_FREE_CAST = "InsertedPrecisionFreeCast_"
"""ONNX Runtime computes float16 in float32 on the CPU; tensor and cast that it puts in are called so."""

_FLOAT, _INT, _STRING, _GRAPH, _FLOATS, _INTS, _STRINGS, _GRAPHS = 1, 2, 3, 5, 6, 7, 8, 10
_LOW_NAMES: dict[Precision, str] = {"fp16": "float16 (emulated)", "bf16": "bfloat16 (emulated)"}
_FUSION = re.compile(r"/\w+Fusion/?$")
_SUM_INPUT = 3
"""Index of the tensor that a fused convolution adds to its result."""


@dataclass(frozen=True)
class Given:
    """The graph that ONNX Runtime was given, and how it comes from the user's model.

    Attributes:
        view: Of the graph given; every node's name is its id.
        origin: Id in `view` → the user's node, where they differ.
        lowered: The user's nodes whose results are rounded.
        precision: Type they are rounded to.
    """

    view: GraphView
    origin: Mapping[str, NodeId] = field(default_factory=dict)
    lowered: frozenset[NodeId] = frozenset()
    precision: Precision = "fp32"

    def user_nodes(self, nodes: Iterable[NodeId]) -> tuple[NodeId, ...]:
        """The user's nodes behind nodes of the graph given, each once, in order."""
        return tuple(dict.fromkeys(self.origin.get(node, node) for node in nodes))


@dataclass(frozen=True)
class Layers:
    """What the engine consists of.

    Attributes:
        layers: In the order of the file that ONNX Runtime wrote; layers of a nested graph after their owner.
        folded: The user's nodes that were computed once, while building.
        removed: Those that the optimiser took out and that no layer stands for.
        notes: What the user should know, one line each.
        spellings: The name each layer has in the engine, "" when it has none.
    """

    layers: tuple[LayerInfo, ...]
    folded: tuple[NodeId, ...]
    removed: tuple[NodeId, ...]
    spellings: tuple[str, ...]
    notes: tuple[str, ...] = ()


@dataclass
class _Found:
    node: onnx.NodeProto
    path: str
    tensors: Mapping[str, TensorId]
    nodes: tuple[NodeId, ...] = ()
    source: Literal["metadata", "name", "tensors", "none"] = "none"


def read_layers(data: bytes, given: Given) -> Layers:
    """Reads the optimised model.

    Args:
        data: The file that ONNX Runtime wrote.
        given: What it was written from.

    Raises:
        ModelError: It is not an ONNX file.
    """
    proto = parse(data, "the optimised model")
    reader = _Reader(given.view)
    found = list(reader.graph(proto.graph, "", {}))
    infos = tuple(_info(index, item, given) for index, item in enumerate(found))
    mapped = {node for item in found for node in item.nodes}
    covered = set(given.user_nodes(mapped))
    rest = [node for node in given.view.nodes if node not in mapped]
    folded = given.user_nodes(node for node in rest if node in reader.constants)
    removed = given.user_nodes(node for node in rest if node not in reader.constants)
    return Layers(
        layers=infos,
        folded=tuple(node for node in folded if node not in covered),
        removed=tuple(node for node in removed if node not in covered),
        spellings=tuple(item.node.name for item in found),
        notes=_notes(found),
    )


def _notes(found: Sequence[_Found]) -> tuple[str, ...]:
    widened = sum(
        any(name.startswith(_FREE_CAST) for name in item.node.input) for item in found if not _is_inserted(item.node)
    )
    if not widened:
        return ()
    note = (
        f"{widened} layers of float16 are computed in float32: ONNX Runtime has no such kernels on the CPU, so this run "
        "says nothing about low precision; give an FP32 model and ask for precision fp16"
    )
    return (note,)


class _Reader:
    """Walks the optimised graph beside the graph given."""

    def __init__(self, view: GraphView) -> None:
        self.view = view
        self.constants = _constants(view)
        self._rank = {node: rank for rank, node in enumerate(view.nodes)}
        self._names: dict[str, dict[str, TensorId]] = {}
        for tensor in view.tensors.values():
            self._names.setdefault(tensor.graph, {})[tensor.name] = tensor.id

    def graph(self, graph: onnx.GraphProto, path: str, outer: Mapping[str, TensorId]) -> Iterator[_Found]:
        """All layers of one graph, those of nested graphs behind their owner."""
        names = ChainMap(self._names.get(path, {}), dict(outer))
        known = _aliases(graph.node, names, self.view)
        resolved = {t: names.get(t) or known.get(t) for node in graph.node for t in (*node.input, *node.output) if t}
        tensors = {name: tensor for name, tensor in resolved.items() if tensor is not None}
        made = {tensors[t] for node in graph.node for t in node.output if t in tensors}
        items = [self._match(_Found(node, path, tensors), made) for node in graph.node]
        _match_for_readers(items)
        for item in items:
            yield item
            for name, body in _bodies(item.node):
                inner = self._inner_path(item, name)
                if inner is not None:
                    yield from self.graph(body, inner, names)

    def _inner_path(self, item: _Found, attribute: str) -> str | None:
        """Path in the graph given of a nested graph of the optimised one."""
        for node in item.nodes:
            for path in self.view.nodes[node].subgraphs:
                if self.view.graphs[path].attribute == attribute:
                    return path
        return None

    def _match(self, item: _Found, made: set[TensorId]) -> _Found:
        """Finds the nodes of one layer."""
        node, tensors = item.node, item.tensors
        outputs = [tensors[t] for t in node.output if t in tensors]
        if _is_inserted(node):
            producer = self.view.tensors[outputs[0]].producer if outputs else None
            if not _serves_reader(node) and producer is not None:
                item.nodes, item.source = (producer,), "tensors"
            return item
        stop = {tensors[t] for t in node.input if t in tensors} | (made - set(outputs))
        walked = self._walk(outputs, stop)
        own = NodeId(node.name)
        if own in self.view.nodes and walked in ((), (own,)):
            item.nodes, item.source = (own,), "name"
        elif walked:
            item.nodes, item.source = walked, "tensors"
        return item

    def _walk(self, outputs: Iterable[TensorId], stop: set[TensorId]) -> tuple[NodeId, ...]:
        """Nodes on all ways from `outputs` back to `stop`; constants are not followed."""
        view = self.view
        found: set[NodeId] = set()
        waiting = [producer for tensor in outputs if (producer := view.tensors[tensor].producer) is not None]
        while waiting:
            current = waiting.pop()
            if current in found:
                continue
            found.add(current)
            node = view.nodes[current]
            for tensor in (*node.inputs, *node.captures):
                producer = None if tensor is None or tensor in stop else view.tensors[tensor].producer
                if producer is not None and producer not in self.constants and view.nodes[producer].graph == node.graph:
                    waiting.append(producer)
        return tuple(sorted(found, key=self._rank.__getitem__))


def _constants(view: GraphView) -> set[NodeId]:
    """Nodes whose inputs are all known while building."""
    fixed = {tensor.id for tensor in view.tensors.values() if tensor.role == "initializer" and not tensor.overridable}
    found: set[NodeId] = set()
    for node in view.nodes.values():
        if node.subgraphs or node.op_type.startswith("Random"):
            continue
        if all(tensor is None or tensor in fixed for tensor in node.inputs):
            found.add(node.id)
            fixed.update(tensor for tensor in node.outputs if tensor is not None)
    return found


def _bodies(node: onnx.NodeProto) -> Iterator[tuple[str, onnx.GraphProto]]:
    for attribute in node.attribute:
        if attribute.type == _GRAPH:
            yield attribute.name, attribute.g
        elif attribute.type == _GRAPHS:
            for number, body in enumerate(attribute.graphs):
                yield f"{attribute.name}.{number}", body


def _is_inserted(node: onnx.NodeProto) -> bool:
    """Whether ONNX Runtime put the node in to change the layout or the type of a tensor."""
    return node.op_type in ("ReorderInput", "ReorderOutput") or (
        node.op_type == "Cast" and node.name.startswith(_FREE_CAST)
    )


def _serves_reader(node: onnx.NodeProto) -> bool:
    """Whether an inserted node changes a known tensor for its reader, and not a new one back to the known."""
    return node.op_type == "ReorderInput" or node.output[0].startswith(_FREE_CAST)


def _aliases(nodes: Iterable[onnx.NodeProto], names: Mapping[str, TensorId], view: GraphView) -> dict[str, TensorId]:
    """New names of known tensors.

    1. `InsertedPrecisionFreeCast_KNOWN`: KNOWN in float32.
    2. `ReorderOutput(new) → known`: new is known in another layout.
    3. A convolution called `KNOWN_nchwc`: its output is KNOWN, or what fused nodes make of it.
    4. A layer called by a node, perhaps with `/XFusion/` behind it, that gives a new name: what that node gives.
    5. `ReorderInput(known) → new`.
    """
    nodes = list(nodes)
    found: dict[str, TensorId] = {}
    for name in {tensor for node in nodes for tensor in (*node.input, *node.output)}:
        if name.startswith(_FREE_CAST) and name.removeprefix(_FREE_CAST) in names:
            found[name] = names[name.removeprefix(_FREE_CAST)]

    def known(name: str) -> TensorId | None:
        return names.get(name) or found.get(name)

    for node in nodes:
        if node.op_type == "ReorderOutput" and (tensor := known(node.output[0])) is not None:
            found[node.input[0]] = tensor
    for node in nodes:
        tensor = known(node.name.removesuffix(_NCHWC)) if node.name.endswith(_NCHWC) else None
        if tensor is None and node.name.endswith(_NCHWC):
            tensor = names.get(node.name.removesuffix(_NCHWC).removeprefix(_FREE_CAST))
        if tensor is not None and node.output[0] not in names:
            found.setdefault(node.output[0], _past_fused(node, tensor, view))
    for node in nodes:
        called = view.nodes.get(NodeId(_FUSION.sub("", node.name)))
        if (
            called is not None
            and called.outputs
            and called.outputs[0]
            and node.output
            and known(node.output[0]) is None
        ):
            found[node.output[0]] = called.outputs[0]
    for node in nodes:
        if node.op_type == "ReorderInput" and (tensor := known(node.input[0])) is not None:
            found[node.output[0]] = tensor
    return found


def _past_fused(node: onnx.NodeProto, tensor: TensorId, view: GraphView) -> TensorId:
    """The tensor that a fused convolution gives, from the one that the convolution alone would give."""
    steps = ["Add"] if len(node.input) > _SUM_INPUT and node.input[_SUM_INPUT] else []
    steps += [attribute.s.decode() for attribute in node.attribute if attribute.name == "activation"]
    for step in steps:
        readers = view.tensors[tensor].consumers
        if len(readers) != 1 or view.nodes[readers[0]].op_type != step:
            return tensor
        tensor = view.nodes[readers[0]].outputs[0] or tensor
    return tensor


def _match_for_readers(items: Sequence[_Found]) -> None:
    """What was put in for a reader (another layout, type or shape) belongs to that reader."""
    readers: dict[str, _Found] = {}
    for item in items:
        for tensor in item.node.input:
            readers.setdefault(tensor, item)
    for item in reversed(items):  # a reader may be such a node itself
        if not item.nodes and item.node.output:
            reader = readers.get(item.node.output[0])
            if reader is not None and reader.nodes:
                item.nodes, item.source = reader.nodes[:1], "tensors"


def _info(index: int, item: _Found, given: Given) -> LayerInfo:
    node = item.node
    nodes = given.user_nodes(item.nodes)
    attributes: dict[str, JsonValue] = {"domain": node.domain} if node.domain else {}
    if item.path:
        attributes["graph"] = item.path
    attributes.update(_attributes(node))
    return LayerInfo(
        index=index,
        name=node.name or f"{node.op_type}_{index}",
        type=node.op_type,
        inputs=tuple(_tensor(name, item, given.view) for name in node.input if name),
        outputs=tuple(_tensor(name, item, given.view) for name in node.output if name),
        precision=_precision(item, nodes, given),
        nodes=nodes,
        nodes_from=item.source,
        attributes=attributes,
    )


def _tensor(name: str, item: _Found, view: GraphView) -> LayerTensor:
    tensor = item.tensors.get(name)
    layout = "nchwc" if "nchwc" in item.node.domain and name.startswith("reorder") else None
    if tensor is None:
        return LayerTensor(name, format=layout)
    info = view.tensors[tensor]
    return LayerTensor(name, info.dtype, info.shape, layout)


def _precision(item: _Found, nodes: tuple[NodeId, ...], given: Given) -> str | None:
    """`float16 (emulated)` for layers that compute in FP32 and are rounded, else the type of the result."""
    low = _LOW_NAMES.get(given.precision)
    if low is not None and any(node in given.lowered for node in nodes):
        return low
    if any(name.startswith(_FREE_CAST) for name in (*item.node.input, *item.node.output)):
        return "float32"
    for name in item.node.output:
        tensor = item.tensors.get(name)
        if tensor is not None:
            return given.view.tensors[tensor].dtype
    return "float32" if "nchwc" in item.node.domain else None


def _attributes(node: onnx.NodeProto) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {}
    for attribute in node.attribute:
        if attribute.type == _FLOAT:
            found[attribute.name] = attribute.f
        elif attribute.type == _INT:
            found[attribute.name] = attribute.i
        elif attribute.type == _STRING:
            found[attribute.name] = attribute.s.decode("utf-8", "replace")[:80]
        elif attribute.type == _FLOATS:
            found[attribute.name] = list(attribute.floats[:16])
        elif attribute.type == _INTS:
            found[attribute.name] = list(attribute.ints[:16])
        elif attribute.type == _STRINGS:
            found[attribute.name] = [text.decode("utf-8", "replace")[:80] for text in attribute.strings[:16]]
    return found
