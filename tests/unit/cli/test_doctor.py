"""`trt-lab doctor`: what is used for GPU memory, what is kept where, and how it is cleared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trt_lab import backends
from trt_lab.backends.tensorrt import device
from trt_lab.backends.tensorrt.cache import default_folder
from trt_lab.backends.tensorrt.engines import engines_folder
from trt_lab.cli import main
from trt_lab.types import BackendInfo


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TRT_LAB_ENGINE_CACHE_MB", "100")
    monkeypatch.setenv("COLUMNS", "200")
    for folder, name, size in ((engines_folder(), "a.plan", 1_500_000), (engines_folder(), "a.json", 10)):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(bytes(size))
    default_folder().mkdir(parents=True)
    (default_folder() / "GPU.cache").write_bytes(bytes(300_000))


def doctor(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main.run(["doctor", *arguments])
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_places_and_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    said = doctor(capsys)
    assert f"timing caches: 1 files, 0.3 MB, in {default_folder()}" in said
    assert f"engine cache: 1 engines, 1.5 MB of at most 100.0 MB, in {engines_folder()}" in said


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    told = json.loads(doctor(capsys, "--json"))
    assert told["engine_cache"] == {
        "folder": str(engines_folder()),
        "engines": 1,
        "bytes": 1_500_010,
        "limit_bytes": 100_000_000,
        "note": "",
    }
    assert told["timing_caches"] == {"folder": str(default_folder()), "files": 1, "bytes": 300_000}
    assert told["engines_removed"] is None


def test_clearing(capsys: pytest.CaptureFixture[str]) -> None:
    assert "engine cache cleared: 1 engines removed" in doctor(capsys, "--clear-engine-cache")
    assert not list(engines_folder().glob("*.plan"))
    assert list(default_folder().iterdir()), "timing caches stay"
    told = json.loads(doctor(capsys, "--clear-engine-cache", "--json"))
    assert (told["engines_removed"], told["engine_cache"]["engines"]) == (0, 0)


def test_a_limit_without_meaning_is_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRT_LAB_ENGINE_CACHE_MB", "much")
    said = doctor(capsys)
    assert "engine cache: 1 engines, 1.5 MB, in" in said
    assert "TRT_LAB_ENGINE_CACHE_MB=much: give a number of MB" in said


def test_gpu_memory_is_that_of_the_driver(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "machine", lambda: device.Machine((), None, "no NVIDIA driver on this machine"))
    monkeypatch.setattr(device, "other_providers", lambda: ["cupy", "torch"])
    assert (
        "GPU memory: CUDA driver (libcuda), not here: no NVIDIA driver on this machine; cupy, torch installed as well, not used"
        in doctor(capsys)
    )
    memory = json.loads(doctor(capsys, "--json"))["gpu_memory"]
    assert memory["used"] == "CUDA driver (libcuda)"
    assert (memory["available"], memory["installed"]) == (False, ["cupy", "torch"])


def test_libraries_that_are_there_are_found_without_loading_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(name: str) -> Any:
        if name == "cuda.bindings":
            raise ModuleNotFoundError("No module named 'cuda'")
        return object() if name == "torch" else None

    monkeypatch.setattr("trt_lab.backends.tensorrt.device.importlib.util.find_spec", find)
    assert device.other_providers() == ["torch"]


def test_what_a_version_can_do_is_told_in_words(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    details = {"networks": "weakly and strongly typed", "tensors_inside": "probes", "editable_timing_cache": False}
    info = BackendInfo("tensorrt", "10.6.0", True, True, "", details)
    monkeypatch.setattr(backends, "infos", lambda: [info])
    said = doctor(capsys)
    assert "tensorrt: networks weakly and strongly typed" in said
    assert "tensorrt: editable timing cache: no" in said
