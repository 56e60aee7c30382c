"""The search for the cause: emulated on the CPU in one job, then proved on engines.

Puts `diagnose` and the backends together. It is given what runs and compares, so that progress, cancelling and
the place of records stay with the session.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np

from trt_lab import backends
from trt_lab.backends.jobs import Task
from trt_lab.diagnose.check import Check, CheckSource
from trt_lab.diagnose.journal import Journal
from trt_lab.diagnose.locate import Region, Trial, find_region
from trt_lab.diagnose.reduce import Reduced, ReduceTask, reduce
from trt_lab.diagnose.task import SearchTask, search
from trt_lab.doubt import doubt_reference
from trt_lab.edit.probe import Probed, add_probes
from trt_lab.edit.schema import LowPrecision
from trt_lab.errors import UsageError
from trt_lab.graph.view import GraphView
from trt_lab.model import Model
from trt_lab.record import Record
from trt_lab.results import Diff, Finding
from trt_lab.runs import Role, Samples
from trt_lab.tensors import write_samples
from trt_lab.types import BuildOptions, JsonValue, NodeId, OnProgress, PrecisionPlan, Progress, Tolerance

MOST_BUILDS = 24
"""Engines built at most when emulation and engine disagree and the engine must be searched."""

FINDING_FILE = "finding.json"

Result = TypeVar("Result")


class Run(Protocol):
    """Builds and runs a model; the record goes to where the session keeps its own."""

    def __call__(self, probed: Probed, options: BuildOptions, role: Role) -> Record: ...


class MakeDiff(Protocol):
    """Compares an engine with a reference, with the session's tolerance."""

    def __call__(self, engine: Record, reference: Record) -> Diff: ...


class Submit(Protocol):
    """Runs a task in the worker and waits for what it gives."""

    def __call__(self, task: Task[Result], on_progress: OnProgress, /) -> Result: ...


@dataclass(frozen=True)
class Means:
    """What a session lends to a search.

    Attributes:
        golden: Reference outputs of `model` on `samples`.
        options: How engines are built; a plan of a low type, of which only the default counts.
    """

    model: Model
    golden: Record
    samples: Samples
    options: BuildOptions
    tolerance: Tolerance
    run: Run
    diff: MakeDiff
    submit: Submit


@dataclass(frozen=True)
class Wish:
    """How to search.

    Attributes:
        check: Decides instead of the tolerance.
        artifacts: Folder for every step; the search can go on from it.
        resume: Goes on with the steps in `artifacts`.
    """

    check: Check | None = None
    artifacts: Path | None = None
    resume: bool = False

    @classmethod
    def of(cls, check: CheckSource | None = None, artifacts: str | Path | None = None, *, resume: bool = False) -> Wish:
        """From what a user gives. Raises UsageError for an empty command."""
        return cls(Check.of(check) if check is not None else None, Path(artifacts) if artifacts else None, resume)

    def __str__(self) -> str:
        """As arguments of a call."""
        given = []
        if self.check is not None:
            given.append(f"check={'my_check' if self.check.function is not None else repr(str(self.check))}")
        if self.artifacts is not None:
            given.append(f"artifacts={str(self.artifacts)!r}")
        return ", ".join([*given, *(["resume=True"] if self.resume else [])])


def low_precision(options: BuildOptions) -> LowPrecision:
    """The low type that a search is about. Raises UsageError when the plan has none."""
    if options.plan.default == "fp32":
        raise UsageError("locate looks for nodes that a low precision spoils; say which: lab.use(precision='fp16')")
    return options.plan.default


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
    before = _build(means, journal, emulated, ())
    with tempfile.TemporaryDirectory(prefix="trt-lab-") as scratch:
        task = _search_task(means, wish, Path(scratch))
        on_progress(Progress("locate", 0.1, "search"))
        found = means.submit(Task(search, task, task.model_path, str(Path(scratch) / "out")), on_progress)
    kept = found.region.keep_fp32 if found.region is not None else ()
    doubt = doubt_reference(before, means.model, means.run)
    finding = Finding(
        verdict="same" if found.passes else "differs",
        precision=means.options.plan.default,
        before=before,
        after=_build(means, journal, emulated, kept) if kept else None,
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
    if means.options.backend != emulated.backend:
        finding = _prove(means, wish, journal, finding, on_progress)
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


def search_key(means: Means, wish: Wish) -> dict[str, JsonValue]:
    """What a search is about: a stopped one goes on only when all of it is the same."""
    infos = {info.name: info.version for info in backends.infos()}
    options = json.loads(json.dumps(asdict(replace(means.options, plan=PrecisionPlan(means.options.plan.default)))))
    return {
        "model": means.model.hash,
        **{f"options.{name}": value for name, value in options.items()},
        "tolerance": [means.tolerance.atol, means.tolerance.rtol],
        "check": str(wish.check) if wish.check is not None else None,
        "samples": [_digest(feed) for feed in means.samples.feeds],
        "version": {name: infos.get(name) for name in ("onnxruntime", means.options.backend)},
    }


def _digest(feed: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in sorted(feed):
        digest.update(f"{name}{feed[name].dtype}{feed[name].shape}".encode())
        digest.update(np.ascontiguousarray(feed[name]).tobytes())
    return digest.hexdigest()


def _build(means: Means, journal: Journal, options: BuildOptions, keep: tuple[NodeId, ...]) -> Diff:
    """Builds the clean model, without probes, with `keep` in FP32; one step, which leaves a record."""
    kept = replace(options, plan=replace(options.plan, keep_fp32=keep))

    def do() -> JsonValue:
        return str(means.run(add_probes(means.model, ()), kept, "engine").path)

    path = journal.step(f"build {options.backend} {json.dumps(keep)}", do)
    record = Record.open(str(path)) if Path(str(path)).exists() else Record.open(str(do()))
    return means.diff(record, means.golden).restricted(GraphView.of(means.model).outputs)


# --- proof on engines --------------------------------------------------------------------


class _EnoughError(Exception):
    """`MOST_BUILDS` were built."""


def _prove(means: Means, wish: Wish, journal: Journal, finding: Finding, on_progress: OnProgress) -> Finding:
    """Builds the clean engine, all low and repaired; where it contradicts the emulation, the engine decides."""
    info = backends.get(means.options.backend).info()
    if not (info.can_build and info.can_run):
        note = (
            f"not proved on an engine: '{info.name}' cannot {'run' if info.can_build else 'build'} here ({info.reason})"
        )
        return replace(finding, notes=(*finding.notes, note))
    engines = _Engines(means, wish, journal, on_progress)
    before, bad = engines.attempt(())
    notes = list(finding.notes)
    if not bad:
        if finding.keep_fp32:
            notes.append(
                "emulation says that it fails, but the engine passes with nothing kept: a fused layer keeps FP32 inside, "
                "so nothing needs to be kept for this engine"
            )
        return replace(
            finding, verdict="same", before=before, after=None, emulated=False, proved=True,
            engine_builds=engines.built, notes=tuple(notes), region=None,
        )  # fmt: skip
    kept = finding.keep_fp32
    region = finding.region
    after: Diff | None = None
    good = False
    if kept:
        after, failed = engines.attempt(kept)
        good = not failed
    if not good:
        notes.append(
            "emulation and engine disagree: the engine was searched"
            if kept
            else "only the engine fails, so it was searched"
        )
        region = engines.search(kept)
        after = engines.diffs.get(frozenset(region.keep_fp32)) if region.keep_fp32 else after
        good = bool(region.keep_fp32)
        if engines.exhausted:
            notes.append(f"stopped after {engines.built} engine builds: the set passes, but smaller ones may too"
                         if good else f"stopped after {engines.built} engine builds without a set that passes")  # fmt: skip
    trials = (
        (*(region.trials if region is not None else ()), *engines.trials)
        if region is finding.region
        else engines.trials
    )
    region = replace(region, trials=trials) if region is not None else None
    return replace(
        finding, verdict="differs", before=before, after=after, emulated=False, proved=good,
        engine_builds=engines.built, notes=tuple(notes), region=region, fp32_passes=finding.fp32_passes or good,
    )  # fmt: skip


class _Engines:
    """Engines of one search, each set built once."""

    def __init__(self, means: Means, wish: Wish, journal: Journal, on_progress: OnProgress) -> None:
        self._means, self._check, self._journal, self._tell = means, wish.check, journal, on_progress
        self._options = means.options  # with its profile, which tells what keeping nodes costs
        self.diffs: dict[frozenset[NodeId], Diff] = {}
        self.trials: tuple[Trial, ...] = ()
        self.built = 0
        self.exhausted = False

    def attempt(self, keep: tuple[NodeId, ...]) -> tuple[Diff, bool]:
        """The engine with `keep` in FP32, and whether it is bad."""
        self._tell(Progress("prove", None, f"engine {self.built + 1}: {len(keep)} nodes in FP32"))
        diff = _build(self._means, self._journal, self._options, keep)
        self.built += 1
        self.diffs[frozenset(keep)] = diff
        bad = diff.verdict != "same"
        if self._check is not None:
            outputs = [diff.engine.outputs(i) for i in range(diff.engine.samples)]
            golden = [diff.reference.outputs(i) for i in range(diff.reference.samples)]
            bad = not self._check.passes(outputs, golden)
        self.trials = (*self.trials, Trial(keep, not bad, diff.largest, builds=1))
        return diff, bad

    def search(self, first: tuple[NodeId, ...]) -> Region:
        """`find_region` on engines, at most `MOST_BUILDS`. A build that fails is no failure of accuracy: its error is raised."""

        def try_keep(keep: tuple[NodeId, ...]) -> Trial:
            known = next((t for t in self.trials if set(t.keep_fp32) == set(keep)), None)
            if known is not None:
                return known
            if self.built >= MOST_BUILDS:
                raise _EnoughError
            self.attempt(keep)
            return self.trials[-1]

        try:
            return find_region(GraphView.of(self._means.model), None, try_keep, suspects=first)
        except _EnoughError:
            self.exhausted = True
            passing = [t for t in self.trials if t.passes]
            best = min(passing, key=lambda t: len(t.keep_fp32), default=None)
            return Region(best.keep_fp32 if best is not None else (), minimal=False, trials=self.trials)
