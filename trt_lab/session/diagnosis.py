"""Which nodes are to blame: search, reduction, and what was found."""

from __future__ import annotations

from pathlib import Path

from trt_lab.activity import Status, scaled, silent
from trt_lab.diagnose.check import CheckSource
from trt_lab.diagnose.reduce import Reduced
from trt_lab.locating import Means, Wish, locate, low_precision, reduce_model
from trt_lab.results import Finding, make_diff
from trt_lab.runs import run_task
from trt_lab.session.engines import Engines
from trt_lab.types import OnProgress


class Diagnosis(Engines):
    """The part of a session that finds causes; see `Session`."""

    def start_locate(self) -> None:
        """`locate` in a thread. Raises UsageError when something is running or the precision is fp32."""
        low_precision(self._options)
        self._activity.start("locate", lambda: self.locate(silent))

    def locate(
        self,
        on_progress: OnProgress | None = None,
        *,
        check: CheckSource | None = None,
        artifacts: str | Path | None = None,
        resume: bool = False,
    ) -> Finding:
        """Finds the nodes where the error starts and the smallest region that must stay in FP32.

        The search runs by emulation on the CPU; a backend other than onnxruntime then proves it with one or two engines.

        Args:
            check: Decides instead of the tolerance: a metric such as `cosine>=0.999`, a command, a function, a `Check`.
            artifacts: Folder for every step. resume: Goes on with the steps there.

        Raises:
            UsageError: The precision is fp32; the check is bad; the steps belong to another search.
        """
        low_precision(self._options)
        wish, report = Wish.of(check, artifacts, resume=resume), on_progress or silent
        with self._history.action(f"lab.locate({wish})"), self._activity.doing("locate"):
            finding = self._finding = locate(self._means(report), wish, scaled(report, 0.1, 1.0))
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
            submit=lambda task, tell: run_task(
                self._worker, task, self._activity.telling(tell), self._activity.submitted
            ),
        )  # fmt: skip

    @property
    def finding(self) -> Finding | None:
        """What `locate` found last."""
        return self._finding

    def blame(self) -> dict[str, str]:
        """Tensor → where its error comes from, in words, as far as `locate` found; empty before it."""
        return self._finding.blame if self._finding is not None else {}
