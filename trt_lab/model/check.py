"""What a model must fulfil to be opened, and small repairs with a note: order of nodes, sparse initializers."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable, Sequence

import numpy as np
import onnx
from onnx import numpy_helper

from trt_lab.errors import ModelError
from trt_lab.model.external import iter_graphs, subgraphs_of, tensor_bytes

_MAX_DENSE_BYTES = 256 * 1024 * 1024


def prepare(proto: onnx.ModelProto, label: str) -> list[str]:
    """Checks `proto`, and sorts its nodes where needed.

    Unknown operators and domains pass: they open as nodes.

    Args:
        proto: Changed in place.
        label: Names the model in errors.

    Returns:
        Notes, one line each.

    Raises:
        ModelError: Empty graph, opset absent or unknown, a tensor made twice or never, a cycle.
    """
    if not proto.graph.node:
        raise ModelError(f"{label}: the graph has no nodes, so there is nothing to build; export the model again")
    _check_opset(proto, label)
    notes: list[str] = []
    for graph in iter_graphs(proto.graph):
        notes += _make_dense(graph, label)
    unresolved, is_sorted = _check_graph(proto.graph, label)
    if unresolved:
        tensor, node = next(iter(unresolved.items()))
        raise ModelError(
            f"{label}: node '{node}' reads tensor '{tensor}', which no node, input or initializer makes; "
            "add it or export the model again"
        )
    for function in proto.functions:
        _, function_sorted = _check_graph(function, label)
        is_sorted &= function_sorted
    if not is_sorted:
        notes.append("sorted: the file lists nodes before the nodes they read from")
    return notes


def _check_opset(proto: onnx.ModelProto, label: str) -> None:
    for node in (node for graph in iter_graphs(proto.graph) for node in graph.node):
        if node.domain == "ai.onnx":
            node.domain = ""
    imports: dict[str, int] = {}
    for entry in proto.opset_import:
        if entry.domain == "ai.onnx":
            entry.domain = ""
        imports[entry.domain] = entry.version
    newest = onnx.defs.onnx_opset_version()
    version = imports.get("")
    if version is None:
        standard = next((node for node in proto.graph.node if not node.domain), None)
        if not imports or standard is not None:
            first = standard if standard is not None else proto.graph.node[0]
            raise ModelError(
                f"{label}: no opset import for ai.onnx, so the meaning of node '{_label(first)}' ({first.op_type}) "
                "is not defined; the file is cut or edited by hand: export it again"
            )
    elif not 1 <= version <= newest:
        raise ModelError(
            f"{label}: opset {version} of ai.onnx is not known here (1 to {newest} are); "
            f"export with opset_version={min(newest, 20)}, or update the package onnx"
        )


def _make_dense(graph: onnx.GraphProto, label: str) -> list[str]:
    """Turns sparse initializers into ordinary ones."""
    notes: list[str] = []
    for sparse in graph.sparse_initializer:
        name = sparse.values.name
        if tensor_bytes(sparse.values.data_type, sparse.dims) > _MAX_DENSE_BYTES:
            raise ModelError(f"{label}: sparse initializer '{name}' is over 256 MB when dense; store it dense")
        try:
            values, indices = numpy_helper.to_array(sparse.values), numpy_helper.to_array(sparse.indices)
            dense = np.zeros(tuple(sparse.dims), values.dtype)
            where = tuple(indices.T) if indices.ndim == 2 else np.unravel_index(indices, dense.shape)
            dense[where] = values
        except (ValueError, IndexError, TypeError) as error:
            raise ModelError(f"{label}: sparse initializer '{name}' is not valid ({error}); store it dense") from error
        graph.initializer.append(numpy_helper.from_array(dense, name))
        notes.append(f"sparse initializer '{name}' made dense")
    del graph.sparse_initializer[:]
    return notes


def _label(node: onnx.NodeProto) -> str:
    return node.name or node.op_type


def _check_graph(graph: onnx.GraphProto | onnx.FunctionProto, label: str) -> tuple[dict[str, str], bool]:
    """Checks one graph and those nested in it; sorts nodes in place.

    Returns:
        Tensors read but not made here, each with a node that reads it; whether all was in order.
    """
    makers, defined = _find_makers(graph, label)
    is_sorted = True
    reads: list[dict[str, str]] = []
    for node in graph.node:
        wanted = {name: _label(node) for name in node.input if name}
        for subgraph in subgraphs_of(node):
            captured, inner_sorted = _check_graph(subgraph, label)
            is_sorted &= inner_sorted
            for name, reader in captured.items():
                wanted.setdefault(name, reader)
        reads.append(wanted)
    outputs = graph.output if isinstance(graph, onnx.FunctionProto) else [value.name for value in graph.output]
    for name in outputs:
        if name and name not in makers and name not in defined:
            raise ModelError(
                f"{label}: output '{name}' of graph '{graph.name}' is made by no node; export the model again"
            )
    unresolved: dict[str, str] = {}
    in_order = True
    for index, wanted in enumerate(reads):
        for name, reader in wanted.items():
            maker = makers.get(name)
            if maker is not None:
                in_order &= maker < index
            elif name not in defined:
                unresolved.setdefault(name, reader)
    if not in_order:
        order = topological_order([[makers[n] for n in wanted if n in makers] for wanted in reads])
        if isinstance(order, Cycle):
            chain = " → ".join(f"'{_label(graph.node[i])}'" for i in order.shown())
            raise ModelError(
                f"{label}: the nodes {chain} form a cycle, which no engine can run; export the model again"
            )
        nodes = [onnx.NodeProto.FromString(graph.node[i].SerializeToString()) for i in order]
        del graph.node[:]
        graph.node.extend(nodes)
    return unresolved, is_sorted and in_order


def _find_makers(graph: onnx.GraphProto | onnx.FunctionProto, label: str) -> tuple[dict[str, int], set[str]]:
    """Returns tensor → index of the node that makes it, and the tensors that exist without a node."""
    if isinstance(graph, onnx.FunctionProto):
        defined = set(graph.input)
    else:
        defined = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    makers: dict[str, int] = {}
    for index, node in enumerate(graph.node):
        for name in node.output:
            if not name:
                continue
            if name in makers or name in defined:
                other = f"node '{_label(graph.node[makers[name]])}'" if name in makers else "an input or initializer"
                raise ModelError(
                    f"{label}: tensor '{name}' is made twice, by {other} and by node '{_label(node)}'; rename one of them"
                )
            makers[name] = index
    return makers, defined


class Cycle(list[int]):
    """Indices of nodes that read from each other in a ring, in flow order."""

    def shown(self, limit: int = 8) -> list[int]:
        """The ring closed at its start, cut after `limit` nodes."""
        return self[:limit] + self[:1]


def topological_order(parents: Sequence[Iterable[int]]) -> list[int] | Cycle:
    """Stable order in which every node follows its parents (Kahn's algorithm, smallest index first).

    Args:
        parents: For each node the indices of those it reads from.

    Returns:
        The order, or one cycle.
    """
    waiting = [len(set(mine)) for mine in parents]
    children: list[list[int]] = [[] for _ in parents]
    for index, mine in enumerate(parents):
        for parent in set(mine):
            children[parent].append(index)
    ready = [index for index, count in enumerate(waiting) if count == 0]
    order: list[int] = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for child in children[index]:
            waiting[child] -= 1
            if waiting[child] == 0:
                heapq.heappush(ready, child)
    if len(order) == len(waiting):
        return order
    return _find_cycle(parents, {index for index, count in enumerate(waiting) if count})


def _find_cycle(parents: Sequence[Iterable[int]], stuck: set[int]) -> Cycle:
    """Walks back from a stuck node until one repeats; every stuck node has a stuck parent."""
    path: list[int] = []
    place: dict[int, int] = {}
    index = min(stuck)
    while index not in place:
        place[index] = len(path)
        path.append(index)
        index = min(parent for parent in parents[index] if parent in stuck)
    ring = path[: place[index] - 1 if place[index] else None : -1]
    first = ring.index(min(ring))
    return Cycle(ring[first:] + ring[:first])


def parents_of(reads: Sequence[Iterable[Hashable]], makes: Sequence[Iterable[Hashable]]) -> list[list[int]]:
    """Turns what nodes read and make into indices of parents."""
    maker = {thing: index for index, made in enumerate(makes) for thing in made}
    return [[maker[thing] for thing in wanted if thing in maker] for wanted in reads]
