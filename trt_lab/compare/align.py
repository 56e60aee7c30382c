"""ONNX nodes and engine layers, many to many."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trt_lab.engine_nodes import is_reformat
from trt_lab.graph.view import GraphView
from trt_lab.types import LayerInfo, NodeId


@dataclass(frozen=True)
class LayerMap:
    """Which nodes went into which layers, and what is left over on both sides.

    Attributes:
        layers: In the engine's order.
        unmapped_layers: Indices of layers of which no node is known; reformats, which serve others, are not among them.
        unmapped_nodes: Nodes of the main graph that no layer names (folded, removed, or not told), in graph order.
        unknown_nodes: Nodes that layers name and the model does not have.
    """

    layers: tuple[LayerInfo, ...]
    unmapped_layers: tuple[int, ...]
    unmapped_nodes: tuple[NodeId, ...]
    unknown_nodes: tuple[NodeId, ...]
    _layers_of: dict[NodeId, tuple[int, ...]]
    _nodes_of: dict[int, tuple[NodeId, ...]]

    @classmethod
    def of(cls, layers: Sequence[LayerInfo], view: GraphView) -> LayerMap:
        """Joins the layers of an engine with the graph that it was built from."""
        known = view.nodes
        layers_of: dict[NodeId, list[int]] = {}
        unknown: dict[NodeId, None] = {}
        for layer in layers:
            for node in layer.nodes:
                if node in known:
                    layers_of.setdefault(node, []).append(layer.index)
                else:
                    unknown[node] = None
        nodes_of = {layer.index: tuple(node for node in layer.nodes if node in known) for layer in layers}
        return cls(
            layers=tuple(layers),
            unmapped_layers=tuple(x.index for x in layers if not nodes_of[x.index] and not is_reformat(x)),
            unmapped_nodes=tuple(n for n, info in known.items() if not info.graph and n not in layers_of),
            unknown_nodes=tuple(unknown),
            _layers_of={node: tuple(dict.fromkeys(found)) for node, found in layers_of.items()},
            _nodes_of=nodes_of,
        )

    def layers_of(self, node: NodeId) -> tuple[int, ...]:
        """Indices of the layers that a node went into; none when it is not known."""
        return self._layers_of.get(node, ())

    def nodes_of(self, layer: int) -> tuple[NodeId, ...]:
        """Nodes of the model that went into a layer."""
        return self._nodes_of.get(layer, ())

    def together(self, nodes: Iterable[NodeId]) -> bool:
        """Whether one layer holds all of these nodes."""
        sets = [set(self.layers_of(node)) for node in nodes]
        return bool(sets) and bool(set.intersection(*sets))
