"""The scope tree as it is drawn: folders worth opening, never too many things in one.

It differs from `GraphView.scopes` where that would draw badly: constants are left out, a scope that
holds a single thing gives way to it, and more than 600 things side by side are put into groups of
neighbours (which is how a chain of 20,000 nodes without scopes becomes readable).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from trt_lab.graph.adopt import scoped_nodes
from trt_lab.graph.scopes import Scope, scope_tree
from trt_lab.graph.view import GraphView
from trt_lab.model import hold_collection
from trt_lab.types import NodeId

MAX_CHILDREN = 600
"""More things than this in one scope are grouped."""

GROUP_SIZE = 100


@dataclass(slots=True)
class Branch:
    """A node or a scope of the tree; the root is entry 0.

    Attributes:
        id: Node id, or path of the scope (`/a/b`, or `/a/[0:100]` for a group).
        label: Short text.
        parent: Index of the scope that holds it, -1 for the root.
        children: Indices, in graph order; empty for a node.
        order: Smallest rank in graph order of the nodes below.
        count: Nodes in and below.
        is_node: Else it is a scope.
    """

    id: str
    label: str
    parent: int
    order: int
    count: int
    is_node: bool
    children: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Tree:
    """Branches, each after the one that holds it.

    Attributes:
        branches: The root first.
        of_node: Index of each drawn node.
        hidden: Constant nodes that are not drawn, with a node that reads them.
    """

    branches: list[Branch]
    of_node: dict[NodeId, int]
    hidden: dict[NodeId, NodeId]


def tree_of(view: GraphView, graph: str = "") -> Tree:
    """The tree of one graph of `view`, made once."""
    memo = view.model.memo
    key = f"tree:{graph}"
    tree = memo.get(key)
    if not isinstance(tree, Tree):
        with hold_collection():
            tree = memo[key] = _make(view, graph)
    return tree


def ancestors(view: GraphView, node_id: str) -> tuple[str, ...]:
    """Paths of the scopes that must be open for a node to be seen in its graph, outermost first."""
    node = view.node(node_id)
    tree = tree_of(view, node.graph)
    shown = tree.hidden.get(node.id, node.id)
    index = tree.of_node.get(shown, 0)
    paths: list[str] = []
    while (index := tree.branches[index].parent) > 0:
        paths.append(tree.branches[index].id)
    return tuple(reversed(paths))


def default_expanded(view: GraphView, limit: int = 400, graph: str = "") -> frozenset[str]:
    """Scopes to open at first: level by level, while no more than `limit` things are to be seen.

    Of the scopes of a level the smaller are opened first, and those of one size all or none, so that
    repeated blocks look alike.
    """
    branches = tree_of(view, graph).branches
    opened: set[str] = set()
    visible = len(branches[0].children)
    level = [index for index in branches[0].children if not branches[index].is_node]
    while level:
        following: list[int] = []
        by_size: dict[int, list[int]] = {}
        for index in level:
            by_size.setdefault(len(branches[index].children), []).append(index)
        for size in sorted(by_size):
            visible += size * len(by_size[size])
            if visible > limit:
                return frozenset(opened)
            for index in by_size[size]:
                opened.add(branches[index].id)
                following.extend(child for child in branches[index].children if not branches[child].is_node)
        level = following
    return frozenset(opened)


@dataclass(slots=True)
class _Entry:
    """A thing to be placed under a scope; `members` is set for groups only."""

    id: str
    label: str
    order: int
    count: int
    is_node: bool
    members: list[_Entry] | None = None


def _make(view: GraphView, graph: str) -> Tree:
    hidden = _constants(view, graph)
    outline = _Outline(view, graph, hidden)
    branches = [Branch("", "", -1, 0, 0, False)]
    of_node: dict[NodeId, int] = {}
    waiting: list[tuple[int, list[_Entry]]] = [(0, outline.entries(""))]
    while waiting:
        parent, entries = waiting.pop()
        entries.sort(key=lambda entry: entry.order)
        if len(entries) > MAX_CHILDREN:
            entries = _grouped(branches[parent].id, entries)
        for entry in entries:
            index = len(branches)
            branches[parent].children.append(index)
            branches.append(Branch(entry.id, entry.label, parent, entry.order, entry.count, entry.is_node))
            if entry.is_node:
                of_node[NodeId(entry.id)] = index
            else:
                waiting.append((index, outline.entries(entry.id) if entry.members is None else entry.members))
    branches[0].count = len(of_node)
    return Tree(branches, of_node, hidden)


class _Outline:
    """What each scope holds once constants are left out and lonely scopes have given way."""

    def __init__(self, view: GraphView, graph: str, hidden: dict[NodeId, NodeId]) -> None:
        self._view = view
        self._rank = {node_id: position for position, node_id in enumerate(view.graphs[graph].nodes)}
        self._scopes: dict[str, Scope] = {}
        self._nodes: dict[str, list[NodeId]] = {}
        self._counts: dict[str, int] = {}
        self._first: dict[str, int] = {}
        listed = [scope_tree(scoped_nodes(view, graph))]
        for scope in listed:
            listed.extend(scope.children)
        for scope in reversed(listed):
            nodes = [node for node in scope.nodes if node not in hidden]
            inner = [child.path for child in scope.children if self._counts[child.path]]
            self._scopes[scope.path] = scope
            self._nodes[scope.path] = nodes
            self._counts[scope.path] = len(nodes) + sum(self._counts[path] for path in inner)
            firsts = [self._rank[node] for node in nodes[:1]] + [self._first[path] for path in inner]
            self._first[scope.path] = min(firsts, default=0)

    def entries(self, path: str) -> list[_Entry]:
        """What is drawn right in a scope."""
        found = [self._node(node) for node in self._nodes[path]]
        for child in self._scopes[path].children:
            inner = child.path
            if not self._counts[inner]:
                continue
            while not self._nodes[inner] and len(below := self._filled(inner)) == 1:
                inner = below[0]
            if self._counts[inner] == 1:
                found.append(self._node(self._nodes[inner][0]))
            else:
                label = inner[len(path) :].strip("/") or inner
                found.append(_Entry(inner, label, self._first[inner], self._counts[inner], False))
        return found

    def _filled(self, path: str) -> list[str]:
        return [child.path for child in self._scopes[path].children if self._counts[child.path]]

    def _node(self, node_id: NodeId) -> _Entry:
        name = node_id[len(graph) + 1 :] if (graph := self._view.nodes[node_id].graph) else node_id
        return _Entry(node_id, name.rpartition("/")[2] or name, self._rank[node_id], 1, True)


def _constants(view: GraphView, graph: str) -> dict[NodeId, NodeId]:
    """Constants, and copies of weights, that are read in this graph and are no output: they are shown at their readers."""
    found: dict[NodeId, NodeId] = {}
    for node_id in view.graphs[graph].nodes:
        node = view.nodes[node_id]
        if node.domain or node.op_type not in ("Constant", "Identity"):
            continue
        if node.op_type == "Identity":
            source = view.tensors[node.inputs[0]] if node.inputs and node.inputs[0] is not None else None
            if source is None or not (source.role == "initializer" or source.producer in found):
                continue
        outputs = [view.tensors[tensor] for tensor in node.outputs if tensor is not None]
        readers = [_holder(view, reader, graph) for tensor in outputs for reader in tensor.consumers]
        if readers and not any(tensor.is_output for tensor in outputs):
            found[node_id] = readers[0]
    return found


def _holder(view: GraphView, node_id: NodeId, graph: str) -> NodeId:
    """The node of `graph` that holds a node of it or of a graph nested in it."""
    while (path := view.nodes[node_id].graph) != graph:
        outer = view.graphs[path].node
        if outer is None:
            break
        node_id = outer
    return node_id


def _grouped(path: str, entries: list[_Entry]) -> list[_Entry]:
    """Puts neighbours into groups of about equal size, and groups into groups, until few enough are left."""
    while len(entries) > MAX_CHILDREN:
        number = -(-len(entries) // GROUP_SIZE)
        size = -(-len(entries) // number)
        groups: list[_Entry] = []
        for start in range(0, len(entries), size):
            members = entries[start : start + size]
            first, last = members[0], members[-1]
            groups.append(
                _Entry(
                    f"{path}/[{first.order}:{last.order + 1}]",
                    f"{first.label} … {last.label}",
                    first.order,
                    sum(member.count for member in members),
                    False,
                    members,
                )
            )
        entries = groups
    return entries
