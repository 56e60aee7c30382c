"""ONNX Runtime's profile as layer times."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trt_lab.backends.base import describe_profiler
from trt_lab.backends.onnxruntime.profile import read_profile
from trt_lab.types import LayerInfo, LayerTime


def event(cat: str, name: str, start: int, duration: int, op: str = "") -> dict[str, object]:
    return {"cat": cat, "name": name, "ts": start, "dur": duration, "ph": "X", "args": {"op_name": op} if op else {}}


def layers(*names_and_types: tuple[str, str]) -> list[LayerInfo]:
    return [LayerInfo(index, name, kind) for index, (name, kind) in enumerate(names_and_types)]


def write(path: Path, events: list[dict[str, object]]) -> Path:
    path.write_text(json.dumps(events))
    return path


def test_only_the_last_runs_count(tmp_path: Path) -> None:
    events = []
    for number, duration in enumerate([900, 10, 30]):
        start = 1000 * number
        events.append(event("Session", "model_run", start, 999))
        events.append(event("Node", "a_kernel_time", start + 5, duration, "Add"))
    (time,) = read_profile(write(tmp_path / "p", events), layers(("a", "Add")), ["a"], 2)
    assert time.runs_ms == (0.01, 0.03)
    assert (time.average_ms, time.median_ms, time.start_ms) == (0.02, 0.02, 0.005)


def test_a_container_is_charged_for_itself_only(tmp_path: Path) -> None:
    events = [
        event("Session", "model_run", 0, 200),
        event("Node", "if0_kernel_time", 10, 100, "If"),
        event("Node", "inner_kernel_time", 20, 30, "Neg"),
        event("Node", "inner2_kernel_time", 60, 20, "Neg"),
        event("Node", "after_kernel_time", 120, 5, "Neg"),
    ]
    names = [("if0", "If"), ("inner", "Neg"), ("inner2", "Neg"), ("after", "Neg")]
    times = read_profile(write(tmp_path / "p", events), layers(*names), [name for name, _ in names], 1)
    assert [time.average_ms for time in times] == [0.05, 0.03, 0.02, 0.005]
    assert sum(time.average_ms for time in times) == pytest.approx(0.105)


def test_equal_and_missing_names_are_joined_in_order(tmp_path: Path) -> None:
    events = [
        event("Session", "model_run", 0, 200),
        event("Node", "copy_kernel_time", 1, 1, "Reorder"),
        event("Node", "Relu_7_kernel_time", 3, 2, "Relu"),
        event("Node", "copy_kernel_time", 10, 3, "Reorder"),
        event("Node", "Relu_2_kernel_time", 20, 4, "Relu"),
        event("Node", "stranger_kernel_time", 30, 9, "Other"),
    ]
    found = layers(("copy", "Reorder"), ("Relu_1", "Relu"), ("copy", "Reorder"), ("Relu_3", "Relu"))
    times = read_profile(write(tmp_path / "p", events), found, ["copy", "", "copy", ""], 1)
    assert [time.average_ms for time in times] == [0.001, 0.002, 0.003, 0.004]


def test_the_body_of_a_loop_is_summed_and_what_did_not_run_is_left_out(tmp_path: Path) -> None:
    events = [event("Session", "model_run", 0, 200)]
    events += [event("Node", "body_kernel_time", 10 * n, 2, "Add") for n in range(1, 6)]
    times = read_profile(write(tmp_path / "p", events), layers(("body", "Add"), ("other", "Neg")), ["body", "other"], 1)
    assert [(time.index, time.average_ms, time.start_ms) for time in times] == [(0, 0.01, 0.01)]


def test_what_the_profiler_costs() -> None:
    times = (LayerTime(0, "a", 0.3, 0.3), LayerTime(1, "b", 0.02, 0.02))
    facts = describe_profiler((0.277, 0.25, 0.3), (0.4, 0.35, 0.36), times)
    assert facts["layer_sum_ms"] == pytest.approx(0.32)
    assert (facts["latency_ms"], facts["profiled_ms"]) == (0.277, 0.36)
    assert facts["overhead_ms"] == pytest.approx(0.083)
    assert facts["line"] == "layers sum to 0.32 ms; a run takes 0.277 ms without the profiler, 0.36 ms with it (+30 %)"
    assert describe_profiler((), (), times) == {}
    assert describe_profiler((0.0,), (0.0,), ())["overhead_ms"] == 0.0
