"""INT8 by a calibration cache: what TensorRT is given, and what is refused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.unit.edit.qdq_models import float_convs, two_convs
from trt_lab import backends
from trt_lab.backends.shapes import resolve_profiles
from trt_lab.backends.tensorrt.build import Prepared, prepare
from trt_lab.backends.tensorrt.calibration import CalibrationCache, parse_cache, write_cache
from trt_lab.backends.tensorrt.calibrator import set_calibrator
from trt_lab.backends.tensorrt.engines import cache_key
from trt_lab.backends.tensorrt.versions import Library
from trt_lab.edit.precision import Realised
from trt_lab.errors import RecordError, UsageError
from trt_lab.types import BuildOptions


class Calibrator:
    """As the bindings have it: it must be initialised."""

    def __init__(self) -> None:
        self.ready = True


def library(version: str = "10.6.0.post2", *, weak: bool = True) -> Library:
    flags = SimpleNamespace(FP16=0, INT8=1) if weak else SimpleNamespace()
    return Library("tensorrt", SimpleNamespace(BuilderFlag=flags, IInt8EntropyCalibrator2=Calibrator), version)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return write_cache(
        tmp_path / "c.cache", CalibrationCache({"x": 0.5, "r": 0.25}, version="8401", algorithm="MinMaxCalibration")
    )


def weak(cache: Path) -> BuildOptions:
    return BuildOptions(backend="tensorrt", strongly_typed=False, calibration_cache=str(cache))


@pytest.mark.parametrize(
    ("version", "digits"), [("10.6.0.post2", "100600"), ("10.14.1.48", "101401"), ("10.0.1", "100001")]
)
def test_the_scales_are_given_under_the_header_of_this_version(cache: Path, version: str, digits: str) -> None:
    config = SimpleNamespace()
    facts = set_calibrator(library(version), config, str(cache))
    made = config.int8_calibrator
    assert (
        isinstance(made, Calibrator) and made.ready and facts == {"file": str(cache), "tensors": 2, "made_by": "8.4.1"}
    )
    text = made.read_calibration_cache()  # pyright: ignore[reportAttributeAccessIssue]  # of the class made there
    assert text.splitlines()[0] == f"TRT-{digits}-EntropyCalibration2".encode()
    assert parse_cache(text.decode(), "given").scales == {"x": 0.5, "r": 0.25}
    assert made.get_batch_size() == 1 and made.get_batch(["x"]) is None  # pyright: ignore[reportAttributeAccessIssue]


def test_a_weakly_typed_build_takes_it(cache: Path) -> None:
    assert not prepare(library(), float_convs(), weak(cache)).strongly_typed


def test_strongly_typed_builds_quantised_and_other_models_are_refused(cache: Path, tmp_path: Path) -> None:
    strong = BuildOptions(backend="tensorrt", calibration_cache=str(cache))
    with pytest.raises(UsageError, match="for weakly typed builds .* trt-lab quantize --read-cache"):
        prepare(library(), float_convs(), strong)
    with pytest.raises(UsageError):  # 11 has no weakly typed builds
        prepare(library("11.2.0", weak=False), float_convs(), weak(cache))
    with pytest.raises(UsageError, match="two_convs has Q/DQ, which decide its scales"):
        prepare(library(), two_convs(), weak(cache))
    other = write_cache(tmp_path / "o.cache", CalibrationCache({"images": 0.5}))
    with pytest.raises(UsageError, match="none of its 1 tensors is in two_convs_float"):
        prepare(library(), float_convs(), weak(other))
    with pytest.raises(RecordError, match="No such file"):
        prepare(library(), float_convs(), weak(tmp_path / "missing"))


def test_onnx_runtime_refuses_it(cache: Path) -> None:
    with pytest.raises(UsageError, match="calibration caches are TensorRT's"):
        backends.get("onnxruntime").build(
            float_convs(), BuildOptions(calibration_cache=str(cache)), lambda progress: None
        )


def test_an_engine_depends_on_the_scales_and_not_on_the_place_of_the_file(cache: Path, tmp_path: Path) -> None:
    model = float_convs()

    def key(file: Path) -> str:
        options = weak(file)
        prepared = Prepared(model.name, model, Realised(model), resolve_profiles(model, options), strongly_typed=False)
        return cache_key(library(), prepared, options, "H200")

    copy = tmp_path / "copy.cache"
    copy.write_bytes(cache.read_bytes())
    before = key(cache)
    assert key(copy) == before
    write_cache(cache, CalibrationCache({"x": 0.5, "r": 0.125}))
    assert key(cache) != before
