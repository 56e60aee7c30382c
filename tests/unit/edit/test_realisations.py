"""Both realisations of a precision plan against each other, in numbers.

The emulation runs on ONNX Runtime, its optimiser off and on. The typed model runs on onnx.reference, which computes
in real float16 and bfloat16 arrays (ONNX Runtime on the CPU would compute it in float32).
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import numpy_helper, parser
from onnx.reference import ReferenceEvaluator

from trt_lab.edit.precision import emulate, typed
from trt_lab.graph import GraphView
from trt_lab.model import Model
from trt_lab.samples import make_samples
from trt_lab.types import NodeId, PrecisionPlan

LEVELS = {
    "off": ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
}
Arrays = dict[str, np.ndarray]


def _model(text: str, opset: int = 17) -> Model:
    return Model.from_proto(parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]>\n{text}'))


def _plan(*keep: str, default: str = "fp16") -> PrecisionPlan:
    return PrecisionPlan(default, tuple(NodeId(node) for node in keep))  # pyright: ignore[reportArgumentType] (text of a parameter)


def _run(proto: onnx.ModelProto, feeds: Arrays, level: str = "off") -> Arrays:
    options = ort.SessionOptions()
    options.graph_optimization_level = LEVELS[level]
    options.log_severity_level = 3
    session = ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return {name: np.asarray(value) for name, value in zip(names, session.run(None, feeds), strict=True)}


def _refer(proto: onnx.ModelProto, feeds: Arrays) -> Arrays:
    with np.errstate(all="ignore"):
        values = ReferenceEvaluator(proto).run(None, feeds)
    return {output.name: np.asarray(value) for output, value in zip(proto.graph.output, values, strict=True)}


def _emulated(model: Model, plan: PrecisionPlan, feeds: Arrays, level: str = "off") -> Arrays:
    return _run(emulate(model, plan).model.proto(), feeds, level)


def _typed(model: Model, plan: PrecisionPlan, feeds: Arrays) -> Arrays:
    return _refer(typed(model, plan).model.proto(), feeds)


# --- the measured facts --------------------------------------------------------------------

NORM = (
    "agraph (float[1,8] x) => (float[1,8] y) {"
    "[Mul] m = Mul(x, x) [Sum] s = ReduceSum <keepdims = 1> (m) [Sqrt] r = Sqrt(s) [Div] y = Div(x, r) }"
)
ROOT = "agraph (float[1,8] x) => (float[1,1] r) { [Mul] m = Mul(x, x) [Sum] s = ReduceSum(m) [Sqrt] r = Sqrt(s) }"
EIGHT = {"x": np.full((1, 8), 1000, np.float32)}


@pytest.mark.parametrize("level", LEVELS)
def test_eight_values_of_1000_overflow(level: str) -> None:
    model = _model(ROOT)
    assert _run(model.proto(), EIGHT, level)["r"].item() == pytest.approx(2828.427, rel=1e-6)
    assert _emulated(model, _plan(), EIGHT, level)["r"].item() == np.inf
    assert _typed(model, _plan(), EIGHT)["r"].item() == np.inf
    assert _emulated(model, _plan(default="bf16"), EIGHT, level)["r"].item() == pytest.approx(2828, rel=2**-8)


@pytest.mark.parametrize("level", LEVELS)
def test_keep_fp32_is_a_region(level: str) -> None:
    """A low reader of a kept node overflows all the same: the region must reach to where the value is in range again."""
    model = _model(NORM)
    right = 8**-0.5
    for keep, wanted in (
        ((), 0.0),
        (("Mul",), 0.0),
        (("Mul", "Sum"), 0.0),
        (("Mul", "Sum", "Sqrt"), right),
        (("Mul", "Sum", "Sqrt", "Div"), right),
    ):
        got = _emulated(model, _plan(*keep), EIGHT, level)["y"]
        assert got[0].tolist() == pytest.approx([wanted] * 8, rel=1e-3), keep
        assert _typed(model, _plan(*keep), EIGHT)["y"][0].tolist() == pytest.approx([wanted] * 8, rel=1e-3), keep


def test_c24_layer_norm_written_out() -> None:
    model = _model(
        "agraph (float[1,4] x) => (float[1,4] y) <float two = {2}, float eps = {0.00001}> {"
        "[Mean] m = ReduceMean <axes = [-1]> (x) [Sub] d = Sub(x, m) [Pow] p = Pow(d, two) [Var] v = ReduceMean <axes = [-1]> (p)"
        "[Add] e = Add(v, eps) [Sqrt] s = Sqrt(e) [Div] y = Div(d, s) }"
    )
    feeds = {"x": np.array([[400, -400, 100, -100]], np.float32)}
    right = [1.37199, -1.37199, 0.342997, -0.342997]
    assert _run(model.proto(), feeds)["y"][0].tolist() == pytest.approx(right, rel=1e-5)
    for level in LEVELS:
        low = _emulated(model, _plan(), feeds, level)["y"][0]
        assert low.tolist() == [0, 0, 0, 0]
        assert np.signbit(low).tolist() == [False, True, False, True]
        kept = _emulated(model, _plan("Pow", "Var", "Add", "Sqrt"), feeds, level)["y"][0]
        assert kept.tolist() == pytest.approx(right, rel=2e-3)
    assert _typed(model, _plan(), feeds)["y"][0].tolist() == [0, 0, 0, 0]


def test_c34_resize_runs_both_ways() -> None:
    model = _model(
        "agraph (float[1,1,2,2] x) => (float[1,1,4,4] y) <float[4] sc = {1, 1, 2, 2}>"
        '{ [R] y = Resize <mode = "nearest"> (x, , sc) }'
    )
    feeds = {"x": np.array([[[[1, 2], [3, 0.1]]]], np.float32)}
    wanted = np.repeat(np.repeat(feeds["x"].astype(np.float16).astype(np.float32), 2, 2), 2, 3)
    for level in LEVELS:
        assert _emulated(model, _plan(), feeds, level)["y"].tolist() == wanted.tolist()
        by_type = _run(typed(model, _plan()).model.proto(), feeds, level)["y"]  # loads and runs; rounds less there
        np.testing.assert_allclose(by_type, wanted, rtol=1e-3)


def test_huge_constant_becomes_infinite() -> None:
    model = _model(
        "agraph (float[2] x) => (float[2] y) { h = Constant <value = float[1] {-999999995904}> () [M] y = Add(x, h) }"
    )
    for level in LEVELS:
        assert _emulated(model, _plan(), {"x": np.array([1, 2], np.float32)}, level)["y"].tolist() == [-np.inf, -np.inf]
        assert (
            _emulated(model, _plan("M"), {"x": np.array([1, 2], np.float32)}, level)["y"].tolist()
            == [-999999995904] * 2
        )
    assert _typed(model, _plan(), {"x": np.array([1, 2], np.float32)})["y"].tolist() == [-np.inf, -np.inf]


def test_integers_are_rounded_once() -> None:
    """2049 lies between two halves; 131329 would round otherwise by way of another type."""
    model = _model("agraph (int64[3] i) => (float[3] y) { [C] f = Cast <to = 1> (i) [N] y = Neg(f) }")
    feeds = {"i": np.array([2049, 2051, 70000], np.int64)}
    for level in LEVELS:
        assert _emulated(model, _plan(), feeds, level)["y"].tolist() == [-2048, -2052, -np.inf]
    assert _typed(model, _plan(), feeds)["y"].tolist() == [-2048, -2052, -np.inf]


@pytest.mark.parametrize(("precision", "dtype"), [("fp16", np.float16), ("bf16", ml_dtypes.bfloat16)])
def test_rounding_is_to_nearest_even_everywhere(precision: str, dtype: type) -> None:
    """Weights are rounded by numpy, tensors by ONNX Runtime: both must give the same bits."""
    rng = np.random.default_rng(3)
    values = np.concatenate(
        [
            rng.standard_normal(4000) * 10.0 ** rng.integers(-9, 6, 4000),
            [0.0, -0.0, 65504, 65519.99, 65520, -65520, 2**-24, 2**-25, 1e-8, np.inf, -np.inf, 1 + 2**-11, 1 + 2**-8],
        ]
    ).astype(np.float32)
    model = _model(f"agraph (float[{values.size}] x) => (float[{values.size}] y) {{ y = Neg(x) }}")
    with np.errstate(over="ignore"):
        wanted = -values.astype(dtype).astype(np.float32)
    for level in LEVELS:
        assert _emulated(model, _plan(default=precision), {"x": values}, level)["y"].tobytes() == wanted.tobytes()


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_every_cast_survives_the_optimiser(precision: str, tmp_path) -> None:
    """Counted in the graph that ONNX Runtime wrote after optimising at its highest level."""
    model = _model(
        "agraph (float[1,8] x) => (float[1,4] y) <float[4] b = {0.1, 0.2, 0.3, 0.4}> {"
        "[R] r = Relu(x) [N] n = Neg(r) [A] a, c = Split <axis = 1> (n) [S] s = Add(a, c) y = Mul(s, b) }"
    )
    made = emulate(model, _plan(default=precision)).model.proto()
    target = tmp_path / "optimised.onnx"
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = LEVELS["all"]
    options.optimized_model_filepath = str(target)
    ort.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    casts = [node for node in made.graph.node if node.op_type == "Cast"]
    left = [node for node in onnx.load(target).graph.node if node.op_type == "Cast"]
    assert len(left) == len(casts) == 14


# --- generated graphs ------------------------------------------------------------------------

EXACT = ("Add", "Sub", "Mul", "Div", "Neg", "Abs", "Sqrt")
"""float32 arithmetic rounded to float16 is float16 arithmetic for these (24 ≥ 2 · 11 + 2 bits), so bits must agree."""


@st.composite
def _elementwise(draw: st.DrawFn) -> tuple[Model, tuple[str, ...]]:
    names = ["x", "w", "z"]
    lines = []
    for index in range(draw(st.integers(1, 10))):
        op = draw(st.sampled_from(EXACT))
        count = 2 if op in ("Add", "Sub", "Mul", "Div") else 1
        reads = [draw(st.sampled_from(names)) for _ in range(count)]
        lines.append(f"[n{index}] t{index} = {op}({', '.join(reads)})")
        names.append(f"t{index}")
    outputs = draw(st.lists(st.sampled_from(names[3:]), min_size=1, max_size=3, unique=True))
    declared = ", ".join(f"float[6] {name}" for name in outputs)
    text = (
        f"agraph (float[6] x, float[6] z) => ({declared}) <float[6] w = {{0.1, -3, 70000, 0.0000001, 2049, 1.0009}}>"
        f"{{ {' '.join(lines)} }}"
    )
    keep = tuple(f"n{i}" for i in range(len(lines)) if draw(st.booleans()))
    return _model(text), keep


FEEDS = {
    "x": np.array([0.3, -1000, 1e-5, 65520, 3e38, 1.00048828125], np.float32),
    "z": np.array([7.7, 1000.5, -1e-7, -0.0, 0.1, 2047.5], np.float32),
}


@settings(max_examples=60, deadline=None)
@given(case=_elementwise(), precision=st.sampled_from(["fp16", "bf16"]))
def test_emulated_and_typed_agree_bit_for_bit(case: tuple[Model, tuple[str, ...]], precision: str) -> None:
    model, keep = case
    plan = _plan(*keep, default=precision)
    by_type = _typed(model, plan, FEEDS)
    for level in ("off", "all"):
        emulated = _emulated(model, plan, FEEDS, level)
        assert emulated.keys() == by_type.keys()
        for name, wanted in by_type.items():
            assert emulated[name].dtype == wanted.dtype == np.float32
            np.testing.assert_array_equal(emulated[name], wanted, err_msg=f"{name} {level}")


@settings(max_examples=40, deadline=None)
@given(
    ops=st.lists(st.sampled_from(["MatMul", "ReduceMean", "ReduceSum", "Softmax", "Relu", "Add", "Transpose"]), min_size=1, max_size=6),
    keeps=st.lists(st.booleans(), min_size=6, max_size=6),
    seed=st.integers(0, 1000),
)  # fmt: skip
def test_emulated_and_typed_agree_within_rounding(ops: list[str], keeps: list[bool], seed: int) -> None:
    """Sums may be added in another order or in a wider type, so these agree to a few units of float16."""
    calls = {
        "MatMul": "MatMul({}, w)",
        "ReduceMean": "ReduceMean <axes = [-1], keepdims = 1> ({})",
        "ReduceSum": "ReduceSum <keepdims = 1> ({}, axis)",
        "Softmax": "Softmax <axis = -1> ({})",
        "Relu": "Relu({})",
        "Add": "Add({}, w)",
        "Transpose": "Transpose <perm = [1, 0]> ({})",
    }
    lines, source = [], "x"
    for index, op in enumerate(ops):
        call = calls[op].format(source)
        lines.append(f"[n{index}] t{index} = {'Add' if op == 'MatMul' and index else op}{call[len(op) :]}")
        source = f"t{index}"
    rng = np.random.default_rng(seed)
    proto = parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]>\nagraph (float[4,4] x) => (float[a,b] {source}) {{ {" ".join(lines)} }}'
    )
    proto.graph.initializer.append(numpy_helper.from_array(rng.uniform(0.1, 1, (4, 4)).astype(np.float32), "w"))
    proto.graph.initializer.append(numpy_helper.from_array(np.array([-1], np.int64), "axis"))
    model = Model.load(proto)
    plan = _plan(*(f"n{i}" for i in range(len(ops)) if keeps[i]))
    feeds = {"x": rng.uniform(0.1, 1, (4, 4)).astype(np.float32)}
    wanted = _typed(model, plan, feeds)[source]
    for level in ("off", "all"):
        np.testing.assert_allclose(_emulated(model, plan, feeds, level)[source], wanted, rtol=len(ops) * 2**-9)


@pytest.mark.parametrize(("precision", "rtol"), [("fp16", 5e-3), ("bf16", 7e-2)])
def test_a_small_network_agrees(precision: str, rtol: float) -> None:
    """A unit of bfloat16 at a logit of 8 is 2^-5, so one unit there moves Softmax by 3 %."""
    rng = np.random.default_rng(5)
    proto = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]>\n'
        "agraph (float[1,3,8,8] x) => (float[1,5] y) {"
        "[conv] c = Conv <pads = [1, 1, 1, 1]> (x, k, b) [relu] r = Relu(c) [pool] p = GlobalAveragePool(r)"
        "[flat] f = Flatten(p) [gemm] g = Gemm(f, w, v) [soft] y = Softmax(g) }"
    )
    for name, shape in (("k", (4, 3, 3, 3)), ("b", (4,)), ("w", (4, 5)), ("v", (5,))):
        proto.graph.initializer.append(numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name))
    model = Model.load(proto)
    feeds = {"x": rng.standard_normal((1, 3, 8, 8)).astype(np.float32)}
    nodes = list(GraphView.of(model).nodes)
    for keep in ((), ("conv",), ("pool", "flat"), tuple(nodes)):
        wanted = _typed(model, _plan(*keep, default=precision), feeds)["y"]
        for level in ("off", "all"):
            np.testing.assert_allclose(
                _emulated(model, _plan(*keep, default=precision), feeds, level)["y"], wanted, rtol=rtol
            )
    everything = _emulated(model, _plan(*nodes, default=precision), feeds)["y"]
    assert everything.tobytes() == _run(model.proto(), feeds)["y"].tobytes()


def test_magika_overflows_in_its_second_layer_norm(real_model) -> None:
    """The sum of squares of 512 features is 125077, more than 65504: found by this emulation, repaired by the region."""
    model = Model.load(real_model("magika"))
    feeds = make_samples(model, 1)[0]
    plain = next(iter(_run(model.for_runtime().proto(), feeds).values()))
    low = next(iter(_emulated(model, _plan(), feeds).values()))
    assert np.abs(low - plain).max() > 0.9
    norm = [node for node in GraphView.of(model).nodes if "/LayerNorm_1/" in node]
    assert len(norm) > 10
    for level in ("off", "all"):
        kept = next(iter(_emulated(model, _plan(*norm), feeds, level).values()))
        assert np.abs(kept - plain).max() < 5e-3


@pytest.mark.parametrize("name", ["ppocr_cls", "ppocr_det"])
def test_real_models_run_emulated(real_model, name: str) -> None:
    model = Model.load(real_model(name))
    feeds = make_samples(model, 1)[0]
    plain = next(iter(_run(model.for_runtime().proto(), feeds).values()))
    off, full = (next(iter(_emulated(model, _plan(), feeds, level).values())) for level in ("off", "all"))
    assert 0 < np.abs(off - plain).max() < 0.05
    np.testing.assert_allclose(full, off, atol=2e-3)
