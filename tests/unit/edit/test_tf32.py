"""TF32 emulated: inputs of products rounded to 10 bits (C25)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from trt_lab import backends, zoo
from trt_lab.edit.tf32 import emulate_tf32
from trt_lab.errors import EditError
from trt_lab.graph import GraphView
from trt_lab.model import Model
from trt_lab.types import BuildOptions, PrecisionPlan


def small(
    nodes: Sequence[onnx.NodeProto], shape: Sequence[int], *weights: onnx.TensorProto, opset: int = 17, kind: int = 1
) -> Model:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [value("x", kind, shape)], [value("y", kind, None)], weights)
    return Model.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8))


def product(weights: np.ndarray, shape: Sequence[int]) -> Model:
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="mm")
    return small([node], shape, numpy_helper.from_array(weights, "w"))


def run(model: Model, x: np.ndarray, optimizer: bool = False) -> np.ndarray:
    options = ort.SessionOptions()
    levels = ort.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimizer else levels.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.proto().SerializeToString(), options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": x})[0])


def rounded(array: np.ndarray) -> np.ndarray:
    """float32 rounded to 10 stored bits, to nearest, ties to even, on the bits themselves."""
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    half = np.uint32(0xFFF) + ((bits >> 13) & 1)
    return ((bits + half) & np.uint32(0xFFFFE000)).view(np.float32)


@given(st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=4, max_size=4))
def test_c25_every_number_is_rounded_as_on_its_bits(values: list[float]) -> None:
    x = np.array([values], np.float32)
    x[np.abs(x) < 2.0**-100] = 0  # no subnormal numbers: they have fewer bits, and processors may flush them
    one = [
        run(emulate_tf32(product(np.ones((1, 1), np.float32), [1, 1])).model, x[:, i : i + 1])[0, 0] for i in range(4)
    ]
    wanted = rounded(x)[0]
    ties = (x[0].view(np.uint32) & 0x1FFF) == 0x1000  # either neighbour is nearest
    np.testing.assert_array_equal(np.array(one)[~ties], wanted[~ties])


def test_c25_a_product_is_that_of_rounded_inputs() -> None:
    random = np.random.default_rng(0)
    x, w = (random.standard_normal(size).astype(np.float32) for size in ((64, 256), (256, 64)))
    model = product(w, [64, 256])
    exact = x.astype(np.float64) @ w.astype(np.float64)
    wanted = rounded(x).astype(np.float64) @ rounded(w).astype(np.float64)
    for optimizer in (False, True):
        found = run(emulate_tf32(model).model, x, optimizer)
        assert np.abs(found - wanted).max() < 5e-5
        assert 1e-3 < np.abs(found - exact).max() < 5e-2
        assert np.abs(run(model, x, optimizer) - exact).max() < 5e-5, "FP32 is far better"


def test_numbers_that_cannot_be_split_stay() -> None:
    x = np.array([[np.inf]], np.float32)
    model = emulate_tf32(product(np.ones((1, 1), np.float32), [1, 1])).model
    assert run(model, x)[0, 0] == np.inf
    assert run(model, np.array([[3e38]], np.float32))[0, 0] == np.float32(3e38)
    assert np.isnan(run(model, np.array([[np.nan]], np.float32))[0, 0])


def test_a_shared_input_is_rounded_once_and_a_bias_is_not() -> None:
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["a"], name="one"),
        helper.make_node("Gemm", ["x", "w", "b"], ["c"], name="two"),
        helper.make_node("Add", ["a", "c"], ["y"], name="sum"),
    ]
    weights = [
        numpy_helper.from_array(np.eye(2, dtype=np.float32), "w"),
        numpy_helper.from_array(np.full(2, 1 + 2.0**-20, np.float32), "b"),
    ]
    model = small(nodes, [1, 2], *weights)
    before = model.hash
    found = emulate_tf32(model)
    assert found.products == ("one", "two")
    assert len(found.origin) == 2 + 2 * 6, "two constants, and six nodes for each of x and w"
    assert set(found.origin.values()) == {"one"}
    np.testing.assert_array_equal(run(found.model, np.zeros((1, 2), np.float32)), np.full((1, 2), 2 + 2.0**-19))
    assert model.hash == before
    onnx.checker.check_model(found.model.proto(), full_check=True)


def test_a_model_without_products_is_itself() -> None:
    model = small([helper.make_node("Relu", ["x"], ["y"], name="r")], [2])
    assert emulate_tf32(model).model is model
    half = small([helper.make_node("MatMul", ["x", "x"], ["y"], name="mm")], [2, 2], kind=TensorProto.FLOAT16)
    assert emulate_tf32(half).products == ()


def test_old_opsets_are_refused() -> None:
    model = small([helper.make_node("MatMul", ["x", "x"], ["y"], name="mm")], [2, 2], opset=8)
    with pytest.raises(EditError, match="opset 8 is too old to emulate TF32; convert it to 9 or later"):
        emulate_tf32(model)


@pytest.mark.parametrize("plan", [PrecisionPlan(), PrecisionPlan("fp16")], ids=["fp32", "fp16"])
def test_c25_the_backend_emulates_it_and_says_so(plan: PrecisionPlan) -> None:
    subject = zoo.get("clean_cnn")
    backend = backends.get("onnxruntime")
    outputs = []
    for tf32 in (False, True):
        built = backend.build(subject.model, BuildOptions(plan=plan, tf32=tf32, profile_runs=0), lambda progress: None)
        runner = backend.open(built)
        outputs.append(next(iter(runner.run(subject.feeds[0]).values())))
        runner.close()
        assert built.facts["tf32"] is tf32
        assert built.facts["emulated"] == (plan.default if plan.default != "fp32" else "tf32" if tf32 else None)
        assert any("TF32 is emulated: " in str(note) for note in built.facts["notes"]) is tf32  # type: ignore[union-attr]  # a list
        nodes = {node for layer in built.layers for node in layer.nodes}
        assert nodes <= set(GraphView.of(subject.model).nodes)
    difference = float(np.abs(outputs[0] - outputs[1]).max())
    assert difference > 0 if plan.default == "fp32" else difference == 0, "half precision has 10 bits already"
