"""An engine that runs on the CPU under another name and answers as real ones were seen to."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock

import numpy as np
import pytest

from trt_lab import backends
from trt_lab.backends.base import Built, Feeds, Profile, Runner
from trt_lab.backends.onnxruntime import OnnxRuntime
from trt_lab.errors import BuildError
from trt_lab.model import Model
from trt_lab.types import BackendInfo, BuildOptions, JsonValue, LayerInfo, LogLine, NodeId, OnProgress, PrecisionPlan

Kept = tuple[NodeId, ...]


def as_asked(kept: Kept) -> Kept | None:
    """Nodes that the engine keeps in FP32 for a request; None for all of them."""
    return kept


@dataclass
class FakeEngine:
    """ONNX Runtime under another name.

    Attributes:
        obeys: Request → what is kept; None for everything, as of an engine that stays in FP32.
        refuses: Requests that do not build.
        layers: Layers told, from those that ONNX Runtime tells and the number of the build.
        moves: Added to every output of a run, from the number of the run.
        log, facts: What a build tells beside. spoils: Added to every output of a build, from its number.
        built: Kept nodes of every engine built, in order. options: Of each build.
    """

    name: str = "fake"
    obeys: Callable[[Kept], Kept | None] = as_asked
    refuses: Callable[[Kept], bool] = lambda kept: False
    layers: Callable[[tuple[LayerInfo, ...], int], tuple[LayerInfo, ...]] = lambda layers, number: layers
    moves: Callable[[int], float] = lambda run: 0.0
    spoils: Callable[[int], float] = lambda number: 0.0
    can_run: bool = True
    log: tuple[LogLine, ...] = ()
    facts: Callable[[Kept], Mapping[str, JsonValue]] = lambda kept: {}
    built: list[Kept] = field(default_factory=list)
    options: list[BuildOptions] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)

    def info(self) -> BackendInfo:
        reason = "" if self.can_run else "no GPU"
        return BackendInfo(self.name, "1", can_build=True, can_run=self.can_run, reason=reason)

    def build(self, model: Model, options: BuildOptions, on_progress: OnProgress) -> Built:
        asked = options.plan.keep_fp32
        with self.lock:
            self.built.append(asked)
            self.options.append(options)
            number = len(self.built)
        if self.refuses(asked):
            raise BuildError(f"{model.name}: no implementation for {asked}")
        kept = self.obeys(asked)
        plan = PrecisionPlan() if kept is None else replace(options.plan, keep_fp32=kept)
        inner = BuildOptions(
            plan=plan, optimizer=options.optimizer, profile_runs=options.profile_runs, shapes=options.shapes
        )
        made = OnnxRuntime().build(model, inner, on_progress)
        facts = {k: v for k, v in made.facts.items() if k != "emulated"} | dict(self.facts(asked))
        return replace(
            made, layers=self.layers(made.layers, number), facts=facts, log=self.log, handle=(made, self.spoils(number))
        )  # fmt: skip

    def open(self, built: Built) -> Runner:
        made, spoiled = built.handle
        return _Runner(OnnxRuntime().open(made), self.moves, spoiled)


class _Runner:
    def __init__(self, inner: Runner, moves: Callable[[int], float], spoiled: float) -> None:
        self._inner, self._moves, self._spoiled = inner, moves, spoiled
        self._runs = itertools.count()

    def run(self, feeds: Feeds) -> dict[str, np.ndarray]:
        added = np.float32(self._moves(next(self._runs)) + self._spoiled)
        return {name: value + added for name, value in self._inner.run(feeds).items()}

    def profile(self, feeds: Feeds, repeats: int) -> Profile:
        return self._inner.profile(feeds, repeats)

    def close(self) -> None:
        self._inner.close()


def install(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the engine a backend of its name, in this process."""
    real = backends.get
    monkeypatch.setattr(backends, "get", lambda name: engine if name == engine.name else real(name))


def typed(layers: Sequence[LayerInfo], precision: str) -> tuple[LayerInfo, ...]:
    """The layers, all of one type."""
    return tuple(replace(layer, precision=precision) for layer in layers)


def with_tactics(layers: Sequence[LayerInfo], tactics: Mapping[str, str]) -> tuple[LayerInfo, ...]:
    """The layers with these kernels by node; all others have one name."""
    return tuple(
        replace(layer, tactic=next((tactics[n] for n in layer.nodes if n in tactics), "usual")) for layer in layers
    )
