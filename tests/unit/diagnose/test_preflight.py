"""What a model's file alone tells: each rule on the case that it stands for."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from trt_lab import zoo
from trt_lab.cli.main import run
from trt_lab.diagnose.preflight import Concern, check_model
from trt_lab.graph import GraphView
from trt_lab.model import Model

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def concerns(
    nodes: list,
    weights: dict[str, np.ndarray] | None = None,
    *,
    dtype: int = FLOAT,
    shape: tuple[object, ...] = (1, 4),
    domains: tuple[str, ...] = (),
) -> dict[str, list[Concern]]:
    """Findings by rule for a graph of these nodes that reads `x` and gives `y`."""
    inputs = [helper.make_tensor_value_info("x", dtype, shape)]
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    graph = helper.make_graph(nodes, "g", inputs, [onnx.ValueInfoProto(name="y")], tensors)
    opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(domain, 1) for domain in domains)]
    view = GraphView.of(Model.from_proto(helper.make_model(graph, opset_imports=opsets, ir_version=8)))
    found: dict[str, list[Concern]] = {}
    for concern in check_model(view):
        found.setdefault(concern.rule, []).append(concern)
    return found


def test_c23_constants_that_leave_the_range_of_fp16_are_listed_with_their_readers() -> None:
    found = concerns(
        [
            helper.make_node("Min", ["x", "limit"], ["low"], name="min"),
            helper.make_node("Mul", ["low", "mask"], ["masked"], name="mask_mul"),
            helper.make_node("Add", ["masked", "tiny"], ["y"], name="add"),
        ],
        {"limit": np.float32(np.inf), "mask": np.float32(-999999995904), "tiny": np.float32(2e-8)},
    )
    (infinity,) = found["infinity"]
    assert infinity.severity == "info" and "harmless" in infinity.message and infinity.tensor == "limit"
    (over,) = found["fp16-overflow"]
    assert (over.severity, over.tensor, over.node) == ("warning", "mask", "mask_mul")
    assert "-999999995904" in over.message and "-Inf in FP16" in over.message
    (lost,) = found["fp16-underflow"]
    assert (lost.tensor, lost.node) == ("tiny", "add") and "is 0 in FP16" in lost.message


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        (65519.996, None),
        (65520.0, "fp16-overflow"),
        (2.0**-25, "fp16-underflow"),
        (2.0**-25 * 1.001, None),
        (0.0, None),
    ],
)
def test_c23_the_limits_are_those_of_rounding_to_fp16(value: float, rule: str | None) -> None:
    constant = np.float32(value)
    with np.errstate(over="ignore"):
        half = np.float16(constant)
    found = concerns([helper.make_node("Mul", ["x", "c"], ["y"], name="mul")], {"c": constant})
    assert {r for r in found if r.startswith("fp16")} == ({rule} if rule else set())
    assert (np.isinf(half) or (half == 0 and constant != 0)) == (rule is not None)


def test_c23_an_infinity_that_is_computed_with_is_a_warning() -> None:
    found = concerns([helper.make_node("Mul", ["x", "c"], ["y"], name="mul")], {"c": np.float32(np.inf)})
    assert found["infinity"][0].severity == "warning"


def test_c29_a_sentinel_is_harmless_and_a_value_that_changes_is_told_once() -> None:
    ends = np.array([2**63 - 1], dtype=np.int64)
    found = concerns(
        [
            helper.make_node("Slice", ["x", "zero", "ends"], ["s"], name="slice"),
            helper.make_node("Slice", ["s", "zero", "ends2"], ["t"], name="slice2"),
            helper.make_node("Add", ["t", "big"], ["y"], name="add"),
        ],
        {"zero": np.array([0], np.int64), "ends": ends, "ends2": ends, "big": np.array([2**31 + 5], np.int64)},
        dtype=INT64,
        shape=(4,),
    )
    (sentinel,) = found["int64-sentinel"]
    assert sentinel.severity == "info" and "sentinel, harmless" in sentinel.message
    assert "2 constants" in sentinel.message
    (cut,) = found["int64-cut"]
    assert "2147483653" in cut.message and "2147483647" in cut.message
    assert (cut.node, cut.tensor, cut.severity) == ("add", "big", "warning")


def test_c14_types_that_cannot_be_computed_with_say_what_can_be_done() -> None:
    text = concerns([helper.make_node("Identity", ["x"], ["y"], name="id")], dtype=TensorProto.STRING, shape=(2,))
    (string,) = text["type"]
    assert string.severity == "error" and "string" in string.message and "cut the model" in string.fix
    double = concerns(
        [helper.make_node("Add", ["x", "c"], ["y"], name="add")], {"c": np.array(1e-300)}, dtype=TensorProto.DOUBLE
    )
    assert "float64" in double["type"][0].message and "becomes 0" in double["type"][0].fix
    taken = concerns(
        [helper.make_node("Cast", ["x"], ["y"], name="cast", to=FLOAT)], dtype=TensorProto.UINT8, shape=(1, 2)
    )
    assert "type" not in taken


def test_c15_operators_of_a_runtime_and_of_a_plugin_are_told_apart() -> None:
    found = concerns(
        [
            helper.make_node("BiasGelu", ["x", "b"], ["h"], name="gelu", domain="com.microsoft"),
            helper.make_node("LeakyThing", ["h"], ["y"], name="leaky", domain="my.ops"),
        ],
        {"b": np.zeros(4, np.float32)},
        domains=("com.microsoft", "my.ops"),
    )
    fused, plugin = found["operator"]
    assert "com.microsoft::BiasGelu, 1 node, first 'gelu'" in fused.message and "before" in fused.fix
    assert "my.ops::LeakyThing" in plugin.message
    assert "'LeakyThing', version '1', namespace ''" in plugin.fix
    assert {fused.severity, plugin.severity} == {"error"}


def test_c16_branches_of_different_ranks_are_an_error_before_building() -> None:
    def branch(name: str, *nodes: onnx.NodeProto) -> onnx.GraphProto:
        return helper.make_graph(nodes, name, [], [onnx.ValueInfoProto(name=nodes[-1].output[0])], [])

    axes = helper.make_node("Constant", [], ["axes"], name="axes", value_ints=[0])
    then = branch("then", axes, helper.make_node("Squeeze", ["x", "axes"], ["a"], name="squeeze"))
    other = branch("else", helper.make_node("Identity", ["x"], ["b"], name="same"))
    found = concerns(
        [
            helper.make_node("ReduceSum", ["x"], ["sum"], name="sum", keepdims=0),
            helper.make_node("Greater", ["sum", "zero"], ["go"], name="greater"),
            helper.make_node("If", ["go"], ["y"], name="choose", then_branch=then, else_branch=other),
        ],
        {"zero": np.float32(0)},
    )
    (branches,) = found["branches"]
    assert (branches.severity, branches.node) == ("error", "choose")
    assert "output 0" in branches.message and "(4)" in branches.message and "(1, 4)" in branches.message


def test_c13_the_node_that_makes_an_empty_tensor_is_named() -> None:
    found = concerns(
        [
            helper.make_node("Slice", ["x", "zero", "zero", "axis"], ["z"], name="cut"),
            helper.make_node("Concat", ["x", "z"], ["y"], name="concat", axis=2),
        ],
        {"zero": np.array([0], np.int64), "axis": np.array([2], np.int64)},
        shape=(1, 5, 4, 3),
    )
    (empty,) = found["empty"]
    assert (empty.node, empty.tensor) == ("cut", "z") and "(1, 5, 0, 3)" in empty.message


def test_c24_a_layer_norm_written_out_is_recognised_and_its_square_named() -> None:
    found = {c.rule: c for c in check_model(GraphView.of(zoo.get("layernorm_overflow").model))}
    assert "7 nodes" in found["norm-written-out"].message
    assert found["norm-written-out"].node == "/norm/Pow"


def test_c26_random_operators_are_named() -> None:
    found = concerns(
        [
            helper.make_node("RandomNormal", [], ["r"], name="noise", shape=[1, 4], seed=7.0),
            helper.make_node("Add", ["x", "r"], ["y"], name="add"),
        ]
    )
    assert [c.node for c in found["random"]] == ["noise"]


def test_c46_scales_of_zero_are_errors_with_node_and_channel() -> None:
    scales = np.array([0.1, 0.0, -0.5, 0.2], np.float32)
    found = concerns(
        [
            helper.make_node("QuantizeLinear", ["w", "scales"], ["q"], name="q", axis=0),
            helper.make_node("DequantizeLinear", ["q", "scales"], ["d"], name="dq", axis=0),
            helper.make_node("MatMul", ["x", "d"], ["y"], name="mm"),
        ],
        {"scales": scales, "w": np.eye(4, dtype=np.float32)},
    )
    assert found["scale-zero"][0].severity == "error" and "channel 1" in found["scale-zero"][0].message
    assert "channel 2" in found["scale-negative"][0].message


def test_the_command_lists_findings_and_exits_1_on_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node = helper.make_node("Add", ["x", "x"], ["y"], name="add")
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.DOUBLE, ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.DOUBLE, ["n"])],
    )
    path = tmp_path / "double.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    with pytest.raises(SystemExit) as ended:
        run(["check", str(path), "--json"])
    report = json.loads(capsys.readouterr().out)
    assert ended.value.code == 1 and report["opset"] == {"": 17}
    assert {finding["rule"] for finding in report["findings"]} == {"type", "dynamic"}
    assert set(report["findings"][0]) == {"rule", "severity", "node", "tensor", "message", "fix"}
    with pytest.raises(SystemExit) as clean:
        run(["check", "zoo:clean_cnn"])
    assert clean.value.code == 0
