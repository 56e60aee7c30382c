"""Groups of nodes that are one operation, written out by an exporter."""

from __future__ import annotations

from collections.abc import Iterator

from trt_lab.graph.view import GraphView
from trt_lab.types import NodeId

_LAYER_NORM: tuple[tuple[str, ...], ...] = (
    ("Sqrt",),
    ("Add",),
    ("ReduceMean",),
    ("Pow", "Mul"),
    ("Sub",),
    ("ReduceMean",),
)
"""Operators met walking back from the Div of a LayerNorm."""


def norm_chains(view: GraphView) -> Iterator[tuple[NodeId, ...]]:
    """LayerNorms written out: ReduceMean → Sub → Pow → ReduceMean → Add → Sqrt → Div, in that order."""
    for node, info in view.nodes.items():
        if info.op_type == "Div":
            chain = _walk_back(view, node)
            if chain:
                yield (*reversed(chain), node)


def _walk_back(view: GraphView, node: NodeId) -> list[NodeId]:
    """Nodes met on the way; empty when one is not there."""
    found: list[NodeId] = []
    for wanted in _LAYER_NORM:
        before = next((n for n in view.predecessors(node) if view.nodes[n].op_type in wanted), None)
        if before is None:
            return []
        found.append(before)
        node = before
    return found
