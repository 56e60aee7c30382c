"""What every backend offers. Backends do not inherit from each other; shared checks are functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Protocol

import numpy as np

from trt_lab.model import Model
from trt_lab.types import BackendInfo, BuildOptions, JsonValue, LayerInfo, LayerTime, LogLine, OnProgress

Feeds = Mapping[str, np.ndarray]
"""Input name → array."""


@dataclass(frozen=True)
class Built:
    """What `Backend.build` made.

    Attributes:
        layers: In the engine's own order, `nodes` filled as far as it is known.
        log: What the backend said while building.
        build_s: Seconds of the build alone.
        facts: What the record should keep (version, device, cache use, types, notes); JSON values.
        engine: Serialized engine, or None when the backend has none.
        handle: Live object for `open`; never leaves the process.
    """

    layers: tuple[LayerInfo, ...]
    log: tuple[LogLine, ...]
    build_s: float
    facts: Mapping[str, JsonValue] = field(default_factory=dict)
    engine: bytes | None = None
    handle: Any = None


@dataclass(frozen=True)
class Profile:
    """Layer times of some runs, and end-to-end latency of runs without the profiler, in ms.

    Attributes:
        facts: What the record keeps of the measuring itself, see `describe_profiler`; empty where nothing is known.
    """

    times: tuple[LayerTime, ...]
    latency_ms: tuple[float, ...]
    facts: Mapping[str, JsonValue] = field(default_factory=dict)


def describe_profiler(
    latency_ms: Sequence[float], profiled_ms: Sequence[float], times: Sequence[LayerTime]
) -> dict[str, JsonValue]:
    """What the profiler costs: the sum of layers and the latency are two numbers, and neither is the other.

    Args:
        latency_ms: End to end, profiler off.
        profiled_ms: End to end, profiler on.
        times: Of the layers, profiler on.

    Returns:
        `layer_sum_ms` (of the averages), `latency_ms` and `profiled_ms` (medians), `overhead_ms` (of a run, negative
        where noise is larger than the cost), and `line`, all that in words. Empty without runs.
    """
    if not latency_ms or not profiled_ms:
        return {}
    off, on = median(latency_ms), median(profiled_ms)
    layers = sum(time.average_ms for time in times)
    share = f" ({100 * (on - off) / off:+.0f} %)" if off > 0 else ""
    return {
        "layer_sum_ms": round(layers, 6),
        "latency_ms": round(off, 6),
        "profiled_ms": round(on, 6),
        "overhead_ms": round(on - off, 6),
        "line": f"layers sum to {layers:.4g} ms; a run takes {off:.4g} ms without the profiler, {on:.4g} ms with it{share}",
    }


class Runner(Protocol):
    """A live engine."""

    def run(self, feeds: Feeds) -> dict[str, np.ndarray]:
        """Outputs by name, in the engine's order. Raises RunError, InputError."""
        ...

    def profile(self, feeds: Feeds, repeats: int) -> Profile:
        """Layer times and latency over `repeats` runs after warm-up."""
        ...

    def close(self) -> None:
        """Frees the engine. Safe to call twice."""
        ...


class Backend(Protocol):
    """Builds engines of one kind."""

    name: str

    def info(self) -> BackendInfo:
        """What it can do on this machine; quick, never raises."""
        ...

    def build(self, model: Model, options: BuildOptions, on_progress: OnProgress) -> Built:
        """Builds `model` (probes already in it). Raises BuildError, BackendUnavailableError, UsageError."""
        ...

    def open(self, built: Built) -> Runner:
        """Makes a runner. Raises RunError, BackendUnavailableError."""
        ...


class Recording(Protocol):
    """What `backends.recorded` plays back; `record.Record` is one."""

    @property
    def name(self) -> str:
        """For people."""
        ...

    @property
    def layers(self) -> Sequence[LayerInfo]:
        """Layers of the engine."""
        ...

    @property
    def times(self) -> Sequence[LayerTime]:
        """Layer times."""
        ...

    @property
    def latency_ms(self) -> Sequence[float]:
        """End-to-end times."""
        ...

    @property
    def samples(self) -> int:
        """Number of samples."""
        ...

    def inputs(self, index: int) -> Mapping[str, np.ndarray]:
        """Inputs of one sample."""
        ...

    def outputs(self, index: int) -> Mapping[str, np.ndarray]:
        """Outputs of one sample."""
        ...

    def log(self) -> Sequence[LogLine]:
        """Log of the build and the runs."""
        ...
