"""Checks without a reference, and what cannot be compared."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from trt_lab.compare.selfcheck import compare_builds, judge_trials, one_hot_softmax, random_tensors, trial_feeds
from trt_lab.compare.sides import compare_sides, open_side
from trt_lab.graph import GraphView
from trt_lab.model import Model
from trt_lab.types import LayerInfo, LayerTensor, NodeId, Tolerance

TOLERANCE = Tolerance(1e-3, 1e-3)


def view_of(
    nodes: list, outputs: list[str], weights: dict[str, np.ndarray] | None = None, rows: object = "n"
) -> GraphView:
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 2])]
    tensors = [onnx.numpy_helper.from_array(a, name) for name, a in (weights or {}).items()]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info(o, 1, None) for o in outputs], tensors)
    return GraphView.of(
        Model.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    )


def test_c26_what_lies_behind_a_random_op_is_not_comparable() -> None:
    view = view_of(
        [
            helper.make_node("RandomNormal", [], ["r"], name="noise", shape=[1, 2], seed=7.0),
            helper.make_node("Add", ["x", "r"], ["y"], name="add"),
            helper.make_node("Relu", ["x"], ["z"], name="relu"),
            helper.make_node("Neg", ["y"], ["w"], name="neg"),
        ],
        ["w", "z"],
    )
    found = random_tensors(view)
    assert found == dict.fromkeys(("r", "y", "w"), "random: RandomNormal 'noise'")
    a, b = {"w": np.ones(2), "z": np.ones(2)}, {"w": np.zeros(2), "z": np.ones(2)}
    compared = compare_sides(open_side(a), open_side(b), not_comparable=found)
    assert compared.verdict == "same" and compared.stats("w").note == "random: RandomNormal 'noise'"


@pytest.mark.parametrize(("training", "random"), [(True, True), (False, False), (None, False)])
def test_c26_dropout_counts_in_training_only(training: bool | None, random: bool) -> None:
    weights = {"ratio": np.float32(0.5)} | ({} if training is None else {"mode": np.array(training)})
    reads = ["x", "ratio", *([] if training is None else ["mode"])]
    view = view_of([helper.make_node("Dropout", reads, ["y"], name="drop")], ["y"], weights)
    assert ("y" in random_tensors(view)) is random


def test_c26_a_random_op_inside_a_branch() -> None:
    branch = helper.make_graph(
        [helper.make_node("RandomNormalLike", ["x"], ["t"], name="noise")],
        "b",
        [],
        [helper.make_tensor_value_info("t", 1, None)],
    )
    other = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["e"], name="neg")], "b", [], [helper.make_tensor_value_info("e", 1, None)]
    )
    view = view_of(
        [
            helper.make_node("If", ["c"], ["i"], name="if", then_branch=branch, else_branch=other),
            helper.make_node("Abs", ["i"], ["y"], name="abs"),
        ],
        ["y"],
        {"c": np.array(True)},
    )
    found = random_tensors(view)
    assert "RandomNormalLike" in found["y"] and "RandomNormalLike" in found["i"]


def double(feed: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {"y": feed["x"] * 2}


def mixes_rows(feed: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Wrong for a batch: every row is given the position of the row."""
    return {"y": feed["x"] + np.arange(len(feed["x"]), dtype=np.float32)[:, None]}


def test_rows_of_a_batch() -> None:
    view = view_of([helper.make_node("Relu", ["x"], ["y"])], ["y"])
    feed = {"x": np.array([[1, 2], [3, 4], [5, 6]], np.float32)}
    trials = trial_feeds(view, feed)
    assert [trial["x"].shape for trial in trials] == [(3, 2), (3, 2), (1, 2), (3, 2)]
    good = judge_trials(view, feed, [double(trial) for trial in trials], TOLERANCE)
    assert [check.verdict for check in good] == ["same"] * 3 and good[0].note == "bit-identical"
    bad = judge_trials(view, feed, [mixes_rows(trial) for trial in trials], TOLERANCE)
    assert [check.verdict for check in bad] == ["same", "same", "differs"] and bad[2].note == "moved by at most 2"


def test_a_fixed_batch_is_not_comparable_but_a_repeat_is() -> None:
    view = view_of([helper.make_node("Relu", ["x"], ["y"])], ["y"], rows=3)
    feed = {"x": np.ones((3, 2), np.float32)}
    trials = trial_feeds(view, feed)
    checks = judge_trials(view, feed, [{"y": np.full(2, i, np.float32)} for i, _ in enumerate(trials)], TOLERANCE)
    assert [check.verdict for check in checks] == ["differs", "not_comparable", "not_comparable"]
    assert "fixed" in checks[1].note


class Build:
    """As much of a record as two builds are compared by."""

    def __init__(self, name: str, layers: tuple[LayerInfo, ...], y: np.ndarray) -> None:
        self.label, self.samples, self.layers = name, 1, layers
        self.meta = self
        self.timing_cache = name == "cached"
        self._y = y

    def names(self) -> tuple[str, ...]:
        return ("y",)

    def get(self, sample: int, name: str) -> np.ndarray:
        return self._y


def layer(index: int, *nodes: str, tactic: str = "t") -> LayerInfo:
    ids = tuple(NodeId(node) for node in nodes)
    out = (LayerTensor(nodes[-1] + "_out", "float16"),)
    return LayerInfo(index, " + ".join(nodes), "Kernel", outputs=out, tactic=tactic, nodes=ids, nodes_from="metadata")


def test_c35_tactics_and_fusions_are_told_apart() -> None:
    reference = Build("golden", (), np.zeros(3, np.float32))
    plain = Build("plain", (layer(0, "a"), layer(1, "b"), layer(2, "c", tactic="one")), np.float32([0, 7e-5, 0.57]))
    cached = Build("cached", (layer(0, "a", "b"), layer(1, "c", tactic="two")), np.float32([0, 0, 1e-5]))
    found = compare_builds(plain, cached, reference)  # type: ignore[arg-type]  # stand for records
    assert found.tactics == ("c",) and [change.layer for change in found.fusions] == ["a", "b"]
    assert found.caches == (False, True)
    assert found.between.stats("y").max_abs == pytest.approx(0.57, abs=2e-5)
    assert found.a_reference is not None and found.b_reference is not None
    assert (found.a_reference.verdict, found.b_reference.verdict) == ("differs", "same")


def test_c27_a_note_when_all_rows_of_a_softmax_are_one_hot() -> None:
    view = view_of([helper.make_node("Softmax", ["x"], ["y"], name="soft", axis=1)], ["y"], rows=3)
    rng = np.random.default_rng(0)

    def softmax(scores: np.ndarray) -> np.ndarray:
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    large = rng.uniform(-100, 100, (8, 16)) @ rng.uniform(-100, 100, (8, 16)).T
    note = one_hot_softmax(view, "y", softmax(large))
    assert note is not None and "one-hot" in note
    assert one_hot_softmax(view, "y", softmax(large / 1e5)) is None
    assert one_hot_softmax(view, "x", softmax(large)) is None
