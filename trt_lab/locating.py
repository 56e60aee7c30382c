"""The search for the cause: emulated on the CPU in one job, then proved on engines.

Puts `diagnose` and the backends together. It is given what runs and compares, so that progress, cancelling and
the place of records stay with the session.
"""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from trt_lab.backends.jobs import Task
from trt_lab.diagnose.journal import Journal
from trt_lab.diagnose.measuring import MeasureTask, measure
from trt_lab.diagnose.reduce import Reduced, ReduceTask, reduce
from trt_lab.diagnose.task import SearchTask, search
from trt_lab.doubt import doubt_reference
from trt_lab.errors import UsageError
from trt_lab.graph.view import GraphView
from trt_lab.means import Means, Wish, build_step, low_precision, search_key
from trt_lab.proving import prove
from trt_lab.results import Finding
from trt_lab.tensors import write_samples
from trt_lab.types import BuildOptions, JsonValue, OnProgress, PrecisionPlan, Progress

FINDING_FILE = "finding.json"


def locate(means: Means, wish: Wish, on_progress: OnProgress) -> Finding:
    """Finds where the error of the plan's low type starts and which nodes must stay in FP32.

    Raises:
        UsageError: The check is bad, or the steps in `artifacts` belong to another search.
        BackendError, CancelledError: As the jobs ended.
    """
    started = time.monotonic()
    if wish.resume and wish.artifacts is None:
        raise UsageError("to go on with a search, name the folder of its steps (artifacts)")
    emulated = BuildOptions(plan=PrecisionPlan(means.options.plan.default), profile_runs=0, shapes=means.options.shapes)
    journal = Journal(wish.artifacts, search_key(means, wish), resume=wish.resume)
    before = build_step(means, journal, emulated, ())
    with tempfile.TemporaryDirectory(prefix="trt-lab-") as scratch:
        task = _search_task(means, wish, Path(scratch))
        if means.width > 1 and before.verdict != "same":
            task = _measured(means, journal, task, Path(scratch), on_progress)
        on_progress(Progress("locate", 0.1, "search"))
        found = means.submit(Task(search, task, task.model_path, str(Path(scratch) / "out")), on_progress)
    kept = found.region.keep_fp32 if found.region is not None else ()
    doubt = doubt_reference(before, means.model, means.run)
    finding = Finding(
        verdict="same" if found.passes else "differs",
        precision=means.options.plan.default,
        before=before,
        after=build_step(means, journal, emulated, kept) if kept else None,
        source=found.sources[0] if found.sources else None,
        region=found.region,
        errors=found.errors,
        engine_builds=0,
        emulated=True,
        seconds=0.0,
        source_pair=found.source_pair,
        sources=found.sources,
        notes=(*found.notes, *([doubt] if doubt else [])),
        fp32_passes=found.fp32_passes,
        check=str(wish.check) if wish.check is not None else "",
    )
    if wish.fp32 and means.options.backend == emulated.backend:
        finding = replace(finding, fp32=build_step(means, journal, replace(emulated, plan=PrecisionPlan()), ()))
    if means.options.backend != emulated.backend:
        finding = prove(means, wish, journal, finding, on_progress)
    finding = replace(finding, seconds=time.monotonic() - started)
    if wish.artifacts is not None:
        text = json.dumps(finding.as_json(), indent=2, allow_nan=False)
        (wish.artifacts / FINDING_FILE).write_text(text + "\n", encoding="utf-8")
    return finding


def reduce_model(means: Means, wish: Wish, out: Path, on_progress: OnProgress) -> Reduced:
    """Writes the smallest part of the model that still fails, its golden inputs and outputs beside it.

    Raises:
        UsageError: The fault is not one of precision; the check is bad.
        EditError: The part cannot be cut out.
        BackendError, CancelledError: As the job ended.
    """
    with tempfile.TemporaryDirectory(prefix="trt-lab-") as scratch:
        task = _search_task(means, wish, Path(scratch))
        wanted = ReduceTask(task, str(out.absolute()))
        return means.submit(Task(reduce, wanted, task.model_path, str(Path(scratch) / "out")), on_progress)


def _measured(means: Means, journal: Journal, task: SearchTask, scratch: Path, on_progress: OnProgress) -> SearchTask:
    """The task with the errors of its samples, which were measured side by side; each sample is a step."""

    def measure_one(sample: int) -> JsonValue:
        one = MeasureTask(task.model_path, task.samples_dir, task.low, task.tolerance, sample)
        wanted = Task(measure, one, task.model_path, str(scratch / f"out-{sample}"))
        return journal.step(f"errors of sample {sample}", lambda: means.submit(wanted, on_progress))

    return replace(task, measured=tuple(means.together(measure_one, range(means.samples.count))))


def _search_task(means: Means, wish: Wish, scratch: Path) -> SearchTask:
    path = means.model.save(scratch / "model.onnx")
    write_samples(scratch / "in", means.samples.feeds, which="inputs")
    golden = [means.golden.outputs(i) for i in range(means.golden.samples)]
    wanted = GraphView.of(means.model).outputs
    write_samples(scratch / "golden", [{t: g[t] for t in wanted if t in g} for g in golden], which="outputs")
    return SearchTask(
        model_path=str(path),
        samples_dir=str(scratch / "in"),
        golden_dir=str(scratch / "golden"),
        low=low_precision(means.options),
        tolerance=means.tolerance,
        check=wish.check,
        artifacts=str(wish.artifacts) if wish.artifacts is not None else None,
        resume=wish.artifacts is not None,  # the caller began the file
        key=search_key(means, wish),
    )
