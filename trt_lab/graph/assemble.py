"""From a view and a set of open scopes to placed things: which edges are drawn, which become portals, what holds what."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from trt_lab.graph.layered import (
    BEND_RANKS_LIMIT,
    FED,
    FREE,
    SOURCE,
    Link,
    Placement,
    place_boxes,
    rank_boxes,
    simplify,
)
from trt_lab.graph.tree import Tree, tree_of
from trt_lab.graph.view import GraphView
from trt_lab.types import TensorId

READERS_LIMIT = 8
"""Tensors with more readers on the canvas are drawn as portals."""

_CHARACTER = 7.0
_HEIGHTS = {"node": 40.0, "scope": 44.0, "frame": 0.0, "input": 26.0, "output": 26.0, "outer": 26.0, "portal": 18.0}
_WIDEST = 230.0
_HEADER = 30.0
_PAD = 18.0
_PORT_WIDTH = 8.0


@dataclass(slots=True)
class Thing:
    """A box on the canvas; `x`, `y` is its upper left corner once `Assembly.run` is through. See `Layout`."""

    id: str
    label: str
    op_type: str
    kind: str
    count: int = 0
    parent: int = -1
    peer: int = -1
    width: float = 0.0
    height: float = 0.0
    x: float = 0.0
    y: float = 0.0


@dataclass(slots=True)
class Edge:
    """An edge between things; `legs` are (level, link in it) from the source to the target."""

    source: int
    target: int
    tensor: TensorId
    legs: list[tuple[int, int]] = field(default_factory=list)
    route: list[tuple[float, float]] = field(default_factory=list)


@dataclass(slots=True)
class _Level:
    """One open scope. `boxes` holds things by index, and ports as ~index into `ports`."""

    frame: int
    depth: int
    boxes: list[int] = field(default_factory=list)
    local: dict[int, int] = field(default_factory=dict)
    ranks: list[int] = field(default_factory=list)
    upwards: set[tuple[int, int]] = field(default_factory=set)
    pairs: dict[tuple[int, int], None] = field(default_factory=dict)
    fed: set[int] = field(default_factory=set)
    lowest: int = 0
    ports: dict[tuple[str, TensorId], int] = field(default_factory=dict)
    links: dict[tuple[int, int, TensorId], int] = field(default_factory=dict)
    placement: Placement | None = None
    content_x: float = 0.0
    content_y: float = 0.0


class Assembly:
    """Builds the things and edges of one layout; all steps are loops, so depth is no limit."""

    def __init__(self, view: GraphView, expanded: frozenset[str], graph: str) -> None:
        self.view = view
        self.graph = graph
        self.tree: Tree = tree_of(view, graph)
        self.things: list[Thing] = []
        self.edges: list[Edge] = []
        self.width = self.height = 0.0
        self._orders: list[int] = []
        self._levels: dict[int, _Level] = {-1: _Level(-1, 0)}
        self._shown: list[int] = []
        self._placed: dict[tuple[float, ...], Placement] = {}
        self._place_tree(expanded)

    def run(self) -> None:
        """All steps in turn."""
        wanted = self._connect()
        self._rank(wanted)
        self._draw(wanted)
        for level in sorted(self._levels.values(), key=lambda level: -level.depth):
            self._place(level)
        self._settle()

    def shown_ids(self) -> dict[str, str]:
        """For each node that is not drawn itself, the id of what stands for it."""
        found: dict[str, str] = {}
        for node, branch in self.tree.of_node.items():
            thing = self._shown[branch]
            if self.things[thing].id != node or self.things[thing].kind != "node":
                found[node] = self.things[thing].id
        for node, reader in self.tree.hidden.items():
            while reader in self.tree.hidden:
                reader = self.tree.hidden[reader]
            found[node] = found.get(reader, reader)
        return found

    # --- what is there ---------------------------------------------------------------------

    def _place_tree(self, expanded: frozenset[str]) -> None:
        """Makes a thing of every visible node and scope, frames first."""
        branches = self.tree.branches
        opened = [False] * len(branches)
        opened[0] = True
        for index in range(1, len(branches)):
            branch = branches[index]
            opened[index] = not branch.is_node and opened[branch.parent] and branch.id in expanded
        self._shown = [-1] * len(branches)
        for wants_frames in (True, False):
            for index in range(1, len(branches)):
                if opened[index] == wants_frames and opened[branches[index].parent]:
                    self._shown[index] = self._add_branch(index, wants_frames)
        for index in range(1, len(branches)):
            if self._shown[index] < 0:
                self._shown[index] = self._shown[branches[index].parent]

    def _add_branch(self, index: int, is_frame: bool) -> int:
        branch = self.tree.branches[index]
        kind = "node" if branch.is_node else "frame" if is_frame else "scope"
        op_type = self.view.node(branch.id).op_type if branch.is_node else ""
        label = branch.label
        parent = self._shown[branch.parent]
        thing = self._add(Thing(branch.id, label, op_type, kind, branch.count, parent), branch.order)
        if is_frame:
            self._levels[thing] = _Level(thing, self._levels[parent].depth + 1)
        return thing

    def _add(self, thing: Thing, order: int) -> int:
        text = max(len(thing.label), len(thing.op_type))
        if thing.kind == "scope":
            text += len(str(thing.count)) + 3
        thing.width = min(max(60.0, text * _CHARACTER + 36), _WIDEST)
        thing.height = _HEIGHTS[thing.kind]
        index = len(self.things)
        self.things.append(thing)
        self._orders.append(order)
        level = self._levels[thing.parent]
        level.local[index] = len(level.boxes)
        level.boxes.append(index)
        return index

    # --- edges -----------------------------------------------------------------------------

    def _connect(self) -> dict[tuple[int, int, TensorId], None]:
        """Finds all edges between visible things, and adds those for inputs, outputs and outer tensors."""
        view, tree, shown = self.view, self.tree, self._shown
        info = view.graphs[self.graph]
        pills: dict[TensorId, int] = {}
        for tensor in info.inputs:
            pills[tensor] = self._add(Thing(tensor, view.tensors[tensor].name, "", "input"), -1)
        wanted: dict[tuple[int, int, TensorId], None] = {}

        def source_of(tensor_id: TensorId) -> int | None:
            if tensor_id in pills:
                return pills[tensor_id]
            tensor = view.tensors[tensor_id]
            if tensor.graph != self.graph:
                pills[tensor_id] = self._add(Thing(tensor_id, tensor.name, "", "outer"), -1)
                return pills[tensor_id]
            branch = tree.of_node.get(tensor.producer) if tensor.producer is not None else None
            return None if branch is None else shown[branch]

        for node_id, branch in tree.of_node.items():
            node = view.nodes[node_id]
            target = shown[branch]
            for tensor_id in (*node.inputs, *node.captures) if node.captures else node.inputs:
                source = source_of(tensor_id) if tensor_id is not None else None
                if source is not None and source != target:
                    wanted[source, target, tensor_id] = None  # pyright: ignore[reportArgumentType] (checked above)
        last = len(view.nodes)
        for tensor_id in dict.fromkeys(info.outputs):
            pill = self._add(Thing(tensor_id, view.tensors[tensor_id].name, "", "output"), last)
            source = source_of(tensor_id)
            if source is not None:
                wanted[source, pill, tensor_id] = None
        return wanted

    def _chains(self, source: int, target: int) -> tuple[list[int], list[int]]:
        """The things above source and target, themselves first, up to the two that stand in the same level."""
        things, levels = self.things, self._levels
        up, down = [source], [target]
        a, b = things[source].parent, things[target].parent
        while a != b:
            if levels[a].depth >= levels[b].depth:
                up.append(a)
                a = things[a].parent
            else:
                down.append(b)
                b = things[b].parent
        return up, down

    def _rank(self, wanted: dict[tuple[int, int, TensorId], None]) -> None:
        """Gives every thing a rank in its level, from all edges, drawn ones and portals alike."""
        things, levels = self.things, self._levels
        for source, target, _ in wanted:
            if things[source].parent == things[target].parent:
                levels[things[source].parent].pairs[source, target] = None
                continue
            up, down = self._chains(source, target)
            levels[things[up[-1]].parent].pairs[up[-1], down[-1]] = None
            for inner in down[:-1]:
                levels[things[inner].parent].fed.add(inner)
        for level in levels.values():
            local = level.local
            feeds = [
                SOURCE if things[box].kind in ("input", "outer") else FED if box in level.fed else FREE
                for box in level.boxes
            ]
            pairs = [(local[a], local[b]) for a, b in level.pairs]
            level.ranks, level.upwards = rank_boxes([self._orders[box] for box in level.boxes], pairs, feeds)
            level.lowest = max(level.ranks, default=0)

    def _is_portal(self, up: list[int], down: list[int]) -> bool:
        """Whether an edge would go upwards or over too many ranks in any of the levels it crosses."""
        things, levels = self.things, self._levels
        level = levels[things[up[-1]].parent]
        a, b = level.local[up[-1]], level.local[down[-1]]
        if (a, b) in level.upwards or level.ranks[b] - level.ranks[a] > BEND_RANKS_LIMIT:
            return True
        for inner in up[:-1]:
            level = levels[things[inner].parent]
            if level.lowest - level.ranks[level.local[inner]] >= BEND_RANKS_LIMIT:
                return True
        for inner in down[:-1]:
            level = levels[things[inner].parent]
            if level.ranks[level.local[inner]] >= BEND_RANKS_LIMIT:
                return True
        return False

    def _draw(self, wanted: dict[tuple[int, int, TensorId], None]) -> None:
        """Turns wanted edges into links of the levels they cross, or into portals."""
        readers: dict[TensorId, int] = {}
        for _, _, tensor in wanted:
            readers[tensor] = readers.get(tensor, 0) + 1
        leaving: dict[tuple[int, TensorId], int] = {}
        for source, target, tensor in wanted:
            up, down = self._chains(source, target)
            if readers[tensor] > READERS_LIMIT or self._is_portal(up, down):
                self._add_portals(source, target, tensor, leaving)
                continue
            edge = Edge(source, target, tensor)
            levels, things = self._levels, self.things
            for inner, outer in itertools.pairwise(up):
                level = levels[outer]
                edge.legs.append((outer, self._link(level, inner, self._port(level, "out", tensor), tensor)))
            common = things[up[-1]].parent
            edge.legs.append((common, self._link(levels[common], up[-1], down[-1], tensor)))
            for outer, inner in zip(down[:0:-1], down[-2::-1], strict=False):
                level = levels[outer]
                edge.legs.append((outer, self._link(level, self._port(level, "in", tensor), inner, tensor)))
            self.edges.append(edge)

    def _add_portals(
        self, source: int, target: int, tensor: TensorId, leaving: dict[tuple[int, TensorId], int]
    ) -> None:
        """Draws an edge as two stubs: one under the source for all its readers, one above the target."""
        name = self.view.tensors[tensor].name
        for here, is_source in ((source, True), (target, False)):
            if is_source and (here, tensor) in leaving:
                continue
            level = self._levels[self.things[here].parent]
            rank = level.ranks[level.local[here]]
            other = self.things[target if is_source else source]
            label = name.rpartition("/")[2] if is_source else other.label
            portal = self._add(
                Thing(tensor, label, "", "portal", 0, self.things[here].parent, target if is_source else source),
                self._orders[here],
            )
            level.ranks.append(rank + 1 if is_source else rank - 1)
            first, second = (here, portal) if is_source else (portal, here)
            link = self._link(level, first, second, tensor)
            self.edges.append(Edge(first, second, tensor, [(level.frame, link)]))
            if is_source:
                leaving[here, tensor] = portal

    def _port(self, level: _Level, side: str, tensor: TensorId) -> int:
        """The place on the upper or lower side of a frame where a tensor comes in or goes out."""
        port = level.ports.get((side, tensor))
        if port is None:
            port = ~len(level.ports)
            level.ports[side, tensor] = port
            level.local[port] = len(level.boxes)
            level.boxes.append(port)
            level.ranks.append(-2 if side == "in" else level.lowest + 2)
        return port

    def _link(self, level: _Level, source: int, target: int, tensor: TensorId) -> int:
        return level.links.setdefault((source, target, tensor), len(level.links))

    # --- positions -------------------------------------------------------------------------

    def _place(self, level: _Level) -> None:
        """Places one level; the levels in it are placed already."""
        if not level.boxes:
            return
        things = self.things
        trunks: dict[TensorId, int] = {}
        links: list[Link] = []
        for source, target, tensor in level.links:
            trunk = trunks.setdefault(tensor, len(trunks))
            source_x, target_x = self._port_x(source, "out", tensor), self._port_x(target, "in", tensor)
            links.append(Link(level.local[source], level.local[target], trunk, source_x, target_x))
        widths = [things[box].width if box >= 0 else _PORT_WIDTH for box in level.boxes]
        heights = [things[box].height if box >= 0 else 0.0 for box in level.boxes]
        key = (*widths, *heights, *level.ranks, *(part for link in links for part in link.key()))
        placement = self._placed.get(key)
        if placement is None:  # repeated blocks of a network are placed once
            placement = self._placed[key] = place_boxes(widths, heights, level.ranks, links)
        level.placement = placement
        if level.frame < 0:
            self.width, self.height = placement.width, placement.height
            return
        frame = things[level.frame]
        has_entry = any(side == "in" for side, _ in level.ports)
        has_exit = any(side == "out" for side, _ in level.ports)
        frame.width = max(placement.width + 2 * _PAD, frame.width)
        level.content_x = (frame.width - placement.width) / 2
        level.content_y = 0.0 if has_entry else _HEADER
        frame.height = level.content_y + placement.height + (0.0 if has_exit else _PAD)

    def _port_x(self, box: int, side: str, tensor: TensorId) -> float:
        """Where an edge meets a frame, from its middle; 0 for other boxes."""
        level = self._levels.get(box) if box >= 0 else None
        if level is None or level.placement is None:
            return 0.0
        port = level.ports[side, tensor]
        return level.content_x + level.placement.x[level.local[port]] - self.things[box].width / 2

    def _settle(self) -> None:
        """Moves every level to its place on the canvas, and joins the legs of edges."""
        origin: dict[int, tuple[float, float]] = {}
        routes: dict[int, list[list[tuple[float, float]]]] = {}
        for level in sorted(self._levels.values(), key=lambda level: level.depth):
            if level.placement is None:
                continue
            frame = self.things[level.frame] if level.frame >= 0 else None
            left = frame.x + level.content_x if frame else 0.0
            top = frame.y + level.content_y if frame else 0.0
            origin[level.frame] = (left, top)
            for box, x, y in zip(level.boxes, level.placement.x, level.placement.y, strict=True):
                if box >= 0:
                    thing = self.things[box]
                    thing.x, thing.y = left + x - thing.width / 2, top + y
            routes[level.frame] = level.placement.routes
        for edge in self.edges:
            points: list[tuple[float, float]] = []
            for frame_index, link in edge.legs:
                left, top = origin[frame_index]
                points += [(x + left, y + top) for x, y in routes[frame_index][link]]
            edge.route = simplify(points) if len(edge.legs) > 1 else points
