"""Sampler and sweep on an engine of TensorRT; on a fake TensorRT and a stub of the driver."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from onnx import TensorProto, helper

from trt_lab import backends
from trt_lab.backends.base import Built
from trt_lab.backends.jobs import execute
from trt_lab.backends.tensorrt.run import EngineRunner
from trt_lab.model import Model
from trt_lab.profiling.sampler import Sampler
from trt_lab.profiling.sweep import sweep
from trt_lab.types import BuildOptions, LayerInfo, ShapeRange


def model() -> Model:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 3])
    mask = helper.make_tensor_value_info("mask", TensorProto.BOOL, ["rows"])
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "z")]
    nodes = [
        helper.make_node("Add", ["x", "x"], ["y"], "twice"),
        helper.make_node("Cast", ["mask"], ["z"], "cast", to=1),
    ]
    graph = helper.make_graph(nodes, "g", [x, mask], outputs)
    return Model.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10))


def test_sampler_takes_layer_times_in_order(runner: EngineRunner) -> None:
    feeds = {"x": np.ones((2, 3), np.float32), "mask": np.ones(2, np.bool_)}
    with Sampler(runner, every=2, profile_every=2, label="e") as sampler:
        for _ in range(6):
            np.testing.assert_array_equal(sampler(feeds)["y"], 2 * feeds["x"])
        report = sampler.report()
    assert [(t.name, round(t.average_ms, 6)) for t in report.times] == [("double", 0.2), ("copy", 0.1), ("copy", 0.3)]
    assert report.timed == 3
    assert report.profiled == 1 and report.put_off == 2, "its warm-up costs more than these runs allow"


def test_sweep_goes_through_all_profiles_and_tells_what_lies_outside(
    runner: EngineRunner, layers: tuple[LayerInfo, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = SimpleNamespace(
        build=lambda model, options, tell: Built(layers, (), 0.1),
        open=lambda built: runner,
        info=lambda: SimpleNamespace(can_run=True, reason=""),
    )
    monkeypatch.setattr(backends, "get", lambda name: backend)
    profiles = [
        (ShapeRange("x", (a, 3), (b, 3), (b, 3)), ShapeRange("mask", (a,), (b,), (b,))) for a, b in ((1, 4), (5, 8))
    ]
    options = BuildOptions(backend="tensorrt", shapes=profiles[0], more_profiles=(profiles[1],))
    sizes = [{"x": f"{rows}x3", "mask": f"{rows}"} for rows in (4, 7, 9)]
    found = sweep(model(), options, execute, lambda _: None, sizes=sizes, repeats=6)
    rows = found.rows()
    assert [(row["profile"], row["position"], row["runs"]) for row in rows] == [
        (0, "optimum", 6), (1, "inside", 6), (None, "outside", None),
    ]  # fmt: skip
    assert [row["layer_sum_ms"] for row in rows] == [pytest.approx(0.6), pytest.approx(0.6), None]
    assert "the engine takes (1, 3) to (4, 3) or (5, 3) to (8, 3)" in rows[2]["flags"]
    assert rows[2]["flags"].endswith("outside of every optimisation profile")
    assert [[r.max for r in profile] for profile in found.proposal] == [[(7, 3), (7,)]]
