"""What a session lends to its searches, how a search is wished for, and the one step they share: a clean engine built.

Searches are given what runs and compares, so that progress, cancelling and the place of records stay with the session.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np

from trt_lab import backends
from trt_lab.backends.jobs import Task
from trt_lab.diagnose.check import Check, CheckSource
from trt_lab.diagnose.journal import Journal
from trt_lab.edit.probe import Probed, add_probes
from trt_lab.edit.schema import LowPrecision
from trt_lab.errors import BackendError, UsageError
from trt_lab.graph.view import GraphView
from trt_lab.model import Model
from trt_lab.record import Record
from trt_lab.results import Diff
from trt_lab.runs import Role, Samples
from trt_lab.types import BuildOptions, JsonValue, NodeId, OnProgress, PrecisionPlan, Tolerance

Result = TypeVar("Result")
Given = TypeVar("Given")


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
        width: Jobs that run side by side; 1 for the worker of this machine.
    """

    model: Model
    golden: Record
    samples: Samples
    options: BuildOptions
    tolerance: Tolerance
    run: Run
    diff: MakeDiff
    submit: Submit
    width: int = 1

    def clean(self, options: BuildOptions) -> Record:
        """The model itself, without probes, built and run."""
        return self.run(add_probes(self.model, ()), options, "engine")

    def compared(self, record: Record) -> Diff:
        """A clean engine against the reference: the model's own outputs."""
        return self.diff(record, self.golden).restricted(GraphView.of(self.model).outputs)

    def together(self, work: Callable[[Given], Result], items: Sequence[Given]) -> list[Result]:
        """`work` of each item, in order; side by side where an executor can do that."""
        if self.width == 1 or len(items) < 2:
            return [work(item) for item in items]
        with ThreadPoolExecutor(min(self.width, len(items)), "trt-lab-search") as threads:
            return list(threads.map(work, items))


@dataclass(frozen=True)
class Wish:
    """How to search.

    Attributes:
        check: Decides instead of the tolerance.
        artifacts: Folder for every step; the search can go on from it.
        resume: Goes on with the steps in `artifacts`.
        fp32: Also builds the engine in FP32, for the table of metrics and times.
    """

    check: Check | None = None
    artifacts: Path | None = None
    resume: bool = False
    fp32: bool = False

    @classmethod
    def of(
        cls,
        check: CheckSource | None = None,
        artifacts: str | Path | None = None,
        *,
        resume: bool = False,
        fp32: bool = False,
    ) -> Wish:
        """From what a user gives. Raises UsageError for an empty command."""
        made = Check.of(check) if check is not None else None
        return cls(made, Path(artifacts) if artifacts else None, resume, fp32)

    def __str__(self) -> str:
        """As arguments of a call."""
        given = []
        if self.check is not None:
            given.append(f"check={'my_check' if self.check.function is not None else repr(str(self.check))}")
        if self.artifacts is not None:
            given.append(f"artifacts={str(self.artifacts)!r}")
        return ", ".join([*given, *(["resume=True"] if self.resume else []), *(["fp32=True"] if self.fp32 else [])])


def low_precision(options: BuildOptions) -> LowPrecision:
    """The low type that a search is about. Raises UsageError when the plan has none."""
    if options.plan.default == "fp32":
        raise UsageError("locate looks for nodes that a low precision spoils; say which: lab.use(precision='fp16')")
    return options.plan.default


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


def build_step(means: Means, journal: Journal, options: BuildOptions, keep: tuple[NodeId, ...]) -> Diff:
    """Builds the clean model, without probes, with `keep` in FP32; one step, which leaves a record.

    Raises:
        BackendError, CancelledError: As the build ended.
    """
    name, kept = _step_name(options, keep), replace(options, plan=replace(options.plan, keep_fp32=keep))
    path = Path(str(journal.step(name, lambda: str(means.clean(kept).path))))
    return means.compared(Record.open(path) if path.exists() else means.clean(kept))


def try_step(means: Means, journal: Journal, options: BuildOptions, keep: tuple[NodeId, ...]) -> Diff | None:
    """`build_step`, where a build that fails is a result too: None, which a search that goes on does not build again."""
    made: list[Diff] = []

    def do() -> JsonValue:
        try:
            made.append(build_step(means, Journal(None, {}), options, keep))
        except BackendError:
            return None
        return str(made[0].engine.path)

    path = journal.step(_step_name(options, keep), do)
    if path is None or made:
        return made[0] if made else None
    return (
        means.compared(Record.open(str(path)))
        if Path(str(path)).exists()
        else build_step(means, journal, options, keep)
    )


def _step_name(options: BuildOptions, keep: tuple[NodeId, ...]) -> str:
    default = "" if options.plan.default != "fp32" else " fp32"
    return f"build {options.backend}{default} {json.dumps(keep)}"


def _digest(feed: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in sorted(feed):
        digest.update(f"{name}{feed[name].dtype}{feed[name].shape}".encode())
        digest.update(np.ascontiguousarray(feed[name]).tobytes())
    return digest.hexdigest()
