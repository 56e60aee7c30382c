"""The graph of a model as ids, neighbours and scopes: what everything else addresses nodes and tensors by."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

import numpy as np
import onnx_ir as ir

from trt_lab.errors import ModelError
from trt_lab.graph.attributes import dtype_name, printable
from trt_lab.graph.constants import InitializerStats, describe, values_of
from trt_lab.graph.scopes import Scope, scope_of, scope_tree
from trt_lab.graph.walk import Part, collect_parts, graph_order
from trt_lab.model import Model, hold_collection, shape_of
from trt_lab.types import NodeId, NodeInfo, TensorId, TensorInfo


@dataclass(frozen=True, slots=True)
class GraphInfo:
    """One graph of a model.

    Attributes:
        path: "" for the main graph, `if0/then`, `loop/body`, `call/FunctionName` for nested ones.
        node: The node that holds it.
        attribute: Its attribute that holds it (`then_branch`), or the name of the local function.
        nodes: In topological order.
        inputs: Without those that are initializers.
    """

    path: str
    node: NodeId | None
    attribute: str
    nodes: tuple[NodeId, ...]
    inputs: tuple[TensorId, ...]
    outputs: tuple[TensorId, ...]


class GraphView:
    """Read-only index of a model. Get it with `GraphView.of(model)`.

    Ids are the same whenever the same model is opened. Nodes are in an order in which each follows
    all it depends on; nodes of nested graphs stand before the node that holds them.
    """

    def __init__(self, model: Model) -> None:
        """Use `of`, which keeps the view with the model."""
        self.model = model
        self._parts, notes = collect_parts(model)
        self._ir_nodes: dict[NodeId, ir.Node] = {}
        self._ir_values: dict[TensorId, ir.Value] = {}
        self._node_ids: dict[ir.Node, NodeId] = {}
        self._owner: dict[str, NodeId | None] = {part.path: part.owner for part in self._parts}
        nodes = self._make_nodes()
        self.nodes: Mapping[NodeId, NodeInfo] = MappingProxyType(nodes)
        self.tensors: Mapping[TensorId, TensorInfo] = MappingProxyType(self._make_tensors(nodes))
        self.graphs: Mapping[str, GraphInfo] = MappingProxyType({part.path: self._graph(part) for part in self._parts})
        self._order = {tensor: rank for rank, tensor in enumerate(self.tensors)}
        self._scopes: dict[str, Scope] = {}
        nameless = sum(not node.name for node in nodes.values())
        if nameless:
            first = next(node.id for node in nodes.values() if not node.name)
            notes.append(f"{nameless} nodes have no name; ids such as '{first}' are made up and never stored")
        self.notes = (*model.notes, *notes)

    @classmethod
    def of(cls, model: Model) -> GraphView:
        """The view of `model`, made once."""
        view = model.memo.get("view")
        if not isinstance(view, cls):
            with hold_collection():
                view = model.memo["view"] = cls(model)
        return view

    # --- looking up ----------------------------------------------------------------------

    @property
    def inputs(self) -> tuple[TensorId, ...]:
        """Inputs of the main graph that must be fed, in the file's order; initializers are left out."""
        return self.graphs[""].inputs

    @property
    def outputs(self) -> tuple[TensorId, ...]:
        """Outputs of the main graph, in the file's order."""
        return self.graphs[""].outputs

    def node(self, node_id: str) -> NodeInfo:
        """The node of that id.

        Raises:
            ModelError: There is none; the message names close ones.
        """
        found = self.nodes.get(NodeId(node_id))
        if found is None:
            raise ModelError(f"{self.model.name}: no node '{node_id}'{_close(node_id, self.nodes)}")
        return found

    def tensor(self, tensor_id: str) -> TensorInfo:
        """The tensor of that id.

        Raises:
            ModelError: There is none; the message names close ones.
        """
        found = self.tensors.get(TensorId(tensor_id))
        if found is None:
            raise ModelError(f"{self.model.name}: no tensor '{tensor_id}'{_close(tensor_id, self.tensors)}")
        return found

    def order(self, tensor_id: str) -> int:
        """Rank of a tensor in graph order: inputs and initializers first, then as the nodes make them."""
        return self._order[self.tensor(tensor_id).id]

    def ir_node(self, node_id: str) -> ir.Node:
        """The node in `model.ir`; never change it."""
        return self._ir_nodes[self.node(node_id).id]

    def ir_value(self, tensor_id: str) -> ir.Value:
        """The value in `model.ir`; never change it."""
        return self._ir_values[self.tensor(tensor_id).id]

    def node_id_of(self, node: ir.Node) -> NodeId | None:
        """Id of a node of `model.ir`; of its first call when it lies in a local function."""
        return self._node_ids.get(node)

    # --- neighbours ----------------------------------------------------------------------

    def predecessors(self, node_id: str) -> tuple[NodeId, ...]:
        """Nodes whose outputs this node reads, each once, in graph order.

        A node with nested graphs reads what they capture and what their last nodes give out.
        """
        node = self.node(node_id)
        found: dict[NodeId, None] = {}
        wanted = [*node.inputs, *node.captures]
        for path in node.subgraphs:
            wanted.extend(self.graphs[path].outputs)
        for tensor in wanted:
            producer = self.tensors[tensor].producer if tensor is not None else None
            if producer is not None:
                found[producer] = None
        return self._sorted(found)

    def successors(self, node_id: str) -> tuple[NodeId, ...]:
        """Nodes that read an output of this node, each once, in graph order, those inside subgraphs included.

        For a node that gives out its nested graph's result, that is the holder of the graph.
        """
        node = self.node(node_id)
        found: dict[NodeId, None] = {}
        for tensor in node.outputs:
            if tensor is None:
                continue
            found.update(dict.fromkeys(self.tensors[tensor].consumers))
            owner = self._owner[node.graph]
            if owner is not None and tensor in self.graphs[node.graph].outputs:
                found[owner] = None
        return self._sorted(found)

    def _sorted(self, nodes: Iterable[NodeId]) -> tuple[NodeId, ...]:
        return tuple(sorted(nodes, key=self._node_rank.__getitem__))

    # --- scopes and constants --------------------------------------------------------------

    def scopes(self, graph: str = "") -> Scope:
        """The scope tree of one graph."""
        if graph not in self._scopes:
            if graph not in self.graphs:
                raise ModelError(f"{self.model.name}: no graph '{graph}'{_close(graph, self.graphs)}")
            self._scopes[graph] = scope_tree([self.nodes[node] for node in self.graphs[graph].nodes])
        return self._scopes[graph]

    def constant(self, tensor_id: str) -> np.ndarray | None:
        """Values of an initializer or of a Constant node's output; None for other tensors and stripped weights."""
        return values_of(self.ir_value(tensor_id))

    def initializer_stats(self, tensor_id: str) -> InitializerStats | None:
        """Statistics of a constant; None when the tensor is none."""
        values = self.constant(tensor_id)
        return None if values is None else describe(values)

    # --- making --------------------------------------------------------------------------

    def _make_nodes(self) -> dict[NodeId, NodeInfo]:
        captures = self._find_captures()
        nodes: dict[NodeId, NodeInfo] = {}
        bodies = {part.path: list(part.body) for part in self._parts}
        for part, index in graph_order(self._parts):
            node, node_id = bodies[part.path][index], part.node_ids[index]
            ids = part.ids
            self._ir_nodes[node_id] = node
            self._node_ids.setdefault(node, node_id)
            name = node.name or ""
            nodes[node_id] = NodeInfo(
                id=node_id,
                name=name,
                op_type=node.op_type,
                domain=node.domain,
                scope=scope_of(name),
                inputs=tuple([None if value is None else ids.get(value) for value in node.inputs]),
                outputs=tuple([ids.get(value) if value.name else None for value in node.outputs]),
                attributes=printable(node),
                graph=part.path,
                subgraphs=tuple([self._parts[child].path for child in part.children.get(index, ())]),
                captures=tuple(captures.get(node_id, ())),
            )
        self._node_rank = {node_id: rank for rank, node_id in enumerate(nodes)}
        return nodes

    def _find_captures(self) -> dict[NodeId, dict[TensorId, None]]:
        """For each node with nested graphs, the tensors of outer graphs that these read."""
        captures: dict[NodeId, dict[TensorId, None]] = {}
        own: dict[str, set[TensorId]] = {}
        for part in reversed(self._parts):  # inner before outer
            if part.owner is None:
                continue
            if isinstance(part.body, ir.Function):
                continue
            here = own.setdefault(part.path, _own_tensors(part))
            into = captures.setdefault(part.owner, {})
            for index, node in enumerate(part.body):
                for value in node.inputs:
                    tensor = None if value is None else part.ids.get(value)
                    if tensor is not None and tensor not in here:
                        into[tensor] = None
                if index in part.children:
                    into.update((t, None) for t in captures.get(part.node_ids[index], {}) if t not in here)
        return captures

    def _make_tensors(self, nodes: Mapping[NodeId, NodeInfo]) -> dict[TensorId, TensorInfo]:
        consumers: dict[TensorId, dict[NodeId, None]] = {}
        for node in nodes.values():
            for tensor in node.inputs:
                if tensor is not None:
                    consumers.setdefault(tensor, {})[node.id] = None
        declared = self.model.declared_shapes
        tensors: dict[TensorId, TensorInfo] = {}

        def add(
            value: ir.Value,
            tensor_id: TensorId,
            role: Literal["input", "initializer", "intermediate"],
            path: str,
            producer: NodeId | None = None,
            overridable: bool = False,
        ) -> None:
            self._ir_values[tensor_id] = value
            tensors[tensor_id] = TensorInfo(
                id=tensor_id,
                name=value.name or "",
                dtype=dtype_name(value),
                shape=shape_of(value),
                role=role,
                producer=producer,
                consumers=tuple(consumers.get(tensor_id, ())),
                overridable=overridable,
                declared_shape=declared.get(value) if declared else None,
                graph=path,
            )

        for part in self._parts:
            listed = set(part.body.inputs)
            weights = list(part.body.initializers.values()) if isinstance(part.body, ir.Graph) else []
            filled = set(weights)
            for value in part.body.inputs:
                if value not in filled:
                    add(value, part.ids[value], "input", part.path)
            for value in weights:
                add(value, part.ids[value], "initializer", part.path, overridable=value in listed)
        for node_id, info in nodes.items():
            for value, tensor_id in zip(self._ir_nodes[node_id].outputs, info.outputs, strict=True):
                if tensor_id is not None:
                    add(value, tensor_id, "intermediate", info.graph, node_id)
        for part in self._parts:
            for value in part.body.outputs:
                tensor_id = part.ids.get(value)
                if tensor_id is not None and tensor_id in tensors and not tensors[tensor_id].is_output:
                    tensors[tensor_id] = replace(tensors[tensor_id], is_output=True)
        return tensors

    def _graph(self, part: Part) -> GraphInfo:
        return GraphInfo(
            path=part.path,
            node=part.owner,
            attribute=part.attribute,
            nodes=tuple(part.node_ids),
            inputs=tuple(part.ids[v] for v in part.body.inputs if self.tensors[part.ids[v]].role == "input"),
            outputs=tuple(part.ids[v] for v in part.body.outputs if v in part.ids),
        )


def _own_tensors(part: Part) -> set[TensorId]:
    values = [*part.body.inputs, *(value for node in part.body for value in node.outputs if value.name)]
    if isinstance(part.body, ir.Graph):
        values.extend(part.body.initializers.values())
    return {part.ids[value] for value in values}


def _close(wanted: str, known: Iterable[str]) -> str:
    """Advice that names up to three known ids close to `wanted`."""
    if not wanted:
        return ": the name is empty; name one"
    lowered = wanted.lower()
    names = list(known)
    found = [name for name in names if lowered in name.lower()][:3]
    if not found:
        found = difflib.get_close_matches(wanted, names[:20_000], n=3, cutoff=0.5)
    if not found:
        return "; `search` finds names by part"
    return "; did you mean " + ", ".join(f"'{name}'" for name in found) + "?"
