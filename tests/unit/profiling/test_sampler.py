from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trt_lab import backends, zoo
from trt_lab.backends.base import Profile
from trt_lab.errors import RunError, UsageError
from trt_lab.profiling import sampler as sampler_module
from trt_lab.profiling.histogram import Collecting, bound_ms
from trt_lab.profiling.sampler import Sampler
from trt_lab.profiling.traces.chrome import chrome_trace
from trt_lab.types import BuildOptions, LayerTime


class Runner:
    """Takes a known time, and notes if two threads are in it at once."""

    def __init__(self, run_s: float = 0.0, profile_s: float = 0.0, error: Exception | None = None) -> None:
        self.run_s, self.profile_s, self.error = run_s, profile_s, error
        self.inside = self.crossed = self.profiles = 0
        self.closed = False

    def run(self, feeds: dict[str, Any]) -> dict[str, Any]:
        self.inside += 1
        self.crossed += self.inside > 1
        spin(self.run_s)
        self.inside -= 1
        return feeds

    def profile(self, feeds: Any, repeats: int) -> Profile:
        self.inside += 1
        self.crossed += self.inside > 1
        self.profiles += 1
        spin(self.profile_s)
        self.inside -= 1
        if self.error is not None:
            raise self.error
        a = LayerTime(0, "copy", 0.1 * self.profiles, None, (0.1 * self.profiles,))
        return Profile((a, LayerTime(1, "copy", 0.3, None)), ())

    def close(self) -> None:
        self.closed = True


class Clock:
    """Goes on by 100 ns whenever it is read, and by what `spin` says."""

    now = 0

    def perf_counter_ns(self) -> int:
        self.now += 100
        return self.now


CLOCK = Clock()


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times that do not depend on what else the machine does."""
    monkeypatch.setattr(sampler_module, "time", CLOCK)


def spin(seconds: float) -> None:
    CLOCK.now += round(seconds * 1e9)


def test_every_nth_run_is_timed_and_answers_pass_through() -> None:
    sampler = Sampler(lambda feeds: feeds["x"] + 1, every=3)
    assert [sampler({"x": i}) for i in range(10)] == list(range(1, 11))
    report = sampler.report()
    assert (report.runs, report.timed, report.profiled, report.failed) == (10, 3, 0, 0)
    assert report.latency.count == len(report.recent_ms) == 3
    assert report.times == () and report.engine().latency_ms == report.recent_ms


def test_nothing_is_claimed_before_the_first_timed_run() -> None:
    sampler = Sampler(lambda feeds: feeds, every=5)
    sampler(1)
    report = sampler.report()
    assert report.overhead_share is None and report.latency.quantile_ms(0.5) is None
    assert report.headline == "model: 1 runs, none timed yet"


def test_latency_and_overhead_are_what_they_are() -> None:
    sampler = Sampler(lambda feeds: spin(0.002), every=2, label="m")
    for _ in range(20):
        sampler(None)
    report = sampler.report()
    assert report.recent_ms == pytest.approx((2.0001,) * 10)
    assert report.latency.quantile_ms(0.5) == pytest.approx(2.0001)
    # a timed run reads the clock four times, which leaves 200 ns outside of the run; others were calibrated at none
    assert report.overhead_ms == pytest.approx(10 * 200e-6)
    assert report.overhead_share == pytest.approx(10 * 200 / (20 * 2_000_100 + 10 * 200))
    assert report.headline == (
        "m: 20 runs, 10 timed: median 2 ms, 99 % within 2 ms; layers profiled 0 times; overhead 0.005 %"
    )


def test_runs_that_fail_are_raised_and_not_timed() -> None:
    def target(feeds: int) -> int:
        if feeds % 2:
            raise ValueError("odd")
        return feeds

    sampler = Sampler(target, every=1)
    for i in range(6):
        if i % 2:
            with pytest.raises(ValueError, match="odd"):
                sampler(i)
        else:
            sampler(i)
    assert (sampler.report().runs, sampler.report().failed, sampler.report().timed) == (6, 3, 3)


def test_threads_lose_no_run_and_an_engine_sees_one_at_a_time() -> None:
    runner = Runner(run_s=1e-5)
    sampler = Sampler(runner, every=7, profile_every=50, max_overhead=1.0)
    threads = [threading.Thread(target=lambda: [sampler({}) for _ in range(150)]) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    report = sampler.report()
    timed = {n for n in range(1, 901) if n % 7 == 0 or n % 50 == 0}
    assert (report.runs, report.timed) == (900, len(timed))
    assert report.profiled + report.put_off == 18 and report.profiled == runner.profiles
    assert runner.crossed == 0


def test_layer_times_keep_their_order_and_memory_stays_bounded() -> None:
    sampler = Sampler(Runner(), every=1, profile_every=1, recent=4, max_overhead=1.0)
    sampler._max_overhead = 1e9  # runs of no length: any profile is too dear
    for _ in range(30):
        sampler({})
    report = sampler.report()
    assert [(t.name, t.index, len(t.runs_ms)) for t in report.times] == [("copy", 0, 4), ("copy", 1, 4)]
    assert report.times[0].runs_ms == pytest.approx((2.7, 2.8, 2.9, 3.0))
    assert {name: h.count for name, h in report.layers.items()} == {"copy": 30, "copy #2": 30}
    assert len(report.recent_ms) == 4 and report.latency.count == 30


def test_profiles_wait_while_they_cost_too_much() -> None:
    runner = Runner(run_s=0.0005, profile_s=0.005)
    sampler = Sampler(runner, every=1, profile_every=5, max_overhead=0.05)
    for _ in range(100):
        sampler({})
    report = sampler.report()
    assert (report.profiled, report.put_off) == (1, 19)  # 5 ms in 50 ms: the second waits until 10 ms are a twentieth
    for _ in range(310):
        sampler({})
    report = sampler.report()
    assert report.profiled == 2
    assert report.overhead_share is not None and 0.04 < report.overhead_share < 0.05


def test_a_profile_that_fails_never_reaches_the_caller() -> None:
    runner = Runner(error=RunError("no counters on this GPU"))
    sampler = Sampler(runner, every=1, profile_every=1)
    assert sampler({"x": 1}) == {"x": 1}
    assert sampler({"x": 2}) == {"x": 2}
    report = sampler.report()
    assert report.notes == ("layer times were given up: no counters on this GPU",)
    assert runner.profiles == 1 and report.timed == 2
    with sampler:
        pass
    assert runner.closed
    foreign = Sampler(Runner(error=MemoryError("out of it")), every=1, profile_every=1)
    assert foreign({"x": 1}) == {"x": 1}
    assert foreign.report().notes == ("layer times were given up: MemoryError: out of it",)
    assert foreign.report().failed == 0


@pytest.mark.parametrize(
    "options", [{"every": 0}, {"recent": 0}, {"profile_every": -1}, {"max_overhead": 2.0}, {"profile_every": 3}]
)
def test_senseless_numbers_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Sampler(lambda feeds: feeds, **options)


@given(st.lists(st.floats(0.002, 1e5), min_size=1, max_size=200), st.floats(0, 1))
def test_quantiles_are_right_to_nine_percent(values: list[float], share: float) -> None:
    collecting = Collecting()
    for value in values:
        collecting.add(value)
    histogram = collecting.snapshot()
    exact = sorted(values)[max(0, int(np.ceil(share * len(values))) - 1)]
    found = histogram.quantile_ms(share)
    assert found is not None and exact * 0.999 <= found <= exact * 2 ** (1 / 8) * 1.001
    assert histogram.min_ms == min(values) and histogram.max_ms == max(values)
    steps = histogram.up_to(2)
    assert steps[-1][1] == len(values) and len(steps) == 15
    for end, count in steps:
        assert sum(v <= end * 0.9999 for v in values) <= count <= sum(v <= end * 1.0001 for v in values)


def test_buckets_are_bounded_whatever_comes() -> None:
    collecting = Collecting()
    for value in (0.0, 1e-9, 1e12, 1.0):
        collecting.add(value)
    assert sorted(collecting.snapshot().counts) == [0, 79, 239]
    assert bound_ms(79) == pytest.approx(1.024) and bound_ms(71) < 1.0


def test_onnxruntime_in_production() -> None:
    known = zoo.get("l2norm_overflow")
    backend = backends.get("onnxruntime")
    built = backend.build(known.model, BuildOptions(profile_runs=0), lambda _: None)
    with Sampler(backend.open(built), every=4, profile_every=8, label="l2norm", max_overhead=1.0) as sampler:
        for _ in range(16):
            outputs = sampler(known.feeds[0])
        report = sampler.report()
    assert set(outputs) and (report.runs, report.timed) == (16, 4)
    assert report.profiled >= 1
    names = {layer.name for layer in built.layers}
    assert report.times and {t.name for t in report.times} <= names
    engine = report.engine(built.layers)
    assert engine.layer_sum_ms and len(chrome_trace([engine])["traceEvents"]) > len(report.times)  # type: ignore[arg-type]
