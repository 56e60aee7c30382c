"""Where things stand on the canvas: one layered drawing per open scope, put into each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from trt_lab.graph.assemble import Assembly
from trt_lab.graph.tree import default_expanded
from trt_lab.graph.view import GraphView
from trt_lab.model import hold_collection
from trt_lab.types import TensorId

KINDS = ("frame", "scope", "node", "input", "output", "outer", "portal")
"""Meaning of `Layout.kinds`: an open scope (a frame round its contents), a closed one, a node, an input or
output of the graph, a tensor of an outer graph, and the end of an edge that is not drawn through."""


@dataclass(frozen=True)
class Layout:
    """Positions of all visible things of one graph; n things, m edges, p route points. Units: CSS pixels.

    Frames come first, outer before inner, so that painting in this order is right.

    Attributes:
        graph: Path of the graph.
        expanded: Paths of the scopes that are drawn open.
        ids: Node id, scope path, or tensor id (input, output, outer, portal).
        labels: Last part of the name; for groups first … last.
        op_types: Operator of nodes, "" for others.
        kinds: uint8 [n], index into `KINDS`.
        boxes: float32 [n, 4]: x, y of the upper left corner, width, height.
        parents: int32 [n], the frame a thing stands in, -1 at the top.
        counts: int32 [n], nodes in a scope, 1 for a node, else 0.
        peers: int32 [n], for portals the thing at the other end (to jump to), else -1.
        tensors: Tensors that `edge_tensors` points into.
        edge_sources, edge_targets: int32 [m], indices of things.
        edge_tensors: int32 [m], index into `tensors`.
        route_starts: int32 [m + 1], where the points of each edge begin in `route_points`.
        route_points: float32 [p, 2], from the lower side of the source to the upper side of the target.
    """

    graph: str
    expanded: frozenset[str]
    ids: tuple[str, ...]
    labels: tuple[str, ...]
    op_types: tuple[str, ...]
    kinds: np.ndarray
    boxes: np.ndarray
    parents: np.ndarray
    counts: np.ndarray
    peers: np.ndarray
    tensors: tuple[TensorId, ...]
    edge_sources: np.ndarray
    edge_targets: np.ndarray
    edge_tensors: np.ndarray
    route_starts: np.ndarray
    route_points: np.ndarray
    width: float
    height: float
    _shown: dict[str, str]

    @cached_property
    def _index(self) -> dict[str, int]:
        kinds = self.kinds.tolist()
        nodes = {name: i for i, name in enumerate(self.ids) if kinds[i] == KINDS.index("node")}
        scopes = {name: i for i, name in enumerate(self.ids) if kinds[i] in (0, 1)}
        return {**scopes, **nodes}

    def index_of(self, node_id: str) -> int | None:
        """The thing that stands for a node: itself, the closed scope it lies in, or the reader of a constant."""
        return self._index.get(self._shown.get(node_id, node_id))

    def route(self, edge: int) -> np.ndarray:
        """Points of one edge, float32 [k, 2]."""
        return self.route_points[self.route_starts[edge] : self.route_starts[edge + 1]]


def layout(view: GraphView, expanded: frozenset[str] | None = None, graph: str = "") -> Layout:
    """Lays out one graph of a model.

    Args:
        view: The model.
        expanded: Paths of the scopes to draw open (those of `ids`); paths that are not there count for nothing.
            None chooses as `default_expanded` does.
        graph: Path of the graph; "" for the main one.

    Raises:
        ModelError: No such graph.
    """
    view.scopes(graph)  # raises on an unknown graph
    opened = default_expanded(view, graph=graph) if expanded is None else expanded
    with hold_collection():
        return _arrays(Assembly(view, opened, graph), graph)


def _arrays(assembly: Assembly, graph: str) -> Layout:
    assembly.run()
    things, edges = assembly.things, assembly.edges
    tensors = {tensor: index for index, tensor in enumerate(dict.fromkeys(edge.tensor for edge in edges))}
    starts = np.zeros(len(edges) + 1, np.int32)
    starts[1:] = np.cumsum([len(edge.route) for edge in edges])
    boxes = np.array([(t.x, t.y, t.width, t.height) for t in things], np.float32).reshape(-1, 4)
    return Layout(
        graph=graph,
        expanded=frozenset(t.id for t in things if t.kind == "frame"),
        ids=tuple(t.id for t in things),
        labels=tuple(t.label for t in things),
        op_types=tuple(t.op_type for t in things),
        kinds=np.array([KINDS.index(t.kind) for t in things], np.uint8),
        boxes=boxes,
        parents=_integers([t.parent for t in things]),
        counts=_integers([t.count for t in things]),
        peers=_integers([t.peer for t in things]),
        tensors=tuple(tensors),
        edge_sources=_integers([edge.source for edge in edges]),
        edge_targets=_integers([edge.target for edge in edges]),
        edge_tensors=_integers([tensors[edge.tensor] for edge in edges]),
        route_starts=starts,
        route_points=np.array([point for edge in edges for point in edge.route], np.float32).reshape(-1, 2),
        width=assembly.width,
        height=assembly.height,
        _shown=assembly.shown_ids(),
    )


def _integers(values: Sequence[int]) -> np.ndarray:
    return np.array(values, np.int32)
