"""Kernels of a GPU trace, hung under the layers of an engine.

A kernel is launched by a call on a thread of the CPU, and that call lies within ranges that the program pushed on this
thread (NVTX, or the profiler's own annotations); TensorRT pushes one for each layer, named after it. So a kernel
belongs to the innermost range round its launch that is a layer. Where the launch is not in the trace, the range that
encloses the kernel in time is taken, which is less sure; `via` says which.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from trt_lab.engine_nodes import name_parts, split_profile
from trt_lab.types import LayerInfo, NodeId

if TYPE_CHECKING:
    from trt_lab.profiling.source import Engine

Via = Literal["launch", "time", "kernel", "tactic", "none"]

_WRAPPER = "ExecutionContext::"
"""TensorRT's range round all layers of a run."""

_DOMAIN = "TensorRT"


@dataclass(frozen=True, slots=True)
class Range:
    """What a program pushed on a thread, in ns. `thread` is any hashable id."""

    text: str
    thread: object
    start: int
    end: int
    domain: str | None = None


@dataclass(frozen=True, slots=True)
class Launch:
    """A call that started work of the GPU."""

    thread: object
    start: int


@dataclass(frozen=True, slots=True)
class Activity:
    """A kernel, copy or fill on the GPU, in ns.

    Attributes:
        names: The name for people first, then other spellings of it.
        launch: Key of its launch; None where the trace does not tell.
        lane: Thread under which ranges of the GPU's own timeline stand, for `time`.
        in_graph: It ran as part of a CUDA graph: all kernels of the graph have one launch.
    """

    names: tuple[str, ...]
    start: int
    end: int
    stream: int | None = None
    device: int | None = None
    launch: object = None
    lane: object = None
    in_graph: bool = False


@dataclass(frozen=True, slots=True)
class KernelTime:
    """One kernel (or copy, or fill) of a trace; times in ms from the first of them.

    Attributes:
        layer: The layer it belongs to, None where the trace does not tell.
        nodes: ONNX nodes of that layer. Without an engine these are parts of its name, not checked.
        via: How the layer was found: `launch` (range round the launch), `time` (range that encloses it), `kernel` (it
            is called as the layer), `tactic` (it is the layer's tactic and no other's); `none`.
    """

    layer: str | None
    kernel: str
    start_ms: float
    duration_ms: float
    nodes: tuple[NodeId, ...]
    via: Via
    stream: int | None = None
    device: int | None = None


@dataclass(frozen=True)
class Trace:
    """A read trace.

    Attributes:
        kernels: By start.
        source: `torch`, `nsys-sqlite` or `nsys-json`.
        notes: One line each: what is missing, or could not be told.
    """

    kernels: tuple[KernelTime, ...]
    source: str
    notes: tuple[str, ...] = ()

    def rows(self) -> list[dict[str, Any]]:
        """One row a kernel, for a DataFrame."""
        return [
            {
                "layer": k.layer, "kernel": k.kernel, "start_ms": k.start_ms, "duration_ms": k.duration_ms,
                "nodes": k.nodes, "via": k.via, "stream": k.stream, "device": k.device,
            }
            for k in self.kernels
        ]  # fmt: skip

    def by_layer(self) -> dict[str | None, float]:
        """Sum of the kernels' times by layer, in ms, in order of the first kernel. None: no layer is known."""
        found: dict[str | None, float] = defaultdict(float)
        for kernel in self.kernels:
            found[kernel.layer] += kernel.duration_ms
        return dict(found)


def hang(
    activities: Iterable[Activity],
    launches: Mapping[object, Launch],
    ranges: Sequence[Range],
    engine: Engine | None,
    source: str,
    notes: Sequence[str] = (),
) -> Trace:
    """Finds the layer of each activity.

    Args:
        launches: By the key that an activity's `launch` holds.
        engine: Its layers; without it every range of TensorRT (of any domain, where there is none of it) is taken for
            a layer, the innermost one.
        notes: What reading the file has to say.
    """
    work = sorted(activities, key=lambda a: (a.start, a.end))
    names = _Names(engine.layers) if engine is not None else None
    wanted = ranges
    if names is None and any(r.domain == _DOMAIN for r in ranges):
        wanted = [r for r in ranges if r.domain == _DOMAIN]
    known = {a.launch: launches[a.launch] for a in work if a.launch is not None and a.launch in launches}
    round_launch = _enclosing(wanted, {key: (c.thread, c.start, c.start) for key, c in known.items()})
    loose = {i: (a.lane, a.start, a.end) for i, a in enumerate(work) if a.launch not in known}
    round_kernel = _enclosing(wanted, loose)
    begin = work[0].start if work else 0
    kernels = []
    for number, activity in enumerate(work):
        launched = activity.launch in known
        found = round_launch.get(activity.launch, ()) if launched else round_kernel.get(number, ())
        layer, nodes, via = _layer(activity, found, names, "launch" if launched else "time")
        kernels.append(
            KernelTime(
                layer,
                activity.names[0],
                (activity.start - begin) / 1e6,
                (activity.end - activity.start) / 1e6,
                nodes,
                via,
                activity.stream,
                activity.device,
            )
        )
    return Trace(tuple(kernels), source, (*notes, *_notes(work, kernels, names)))


def _layer(
    activity: Activity, around: Sequence[Range], names: _Names | None, how: Via
) -> tuple[str | None, tuple[NodeId, ...], Via]:
    """Layer, nodes and how it was found; `around` from the innermost range outwards."""
    if names is None:
        inner = next((r for r in around if not r.text.startswith(_WRAPPER)), None)
        if inner is None or activity.in_graph:
            return None, (), "none"
        return inner.text, _parts(inner.text), how
    for text in (r.text for r in around):
        if (name := names.layer(text)) is not None:
            return name, names.nodes(name), how
    for text in activity.names:
        if (name := names.layer(text)) is not None:
            return name, names.nodes(name), "kernel"
    for text in activity.names:
        if (name := names.by_tactic(text)) is not None:
            return name, names.nodes(name), "tactic"
    return None, (), "none"


@lru_cache(maxsize=20_000)
def _parts(name: str) -> tuple[NodeId, ...]:
    """Nodes that a layer's name tells; a trace holds the same few names over and over."""
    return tuple(NodeId(part) for part in name_parts(name))


class _Names:
    """Layers of an engine by name and by tactic."""

    def __init__(self, layers: Sequence[LayerInfo]) -> None:
        self._nodes: dict[str, dict[NodeId, None]] = {}
        self._spelling: dict[str, str] = {}
        self._tactics: dict[str, set[str]] = defaultdict(set)
        for layer in layers:
            self._nodes.setdefault(layer.name, {}).update(dict.fromkeys(layer.nodes))
            self._spelling.setdefault(_plain(layer.name), layer.name)
            if layer.tactic:
                self._tactics[layer.tactic].add(layer.name)
        self.matched: set[str] = set()

    def layer(self, text: str) -> str | None:
        name = text if text in self._nodes else self._spelling.get(_plain(text))
        if name is not None:
            self.matched.add(name)
        return name

    def by_tactic(self, kernel: str) -> str | None:
        found = self._tactics.get(kernel, set())
        return next(iter(found)) if len(found) == 1 else None

    def nodes(self, name: str) -> tuple[NodeId, ...]:
        """Nodes of all layers of that name."""
        return tuple(self._nodes[name])


def _plain(name: str) -> str:
    return split_profile(name)[0].strip()


def _enclosing(
    ranges: Sequence[Range], asked: Mapping[Any, tuple[object, int, int]]
) -> dict[object, tuple[Range, ...]]:
    """Ranges of the same thread round each (thread, start, end), the innermost first.

    Ranges of one domain nest, those of several may cross; so what is open is a list, not a stack.
    """
    by_thread: dict[object, list[Range]] = defaultdict(list)
    for item in ranges:
        by_thread[item.thread].append(item)
    questions: dict[object, list[tuple[int, int, object]]] = defaultdict(list)
    for key, (thread, start, end) in asked.items():
        questions[thread].append((start, end, key))
    found: dict[object, tuple[Range, ...]] = {}
    for thread, items in questions.items():
        waiting = sorted(by_thread.get(thread, ()), key=lambda r: (r.start, -r.end))
        position, still_open = 0, []
        for start, end, key in sorted(items, key=lambda item: item[:2]):
            while position < len(waiting) and waiting[position].start <= start:
                still_open.append(waiting[position])
                position += 1
            still_open = [r for r in still_open if r.end >= start]
            found[key] = tuple(r for r in reversed(still_open) if r.end >= end)
    return found


def _notes(work: Sequence[Activity], kernels: Sequence[KernelTime], names: _Names | None) -> list[str]:
    notes = []
    if not work:
        notes.append("the trace holds no kernel: record it with CUDA traced (nsys profile -t cuda,nvtx)")
    lost = sum(1 for k in kernels if k.layer is None)
    if lost:
        notes.append(
            f"{lost} of {len(kernels)} kernels belong to no known layer; TensorRT pushes a range for each layer of an "
            "engine that was built with detailed profiling verbosity and runs while nvtx is traced"
        )
    graph = sum(1 for a in work if a.in_graph)
    if graph:
        notes.append(f"{graph} kernels ran in a CUDA graph, whose one launch does not tell their layers apart")
    timed = sum(1 for k in kernels if k.via == "time")
    if timed:
        notes.append(f"{timed} kernels were placed by time alone, as their launch is not in the trace")
    if names is not None and kernels and not names.matched and lost < len(kernels):
        notes.append("no range is named after a layer of the engine; kernels were placed by their tactic")
    if names is not None and kernels and lost == len(kernels):
        notes.append("nothing in the trace is named after a layer of the engine: is it of another engine?")
    return notes
