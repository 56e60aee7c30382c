"""What an engine tells about itself with no reference: repeats, batches, two builds; and what cannot be compared at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trt_lab.compare.observer import LayerChange, observe
from trt_lab.compare.sides import Comparison, compare_sides, open_side
from trt_lab.compare.words import format_figure
from trt_lab.edit.schema import RANDOM
from trt_lab.graph.view import GraphView
from trt_lab.record import Record
from trt_lab.types import JsonValue, NodeId, NodeInfo, TensorId, Tolerance, Verdict

ONE_HOT = 1e-6
"""A row of a Softmax whose largest value is this close to 1 is one-hot."""

Feeds = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class SelfCheck:
    """One check.

    Attributes:
        name: What was held against what.
        note: The result in words, or why the check could not be made.
        comparison: The numbers; None where the check could not be made.
    """

    name: str
    verdict: Verdict
    note: str
    comparison: Comparison | None = None

    def as_json(self) -> dict[str, JsonValue]:
        """For `--json`."""
        return {"name": self.name, "verdict": self.verdict, "note": self.note, "max_abs": largest(self.comparison)}


@dataclass(frozen=True)
class BuildPair:
    """Two builds of one model, with and without a timing cache for instance.

    Attributes:
        fusions: Layers of a that b lacks as they were. tactics: Layers of one name with another kernel.
        between: Outputs of a against b. a_reference, b_reference: Each against the reference.
        caches: Whether each used a timing cache; None where the backend has none.
    """

    fusions: tuple[LayerChange, ...]
    tactics: tuple[str, ...]
    between: Comparison
    a_reference: Comparison | None
    b_reference: Comparison | None
    caches: tuple[bool | None, bool | None]


def random_tensors(view: GraphView) -> dict[str, str]:
    """Tensors that another run makes anew, and why: those behind a random op, in whatever graph it lies.

    Dropout counts when its training_mode is true or only the run tells it.
    """
    found: dict[TensorId, str] = {}
    inner: dict[NodeId, str] = {}
    for node in reversed(list(view.nodes.values())):  # nested nodes come behind the node that holds them
        why = inner.get(node.id) or (f"random: {node.op_type} '{node.id}'" if _is_random(view, node) else None)
        owner = view.graphs[node.graph].node if node.graph else None
        if why is not None:
            inner[node.id] = why
            if owner is not None:
                inner.setdefault(owner, why)
    for node in view.nodes.values():
        read = [found[t] for t in (*node.inputs, *node.captures) if t is not None and t in found]
        why = inner.get(node.id) or (read[0] if read else None)
        if why is not None:
            found.update((t, why) for t in node.outputs if t is not None)
    return {str(tensor): why for tensor, why in found.items()}


def random_nodes(view: GraphView) -> list[NodeInfo]:
    """Nodes that make other numbers in every run, in graph order."""
    return [node for node in view.nodes.values() if _is_random(view, node)]


def one_hot_softmax(view: GraphView, tensor: str, array: np.ndarray) -> str | None:
    """A note when every row of a Softmax is one-hot: its inputs are too large for a fair comparison, tiny errors flip rows.

    Args:
        array: Values of `tensor` in the reference.
    """
    info = view.tensors.get(TensorId(tensor))
    node = view.nodes[info.producer] if info is not None and info.producer is not None else None
    if node is None or node.op_type not in ("Softmax", "LogSoftmax") or not array.size or not array.ndim:
        return None
    rows = np.max(array, axis=int(node.attributes.get("axis", -1)))
    top = 0.0 if node.op_type == "LogSoftmax" else 1.0
    if rows.size and array.size > rows.size and bool(np.all(np.abs(rows - top) < ONE_HOT)):
        return f"'{tensor}': every row is one-hot, so tiny errors flip rows; feed smaller inputs"
    return None


def _is_random(view: GraphView, node: NodeInfo) -> bool:
    if node.domain not in ("", "ai.onnx"):
        return False
    if node.op_type != "Dropout" or len(node.inputs) < 3 or node.inputs[2] is None:
        return node.op_type in RANDOM
    value = view.ir_value(node.inputs[2]).const_value
    return value is None or bool(np.any(value.numpy()))


def batch_of(view: GraphView, feed: Feeds) -> int | None:
    """Number of rows, where axis 0 of every input is free and of one size; else None."""
    sizes = set()
    for tensor in view.inputs:
        info = view.tensors[tensor]
        array = feed.get(info.name)
        if array is None or not array.ndim or info.shape is None or isinstance(info.shape[0], int):
            return None
        sizes.add(array.shape[0])
    return sizes.pop() if len(sizes) == 1 else None


def trial_feeds(view: GraphView, feed: Feeds) -> list[Feeds]:
    """What to run for `judge_trials`: the inputs, the same again and, where rows are free, row 0 alone and repeated."""
    trials = [feed, feed]
    rows = batch_of(view, feed)
    if rows:
        trials.append({name: array[:1] for name, array in feed.items()})
        trials.append({name: np.repeat(array[:1], max(rows, 2), axis=0) for name, array in feed.items()})
    return trials


def judge_trials(
    view: GraphView, feed: Feeds, outputs: Sequence[Mapping[str, np.ndarray]], tolerance: Tolerance
) -> tuple[SelfCheck, ...]:
    """Judges the outputs of `trial_feeds`, in its order.

    Raises:
        CompareError: The outputs of two runs have no name in common.
    """
    noise = random_tensors(view)
    checks = [_check("same input twice", outputs[1], outputs[0], tolerance, noise)]
    rows = batch_of(view, feed)
    names = ("row of a batch against the row alone", "identical rows of a batch")
    if not rows:
        why = "axis 0 of the inputs is fixed, or of several sizes: no row can be run alone"
        return (*checks, *(SelfCheck(name, "not_comparable", why) for name in names))
    whole = {n: a[:1] for n, a in outputs[0].items() if a.ndim and a.shape[0] == rows}
    alone = {n: a for n, a in outputs[2].items() if n in whole and a.ndim and a.shape[0] == 1}
    many = {n: a for n, a in outputs[3].items() if a.ndim and a.shape[0] == max(rows, 2)}
    if not alone or not many:
        why = "no output has a row for each row of the inputs"
        return (*checks, *(SelfCheck(name, "not_comparable", why) for name in names))
    first = {n: np.broadcast_to(a[:1], a.shape) for n, a in many.items()}
    checks.append(_check(names[0], whole, alone, tolerance, noise))
    checks.append(_check(names[1], many, first, tolerance, noise))
    return tuple(checks)


def check_optimiser(off: Record, on: Record, tolerance: Tolerance, noise: Mapping[str, str]) -> SelfCheck:
    """The reference under both settings of its own optimiser: if these differ, the engine is not to blame alone.

    Raises:
        CompareError: They have no output in common.
    """
    found = compare_sides(open_side(on), open_side(off), tolerance=tolerance, not_comparable=noise)
    figure = format_figure(largest(found))
    note = f"the reference's own optimiser moves its outputs by {figure}"
    if found.verdict == "differs":
        note += ": look at the reference before the engine is blamed"
    return SelfCheck("reference with its optimiser off and on", found.verdict, note, found)


def compare_builds(
    a: Record, b: Record, reference: Record | None = None, tolerance: Tolerance | None = None
) -> BuildPair:
    """Two builds of one model against each other, and each against the reference.

    Raises:
        CompareError: They have no output in common.
    """
    seen = observe(a.layers, b.layers)
    pairs = [(a, reference), (b, reference)] if reference is not None else []
    against = [compare_sides(open_side(x), open_side(y), tolerance=tolerance) for x, y in pairs]
    return BuildPair(
        fusions=seen.changes,
        tactics=seen.tactics,
        between=compare_sides(open_side(a), open_side(b), tolerance=tolerance),
        a_reference=against[0] if against else None,
        b_reference=against[1] if against else None,
        caches=(a.meta.timing_cache, b.meta.timing_cache),
    )


def largest(comparison: Comparison | None) -> float | None:
    """Largest error of all tensors; None when none is defined."""
    tensors = comparison.tensors if comparison is not None else ()
    return max((s.max_abs for s in tensors if s.max_abs is not None), default=None)


def _check(
    name: str,
    a: Mapping[str, np.ndarray],
    b: Mapping[str, np.ndarray],
    tolerance: Tolerance,
    noise: Mapping[str, str],
) -> SelfCheck:
    found = compare_sides(open_side(a), open_side(b), tolerance=tolerance, not_comparable=noise)
    exact = all(stats.exact for stats in found.tensors)
    note = "bit-identical" if exact else f"moved by at most {format_figure(largest(found))}"
    if found.verdict == "not_comparable":
        note = found.tensors[0].note
    return SelfCheck(name, found.verdict, note, found)
