"""The search for the cause, on the CPU: emulate, find the source, try regions, prove the last one.

Puts `diagnose.locate` and the emulation together. It is given the functions that run and compare, so
that progress, cancelling and the place of records stay with the session.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from trt_lab.diagnose.locate import Trial, find_region, find_source, tensor_errors
from trt_lab.edit.mark import mark_all
from trt_lab.edit.probe import Probed, add_probes
from trt_lab.graph.view import GraphView
from trt_lab.model import Model
from trt_lab.record import Record
from trt_lab.results import Diff, Finding
from trt_lab.runs import Role
from trt_lab.types import BuildOptions, NodeId, OnProgress, PrecisionPlan, Progress


class Run(Protocol):
    """Builds and runs a model; the record goes to `folder`, or to where the session keeps its own."""

    def __call__(self, probed: Probed, options: BuildOptions, role: Role, folder: Path | None) -> Record: ...


class MakeDiff(Protocol):
    """Compares an engine with a reference, with the session's tolerance."""

    def __call__(self, engine: Record, reference: Record) -> Diff: ...


def locate(
    model: Model, golden: Record, options: BuildOptions, *, run: Run, diff: MakeDiff, on_progress: OnProgress
) -> Finding:
    """Finds where the error of `options.plan.default` starts and which nodes must stay in FP32.

    Args:
        golden: Reference outputs of `model`.
        options: An emulating backend and a plan with nothing kept.
    """
    started = time.monotonic()
    view = GraphView.of(model)
    plain = add_probes(model, ())

    def build(keep: tuple[NodeId, ...], folder: Path | None) -> Diff:
        kept = replace(options, plan=replace(options.plan, keep_fp32=keep))
        return diff(run(plain, kept, "engine", folder), golden).restricted(view.outputs)

    before = build((), None)
    errors, source, pair, region, after = (), None, None, None, None
    with tempfile.TemporaryDirectory(prefix="trt-lab-") as scratch:
        folder = Path(scratch)
        if before.verdict != "same":
            everything = mark_all(model)
            on_progress(Progress("locate", 0.1, "all tensors of the reference"))
            exact = replace(options, plan=PrecisionPlan(), optimizer=False)
            reference = run(everything, exact, "reference", folder)
            on_progress(Progress("locate", 0.3, f"all tensors in {options.plan.default}"))
            engine = run(everything, options, "engine", folder)
            everywhere = diff(engine, reference)
            errors = tensor_errors(view, everywhere.tensors)
            source = find_source(view, errors)
            if source is not None:
                sample = everywhere.comparison.stats(source.tensor).sample
                golden_array, engine_array = everywhere.pair(source.tensor, sample)
                pair = (golden_array.copy(), engine_array.copy())  # their files go with the folder
        if source is not None:
            tried = 0

            def attempt(keep: tuple[NodeId, ...]) -> Trial:
                nonlocal tried
                tried += 1
                on_progress(Progress("locate", None, f"try {tried}: {len(keep)} nodes in FP32"))
                outcome = build(keep, folder)
                return Trial(keep, outcome.verdict == "same", outcome.largest)

            region = find_region(view, source.node, attempt)
        if region is not None and region.keep_fp32:
            after = build(region.keep_fp32, None)
    return Finding(
        verdict=before.verdict,
        precision=options.plan.default,
        before=before,
        after=after,
        source=source,
        region=region,
        errors=errors,
        engine_builds=0,
        emulated=True,
        seconds=time.monotonic() - started,
        source_pair=pair,
    )
