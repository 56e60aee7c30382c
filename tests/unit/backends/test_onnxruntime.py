"""ONNX Runtime as reference and as engine, on small models made here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx.helper as oh
import onnx.numpy_helper as onh
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from onnx import TensorProto

from trt_lab import backends, zoo
from trt_lab.backends.base import Built
from trt_lab.errors import BuildError, EditError, InputError, ModelError, RunError, UsageError
from trt_lab.graph import GraphView
from trt_lab.model import Model
from trt_lab.types import BuildOptions, NodeId, PrecisionPlan, Progress, ShapeRange

ORT = backends.get("onnxruntime")
REFERENCE = BuildOptions(optimizer=False, profile_runs=0)
ENGINE = BuildOptions(profile_runs=0)
F32 = TensorProto.FLOAT


def value(name: str, shape: Sequence[int | str] | None, kind: int = F32) -> onnx.ValueInfoProto:
    return oh.make_tensor_value_info(name, kind, shape)


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    weights: Mapping[str, np.ndarray] | None = None,
    *,
    opset: int = 17,
    domains: Sequence[str] = (),
) -> Model:
    tensors = [onh.from_array(array, name) for name, array in (weights or {}).items()]
    graph = oh.make_graph(list(nodes), "g", list(inputs), list(outputs), tensors)
    imports = [oh.make_opsetid("", opset), *(oh.make_opsetid(domain, 1) for domain in domains)]
    return Model.load(oh.make_model(graph, opset_imports=imports, ir_version=10))


def silent(_: Progress) -> None:
    """Nobody listens."""


def build_and_run(
    model: Model, feeds: Mapping[str, object], options: BuildOptions = REFERENCE
) -> tuple[Built, dict[str, np.ndarray]]:
    built = ORT.build(model, options, silent)
    runner = ORT.open(built)
    try:
        return built, runner.run({name: np.asarray(array) for name, array in feeds.items()})
    finally:
        runner.close()


def run(model: Model, feeds: Mapping[str, object], options: BuildOptions = REFERENCE) -> dict[str, np.ndarray]:
    return build_and_run(model, feeds, options)[1]


def floats(*numbers: float) -> np.ndarray:
    return np.array(numbers, np.float32)


# --- cases ------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [REFERENCE, ENGINE], ids=["reference", "engine"])
def test_c02_two_nodes_with_one_name_run_and_say_so(options: BuildOptions) -> None:
    nodes = [oh.make_node("MatMul", ["x", "w"], ["a"], name="fc"), oh.make_node("Add", ["a", "b"], ["y"], name="fc")]
    weights = {"w": np.eye(2, dtype=np.float32) * 2, "b": floats(1, 1)}
    model = model_of(nodes, [value("x", [1, 2])], [value("y", [1, 2])], weights)
    built, outputs = build_and_run(model, {"x": [floats(1, 2)]}, options)
    np.testing.assert_array_equal(outputs["y"], [[3, 5]])
    ids = set(GraphView.of(model).nodes)
    assert {node for layer in built.layers for node in layer.nodes} == ids
    assert any("fc" in note for note in built.facts["notes"])  # pyright: ignore[reportGeneralTypeIssues, reportOptionalIterable]


@pytest.mark.parametrize("options", [REFERENCE, ENGINE], ids=["reference", "engine"])
def test_c03_branches_with_equal_names(options: BuildOptions) -> None:
    def branch(op: str) -> onnx.GraphProto:
        return oh.make_graph([oh.make_node(op, ["x"], ["r"], name="my_add")], op, [], [value("r", [2])])

    nodes = [
        oh.make_node("If", ["c"], ["p"], name="if0", then_branch=branch("Neg"), else_branch=branch("Abs")),
        oh.make_node("If", ["c"], ["q"], name="if1", then_branch=branch("Exp"), else_branch=branch("Relu")),
    ]
    model = model_of(nodes, [value("c", [], TensorProto.BOOL), value("x", [2])], [value("p", [2]), value("q", [2])])
    built = ORT.build(model, BuildOptions(profile_runs=2, optimizer=options.optimizer), silent)
    runner = ORT.open(built)
    feeds = {"c": np.array(True), "x": floats(1, -2)}
    outputs = runner.run(feeds)
    np.testing.assert_allclose(outputs["p"], [-1, 2])
    np.testing.assert_allclose(outputs["q"], [2.718282, 0.135335], rtol=1e-5)
    assert {layer.nodes for layer in built.layers} >= {(NodeId("if0/then/my_add"),), (NodeId("if1/else/my_add"),)}
    ran = {time.name for time in runner.profile(feeds, 2).times}
    assert "if0/then/my_add" in ran and "if0/else/my_add" not in ran
    runner.close()


def test_c04_outer_initializer_in_a_branch() -> None:
    then = oh.make_graph([oh.make_node("Add", ["x", "w"], ["r"], name="add")], "then", [], [value("r", [2])])
    other = oh.make_graph([oh.make_node("Identity", ["x"], ["r"], name="id")], "else", [], [value("r", [2])])
    model = model_of(
        [oh.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)],
        [value("c", [], TensorProto.BOOL), value("x", [2])],
        [value("y", [2])],
        {"w": floats(10, 20)},
    )
    np.testing.assert_array_equal(run(model, {"c": True, "x": floats(1, 1)})["y"], [11, 21])


def test_c05_omitted_optional_input() -> None:
    model = model_of(
        [oh.make_node("Clip", ["x", "", "mx"], ["y"], name="clip")],
        [value("x", [4])], [value("y", [4])], {"mx": np.array(6, np.float32)},
    )  # fmt: skip
    built, outputs = build_and_run(model, {"x": floats(-9, 3, 6, 7)})
    np.testing.assert_array_equal(outputs["y"], [-9, 3, 6, 6])
    assert [tensor.name for layer in built.layers for tensor in layer.inputs] == ["x", "mx"]


def test_c06_an_initializer_that_is_an_input_may_be_fed_and_need_not_be() -> None:
    model = model_of(
        [oh.make_node("Add", ["x", "w"], ["y"])], [value("x", [2]), value("w", [2])], [value("y", [2])],
        {"w": floats(3, 4)},
    )  # fmt: skip
    np.testing.assert_array_equal(run(model, {"x": floats(1, 1)})["y"], [4, 5])
    np.testing.assert_array_equal(run(model, {"x": floats(1, 1), "w": floats(0, 0)})["y"], [1, 1])


def test_c11_nodes_out_of_order() -> None:
    nodes = [oh.make_node("Neg", ["a"], ["y"], name="neg"), oh.make_node("Relu", ["x"], ["a"], name="relu")]
    model = model_of(nodes, [value("x", [2])], [value("y", [2])])
    built, outputs = build_and_run(model, {"x": floats(1, -2)})
    np.testing.assert_array_equal(outputs["y"], [-1, 0])
    assert [layer.nodes for layer in built.layers] == [("relu",), ("neg",)]


def test_c13_zero_elements() -> None:
    weights = {"s": np.array([0]), "e": np.array([0]), "a": np.array([2])}
    nodes = [oh.make_node("Slice", ["x", "s", "e", "a"], ["z"]), oh.make_node("Concat", ["x", "z"], ["y"], axis=2)]
    model = model_of(nodes, [value("x", [1, 5, 4, 3])], [value("z", None), value("y", None)], weights)
    outputs = run(model, {"x": np.ones((1, 5, 4, 3), np.float32)})
    assert outputs["z"].shape == (1, 5, 0, 3) and outputs["y"].shape == (1, 5, 4, 3)


def test_c28_the_reference_runs_unoptimised_and_says_so() -> None:
    fault = zoo.get("clean_cnn")
    reference, engine = (ORT.build(fault.model, options, silent) for options in (REFERENCE, ENGINE))
    assert reference.facts["optimizer"] is False and engine.facts["optimizer"] is True
    nodes = GraphView.of(fault.model).nodes
    assert all(len(layer.nodes) == 1 for layer in reference.layers)
    assert {layer.nodes[0] for layer in reference.layers} <= set(nodes)
    assert any(len(layer.nodes) > 1 for layer in engine.layers)


def test_c30_sizes_that_depend_on_data() -> None:
    model = model_of(
        [oh.make_node("NonZero", ["x"], ["y"])], [value("x", [2, 3])], [value("y", [2, "n"], TensorProto.INT64)]
    )
    assert run(model, {"x": np.array([[1, 2, 0], [3, 0, 4]], np.float32)})["y"].shape == (2, 4)
    assert run(model, {"x": np.zeros((2, 3), np.float32)})["y"].shape == (2, 0)


def test_c19_an_output_listed_twice() -> None:
    graph = oh.make_graph([oh.make_node("Relu", ["x"], ["y"])], "g", [value("x", [2])], [value("y", [2])] * 2)
    model = Model.load(oh.make_model(graph, opset_imports=[oh.make_opsetid("", 17)], ir_version=8))
    assert {name: array.tolist() for name, array in run(model, {"x": floats(1, -2)}).items()} == {"y": [1, 0]}


# --- precision --------------------------------------------------------------------------------


def error_of(plan: PrecisionPlan) -> float:
    fault = zoo.get("l2norm_overflow")
    expected = run(fault.model, fault.feeds[0])
    found = run(fault.model, fault.feeds[0], BuildOptions(plan=plan, profile_runs=0))
    assert list(found) == list(expected)
    return max(float(np.abs(found[name] - expected[name]).max()) for name in expected)


def test_emulated_fp16_shows_the_fault_and_the_region_repairs_it() -> None:
    fault = zoo.get("l2norm_overflow")
    assert error_of(PrecisionPlan("fp16")) > 0.1
    assert error_of(PrecisionPlan("fp16", fault.keep)) < 1e-3
    assert error_of(PrecisionPlan("fp16", fault.truth)) > 0.1
    assert error_of(PrecisionPlan("fp32")) < 1e-5


@pytest.mark.parametrize(("name", "dtype"), [("fp16", "float16"), ("bf16", "bfloat16")])
def test_layers_say_that_their_precision_is_emulated(name: str, dtype: str) -> None:
    fault = zoo.get("l2norm_overflow")
    plan = PrecisionPlan(name, fault.keep)  # pyright: ignore[reportArgumentType] (parametrised)
    built = ORT.build(fault.model, BuildOptions(plan=plan, profile_runs=0), silent)
    assert built.facts["emulated"] == name
    by_node = {node: layer.precision for layer in built.layers for node in layer.nodes}
    kept = {by_node[node] for node in fault.keep if node in by_node}
    assert kept == {"float32"}
    assert f"{dtype} (emulated)" in by_node.values()
    known = set(GraphView.of(fault.model).nodes)
    assert set(by_node) <= known, "casts belong to the user's nodes"


def test_a_native_fp16_model_is_said_to_run_in_fp32() -> None:
    model = model_of(
        [oh.make_node("MatMul", ["x", "w"], ["y"], name="mm")],
        [value("x", [2, 4], TensorProto.FLOAT16)], [value("y", [2, 3], TensorProto.FLOAT16)],
        {"w": np.ones((4, 3), np.float16)},
    )  # fmt: skip
    built = ORT.build(model, ENGINE, silent)
    assert [layer.precision for layer in built.layers if layer.type == "MatMul"] == ["float32"]
    assert "says nothing about low precision" in str(built.facts["notes"])
    assert all(layer.nodes == ("mm",) for layer in built.layers)


# --- layers and times -------------------------------------------------------------------------


@pytest.mark.parametrize("options", [REFERENCE, ENGINE, BuildOptions(plan=PrecisionPlan("fp16"), profile_runs=0)])
@pytest.mark.parametrize("name", ["magika", "ppocr_det", "ppocr_rec", "ppocr_cls", "silero_16k", "silero"])
def test_every_layer_of_real_models_is_joined_to_nodes(real_model: object, name: str, options: BuildOptions) -> None:
    model = Model.load(real_model(name))  # pyright: ignore[reportCallIssue] (a fixture that is a function)
    built = ORT.build(model, options, silent)
    assert [layer.name for layer in built.layers if layer.nodes_from == "none"] == []
    known = set(GraphView.of(model).nodes)
    mapped = {node for layer in built.layers for node in layer.nodes}
    assert mapped <= known
    gone = {str(node) for fact in ("folded", "removed") for node in built.facts[fact]}  # pyright: ignore[reportGeneralTypeIssues, reportOptionalIterable]
    assert not gone & mapped
    assert known == {str(node) for node in mapped} | gone, "no node is lost: each is in a layer, folded or removed"


def test_fused_layers_hold_their_nodes_and_folded_ones_are_named() -> None:
    weights = {"w": np.ones((1, 1, 3, 3), np.float32), "c": floats(2), "d": floats(3)}
    nodes = [
        oh.make_node("Add", ["c", "d"], ["e"], name="fold"),
        oh.make_node("Conv", ["x", "w"], ["a"], name="conv"),
        oh.make_node("Relu", ["a"], ["b"], name="relu"),
        oh.make_node("Mul", ["b", "e"], ["y"], name="mul"),
    ]
    model = model_of(nodes, [value("x", [1, 1, 8, 8])], [value("y", [1, 1, 6, 6])], weights)
    built, outputs = build_and_run(model, {"x": np.ones((1, 1, 8, 8), np.float32)}, ENGINE)
    np.testing.assert_array_equal(outputs["y"], np.full((1, 1, 6, 6), 45, np.float32))
    assert ("conv", "relu") in [layer.nodes for layer in built.layers]
    assert built.facts["folded"] == ["fold"]


def test_profile_gives_every_run_and_the_latency_apart() -> None:
    fault = zoo.get("l2norm_overflow")
    built = ORT.build(fault.model, BuildOptions(profile_runs=4), silent)
    runner = ORT.open(built)
    runner.run(fault.feeds[0])
    first, second = runner.profile(fault.feeds[0], 4), runner.profile(fault.feeds[0], 3)
    runner.close()
    runner.close()
    assert len(first.latency_ms) == 4 and len(second.latency_ms) == 3
    assert all(time > 0 for time in (*first.latency_ms, *second.latency_ms))
    for profile, runs in ((first, 4), (second, 3)):
        assert [time.index for time in profile.times] == [layer.index for layer in built.layers]
        for time in profile.times:
            assert len(time.runs_ms) == runs
            assert min(time.runs_ms) <= time.average_ms <= max(time.runs_ms)
            assert time.start_ms is not None and time.start_ms >= 0
    with pytest.raises(RunError, match="closed"):
        runner.run(fault.feeds[0])


def test_runs_are_repeatable_to_the_bit() -> None:
    fault = zoo.get("clean_cnn")
    for options in (REFERENCE, ENGINE, BuildOptions(plan=PrecisionPlan("fp16"), profile_runs=0)):
        first, second = (run(fault.model, fault.feeds[0], options) for _ in range(2))
        for name, array in first.items():
            assert array.tobytes() == second[name].tobytes()


def test_progress_goes_up() -> None:
    steps: list[Progress] = []
    ORT.build(zoo.get("clean_cnn").model, BuildOptions(plan=PrecisionPlan("fp16")), steps.append)
    fractions = [step.fraction for step in steps]
    assert fractions == sorted(fractions, key=lambda f: f or 0) and fractions[-1] == 1.0


# --- types ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        (TensorProto.BFLOAT16, ml_dtypes.bfloat16),
        (TensorProto.FLOAT16, np.float16),
        (TensorProto.FLOAT8E4M3FN, ml_dtypes.float8_e4m3fn),
        (TensorProto.FLOAT8E5M2, ml_dtypes.float8_e5m2),
        (TensorProto.DOUBLE, np.float64),
        (TensorProto.BOOL, np.bool_),
        (TensorProto.UINT8, np.uint8),
    ],
)
def test_types_come_back_as_they_are(kind: int, dtype: type) -> None:
    model = model_of(
        [oh.make_node("Cast", ["x"], ["y"], to=kind)], [value("x", [2, 2])], [value("y", [2, 2], kind)], opset=21
    )
    x = np.array([[1, 2.5], [0, 3]], np.float32)
    found = run(model, {"x": x})["y"]
    assert found.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(found.astype(np.float32), x.astype(dtype).astype(np.float32))


BF16_CAST = model_of(
    [oh.make_node("Cast", ["x"], ["y"], to=TensorProto.BFLOAT16)],
    [value("x", ["n"])], [value("y", ["n"], TensorProto.BFLOAT16)], opset=21,
)  # fmt: skip


@given(hnp.arrays(np.float32, st.integers(0, 20), elements=st.floats(width=32, allow_nan=False)))
@settings(max_examples=30, deadline=None)
def test_bfloat16_holds_every_number_to_the_bit(x: np.ndarray) -> None:
    found = run(BF16_CAST, {"x": x})["y"]
    assert found.dtype == ml_dtypes.bfloat16 and found.shape == x.shape
    assert found.tobytes() == x.astype(ml_dtypes.bfloat16).tobytes()


@pytest.mark.parametrize(("kind", "numbers"), [(TensorProto.INT4, [-8, 7, -1]), (TensorProto.UINT4, [0, 15, 9])])
def test_four_bit_integers_are_unpacked(kind: int, numbers: list[int]) -> None:
    zero = oh.make_tensor("z", kind, [], [0])
    graph = oh.make_graph(
        [oh.make_node("QuantizeLinear", ["x", "s", "z"], ["y"])], "g", [value("x", [3])], [value("y", [3], kind)],
        [onh.from_array(np.array(1, np.float32), "s"), zero],
    )  # fmt: skip
    model = Model.load(oh.make_model(graph, opset_imports=[oh.make_opsetid("", 21)], ir_version=10))
    assert run(model, {"x": floats(*numbers)})["y"].astype(np.int8).tolist() == numbers


def test_bfloat16_can_be_fed() -> None:
    model = model_of(
        [oh.make_node("Cast", ["x"], ["y"], to=F32)],
        [value("x", [2], TensorProto.BFLOAT16)],
        [value("y", [2])],
        opset=21,
    )
    assert run(model, {"x": np.array([1, -2.5], ml_dtypes.bfloat16)})["y"].tolist() == [1, -2.5]


def test_text_passes() -> None:
    text = TensorProto.STRING
    model = model_of([oh.make_node("Identity", ["x"], ["y"])], [value("x", [2], text)], [value("y", [2], text)])
    assert run(model, {"x": np.array(["a", "ü"], object)})["y"].tolist() == ["a", "ü"]


def test_an_output_that_is_no_tensor_is_refused() -> None:
    kind = oh.make_sequence_type_proto(oh.make_tensor_type_proto(F32, None))
    graph = oh.make_graph(
        [oh.make_node("SequenceConstruct", ["x"], ["y"])], "g", [value("x", [2])], [oh.make_value_info("y", kind)]
    )
    model = Model.load(oh.make_model(graph, opset_imports=[oh.make_opsetid("", 17)], ir_version=8))
    with pytest.raises(RunError, match=r"'y' is a seq.*only tensors"):
        ORT.open(ORT.build(model, REFERENCE, silent))


# --- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (BuildOptions(timing_cache="cache"), "timing cache"),
        (BuildOptions(builder_level=3), "builder level"),
        (BuildOptions(workspace_bytes=1), "workspace"),
        (BuildOptions(compute_capability="SM86"), "tensorrt_rtx"),
        (BuildOptions(strongly_typed=False), "weakly typed"),
        (BuildOptions(device=1), "device"),
        (BuildOptions(profile_runs=-1), "0 or more"),
        (BuildOptions(shapes=(ShapeRange("nope", (1,), (1,), (1,)),)), "'nope', which is no input"),
        (BuildOptions(shapes=(ShapeRange("x", (1,), (1,), (1,)),)), "has 4 dimensions"),
    ],
)
def test_options_it_cannot_honour_are_refused(options: BuildOptions, words: str) -> None:
    model = model_of([oh.make_node("Relu", ["x"], ["y"])], [value("x", [1, 1, 2, 2])], [value("y", [1, 1, 2, 2])])
    with pytest.raises(UsageError, match=words):
        ORT.build(model, options, silent)


def test_a_plan_that_names_no_node_is_refused() -> None:
    with pytest.raises(EditError, match="nope"):
        ORT.build(zoo.get("clean_cnn").model, BuildOptions(plan=PrecisionPlan("fp16", (NodeId("nope"),))), silent)


BAD_MODELS = {
    "Polygraphy/examples/cli/check/01_linting_an_onnx_model/bad_graph.onnx": ["'Add_0'", "Incompatible dimensions"],
    "Polygraphy/examples/cli/inspect/08_inspecting_tensorrt_onnx_support/model.onnx": [
        "'Fake_0'",
        "no operator 'Fake'",
    ],
    "Polygraphy/examples/cli/inspect/09_inspecting_tensorrt_static_onnx_support/nested_local_function.onnx": ["Einsum"],
    "Polygraphy/tests/models/bad_graph_with_multi_level_errors.onnx": ["MatMul", "Incompatible dimensions"],
    "Polygraphy/tests/models/capability.onnx": ["'Fake1'", "FAKE!"],
    "Polygraphy/tests/models/custom_op_node.onnx": ["'NegPos_0'", "ai.onnx.contrib"],
    "Polygraphy/tests/models/matmul.bf16.onnx": ["'matmul'", "cannot compute MatMul", "bfloat16"],
    "Polygraphy/tests/models/toy_subgraph.onnx": ["'n1'", "no operator 'O'"],
    "Polygraphy/tests/models/weightless.conv.onnx": ["weight 'b'", "4096 bytes needed, 0 there"],
    "Polygraphy/tests/models/weightless.qdq_conv.onnx": ["weight 'x'", "saved without its weights"],
    "old/bad.onnx": ["'Invalid op'", "onnx_graphsurgeon_node_7"],
    "onnx-graphsurgeon/tests/models/nested_dup_names.onnx": ["'Nested_0'", "no operator 'Nested'"],
}


@pytest.mark.parametrize("file", BAD_MODELS)
def test_bad_models_give_one_line_that_names_what_is_wrong(shared: object, file: str) -> None:
    model = Model.load(shared / "real_inputs/onnx" / file)  # pyright: ignore[reportOperatorIssue] (a path)
    with pytest.raises(BuildError) as caught:
        ORT.build(model, REFERENCE, silent)
    message = str(caught.value)
    assert "\n" not in message and message.startswith(f"{model.name}: ") and "ONNXRuntimeError" not in message
    for words in BAD_MODELS[file]:
        assert words in message


@pytest.mark.parametrize(
    ("nodes", "weights", "words"),
    [
        (
            [oh.make_node("Add", ["x", "i"], ["y"], name="add")],
            {"i": np.ones(2, np.float64)},
            ["'add'", "float32", "float64"],
        ),
        (
            [oh.make_node("Resize", ["x", "", "s"], ["y"], name="up")],
            {"s": np.ones(1, np.float16)},
            ["'up'", "'s'", "float16"],
        ),
        ([oh.make_node("BiasX", ["x", "x"], ["y"], name="b", domain="com.microsoft")], {}, ["BiasX", "com.microsoft"]),
    ],
)
def test_wrong_types_and_unknown_operators(nodes: list, weights: dict, words: list[str]) -> None:
    with pytest.raises(BuildError) as caught:
        ORT.build(
            model_of(nodes, [value("x", [2])], [value("y", None)], weights, domains=["com.microsoft"]),
            REFERENCE,
            silent,
        )
    for word in words:
        assert word in str(caught.value)


def test_an_opset_of_the_future() -> None:
    graph = oh.make_graph([oh.make_node("Relu", ["x"], ["y"])], "g", [value("x", [2])], [value("y", [2])])
    proto = oh.make_model(graph, ir_version=10)
    proto.opset_import[0].version = 99
    with pytest.raises((ModelError, BuildError), match="99"):  # opened or not, the line names the opset
        ORT.build(Model.load(proto), REFERENCE, silent)


def test_a_node_that_fails_while_running_is_named() -> None:
    model = model_of(
        [oh.make_node("Reshape", ["x", "s"], ["y"], name="fold_it")],
        [value("x", [6]), value("s", [2], TensorProto.INT64)], [value("y", None)],
    )  # fmt: skip
    runner = ORT.open(ORT.build(model, REFERENCE, silent))
    with pytest.raises(RunError, match=r"node 'fold_it' \(Reshape\) failed") as caught:
        runner.run({"x": np.ones(6, np.float32), "s": np.array([4, 4])})
    assert "\n" not in str(caught.value) and ".cc" not in str(caught.value) and ".h:" not in str(caught.value)
    with pytest.raises(InputError, match="'s'"):
        runner.run({"x": np.ones(6, np.float32)})
    runner.close()


def test_nothing_is_printed_in_the_users_own_process(capfd: pytest.CaptureFixture[str]) -> None:
    model = model_of(
        [oh.make_node("Add", ["x", "w"], ["y"])],
        [value("x", [2]), value("w", [2])],
        [value("y", [2])],
        {"w": floats(1, 1)},
    )
    run(model, {"x": floats(1, 1)}, ENGINE)
    assert capfd.readouterr().err == ""


def test_a_build_leaves_the_names_of_nested_nodes_alone(shared: Path) -> None:
    model = Model.load(shared / "real_inputs/onnx/Polygraphy/tests/models/loop.onnx")
    view = GraphView.of(model)
    before = {node: view.ir_node(node).name for node in view.nodes}
    assert any(node != name for node, name in before.items())
    backends.get("onnxruntime").build(model, BuildOptions(profile_runs=0), lambda _: None)
    assert {node: view.ir_node(node).name for node in view.nodes} == before
