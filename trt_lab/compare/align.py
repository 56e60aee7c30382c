"""ONNX nodes and engine layers, many to many: each link with where it comes from, and what has none with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from trt_lab.compare.unmapped import Fate, Reason, constant_names, explain_layer, explain_node
from trt_lab.engine_nodes import is_copy, is_reformat, is_whole_name
from trt_lab.graph.view import GraphView
from trt_lab.types import LayerInfo, NodeId

Source = Literal["metadata", "name", "tensors"]
Role = Literal["computes", "serves"]
Confidence = Literal["certain", "likely"]


@dataclass(frozen=True, slots=True)
class Link:
    """One node in one layer.

    Attributes:
        source: What says so: the engine's metadata, the layer's name, or its tensors.
        role: `computes` the node, or `serves` a layer that does, by changing type or layout of a tensor.
        confidence: `certain` where the engine names the node in full; `likely` where the name was mangled, tells only
            the ends of a range, or the graph had to be walked.
    """

    layer: int
    node: NodeId
    source: Source
    role: Role = "computes"
    confidence: Confidence = "certain"


@dataclass(frozen=True)
class LayerMap:
    """Which nodes went into which layers, and what is left over on both sides.

    Attributes:
        layers: In the engine's order.
        links: By layer, then in the order in which the layer tells its nodes.
        unmapped_layers: Indices of layers of which no node is known; reformats, which serve others, are not among them.
        unmapped_nodes: Nodes of the main graph that no layer names (folded, removed, or not told), in graph order.
        unknown_nodes: Nodes that layers name and the model does not have.
        layer_reasons: Layer without a link → why, reformats included.
        node_reasons: Node without a link → why; nodes of subgraphs included.
        nodes_total: Nodes of the main graph.
    """

    layers: tuple[LayerInfo, ...]
    links: tuple[Link, ...]
    unmapped_layers: tuple[int, ...]
    unmapped_nodes: tuple[NodeId, ...]
    unknown_nodes: tuple[NodeId, ...]
    layer_reasons: Mapping[int, Reason] = field(default_factory=dict)
    node_reasons: Mapping[NodeId, Reason] = field(default_factory=dict)
    nodes_total: int = 0

    @classmethod
    def of(cls, layers: Sequence[LayerInfo], view: GraphView) -> LayerMap:
        """Joins the layers of an engine with the graph that it was built from."""
        links, unknown = _links(layers, view)
        fate = Fate.of(view)
        links = _with_enclosed(links, view, fate)
        mapped = {link.node for link in links}
        linked = {link.layer for link in links}
        constants = constant_names(layers, fate.constant)
        detailed = any(layer.type for layer in layers)
        reasons = {
            layer.index: explain_layer(layer, constants, detailed=detailed, known=True)
            for layer in layers
            if layer.index not in linked
        }
        left = [info for node, info in view.nodes.items() if node not in mapped]
        return cls(
            layers=tuple(layers),
            links=links,
            unmapped_layers=tuple(x.index for x in layers if x.index in reasons and not is_reformat(x)),
            unmapped_nodes=tuple(info.id for info in left if not info.graph),
            unknown_nodes=unknown,
            layer_reasons=reasons,
            node_reasons={info.id: explain_node(info, view, fate, mapped) for info in left},
            nodes_total=sum(not info.graph for info in view.nodes.values()),
        )

    def layers_of(self, node: NodeId) -> tuple[int, ...]:
        """Indices of the layers that a node went into, those that only serve it included; none when it is not known."""
        return self._layers_of.get(node, ())

    def nodes_of(self, layer: int) -> tuple[NodeId, ...]:
        """Nodes of the model that went into a layer, or that it serves."""
        return self._nodes_of.get(layer, ())

    def computed_in(self, node: NodeId) -> tuple[int, ...]:
        """Indices of the layers that compute a node; reformats are left out."""
        return self._computed_in.get(node, ())

    def together(self, nodes: Iterable[NodeId]) -> bool:
        """Whether one layer computes all of these nodes."""
        sets = [set(self.computed_in(node)) for node in nodes]
        return bool(sets) and bool(set.intersection(*sets))

    @property
    def coverage(self) -> float | None:
        """Share of the main graph's nodes that have a layer or need none, with the reason; None for an empty graph."""
        told = sum(self.node_reasons[node].folded for node in self.unmapped_nodes)
        mapped = self.nodes_total - len(self.unmapped_nodes)
        return (mapped + told) / self.nodes_total if self.nodes_total else None

    @cached_property
    def _layers_of(self) -> dict[NodeId, tuple[int, ...]]:
        return _grouped((link.node, link.layer) for link in self.links)

    @cached_property
    def _nodes_of(self) -> dict[int, tuple[NodeId, ...]]:
        return _grouped((link.layer, link.node) for link in self.links)

    @cached_property
    def _computed_in(self) -> dict[NodeId, tuple[int, ...]]:
        return _grouped((link.node, link.layer) for link in self.links if link.role == "computes")


def _grouped(pairs: Iterable[tuple]) -> dict:
    found: dict = {}
    for key, value in pairs:
        found.setdefault(key, {})[value] = None
    return {key: tuple(values) for key, values in found.items()}


def _links(layers: Sequence[LayerInfo], view: GraphView) -> tuple[tuple[Link, ...], tuple[NodeId, ...]]:
    """Links of the nodes that layers tell; a reformat that tells none serves the layers that read its output, or, at
    the end of the engine, the one that makes its input."""
    makers = {tensor.name: layer for layer in layers for tensor in layer.outputs}
    readers: dict[str, list[LayerInfo]] = {}
    for layer in layers:
        for tensor in layer.inputs:
            readers.setdefault(tensor.name, []).append(layer)
    found: list[Link] = []
    unknown: dict[NodeId, None] = {}
    for layer in layers:
        nodes, source = layer.nodes, layer.nodes_from
        serves = is_copy(layer) or (is_reformat(layer) and not nodes)
        if serves and not nodes:
            near = [reader for tensor in layer.outputs for reader in readers.get(tensor.name, ())]
            near = near or [makers[tensor.name] for tensor in layer.inputs if tensor.name in makers]
            nodes, source = tuple(dict.fromkeys(n for other in near for n in other.nodes)), "tensors"
        if source == "none":
            continue
        sure = source == "metadata" or (source == "name" and is_whole_name(layer.name))
        for node in dict.fromkeys(nodes):
            if node in view.nodes:
                role, confidence = "serves" if serves else "computes", "certain" if sure else "likely"
                found.append(Link(layer.index, node, source, role, confidence))
            else:
                unknown[node] = None
    return tuple(found), tuple(unknown)


def _with_enclosed(links: tuple[Link, ...], view: GraphView, fate: Fate) -> tuple[Link, ...]:
    """Adds nodes that lie between nodes of one layer: a kernel runs once, so what is between is in it.

    Only where the node before and all behind are in that one layer and in no other. Shape arithmetic is never in it.
    """
    computed: dict[NodeId, set[int]] = {}
    for link in links:
        if link.role == "computes":
            computed.setdefault(link.node, set()).add(link.layer)
    mapped = {link.node for link in links}
    added: list[Link] = []
    for node, info in view.nodes.items():
        if node in mapped or all(t in fate.constant or t in fate.shapes for t in info.outputs if t):
            continue
        behind = [computed.get(n, set()) for n in view.successors(node)]
        if not behind or any(len(places) != 1 or places != behind[0] for places in behind):
            continue
        if any(computed.get(n) == behind[0] for n in view.predecessors(node)):
            (place,) = behind[0]
            computed[node] = {place}
            added.append(Link(place, node, "tensors", "computes", "likely"))
    return tuple(sorted((*links, *added), key=lambda link: link.layer)) if added else links
