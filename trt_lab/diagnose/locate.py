"""Which nodes are to blame: the sources of an error, and the smallest set that must stay in FP32.

All of it works on numbers alone. Who runs the model is the caller's business: `tensor_errors` takes
comparisons, `find_region` a function that tries a set of kept nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from trt_lab.diagnose.evidence import Evidence
from trt_lab.graph.view import GraphView
from trt_lab.types import NodeId, TensorId, TensorStats

LARGE_SNR_DB = 30.0
"""Below this signal-to-noise ratio (error of more than about 3 % of the tensor's own size) an error is large.

Rounding alone leaves FP16 near 66 dB (11 bits · 6.02 dB) and BF16 near 48 dB a node."""


@dataclass(frozen=True, slots=True)
class TensorError:
    """Both errors of one tensor, and what is known of its inputs.

    Attributes:
        stats: Accumulated error: all low against golden, on the worst sample.
        large: The accumulated error is large by `is_large`.
        inputs_large: Inputs of the producing node whose accumulated error is large.
        local: Error of the node alone in the low type, fed golden inputs; None when it is never low.
        local_large: The local error is large by `is_large`.
        evidence: What the numbers say about the cause, for nodes under suspicion.
    """

    tensor: TensorId
    node: NodeId | None
    stats: TensorStats
    large: bool
    inputs_large: tuple[TensorId, ...]
    local: TensorStats | None = None
    local_large: bool = False
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """A node whose local error is large while what it reads is good."""

    node: NodeId
    tensor: TensorId
    why: str
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True)
class Trial:
    """One tried set of kept nodes.

    Attributes:
        error: The worst max abs of the outputs, None if not finite; when it fails, of those looked at until then.
        builds: Engines built for it; 0 when it was emulated.
    """

    keep_fp32: tuple[NodeId, ...]
    passes: bool
    error: float | None
    builds: int = 0


@dataclass(frozen=True, slots=True)
class Region:
    """Nodes that must stay in FP32.

    Attributes:
        keep_fp32: In graph order; empty when no set was found.
        minimal: Without any one of them the check fails.
        trials: All that was tried, in order.
        monotone: No set failed that holds one that passes.
    """

    keep_fp32: tuple[NodeId, ...]
    minimal: bool
    trials: tuple[Trial, ...]
    monotone: bool = True


Item = TypeVar("Item")
TryKeep = Callable[[tuple[NodeId, ...]], Trial]


def is_large(stats: TensorStats) -> bool:
    """Whether an error is more than rounding, on the tensor's own scale.

    Large: another shape, a NaN or infinity on one side only, or an SNR under `LARGE_SNR_DB`. An infinity on both
    sides is agreement. The tolerance does not count: it is meant for outputs, and in the middle of a model a value
    of 1e-9 that becomes 0 may be all there is.
    """
    if stats.exact or stats.verdict == "not_comparable":
        return False
    if stats.shape_a != stats.shape_b:
        return True
    if stats.nan_only_a or stats.nan_only_b or stats.inf_mismatch:
        return True
    return stats.snr_db is None or stats.snr_db < LARGE_SNR_DB


def tensor_errors(
    view: GraphView, stats: Iterable[TensorStats], local: Mapping[str, TensorStats] | None = None
) -> tuple[TensorError, ...]:
    """Joins accumulated and local stats with the graph, in graph order. Tensors not compared are left out."""
    alone = local or {}
    by_tensor: Mapping[str, TensorStats] = {s.name: s for s in stats}
    large = {name for name, s in by_tensor.items() if is_large(s)}
    rows = []
    for tensor, info in sorted(view.tensors.items(), key=lambda item: view.order(item[0])):
        if tensor not in by_tensor:
            continue
        inputs = view.nodes[info.producer].inputs if info.producer is not None else ()
        bad = tuple(i for i in inputs if i is not None and i in large)
        mine = alone.get(tensor)
        lossy = mine is not None and is_large(mine)
        rows.append(TensorError(tensor, info.producer, by_tensor[tensor], tensor in large, bad, mine, lossy))
    return tuple(rows)


def find_sources(
    view: GraphView, rows: Sequence[TensorError], among: Collection[NodeId] | None = None
) -> tuple[Source, ...]:
    """Nodes whose local error is large while their inputs are good, in graph order, each once.

    Without local errors the accumulated ones stand for them: a large error behind good inputs arose there.

    Args:
        among: Only these nodes, those that must stay in FP32: an error in the middle can be harmless. An input is
            then good unless one of them makes it with a large error of its own; what comes from an earlier fault,
            which is repaired with this one, does not count.
    """
    spoiled = {row.tensor for row in rows if among is not None and row.local_large and row.node in among}
    found: dict[NodeId, Source] = {}
    for row in rows:
        if row.node is None or row.node in found or (among is not None and row.node not in among):
            continue
        if among is None and row.inputs_large:
            continue
        if among is not None and spoiled.intersection(t for t in view.nodes[row.node].inputs if t):
            continue
        if row.local_large if row.local is not None else row.large:
            found[row.node] = Source(row.node, row.tensor, explain(view, row), row.evidence)
    return tuple(found.values())


def find_source(view: GraphView, rows: Sequence[TensorError]) -> Source | None:
    """The first of `find_sources`."""
    return next(iter(find_sources(view, rows)), None)


def explain(view: GraphView, row: TensorError) -> str:
    """In words: what the engine made of the tensor, that its inputs were good, and what the numbers point to."""
    stats = row.local if row.local_large and row.local is not None else row.stats
    op = view.nodes[row.node].op_type if row.node is not None else "input"
    if stats.inf_mismatch:
        what = f"{stats.inf_mismatch} of {stats.count} values became infinite (or stopped being so)"
    elif stats.nan_only_a:
        what = f"{stats.nan_only_a} of {stats.count} values became NaN"
    elif stats.shape_a != stats.shape_b:
        what = f"the shape is {stats.shape_a} instead of {stats.shape_b}"
    elif stats.max_abs is not None:
        what = f"values are off by up to {stats.max_abs:.4g}"
    else:
        what = "values differ"
    because = f" ({row.evidence.kind}: {row.evidence.text})" if row.evidence is not None else ""
    return f"{row.node} ({op}): {what}, while all its inputs are good{because}"


# --- the smallest set --------------------------------------------------------------------


def find_region(
    view: GraphView,
    source: NodeId | None,
    try_keep: TryKeep,
    *,
    suspects: Sequence[NodeId] = (),
    able: Sequence[NodeId] = (),
) -> Region:
    """The smallest set of nodes that makes the check pass: grown round the suspects, then made 1-minimal.

    Tried first are the suspects alone, which hold the whole region when each of its nodes has a large local error.
    Then what lies within 1, 2, 4, … steps of them, up and down the graph; at last all nodes. Elimination then
    leaves a set without any one of whose nodes the check fails. It drops what lies furthest from the suspects first.

    Args:
        source: Stands for the suspects when there are none.
        try_keep: Tries one set; called once for each.
        suspects: Nodes with a large local error, in graph order.
        able: Nodes that can be low at all, in graph order; default all of the main graph.

    Returns:
        An empty region when keeping everything fails too: the fault is not one of precision.
    """
    nodes = tuple(able) or view.graphs[""].nodes
    first = [n for n in nodes if n in set(suspects or ([source] if source is not None else []))]
    trials: dict[frozenset[NodeId], Trial] = {}

    def attempt(keep: Iterable[NodeId]) -> bool:
        chosen = frozenset(keep)
        if chosen not in trials:
            trials[chosen] = try_keep(tuple(node for node in nodes if node in chosen))
        return trials[chosen].passes

    if not attempt(nodes):
        return Region((), minimal=False, trials=tuple(trials.values()))
    kept = shrink(_grow(view, nodes, first, attempt), attempt)
    tried = tuple(trials.values())
    return Region(
        tuple(n for n in nodes if n in set(kept)), minimal=True, trials=tried, monotone=not contradictions(tried)
    )


def contradictions(trials: Sequence[Trial]) -> list[tuple[Trial, Trial]]:
    """Pairs (passes, fails) where the set that fails holds the one that passes."""
    sets = [(trial, frozenset(trial.keep_fp32)) for trial in trials]
    passing = [pair for pair in sets if pair[0].passes]
    failing = [pair for pair in sets if not pair[0].passes]
    return [(good, bad) for good, small in passing for bad, big in failing if small < big]


def downstream(view: GraphView, node: NodeId) -> list[NodeId]:
    """`node` and all that depends on it, in graph order."""
    reached = {node}
    for candidate in view.nodes:
        if any(previous in reached for previous in view.predecessors(candidate)):
            reached.add(candidate)
    return [candidate for candidate in view.nodes if candidate in reached]


def _grow(
    view: GraphView, nodes: Sequence[NodeId], first: Sequence[NodeId], attempt: Callable[[Iterable[NodeId]], bool]
) -> list[NodeId]:
    """A set that passes, in the order of the distance from `first`."""
    able = set(nodes)
    reached = list(first)
    edge, steps, wanted = list(first), 0, 0
    while edge:
        if steps == wanted:
            kept = [n for n in reached if n in able]
            if attempt(kept):
                return kept
            wanted = max(1, 2 * wanted)
        known = set(reached)
        around = [n for node in edge for n in (*view.predecessors(node), *view.successors(node))]
        edge = [n for n in dict.fromkeys(around) if n not in known and not view.nodes[n].graph]
        reached += edge
        steps += 1
    rest = [n for n in nodes if n not in set(reached)]
    return [*(n for n in reached if n in able), *rest]


def shrink(kept: Sequence[Item], attempt: Callable[[list[Item]], bool]) -> list[Item]:
    """Drops blocks from the end, halving their size down to single nodes, until no single node can be dropped."""
    kept = list(kept)
    block = max(1, len(kept) // 2)
    while True:
        dropped = False
        start = len(kept) - block
        while start > -block and len(kept) > 1:
            low = max(start, 0)
            rest = kept[:low] + kept[low + block :]
            if rest and attempt(rest):
                kept, dropped = rest, True
            start -= block
        if block == 1 and not dropped:
            return kept
        if not dropped:
            block = max(1, block // 2)
