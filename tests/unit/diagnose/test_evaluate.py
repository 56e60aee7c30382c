"""Node by node, the numbers are bit by bit those of the emulated model run whole, and repeated work is left out."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from trt_lab import zoo
from trt_lab.diagnose.evaluate import Evaluator, same_bits
from trt_lab.edit.precision import emulate
from trt_lab.model import Model
from trt_lab.types import NodeId, Precision, PrecisionPlan, TensorId


def run_whole(model: Model, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.proto().SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return [np.asarray(output) for output in session.run(None, feeds)]


def odd_model() -> Model:
    """Casts from integers, an omitted input, a branch that reads an outer tensor, and a Constant node."""
    info = helper.make_tensor_value_info
    branch = [
        helper.make_graph([helper.make_node(op, ["cut", "one"], ["out"], name=op)], op, [], [info("out", 1, [4])])
        for op in ("Add", "Sub")
    ]
    nodes = [
        helper.make_node("Cast", ["count"], ["counted"], name="cast", to=TensorProto.FLOAT),
        helper.make_node("Constant", [], ["one"], name="one", value=numpy_helper.from_array(np.float32([0.1]))),
        helper.make_node("Add", ["x", "counted"], ["sum"], name="add"),
        helper.make_node("Clip", ["sum", "", "most"], ["cut"], name="clip"),
        helper.make_node("If", ["yes"], ["chosen"], name="if", then_branch=branch[0], else_branch=branch[1]),
        helper.make_node("Mul", ["chosen", "one"], ["y"], name="mul"),
        helper.make_node("ArgMax", ["y"], ["best"], name="argmax", axis=0),
    ]
    graph = helper.make_graph(
        nodes,
        "odd",
        [info("x", 1, [4]), info("count", TensorProto.INT64, [4]), info("yes", TensorProto.BOOL, [])],
        [info("y", 1, [4]), info("best", TensorProto.INT64, None)],
        [numpy_helper.from_array(np.float32(3000.3), "most")],
    )
    return Model.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))


ODD_FEEDS = {
    "x": np.float32([0.1, 1.7, 2.2, 1e5]),
    "count": np.int64([1, 2049, 2051, 70000]),
    "yes": np.array(True),
}


@pytest.mark.parametrize("low", ["fp16", "bf16"])
@pytest.mark.parametrize("keep", [(), ("add",), ("add", "clip"), ("cast", "mul")])
def test_an_odd_model_gives_the_bits_of_the_emulated_one(low: Precision, keep: tuple[str, ...]) -> None:
    model, kept = odd_model(), tuple(NodeId(node) for node in keep)
    assert low != "fp32"
    made = Evaluator(model, low, [ODD_FEEDS]).outputs(kept, 0)
    whole = run_whole(emulate(model, PrecisionPlan(low, kept)).model, ODD_FEEDS)
    assert all(same_bits(np.asarray(a), b) for a, b in zip(made.values(), whole, strict=True))


@pytest.mark.parametrize("name", ["layernorm_overflow", "l2norm_overflow"])
def test_zoo_models_give_the_bits_of_the_emulated_ones(name: str) -> None:
    made = zoo.get(name)
    run = Evaluator(made.model, "fp16", made.feeds)
    for keep in ((), made.truth, made.keep):
        whole = run_whole(emulate(made.model, PrecisionPlan("fp16", keep)).model, made.feeds[1])
        np.testing.assert_array_equal(next(iter(run.outputs(keep, 1).values())), whole[0])


def test_only_the_part_below_the_change_is_run_again() -> None:
    made = zoo.get("l2norm_overflow")
    run = Evaluator(made.model, "fp16", made.feeds)
    run.outputs((), 0)
    before = run.runs
    run.outputs((), 0)
    assert run.runs == before, "nothing changed, nothing runs"
    run.outputs((NodeId("/o/Conv"),), 0)
    assert run.runs == before + 1
    run.outputs((NodeId("/Mul"),), 0)  # still Inf behind it, so nothing below is run
    assert run.runs == before + 3


def test_a_small_memory_changes_no_number() -> None:
    made = zoo.get("layernorm_overflow")
    small = Evaluator(made.model, "fp16", made.feeds, budget=10_000)
    large = Evaluator(made.model, "fp16", made.feeds)
    for keep in ((), made.keep, (), made.truth, made.keep):
        for sample in range(2):
            np.testing.assert_array_equal(
                small.outputs(keep, sample)[TensorId("y")], large.outputs(keep, sample)[TensorId("y")]
            )


def test_sweep_gives_golden_accumulated_and_local_values() -> None:
    made = zoo.get("l2norm_overflow")
    seen = {values.node: values for values in Evaluator(made.model, "fp16", made.feeds).sweep(0)}
    square = seen[NodeId("/Mul")]
    tensor = TensorId("/Mul_output_0")
    assert np.isfinite(square.golden[tensor]).all()
    assert np.isinf(square.alone[tensor]).all() and np.isinf(square.low[tensor]).all()
    late = seen[NodeId("/c/c.0/Conv")]  # good by itself, wrong by what it gets
    name = TensorId("/c/c.0/Conv_output_0")
    assert np.abs(late.alone[name] - late.golden[name]).max() < 1e-3 < np.abs(late.low[name] - late.golden[name]).max()


def test_same_bits() -> None:
    nan = np.float32([np.nan, 0.0])
    assert same_bits(nan, nan.copy())
    assert not same_bits(np.float32([0.0]), np.float32([-0.0]))
    assert not same_bits(np.float32([1.0]), np.float64([1.0]))
    assert same_bits(np.zeros((2, 0)), np.zeros((2, 0)))
    assert not same_bits([nan], nan)
    half = np.array([1, 2], ml_dtypes.bfloat16)
    assert same_bits(half, half.copy())
