"""Engines and the reference: built, compared, and whether looking changed them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from trt_lab.activity import Status, silent
from trt_lab.checking import self_checks
from trt_lab.compare.observer import Observation
from trt_lab.compare.opened import OpenedTensor, open_tensor
from trt_lab.compare.selfcheck import SelfCheck
from trt_lab.compare.sides import SideSource, open_side
from trt_lab.doubt import doubt_reference, explain_tf32, is_big, with_note
from trt_lab.edit.probe import add_probes
from trt_lab.errors import BackendError, TrtLabError, UsageError
from trt_lab.observing import clean_options, has_clean, is_cheap, observe_engine, safe_tensors
from trt_lab.options import change_tolerance
from trt_lab.progress import scaled
from trt_lab.record import Record
from trt_lab.results import Diff, make_diff
from trt_lab.runs import RunUnderWay
from trt_lab.session.subject import Subject
from trt_lab.third_side import ThirdSide, compare_third
from trt_lab.types import BuildOptions, OnProgress, TensorId, Tolerance


class Engines(Subject):
    """The part of a session that builds and compares; see `Session`."""

    def golden(self, on_progress: OnProgress | None = None) -> Record:
        """Outputs of the reference for the outputs and probes; the last one again when nothing changed."""
        with self._history.action("lab.golden()"), self._activity.doing("reference"):
            record = self._golden(on_progress or silent)
        self._notify("reference")
        return record

    def _golden(self, on_progress: OnProgress) -> Record:
        under_way = self._start_reference(on_progress)
        if under_way is not None:
            self._reference = under_way.record()
        assert self._reference is not None  # else there was one under way
        return self._reference

    def _start_reference(self, on_progress: OnProgress) -> RunUnderWay | None:
        """None where the last reference will do."""
        reference = self._reference
        if reference is not None and set(self._probes) <= set(reference.meta.probes):
            return None
        options = BuildOptions(backend="onnxruntime", optimizer=False, profile_runs=0, shapes=self._options.shapes)
        return self._start(add_probes(self._model, self._probes), options, "reference", on_progress)

    def build(self, on_progress: OnProgress | None = None) -> Record:
        """Builds the engine with the probes in it, runs all samples, profiles it, and keeps a record.

        The reference is run first where it lacks a probed tensor. What differs is known, and told as the change
        "outputs", while the engine is still being profiled.

        Raises:
            BackendError: The backend refused or failed; the session stays usable.
            CancelledError: `cancel` was called.
            UsageError: A build is running.
        """
        with self._history.action("lab.build()"), self._activity.doing("build"):
            report = on_progress or silent
            record = self._build(report)
            with self._lock:
                self._records.append(record)
            self._notify("record")
            if is_cheap(self._options):
                with suppress(BackendError):  # the engine that was asked for is there
                    self._clean_of(record, scaled(report, 0.9, 1.0))
                self._notify("observer")
        why = record.meta.facts.get("not_run")
        self._activity.set(Status("done", f"built, not run: {why}" if why else self.compare().headline))
        return record

    def _build(self, report: OnProgress) -> Record:
        """Both sides are given to the worker at once: what one left is written while the other runs."""
        golden = self._start_reference(scaled(report, 0.0, 0.3))
        engine = None
        try:
            probed = add_probes(self._model, self._probes)
            engine = self._start(probed, self._options, "engine", scaled(report, 0.3, 0.9))
            if golden is not None:
                self._reference = golden.record()
        except BaseException:
            for under_way in filter(None, (golden, engine)):
                under_way.abandon()
            raise
        try:
            record = engine.record(self._show_outputs)
        finally:
            early, self._early = self._early, None
        if early is not None and early.reference is self._reference:  # the same numbers, whole now
            self._compared = (record, early.reference, early.tolerance), replace(early, engine=record)
        return record

    def _show_outputs(self, outputs: Record) -> None:
        reference = self._reference
        with suppress(TrtLabError):  # the record is compared again, and tells
            if reference is not None:
                self._early = make_diff(self._view, outputs, reference, self._tolerance)
                self._notify("outputs")

    @property
    def early(self) -> Diff | None:
        """What differs in the engine that is still being profiled; None else. See `compare`."""
        return self._early

    def start_build(self) -> None:
        """`build` in a thread; watch it through `observe` and `status`. Raises UsageError when one is running."""
        self._activity.start("build", lambda: self.build(silent))

    def start_golden(self) -> None:
        """`golden` in a thread. Raises UsageError when something is running."""
        self._activity.start("reference", self.golden)

    def compare(
        self, record: Record | None = None, *, atol: float | None = None, rtol: float | None = None, doubt: bool = False
    ) -> Diff:
        """Compares a record (newest by default) with the reference. Raises UsageError: not built yet, or not run here.

        `doubt`: where the error is big, runs the reference with its optimiser on too; a note tells if that moves it.
        For an engine with TF32 on the reference is run with TF32 emulated; a note tells if that gives such an error."""
        engine, reference = self.newest(record), self._reference
        if reference is None:
            raise UsageError("no reference yet; run it first: lab.golden()")
        diff = self._diff(engine, reference, change_tolerance(self._tolerance, atol, rtol))
        if doubt and reference.path not in self._doubts and is_big(diff) and not self.building:
            with self._activity.doing("reference"):
                self._doubts[reference.path] = doubt_reference(diff, self._model, self._run)
        if doubt and engine.meta.tf32 and engine.path not in self._doubts and not self.building:
            with self._activity.doing("reference"):
                self._doubts[engine.path] = explain_tf32(diff, self._model, self._run)
        return with_note(with_note(diff, self._doubts.get(reference.path, "")), self._doubts.get(engine.path, ""))

    def _diff(self, engine: Record, reference: Record, tolerance: Tolerance) -> Diff:
        """The last one again where nothing changed: whoever shows a build asks more than once."""
        key, last = (engine, reference, tolerance), self._compared
        if last is None or last[0] != key:
            last = self._compared = key, make_diff(self._view, engine, reference, tolerance)
        return last[1]

    def compare_with(self, other: SideSource, *, label: str | None = None, record: Record | None = None) -> ThirdSide:
        """Holds a third side against the reference and, once there is one, the engine: a PyTorch module or any function,
        which is run on the samples, or a file or arrays that were made from them.

        Names that are not the model's are matched by position, with a note.

        Raises:
            CompareError: No tensor can be matched, or the function fails. RecordError: The file cannot be read.
        """
        reference = self.golden()
        ran = [r for r in ([record] if record is not None else self._records) if "not_run" not in r.meta.facts]
        third = open_side(other, label=label, inputs=self.samples.feeds)
        return compare_third(self._view, third, reference, ran[-1] if ran else None, self._tolerance)

    def open_tensor(self, tensor: str, record: Record | None = None, *, sample: int | None = None) -> OpenedTensor:
        """Quantiles of the error, ULP distance, errors over magnitude and ties of one output or probe of an engine (the
        newest by default), on its worst sample unless one is named.

        Raises:
            UsageError: Nothing was built, or no reference. CompareError: No such tensor or sample.
        """
        engine, reference = self.newest(record), self._reference
        if reference is None:
            raise UsageError("no reference yet; run it first: lab.golden()")
        sides = open_side(engine), open_side(reference)
        return open_tensor(*sides, tensor, sample=sample, tolerance=self._tolerance, view=self._view)

    def observer(self, record: Record | None = None, *, build: bool = False) -> Observation:
        """Whether the probes of an engine (the newest by default) changed it: neutral, perturbing or unknown.

        It is held against the clean engine of the same options. That is built beside the probed one where it costs
        little (onnxruntime, or with a timing cache); else only when `build` is set. Raises UsageError: nothing built."""
        engine = self.newest(record)
        if build:
            with self._activity.doing("clean engine"):
                self._clean_of(engine, silent)
        return observe_engine(self._view, engine, (*self._records, *self._clean), self._tolerance)

    def _clean_of(self, engine: Record, report: OnProgress) -> None:
        if not has_clean(self._view, engine, (*self._records, *self._clean)):
            self._clean.append(self._run(add_probes(self._model, ()), clean_options(engine), "engine", report))

    @property
    def safe_to_probe(self) -> tuple[TensorId, ...]:
        """Tensors that lie between layers of the newest engine: a probe there splits none. Empty before a build."""
        return safe_tensors(self._view, self._records, self._clean)

    def self_check(self, on_progress: OnProgress = silent) -> tuple[SelfCheck, ...]:
        """What the engine tells with no reference: same input twice, rows of a batch, the reference's own optimiser."""
        with self._history.action("lab.self_check()"), self._activity.doing("self-check"):
            return self_checks(self._model, self.samples, self._options, self._tolerance, self._run, on_progress)
