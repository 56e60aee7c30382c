"""Which nodes are to blame: search, reduction, and what was found."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from trt_lab import storage
from trt_lab.activity import Status, silent
from trt_lab.backends.tensorrt.tactics import Changed
from trt_lab.diagnose.check import CheckSource
from trt_lab.diagnose.flaky import Build, Flaky
from trt_lab.diagnose.reduce import Reduced
from trt_lab.diagnose.steps import Search
from trt_lab.diagnose.switches import Switches
from trt_lab.edit.precision import typed
from trt_lab.errors import UsageError
from trt_lab.isolating import build_repeatedly, forbid_tactics, try_switches
from trt_lab.locating import locate, reduce_model
from trt_lab.means import Means, Wish, low_precision
from trt_lab.options import parse_precision
from trt_lab.progress import scaled
from trt_lab.results import Finding, make_diff
from trt_lab.session.engines import Engines
from trt_lab.types import NodeId, OnProgress, PrecisionPlan


class Diagnosis(Engines):
    """The part of a session that finds causes; see `Session`."""

    def start_locate(self, *, resume: bool = False) -> None:
        """`locate` in a thread; `search` tells its steps as they happen.

        Args:
            resume: Goes on with the search that was stopped.

        Raises:
            UsageError: Something is running, the precision is fp32, or no search was stopped.
        """
        low_precision(self._options)
        if not resume:
            folder = storage.next_path(storage.records_folder(self._records_root, self._model), "search", "")
        elif self._search is None or self._search.state != "stopped" or self._search.folder is None:
            raise UsageError("no search was stopped, so there is none to go on with; start one: lab.start_locate()")
        else:
            folder = self._search.folder
        self._activity.start("locate", lambda: self._locate(silent, Wish(artifacts=folder, resume=resume), ""))

    def locate(
        self,
        on_progress: OnProgress | None = None,
        *,
        check: CheckSource | None = None,
        artifacts: str | Path | None = None,
        resume: bool = False,
        fp32: bool = False,
    ) -> Finding:
        """Finds the nodes where the error starts and the smallest region that must stay in FP32.

        The search runs by emulation on the CPU; a backend other than onnxruntime then proves it with one or two engines.

        Args:
            check: Decides instead of the tolerance: a metric such as `cosine>=0.999`, a command, a function, a `Check`.
            artifacts: Folder for every step. resume: Goes on with the steps there.
            fp32: Also builds the engine in FP32, for `Finding.table`.

        Raises:
            UsageError: The precision is fp32; the check is bad; the steps belong to another search.
        """
        wish = Wish.of(check, artifacts, resume=resume, fp32=fp32)
        return self._locate(on_progress or silent, wish, str(wish))

    def _locate(self, report: OnProgress, wish: Wish, shown: str) -> Finding:
        low = low_precision(self._options)
        with self._history.action(f"lab.locate({shown})"), self._activity.doing("locate"):
            search = self._search = Search(wish.artifacts, low)
            try:
                finding = self._finding = locate(self._means(report), wish, scaled(report, 0.1, 1.0))
                search.state = "ended"
            finally:
                if search.state == "running":
                    search.state = "stopped"
        self._notify("finding")
        self._activity.set(Status("done", finding.headline))
        return finding

    def reduce(
        self, out: str | Path, on_progress: OnProgress | None = None, *, check: CheckSource | None = None
    ) -> Reduced:
        """Writes the smallest part of the model that still fails to `out`, its golden inputs and outputs beside it.

        Raises UsageError when the precision is fp32, the fault is not one of precision, or the check is bad.
        """
        low_precision(self._options)
        wish, report = Wish.of(check), on_progress or silent
        given = ", ".join(filter(None, (repr(str(out)), str(wish))))
        with self._history.action(f"lab.reduce({given})"), self._activity.doing("reduce"):
            return reduce_model(self._means(report), wish, Path(out), scaled(report, 0.1, 1.0))

    def _means(self, report: OnProgress) -> Means:
        return Means(
            self._model, self._golden(scaled(report, 0.0, 0.1)), self.samples, self._options, self._tolerance, self._run,
            diff=lambda engine, reference: make_diff(self._view, engine, reference, self._tolerance),
            submit=self._submit,
            width=self._worker.width,
        )  # fmt: skip

    def flaky(self, k: int = 3, on_progress: OnProgress | None = None) -> Flaky:
        """Builds the clean engine `k` times and tells whether the builds agree: identical, other kernels and all right, or
        wrong now and then. With TensorRT the kernels of the best build are saved as a timing cache: `.lock`.

        Raises:
            UsageError: Fewer than 2 builds, or an engine that cannot run here. BackendError: A build fails.
        """
        report = on_progress or silent
        folder = storage.next_path(storage.records_folder(self._records_root, self._model), "flaky", "")
        with self._history.action(f"lab.flaky({k})"), self._activity.doing("flaky"):
            found = build_repeatedly(self._means(report), k, folder, scaled(report, 0.1, 1.0))
        self._activity.set(Status("done", found.headline))
        return found

    def forbid_tactics(
        self, build: Build, tactics: Iterable[str], out: str | Path, on_progress: OnProgress | None = None
    ) -> tuple[Changed, ...]:
        """Writes a timing cache like that of a build of `flaky`, without some tactics; build with it from then on.

        For TensorRT 10.8 and later, after `lab.use(editable_timing_cache=True, log_severity="verbose")`; not run on a GPU
        that has one. Gives the entries that were changed.

        Args:
            build: One of `lab.flaky().builds`.
            tactics: Hashes in hexadecimal, or names of kernels.

        Raises:
            UsageError: The build left no timing cache or no times of tactics; no such tactic, or none is left.
        """
        if build.saved_cache is None:
            raise UsageError(f"{build.record.name} left no timing cache; only builds of lab.flaky() with 'tensorrt' do")
        names, report = [str(tactic) for tactic in tactics], on_progress or silent
        with self._activity.doing("timing cache"):
            return forbid_tactics(
                self._model, self._submit, build.record, Path(build.saved_cache), names, Path(out), report
            )

    def switches(self, fusions: Iterable[tuple[str, str]] = (), on_progress: OnProgress | None = None) -> Switches:
        """Turns the switches of the build one by one, and tells which of them makes the error go.

        Args:
            fusions: Pairs of neighbouring nodes whose fusion is to be cut.

        Raises:
            ModelError, EditError: A pair is not of neighbours. BackendError: The engine in question does not build.
        """
        pairs = [(self._view.node(NodeId(a)).id, self._view.node(NodeId(b)).id) for a, b in fusions]
        shown = repr([(str(a), str(b)) for a, b in pairs]) if pairs else ""
        report = on_progress or silent
        with self._history.action(f"lab.switches({shown})"), self._activity.doing("switches"):
            found = try_switches(self._means(report), pairs, scaled(report, 0.1, 1.0))
        self._activity.set(Status("done", found.headline))
        return found

    @property
    def search(self) -> Search | None:
        """The search for the cause that is under way, or the last one."""
        return self._search

    def export_repaired(self, path: str | Path) -> Path:
        """Writes the model of the newest finding: its nodes in FP32, the rest in the low type. Returns the path.

        Raises:
            UsageError: Nothing was located, or nothing needs to be kept.
        """
        finding = self._finding
        if finding is None or not finding.keep_fp32:
            raise UsageError("there is no repaired model: lab.locate() found no nodes to keep in FP32")
        plan = PrecisionPlan(parse_precision(finding.precision), finding.keep_fp32)
        with self._history.action(f"lab.export_repaired({str(path)!r})"):
            return typed(self._model, plan).model.save(Path(path))

    @property
    def finding(self) -> Finding | None:
        """What `locate` found last."""
        return self._finding

    def blame(self) -> dict[str, str]:
        """Tensor → where its error comes from, in words, as far as `locate` found; empty before it."""
        return self._finding.blame if self._finding is not None else {}
