"""Engine cache and edited timing caches on a GPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.gpu import models
from tests.gpu.conftest import Lab
from trt_lab import backends
from trt_lab.backends.jobs import Task
from trt_lab.backends.tensorrt.tactics import TimingCacheEdit, edit_in_worker, read_autotuning
from trt_lab.types import BuildOptions

pytestmark = pytest.mark.gpu

FEEDS = [{"x": np.random.default_rng(0).standard_normal((64, 256)).astype(np.float32)}]


def options(**more: object) -> BuildOptions:
    return BuildOptions(backend="tensorrt", **more)  # type: ignore[arg-type]  # fields by name


def test_the_very_same_engine_is_taken(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TRT_LAB_ENGINE_CACHE_MB", "500")
    own = Lab(tmp_path / "own")  # its process starts with these variables
    try:
        made, taken, fresh = (
            own.run(models.matmul(), options(profile_runs=5, engine_cache=mode), FEEDS)
            for mode in ("on", "on", "fresh")
        )
    finally:
        own.worker.close()
    states = [engine.outcome.facts["engine_cache"]["state"] for engine in (made, taken, fresh)]  # type: ignore[index, call-overload]  # a dict
    assert states == ["miss", "hit", "miss"]
    assert taken.outcome.facts["sha256"] == made.outcome.facts["sha256"]
    assert taken.outcome.build_s < made.outcome.build_s
    assert taken.outcome.layers == made.outcome.layers
    np.testing.assert_array_equal(taken.outputs[0]["y"], made.outputs[0]["y"])


def test_what_the_profiler_costs(lab: Lab) -> None:
    engine = lab.run(models.matmul(), options(profile_runs=20, timing_cache="off"), FEEDS)
    facts = engine.outcome.facts["profiler"]
    assert isinstance(facts, dict)
    print(facts["line"])
    assert facts["enqueue_emits_profile"] is False
    assert facts["latency_ms"] == pytest.approx(float(np.median(engine.outcome.latency_ms)))
    assert facts["profiled_ms"] > 0  # type: ignore[operator]  # a number


def test_a_forbidden_tactic_is_not_taken(lab: Lab, tmp_path: Path) -> None:
    info = backends.get("tensorrt").info()
    if not info.details["editable_timing_cache"]:
        pytest.skip(f"TensorRT {info.version} has no editable timing cache")
    file = tmp_path / "t.cache"
    chosen = options(editable_timing_cache=True, log_severity="verbose", timing_cache=str(file), profile_runs=0)
    before = lab.run(models.matmul(), chosen, FEEDS)
    timed = read_autotuning(before.outcome.log)
    several = [operation for operation in timed if len({t.tactic for t in operation.tactics}) > 1 and operation.chosen]
    assert several, "the log holds no table of timed tactics"
    edit = TimingCacheEdit(str(file), forbid=(int(several[0].chosen or 0),), timed=timed)
    task = Task(edit_in_worker, edit, "matmul.onnx", str(tmp_path / "out"), "tensorrt")
    changed = lab.worker.submit(task).result(200)
    assert [c.before for c in changed if c.key == several[0].key] == [several[0].chosen]
    after = lab.run(models.matmul(), chosen, FEEDS)
    assert [layer.tactic for layer in after.outcome.layers] != [layer.tactic for layer in before.outcome.layers]
    np.testing.assert_allclose(after.outputs[0]["y"], before.outputs[0]["y"], atol=1e-3)
