"""Time by ONNX node and by scope: the time of each layer shared out to the nodes that went into it.

What a profiler measures are layers. A node that is alone in its layer has that layer's time; nodes that were fused
share it, in equal parts unless weights are given: an estimate, and marked as one. Times are counted in whole
femtoseconds, so that the parts add up to the sum of the layers exactly, whatever the order of adding.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

import numpy as np

from trt_lab.engine_nodes import is_reformat, name_parts, plain_name
from trt_lab.graph.scopes import scope_of
from trt_lab.profiling.matching import LayerKey
from trt_lab.profiling.source import Engine
from trt_lab.types import LayerInfo, LayerTime, NodeId

FS_PER_MS = 10**12
"""Femtoseconds in a millisecond."""

Statistic = Literal["median", "average"]

LAYER_KEY = "layer "
"""Put before the name of a layer of which no node is known, so that no node can have the same key."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A layer of an engine with its time; or a name that was timed and is no layer.

    Attributes:
        name: Of the layer.
        keys: Its nodes; where none is known the name alone, without Myelin's numbers, marked by `LAYER_KEY`.
        layer: None for a name that is no layer.
        time: None when it was not timed.
    """

    name: str
    keys: tuple[str, ...]
    layer: LayerInfo | None
    time: LayerTime | None

    @property
    def key(self) -> LayerKey:
        """What it is matched by in another engine."""
        return LayerKey(self.keys, self.name)

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        """Its nodes; empty when none is known."""
        return () if self.keys[0].startswith(LAYER_KEY) else tuple(NodeId(key) for key in self.keys)

    @property
    def reformat(self) -> bool:
        """Whether it only changes type or layout of another layer's tensor."""
        return is_reformat(self.layer or LayerInfo(0, self.name, ""))


@dataclass(frozen=True, slots=True)
class NodeTime:
    """Time of one node.

    Attributes:
        key: The node; or, by `LAYER_KEY`, a layer of which no node is known.
        scope: The `/a/b` part of the node's name.
        time_fs: Its part of the layers it went into, in femtoseconds.
        layers: Names of those layers that were timed.
        exact: It was alone in all of them, so that its time was measured and not shared out.
        runs_ms: Its part in each run; empty where the runs are not known.
    """

    key: str
    scope: str
    time_fs: int
    layers: tuple[str, ...]
    exact: bool
    runs_ms: tuple[float, ...] = ()

    @property
    def is_node(self) -> bool:
        """Whether it is a node of the model."""
        return not self.key.startswith(LAYER_KEY)

    @property
    def label(self) -> str:
        """Name for people."""
        return self.key.removeprefix(LAYER_KEY)

    @property
    def ms(self) -> float:
        """Its time in ms."""
        return self.time_fs / FS_PER_MS


@dataclass(frozen=True)
class NodeTimes:
    """Times of all nodes of an engine.

    Attributes:
        rows: In the order in which the engine runs them.
        statistic: Which figure of a layer was shared out.
        total_fs: Sum of the layers, and of the rows, in femtoseconds.
    """

    rows: tuple[NodeTime, ...]
    statistic: Statistic
    total_fs: int
    by_key: Mapping[str, NodeTime] = field(repr=False)

    @property
    def total_ms(self) -> float:
        """Sum of the layers, and of the rows. Not the latency."""
        return self.total_fs / FS_PER_MS

    def by_scope(self, depth: int | None = None) -> dict[str, int]:
        """Scope → femtoseconds, each node counted once, so that these add up to `total_fs` as well.

        Args:
            depth: How many levels of scopes are told apart, from the outermost; None for all.
        """
        found: dict[str, int] = {}
        for row in self.rows:
            scope = cut_scope(row.scope, depth)
            found[scope] = found.get(scope, 0) + row.time_fs
        return found


def pieces_of(engine: Engine) -> tuple[Piece, ...]:
    """The layers of an engine in its order, then the timed names that are no layer.

    A profile alone has names only; the nodes are then read from those.
    """
    found = [Piece(layer.name, _keys(layer), layer, engine.time_of.get(layer.index)) for layer in engine.layers]
    for time in engine.times:
        if time.index >= len(engine.layers):
            parts = tuple(part for part in name_parts(time.name) if not part.startswith("__my"))
            found.append(Piece(time.name, parts or (_layer_key(time.name),), None, time))
    return tuple(found)


def statistic_of(*engines: Engine) -> Statistic:
    """`median` where all times of all engines have one, else `average`: the two are never mixed in one sum."""
    known = all(time.median_ms is not None for engine in engines for time in engine.times)
    return "median" if known else "average"


def layer_ms(time: LayerTime, statistic: Statistic) -> float:
    """The figure of a layer in ms."""
    return time.median_ms if statistic == "median" and time.median_ms is not None else time.average_ms


def layer_fs(time: LayerTime, statistic: Statistic) -> int:
    """The figure of a layer in whole femtoseconds."""
    return round(layer_ms(time, statistic) * FS_PER_MS)


def node_times(
    engine: Engine, *, statistic: Statistic | None = None, weights: Mapping[str, float] | None = None
) -> NodeTimes:
    """Shares the time of each layer out to its nodes.

    Args:
        engine: With or without the model; an engine that was not timed has no rows.
        statistic: `median` or `average` of the layers' runs; by default see `statistic_of`.
        weights: Node → weight, such as its operations, 0 or more. Nodes of a layer for which all weights are known
            and not all 0 share by them, others in equal parts.
    """
    chosen = statistic or statistic_of(engine)
    shares: dict[str, list[tuple[Piece, Fraction]]] = {}
    times: dict[str, int] = {}
    total = 0
    for piece in pieces_of(engine):
        if piece.time is None:
            continue
        whole = layer_fs(piece.time, chosen)
        total += whole
        parts = _fractions(piece.keys, weights or {})
        for key, part, amount in zip(piece.keys, parts, _divide(whole, parts), strict=True):
            shares.setdefault(key, []).append((piece, part))
            times[key] = times.get(key, 0) + amount
    rows = tuple(
        NodeTime(
            key=key,
            scope=_scope(engine, key),
            time_fs=times[key],
            layers=tuple(piece.name for piece, _ in given),
            exact=all(len(piece.keys) == 1 for piece, _ in given),
            runs_ms=_runs([(piece.time, float(part)) for piece, part in given if piece.time is not None]),
        )
        for key, given in shares.items()
    )
    return NodeTimes(rows, chosen, total, {row.key: row for row in rows})


def sum_runs(times: Iterable[LayerTime]) -> tuple[float, ...]:
    """Sum over layers in each run, in ms; empty where the runs of one are missing or are another number."""
    return _runs([(time, 1.0) for time in times])


def cut_scope(scope: str, depth: int | None) -> str:
    """The outermost `depth` levels of a scope: `/a/b/c` by 2 gives `/a/b`."""
    if depth is None:
        return scope
    start = "/" if scope.startswith("/") else ""
    return start + "/".join(scope.lstrip("/").split("/")[:depth]) if scope and depth > 0 else ""


def _keys(layer: LayerInfo) -> tuple[str, ...]:
    return tuple(str(node) for node in layer.nodes) or (_layer_key(layer.name),)


def _layer_key(name: str) -> str:
    return LAYER_KEY + plain_name(name)


def _scope(engine: Engine, key: str) -> str:
    if key.startswith(LAYER_KEY):
        return ""
    node = engine.view.nodes.get(NodeId(key)) if engine.view is not None else None
    return node.scope if node is not None else scope_of(key)


def _fractions(keys: Sequence[str], weights: Mapping[str, float]) -> list[Fraction]:
    """The part of each key; they add up to 1 exactly."""
    given = [weights.get(key) for key in keys]
    known = [Fraction(w) for w in given if w is not None and math.isfinite(w) and w >= 0]
    whole = sum(known, Fraction(0))
    if len(known) < len(keys) or not whole:
        return [Fraction(1, len(keys))] * len(keys)
    return [weight / whole for weight in known]


def _divide(whole: int, parts: Sequence[Fraction]) -> list[int]:
    """Whole numbers that stand to each other as `parts` do and add up to `whole` exactly."""
    found, given, reached = [], 0, Fraction(0)
    for part in parts:
        reached += part
        upto = int(whole * reached)
        found.append(upto - given)
        given = upto
    return found


def _runs(parts: Sequence[tuple[LayerTime, float]]) -> tuple[float, ...]:
    counts = {len(time.runs_ms) for time, _ in parts}
    if len(counts) != 1 or counts == {0}:
        return ()
    weights = np.array([part for _, part in parts])
    return tuple((weights @ np.array([time.runs_ms for time, _ in parts])).tolist())
