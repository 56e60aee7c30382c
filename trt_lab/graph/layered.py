"""Positions of boxes and edges of one level: ranks from top to bottom, few crossings, straight chains.

The steps are those of Sugiyama's layered drawing: ranks by longest path, long edges cut by bends,
order within ranks by barycentres, and positions by straight blocks as in Brandes and Köpf, "Fast and
Simple Horizontal Coordinate Assignment" (2001). Each step is linear in boxes, edges and bends, but for
sorting within a rank. No step depends on anything but its input, so the same graph gives the same picture.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

GAP_X = 24.0
GAP_Y = 32.0
BEND_GAP = 12.0
SWEEPS = 4
STRAIGHT_LIMIT = 300.0
"""How far a frame may stand from the line of its block to keep an edge straight."""

BEND_RANKS_LIMIT = 16
"""Edges over more ranks are drawn as portals by `layout`, so that bends stay few."""


@dataclass(slots=True)
class Link:
    """An edge of a level. `source_x` and `target_x` are where it leaves and enters, from the middle of the boxes.

    Links of one source and `trunk` share their bends.
    """

    source: int
    target: int
    trunk: int
    source_x: float = 0.0
    target_x: float = 0.0

    def key(self) -> tuple[float, ...]:
        """All of it; equal keys are equal links."""
        return (self.source, self.target, self.trunk, self.source_x, self.target_x)


@dataclass(slots=True)
class Placement:
    """Middle x and top y of each box, a route for each link, and the size of all."""

    x: list[float]
    y: list[float]
    routes: list[list[tuple[float, float]]]
    width: float
    height: float


FREE, FED, SOURCE = 0, 1, 2
"""What feeds a box from outside its level: nothing; a scope round it; or it is an input of the graph."""


def rank_boxes(
    orders: Sequence[int], pairs: Sequence[tuple[int, int]], feeds: Sequence[int]
) -> tuple[list[int], set[tuple[int, int]]]:
    """Rank of each box (its longest path from the top) and the pairs that would go upwards.

    Closing scopes can make rings of them; a ring is cut at its box that comes first in graph order.
    What hangs on constants only, and inputs, stand right above their first reader.

    Args:
        orders: Place of each box in graph order.
        pairs: (source, target), each once.
        feeds: FREE, FED or SOURCE for each box.
    """
    below: list[list[int]] = [[] for _ in orders]
    for source, target in pairs:
        below[source].append(target)
    order, place = _cut_rings(orders, below)
    upwards = {(source, target) for source, target in pairs if place[source] >= place[target]}
    ranks = [0] * len(orders)
    has_data = [feed != FREE for feed in feeds]
    for box in order:
        rank = ranks[box] + 1
        for target in below[box]:
            if place[target] > place[box]:
                has_data[target] |= has_data[box]
                ranks[target] = max(ranks[target], rank)
    for box in reversed(order):
        if not has_data[box] or feeds[box] == SOURCE:
            readers = [ranks[target] for target in below[box] if place[target] > place[box]]
            if readers:
                ranks[box] = min(readers) - 1
    return ranks, upwards


def _cut_rings(orders: Sequence[int], below: list[list[int]]) -> tuple[list[int], list[int]]:
    """Order in which boxes follow those they read from, as far as there are no rings; and the place of each in it."""
    count = len(orders)
    waiting = [0] * count
    for targets in below:
        for target in targets:
            waiting[target] += 1
    ready = [(orders[box], box) for box in range(count) if waiting[box] == 0]
    heapq.heapify(ready)
    stuck: list[int] | None = None
    place = [-1] * count
    order: list[int] = []
    while len(order) < count:
        if ready:
            box = heapq.heappop(ready)[1]
        else:
            if stuck is None:
                stuck = sorted(range(count), key=lambda box: (-orders[box], -box))
            box = stuck.pop()
        if place[box] >= 0:
            continue
        place[box] = len(order)
        order.append(box)
        for target in below[box]:
            waiting[target] -= 1
            if waiting[target] == 0:
                heapq.heappush(ready, (orders[target], target))
    return order, place


def place_boxes(
    widths: Sequence[float], heights: Sequence[float], ranks: Sequence[int], links: Sequence[Link]
) -> Placement:
    """Positions of boxes on given ranks; every link must go to a higher rank."""
    level = _Level(widths, heights, ranks, links)
    level.order()
    level.align()
    level.spread()
    return level.finish()


class _Level:
    """The state that the steps share. Vertices are the boxes, then the bends of long links."""

    def __init__(
        self, widths: Sequence[float], heights: Sequence[float], ranks: Sequence[int], links: Sequence[Link]
    ) -> None:
        self.links = links
        self.boxes = len(widths)
        self.width = list(widths)
        self.height = list(heights)
        used = sorted(set(ranks))
        compact = {rank: index for index, rank in enumerate(used)}
        self.rank = [compact[rank] for rank in ranks]
        self.rows: list[list[int]] = [[] for _ in used]
        for box, rank in enumerate(self.rank):
            self.rows[rank].append(box)
        # (neighbour, own offset, the neighbour's offset) per vertex
        self.up: list[list[tuple[int, float, float]]] = [[] for _ in widths]
        self.down: list[list[tuple[int, float, float]]] = [[] for _ in widths]
        self.paths: list[list[int]] = []
        self._cut_links()
        self.position = [0] * len(self.width)

    def _cut_links(self) -> None:
        """Puts bends on the ranks that a link crosses; links of one trunk share them."""
        trunks: dict[tuple[int, int], list[int]] = {}
        joined: set[tuple[int, int]] = set()
        for link in self.links:
            first, last = self.rank[link.source], self.rank[link.target]
            bends = trunks.setdefault((link.source, link.trunk), [])
            while len(bends) < last - first - 1:
                bend = len(self.width)
                self.width.append(0.0)
                self.height.append(0.0)
                self.rank.append(first + len(bends) + 1)
                self.up.append([])
                self.down.append([])
                self.rows[self.rank[bend]].append(bend)
                previous = bends[-1] if bends else link.source
                self._join(previous, bend, 0.0 if bends else link.source_x, 0.0)
                bends.append(bend)
            path = bends[: last - first - 1]
            self.paths.append(path)
            previous = path[-1] if path else link.source
            if not path or (previous, link.target) not in joined:
                joined.add((previous, link.target))
                self._join(previous, link.target, 0.0 if path else link.source_x, link.target_x)

    def _join(self, upper: int, lower: int, upper_x: float, lower_x: float) -> None:
        self.down[upper].append((lower, upper_x, lower_x))
        self.up[lower].append((upper, lower_x, upper_x))

    # --- order within ranks ----------------------------------------------------------------

    def order(self) -> None:
        """Orders each rank by the mean place of the neighbours, downwards and upwards in turn."""
        for row in self.rows:
            self._number(row)
        if all(len(row) == 1 for row in self.rows):
            return
        for sweep in range(SWEEPS):
            downwards = sweep % 2 == 0
            rows = self.rows[1:] if downwards else self.rows[-2::-1]
            neighbours = self.up if downwards else self.down
            for row in rows:
                if len(row) > 1:
                    self._sort(row, neighbours)

    def _sort(self, row: list[int], neighbours: list[list[tuple[int, float, float]]]) -> None:
        position, width = self.position, self.width
        keys: dict[int, float] = {}
        last = -1.0
        for vertex in row:
            mine = neighbours[vertex]
            if len(mine) == 1:
                other, _, offset = mine[0]
                last = position[other] + (offset / width[other] if offset else 0.0)
            elif mine:
                total = 0.0
                for other, _, offset in mine:
                    total += position[other] + (offset / width[other] if offset else 0.0)
                last = total / len(mine)
            keys[vertex] = last
        row.sort(key=keys.__getitem__)
        self._number(row)

    def _number(self, row: list[int]) -> None:
        position = self.position
        for index, vertex in enumerate(row):
            position[vertex] = index

    # --- straight blocks -------------------------------------------------------------------

    def align(self) -> None:
        """Joins vertices into blocks that are drawn on one vertical line."""
        count = len(self.width)
        self.block = list(range(count))
        self.shift = [0.0] * count
        taken = [False] * count
        for row in self.rows[1:]:
            if len(row) == 1:
                vertex = row[0]
                self._align_first(vertex, taken)
                continue
            partner: list[int] = [-1] * len(row)
            bent = any(vertex >= self.boxes for vertex in row)
            for priority in (2, 1, 0) if bent else (1, 0):
                self._align_row(row, partner, taken, priority)

    def _align_first(self, vertex: int, taken: list[bool]) -> None:
        candidates = [entry for entry in self._medians(vertex) if not taken[entry[0]]]
        if candidates:
            taken[candidates[0][0]] = True
            self._attach(vertex, candidates[0])

    def _medians(self, vertex: int) -> list[tuple[int, float, float]]:
        """Upper neighbours to stand under, best first: the middle ones, boxes before bends."""
        mine = self.up[vertex]
        if len(mine) < 2:
            return mine
        ordered = sorted(mine, key=lambda entry: self.position[entry[0]])
        middle = len(ordered) // 2
        best = ordered[middle : middle + 1] if len(ordered) % 2 else ordered[middle - 1 : middle + 1]
        return sorted(best, key=lambda entry: (entry[0] >= self.boxes, len(self.down[entry[0]])))

    def _priority(self, vertex: int, other: int) -> int:
        if vertex >= self.boxes and other >= self.boxes:
            return 2  # the inner part of a long edge
        return 1 if vertex < self.boxes and other < self.boxes else 0

    def _align_row(self, row: list[int], partner: list[int], taken: list[bool], priority: int) -> None:
        """Aligns vertices of one rank whose edge has the given priority, without crossing earlier ones."""
        position = self.position
        if min(partner) >= 0:
            return
        ceiling = [1 << 30] * (len(row) + 1)
        for index in range(len(row) - 1, -1, -1):
            ceiling[index] = partner[index] if partner[index] >= 0 else ceiling[index + 1]
        floor = -1
        for index, vertex in enumerate(row):
            if partner[index] >= 0:
                floor = partner[index]
                continue
            for entry in self._medians(vertex):
                other = entry[0]
                if (
                    not taken[other]
                    and floor < position[other] < ceiling[index + 1]
                    and self._priority(vertex, other) == priority
                ):
                    taken[other] = True
                    partner[index] = floor = position[other]
                    self._attach(vertex, entry)
                    break

    def _attach(self, vertex: int, entry: tuple[int, float, float]) -> None:
        other, own, offset = entry
        self.block[vertex] = self.block[other]
        shift = self.shift[other] + offset - own
        # Frames whose edges enter left and leave right would otherwise walk off the canvas, row by row.
        self.shift[vertex] = shift if abs(shift) < STRAIGHT_LIMIT else 0.0

    # --- positions -------------------------------------------------------------------------

    def spread(self) -> None:
        """Places blocks: packed to the left first, then drawn towards their neighbours as far as there is room."""
        block, shift, width, boxes = self.block, self.shift, self.width, self.boxes
        left: dict[int, dict[int, float]] = {}
        right: dict[int, dict[int, float]] = {}
        for row in self.rows:
            for a, b in pairwise(row):
                gap = GAP_X if a < boxes and b < boxes else BEND_GAP
                apart = (width[a] + width[b]) / 2 + gap + shift[a] - shift[b]
                one, two = block[a], block[b]
                mine = right.setdefault(one, {})
                if apart > mine.get(two, -1e30):
                    mine[two] = apart
                    left.setdefault(two, {})[one] = apart
        pulls: dict[int, list[tuple[int, float]]] = {}
        for vertex, entries in enumerate(self.down):
            for other, own, offset in entries:
                one, two = block[vertex], block[other]
                if one != two:
                    difference = shift[vertex] + own - shift[other] - offset
                    pulls.setdefault(one, []).append((two, -difference))
                    pulls.setdefault(two, []).append((one, difference))
        members = sorted(set(block))
        x = dict.fromkeys(members, 0.0)
        order = _packed(members, left, right, x)
        for _ in range(3):
            for sequence in (reversed(order), order):
                for one in sequence:
                    mine = pulls.get(one)
                    if mine is None:
                        continue
                    wanted = sum(x[two] + difference for two, difference in mine) / len(mine)
                    if (limits := left.get(one)) is not None:
                        wanted = max(wanted, max(x[two] + apart for two, apart in limits.items()))
                    if (limits := right.get(one)) is not None:
                        wanted = min(wanted, min(x[two] - apart for two, apart in limits.items()))
                    x[one] = wanted
        self.x = [x[block[vertex]] + shift[vertex] for vertex in range(len(width))]

    # --- result ----------------------------------------------------------------------------

    def finish(self) -> Placement:
        """Adds y, moves everything to start at 0, and draws the routes."""
        tops: list[float] = []
        bottoms: list[float] = []
        y = 0.0
        for row in self.rows:
            tops.append(y)
            y += max(self.height[vertex] for vertex in row)
            bottoms.append(y)
            y += GAP_Y
        start = min(x - width / 2 for x, width in zip(self.x, self.width, strict=True))
        self.x = [x - start for x in self.x]
        tall = [(tops[r] + bottoms[r] - h) / 2 for r, h in zip(self.rank[: self.boxes], self.height, strict=False)]
        routes = [
            self._route(link, path, tall, tops, bottoms) for link, path in zip(self.links, self.paths, strict=True)
        ]
        end = max(x + width / 2 for x, width in zip(self.x, self.width, strict=True))
        return Placement(self.x[: self.boxes], tall, routes, end, bottoms[-1])

    def _route(
        self, link: Link, path: list[int], tall: list[float], tops: list[float], bottoms: list[float]
    ) -> list[tuple[float, float]]:
        """Points from the lower side of the source to the upper side of the target; straight runs hold no extra ones."""
        source, target = link.source, link.target
        x = self.x[source] + link.source_x
        points = [(x, tall[source] + self.height[source]), (x, bottoms[self.rank[source]])]
        for bend in path:
            rank = self.rank[bend]
            points += [(self.x[bend], tops[rank]), (self.x[bend], bottoms[rank])]
        x = self.x[target] + link.target_x
        points += [(x, tops[self.rank[target]]), (x, tall[target])]
        return simplify(points)


def simplify(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Leaves out points that repeat, or lie on a vertical between their neighbours."""
    kept: list[tuple[float, float]] = []
    for point in points:
        if kept and kept[-1] == point:
            continue
        if len(kept) > 1 and kept[-2][0] == kept[-1][0] == point[0]:
            kept[-1] = point
        else:
            kept.append(point)
    return kept


def _packed(
    members: list[int], left: dict[int, dict[int, float]], right: dict[int, dict[int, float]], x: dict[int, float]
) -> list[int]:
    """Places every block as far left as it goes, and returns them from left to right."""
    waiting = {one: len(left.get(one, ())) for one in members}
    order = [one for one in members if not waiting[one]]
    for one in order:
        here = x[one]
        for two, apart in right.get(one, {}).items():
            x[two] = max(x[two], here + apart)
            waiting[two] -= 1
            if not waiting[two]:
                order.append(two)
    return order
