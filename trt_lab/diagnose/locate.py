"""Which nodes are to blame: the source of an error, and the region that must stay in FP32.

Both work on numbers alone. Who builds and runs is the caller's business: `find_source` takes a
comparison of all tensors, `find_region` a function that tries a set of kept nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from trt_lab.graph.view import GraphView
from trt_lab.types import NodeId, TensorId, TensorStats

LARGE_SNR_DB = 30.0
"""Below this signal-to-noise ratio (error of more than about 3 % of the tensor's own size) an error is large.

Rounding alone leaves FP16 near 66 dB (11 bits · 6.02 dB) and BF16 near 48 dB a node."""


@dataclass(frozen=True, slots=True)
class TensorError:
    """Accumulated error of one tensor, and what is known of its inputs.

    Attributes:
        large: The error is large by `is_large`.
        inputs_large: Inputs of the producing node whose error is large.
    """

    tensor: TensorId
    node: NodeId | None
    stats: TensorStats
    large: bool
    inputs_large: tuple[TensorId, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """The first node, in graph order, whose error is large while all its inputs' are small."""

    node: NodeId
    tensor: TensorId
    why: str


@dataclass(frozen=True, slots=True)
class Trial:
    """One tried set of kept nodes. `error` is the worst max abs of the outputs, None if not finite."""

    keep_fp32: tuple[NodeId, ...]
    passes: bool
    error: float | None


@dataclass(frozen=True, slots=True)
class Region:
    """Nodes that must stay in FP32.

    Attributes:
        keep_fp32: In graph order; empty when no set was found.
        minimal: Without any one of them the check fails.
        trials: All that was tried, in order.
    """

    keep_fp32: tuple[NodeId, ...]
    minimal: bool
    trials: tuple[Trial, ...]


TryKeep = Callable[[tuple[NodeId, ...]], Trial]


def is_large(stats: TensorStats) -> bool:
    """Whether an error is more than rounding.

    Large: another shape, a NaN or infinity on one side only, or an SNR under `LARGE_SNR_DB`
    together with elements over tolerance. An infinity on both sides is agreement.
    """
    if stats.verdict != "differs":
        return False
    if stats.shape_a != stats.shape_b:
        return True
    if stats.nan_only_a or stats.nan_only_b or stats.inf_mismatch:
        return True
    return stats.snr_db is None or stats.snr_db < LARGE_SNR_DB


def tensor_errors(view: GraphView, stats: Iterable[TensorStats]) -> tuple[TensorError, ...]:
    """Joins stats with the graph, in graph order. Tensors that were not compared are left out."""
    by_tensor: Mapping[str, TensorStats] = {s.name: s for s in stats}
    large = {name for name, s in by_tensor.items() if is_large(s)}
    rows = []
    for tensor, info in sorted(view.tensors.items(), key=lambda item: view.order(item[0])):
        if tensor not in by_tensor:
            continue
        inputs = view.nodes[info.producer].inputs if info.producer is not None else ()
        bad = tuple(i for i in inputs if i is not None and i in large)
        rows.append(TensorError(tensor, info.producer, by_tensor[tensor], tensor in large, bad))
    return tuple(rows)


def find_source(view: GraphView, rows: Sequence[TensorError]) -> Source | None:
    """The first tensor in graph order whose error is large while all its inputs' are small; None if there is none."""
    for row in rows:
        if row.large and not row.inputs_large and row.node is not None:
            return Source(row.node, row.tensor, explain(view, row))
    return None


def explain(view: GraphView, row: TensorError) -> str:
    """In words: what the engine made of the tensor and that its inputs were good."""
    stats = row.stats
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
    return f"{row.node} ({op}): {what}, while all its inputs are good"


def find_region(view: GraphView, source: NodeId, try_keep: TryKeep) -> Region:
    """Grows a region downstream of `source` until the check passes, then drops what is not needed.

    Downstream nodes are added in graph order, doubling the number each time: the region must hold
    the node that brings the value back into range. Elimination then leaves a set without any one of
    whose nodes the check fails (1-minimal). When all nodes below the source do not do, all nodes of
    the graph are tried; when these fail too, the fault is not one of precision and the region is empty.
    """
    trials: list[Trial] = []

    def attempt(keep: Iterable[NodeId]) -> bool:
        chosen = set(keep)
        trials.append(try_keep(tuple(node for node in view.nodes if node in chosen)))
        return trials[-1].passes

    below = downstream(view, source)
    kept = _grow(below, attempt)
    if kept is None:
        kept = list(view.nodes)
        if not attempt(kept):
            return Region((), minimal=False, trials=tuple(trials))
    kept = _shrink(kept, attempt)
    chosen = set(kept)
    return Region(tuple(n for n in view.nodes if n in chosen), minimal=True, trials=tuple(trials))


def downstream(view: GraphView, node: NodeId) -> list[NodeId]:
    """`node` and all that depends on it, in graph order."""
    reached = {node}
    for candidate in view.nodes:
        if any(previous in reached for previous in view.predecessors(candidate)):
            reached.add(candidate)
    return [candidate for candidate in view.nodes if candidate in reached]


def _grow(below: Sequence[NodeId], attempt: Callable[[Iterable[NodeId]], bool]) -> list[NodeId] | None:
    size = 1
    while True:
        if attempt(below[:size]):
            return list(below[:size])
        if size >= len(below):
            return None
        size = min(2 * size, len(below))


def _shrink(kept: Sequence[NodeId], attempt: Callable[[Iterable[NodeId]], bool]) -> list[NodeId]:
    """Drops blocks, halving their size down to single nodes, until no single node can be dropped."""
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
