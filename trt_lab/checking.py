"""What an engine tells about itself: runs it on inputs whose answers must agree, and the reference in both its settings."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from trt_lab.compare.selfcheck import SelfCheck, check_optimiser, judge_trials, random_tensors, trial_feeds
from trt_lab.edit.probe import Probed, add_probes
from trt_lab.graph.view import GraphView
from trt_lab.model import Model
from trt_lab.progress import scaled
from trt_lab.record import Record
from trt_lab.runs import Role, Samples
from trt_lab.types import BuildOptions, OnProgress, Tolerance


class RunSamples(Protocol):
    """Builds and runs a model on samples of its own."""

    def __call__(self, probed: Probed, options: BuildOptions, role: Role, tell: OnProgress, own: Samples) -> Record: ...


def self_checks(
    model: Model, samples: Samples, options: BuildOptions, tolerance: Tolerance, run: RunSamples, report: OnProgress
) -> tuple[SelfCheck, ...]:
    """Same input twice, rows of a batch, and the reference with its optimiser off and on.

    The first sample is what rows are taken from; the reference runs on all of them.

    Raises:
        BackendError, CancelledError: As the builds ended.
    """
    view = GraphView.of(model)
    plain = add_probes(model, ())
    feed = samples.feeds[0]
    trials = Samples.given(model, trial_feeds(view, feed), label="of the self-check")
    engine = run(plain, replace(options, profile_runs=0), "engine", scaled(report, 0.0, 0.5), trials)
    checks = judge_trials(view, feed, [engine.outputs(i) for i in range(engine.samples)], tolerance)
    reference = BuildOptions(optimizer=False, profile_runs=0, shapes=options.shapes)
    off = run(plain, reference, "reference", scaled(report, 0.5, 0.75), samples)
    on = run(plain, replace(reference, optimizer=True), "reference", scaled(report, 0.75, 1.0), samples)
    return (*checks, check_optimiser(off, on, tolerance, random_tensors(view)))
