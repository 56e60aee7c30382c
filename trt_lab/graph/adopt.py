"""Scopes for nodes that have none: tools put Cast, Transpose and the like into graphs without a scope in the name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from trt_lab.graph.scopes import common_scope
from trt_lab.graph.view import GraphView
from trt_lab.types import NodeId, NodeInfo


def scoped_nodes(view: GraphView, graph: str) -> list[NodeInfo]:
    """Nodes of a graph for drawing: those without any scope move into the one that all around them lies in.

    Only names without a slash count as scopeless: `/Mul` was written at the top of the network on purpose.
    Without this, such a node stands outside while all it reads from and feeds is inside, and its edges cannot be drawn.
    """
    nodes = [view.nodes[node_id] for node_id in view.graphs[graph].nodes]
    loose = sum(map(_is_loose, nodes))
    if loose in (0, len(nodes)):
        return nodes
    before: dict[NodeId, str | None] = {}
    after: dict[NodeId, str | None] = {}
    for node in nodes:
        before[node.id] = _side(_above(view, node), before) if _is_loose(node) else node.scope
    for node in reversed(nodes):
        after[node.id] = _side(_below(view, node), after) if _is_loose(node) else node.scope
    moved: list[NodeInfo] = []
    for node in nodes:
        if _is_loose(node) and (first := before[node.id]) and (second := after[node.id]):
            common = common_scope(first, second)
            moved.append(replace(node, scope=common) if common else node)
        else:
            moved.append(node)
    return moved


def _is_loose(node: NodeInfo) -> bool:
    return not node.scope and not node.name.startswith("/")


def _above(view: GraphView, node: NodeInfo) -> Iterable[NodeId | str]:
    """Nodes that `node` reads from; "" for an input of the graph or of an outer one."""
    for tensor_id in (*node.inputs, *node.captures):
        if tensor_id is None:
            continue
        tensor = view.tensors[tensor_id]
        if tensor.role == "initializer":
            continue
        yield tensor.producer if tensor.producer is not None and tensor.graph == node.graph else ""


def _below(view: GraphView, node: NodeInfo) -> Iterable[NodeId | str]:
    """Nodes of the same graph that read from `node`; "" for an output of the graph."""
    for tensor_id in node.outputs:
        if tensor_id is None:
            continue
        tensor = view.tensors[tensor_id]
        if tensor.is_output:
            yield ""
        for reader in tensor.consumers:
            holder = view.nodes[reader]
            while holder.graph != node.graph and (outer := view.graphs[holder.graph].node) is not None:
                holder = view.nodes[outer]
            yield holder.id


def _side(neighbours: Iterable[NodeId | str], known: dict[NodeId, str | None]) -> str | None:
    """The scope common to one side of a node; None when nothing is known, which restricts nothing."""
    found: str | None = None
    for neighbour in neighbours:
        scope = known.get(NodeId(neighbour)) if neighbour else ""
        if scope is not None:
            found = scope if found is None else common_scope(found, scope)
    return found
