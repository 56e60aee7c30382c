"""Two engines of one model, compared by ONNX node: time won and lost, fusions, kernels and types that changed.

Layers are matched by the nodes in them (`profiling.matching`), never by row. Where one engine fused what the other did
not, the time of a single node is an estimate on one side; the group of layers that hold the same nodes is measured on
both, and is listed beside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from trt_lab.errors import CompareError
from trt_lab.profiling.changes import FusionChange, TacticChange, TypeChange, fusions, tactics, types
from trt_lab.profiling.matching import match_layers
from trt_lab.profiling.node_time import (
    FS_PER_MS,
    LAYER_KEY,
    NodeTimes,
    Piece,
    Statistic,
    cut_scope,
    layer_fs,
    node_times,
    pieces_of,
    statistic_of,
    sum_runs,
)
from trt_lab.profiling.noise import SIGNIFICANT, adjust_p_values, bootstrap_interval, rank_p_values
from trt_lab.profiling.source import Engine
from trt_lab.types import JsonValue

Change = Literal["faster", "slower", "noise", "unknown", "only_a", "only_b", "untimed"]
"""`unknown`: no times of single runs, so that noise cannot be told. `only_a`, `only_b`: the other has no layer with it."""

FACTS = (
    *("backend", "version", "gpu", "driver", "model_hash", "precision", "tf32", "timing_cache", "engine_hash"),
    *("compute_capability", "role"),
)
"""Facts of engines that explain a difference of times."""


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node in both engines; b against a.

    Attributes:
        node: The node, or a layer of which no node is known (`is_node` is False).
        scope: The `/a/b` part of its name.
        a_ms, b_ms: Its part of the layers it went into; None where an engine has no layer with it, or was not timed.
        delta_ms: b − a, a side without a layer counted as no time: these add up to the difference of the totals.
        measured: It was alone in its layers on both sides; else its time is a share of fused layers.
        p_value: That the runs differ by chance alone, corrected for the number of rows; None where runs are missing.
        change: See `Change`.
        layers_a, layers_b: Names of the layers it went into.
        group: Index into `EngineDiff.groups` of those that hold it.
    """

    node: str
    is_node: bool
    scope: str
    a_ms: float | None
    b_ms: float | None
    delta_ms: float | None
    measured: bool
    p_value: float | None
    change: Change
    layers_a: tuple[str, ...]
    layers_b: tuple[str, ...]
    group: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GroupRow:
    """Layers of both engines that hold the same nodes, so that both times are measured; see `matching.match_layers`."""

    nodes: tuple[str, ...]
    layers_a: tuple[str, ...]
    layers_b: tuple[str, ...]
    a_ms: float | None
    b_ms: float | None
    delta_ms: float | None
    p_value: float | None
    change: Change


@dataclass(frozen=True, slots=True)
class ScopeRow:
    """Nodes of one scope together; None where an engine was not timed."""

    scope: str
    a_ms: float | None
    b_ms: float | None
    delta_ms: float | None


@dataclass(frozen=True, slots=True)
class ReformatCost:
    """Layers that only change type or layout, in each engine."""

    a_count: int
    b_count: int
    a_ms: float | None
    b_ms: float | None


@dataclass(frozen=True)
class EngineDiff:
    """How engine b differs from engine a.

    Attributes:
        a, b: The engines.
        statistic: What of a layer's runs is summed: `median` where both engines have it, else `average`.
        rows: By node, largest difference first.
        groups: By layers that hold the same nodes, largest difference first.
        total_a_ms, total_b_ms: Sums of the layers, which the rows add up to; None where not timed. No latency.
        interval_ms: 95 % interval of the difference of the totals, by bootstrap; None without runs.
        facts_changed: Fact → its values, where both are known and differ.
        notes: One line each.
    """

    a: Engine
    b: Engine
    statistic: Statistic
    rows: tuple[NodeRow, ...]
    groups: tuple[GroupRow, ...]
    fusions_changed: tuple[FusionChange, ...]
    tactics_changed: tuple[TacticChange, ...]
    types_changed: tuple[TypeChange, ...]
    reformats: ReformatCost
    total_a_ms: float | None
    total_b_ms: float | None
    interval_ms: tuple[float, float] | None
    facts_changed: Mapping[str, tuple[JsonValue, JsonValue]]
    notes: tuple[str, ...]

    @property
    def delta_ms(self) -> float | None:
        """Difference of the totals, b − a."""
        return None if self.total_a_ms is None or self.total_b_ms is None else self.total_b_ms - self.total_a_ms

    def scopes(self, depth: int | None = None) -> tuple[ScopeRow, ...]:
        """Time by scope, largest difference first; each node counts once, so these add up to the totals too."""
        found: dict[str, list[float]] = {}
        for row in self.rows:
            sums = found.setdefault(cut_scope(row.scope, depth), [0.0, 0.0])
            sums[0] += row.a_ms or 0.0
            sums[1] += row.b_ms or 0.0
        timed_a, timed_b = self.total_a_ms is not None, self.total_b_ms is not None
        rows = [
            ScopeRow(scope, a if timed_a else None, b if timed_b else None, b - a if timed_a and timed_b else None)
            for scope, (a, b) in found.items()
        ]
        return tuple(sorted(rows, key=lambda row: -abs(row.delta_ms or 0.0)))


@dataclass(frozen=True)
class _Side:
    engine: Engine
    pieces: tuple[Piece, ...]
    times: NodeTimes

    @classmethod
    def of(cls, engine: Engine, statistic: Statistic) -> _Side:
        return cls(engine, pieces_of(engine), node_times(engine, statistic=statistic))

    @property
    def timed(self) -> bool:
        return bool(self.engine.times)

    def layers_with(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, list[str]] = {}
        for piece in self.pieces:
            for key in piece.keys:
                found.setdefault(key, []).append(piece.name)
        return {key: tuple(names) for key, names in found.items()}


def diff_engines(a: Engine, b: Engine) -> EngineDiff:
    """Compares engine `b` with engine `a`.

    Raises:
        CompareError: They have no node and no layer in common: engines of different models.
    """
    statistic = statistic_of(a, b)
    sides = (_Side.of(a, statistic), _Side.of(b, statistic))
    _check_related(*sides)
    groups, group_of = _groups(*sides, statistic)
    rows = _rows(*sides, group_of)
    totals = [side.times.total_ms if side.timed else None for side in sides]
    runs = [sum_runs(side.engine.times) for side in sides]
    return EngineDiff(
        a=a,
        b=b,
        statistic=statistic,
        rows=rows,
        groups=groups,
        fusions_changed=fusions(sides[0].pieces, sides[1].pieces),
        tactics_changed=tactics(sides[0].pieces, sides[1].pieces),
        types_changed=types(sides[0].pieces, sides[1].pieces),
        reformats=_reformats(*sides, statistic),
        total_a_ms=totals[0],
        total_b_ms=totals[1],
        interval_ms=bootstrap_interval(*runs),
        facts_changed=_facts_changed(a, b),
        notes=_notes(a, b, statistic),
    )


def _check_related(a: _Side, b: _Side) -> None:
    for side in (a, b):
        if not side.pieces:
            raise CompareError(f"{side.engine.label}: no layers, so there is nothing to compare; give another file")
    keys = [{key for piece in side.pieces for key in piece.keys} for side in (a, b)]
    if not keys[0] & keys[1]:
        raise CompareError(
            f"{a.engine.label} and {b.engine.label} have no ONNX node in common: they are engines of different models, "
            "or were built without detailed profiling verbosity; give engines of one model"
        )


def _groups(a: _Side, b: _Side, statistic: Statistic) -> tuple[tuple[GroupRow, ...], dict[str, list[int]]]:
    """Groups, largest difference first, and in which of them each key stands."""
    matches = match_layers([piece.key for piece in a.pieces], [piece.key for piece in b.pieces])
    made = []
    for match in matches:
        pieces = [[side.pieces[i] for i in places] for side, places in ((a, match.a), (b, match.b))]
        times = [[piece.time for piece in found if piece.time is not None] for found in pieces]
        figures = [sum(layer_fs(t, statistic) for t in found) / FS_PER_MS if found else None for found in times]
        made.append((match, pieces, figures, tuple(sum_runs(found) for found in times)))
    p_values = adjust_p_values(rank_p_values([(runs[0], runs[1]) for *_, runs in made]))
    found: list[tuple[GroupRow, tuple[str, ...]]] = []
    for (match, pieces, (a_ms, b_ms), _), p_value in zip(made, p_values, strict=True):
        delta = _delta(a_ms, b_ms, a, b)
        row = GroupRow(
            nodes=tuple(key.removeprefix(LAYER_KEY) for key in match.keys),
            layers_a=tuple(piece.name for piece in pieces[0]),
            layers_b=tuple(piece.name for piece in pieces[1]),
            a_ms=a_ms,
            b_ms=b_ms,
            delta_ms=delta,
            p_value=p_value,
            change=_change(bool(match.a), bool(match.b), delta, p_value),
        )
        found.append((row, match.keys))
    found.sort(key=lambda item: -abs(item[0].delta_ms or 0.0))
    group_of: dict[str, list[int]] = {}
    for number, (_, keys) in enumerate(found):
        for key in keys:
            group_of.setdefault(key, []).append(number)
    return tuple(row for row, _ in found), group_of


def _rows(a: _Side, b: _Side, group_of: Mapping[str, Sequence[int]]) -> tuple[NodeRow, ...]:
    with_a, with_b = a.layers_with(), b.layers_with()
    keys = list(dict.fromkeys([*with_a, *with_b]))
    pairs = [(a.times.by_key.get(key), b.times.by_key.get(key)) for key in keys]
    runs = [(x.runs_ms if x else (), y.runs_ms if y else ()) for x, y in pairs]
    p_values = adjust_p_values(rank_p_values(runs))
    rows = []
    for key, (x, y), p_value in zip(keys, pairs, p_values, strict=True):
        a_ms, b_ms = x.ms if x else None, y.ms if y else None
        delta = _delta(a_ms, b_ms, a, b)
        known = x or y
        rows.append(
            NodeRow(
                node=key.removeprefix(LAYER_KEY),
                is_node=not key.startswith(LAYER_KEY),
                scope=known.scope if known else "",
                a_ms=a_ms,
                b_ms=b_ms,
                delta_ms=delta,
                measured=all(time is None or time.exact for time in (x, y)),
                p_value=p_value,
                change=_change(key in with_a, key in with_b, delta, p_value),
                layers_a=with_a.get(key, ()),
                layers_b=with_b.get(key, ()),
                group=tuple(group_of.get(key, ())),
            )
        )
    return tuple(sorted(rows, key=lambda row: -abs(row.delta_ms or 0.0)))


def _delta(a_ms: float | None, b_ms: float | None, a: _Side, b: _Side) -> float | None:
    if not (a.timed and b.timed) or (a_ms is None and b_ms is None):
        return None
    return (b_ms or 0.0) - (a_ms or 0.0)


def _change(in_a: bool, in_b: bool, delta: float | None, p_value: float | None) -> Change:
    if not in_a or not in_b:
        return "only_a" if in_a else "only_b"
    if delta is None:
        return "untimed"
    if p_value is None:
        return "unknown"
    if p_value > SIGNIFICANT or delta == 0:
        return "noise"
    return "slower" if delta > 0 else "faster"


def _reformats(a: _Side, b: _Side, statistic: Statistic) -> ReformatCost:
    counts, sums = [], []
    for side in (a, b):
        pieces = [piece for piece in side.pieces if piece.reformat]
        counts.append(len(pieces))
        cost = sum(layer_fs(piece.time, statistic) for piece in pieces if piece.time is not None) / FS_PER_MS
        sums.append(cost if side.timed else None)
    return ReformatCost(counts[0], counts[1], sums[0], sums[1])


def _facts_changed(a: Engine, b: Engine) -> dict[str, tuple[JsonValue, JsonValue]]:
    pairs = {key: (a.facts.get(key), b.facts.get(key)) for key in FACTS}
    return {key: (x, y) for key, (x, y) in pairs.items() if x is not None and y is not None and x != y}


def _notes(a: Engine, b: Engine, statistic: Statistic) -> tuple[str, ...]:
    notes = [f"{engine.label}: {note}" for engine in (a, b) for note in engine.notes]
    if "model_hash" in _facts_changed(a, b):
        notes.append("the models differ (model_hash): nodes are matched by name")
    shapes = {tensor.name: tensor.shape for tensor in a.bindings}
    for tensor in b.bindings:
        one, other = shapes.get(tensor.name), tensor.shape
        # A shape of another rank is what a layer makes of the input, not the engine's own.
        if one and other and len(one) == len(other) and any(None not in (x, y) and x != y for x, y in zip(one, other)):
            notes.append(f"{tensor.name}: {_shape(one)} in a, {_shape(other)} in b: other sizes, other work")
    untimed = [engine.label for engine in (a, b) if not engine.times]
    if untimed:
        notes.append(f"not timed: {', '.join(untimed)}; give the profile beside the layers to compare times")
    elif not all(time.runs_ms for engine in (a, b) for time in engine.times):
        notes.append(f"only {statistic}s of the layers are known, not single runs: what is noise cannot be told")
    return tuple(notes)


def _shape(shape: Sequence[object]) -> str:
    return "x".join("?" if size is None else str(size) for size in shape)
