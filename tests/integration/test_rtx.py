"""TensorRT for RTX builds real engines on this CPU: real fusion, real types, layers mapped to ONNX nodes."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.gpu.models import model as small
from tests.gpu.models import value
from trt_lab import backends
from trt_lab.backends.base import Built
from trt_lab.edit.probe import add_probes
from trt_lab.errors import (
    BackendUnavailableError,
    BuildError,
    CancelledError,
    InputError,
    UsageError,
)
from trt_lab.graph import GraphView
from trt_lab.model import Model
from trt_lab.session import Session
from trt_lab.types import BuildOptions, NodeId, PrecisionPlan, Progress, ShapeRange, TensorId

pytestmark = pytest.mark.skipif(
    not any(importlib.util.find_spec(name) for name in ("tensorrt_rtx", "tensorrt_rtx_bindings")),
    reason="TensorRT for RTX is not installed (pip install trt-lab[rtx])",
)

FP32, FP16 = PrecisionPlan(), PrecisionPlan("fp16")


def fixed(name: str, *sizes: int) -> ShapeRange:
    return ShapeRange(name, sizes, sizes, sizes)


def options(*shapes: ShapeRange, plan: PrecisionPlan = FP32, sm: str | None = None, **more: object) -> BuildOptions:
    return BuildOptions(backend="tensorrt_rtx", shapes=shapes, plan=plan, compute_capability=sm, **more)  # type: ignore[arg-type]  # by name


def build(model: Model, chosen: BuildOptions, seen: list[Progress] | None = None) -> Built:
    return backends.get("tensorrt_rtx").build(model, chosen, (seen if seen is not None else []).append)


REAL = {
    "ppocr_det": ((fixed("x", 1, 3, 320, 320),), 0.85),
    "ppocr_rec": ((fixed("x", 1, 3, 48, 320),), 0.9),
    "ppocr_cls": ((fixed("x", 1, 3, 48, 192),), 0.9),
    "magika": ((fixed("bytes", 1, 2048),), 0.9),
}
"""Shapes, and the share of computing layers that must be mapped to nodes."""


@pytest.mark.slow
@pytest.mark.parametrize("plan", [FP32, FP16], ids=["fp32", "fp16"])
@pytest.mark.parametrize("sm", ["SM86", "SM120"])
@pytest.mark.parametrize("name", sorted(REAL))
def test_real_models(real_model: Callable[[str], Path], name: str, sm: str, plan: PrecisionPlan) -> None:
    shapes, share = REAL[name]
    model = Model.load(real_model(name))
    _check(model, build(model, options(*shapes, plan=plan, sm=sm)), plan, sm, share)


@pytest.mark.parametrize("plan", [FP32, FP16], ids=["fp32", "fp16"])
@pytest.mark.parametrize("sm", ["SM86", "SM120"])
def test_encoder4(shared: Path, sm: str, plan: PrecisionPlan) -> None:
    model = Model.load(shared / "trt_records" / "encoder4.onnx")
    _check(model, build(model, options(fixed("x", 1, 128, 64), plan=plan, sm=sm)), plan, sm, 1.0)


def _check(model: Model, built: Built, plan: PrecisionPlan, sm: str, share: float) -> None:
    view = GraphView.of(model)
    computing = [
        layer for layer in built.layers if layer.type not in ("signal", "wait") and (layer.inputs or layer.outputs)
    ]
    mapped = [layer for layer in computing if layer.nodes]
    assert len(built.layers) < len(view.nodes)
    assert len(mapped) / len(computing) >= share
    assert {node for layer in mapped for node in layer.nodes} <= set(view.nodes)
    assert {layer.nodes_from for layer in mapped} <= {"metadata", "name", "tensors"}
    assert any(len(layer.nodes) > 1 for layer in mapped), "nothing was fused"
    assert built.facts["compute_capability"] == sm
    counts = built.facts["tensor_types"]
    assert isinstance(counts, dict)
    if plan.default == "fp32":
        assert "float16" not in counts
        assert "forced_fp32" not in built.facts
    else:
        assert counts["float16"] > counts.get("float32", 0)  # type: ignore[operator]  # numbers
        assert built.facts["precision_met"] is True
        assert any("rewritten to fp16" in str(note) for note in built.facts["notes"])  # type: ignore[union-attr]  # a list
    assert built.engine is not None
    assert built.engine.startswith(b"vtrt")


# --- l2norm_overflow: what an engineer looks at ----------------------------------------


@pytest.fixture
def l2norm(shared: Path) -> Model:
    return Model.load(shared / "trt_records" / "l2norm_overflow.onnx")


X = fixed("x", 1, 3, 64, 64)


def test_kept_nodes_are_fp32_in_the_engine(l2norm: Model) -> None:
    kept = tuple(NodeId(n) for n in ("/Mul", "/Mul_1", "/ReduceSum", "/Add", "/Sqrt", "/Div"))
    built = build(l2norm, options(X, plan=PrecisionPlan("fp16", kept)))
    layer = next(item for item in built.layers if NodeId("/ReduceSum") in item.nodes)
    assert set(kept) <= set(layer.nodes)
    whole = build(l2norm, options(X, plan=FP16))
    constants = 2  # read by kept nodes alone
    assert built.facts["lowered_nodes"] == whole.facts["lowered_nodes"] - len(kept) - constants  # type: ignore[operator]  # numbers
    assert set(built.facts["forced_fp32"]).isdisjoint(kept)  # type: ignore[arg-type]  # a dict


def test_a_probe_splits_a_fused_layer(l2norm: Model) -> None:
    clean = build(l2norm, options(X))
    fused = next(item for item in clean.layers if NodeId("/ReduceSum") in item.nodes)
    assert NodeId("/Mul") in fused.nodes
    probed = add_probes(l2norm, [TensorId("/Mul_output_0")])
    built = build(probed.model, options(X))
    outputs = {t.name for item in built.layers for t in item.outputs}
    assert probed.outputs[TensorId("/Mul_output_0")] in outputs


def test_progress_moves_to_the_end_and_build_can_be_cancelled(l2norm: Model) -> None:
    seen: list[Progress] = []
    build(l2norm, options(X), seen)
    fractions = [p.fraction for p in seen if p.fraction is not None]
    assert fractions == sorted(fractions)
    assert fractions[-1] > 0.8

    def stop(progress: Progress) -> None:
        if progress.fraction:
            raise CancelledError("stopped by the test")

    with pytest.raises(CancelledError, match="stopped by the test"):
        backends.get("tensorrt_rtx").build(l2norm, options(X), stop)
    assert build(l2norm, options(X)).layers, "the next build works"


def test_dynamic_shapes_stay_dynamic(l2norm: Model) -> None:
    ranges = ShapeRange("x", (1, 3, 64, 64), (4, 3, 64, 64), (8, 3, 64, 64))
    built = build(l2norm, options(ranges))
    batch = {t.shape[0] for item in built.layers for t in item.inputs if t.name == "x" and t.shape}
    assert batch == {None}


def test_it_says_that_it_cannot_run() -> None:
    info = backends.get("tensorrt_rtx").info()
    assert info.can_build
    if info.can_run:
        pytest.skip("an RTX GPU is here")
    assert "RTX GPU is needed to run" in info.reason


def test_opening_gives_the_reason(l2norm: Model) -> None:
    backend = backends.get("tensorrt_rtx")
    if backend.info().can_run:
        pytest.skip("an RTX GPU is here")
    with pytest.raises(BackendUnavailableError, match="built the engine but cannot run it here: an RTX GPU is needed"):
        backend.open(build(l2norm, options(X)))


# --- refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chosen", "error", "words"),
    [
        (options(), InputError, "input x: axis 0 unknown of"),
        (options(X, sm="SM90"), UsageError, "'SM90' is not known to TensorRT for RTX .*; take one of .*SM75.*SM121"),
        (
            options(X, strongly_typed=False, plan=FP16),
            UsageError,
            "has no fp16 switch: its networks are strongly typed",
        ),
        (options(X, timing_cache="t.cache"), UsageError, "has no timing cache"),
        (options(X, optimizer=False), UsageError, "always optimises"),
        (options(X, hardware_compatibility="ampere_plus"), UsageError, "one compute capability"),
        (options(X, builder_level=9), UsageError, "builder level 9: take 0"),
    ],
)
def test_wrong_options(l2norm: Model, chosen: BuildOptions, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        build(l2norm, chosen)


@pytest.mark.parametrize("name", ["SM75", "86", "8.9", "sm120"])
def test_names_of_capabilities(l2norm: Model, name: str) -> None:
    assert str(build(l2norm, options(X, sm=name)).facts["compute_capability"]).endswith(
        name.upper().replace("SM", "").replace(".", "")
    )


def test_c14_strings_are_refused_with_the_way_out() -> None:
    node = helper.make_node("Identity", ["x"], ["y"], name="id")
    model = small([node], [value("x", TensorProto.STRING, [2])], [value("y", TensorProto.STRING, [2])])
    with pytest.raises(
        BuildError, match="tensor 'x' \\(input\\) is string, which TensorRT cannot take: strings never reach"
    ):
        build(model, options())


def test_c14_double_is_built_as_float_and_said() -> None:
    node = helper.make_node("Add", ["x", "w"], ["y"], name="add")
    weights = numpy_helper.from_array(np.array([1e-300, 1.0]), "w")
    model = small([node], [value("x", TensorProto.DOUBLE, [2])], [value("y", TensorProto.DOUBLE, [2])], [weights])
    built = build(model, options())
    assert built.facts["tensor_types"] == {"float32": 2}
    assert built.facts["notes"] == [
        "TensorRT computes DOUBLE in FLOAT: 3 tensors, the first is 'x' ('w': 1 values become 0, 0 become infinite)"
    ]


def test_c14_uint8_is_taken_as_input_and_refused_inside() -> None:
    relu = helper.make_node("Relu", ["h"], ["y"], name="relu")
    outside = [helper.make_node("Cast", ["x"], ["h"], name="cast", to=TensorProto.FLOAT), relu]
    built = build(small(outside, [value("x", TensorProto.UINT8, [2])], [value("y", TensorProto.FLOAT, [2])]), options())
    assert built.facts["tensor_types"] == {"uint8": 1, "float32": 1}
    inside = [
        helper.make_node("Cast", ["x"], ["u"], name="cast", to=TensorProto.UINT8),
        helper.make_node("Add", ["u", "u"], ["v"], name="add"),
        helper.make_node("Cast", ["v"], ["h"], name="back", to=TensorProto.FLOAT),
        relu,
    ]
    with pytest.raises(BuildError, match="TensorRT takes UINT8 as input and output alone: cast it to INT32 or FLOAT"):
        build(small(inside, [value("x", TensorProto.FLOAT, [2])], [value("y", TensorProto.FLOAT, [2])]), options())


def test_c25_the_state_of_tf32_is_in_the_facts() -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="mm")
    weights = numpy_helper.from_array(np.ones((256, 64), np.float32), "w")
    model = small(
        [node], [value("x", TensorProto.FLOAT, [64, 256])], [value("y", TensorProto.FLOAT, [64, 64])], [weights]
    )
    for tf32 in (False, True):
        built = build(model, options(tf32=tf32))
        assert built.facts["tf32"] is tf32
        assert built.layers[0].precision == "float32"  # the layer does not tell


def test_c29_int64_stays_int64() -> None:
    add = helper.make_node("Add", ["x", "w"], ["y"], name="add")
    weights = numpy_helper.from_array(np.array([2**31 + 5, 1]), "w")
    built = build(
        small([add], [value("x", TensorProto.INT64, [2])], [value("y", TensorProto.INT64, [2])], [weights]), options()
    )
    assert built.facts["tensor_types"] == {"int64": 2}
    cut = helper.make_node("Slice", ["x", "s", "e"], ["y"], name="slice")
    ends = [numpy_helper.from_array(np.array([n]), name) for n, name in ((0, "s"), (2**63 - 1, "e"))]
    sliced = build(
        small([cut], [value("x", TensorProto.FLOAT, [4])], [value("y", TensorProto.FLOAT, None)], ends), options()
    )
    assert sliced.facts["log"]["by_severity"].get("warning", 0) == 0  # type: ignore[index, call-overload, union-attr]  # a dict
    assert sliced.layers[0].outputs[0].shape == (4,)


def test_c15_an_operator_that_onnx_runtime_made() -> None:
    node = helper.make_node("BiasGelu", ["x", "b"], ["y"], name="bg", domain="com.microsoft")
    inputs = [value("x", TensorProto.FLOAT, [2, 2]), value("b", TensorProto.FLOAT, [2])]
    model = small([node], inputs, [value("y", TensorProto.FLOAT, [2, 2])], domains=["com.microsoft"])
    with pytest.raises(BuildError) as caught:
        build(model, options())
    assert "node 0 'bg' (BiasGelu)" in str(caught.value)
    assert "'BiasGelu' was made by ONNX Runtime's optimiser: export the model before optimising it" in str(caught.value)


def test_c15_c45_a_plugin_that_is_not_there_first_error_first() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], name="r0"),
        helper.make_node("LeakyThing", ["r"], ["s"], name="lt", domain="my.ops"),
        helper.make_node("Other", ["s"], ["y"], name="other", domain="my.ops"),
    ]
    model = small(nodes, [value("x", TensorProto.FLOAT, [2])], [value("y", TensorProto.FLOAT, [2])], domains=["my.ops"])
    with pytest.raises(BuildError) as caught:
        build(model, options())
    said = str(caught.value).splitlines()
    assert "node 1 'lt' (LeakyThing)" in said[0]
    assert "name LeakyThing, version 1, namespace 'my.ops'" in said[1]
    assert "  my.ops::LeakyThing × 1, first at 'lt'" in said
    assert said[-2] == "1 more, in order:"
    assert "node 2 'other' (Other)" in said[-1]


def if_model(condition: str) -> Model:
    axis = numpy_helper.from_array(np.array([0], np.int64), "axis")
    then = helper.make_graph(
        [helper.make_node("Squeeze", ["x", "axis"], ["t"], name="sq")],
        "then",
        [],
        [value("t", TensorProto.FLOAT, [4])],
        [axis],
    )
    other = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["e"], name="same")], "else", [], [value("e", TensorProto.FLOAT, [1, 4])]
    )
    node = helper.make_node("If", [condition], ["y"], then_branch=then, else_branch=other, name="if0")
    inputs = [value("x", TensorProto.FLOAT, [1, 4])]
    if condition == "c":
        inputs.append(value("c", TensorProto.BOOL, []))
    constant = numpy_helper.from_array(np.array(True), "fixed")
    return small([node], inputs, [value("y", TensorProto.FLOAT, None)], [constant])


def test_c16_branches_of_different_ranks() -> None:
    with pytest.raises(
        BuildError,
        match=r"If node 'if0', output 0: the branches give tensors of different ranks, \(4,\) in .* and \(1, 4\)",
    ):
        build(if_model("c"), options())


def test_c16_a_constant_condition_builds() -> None:
    assert build(if_model("fixed"), options()).layers


def test_c18_boolean_tensors_build_as_outputs() -> None:
    nodes = [
        helper.make_node("Greater", ["x", "w"], ["g"], name="g"),
        helper.make_node("Not", ["g"], ["n"], name="n"),
        helper.make_node("Where", ["n", "x", "w"], ["s"], name="s"),
        helper.make_node("Mul", ["s", "s"], ["y"], name="m"),
    ]
    weights = numpy_helper.from_array(np.array([0, 1, 2], np.float32), "w")
    model = small(nodes, [value("x", TensorProto.FLOAT, [3])], [value("y", TensorProto.FLOAT, [3])], [weights])
    probed = add_probes(model, [TensorId("g"), TensorId("n"), TensorId("s")])
    built = build(probed.model, options())
    outputs = {t.name for item in built.layers for t in item.outputs}
    assert set(probed.outputs.values()) <= outputs


def test_a_quantise_scale_of_zero_is_explained() -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="q"),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], name="dq"),
    ]
    weights = [
        numpy_helper.from_array(np.array(0, np.float32), "s"),
        numpy_helper.from_array(np.array(0, np.int8), "z"),
    ]
    model = small(nodes, [value("x", TensorProto.FLOAT, [3])], [value("y", TensorProto.FLOAT, [3])], weights)
    with pytest.raises(BuildError, match="a quantise scale is 0 or negative; a channel whose weights are all 0"):
        build(model, options())


def reshape_by_input() -> Model:
    node = helper.make_node("Reshape", ["x", "sizes"], ["y"], name="reshape")
    inputs = [value("x", TensorProto.FLOAT, [2, 6]), value("sizes", TensorProto.INT64, [2])]
    return small([node], inputs, [value("y", TensorProto.FLOAT, [None, None])])


def test_inputs_that_hold_shapes_need_their_values() -> None:
    with pytest.raises(InputError, match="input 'sizes' holds a shape: TensorRT must know its smallest"):
        build(reshape_by_input(), options())
    values = (ShapeRange("sizes", (1, 1), (3, 4), (12, 12)),)
    assert build(reshape_by_input(), options(shape_values=values)).layers
    with pytest.raises(UsageError, match="shape_values: 'x' holds no shape"):
        build(reshape_by_input(), options(shape_values=(*values, ShapeRange("x", (1,), (1,), (1,)))))


def test_a_session_keeps_the_record_of_an_engine_that_cannot_run_here(shared: Path, tmp_path: Path) -> None:
    if backends.get("tensorrt_rtx").info().can_run:
        pytest.skip("an RTX GPU is here")
    lab = Session(shared / "trt_records" / "l2norm_overflow.onnx", records=tmp_path)
    lab.use(backend="tensorrt_rtx", precision="fp16", shapes={"x": "1x3x64x64"}, compute_capability="SM120")
    record = lab.build()
    assert len(record.layers) == 16
    assert record.meta.facts["compute_capability"] == "SM120"
    assert "RTX GPU is needed to run" in str(record.meta.facts["not_run"])
    assert lab.status.text.startswith("built, not run: ")
    with pytest.raises(UsageError, match="was built but not run, so it has no outputs to compare"):
        lab.compare()


def test_the_very_same_engine_is_taken_from_the_cache(
    l2norm: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("TRT_LAB_ENGINE_CACHE_MB", "500")
    made = build(l2norm, options(X, plan=FP16))
    assert made.facts["engine_cache"]["state"] == "miss"  # type: ignore[index, call-overload]  # a dict
    taken = build(l2norm, options(X, plan=FP16))
    assert taken.facts["engine_cache"]["state"] == "hit"  # type: ignore[index, call-overload]  # a dict
    assert taken.engine == made.engine
    assert taken.layers == made.layers
    assert taken.build_s < made.build_s
    assert {**taken.facts, "engine_cache": 0, "log": 0} == {**made.facts, "engine_cache": 0, "log": 0}
    probed = add_probes(l2norm, [TensorId("/Mul_output_0")]).model
    for model, chosen in (
        (probed, options(X, plan=FP16)),
        (l2norm, options(X)),
        (l2norm, options(X, plan=FP16, sm="SM120")),
    ):
        assert build(model, chosen).facts["engine_cache"]["state"] == "miss"  # type: ignore[index, call-overload]  # a dict
    fresh = build(l2norm, options(X, plan=FP16, engine_cache="fresh"))
    assert fresh.facts["engine_cache"]["state"] == "miss"  # type: ignore[index, call-overload]  # a dict
