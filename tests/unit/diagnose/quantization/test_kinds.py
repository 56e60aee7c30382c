"""Types and forms of Q/DQ beyond symmetric INT8: packed and blocked weights, Q/DQ behind Q/DQ; and the search of low precision."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.unit.diagnose.searching import run_search, search_task
from tests.unit.edit.qdq_models import make, run
from trt_lab.diagnose.quantization.evaluate import QdqEvaluator
from trt_lab.diagnose.quantization.measure import PairSum
from trt_lab.edit.qdq import dequantise, find_qdq
from trt_lab.graph import GraphView
from trt_lab.model import Model

RANDOM = np.random.default_rng(3)
X = RANDOM.standard_normal((2, 8)).astype(np.float32)


def int4_weights(*, blocked: bool) -> Model:
    """y = x · DQ(int4 weight [8, 4]), a scale for each 2 rows of a column, or for each column."""
    codes = RANDOM.integers(-8, 8, (8, 4)).astype(np.int8)
    weight = helper.make_tensor("wq", TensorProto.INT4, (8, 4), codes.reshape(-1).tolist())
    scale = RANDOM.uniform(0.1, 0.5, (4, 4) if blocked else (4,)).astype(np.float32)
    more = {"axis": 0, "block_size": 2} if blocked else {"axis": 1}
    nodes = [
        helper.make_node("DequantizeLinear", ["wq", "s"], ["w"], name="dq", **more),
        helper.make_node("MatMul", ["x", "w"], ["y"], name="mul"),
    ]
    graph = helper.make_graph(
        nodes, "int4",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])],
        [weight, numpy_helper.from_array(scale, "s")],
    )  # fmt: skip
    return Model.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))


@pytest.mark.parametrize("blocked", [False, True])
def test_int4_weights_by_column_and_by_block(blocked: bool) -> None:
    model = int4_weights(blocked=blocked)
    (pair,) = find_qdq(GraphView.of(model)).pairs
    assert (pair.dtype, pair.kind, pair.axis, pair.block) == (
        "int4",
        "weight",
        0 if blocked else 1,
        2 if blocked else 0,
    )
    evaluator = QdqEvaluator(model, [{"x": X}])
    total = PairSum(pair)
    list(evaluator.measure([total], 0))
    figures = total.figures()
    assert figures.levels == 16 and figures.levels_used is not None and 2 <= figures.levels_used <= 16
    assert figures.channels == (16 if blocked else 4) and figures.local is None
    (made,) = evaluator.run(evaluator.layers, 0).values()
    np.testing.assert_allclose(made, run(model, {"x": X})[0], rtol=1e-6)
    floats = RANDOM.standard_normal((8, 4)).astype(np.float32)
    freed = dequantise(model, weights={pair.restored[0]: floats}).model
    np.testing.assert_allclose(run(freed, {"x": X})[0], X @ floats, rtol=1e-5, atol=1e-5)


def double_pair() -> Model:
    """x → Q/DQ of step 0.5 → Q/DQ of step 2 → Identity."""
    nodes: list[onnx.NodeProto] = []
    for number, source in ((1, "x"), (2, "d1")):
        nodes += [
            helper.make_node("QuantizeLinear", [source, f"s{number}", "z"], [f"q{number}"], name=f"Q{number}"),
            helper.make_node("DequantizeLinear", [f"q{number}", f"s{number}", "z"], [f"d{number}"], name=f"DQ{number}"),
        ]
    nodes.append(helper.make_node("Identity", ["d2"], ["y"], name="id"))
    weights = {"s1": np.array(0.5, np.float32), "s2": np.array(2.0, np.float32), "z": np.array(0, np.int8)}
    return make("double", nodes, weights, {"x": [2, 8]}, {"y": [2, 8]})


def test_a_pair_behind_a_pair_is_taken_away_with_it() -> None:
    model = double_pair()
    found = find_qdq(GraphView.of(model))
    assert found.floats == {"d1": "x", "d2": "x"} and [layer.node for layer in found.layers] == ["id"]
    np.testing.assert_array_equal(run(dequantise(model).model, {"x": X})[0], X)
    evaluator = QdqEvaluator(model, [{"x": X}])
    np.testing.assert_array_equal(evaluator.run((), 0)["y"], X)  # pyright: ignore[reportArgumentType]  # a name is an id
    np.testing.assert_array_equal(evaluator.run(evaluator.layers, 0)["y"], run(model, {"x": X})[0])  # pyright: ignore[reportArgumentType]
    sums = [PairSum(pair) for pair in found.pairs]
    list(evaluator.measure(sums, 0))
    one, two = (total.figures() for total in sums)
    assert (
        one.local is not None
        and two.local is not None
        and one.local.snr_db is not None
        and two.local.snr_db is not None
    )
    assert one.local.snr_db > two.local.snr_db


def test_fp8_saturates_where_the_runtime_does() -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="Q"),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], name="DQ"),
    ]
    weights = {"s": np.array(0.01, np.float32), "z": np.zeros((), ml_dtypes.float8_e4m3fn)}
    model = make("fp8", nodes, weights, {"x": [2, 8]}, {"y": [2, 8]}, opset=19)
    x = X * 5
    evaluator = QdqEvaluator(model, [{"x": x}])
    (pair,) = find_qdq(GraphView.of(model)).pairs
    total = PairSum(pair)
    list(evaluator.measure([total], 0))
    made = run(model, {"x": x})[0]
    assert total.figures().saturated == pytest.approx(float((np.abs(x) > 4.48 + 1e-6).mean()))
    assert float(np.abs(made).max()) == pytest.approx(4.48)


def overflow_before_a_quantiser() -> Model:
    """y = DQ(Q((100·x)² / 1e4)): the square leaves FP16."""
    weights = {"hundred": np.array(100, np.float32), "low": np.array(1e-4, np.float32)}
    weights |= {"s": np.array(0.1, np.float32), "z": np.array(0, np.int8)}
    nodes = [
        helper.make_node("Mul", ["x", "hundred"], ["big"], name="big"),
        helper.make_node("Mul", ["big", "big"], ["square"], name="square"),
        helper.make_node("Mul", ["square", "low"], ["back"], name="back"),
        helper.make_node("QuantizeLinear", ["back", "s", "z"], ["q"], name="Q"),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"], name="DQ"),
        helper.make_node("Neg", ["d"], ["y"], name="neg"),
    ]
    return make("quantised", nodes, weights, {"x": [2, 8]}, {"y": [2, 8]})


def test_a_search_says_what_it_does_not_see_of_a_quantised_model(tmp_path: Path) -> None:
    found = run_search(search_task(tmp_path, overflow_before_a_quantiser(), [{"x": X * 3}]))
    assert not found.passes and found.region is not None and "square" in found.region.keep_fp32
    assert found.notes[0].startswith("the model is quantised (1 Q/DQ pairs), and so is its reference")
    kinds = {row.node: row.evidence.kind for row in found.errors if row.evidence is not None}
    assert kinds["square"] == "overflow"


def test_rounding_before_a_quantiser_is_a_matter_of_its_steps(tmp_path: Path) -> None:
    """x + 0.4995 lies just under the middle of a step of 1; FP16 rounds it over the middle."""
    weights = {"half": np.array(0.4995, np.float32), "s": np.array(1.0, np.float32), "z": np.array(0, np.int8)}
    nodes = [
        helper.make_node("Add", ["x", "half"], ["a"], name="add"),
        helper.make_node("QuantizeLinear", ["a", "s", "z"], ["q"], name="Q"),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], name="DQ"),
    ]
    model = make("steps", nodes, weights, {"x": [1, 64]}, {"y": [1, 64]})
    x = np.arange(-32, 32, dtype=np.float32).reshape(1, 64)
    found = run_search(search_task(tmp_path, model, [{"x": x}]))
    assert not found.passes and found.region is not None and found.region.keep_fp32 == ("add",)
    (source,) = found.sources
    assert source.evidence is not None and source.evidence.kind == "quantisation"
    assert "'Q' turns its rounding into steps of 1" in source.why
