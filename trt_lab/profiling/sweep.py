"""Latency against the size of the inputs: where it falls off the tuned kernels, and which profiles would serve.

One engine is built and run at every size, in the process of the jobs. With `tuned`, one more is built for each size
alone, and shows what the optimum of the profile costs the others.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from trt_lab import backends
from trt_lab.backends.base import Runner
from trt_lab.backends.jobs import Task
from trt_lab.errors import BackendUnavailableError, InputError, RunError, UsageError
from trt_lab.model import Model
from trt_lab.profiling.sweep_flags import LayerPoint, SweepPoint, flag, multiples, propose_profiles
from trt_lab.profiling.sweep_sizes import Sizes, SizesArgument, choose_sizes, cover, parse_sizes, show
from trt_lab.progress import scaled
from trt_lab.samples.sets import Samples
from trt_lab.storage import safe_name
from trt_lab.tensors import open_samples, write_samples
from trt_lab.types import BuildOptions, OnProgress, Progress, ShapeRange

ROUNDS = 3
"""All sizes are run in turn so often, so that a drift of the clock falls on all alike."""

_BUILD_SHARE = 0.4

Submit = Callable[[Task[Any], OnProgress], Any]


@dataclass(frozen=True)
class SweepTask:
    """What `measure` needs; paths as in `backends.jobs.Request`."""

    backend: str
    model_path: str
    options: BuildOptions
    samples_dir: str
    repeats: int


@dataclass(frozen=True)
class Measured:
    """What was seen of one sample."""

    latency_ms: tuple[float, ...] = ()
    round_medians: tuple[float, ...] = ()
    layers: tuple[LayerPoint, ...] = ()
    error: str | None = None


@dataclass(frozen=True)
class Sweep:
    """Latency against size.

    Attributes:
        model, backend: What was run.
        points: In the order of the sizes.
        proposal: Optimisation profiles for the sizes seen, for `shapes` (the first) and `more_profiles`.
        notes: What the figures do not say.
    """

    model: str
    backend: str
    points: tuple[SweepPoint, ...]
    proposal: tuple[tuple[ShapeRange, ...], ...]
    notes: tuple[str, ...] = ()

    @property
    def flagged(self) -> tuple[SweepPoint, ...]:
        """Sizes with something wrong."""
        return tuple(point for point in self.points if point.flags)

    @property
    def headline(self) -> str:
        """In one line."""
        count = "1 size" if len(self.points) == 1 else f"{len(self.points)} sizes"
        padded = [p for p in self.points if p.pad_to is not None and p.pad_gain_ms and p.median_ms]
        if padded:
            worst = max(padded, key=lambda p: p.pad_gain_ms or 0.0)
            better = (worst.median_ms or 0.0) - (worst.pad_gain_ms or 0.0)
            pad = f"pad {worst.label} to {show(worst.pad_to or {})}: {worst.median_ms:.3g} → {better:.3g} ms"
            return f"{self.model} on {self.backend}: {count}, {len(self.flagged)} flagged; {pad}"
        return f"{self.model} on {self.backend}: {count}, {len(self.flagged)} flagged"

    def rows(self) -> list[dict[str, Any]]:
        """One row a size, for a DataFrame."""
        return [_row(p, multiple) for p, multiple in zip(self.points, multiples(self.points), strict=True)]


def sweep(
    model: Model,
    options: BuildOptions,
    submit: Submit,
    on_progress: OnProgress,
    *,
    sizes: SizesArgument | None = None,
    repeats: int = 30,
    tuned: bool = False,
    seed: int = 0,
) -> Sweep:
    """Measures the engine of `options` at each size.

    Args:
        submit: Runs a task in the process of the jobs.
        sizes: A list of shapes, or of mappings from input to shape; by default a few over the range of `options.shapes`.
        repeats: Runs a size.
        tuned: Builds an engine for each size as well.

    Raises:
        UsageError: Sizes that do not fit the model, or one that has a single size; `repeats` below 3.
        BackendError, CancelledError: As the jobs ended.
    """
    if repeats < ROUNDS:
        raise UsageError(f"{repeats} runs a size are too few to tell a difference from noise; give {ROUNDS} or more")
    every = choose_sizes(model, options.shapes) if sizes is None else parse_sizes(model, sizes)
    ranged = _with_ranges(options, every)
    share = 1.0 / (1 + len(every)) if tuned else 1.0
    measured = _measure(model, ranged, every, submit, scaled(on_progress, 0.0, share), repeats, seed)
    points = [
        SweepPoint(s, m.latency_ms, m.round_medians, m.layers, m.error) for s, m in zip(every, measured, strict=True)
    ]
    for number, point in enumerate(points if tuned else ()):
        report = scaled(on_progress, share * (number + 1), share * (number + 2))
        alone = replace(options, shapes=cover([point.sizes]), more_profiles=())
        (own,) = _measure(model, alone, [point.sizes], submit, report, repeats, seed)
        points[number] = replace(point, tuned_ms=SweepPoint(point.sizes, own.latency_ms).median_ms)
    ranges = (ranged.shapes, *ranged.more_profiles) if options.backend != "onnxruntime" else ()
    flagged = flag(points, ranges)
    return Sweep(
        model.name, options.backend, flagged, propose_profiles(flagged, options.shapes), _notes(options, flagged)
    )


def measure(task: SweepTask, on_progress: OnProgress) -> tuple[Measured, ...]:
    """Builds once and runs every sample; what a sample's shape does not allow is told and the others go on.

    Raises:
        BackendError: The build failed, or the backend cannot run here.
    """
    backend = backends.get(task.backend)
    on_progress(Progress("build", 0.0, f"reading {Path(task.model_path).name}"))
    built = backend.build(Model.load(task.model_path), task.options, scaled(on_progress, 0.0, _BUILD_SHARE))
    info = backend.info()
    if not info.can_run:
        raise BackendUnavailableError(f"'{task.backend}' cannot run here, so there is no latency: {info.reason}")
    samples = open_samples(task.samples_dir)
    rounds: list[list[Measured]] = [[] for _ in samples]
    runner = backend.open(built)
    try:
        for turn in range(ROUNDS):
            repeats = (task.repeats + turn) // ROUNDS
            for number, feeds in enumerate(samples):
                done = (turn * len(samples) + number) / (ROUNDS * len(samples))
                text = f"size {number + 1}/{len(samples)}, round {turn + 1}/{ROUNDS}"
                on_progress(Progress("run", _BUILD_SHARE + (1 - _BUILD_SHARE) * done, text))
                if not (rounds[number] and rounds[number][-1].error):
                    rounds[number].append(_run(runner, feeds, repeats))
    finally:
        runner.close()
    return tuple(_joined(found) for found in rounds)


def _run(runner: Runner, feeds: Mapping[str, Any], repeats: int) -> Measured:
    try:
        profile = runner.profile(feeds, repeats)
    except (InputError, RunError) as error:
        return Measured(error=str(error))
    layers = tuple(
        LayerPoint(t.index, t.name, t.average_ms if t.median_ms is None else t.median_ms) for t in profile.times
    )
    middle = (median(profile.latency_ms),) if profile.latency_ms else ()
    return Measured(profile.latency_ms, middle, layers)


def _joined(rounds: Sequence[Measured]) -> Measured:
    """All rounds of one size: every latency, the quickest median of each layer."""
    if error := next((found.error for found in rounds if found.error), None):
        return Measured(error=error)
    layers: dict[int, LayerPoint] = {}
    for found in rounds:
        for layer in found.layers:
            if layer.index not in layers or layer.median_ms < layers[layer.index].median_ms:
                layers[layer.index] = layer
    return Measured(
        tuple(ms for found in rounds for ms in found.latency_ms),
        tuple(middle for found in rounds for middle in found.round_medians),
        tuple(layers[i] for i in sorted(layers)),
    )


def _measure(
    model: Model,
    options: BuildOptions,
    sizes: Sequence[Sizes],
    submit: Submit,
    on_progress: OnProgress,
    repeats: int,
    seed: int,
) -> tuple[Measured, ...]:
    with tempfile.TemporaryDirectory(prefix="trt-lab-") as scratch:
        work = Path(scratch)
        feeds = [
            Samples.of(model, 1, seed=seed, shapes=[ShapeRange(n, s, s, s) for n, s in size.items()]).feeds[0]
            for size in sizes
        ]
        write_samples(work / "in", feeds, which="inputs")
        path = str(model.save(work / f"{safe_name(model.name)}.onnx"))
        task = SweepTask(options.backend, path, replace(options, profile_runs=repeats), str(work / "in"), repeats)
        return submit(Task(measure, task, path, str(work / "out"), options.backend), on_progress)


def _with_ranges(options: BuildOptions, sizes: Sequence[Sizes]) -> BuildOptions:
    """The options as they are, or with one range that holds all sizes."""
    return options if options.shapes else replace(options, shapes=cover(sizes))


def _notes(options: BuildOptions, points: Sequence[SweepPoint]) -> tuple[str, ...]:
    notes = []
    if options.backend == "onnxruntime":
        notes.append(
            "ONNX Runtime has no optimisation profiles: which sizes are slow is that of its own kernels on this CPU; the "
            "proposal follows from the sizes alone"
        )
    elif not options.shapes:
        notes.append("no range was given, so the engine was built for all sizes together")
    few = [point for point in points if 0 < len(point.latency_ms) < 10]
    if few:
        notes.append(f"{len(few[0].latency_ms)} runs a size: small differences are lost in the spread")
    return tuple(notes)


def _row(point: SweepPoint, multiple: int) -> dict[str, Any]:
    middle = point.median_ms
    slowest = max(point.layers, key=lambda layer: layer.median_ms, default=None)
    return {
        "size": point.label,
        "elements": point.elements,
        "multiple_of": multiple,
        "runs": len(point.latency_ms) or None,
        "median_ms": middle,
        "quick_ms": point.quick_ms,
        "ms_per_million": None if middle is None else middle / point.elements * 1e6,
        "layer_sum_ms": sum(layer.median_ms for layer in point.layers) if point.layers else None,
        "slowest_layer": slowest.name if slowest is not None else None,
        "expected_ms": point.expected_ms,
        "pad_to": show(point.pad_to) if point.pad_to is not None else None,
        "pad_gain_ms": point.pad_gain_ms,
        "profile": point.profile,
        "position": point.position,
        "tuned_ms": point.tuned_ms,
        "blame": point.blame,
        "flags": "; ".join(point.flags),
    }
