"""One build and run as a record: samples in, a job in the worker, a record out."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import numpy as np

from trt_lab import storage, zoo
from trt_lab.backends.jobs import Found, Request, Task
from trt_lab.backends.worker import Job, Worker
from trt_lab.edit.probe import Probed
from trt_lab.errors import BackendError, TrtLabError
from trt_lab.model import Model, ModelSource
from trt_lab.record import Record, write_record
from trt_lab.samples.sets import Samples
from trt_lab.tensors import write_samples
from trt_lab.types import BuildOptions, OnProgress, Outcome, Progress

Role = Literal["engine", "reference"]


def open_source(source: ModelSource) -> tuple[Model, Sequence[Mapping[str, np.ndarray]]]:
    """A model and its own samples, which only the built-in ones (`zoo:NAME`) have.

    Raises:
        ModelError: It cannot be opened. UsageError: No built-in model has that name.
    """
    if isinstance(source, str) and source.startswith("zoo:"):
        known = zoo.get(source.removeprefix("zoo:"))
        return known.model, known.feeds
    return Model.load(source), []


class RunUnderWay:
    """A build and run that the worker has got: its record is written when it has ended.

    A build that fails leaves a record as well, which says what happened; the error is raised all the same.

    Args:
        model: The model without probes, for hashes and ids.
        on_submit: Called with the job once it is queued, so that it can be cancelled.

    Raises:
        RecordError: The folder cannot be made.
    """

    def __init__(
        self,
        worker: Worker,
        model: Model,
        probed: Probed,
        options: BuildOptions,
        samples: Samples,
        *,
        role: Role,
        folder: Path,
        on_progress: OnProgress,
        on_submit: Callable[[Job[Any]], None],
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        label = "reference" if role == "reference" else f"{options.backend}-{options.plan.default}"
        self._path = storage.next_path(folder, label, ".trtlab")
        self._scratch = tempfile.TemporaryDirectory(prefix="trt-lab-", ignore_cleanup_errors=True)
        work = Path(self._scratch.name)
        model_path = probed.model.save(work / f"{storage.safe_name(model.name)}.onnx")
        write_samples(work / "in", samples.feeds, which="inputs")
        self._about: dict[str, Any] = {"model": model, "probed": probed, "options": options, "role": role}
        self._outputs = work / "out"
        self._dirs = {"samples_dir": work / "in", "outputs_dir": self._outputs, "seed": samples.seed}
        self._told = threading.Event()
        self._ran = False

        def tell(progress: Progress) -> None:
            if progress.phase == "profile":  # all samples have run
                self._ran = True
                self._told.set()
            on_progress(progress)

        request = Request(
            backend=options.backend,
            model_path=str(model_path),
            options=options,
            samples_dir=str(work / "in"),
            out_dir=str(self._outputs),
        )
        self._job = worker.submit(request, tell)
        self._job.add_done_callback(lambda _: self._told.set())
        on_submit(self._job)

    def record(self, on_outputs: Callable[[Record], None] | None = None) -> Record:
        """Waits for the end and writes the record.

        Args:
            on_outputs: Called while the engine is still being profiled, where it is, with a record that holds the
                outputs, and neither layers nor times; it lies in a temporary folder and goes with its last user.

        Raises:
            BackendError, CancelledError: As the job ended.
            RecordError: The record cannot be written.
        """
        try:
            if on_outputs is not None:
                self._told.wait()
                if self._ran and not self._job.done():
                    on_outputs(self._early())
            outcome = self._job.result()
            return write_record(self._path, outcome=outcome, **self._about, **self._dirs)
        except BackendError as error:
            if self._job.done():
                write_record(self._path, outcome=None, failure=str(error), log=error.log, **self._about, **self._dirs)
            raise
        except KeyboardInterrupt:
            self._job.cancel()
            raise
        finally:
            self._scratch.cleanup()

    def abandon(self) -> None:
        """Stops it; nothing is kept."""
        self._job.cancel()
        with suppress(TrtLabError):
            self._job.result()
        self._scratch.cleanup()

    def _early(self) -> Record:
        """The outputs alone, as a record of the same name."""
        folder = tempfile.TemporaryDirectory(prefix="trt-lab-", ignore_cleanup_errors=True)
        path = Path(folder.name) / self._path.name
        nothing_yet = Outcome((), (), (), (), 0.0, 0.0)
        written = write_record(path, outcome=nothing_yet, outputs_dir=self._outputs, sync=False, **self._about)
        return Record(written.path, written.path, written.meta, folder)


def run_task(
    worker: Worker, task: Task[Found], on_progress: OnProgress, on_submit: Callable[[Job[Any]], None]
) -> Found:
    """Runs a task in the worker and waits for what it gives.

    Raises:
        BackendError, CancelledError: As it ended; whatever else its function raises on purpose.
    """
    job = worker.submit(task, on_progress)
    on_submit(job)
    try:
        return job.result()
    except KeyboardInterrupt:
        job.cancel()
        raise
