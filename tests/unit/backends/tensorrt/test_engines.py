"""Engine cache: what is the very same thing, what is told, and what is never loaded."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from trt_lab.backends.base import Built
from trt_lab.backends.tensorrt import backend as module
from trt_lab.backends.tensorrt import trust
from trt_lab.backends.tensorrt.backend import TensorRt
from trt_lab.backends.tensorrt.build import prepare
from trt_lab.backends.tensorrt.engines import (
    LIMIT_VARIABLE,
    cache_key,
    clear_engines,
    describe_engines,
    engines_folder,
)
from trt_lab.backends.tensorrt.versions import Library
from trt_lab.edit.probe import add_probes
from trt_lab.errors import CancelledError, UsageError
from trt_lab.model import Model
from trt_lab.types import BuildOptions, NodeId, PrecisionPlan, Progress, ShapeRange, TensorId

Build = Callable[..., Built]


def make_model(factor: float = 2.0, name: str = "twice") -> Model:
    nodes = [
        helper.make_node("Mul", ["x", "w"], ["h"], name=name),
        helper.make_node("Relu", ["h"], ["y"], name="relu"),
    ]
    value = helper.make_tensor_value_info
    weights = [numpy_helper.from_array(np.array([factor], np.float32), "w")]
    graph = helper.make_graph(
        nodes, "small", [value("x", TensorProto.FLOAT, [2, 3])], [value("y", TensorProto.FLOAT, [2, 3])], weights
    )
    return Model.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9))


@pytest.fixture
def build(stub_driver: Any, fake_library: Library, monkeypatch: pytest.MonkeyPatch) -> Build:
    """Builds with the backend `tensorrt` on the fake library."""
    monkeypatch.setattr(module, "load", lambda kind: fake_library)

    def run(model: Model | None = None, **options: Any) -> Built:
        chosen = BuildOptions(backend="tensorrt", **options)
        return TensorRt().build(model if model is not None else make_model(), chosen, lambda progress: None)

    return run


def state(built: Built) -> str:
    return built.facts["engine_cache"]["state"]  # type: ignore[index, call-overload, return-value]  # a dict


def note(built: Built) -> str:
    return built.facts["engine_cache"]["note"]  # type: ignore[index, call-overload, return-value]  # a dict


def test_the_very_same_thing_is_built_once(build: Build, fake_library: Library) -> None:
    first, second = build(), build()
    assert [state(first), state(second)] == ["miss", "hit"]
    assert first.engine == second.engine
    assert first.layers == second.layers
    assert first.layers[0].nodes == ("twice",)
    assert fake_library.module.Builder.built == 1
    assert second.facts["engine_cache"]["built_s"] == first.build_s  # type: ignore[index, call-overload]  # a dict
    assert second.facts["sha256"] == first.facts["sha256"]
    assert second.facts["network_layers"] == 1
    said = [line.message for line in second.log]
    assert said[0].startswith("engine_cache: hit: built ")
    assert said[1:] == ["built engine 1"]
    assert [line.message for line in first.log] == ["engine_cache: miss", "built engine 1"]
    json.dumps(dict(second.facts), allow_nan=False)


@pytest.mark.parametrize(
    "change",
    [
        {"plan": PrecisionPlan("fp16")},
        {"plan": PrecisionPlan("fp16", (NodeId("relu"),))},
        {"tf32": True},
        {"builder_level": 1},
        {"workspace_bytes": 1024},
        {"log_severity": "verbose"},
    ],
)
def test_another_option_is_another_engine(build: Build, change: dict[str, Any]) -> None:
    build()
    assert state(build(**change)) == "miss"
    assert state(build(**change)) == "hit"
    assert state(build()) == "hit"


def test_what_the_engine_does_not_depend_on(build: Build) -> None:
    build()
    assert state(build(profile_runs=0)) == "hit"


def test_weights_names_and_probes_are_part_of_it(build: Build) -> None:
    build()
    probed = add_probes(make_model(), [TensorId("h")]).model
    for other in (make_model(3.0), make_model(name="double"), probed):
        assert state(build(other)) == "miss"
        assert state(build(other)) == "hit"


def test_the_key_has_gpu_version_and_shapes(fake_library: Library, later_library: Library) -> None:
    options = BuildOptions(backend="tensorrt")
    prepared = prepare(fake_library, make_model(), options)
    shapes = replace(options, shapes=(ShapeRange("x", (2, 3), (2, 3), (2, 3)),))
    keys = {
        cache_key(fake_library, prepared, options, "H200 SM90"),
        cache_key(fake_library, prepared, options, "L4 SM89"),
        cache_key(later_library, prepared, options, "H200 SM90"),
        cache_key(fake_library, prepared, shapes, "H200 SM90"),
    }
    assert len(keys) == 4
    again = prepare(fake_library, make_model(), options)
    assert cache_key(fake_library, again, options, "H200 SM90") in keys


def test_a_fresh_build_is_another_engine_and_is_kept(build: Build) -> None:
    first = build()
    fresh = build(engine_cache="fresh")
    assert fresh.engine != first.engine
    assert state(fresh) == "miss"
    assert note(fresh) == "a fresh build was asked for"
    assert build().engine == fresh.engine


def test_off_takes_none_and_keeps_none(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    assert state(build(engine_cache="off")) == "off"
    assert describe_engines()["engines"] == 0
    monkeypatch.setenv(LIMIT_VARIABLE, "0")
    built = build()
    assert (state(built), note(built)) == ("off", f"by {LIMIT_VARIABLE}")
    assert not list(engines_folder().glob("*.plan"))


@pytest.mark.parametrize("timing", ["off", "own.cache"])
def test_a_timing_cache_of_ones_own_turns_it_off(build: Build, tmp_path: Path, timing: str) -> None:
    build()
    built = build(timing_cache=timing if timing == "off" else str(tmp_path / timing))
    assert state(built) == "off"
    assert "the build itself is what is looked at" in note(built)


def test_an_engine_whose_hash_is_not_known_is_never_loaded(build: Build, fake_library: Library) -> None:
    first = build()
    trust.hashes_file().write_text("")
    again = build()
    assert state(again) == "miss"
    assert "did not record the hash" in note(again)
    assert again.engine != first.engine
    assert state(build()) == "hit"


@pytest.mark.parametrize("what", ["plan", "json", "cut", "no plan"])
def test_files_that_were_changed_are_built_anew(build: Build, what: str) -> None:
    first = build()
    (plan,), (about,) = engines_folder().glob("*.plan"), engines_folder().glob("*.json")
    if what == "plan":
        plan.write_bytes(first.engine[:-1] + b"X")  # type: ignore[index]  # there is an engine
    elif what == "json":
        about.write_text('{"sha256": 3}')
    elif what == "cut":
        about.write_bytes(about.read_bytes()[:50])
    else:
        plan.unlink()
    again = build()
    assert state(again) == "miss"
    assert again.engine != first.engine
    assert state(build()) == "hit"


def test_an_engine_that_cannot_be_loaded_any_more_is_built_anew(
    build: Build, fake_library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = build()
    load = fake_library.module.Runtime.deserialize_cuda_engine
    monkeypatch.setattr(
        fake_library.module.Runtime,
        "deserialize_cuda_engine",
        lambda self, data: None if data == first.engine else load(self, data),
    )
    again = build()
    assert state(again) == "miss"
    assert "cannot be loaded" in note(again)
    assert [line.message for line in again.log][1:] == ["built engine 2"]


def test_those_used_longest_ago_go_first(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trt_lab.backends.tensorrt.engines._MB", 1)
    models = [make_model(float(i)) for i in range(3)]
    for i, model in enumerate(models):
        build(model)
        newest = max(engines_folder().glob("*.json"), key=lambda file: file.stat().st_mtime_ns)
        os.utime(newest, (i + 1, i + 1))
    build(models[0])  # used again just now
    size = int(describe_engines()["bytes"])  # type: ignore[call-overload]  # a number
    monkeypatch.setenv(LIMIT_VARIABLE, str(size + 10))
    build(make_model(9.0))
    assert int(describe_engines()["bytes"]) <= size + 10  # type: ignore[call-overload]  # a number
    assert [state(build(models[0])), state(build(make_model(9.0)))] == ["hit", "hit"]
    assert state(build(models[1])) == "miss"


def test_an_engine_larger_than_the_limit_is_not_kept(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trt_lab.backends.tensorrt.engines._MB", 1)
    monkeypatch.setenv(LIMIT_VARIABLE, "8")
    assert "not kept" in note(build())
    assert describe_engines()["engines"] == 0


def test_clearing(build: Build) -> None:
    build()
    build(make_model(5.0))
    found = describe_engines()
    assert found["engines"] == 2
    assert found["folder"] == str(engines_folder())
    assert clear_engines() == 2
    assert clear_engines() == 0
    assert state(build()) == "miss"


def test_wrong_values(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="engine_cache 'yes' is not known; take one of on, fresh, off"):
        build(engine_cache="yes")
    monkeypatch.setenv(LIMIT_VARIABLE, "many")
    with pytest.raises(UsageError, match="TRT_LAB_ENGINE_CACHE_MB=many: give a number of MB"):
        build()
    found = describe_engines()
    assert found["limit_bytes"] is None
    assert "give a number of MB" in str(found["note"])


def test_cancelling_before_an_engine_is_taken(build: Build) -> None:
    build()

    def stop(progress: Progress) -> None:
        raise CancelledError("stop")

    with pytest.raises(CancelledError):
        TensorRt().build(make_model(), BuildOptions(backend="tensorrt"), stop)
    assert state(build()) == "hit"


def test_a_folder_that_cannot_be_used_costs_no_build(build: Build, tmp_path: Path) -> None:
    engines_folder().parent.mkdir(parents=True, exist_ok=True)
    engines_folder().write_text("a file stands in the way")
    built = build()
    assert state(built) == "off"
    assert "cannot be used: " in note(built)
    assert built.layers
    assert clear_engines() == 0


def test_a_disk_that_is_full_costs_no_build(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("trt_lab.backends.tensorrt.engines._write", full)
    assert note(build()) == "not kept: No space left on device"


def test_a_timing_cache_is_not_needed_for_an_engine_that_was_kept(build: Build) -> None:
    build()
    assert build().facts["timing_cache"]["note"] == "not needed: the engine was taken from the engine cache"  # type: ignore[index, call-overload]  # a dict
