"""Searches that end on real engines: weakly typed, models of Polygraphy's, a planted fault, switches, repeated builds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.gpu import models
from tests.gpu.conftest import Lab
from tests.integration.test_locate_real import SHAPE, plant
from trt_lab import zoo
from trt_lab.model import Model, ModelSource
from trt_lab.session import Session

pytestmark = pytest.mark.gpu

POLYGRAPHY = Path("real_inputs/onnx/Polygraphy")
Start = Callable[..., Session]


@pytest.fixture
def start(lab: Lab, cache: Path, tmp_path: Path) -> Start:
    """Makes a session that builds with TensorRT at the lowest level, with a timing cache."""
    del lab  # skips where nothing can be built

    def make(model: ModelSource, **use: object) -> Session:
        session = Session(model, records=tmp_path / "records")
        plain = {"backend": "tensorrt", "precision": "fp16", "builder_level": 1, "profile_runs": 0}
        session.use(**{**plain, "timing_cache": str(cache / "searches.cache"), **use})  # type: ignore[arg-type]  # fields by name
        return session

    return make


def test_weakly_typed_the_source_is_named_and_each_kept_node_is_needed(start: Start, cache: Path) -> None:
    """facts: the value overflows at /Mul; at an optimum of 32 the half kernels are the faster ones."""
    sizes = [(n, 3, 64, 64) for n in (1, 32, 64)]
    lab = start("zoo:l2norm_overflow", strongly_typed=False, builder_level=3, shapes={"x": sizes},
                timing_cache=str(cache / "l2norm.cache"))  # fmt: skip
    finding = lab.locate()
    print(finding.as_json())
    assert finding.source is not None and finding.source.node == "/Mul"
    assert finding.verdict == "differs" and finding.proved
    assert set(finding.as_json()["needed"].values()) == {True}  # type: ignore[union-attr]  # an object
    assert finding.after is not None and finding.after.verdict == "same"
    assert any("layers are half" in note for note in finding.notes)


@pytest.mark.parametrize("strongly", [True, False])
def test_needs_constraints(start: Start, shared: Path, strongly: bool) -> None:
    """65504 is added and taken off again, so FP16 loses every digit; a tolerance below 1/256 would ask FP32 for more."""
    file = shared / POLYGRAPHY / "examples/cli/run/08_adding_precision_constraints/needs_constraints.onnx"
    lab = start(file, strongly_typed=strongly, atol=5e-3, rtol=1e-3)
    lab.feed([{"x": np.random.default_rng(0).random((1, 1, 256, 256), np.float32)}])
    finding = lab.locate()
    print(finding.as_json())
    if finding.verdict == "same":  # a weakly typed engine may be FP32 where nobody asked
        assert not strongly
        assert any("layers are half" in note or "keeps FP32 inside" in note for note in finding.notes)
        return
    assert finding.proved and set(finding.keep_fp32) <= {"Add", "Sub"} and finding.keep_fp32
    if strongly:
        assert finding.engine_builds <= 2


def test_reducable(start: Start, shared: Path, tmp_path: Path) -> None:
    lab = start(shared / POLYGRAPHY / "tests/models/reducable.onnx")
    one, large = np.array([1], np.float32), np.array([4e4], np.float32)
    lab.feed([{"X0": one, "Y0": one}, {"X0": large, "Y0": large}])
    finding = lab.locate()
    print(finding.as_json())
    assert finding.source is not None and finding.source.node == "onnx_graphsurgeon_node_5"
    assert lab.reduce(tmp_path / "least.onnx").nodes == ("onnx_graphsurgeon_node_5",)


def test_a_fault_planted_in_ppocr_rec_is_repaired(start: Start, real_model: Callable[[str], Path]) -> None:
    proto, (conv, norm) = plant(real_model("ppocr_rec"))
    lab = start(proto, shapes={"x": SHAPE}, atol=1e-2, rtol=1e-2)
    lab.feed(2)
    finding = lab.locate()
    print(finding.headline, finding.engine_builds, finding.seconds, finding.notes)
    assert finding.source is not None and finding.source.node == conv
    assert finding.keep_fp32 == (conv, norm)
    assert finding.proved and finding.engine_builds <= 2


def test_c25_tf32_is_the_switch_that_helps(start: Start) -> None:
    lab = start(models.matmul(), precision="fp32", tf32=True, atol=1e-4, rtol=0.0)
    found = lab.switches()
    print(found.as_json())
    if found.base.passes:
        pytest.skip("at this level TensorRT took no TF32 kernel")
    assert "TF32" in {row.switch.name for row in found.helping}


def test_builds_that_are_repeated(start: Start, tmp_path: Path) -> None:
    lab = start(zoo.get("clean_cnn").model, shapes={k: v.shape for k, v in zoo.get("clean_cnn").feeds[0].items()})
    found = lab.flaky(3)
    print(found.as_json())
    assert found.kind in ("identical", "other kernels, all right")
    assert all(build.right and build.timing_cache is False for build in found.builds)
    if found.kind != "identical":
        assert found.locked, "a build from the saved cache has the same kernels and bits"


def test_int8_with_the_scales_of_a_calibration_cache(start: Start, lab: Lab, tmp_path: Path) -> None:
    """Scales that quantize wrote are the ranges of a weakly typed INT8 engine."""
    subject = zoo.get("clean_cnn")
    session = start(subject.model, precision="fp32", shapes={k: v.shape for k, v in subject.feeds[0].items()})
    session.feed(list(subject.feeds))
    made = tmp_path / "scales.cache"
    session.quantize(tmp_path / "int8.onnx", write_cache=made)
    session.use(strongly_typed=False, calibration_cache=str(made))
    session.build()
    facts = session.newest().meta.facts
    print(facts.get("tensor_types"), facts.get("builder_flags"), session.compare().largest)
    assert "INT8" in facts["builder_flags"]  # type: ignore[operator]  # a list
    assert facts["calibration_cache"]["tensors"] > 0  # type: ignore[index, call-overload]  # a dict
    assert session.compare().largest is not None
    assert "refused" not in str(facts["notes"])


def test_latency_over_sizes(start: Start, shared: Path) -> None:
    lab = start(Model.load(shared / "trt_records" / "encoder4.onnx"), shapes={"x": [(n, 128, 64) for n in (1, 4, 8)]})
    found = lab.sweep(repeats=10)
    print(found.frame.to_string(), found.headline)
    assert len(found.frame) >= 2
    assert found.frame["median_ms"].to_numpy().min() > 0


def test_time_by_node_adds_up(start: Start, shared: Path) -> None:
    lab = start(Model.load(shared / "trt_records" / "encoder4.onnx"), shapes={"x": [(n, 128, 64) for n in (1, 4, 8)]},
                profile_runs=20)  # fmt: skip
    record = lab.build()
    spent, account = lab.profile(), lab.latency()
    print(spent.to_string(), account)
    assert spent["average_ms"].to_numpy().sum() == pytest.approx(sum(t.average_ms for t in record.times))
    assert account.layers_ms is not None and account.layers_ms > 0
    assert account.end_to_end_ms is not None and account.end_to_end_ms > 0
