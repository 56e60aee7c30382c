"""Two sides compared with the model at hand: in graph order, random tensors left out, what makes a tensor told."""

from __future__ import annotations

from dataclasses import replace

from trt_lab.compare.details import IndexTies, index_ties
from trt_lab.compare.selfcheck import one_hot_softmax, random_tensors
from trt_lab.compare.sides import Comparison, Side, compare_sides, matched_samples
from trt_lab.compare.tolerance import Tolerances
from trt_lab.compare.words import format_figure
from trt_lab.errors import CompareError
from trt_lab.graph.view import GraphView
from trt_lab.types import NodeInfo, TensorId, Tolerance

_CHOOSERS = {"ArgMax": (0, 0), "ArgMin": (0, 0), "TopK": (1, -1)}
"""Operator → which output holds indices, and the default of its axis."""


def compare_in_graph(
    view: GraphView, a: Side, b: Side, *, tolerance: Tolerance | Tolerances | None = None, sums: bool = True
) -> Comparison:
    """`compare_sides` in graph order, with notes that only the graph can give: ties of indices, one-hot rows, makers.

    Raises:
        CompareError: See `compare_sides`.
    """
    makers = {}
    for name in {*a.names(), *b.names()}:
        node = maker(view, name)
        if node is not None:
            makers[name] = f"{node.op_type} '{node.id}'"
    found = compare_sides(
        a, b, tolerance=tolerance, order=sorted(view.tensors, key=view.order),
        not_comparable=random_tensors(view), makers=makers, sums=sums,
    )  # fmt: skip
    notes = [*found.notes]
    _, golden = matched_samples(a, b)
    for stats in found.tensors:
        node = maker(view, stats.name)
        if node is not None and node.op_type in ("Softmax", "LogSoftmax"):
            notes.append(one_hot_softmax(view, stats.name, golden[0][stats.name]) or "")
        elif stats.differing and stats.verdict != "not_comparable" and chosen_from(view, stats.name) is not None:
            margin = tie_margin(view, stats.name, Tolerances.given(tolerance))
            notes.append(describe_ties(view, stats.name, ties_of(view, a, b, stats.name, stats.sample, margin), margin))
    return replace(found, notes=tuple(filter(None, notes)))


def maker(view: GraphView, name: str) -> NodeInfo | None:
    """The node that makes a tensor; None for inputs, initializers and names that the model does not have."""
    info = view.tensors.get(TensorId(name))
    return view.nodes[info.producer] if info is not None and info.producer is not None else None


def chosen_from(view: GraphView, name: str) -> TensorId | None:
    """The scores that a tensor of indices (of ArgMax, ArgMin, TopK) points into; None for every other tensor."""
    node = maker(view, name)
    if node is None or node.op_type not in _CHOOSERS:
        return None
    place = _CHOOSERS[node.op_type][0]
    return node.inputs[0] if len(node.outputs) > place and node.outputs[place] == name else None


def tie_margin(view: GraphView, name: str, limits: Tolerances) -> float:
    """How far apart two scores may be for the choice between them to be a tie: the tolerance of the scores."""
    scores = chosen_from(view, name)
    info = view.tensors.get(scores) if scores is not None else None
    return limits.of(str(scores), info.dtype if info is not None else None).atol


def ties_of(view: GraphView, a: Side, b: Side, name: str, sample: int, margin: float) -> IndexTies | None:
    """Ties and wrong choices of a tensor of indices; None where the reference does not hold the scores.

    Raises:
        CompareError: The indices do not fit the scores.
    """
    scores, node = chosen_from(view, name), maker(view, name)
    if scores is None or node is None or scores not in b.names():
        return None
    ours, golden = (side[sample][name] for side in matched_samples(a, b))
    if ours.shape != golden.shape:
        return None
    axis = int(node.attributes.get("axis", _CHOOSERS[node.op_type][1]))
    try:
        return index_ties(ours, golden, b.get(sample, str(scores)), axis=axis, margin=margin)
    except CompareError as error:
        raise CompareError(f"'{name}': {error}") from error


def describe_ties(view: GraphView, name: str, ties: IndexTies | None, margin: float) -> str:
    """Ties in words, or what to do to know them."""
    if ties is None:
        return f"'{name}' holds indices: keep '{chosen_from(view, name)}' of the reference too, to tell ties from wrong choices"
    told = f"'{name}': {ties.differing} indices differ, {ties.ties} are ties within {margin:g}, {ties.wrong} wrong"
    return told + (f", giving away {format_figure(ties.largest_margin)}" if ties.largest_margin else "")
