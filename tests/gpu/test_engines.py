"""Real engines against ONNX Runtime: FP32 within 1e-4, FP16 as it was measured, every type, sizes that depend on data.

FP16 builds at the usual builder level take about a minute each; the two of them are shared by all tests here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tests.gpu import models
from tests.gpu.conftest import Engine, Lab
from trt_lab import zoo
from trt_lab.compare.observer import observe
from trt_lab.edit.probe import add_probes
from trt_lab.model import Model
from trt_lab.types import BuildOptions, NodeId, PrecisionPlan, ShapeRange, TensorId

pytestmark = pytest.mark.gpu

FP16 = PrecisionPlan("fp16")
NORM = tuple(NodeId(n) for n in ("/Mul", "/Mul_1", "/ReduceSum", "/Add", "/Sqrt", "/Div"))
PROBE = TensorId("/Mul_output_0")


def options(*shapes: ShapeRange, **more: object) -> BuildOptions:
    return BuildOptions(backend="tensorrt", shapes=shapes, **more)  # type: ignore[arg-type]  # fields by name


def normal(name: str, *sizes: int, seed: int = 0) -> dict[str, np.ndarray]:
    return {name: np.random.default_rng(seed).standard_normal(sizes).astype(np.float32)}


L2_RANGE = ShapeRange("x", (1, 3, 64, 64), (32, 3, 64, 64), (64, 3, 64, 64))
"""Wide enough that half convolutions are the faster ones: at an optimum of 4 TensorRT 10.6 chose FP32 everywhere."""
ZOO_RANGE = ShapeRange("x", (1, 3, 64, 64), (4, 3, 64, 64), (8, 3, 64, 64))
ENCODER_RANGE = ShapeRange("x", (1, 128, 64), (4, 128, 64), (8, 128, 64))
L2_FEEDS = [normal("x", 4, 3, 64, 64)]
ENCODER_FEEDS = [normal("x", 4, 128, 64)]


# --- FP32 ------------------------------------------------------------------------------


def det_feeds() -> list[dict[str, np.ndarray]]:
    return [normal("x", 1, 3, 320, 320), normal("x", 1, 3, 640, 480, seed=1)]


FP32_MODELS: dict[str, tuple[tuple[ShapeRange, ...], list[dict[str, np.ndarray]]]] = {
    "l2norm_overflow": ((L2_RANGE,), [*L2_FEEDS, normal("x", 1, 3, 64, 64, seed=1)]),
    "encoder4": ((ENCODER_RANGE,), ENCODER_FEEDS),
    "ppocr_det": ((ShapeRange("x", (1, 3, 320, 320), (1, 3, 320, 320), (1, 3, 640, 640)),), det_feeds()),
    "ppocr_rec": ((ShapeRange("x", (1, 3, 48, 160), (1, 3, 48, 320), (1, 3, 48, 320)),), [normal("x", 1, 3, 48, 320)]),
    "ppocr_cls": ((ShapeRange("x", *[(1, 3, 48, 192)] * 3),), [normal("x", 1, 3, 48, 192)]),
    "magika": (
        (ShapeRange("bytes", *[(1, 2048)] * 3),),
        [{"bytes": np.random.default_rng(0).integers(0, 256, (1, 2048), dtype=np.int32)}],
    ),
}


def open_model(name: str, shared: Path, real_model: Callable[[str], Path]) -> Model:
    recorded = shared / "trt_records" / f"{name}.onnx"
    return Model.load(recorded if recorded.exists() else real_model(name))


@pytest.mark.parametrize("name", sorted(FP32_MODELS))
def test_fp32_is_within_1e_4_of_the_reference(
    lab: Lab, cache: Path, shared: Path, real_model: Callable[[str], Path], name: str
) -> None:
    shapes, feeds = FP32_MODELS[name]
    model = open_model(name, shared, real_model)
    engine = lab.run(model, options(*shapes, builder_level=1, timing_cache=str(cache), profile_runs=3), feeds)
    assert engine.worst(lab.reference(model, feeds)) <= 1e-4
    facts = engine.outcome.facts
    assert facts["tf32"] is False
    assert facts["strongly_typed"] is True
    assert "float16" not in facts["tensor_types"]  # type: ignore[operator]  # a dict
    mapped = [layer for layer in engine.outcome.layers if layer.nodes]
    assert len(mapped) >= 0.6 * len(engine.outcome.layers)
    assert len(engine.outcome.latency_ms) == 3
    assert sum(t.average_ms for t in engine.outcome.times) > 0


def test_c25_tf32_is_off_unless_asked(lab: Lab) -> None:
    model, feeds = models.matmul(), [normal("x", 64, 256)]
    reference = lab.reference(model, feeds)
    exact = lab.run(model, options(timing_cache="off"), feeds)
    rounded = lab.run(model, options(timing_cache="off", tf32=True), feeds)
    assert exact.worst(reference) < 1e-4
    assert exact.outcome.facts["tf32"] is False
    assert rounded.outcome.facts["tf32"] is True
    assert exact.worst(reference) <= rounded.worst(reference)


# --- FP16, weakly typed ----------------------------------------------------------------


@pytest.fixture(scope="session")
def l2norm(shared: Path) -> Model:
    return Model.load(shared / "trt_records" / "l2norm_overflow.onnx")


@pytest.fixture(scope="session")
def encoder4(shared: Path) -> Model:
    return Model.load(shared / "trt_records" / "encoder4.onnx")


def weak(shape: ShapeRange, cache: Path, name: str, plan: PrecisionPlan = FP16) -> BuildOptions:
    return options(shape, plan=plan, strongly_typed=False, timing_cache=str(cache / f"{name}.cache"))


@pytest.fixture(scope="session")
def l2norm_weak(lab: Lab, cache: Path, l2norm: Model) -> Engine:
    """Cold, about a minute."""
    return lab.run(l2norm, weak(L2_RANGE, cache, "l2norm"), L2_FEEDS)


@pytest.fixture(scope="session")
def encoder4_weak(lab: Lab, cache: Path, encoder4: Model) -> Engine:
    """Cold, about a minute."""
    return lab.run(encoder4, weak(ENCODER_RANGE, cache, "encoder4"), ENCODER_FEEDS)


def test_weak_fp16_overflows_where_it_was_measured(lab: Lab, l2norm: Model, l2norm_weak: Engine) -> None:
    assert 0.1 < l2norm_weak.worst(lab.reference(l2norm, L2_FEEDS)) < 0.3
    facts = l2norm_weak.outcome.facts
    assert facts["builder_flags"] == ["FP16"]
    assert facts["precision_met"] is True
    made = {t.name: t.dtype for layer in l2norm_weak.outcome.layers for t in layer.outputs}
    assert made["/Mul_output_0"] == "float16"


def test_a_probe_hides_the_fault(lab: Lab, cache: Path, l2norm: Model, l2norm_weak: Engine) -> None:
    """facts: a probe at the broadcast in front of /Mul makes the engine right; here the tensor itself is asked for."""
    probed = add_probes(l2norm, [PROBE])
    engine = lab.run(probed.model, weak(L2_RANGE, cache, "l2norm"), L2_FEEDS)
    name = probed.outputs[PROBE]
    assert engine.outputs[0][name].shape == (4, 32, 64, 64)
    assert engine.outcome.facts["timing_cache"]["used"] is True  # type: ignore[index]  # a dict
    split = observe(l2norm_weak.outcome.layers, engine.outcome.layers).changes
    assert split, "the layer that made the tensor inside is not the same any more"
    assert engine.outcome.build_s < l2norm_weak.outcome.build_s


def test_rebuild_with_the_timing_cache_is_ten_times_faster(
    lab: Lab, cache: Path, encoder4: Model, encoder4_weak: Engine
) -> None:
    reference = lab.reference(encoder4, ENCODER_FEEDS)
    assert encoder4_weak.worst(reference) < 5e-3
    probed = add_probes(encoder4, [TensorId("/b.1/Add_output_0")])
    again = lab.run(probed.model, weak(ENCODER_RANGE, cache, "encoder4"), ENCODER_FEEDS)
    assert again.outcome.build_s <= encoder4_weak.outcome.build_s / 10
    assert again.worst(reference) < 5e-3


def test_c32_constraints_are_reported(lab: Lab, cache: Path, l2norm: Model, l2norm_weak: Engine) -> None:
    plan = PrecisionPlan("fp16", (*NORM, NodeId("/Constant")))
    engine = lab.run(l2norm, weak(L2_RANGE, cache, "l2norm", plan), L2_FEEDS)
    reports = {r["node"]: r for r in engine.outcome.facts["constraints"]}  # type: ignore[union-attr, index, call-overload]  # list of dicts
    assert set(reports) == {*NORM, "/Constant"}
    assert reports["/ReduceSum"]["state"] == "honoured"
    assert reports["/Constant"]["state"] in ("matched nothing", "honoured")
    assert engine.worst(lab.reference(l2norm, L2_FEEDS)) < 0.01


# --- FP16, strongly typed --------------------------------------------------------------


def test_strong_fp16_overflows_and_the_kept_region_repairs_it(lab: Lab, cache: Path) -> None:
    subject = zoo.get("l2norm_overflow")
    feeds = subject.feeds
    reference = lab.reference(subject.model, feeds)

    def build(plan: PrecisionPlan) -> Engine:
        chosen = options(ZOO_RANGE, plan=plan, builder_level=1, timing_cache=str(cache), profile_runs=0)
        return lab.run(subject.model, chosen, feeds)

    broken = build(FP16)
    print(f"strongly typed FP16: max abs {broken.worst(reference):.3g}")
    assert broken.worst(reference) > 0.1
    repaired = build(PrecisionPlan("fp16", subject.keep))
    print(f"with {len(subject.keep)} nodes kept in FP32: max abs {repaired.worst(reference):.3g}")
    assert repaired.worst(reference) < 1e-3
    assert repaired.outcome.facts["precision_met"] is True
    assert any("rewritten to fp16" in str(note) for note in repaired.outcome.facts["notes"])  # type: ignore[union-attr]  # a list


def test_strong_fp16_encoder(lab: Lab, cache: Path, encoder4: Model) -> None:
    chosen = options(ENCODER_RANGE, plan=FP16, builder_level=1, timing_cache=str(cache))
    engine = lab.run(encoder4, chosen, ENCODER_FEEDS)
    assert engine.worst(lab.reference(encoder4, ENCODER_FEEDS)) < 0.02
    latency = float(np.median(engine.outcome.latency_ms))
    layers = sum(t.average_ms for t in engine.outcome.times)
    assert 0 < latency < 50
    assert layers != latency


def test_quantised_model(lab: Lab, cache: Path) -> None:
    model, feeds = models.qdq(), [normal("x", 1, 3, 32, 32)]
    reference = lab.reference(model, feeds)
    for strongly in (True, False):
        chosen = options(strongly_typed=strongly, builder_level=1, timing_cache=str(cache), profile_runs=0)
        engine = lab.run(model, chosen, feeds)
        assert engine.worst(reference) < 0.1
        assert engine.outcome.facts["tensor_types"].get("int8", 0) > 0  # type: ignore[union-attr]  # a dict


# --- types and sizes -------------------------------------------------------------------


def test_c30_sizes_that_depend_on_data(lab: Lab) -> None:
    feeds = [
        {"x": np.array([[1, 2, 0], [3, 0, 4]], np.float32)},
        {"x": np.zeros((2, 3), np.float32)},
        {"x": np.ones((2, 3), np.float32)},
    ]
    engine = lab.run(models.nonzero(), options(builder_level=1, profile_runs=2), feeds)
    assert [out["y"].shape for out in engine.outputs] == [(2, 4), (2, 0), (2, 6)]
    np.testing.assert_array_equal(engine.outputs[0]["y"], [[0, 0, 1, 1], [0, 1, 0, 2]])
    assert engine.outputs[0]["y"].dtype == np.int64


def test_c18_boolean_outputs(lab: Lab) -> None:
    feeds = [{"x": np.array([1, 0, 3], np.float32)}]
    engine = lab.run(models.booleans(), options(builder_level=1, profile_runs=0), feeds)
    assert engine.outputs[0]["n"].tolist() == [False, True, False]
    assert engine.outputs[0]["n"].dtype == np.bool_
    np.testing.assert_array_equal(engine.outputs[0]["y"], [0, 0, 4])


def test_every_type_of_input_and_output(lab: Lab) -> None:
    kinds = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "i32": np.int32, "i64": np.int64}
    values = np.array([-2, -1, 0, 1, 100])
    feeds = [{f"x_{name}": values.astype(kind) for name, kind in kinds.items()}]
    engine = lab.run(models.casts(), options(builder_level=1, profile_runs=0), feeds)
    for name, kind in kinds.items():
        found = engine.outputs[0][f"y_{name}"]
        assert found.dtype == kind
        np.testing.assert_array_equal(found.astype(np.float32), (2 * values).astype(np.float32))


def test_shapes_as_inputs(lab: Lab) -> None:
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    feeds = [{"x": x, "sizes": np.array([3, 4], np.int64)}, {"x": x, "sizes": np.array([12, 1], np.int64)}]
    values = (ShapeRange("sizes", (1, 1), (3, 4), (12, 12)),)
    chosen = options(builder_level=1, profile_runs=0, shape_values=values)
    engine = lab.run(models.reshape_by_input(), chosen, feeds)
    assert [out["y"].shape for out in engine.outputs] == [(3, 4), (12, 1)]
    np.testing.assert_array_equal(engine.outputs[0]["y"], x.reshape(3, 4))


def test_several_profiles(lab: Lab, cache: Path, l2norm: Model) -> None:
    small = ShapeRange("x", (1, 3, 64, 64), (1, 3, 64, 64), (2, 3, 64, 64))
    large = ShapeRange("x", (3, 3, 64, 64), (4, 3, 64, 64), (8, 3, 64, 64))
    feeds: list[Mapping[str, np.ndarray]] = [normal("x", n, 3, 64, 64, seed=n) for n in (1, 4, 2)]
    chosen = replace(
        options(small, builder_level=1, timing_cache=str(cache), profile_runs=2), more_profiles=((large,),)
    )
    engine = lab.run(l2norm, chosen, feeds)
    assert engine.worst(lab.reference(l2norm, feeds)) <= 1e-4
    assert engine.outcome.times
