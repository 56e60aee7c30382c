"""What cannot be built here, or not in this way: no library, no driver, no such GPU, options that a version does not have."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from trt_lab.backends.tensorrt import backend as module
from trt_lab.backends.tensorrt import device, versions
from trt_lab.backends.tensorrt.backend import TensorRt
from trt_lab.backends.tensorrt.build import prepare
from trt_lab.backends.tensorrt.versions import Library
from trt_lab.errors import BackendUnavailableError, BuildError, TrtLabError, UsageError
from trt_lab.model import Model
from trt_lab.types import BuildOptions, PrecisionPlan

FP16 = PrecisionPlan("fp16")


@pytest.fixture
def model() -> Model:
    node = helper.make_node("Mul", ["x", "w"], ["y"], name="mul")
    value = helper.make_tensor_value_info
    weights = numpy_helper.from_array(np.array([2.0], np.float32), "w")
    graph = helper.make_graph(
        [node], "small", [value("x", TensorProto.FLOAT, [2])], [value("y", TensorProto.FLOAT, [2])], [weights]
    )
    return Model.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9))


def refusal(model: Model, **options: Any) -> TrtLabError:
    with pytest.raises(TrtLabError) as caught:
        TensorRt().build(model, BuildOptions(backend="tensorrt", **options), lambda progress: None)
    assert "Traceback" not in str(caught.value)
    return caught.value


@pytest.fixture
def no_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "_can_find", lambda name: False)
    versions.load.cache_clear()


def test_no_libraries(model: Model, no_libraries: None) -> None:
    error = refusal(model)
    assert isinstance(error, BackendUnavailableError)
    assert str(error) == "TensorRT is not installed: pip install trt-lab[tensorrt]."
    info = TensorRt().info()
    assert (info.can_build, info.can_run, info.reason) == (False, False, str(error).rstrip("."))


def test_libraries_that_cannot_be_loaded(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> ModuleType:
        raise OSError("libnvinfer.so.10: cannot open shared object file")

    monkeypatch.setattr(versions, "_can_find", lambda name: True)
    monkeypatch.setattr("trt_lab.backends.tensorrt.versions.importlib.import_module", fail)
    versions.load.cache_clear()
    said = str(refusal(model))
    assert "TensorRT is installed but cannot be loaded: libnvinfer.so.10: cannot open" in said
    assert "bindings and libraries of the same version and CUDA" in said


@pytest.mark.parametrize(
    ("files", "missing"),
    [
        (["libnvinfer.so.10"], "libnvinfer_builder_resource_sm90.so.10.15.1"),
        (["libnvinfer.so.10", "libnvinfer_builder_resource_ptx.so.10.15.1"], "libnvinfer_builder_resource_sm90.so.10.15.1"),
        (["libnvinfer.so.10", "libnvinfer_builder_resource_sm90.so.10.15.1"], ""),
        (["libnvinfer.so.10", "libnvinfer_builder_resource.so.10.6.0"], ""),
        ([], ""),
    ],
)  # fmt: skip
def test_libraries_without_the_kernels_of_the_gpu(
    files: list[str], missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the archives of 10.15 and 11.2 were seen on an H200: doctor says it, and nothing is loaded for that."""
    for name in files:
        (tmp_path / name).touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/nowhere:{tmp_path}")
    monkeypatch.setattr(versions, "_can_find", lambda name: False)
    monkeypatch.setattr(module, "installed_version", lambda kind: "10.15.1.29")
    gpu = device.Gpu(0, "NVIDIA H200", (9, 0), 1)
    monkeypatch.setattr(device, "machine", lambda: device.Machine((gpu,), "13.0", ""))
    info = TensorRt().info()
    assert info.can_build is not bool(missing) and info.can_run
    start = f"TensorRT 10.15.1.29 has no kernels for NVIDIA H200 (SM90): the library {missing} is missing"
    assert info.reason.startswith(start) if missing else info.reason == ""


def test_no_driver(model: Model, fake_library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "load", lambda kind: fake_library)
    found = device.Machine((), None, "no NVIDIA driver on this machine (libcuda.so.1 not found)")
    monkeypatch.setattr(device, "machine", lambda: found)
    error = refusal(model)
    assert isinstance(error, BackendUnavailableError)
    assert str(error) == f"tensorrt cannot build: no GPU 0 on this machine ({found.reason})"


def test_a_driver_that_makes_no_builder(
    model: Model, stub_driver: Any, fake_library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "load", lambda kind: fake_library)

    def fail(self: Any, logger: Any) -> None:
        logger.log(fake_library.module.ILogger.Severity.ERROR, "CUDA initialization failure with error: 35")
        raise TypeError("pybind11::init(): factory function returned nullptr")

    monkeypatch.setattr(fake_library.module.Builder, "__init__", fail)
    error = refusal(model)
    assert isinstance(error, BackendUnavailableError)
    assert "TensorRT 10.6.0 cannot make a builder: CUDA initialization failure with error: 35. It needs" in str(error)
    assert [line.severity for line in error.log if "CUDA" in line.message] == ["error"]


def test_wrong_gpu(model: Model, stub_driver: Any, fake_library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "load", lambda kind: fake_library)
    assert str(refusal(model, device=3)) == "tensorrt cannot build: no GPU 3 on this machine (0: Stub GPU)"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"compute_capability": "SM90"}, "TensorRT 10.6.0 builds for the GPU of this machine"),
        ({"optimizer": False}, "TensorRT 10.6.0 always optimises"),
        ({"workspace_bytes": 0}, "workspace of 0 bytes; give a positive size, or none for half of the GPU's memory"),
        ({"builder_level": 6}, "builder level 6: take 0"),
    ],
)
def test_wrong_options(
    model: Model,
    stub_driver: Any,
    fake_library: Library,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    words: str,
) -> None:
    monkeypatch.setattr(module, "load", lambda kind: fake_library)
    error = refusal(model, **options)
    assert isinstance(error, UsageError)
    assert words in str(error)


def test_the_builder_gives_nothing(
    model: Model, stub_driver: Any, fake_library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "load", lambda kind: fake_library)

    def nothing(self: Any, network: Any, config: Any) -> None:
        for text in ("Requested amount of GPU memory (5000 bytes) could not be allocated", "second"):
            self.logger.log(fake_library.module.ILogger.Severity.ERROR, text)

    monkeypatch.setattr(fake_library.module.Builder, "build_serialized_network", nothing)
    error = refusal(model)
    assert isinstance(error, BuildError)
    assert "could not build the engine: Requested amount of GPU memory (5000 bytes)" in str(error)
    assert "scratch memory asked for was 5,000 bytes: raise the workspace limit" in str(error)
    assert [line.message for line in error.log if line.severity == "error"][-1] == "second", "the whole log is kept"


class Flags11(Enum):
    """BuilderFlag of TensorRT 11: nothing about types."""

    TF32 = 0
    DISABLE_TIMING_CACHE = 1
    EDITABLE_TIMING_CACHE = 2


@pytest.fixture
def eleven(fake_library: Library) -> Library:
    """TensorRT 11: strongly typed only."""
    changed = SimpleNamespace(**{**vars(fake_library.module), "BuilderFlag": Flags11})
    return replace(fake_library, module=changed, version="11.2.0")


def test_c33_version_11_refuses_the_switch_and_says_the_way(eleven: Library, model: Model) -> None:
    assert not eleven.weakly_typed
    with pytest.raises(UsageError) as caught:
        prepare(eleven, model, BuildOptions(backend="tensorrt", plan=FP16, strongly_typed=False))
    assert str(caught.value) == (
        "TensorRT 11.2.0 has no fp16 switch: its networks are strongly typed. "
        "Leave strongly_typed on: the ONNX is then rewritten to the types asked for"
    )


def test_c33_version_11_builds_a_typed_onnx_and_says_so(
    eleven: Library, model: Model, stub_driver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "load", lambda kind: eleven)
    prepared = prepare(eleven, model, BuildOptions(backend="tensorrt", plan=FP16))
    types = {value.dtype.name for node in prepared.realised.model.ir.graph for value in node.outputs if value.dtype}
    assert "FLOAT16" in types
    built = TensorRt().build(model, BuildOptions(backend="tensorrt", plan=FP16), lambda progress: None)
    assert built.facts["strongly_typed"] is True
    assert built.facts["lowered_nodes"] == 1
    assert any("the ONNX was rewritten to fp16" in str(note) for note in built.facts["notes"])  # type: ignore[union-attr]  # a list
