"""The search on engines, where the clean engine contradicts the emulation: every trial is a build, so few of them.

Nodes of one fused layer share a type, so they are kept or left together at first: a group. What emulation found is
only made minimal where it passes; else it is widened to whole layers, then to the layers beside them. Where that fails, the groups are bisected in
topological order: the shortest beginning that passes, then the shortest end of that. What is left is
made minimal, blocks of groups first, single nodes last.

All of it works on verdicts. Who builds is the caller's business.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from trt_lab.diagnose.locate import Region, Trial, contradictions, shrink
from trt_lab.graph.view import GraphView
from trt_lab.types import LayerInfo, NodeId

MOST_BUILDS = 24
"""Engines built at most by one search."""

Group: TypeAlias = tuple[NodeId, ...]

Attempt: TypeAlias = Callable[[Sequence[tuple[NodeId, ...]]], Sequence[Trial | None]]
"""Builds one engine for each set of kept nodes, side by side where it can; None for one that did not build."""


@dataclass(frozen=True)
class EngineFound:
    """What the search on engines found.

    Attributes:
        region: Its `keep_fp32` is empty when no set passes.
        exhausted: `limit` engines were built before the set was minimal.
        unbuilt: Sets whose engine did not build; they count as neither good nor bad.
        all_fail: Even with everything in FP32 the engine fails: the fault is not one of precision.
    """

    region: Region
    exhausted: bool = False
    unbuilt: int = 0
    all_fail: bool = False


class _EnoughError(Exception):
    """No more engines may be built."""


def group_by_layer(nodes: Sequence[NodeId], layers: Iterable[LayerInfo]) -> tuple[Group, ...]:
    """`nodes` in groups that share a fused layer, in topological order; a node of no layer is a group of its own.

    A node that went into several layers joins them.

    Args:
        nodes: In topological order.
        layers: Of an engine; nodes that are not among `nodes` do not count.
    """
    known = {node: index for index, node in enumerate(nodes)}
    lead = {node: node for node in nodes}

    def root(node: NodeId) -> NodeId:
        while lead[node] != node:
            lead[node] = lead[lead[node]]
            node = lead[node]
        return node

    for layer in layers:
        mine = [node for node in layer.nodes if node in known]
        for node in mine[1:]:
            a, b = sorted((root(mine[0]), root(node)), key=known.__getitem__)
            lead[b] = a
    found: dict[NodeId, list[NodeId]] = {}
    for node in nodes:
        found.setdefault(root(node), []).append(node)
    return tuple(tuple(group) for group in found.values())


class EngineSearch:
    """One search on engines; `run` does it.

    Args:
        view: Graph of `nodes`.
        nodes: Those that can be low, in topological order.
        groups: Of `nodes`, see `group_by_layer`.
        attempt: Builds.
        tried: Trials that were made before; they are not made again, and do not count.
        limit: Engines built at most. width: Engines built side by side.
    """

    def __init__(
        self,
        view: GraphView,
        nodes: Sequence[NodeId],
        groups: Sequence[Group],
        attempt: Attempt,
        *,
        tried: Sequence[Trial] = (),
        limit: int = MOST_BUILDS,
        width: int = 1,
    ) -> None:
        self._view, self._nodes, self._groups = view, tuple(nodes), tuple(groups)
        self._attempt, self._limit, self._width = attempt, limit, max(1, width)
        self._known: dict[frozenset[NodeId], Trial | None] = {frozenset(t.keep_fp32): t for t in tried}
        self.built = 0
        """Engines built here, those that failed to build included."""

    def run(self, first: Collection[NodeId] = ()) -> EngineFound:
        """Searches; `first` is what emulation would keep.

        A build that fails is no failure of accuracy: its set is passed over.
        """
        try:
            start = self._start(first)
            if start is None:
                return EngineFound(self._region((), minimal=False), unbuilt=self._unbuilt, all_fail=True)
            kept = self._minimal(start, first)
            return EngineFound(self._region(kept, minimal=True), unbuilt=self._unbuilt)
        except _EnoughError:
            passing = [t for t in self._known.values() if t is not None and t.passes]
            best = min(passing, key=lambda t: len(t.keep_fp32), default=None)
            region = self._region(best.keep_fp32 if best is not None else (), minimal=False)
            return EngineFound(region, exhausted=True, unbuilt=self._unbuilt)

    # --- stages ----------------------------------------------------------------------------

    def _start(self, first: Collection[NodeId]) -> list[Group] | None:
        """Groups that pass together; None when all of them fail."""
        wanted = set(first)
        known = self._known.get(frozenset(wanted))
        if known is not None and known.passes:
            return [(node,) for node in self._nodes if node in wanted]
        touched = [g for g in self._groups if wanted.intersection(g)]
        beside = self._beside(touched)
        everything = list(self._groups)
        if self._width > 1:
            self._prepare([c for c in (touched, beside, everything) if c])
        for candidate in (touched, beside):
            if candidate and self._passes(candidate):
                return candidate
        if not self._passes(everything):
            return None
        high = self._cut(len(everything), lambda end: everything[:end])
        shorter = self._cut(high, lambda length: everything[high - length : high])
        return everything[high - shorter : high]

    def _cut(self, count: int, part: Callable[[int], list[Group]]) -> int:
        """The smallest number whose part passes, where that of `count` does and that of 0 does not."""
        low, high = 0, count
        while high - low > 1:
            gaps = min(self._width, high - low - 1) + 1
            points = sorted({low + (high - low) * i // gaps for i in range(1, gaps)} - {low, high})
            self._prepare([part(point) for point in points])
            good = next((point for point in points if self._passes(part(point))), None)
            high, low = (
                (high, points[-1]) if good is None else (good, max((p for p in points if p < good), default=low))
            )
        return high

    def _minimal(self, groups: list[Group], first: Collection[NodeId]) -> list[NodeId]:
        wanted = set(first)
        ordered = sorted(
            groups, key=lambda g: not wanted.intersection(g)
        )  # what emulation did not ask for is dropped first
        if len(ordered) > 1:
            ordered = shrink(ordered, self._passes)
        nodes = [node for group in ordered for node in group]
        if len(nodes) > 1:
            if self._width > 1:
                self._prepare([[tuple(n for n in nodes if n != node)] for node in nodes])
            nodes = shrink(nodes, lambda left: self._passes([tuple(left)]))
        return [node for node in self._nodes if node in set(nodes)]

    def _beside(self, groups: Sequence[Group]) -> list[Group]:
        """`groups` and those that read from them or that they read from."""
        mine = {node for group in groups for node in group}
        near = {n for node in mine for n in (*self._view.predecessors(node), *self._view.successors(node))}
        return [g for g in self._groups if mine.intersection(g) or near.intersection(g)] if groups else []

    # --- builds ----------------------------------------------------------------------------

    def _keep(self, groups: Sequence[Group]) -> tuple[NodeId, ...]:
        kept = {node for group in groups for node in group}
        return tuple(node for node in self._nodes if node in kept)

    def _passes(self, groups: Sequence[Group]) -> bool:
        self._prepare([groups])
        trial = self._known[frozenset(self._keep(groups))]
        return trial is not None and trial.passes

    def _prepare(self, wanted: Sequence[Sequence[Group]]) -> None:
        """Makes the trials that were not made yet, as many at once as may be. Raises _EnoughError."""
        sets = dict.fromkeys(self._keep(groups) for groups in wanted)
        new = [keep for keep in sets if frozenset(keep) not in self._known]
        for place in range(0, len(new), self._width):
            batch = new[place : place + self._width]
            if self.built + len(batch) > self._limit:
                raise _EnoughError
            self.built += len(batch)
            for keep, trial in zip(batch, self._attempt(batch), strict=True):
                self._known[frozenset(keep)] = trial

    @property
    def _unbuilt(self) -> int:
        return sum(trial is None for trial in self._known.values())

    def _region(self, kept: Iterable[NodeId], *, minimal: bool) -> Region:
        tried = tuple(trial for trial in self._known.values() if trial is not None)
        return Region(tuple(kept), minimal=minimal, trials=tried, monotone=not contradictions(tried))


def needed(trials: Sequence[Trial], kept: Collection[NodeId]) -> Mapping[NodeId, bool | None]:
    """For each kept node whether the check failed without it; None where that was not tried."""
    results = {frozenset(trial.keep_fp32): trial.passes for trial in trials}
    return {node: None if (passed := results.get(frozenset(kept) - {node})) is None else not passed for node in kept}
