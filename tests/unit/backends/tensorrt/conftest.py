"""A CUDA driver without a GPU, compiled for the tests, and a TensorRT that computes with numpy."""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trt_lab.backends.tensorrt import device
from trt_lab.backends.tensorrt.device import Driver
from trt_lab.backends.tensorrt.run import EngineRunner
from trt_lab.backends.tensorrt.trust import remember
from trt_lab.backends.tensorrt.versions import Library
from trt_lab.types import BuildOptions, LayerInfo


@pytest.fixture(scope="session")
def stub_library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The compiled stub; the test is skipped where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler for the stub of the CUDA driver")
    target = tmp_path_factory.mktemp("cuda") / "libstubcuda.so"
    source = Path(__file__).with_name("stub_cuda.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-w", "-o", str(target), str(source)], check=True)
    library = ctypes.CDLL(str(target))
    library.stub_reset.argtypes = [ctypes.c_size_t]
    library.stub_limit.argtypes = [ctypes.c_size_t]
    library.stub_used.restype = ctypes.c_size_t
    return library


@pytest.fixture
def stub_driver(stub_library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Puts the stub in the place of the driver; gives the stub's own functions. 1,000,000 bytes of memory."""
    stub_library.stub_reset(1_000_000)
    driver = Driver(stub_library)
    monkeypatch.setattr(device, "driver", lambda: driver)
    yield stub_library


@pytest.fixture
def fake_library() -> Library:
    """A TensorRT 10.6 that computes with numpy; see fake_trt.py."""
    return _fake().library()


@pytest.fixture
def later_library() -> Library:
    """The same as 10.13: its timing cache can be edited."""
    return _fake().library("10.13.3", editable=True)


def _fake() -> Any:
    spec = importlib.util.spec_from_file_location("fake_trt", Path(__file__).with_name("fake_trt.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def layers() -> tuple[LayerInfo, ...]:
    """Of the engine that `runner` runs; two share a name."""
    return tuple(LayerInfo(i, name, "") for i, name in enumerate(("double", "copy", "copy")))


@pytest.fixture
def runner(stub_driver: Any, fake_library: Library, layers: tuple[LayerInfo, ...]) -> EngineRunner:
    """On an engine of TensorRT 10.6 that this machine knows."""
    engine = b"ftrt" + bytes(20) + bytes([10, 6, 0, 26]) + b"works"
    remember(engine)
    return EngineRunner(fake_library, engine, BuildOptions(), layers, name="e.plan")


@pytest.fixture(autouse=True)
def own_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashes of engines, timing caches and the engine cache go to a folder of the test."""
    monkeypatch.delenv("TRT_LAB_ENGINE_CACHE_MB", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
