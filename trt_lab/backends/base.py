"""What every backend offers. Backends do not inherit from each other; shared checks are functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
    """Layer times of some runs, and end-to-end latency of runs without the profiler, in ms."""

    times: tuple[LayerTime, ...]
    latency_ms: tuple[float, ...]


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
