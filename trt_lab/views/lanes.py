"""Where the bars of a timeline lie: which lane a layer gets, when it starts, how runs follow each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Protocol, TypeAlias

import numpy as np

from trt_lab.graph.scopes import common_scope, scope_chain, scope_of
from trt_lab.record import Record
from trt_lab.types import LayerInfo, LayerTime

MAX_RUNS = 12
"""Most runs shown under each other."""

MAX_LANES = 20
"""Most lanes of one record; the rest share one."""

LaneBy: TypeAlias = Literal["stream", "scope", "type"]
"""What layers of one lane have in common: the stream they ran on, the ONNX scope of their nodes, their type."""

RunsAs: TypeAlias = Literal["median", "each", "sequence"]
"""One bar a layer at its median, the lanes of each run under each other, or all runs one after another."""


class TimedLike(Protocol):
    """What a timeline needs of a record."""

    @property
    def name(self) -> str: ...
    @property
    def layers(self) -> Sequence[LayerInfo]: ...
    @property
    def times(self) -> Sequence[LayerTime]: ...
    @property
    def latency_ms(self) -> Sequence[float]: ...


Timed: TypeAlias = Record | TimedLike
"""A record, or anything that looks like one here."""


@dataclass(frozen=True)
class Bars:
    """All bars of a figure, one entry each, ordered by lane, then start.

    Attributes:
        lane: Index into `lanes`.
        start, duration: ms from the start of the first run.
        row: Index of the timed layer: those of the first record in its order, then those of the next.
        lanes: What each lane is called.
        notes: What the reader must be told about how the bars lie.
    """

    lane: np.ndarray
    start: np.ndarray
    duration: np.ndarray
    row: np.ndarray
    lanes: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def end(self) -> float:
        """When the last bar ends, in ms; 0 without bars."""
        return float((self.start + self.duration).max()) if self.start.size else 0.0


def usual_ms(time: LayerTime) -> float:
    """What a bar is as long as: the median over the runs where it is known, else the average."""
    return time.average_ms if time.median_ms is None else time.median_ms


def layer_sum_ms(record: Timed) -> float:
    """Sum of the layers' averages; never the end-to-end latency."""
    return sum(time.average_ms for time in record.times)


def lay_out(records: Sequence[Timed], runs: RunsAs = "median", by: LaneBy = "stream") -> Bars:
    """Bars of some records, each in lanes of its own.

    Cases: a record where any layer lacks its start time is laid end to end; so are single runs, as
    start times are known as medians only.
    """
    parts: list[tuple[np.ndarray, ...]] = []
    lanes: list[str] = []
    notes: dict[str, list[str]] = {}
    rows = 0
    for record in records:
        prefix = f"{record.name} · " if len(records) > 1 else ""
        lane_of, labels = _lanes_of(record, by)
        row = np.arange(rows, rows + len(record.times))
        rows += len(record.times)
        for title, durations, starts in _runs(record, runs, notes):
            repeats = durations.size // max(1, row.size)
            parts.append((np.tile(lane_of, repeats) + len(lanes), starts, durations, np.tile(row, repeats)))
            alone = len(labels) == 1 and by == "stream" and title
            lanes += [prefix + (title.strip(" ·") if alone else title + label) for label in labels]
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)] if parts else [np.zeros(0, np.int64)] * 4
    order = np.lexsort((columns[1], columns[0]))
    lane, start, duration, row = (column[order] for column in columns)
    return Bars(lane, start, duration, row, lanes=tuple(lanes), notes=_joined(notes, len(records)))


def _lanes_of(record: Timed, by: LaneBy) -> tuple[np.ndarray, list[str]]:
    """The lane of each timed layer, and what the lanes are called."""
    known = {layer.index: layer for layer in record.layers}
    layers = [known.get(time.index) for time in record.times]
    if by == "stream":
        streams = [layer.stream if layer is not None else None for layer in layers]
        names = sorted({stream for stream in streams if stream is not None})
        place = {stream: at for at, stream in enumerate(names)}
        lane_of = np.array([0 if stream is None else place[stream] for stream in streams], dtype=np.int64)
        return lane_of, [f"stream {stream}" for stream in names] or ["layers"]
    if by == "type":
        keys = [layer.type if layer is not None and layer.type else "type not recorded" for layer in layers]
    else:
        keys = _scopes_of(layers)
    spent: dict[str, float] = {}
    for key, time in zip(keys, record.times, strict=True):
        spent[key] = spent.get(key, 0.0) + usual_ms(time)
    longest = sorted(spent, key=lambda key: -spent[key])
    shown = longest if len(longest) <= MAX_LANES else longest[: MAX_LANES - 1]
    if by == "scope":
        shown = [key for key in spent if key in set(shown)]
    place = {key: at for at, key in enumerate(shown)}
    others = len(longest) - len(shown)
    lane_of = np.array([place.get(key, len(shown)) for key in keys], dtype=np.int64)
    return lane_of, [*shown, *([f"{others} others"] if others else [])] or ["layers"]


def _scopes_of(layers: Sequence[LayerInfo | None]) -> list[str]:
    """The scope that the nodes of each layer have in common, cut to a depth that gives few enough lanes."""
    scopes = [_scope_of_nodes(layer.nodes) if layer is not None and layer.nodes else None for layer in layers]
    chains = {scope: scope_chain(scope) for scope in set(scopes) if scope is not None}
    depth = max((len(chain) for chain in chains.values()), default=0)
    while depth > 1 and len({tuple(chain[:depth]) for chain in chains.values()}) > MAX_LANES:
        depth -= 1
    cut = {scope: (chain[:depth] or ["/"])[-1] for scope, chain in chains.items()}
    return ["no ONNX node known" if scope is None else cut[scope] for scope in scopes]


@lru_cache(maxsize=4096)
def _scope_of_nodes(nodes: tuple[str, ...]) -> str:
    common = scope_of(nodes[0])
    for node in nodes[1:]:
        common = common_scope(common, scope_of(node))
    return common


def _joined(notes: dict[str, list[str]], records: int) -> tuple[str, ...]:
    """Each note once, with the records it is about where it is not about all."""
    return tuple(text if len(names) == records else f"{', '.join(names)}: {text}" for text, names in notes.items())


def _runs(record: Timed, runs: RunsAs, notes: dict[str, list[str]]) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Title, durations and starts of each set of lanes of a record; adds to `notes`."""

    def note(text: str) -> None:
        notes.setdefault(text, []).append(record.name)

    if runs != "median":
        count = min((len(time.runs_ms) for time in record.times), default=0)
        if count:
            each = np.array([time.runs_ms[:count] for time in record.times], dtype=np.float64).T
            note("layers of a run are laid end to end: start times are not kept run by run")
            if runs == "sequence":
                note(f"{count} runs one after another; the time between two runs is not known")
                return [("", each.ravel(), _end_to_end(each.ravel()))]
            if count > MAX_RUNS:
                note(f"the first {MAX_RUNS} of {count} runs are shown")
            return [
                (f"run {run + 1} · ", durations, _end_to_end(durations))
                for run, durations in enumerate(each[:MAX_RUNS])
            ]
        note("single runs were not recorded; medians are shown")
    durations = np.array([usual_ms(time) for time in record.times], dtype=np.float64)
    given = [time.start_ms for time in record.times if time.start_ms is not None]
    if len(given) == durations.size:
        return [("", durations, np.array(given, dtype=np.float64))]
    if record.times:
        note("layers are laid end to end in the engine's order: the profiler tells no start times")
    return [("", durations, _end_to_end(durations))]


def _end_to_end(durations: np.ndarray) -> np.ndarray:
    return np.concatenate([[0.0], np.cumsum(durations)[:-1]]) if durations.size else durations
