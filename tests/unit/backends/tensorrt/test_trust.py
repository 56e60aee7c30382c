"""Engine files that may be loaded, and those that cannot be read (C44)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trt_lab.backends.tensorrt.backend import open_engine
from trt_lab.backends.tensorrt.run import EngineRunner
from trt_lab.backends.tensorrt.trust import check_engine, engine_version, is_known, remember
from trt_lab.backends.tensorrt.versions import Library, loaded_libraries
from trt_lab.errors import RunError
from trt_lab.types import BuildOptions


def engine(version: tuple[int, int, int, int] = (10, 6, 0, 26), tail: bytes = b"works") -> bytes:
    return b"ftrt" + bytes(20) + bytes(version) + tail


def refusal(data: bytes, *, trust: bool = True) -> str:
    with pytest.raises(RunError) as caught:
        check_engine(data, name="e.plan", trust=trust)
    return str(caught.value)


def test_c44_not_an_engine() -> None:
    assert "e.plan: the file is empty" in refusal(b"")
    assert "not an engine: it starts with b'# readme'" in refusal(b"# readme of the model")
    assert "cut after 10 bytes, within its header" in refusal(engine()[:10])
    assert "ONNX Runtime's TensorRT provider" in refusal(b"")


def test_c44_versions_are_read_from_the_header() -> None:
    assert engine_version(engine((10, 3, 0, 26))) == "10.3.0.26"
    assert engine_version(b"vtrt" + bytes(16) + bytes([1, 7, 1, 116]) + bytes(40)) == "1.7.1.116"
    assert engine_version(b"text" * 20) is None


def test_an_engine_of_another_machine_is_not_loaded() -> None:
    assert "this machine did not build this engine" in refusal(engine(), trust=False)
    check_engine(engine(), name="e.plan", trust=True)
    digest = remember(engine())
    assert len(digest) == 64
    assert is_known(engine())
    assert not is_known(engine(tail=b"works too"))
    check_engine(engine(), name="e.plan", trust=False)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (engine((8, 6, 1, 6), b"Version tag does not match"), "engine of TensorRT 8.6.1.6; here 10.6.0"),
        (
            engine(tail=b"Target GPU SM 86 is not compatible with SM 90 compute"),
            "another GPU than this Stub GPU (SM90)",
        ),
        (engine(tail=b"Serialization assertion failed"), "(58 bytes) is cut or damaged"),
    ],
)
def test_c44_the_loader_returns_nothing(stub_driver: Any, fake_library: Library, data: bytes, words: str) -> None:
    with pytest.raises(RunError) as caught:
        EngineRunner(fake_library, data, BuildOptions(), name="e.plan", trust=True)
    assert words in str(caught.value)
    assert "TensorRT said: " in str(caught.value)
    assert data[28:].decode() in str(caught.value)


def test_c44_clashing_versions_list_the_libraries_of_the_process(
    stub_driver: Any, fake_library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["libnvinfer.so.10", "libnvonnxparser.so.8"]
    monkeypatch.setattr("trt_lab.backends.tensorrt.trust.loaded_libraries", lambda: names)
    with pytest.raises(RunError, match=r"here 10\.6\.0 \(loaded: libnvinfer\.so\.10, libnvonnxparser\.so\.8\)"):
        EngineRunner(fake_library, engine((8, 6, 1, 6), b"tag"), BuildOptions(), name="e.plan", trust=True)


def test_libraries_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    maps = (
        "7f00-7f01 r-xp 0 fe:00 1 /opt/a b/libnvinfer.so.10.6.0\n7f02-7f03 r-xp 0 fe:00 1 /opt/a b/libnvinfer.so.10.6.0\n"
        "7f04-7f05 r-xp 0 fe:00 2 /usr/lib/libc.so.6\n7f06-7f07 r-xp 0 fe:00 3 /x/libtensorrt_rtx.so.1\n7f08 rw-p [heap]\n"
    )
    monkeypatch.setattr("trt_lab.backends.tensorrt.versions.Path.read_text", lambda self, **options: maps)
    assert loaded_libraries() == ["libnvinfer.so.10.6.0", "libtensorrt_rtx.so.1"]


def test_c44_files(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"none\.plan cannot be read: No such file"):
        open_engine(tmp_path / "none.plan")
    (tmp_path / "text.plan").write_text("hello, I am a text")
    with pytest.raises(RunError, match=r"text\.plan: not an engine"):
        open_engine(tmp_path / "text.plan", trust=True)
