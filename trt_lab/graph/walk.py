"""Walks a model once: every graph in it, nested ones included, with ids for nodes and tensors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import onnx_ir as ir

from trt_lab.model import Model, assign_names
from trt_lab.types import NodeId, TensorId

FUNCTION_NODES_LIMIT = 100_000
"""Calls of local functions are opened up to this many nodes; nested calls can grow without bound."""

_BRANCH_NAMES = {"then_branch": "then", "else_branch": "else"}


@dataclass
class Part:
    """One graph as found in the model: the main graph, a branch or body, or one call of a local function.

    Attributes:
        path: See `GraphInfo.path`.
        body: Its nodes, inputs and outputs.
        owner: The node that holds it, with the index of the part that node is in.
        attribute: Attribute that holds it, or the name of the function.
        ids: Tensor ids of the values seen here; shared with nested graphs, not with function calls.
        node_ids: Ids of the nodes of `body`, in order.
        children: For nodes with nested graphs: index in `body` → indices of parts.
    """

    path: str
    body: ir.Graph | ir.Function
    owner: NodeId | None
    attribute: str
    ids: dict[ir.Value, TensorId]
    node_ids: list[NodeId] = field(default_factory=list)
    children: dict[int, list[int]] = field(default_factory=dict)


def collect_parts(model: Model) -> tuple[list[Part], list[str]]:
    """Finds all graphs of a model, outer before inner, and gives ids to their nodes and tensors.

    Returns:
        The parts, the main graph first; and notes.
    """
    functions = model.ir.functions
    taken_nodes: set[str] = set()
    taken_tensors: set[str] = set()
    paths: set[str] = set()
    parts = [Part("", model.ir.graph, None, "", {})]
    notes: list[str] = []
    budget = FUNCTION_NODES_LIMIT
    position = 0
    while position < len(parts):
        part = parts[position]
        position += 1
        prefix = f"{part.path}/" if part.path else ""
        nodes = list(part.body)
        named = assign_names(((node.name or "", node.op_type) for node in nodes), taken_nodes, prefix)
        part.node_ids = [NodeId(name) for name in named]
        _assign_tensors(part, prefix, taken_tensors)
        for index, node in enumerate(nodes):
            nested: list[tuple[str, ir.Graph | ir.Function, dict[ir.Value, TensorId]]] = []
            if node.attributes:
                nested.extend((name, graph, part.ids) for name, graph in _nested(node))
            function = functions.get(node.op_identifier()) if functions else None
            if function is not None:
                budget -= len(function)
                if budget >= 0:
                    nested.append((function.name, function, {}))
                elif not notes:
                    notes.append(
                        f"local functions hold more than {FUNCTION_NODES_LIMIT} nodes when opened; some calls stay closed"
                    )
            for name, body, ids in nested:
                path = _claim(paths, f"{part.node_ids[index]}/{_BRANCH_NAMES.get(name, name)}")
                part.children.setdefault(index, []).append(len(parts))
                parts.append(Part(path, body, part.node_ids[index], name, ids))
    return parts, notes


def _nested(node: ir.Node) -> Iterator[tuple[str, ir.Graph]]:
    for name, attribute in sorted(node.attributes.items(), key=lambda item: item[0] != "then_branch"):
        if attribute.is_ref():
            continue
        if attribute.type == ir.AttributeType.GRAPH:
            yield name, attribute.as_graph()
        elif attribute.type == ir.AttributeType.GRAPHS:
            for index, graph in enumerate(attribute.as_graphs()):
                yield f"{name}.{index}", graph


def _assign_tensors(part: Part, prefix: str, taken: set[str]) -> None:
    ids = part.ids
    body = part.body
    for value in body.inputs:
        ids[value] = TensorId(_claim(taken, prefix + (value.name or "input")))
    if isinstance(body, ir.Graph):
        for value in body.initializers.values():
            if value not in ids:
                ids[value] = TensorId(_claim(taken, prefix + (value.name or "initializer")))
    for node in body:
        for value in node.outputs:
            if value.name:
                ids[value] = TensorId(_claim(taken, prefix + value.name))


def _claim(taken: set[str], wanted: str) -> str:
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted}#{number}"
    taken.add(name)
    return name


def graph_order(parts: list[Part]) -> Iterator[tuple[Part, int]]:
    """Yields (part, index of node) so that every node follows all it depends on: nested nodes come before their owner."""
    stack: list[tuple[Part, Iterator[int]]] = [(parts[0], iter(range(len(parts[0].node_ids))))]
    opened: set[NodeId] = set()
    while stack:
        part, indices = stack[-1]
        for index in indices:
            inner = part.children.get(index)
            if inner is not None and part.node_ids[index] not in opened:
                opened.add(part.node_ids[index])
                stack[-1] = (part, _chain(index, indices))
                for child in reversed(inner):
                    stack.append((parts[child], iter(range(len(parts[child].node_ids)))))
                break
            yield part, index
        else:
            stack.pop()


def _chain(first: int, rest: Iterator[int]) -> Iterator[int]:
    yield first
    yield from rest
