"""Runner of an engine: buffers, sizes that depend on data, times; on a fake TensorRT and a stub of the driver."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trt_lab.backends.tensorrt.run import EngineRunner
from trt_lab.errors import InputError, RunError


def feeds(rows: int, value: float = 1.0) -> dict[str, np.ndarray]:
    return {"x": np.full((rows, 3), value, np.float32), "mask": np.ones(rows, np.bool_)}


def test_outputs_of_fixed_and_of_data_dependent_size(runner: EngineRunner) -> None:
    x = np.array([[1, 2, 0], [3, 0, 4]], np.float32)
    found = runner.run({"x": x, "mask": np.ones(2, np.bool_)})
    assert list(found) == ["y", "rows"]
    np.testing.assert_array_equal(found["y"], 2 * x)
    np.testing.assert_array_equal(found["rows"], [[0, 0, 1, 1], [0, 1, 0, 2]])
    assert found["rows"].dtype == np.int64


def test_c30_no_element_at_all(runner: EngineRunner) -> None:
    assert runner.run(feeds(2, 0.0))["rows"].shape == (2, 0)
    assert runner.run(feeds(2))["rows"].shape == (2, 6)
    assert runner.run(feeds(2, 0.0))["rows"].shape == (2, 0)


def test_buffers_grow_and_are_freed(runner: EngineRunner, stub_driver: Any) -> None:
    runner.run(feeds(1))
    small = stub_driver.stub_used()
    runner.run(feeds(4))
    assert stub_driver.stub_used() > small
    runner.run(feeds(1))
    runner.close()
    runner.close()
    assert stub_driver.stub_used() == 0
    with pytest.raises(RunError, match="closed"):
        runner.run(feeds(1))


def test_the_profile_is_chosen_by_shape(runner: EngineRunner) -> None:
    runner.run(feeds(4))
    assert runner.context.active_optimization_profile == 0
    runner.run(feeds(7))
    assert runner.context.active_optimization_profile == 1
    with pytest.raises(
        InputError, match=r"'x' is \(9, 3\), the engine takes \(1, 3\) to \(4, 3\) or \(5, 3\) to \(8, 3\)"
    ):
        runner.run(feeds(9))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"x": None}, "input 'x' is not given; the engine reads x, mask"),
        ({"z": np.zeros(1)}, "no input 'z'; it reads x, mask"),
        ({"x": np.zeros((2, 3))}, "input 'x' is float64, the engine reads float32"),
        ({"mask": np.zeros(2, np.int8)}, "input 'mask' is int8, the engine reads bool"),
    ],
)
def test_wrong_inputs(runner: EngineRunner, change: dict[str, Any], words: str) -> None:
    given = {k: v for k, v in {**feeds(2), **change}.items() if v is not None}
    with pytest.raises(InputError, match=words):
        runner.run(given)


def test_profile(runner: EngineRunner) -> None:
    found = runner.profile(feeds(2), 5)
    assert found.latency_ms == (0.25,) * 5
    assert [(t.index, t.name, t.average_ms) for t in found.times] == [
        (0, "double", 0.2),
        (1, "copy", 0.1),
        (2, "copy", pytest.approx(0.3)),
    ]
    assert all(len(t.runs_ms) == 5 for t in found.times)
    assert runner.context.enqueue_emits_profile is False


def test_failing_engine(runner: EngineRunner) -> None:
    runner.context.fail = True
    with pytest.raises(RunError, match=r"TensorRT 10\.6\.0 could not run the engine"):
        runner.run(feeds(2))


def test_out_of_memory_in_an_output_of_unknown_size(runner: EngineRunner, stub_driver: Any) -> None:
    runner.run(feeds(4, 0.0))
    stub_driver.stub_limit(60)
    with pytest.raises(RunError, match=r"out of GPU memory: 192 bytes asked for, \d+ of 60 free on Stub GPU"):
        runner.run(feeds(4))


def test_what_the_profiler_costs_is_kept(runner: EngineRunner) -> None:
    facts = runner.profile(feeds(2), 5).facts
    assert facts["enqueue_emits_profile"] is False
    assert facts["layer_sum_ms"] == pytest.approx(0.6)
    assert (facts["latency_ms"], facts["profiled_ms"], facts["overhead_ms"]) == (0.25, 0.25, 0.0)
    assert facts["line"] == ("layers sum to 0.6 ms; a run takes 0.25 ms without the profiler, 0.25 ms with it (+0 %)")
    assert runner.context.enqueue_emits_profile is False
