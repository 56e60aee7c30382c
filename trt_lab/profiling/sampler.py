"""Times an engine in production: every N-th run, in bounded memory, its own cost measured and held down."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any, Generic, Protocol, Self, TypeVar, cast, runtime_checkable

from trt_lab.backends.base import Profile
from trt_lab.errors import TrtLabError, UsageError
from trt_lab.profiling.histogram import Collecting, Histogram
from trt_lab.profiling.source import Engine
from trt_lab.types import LayerInfo, LayerTime

MAX_OVERHEAD = 0.05
"""Share of all time that layer profiles may take; beyond it they wait."""

_CALIBRATION_RUNS = 500

Feeds = TypeVar("Feeds")
Outputs = TypeVar("Outputs")


@runtime_checkable
class _Profiled(Protocol):
    """What of `backends.base.Runner` is used."""

    def run(self, feeds: Any) -> Any: ...
    def profile(self, feeds: Any, repeats: int) -> Profile: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class Sampled:
    """What a sampler saw.

    Attributes:
        runs: All runs. failed: Those that raised; they are not timed. timed: Those whose latency was taken.
        profiled: How often layer times were taken. put_off: How often not, to hold the overhead down.
        latency: Of the timed runs, in ms.
        recent_ms: The newest latencies, oldest first.
        times: Layer times, `runs_ms` the newest ones.
        layers: Layer → all its times.
        overhead_ms: What the sampler itself took, all runs together.
        overhead_share: Of all time spent in runs and sampler; None before the first timed run.
        notes: What did not work.
    """

    label: str
    runs: int
    failed: int
    timed: int
    profiled: int
    put_off: int
    latency: Histogram
    recent_ms: tuple[float, ...]
    times: tuple[LayerTime, ...]
    layers: Mapping[str, Histogram]
    overhead_ms: float
    overhead_share: float | None
    notes: tuple[str, ...] = ()

    @property
    def headline(self) -> str:
        """In one line."""
        if self.overhead_share is None:
            return f"{self.label}: {self.runs} runs, none timed yet"
        middle, late = self.latency.quantile_ms(0.5), self.latency.quantile_ms(0.99)
        return (
            f"{self.label}: {self.runs} runs, {self.timed} timed: median {middle:.3g} ms, 99 % within {late:.3g} ms; "
            f"layers profiled {self.profiled} times; overhead {100 * self.overhead_share:.2g} %"
        )

    def engine(self, layers: Sequence[LayerInfo] = ()) -> Engine:
        """The same as an engine: for comparison, a baseline, a trace. `layers` are those that it was built of."""
        facts = {"runs": self.runs, "overhead_share": self.overhead_share}
        return Engine(self.label, None, "times", None, tuple(layers), self.times, self.recent_ms, (), facts)


class Sampler(Generic[Feeds, Outputs]):
    """Calls an engine as before, and times every N-th run of it.

    A run that is not sampled costs a counter. A layer profile is an extra run beside the one that answers; it is put
    off while all profiles together took more than `max_overhead` of the time. What goes wrong in it is a note in the
    report and never reaches the caller. Thread-safe; the runs of a `Runner` are made one at a time, since an engine
    has one context.

    Args:
        target: A `Runner` (of `trt_lab.backends`), or any function from feeds to outputs.
        every: Times each such run: 100 is one in a hundred. The first run, which warms up, is timed only with 1.
        profile_every: Takes layer times at each such run as well, 0 never; by default each tenth timed run of a
            runner. A function tells no layers.
        label: Name in reports and metrics.
        recent: How many of the newest times are kept, of the latency and of each layer.
        max_overhead: See above; a share from 0 to 1.

    Raises:
        UsageError: A number out of range, or layer times of a function.

    Example:
        >>> sampler = Sampler(lambda feeds: feeds, every=2)
        >>> for number in range(4):
        ...     outputs = sampler({"x": number})
        >>> report = sampler.report()
        >>> report.runs, report.timed
        (4, 2)
    """

    def __init__(
        self,
        target: Callable[[Feeds], Outputs] | _Profiled,
        *,
        every: int = 100,
        profile_every: int | None = None,
        label: str = "model",
        recent: int = 1024,
        max_overhead: float = MAX_OVERHEAD,
    ) -> None:
        self._runner = target if isinstance(target, _Profiled) else None
        if every < 1 or recent < 1 or (profile_every or 0) < 0 or not 0 <= max_overhead <= 1:
            raise UsageError(
                f"every={every}, profile_every={profile_every}, recent={recent}, max_overhead={max_overhead}: give every "
                "and recent from 1 on, profile_every from 0 on, max_overhead from 0 to 1"
            )
        if profile_every and self._runner is None:
            raise UsageError("a function tells no layer times; give a runner, or leave profile_every out")
        run = self._runner.run if self._runner is not None else target
        self._run = cast("Callable[[Feeds], Outputs]", run)
        self._every = every
        self._profile_every = (10 * every if self._runner else 0) if profile_every is None else profile_every
        self.label = label
        self._recent_count = recent
        self._max_overhead = max_overhead
        self._lock = threading.Lock()
        self._one_at_a_time = threading.Lock() if self._runner is not None else None
        self._runs = self._failed = self._profiled = self._put_off = 0
        self._latency = Collecting()
        self._recent: deque[float] = deque(maxlen=recent)
        self._layers: dict[int, Collecting] = {}
        self._layer_runs: dict[int, deque[float]] = {}
        self._newest: dict[int, LayerTime] = {}
        self._overhead_ns = self._last_profile_ns = 0
        self._notes: dict[str, None] = {}
        self._idle_ns = self._calibrate()

    def __call__(self, feeds: Feeds) -> Outputs:
        """Runs the target; what it raises is raised."""
        with self._lock:
            self._runs += 1
            number = self._runs
        try:
            if number % self._every and not (self._profile_every and number % self._profile_every == 0):
                return self._answer(feeds)
            return self._timed(feeds, number)
        except BaseException:
            with self._lock:
                self._failed += 1
            raise

    run = __call__
    """Lets a sampler stand where a runner stood."""

    def report(self) -> Sampled:
        """What was seen so far; may be called at any time, from any thread."""
        with self._lock:
            latency = self._latency.snapshot()
            spent = self._overhead_ns + self._idle_ns * (self._runs - latency.count)
            total = self._run_ns(latency) + spent
            names = self._names()
            return Sampled(
                self.label, self._runs, self._failed, latency.count, self._profiled, self._put_off, latency,
                tuple(self._recent), tuple(self._time(index) for index in sorted(self._newest)),
                {names[index]: found.snapshot() for index, found in sorted(self._layers.items())},
                spent / 1e6, spent / total if latency.count and total else None, tuple(self._notes),
            )  # fmt: skip

    def close(self) -> None:
        """Closes the runner; a function is left alone."""
        if self._runner is not None:
            self._runner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- inside ----------------------------------------------------------------------------

    def _answer(self, feeds: Feeds) -> Outputs:
        if self._one_at_a_time is None:
            return self._run(feeds)
        with self._one_at_a_time:
            return self._run(feeds)

    def _timed(self, feeds: Feeds, number: int) -> Outputs:
        entered = time.perf_counter_ns()
        if self._one_at_a_time is not None:
            self._one_at_a_time.acquire()  # waiting for another run is no latency of this one
        try:
            started = time.perf_counter_ns()
            outputs = self._run(feeds)
            ended = time.perf_counter_ns()
            profile = self._profile(feeds, number)
        finally:
            if self._one_at_a_time is not None:
                self._one_at_a_time.release()
        with self._lock:
            self._latency.add((ended - started) / 1e6)
            self._recent.append((ended - started) / 1e6)
            if profile is not None:
                self._keep(profile)
            waited = started - entered if self._one_at_a_time is not None else 0
            self._overhead_ns += time.perf_counter_ns() - entered - (ended - started) - waited
        return outputs

    def _profile(self, feeds: Feeds, number: int) -> Profile | None:
        if self._runner is None or not self._profile_every or number % self._profile_every:
            return None
        with self._lock:
            run_ns = self._run_ns(self._latency.snapshot())
            if self._profiled and self._overhead_ns + self._last_profile_ns > self._max_overhead * run_ns:
                self._put_off += 1
                return None
        started = time.perf_counter_ns()
        try:
            return self._runner.profile(feeds, 1)
        except Exception as error:  # noqa: BLE001 (the answer is there; how long its layers took is not worth losing it)
            why = str(error) if isinstance(error, TrtLabError) else f"{type(error).__name__}: {error}"
            with self._lock:
                self._profile_every = 0
                self._notes[f"layer times were given up: {why}"] = None
            return None
        finally:
            self._last_profile_ns = time.perf_counter_ns() - started

    def _run_ns(self, latency: Histogram) -> float:
        """Time spent in all runs, those that were not timed taken for average ones."""
        return (latency.mean_ms or 0.0) * 1e6 * (self._runs - self._failed)

    def _keep(self, profile: Profile) -> None:
        self._profiled += 1
        for layer in profile.times:
            self._newest[layer.index] = layer
            found = self._layers.setdefault(layer.index, Collecting())
            runs = self._layer_runs.setdefault(layer.index, deque(maxlen=self._recent_count))
            for ms in layer.runs_ms or (layer.average_ms,):
                found.add(ms)
                runs.append(ms)

    def _time(self, index: int) -> LayerTime:
        runs, newest = self._layer_runs[index], self._newest[index]
        return LayerTime(index, newest.name, fmean(runs), median(runs), tuple(runs), newest.start_ms)

    def _names(self) -> dict[int, str]:
        """Layer → its name, numbered where several share one."""
        seen: dict[str, int] = {}
        names = {}
        for index in sorted(self._newest):
            name = self._newest[index].name
            seen[name] = seen.get(name, 0) + 1
            names[index] = name if seen[name] == 1 else f"{name} #{seen[name]}"
        return names

    def _calibrate(self) -> int:
        """What a run that is not timed costs, in ns: the way through the counter and the lock, around nothing."""
        kept = self._run, self._every, self._profile_every
        self._run = cast("Callable[[Feeds], Outputs]", _nothing)
        self._every, self._profile_every = _CALIBRATION_RUNS + 1, 0
        started = time.perf_counter_ns()
        for _ in range(_CALIBRATION_RUNS):
            self(cast("Feeds", None))
        spent = time.perf_counter_ns() - started
        self._run, self._every, self._profile_every = kept
        self._runs = 0
        return spent // _CALIBRATION_RUNS


def _nothing(feeds: object) -> object:
    return feeds
