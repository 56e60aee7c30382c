"""One tensor opened, and what only the graph can tell of two sides."""

from __future__ import annotations

import json
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

from trt_lab.compare.in_graph import compare_in_graph
from trt_lab.compare.opened import open_tensor
from trt_lab.compare.sides import open_side
from trt_lab.compare.tolerance import Tolerances
from trt_lab.compare.words import format_snr, summarize
from trt_lab.errors import CompareError
from trt_lab.graph.view import GraphView
from trt_lab.model import Model
from trt_lab.types import Tolerance

SCORES = np.array([[1.0, 5.0, 4.9999, 0.0], [3.0, 0.0, 2.0, 1.0]], np.float32)


def chooser(op: str, **attributes: Any) -> GraphView:
    """x → Neg → scores → ArgMax or TopK → idx."""
    nodes = [helper.make_node("Neg", ["x"], ["scores"], name="neg")]
    if op == "TopK":
        nodes.append(helper.make_node(op, ["scores", "k"], ["best", "idx"], name="choose", **attributes))
    else:
        nodes.append(helper.make_node(op, ["scores"], ["idx"], name="choose", **attributes))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])],
        [helper.make_tensor_value_info("idx", TensorProto.INT64, None)],
        [helper.make_tensor("k", TensorProto.INT64, [1], [2])] if op == "TopK" else [],
    )
    return GraphView.of(Model.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])))


@pytest.mark.parametrize("keepdims", [0, 1])
def test_a_tie_and_a_wrong_choice_are_told_apart(keepdims: int) -> None:
    view = chooser("ArgMax", axis=1, keepdims=keepdims)
    shape = (2, 1) if keepdims else (2,)
    ours = {"idx": np.array([2, 2]).reshape(shape)}
    golden = {"idx": np.array([1, 0]).reshape(shape), "scores": SCORES}
    found = compare_in_graph(view, open_side(ours), open_side(golden))
    assert "'idx': 2 indices differ, 1 are ties within 0.001, 1 wrong, giving away 1" in found.notes
    opened = open_tensor(open_side(ours), open_side(golden), "idx", view=view)
    assert opened.ties is not None and (opened.ties.ties, opened.ties.wrong) == (1, 1)
    assert opened.as_json()["ties"]["largest_margin"] == 1.0 and opened.ulp is None  # type: ignore[index,call-overload]


@pytest.mark.parametrize("limits", [
    Tolerances(by_tensor={"scores": Tolerance(2.0, 0.0)}), Tolerances(by_dtype={"float32": Tolerance(2.0, 0.0)}),
])  # fmt: skip
def test_what_a_tie_is_follows_from_the_tolerance_of_the_scores(limits: Tolerances) -> None:
    view = chooser("ArgMax", axis=1, keepdims=0)
    ours, golden = {"idx": np.array([2, 2])}, {"idx": np.array([1, 0]), "scores": SCORES}
    found = compare_in_graph(view, open_side(ours), open_side(golden), tolerance=limits)
    assert "'idx': 2 indices differ, 2 are ties within 2, 0 wrong, giving away 1" in found.notes
    opened = open_tensor(open_side(ours), open_side(golden), "idx", view=view, tolerance=limits)
    assert opened.ties is not None and (opened.ties.ties, opened.ties.wrong) == (2, 0)


def test_topk_points_into_its_scores_and_its_values_do_not() -> None:
    view = chooser("TopK", axis=-1)
    golden = {"scores": SCORES, "idx": np.array([[1, 2], [0, 2]]), "best": np.zeros((2, 2), np.float32)}
    ours = {**golden, "idx": np.array([[2, 1], [0, 2]]), "best": np.ones((2, 2), np.float32)}
    notes = compare_in_graph(view, open_side(ours), open_side(golden)).notes
    assert notes == ("'idx': 2 indices differ, 2 are ties within 0.001, 0 wrong, giving away 0.0001",)


def test_without_the_scores_it_says_what_to_keep() -> None:
    view = chooser("ArgMax", axis=1, keepdims=0)
    found = compare_in_graph(view, open_side({"idx": np.array([2, 0])}), open_side({"idx": np.array([1, 0])}))
    assert found.notes == ("'idx' holds indices: keep 'scores' of the reference too, to tell ties from wrong choices",)
    same = compare_in_graph(view, open_side({"idx": np.array([1, 0])}), open_side({"idx": np.array([1, 0])}))
    assert same.notes == ()


def test_c22_the_first_producer_of_a_nan_is_named() -> None:
    view = chooser("ArgMax", axis=1, keepdims=0)
    golden = {"idx": np.array([1, 0]), "scores": SCORES}
    ours = {"idx": np.array([0, 0]), "scores": np.full_like(SCORES, np.nan)}
    found = compare_in_graph(view, open_side(ours), open_side(golden))
    assert [stats.name for stats in found.tensors] == ["scores", "idx"], "graph order, not that of the files"
    assert found.notes[0] == "first NaN or infinity that only side a has: scores, sample 0, made by Neg 'neg'"


def test_the_worst_sample_is_opened_with_exact_figures() -> None:
    golden = [{"y": np.ones(5, np.float16)}, {"y": np.ones(5, np.float16)}]
    ours = [golden[0], {"y": np.array([1, 1, 1, 1 + 2**-10, 1.5], np.float16)}]
    opened = open_tensor(open_side(ours), open_side(golden), "y")
    assert opened.stats.sample == 1 and opened.ulp == (0.0, 512)
    assert opened.quantiles[0.5] == 0.0 and opened.quantiles[1.0] == 0.5
    hist = opened.histogram
    assert hist is not None and int(hist.counts.sum() + hist.exact.sum()) == 5
    assert json.loads(json.dumps(opened.as_json(), allow_nan=False))["ulp"] == {"median": 0.0, "max": 512}
    assert opened.lines[0] == "y, sample 1: differs, max abs 0.5; largest error at [4]"
    assert open_tensor(open_side(ours), open_side(golden), "y", sample=0).stats.exact


def test_what_has_no_distance_is_opened_all_the_same() -> None:
    half = np.array([1, np.nan], ml_dtypes.bfloat16)
    golden = {"s": np.array(["a", "b"]), "z": np.zeros((0, 2)), "n": np.zeros(3), "h": half, "c": np.zeros(2, complex)}
    ours = {
        "s": np.array(["a", "c"]),
        "z": np.zeros((0, 2)),
        "n": np.zeros(4),
        "h": half[::-1],
        "c": np.ones(2, complex),
    }
    found = {name: open_tensor(open_side(ours), open_side(golden), name, tolerance=Tolerance()) for name in ours}
    for name in ("s", "n", "c"):
        assert (found[name].quantiles, found[name].ulp, found[name].histogram) == ({}, None, None)
    assert found["z"].stats.note == "0 elements, shapes equal" and found["z"].ulp is None
    assert found["h"].quantiles == {} and found["h"].histogram is not None and found["h"].histogram.not_finite == 2
    for opened in found.values():
        json.dumps(opened.as_json(), allow_nan=False)


def test_a_tensor_or_sample_that_is_not_there() -> None:
    sides = open_side({"y": np.ones(2)}), open_side({"y": np.ones(2)})
    with pytest.raises(CompareError, match="no tensor 'x' on both sides; there are: y"):
        open_tensor(*sides, "x")
    with pytest.raises(CompareError, match="no sample 1: there are 1"):
        open_tensor(*sides, "y", sample=1)


def test_c22_and_c21_in_words() -> None:
    ours = {"y": np.float32([np.nan, np.inf, -np.inf, -np.inf, np.nan]), "z": np.float32([0, 1e-6, 1.001e-6, 1.01, 99])}
    golden = {"y": np.float32([np.nan, np.inf, -np.inf, np.inf, 1]), "z": np.float32([0, 0, 1e-9, 1, 100])}
    y, z = compare_in_graph(chooser("ArgMax"), open_side(ours), open_side(golden)).tensors
    assert summarize(y) == "1 NaN only in a, 1 infinite on one side, or of the other sign, no finite pair"
    assert summarize(z) == "max abs 1, 1 where the reference is zero"
    assert (format_snr(y), format_snr(z)) == ("–", "40")
    (same,) = compare_in_graph(chooser("ArgMax"), open_side({"z": golden["z"]}), open_side({"z": golden["z"]})).tensors
    assert (summarize(same), format_snr(same)) == ("equal", "exact")
