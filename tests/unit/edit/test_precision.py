"""Precision plans: where casts stand, what stays FP32 and why, and what the rewritten models keep of the original."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from trt_lab.edit.precision import Realised, describe, emulate, typed
from trt_lab.edit.probe import add_probes
from trt_lab.errors import EditError, ModelError
from trt_lab.graph import GraphView
from trt_lab.model import Model
from trt_lab.types import NodeId, PrecisionPlan


def _model(text: str, opset: int = 17, ir_version: int = 8) -> Model:
    return Model.from_proto(parser.parse_model(f'<ir_version: {ir_version}, opset_import: ["" : {opset}]>\n{text}'))


def _plan(*keep: str, default: str = "fp16") -> PrecisionPlan:
    return PrecisionPlan(default, tuple(NodeId(node) for node in keep))  # pyright: ignore[reportArgumentType] (text of a parameter)


def _casts(realised: Realised) -> list[tuple[str, str, int]]:
    """(input, output, to) of each Cast."""
    return [
        (node.input[0], node.output[0], node.attribute[0].i)
        for node in realised.model.proto().graph.node
        if node.op_type == "Cast"
    ]


CHAIN = "agraph (float[4] x) => (float[4] y) { [A] a = Neg(x) [B] b = Exp(a) [C] c = Abs(b) [D] y = Sqrt(c) }"
F16, F32 = TensorProto.FLOAT16, TensorProto.FLOAT


def test_typed_casts_only_where_the_type_changes() -> None:
    realised = typed(_model(CHAIN), _plan("B", "C"))
    assert _casts(realised) == [
        ("x", "x_fp16", F16),
        ("a", "a_fp32", F32),
        ("c", "c_fp16", F16),
        ("y_fp16", "y", F32),
    ]
    onnx.checker.check_model(realised.model.proto(), full_check=True)
    assert realised.origin == {"x_to_fp16": "A", "a_to_fp32": "B", "c_to_fp16": "D", "y_to_fp32": "D"}
    assert realised.lowered == ("A", "D")


def test_emulation_rounds_behind_low_nodes_and_at_low_readers() -> None:
    realised = emulate(_model(CHAIN), _plan("B", "C"))
    assert _casts(realised) == [
        ("x", "x_fp16", F16),
        ("x_fp16", "x_rounded", F32),
        ("a_exact", "a_fp16", F16),
        ("a_fp16", "a", F32),
        ("c", "c_fp16", F16),
        ("c_fp16", "c_rounded", F32),
        ("y_exact", "y_fp16", F16),
        ("y_fp16", "y", F32),
    ]
    onnx.checker.check_model(realised.model.proto(), full_check=True)
    assert set(realised.origin.values()) == {"A", "D"}


def test_all_kept_needs_no_cast() -> None:
    for realise in (emulate, typed):
        realised = realise(_model(CHAIN), _plan("A", "B", "C", "D"))
        assert _casts(realised) == []
        assert realised.lowered == ()
        assert any("no node can or may take it" in note for note in realised.notes)


def test_default_fp32_changes_nothing() -> None:
    model = _model(CHAIN)
    assert emulate(model, PrecisionPlan()).model is model
    assert typed(model, PrecisionPlan()).model is model


def test_one_cast_a_tensor_and_direction_with_several_readers() -> None:
    text = (
        "agraph (float[4] x) => (float[4] y, float[4] z) {"
        "[P] p = Neg(x) [K1] k1 = Exp(p) [K2] k2 = Abs(p) [L1] y = Add(p, k1) [L2] z = Mul(k1, k2) }"
    )
    realised = typed(_model(text), _plan("K1", "K2"))
    assert Counter(cast[0] for cast in _casts(realised)) == {"x": 1, "p": 1, "k1": 1, "k2": 1, "y_fp16": 1, "z_fp16": 1}
    names = [node.name for node in realised.model.proto().graph.node]
    assert len(set(names)) == len(names)
    onnx.checker.check_model(realised.model.proto(), full_check=True)


def test_a_low_output_that_others_read_too() -> None:
    text = "agraph (float[4] x) => (float[4] a, float[4] y) { [A] a = Neg(x) [B] b = Exp(a) [K] y = Add(a, b) }"
    realised = typed(_model(text), _plan("K"))
    assert ("a_fp16", "a", F32) in _casts(realised)
    nodes = {node.name: list(node.input) for node in realised.model.proto().graph.node}
    assert nodes["B"] == ["a_fp16"]
    assert nodes["K"] == ["a", "b_fp32"]


def test_inputs_and_outputs_keep_names_types_and_order() -> None:
    model = _model(
        "agraph (float[N,4] x, int64[N] i, bool[1] f) => (float[N,4] y, int64[N] j, float[N,4] x2)"
        "{ y = Neg(x) j = Neg(i) x2 = Identity(x) }"
    )
    for realise in (emulate, typed):
        proto = realise(model, _plan()).model.proto()
        for before, after in (
            (model.proto().graph.input, proto.graph.input),
            (model.proto().graph.output, proto.graph.output),
        ):
            assert list(before) == list(after)
        onnx.checker.check_model(proto, full_check=True)


def test_the_model_given_stays_equal() -> None:
    model = _model("agraph (float[2] x) => (float[2] y) <float[2] w = {0.1, 100000}> { a = Add(x, w) y = Neg(a) }")
    before, digest = model.proto().SerializeToString(), model.hash
    emulate(model, _plan())
    typed(model, _plan("Neg_0"))
    typed(model, _plan(default="bf16"))
    assert model.proto().SerializeToString() == before
    assert Model.from_proto(model.proto()).hash == digest


def test_nameless_and_duplicate_nodes_are_called_by_their_ids() -> None:
    model = _model("agraph (float[2] x) => (float[2] y) { [fc] a = Neg(x) [fc] b = Exp(a) y = Abs(b) }")
    realised = typed(model, _plan("fc#2"))
    names = [node.name for node in realised.model.proto().graph.node if node.op_type != "Cast"]
    assert names == ["fc", "fc#2", "Abs_0"]
    assert list(GraphView.of(model).nodes) == names


# --- weights -----------------------------------------------------------------------------

WEIGHTS = (
    "agraph (float[2] x) => (float[2] y, float[2] z) <float[2] w = {0.1, 100000}, float[2] only = {0.3, 1}>"
    "{ [L1] a = Add(x, w) [L2] y = Mul(a, w) [K] k = Add(x, w) [L3] z = Mul(k, only) }"
)


def test_shared_weight_is_rounded_once_and_stays_fp32_for_the_kept() -> None:
    model = _model(WEIGHTS)
    low = np.array([0.1, np.inf], np.float32).astype(np.float16)
    for realise, wanted in ((emulate, low.astype(np.float32)), (typed, low)):
        realised = realise(model, _plan("K"))
        proto = realised.model.proto()
        weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}
        assert set(weights) == {"w", "w_fp16", "only"}
        assert weights["w"].tolist() == np.array([0.1, 100000], np.float32).tolist()
        assert weights["w_fp16"].dtype == wanted.dtype
        assert weights["w_fp16"].tobytes() == wanted.tobytes()
        assert weights["only"].dtype == wanted.dtype
        nodes = {node.name: list(node.input) for node in proto.graph.node}
        assert nodes["K"] == ["x", "w"]
        assert nodes["L1"][1] == nodes["L2"][1] == "w_fp16"
        onnx.checker.check_model(proto, full_check=True)


def test_constant_nodes_are_weights_too() -> None:
    text = (
        "agraph (float[2] x) => (float[2] y, float[2] z) {"
        "[huge] h = Constant <value = float[1] {-999999995904}> () [one] o = Constant <value_float = 0.1> ()"
        "[L] a = Mul(x, h) [K] y = Add(x, h) [M] z = Add(a, o) }"
    )
    realised = typed(_model(text), _plan("K"))
    proto = realised.model.proto()
    onnx.checker.check_model(proto, full_check=True)
    low = next(numpy_helper.to_array(t) for t in proto.graph.initializer if t.name == "h_fp16")
    assert low.tolist() == [-np.inf]
    one = next(node for node in proto.graph.node if node.name == "one")
    assert numpy_helper.to_array(one.attribute[0].t).dtype == np.float16
    assert describe(_model(text), _plan("K"))[NodeId("one")] == {
        "precision": "fp16",
        "why": "a constant: each reader gets it in its own type",
    }
    assert describe(_model(text), _plan("K"))[NodeId("huge")]["precision"] == "fp32"


def test_bounds_of_a_clip_stay_finite() -> None:
    """TensorRT's parser takes no infinite bound; as data the same number is infinite in FP16."""
    text = (
        "agraph (float[2] x) => (float[2] y, float[2] z) <float low = {-1e9}, float high = {1e9}>"
        "{ [C] a = Clip(x, low, high) [M] y = Mul(a, high) [D] z = Clip(x, low) }"
    )
    for realise, dtype in ((emulate, np.float32), (typed, np.float16)):
        proto = realise(_model(text), _plan()).model.proto()
        onnx.checker.check_model(proto, full_check=True)
        values = {tensor.name: numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}
        read = {node.name: list(node.input) for node in proto.graph.node}
        bounds = [float(values[name]) for name in (*read["C"][1:], read["D"][1])]
        assert bounds == [-65504, 65504, -65504]
        assert float(values[read["M"][1]]) == np.inf
        assert {value.dtype for value in values.values()} == {np.dtype(dtype)}


def test_overridable_initializers_are_inputs_from_ir_4_on() -> None:
    text = "agraph (float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }"
    for ir_version, casts in ((8, 3), (3, 2)):
        proto = parser.parse_model(f'<ir_version: {ir_version}, opset_import: ["" : 9]>\n{text}')
        proto.graph.initializer.append(numpy_helper.from_array(np.array([3, 4], np.float32), "w"))
        realised = typed(Model.load(proto), _plan())
        assert len(_casts(realised)) == casts
        onnx.checker.check_model(realised.model.proto(), full_check=True)


def test_ir_3_has_no_free_initializers() -> None:
    proto = parser.parse_model(
        '<ir_version: 3, opset_import: ["" : 9]>\n'
        "agraph (float[2] x, float[2] w) => (float[2] y, float[2] z) { [L] y = Add(x, w) [K] z = Add(x, w) }"
    )
    proto.graph.initializer.append(numpy_helper.from_array(np.array([3, 4], np.float32), "w"))
    realised = typed(Model.load(proto), _plan("K"))
    onnx.checker.check_model(realised.model.proto(), full_check=True)
    assert [node.op_type for node in realised.model.proto().graph.node].count("Constant") == 1


def test_large_weights_are_rounded_when_written() -> None:
    proto = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]>\nagraph (float[1,800] x) => (float[1,800] y) { y = MatMul(x, w) }'
    )
    weights = np.random.default_rng(0).standard_normal((800, 800)).astype(np.float32)
    proto.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    made = emulate(Model.load(proto), _plan()).model
    stored = numpy_helper.to_array(made.proto().graph.initializer[0])
    assert stored.tobytes() == weights.astype(np.float16).astype(np.float32).tobytes()


def test_weights_that_are_not_there_are_named(shared: Path) -> None:
    model = Model.load(shared / "real_inputs/onnx/Polygraphy/tests/models/weightless.conv.onnx")
    with pytest.raises(EditError, match="the values of 'b' .*take a model with its weights"):
        typed(model, _plan())


# --- what stays FP32 -----------------------------------------------------------------------


def test_c34_resize_scales_stay() -> None:
    model = _model(
        "agraph (float[1,1,2,2] x) => (float[1,1,4,4] y) <float[4] sc = {1, 1, 2, 2}>"
        '{ [R] y = Resize <mode = "nearest"> (x, , sc) }'
    )
    for realise in (emulate, typed):
        proto = realise(model, _plan()).model.proto()
        onnx.checker.check_model(proto, full_check=True)
        scales = next(t for t in proto.graph.initializer if t.name == "sc")
        assert numpy_helper.to_array(scales).tolist() == [1, 1, 2, 2]
        assert scales.data_type == F32
        resize = next(node for node in proto.graph.node if node.op_type == "Resize")
        assert list(resize.input)[1:] == ["", "sc"]


def test_c34_a_weight_read_as_scale_and_as_data() -> None:
    model = _model(
        "agraph (float[1,1,2,2] x, float[4] v) => (float[1,1,4,4] y, float[4] z) <float[4] sc = {1, 1, 2, 2}>"
        '{ [R] y = Resize <mode = "nearest"> (x, , sc) [M] z = Mul(v, sc) }'
    )
    proto = typed(model, _plan()).model.proto()
    onnx.checker.check_model(proto, full_check=True)
    assert {t.name: t.data_type for t in proto.graph.initializer} == {"sc": F32, "sc_fp16": F16}


def test_c34_computed_scales_are_not_rounded() -> None:
    model = _model(
        "agraph (float[1,1,3,3] x, float[4] s) => (float[1,1,h,w] y) <float[4] one = {1, 1, 1, 1}>"
        '{ [D] sc = Mul(s, one) [R] y = Resize <mode = "nearest"> (x, , sc) }'
    )
    realised = typed(model, _plan())
    assert realised.forced_fp32[NodeId("D")].startswith("computes only sizes")
    assert realised.lowered == ("R",)


def test_forced_nodes_have_a_reason() -> None:
    model = _model(
        "agraph (bool c, float[2] x, int64[2] i, float s) => (float[2] y, int64[2] j, int64[1] n, float[2] r, float[2] d) {"
        "[cond] y = If (c) <then_branch = g1 () => (float[2] t) { [inner] t = Neg(x) },"
        "else_branch = g2 () => (float[2] e) { e = Exp(x) }>"
        "[ints] j = Neg(i) [shape] n = Shape(x) [rand] r = RandomNormalLike(x)"
        "[q] qx = QuantizeLinear(x, s) [dq] d = DequantizeLinear(qx, s) }"
    )
    forced = typed(model, _plan()).forced_fp32
    assert "control flow" in forced[NodeId("cond")]
    assert "inside the subgraph 'cond/then'" in forced[NodeId("cond/then/inner")]
    assert forced[NodeId("ints")] == "has no FP32 data"
    assert "only sizes" in forced[NodeId("shape")]
    assert "random" in forced[NodeId("rand")]
    assert "quantisation" in forced[NodeId("q")]
    assert "quantisation" in forced[NodeId("dq")]


CONV = "agraph (float[1,1,4,4] x, float[1,1,3,3] w) => (float[1,1,2,2] y) { [c] y = Conv(x, w) }"


def test_bfloat16_from_opset_13_on_even_where_the_schema_came_later() -> None:
    """Conv has bfloat16 in its schema from opset 22 on; exporters write 17."""
    for opset, ir_version in ((13, 8), (17, 8), (22, 10)):
        realised = typed(_model(CONV, opset, ir_version), _plan(default="bf16"))
        assert realised.lowered == ("c",)
        assert realised.model.opset == {"": 22}
        emulated = emulate(_model(CONV, opset, ir_version), _plan(default="bf16"))
        assert emulated.lowered == ("c",)
        assert emulated.model.opset == {"": opset}
        assert realised.notes == ((f"opset raised from {opset} to 22, where Conv take bfloat16",) if opset < 22 else ())
        onnx.checker.check_model(realised.model.proto(), full_check=True)


def test_types_that_do_not_exist_yet() -> None:
    realised = typed(_model(CONV, 12), _plan(default="bf16"))
    reason = "opset 12 cannot cast to bfloat16: raise the model's opset to 13 or more"
    assert realised.forced_fp32 == {"c": reason}
    assert realised.notes == (
        f"asked for bfloat16, but no node can or may take it, so everything stays FP32: {reason}",
    )
    old = _model("agraph (float[1,1,2] x, int64 i) => (float[1,1,2] y) { [c] y = CumSum(x, i) }", 11)
    assert typed(old, _plan()).forced_fp32 == {"c": "CumSum takes no float16 before opset 14 (the model imports 11)"}


def test_custom_operators_stay() -> None:
    node = [helper.make_node("Thing", ["x"], ["t"], "t", domain="my.ops"), helper.make_node("Neg", ["x"], ["y"], "n")]
    value = [helper.make_tensor_value_info(name, F32, [2]) for name in "xyt"]
    graph = helper.make_graph(node, "g", value[:1], value[1:])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("my.ops", 1), helper.make_opsetid("", 17)])
    realised = typed(Model.load(proto), _plan())
    assert "no schema of my.ops::Thing" in realised.forced_fp32[NodeId("t")]
    assert realised.lowered == ("n",)
    assert next(n for n in realised.model.proto().graph.node if n.name == "t").input[0] == "x"


def test_captured_tensors_reach_subgraphs_in_fp32() -> None:
    model = _model(
        "agraph (bool c, float[2] x) => (float[2] y) { [L] a = Neg(x) [cond] b = If (c) <"
        "then_branch = g1 () => (float[2] t) { t = Exp(a) }, else_branch = g2 () => (float[2] e) { e = Abs(a) }>"
        "[M] y = Mul(a, b) }"
    )
    for realise in (emulate, typed):
        onnx.checker.check_model(realise(model, _plan()).model.proto(), full_check=True)
    proto = typed(model, _plan()).model.proto()
    branches = next(node for node in proto.graph.node if node.op_type == "If").attribute
    assert [list(branch.g.node[0].input) for branch in branches] == [["a_fp32"], ["a_fp32"]]


def test_operators_whose_type_is_told_by_an_attribute() -> None:
    model = _model(
        "agraph (int64[2] i, int64[1] s) => (float[2] y, float[n] z)"
        "{ [C] f = Cast <to = 1> (i) [N] y = Neg(f) [F] o = ConstantOfShape <value = float[1] {0.1}> (s) [M] z = Neg(o) }"
    )
    realised = typed(model, _plan())
    proto = realised.model.proto()
    onnx.checker.check_model(proto, full_check=True)
    assert realised.lowered == ("C", "N", "F", "M")
    nodes = {node.name: node for node in proto.graph.node}
    assert nodes["C"].attribute[0].i == F16
    assert numpy_helper.to_array(nodes["F"].attribute[0].t).dtype == np.float16
    onnx.checker.check_model(emulate(model, _plan()).model.proto(), full_check=True)


def test_probes_show_tensors_as_they_are() -> None:
    probed = add_probes(_model(CHAIN), ["b", "a", "x"]).model
    realised = typed(probed, _plan("B", "C"))
    proto = realised.model.proto()
    onnx.checker.check_model(proto, full_check=True)
    reads = {node.name: node.input[0] for node in proto.graph.node if node.op_type == "Identity"}
    assert reads == {"b_probe": "b", "a_probe": "a", "x_probe": "x"}
    assert [(o.name, o.type.tensor_type.elem_type) for o in proto.graph.output] == [
        ("y", F32), ("b_probe", F32), ("a_probe", F32), ("x_probe", F32),
    ]  # fmt: skip
    emulated = emulate(probed, _plan("B", "C")).model.proto()
    onnx.checker.check_model(emulated, full_check=True)
    assert sum(node.op_type == "Cast" for node in emulated.graph.node) == 8


# --- functions, plans, JSON ------------------------------------------------------------------


def test_local_functions_are_inlined_and_said() -> None:
    proto = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "local" : 1]>\n'
        "agraph (float[2] x) => (float[2] y) { [one] a = local.outer(x) [two] y = local.outer(a) }\n"
        '<domain: "local", opset_import: ["" : 17, "local" : 1]> outer (i) => (o) { [n] t = Neg(i) [call] o = local.inner(t) }\n'
        '<domain: "local", opset_import: ["" : 17]> inner (i) => (o) { [e] o = Exp(i) }'
    )
    model = Model.load(proto)
    realised = typed(model, _plan("one/outer/call"))
    onnx.checker.check_model(realised.model.proto(), full_check=True)
    assert realised.notes == ("2 local functions were inlined: a precision holds for single nodes",)
    assert set(realised.lowered) == {"one/outer/n", "two/outer/n", "two/outer/call/inner/e"}
    assert set(realised.lowered) < set(GraphView.of(model).nodes)
    assert set(describe(model, _plan())) == {
        "one/outer/n", "one/outer/call/inner/e", "two/outer/n", "two/outer/call/inner/e",
    }  # fmt: skip
    assert set(realised.origin.values()) <= set(GraphView.of(model).nodes)
    assert typed(model, _plan("one", "two")).lowered == ()


def test_a_node_that_is_not_there_is_named() -> None:
    node = helper.make_node("Mul", ["x", "x"], ["y"], "/Mul")
    value = [helper.make_tensor_value_info(name, F32, [2]) for name in "xy"]
    model = Model.load(helper.make_model(helper.make_graph([node], "g", value[:1], value[1:])))
    with pytest.raises(EditError, match="the plan keeps a node that is not there.*'/Mull'.*did you mean '/Mul'"):
        emulate(model, _plan("/Mull"))


def test_describe_is_json() -> None:
    told = describe(_model(CHAIN), _plan("B"))
    assert json.loads(json.dumps(told)) == told
    assert told[NodeId("A")] == {"precision": "fp16", "why": "the plan's default is fp16"}
    assert told[NodeId("B")] == {"precision": "fp32", "why": "kept in FP32 by the plan"}
    assert describe(_model(CHAIN), PrecisionPlan())[NodeId("A")]["precision"] == "fp32"


# --- real models -----------------------------------------------------------------------------


def _problem(proto: onnx.ModelProto) -> str:
    try:
        onnx.checker.check_model(proto, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        return str(error)
    return ""


def test_small_real_models_pass_the_checker(shared: Path) -> None:
    seen = 0
    files = [*(shared / "real_inputs" / "onnx").rglob("*.onnx"), *(shared / "trt_records").glob("*.onnx")]
    for path in sorted(files):
        try:
            model = Model.load(path)
        except ModelError:
            continue
        if path.name.startswith("weightless") or _problem(model.proto()):
            continue
        nodes = list(GraphView.of(model).nodes)
        for plan in (_plan(), _plan(*nodes[::2]), _plan(default="bf16")):
            for realise in (emulate, typed):
                made = realise(model, plan)
                assert not _problem(made.model.proto()), f"{path} {realise.__name__} {plan}"
                names = [node.name for node in made.model.proto().graph.node]
                assert len(names) == len(set(names))
                assert set(made.origin.values()) <= set(nodes)
        seen += 1
    assert seen >= 25


@pytest.mark.parametrize("name", ["magika", "ppocr_det", "ppocr_rec", "ppocr_cls", "silero_16k", "silero_half"])
def test_real_models_pass_the_checker(real_model, name: str) -> None:
    model = Model.load(real_model(name))
    nodes = list(GraphView.of(model).nodes)
    for plan in (_plan(), _plan(*nodes[10:40:3])):
        for realise in (emulate, typed):
            made = realise(model, plan)
            assert not _problem(made.model.proto())
            assert made.lowered
