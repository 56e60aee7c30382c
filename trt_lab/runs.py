"""One build and run as a record: samples in, a job in the worker, a record out."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from trt_lab import storage, zoo
from trt_lab.backends.jobs import Found, Request, Task
from trt_lab.backends.worker import Job, Worker
from trt_lab.edit.probe import Probed
from trt_lab.errors import BackendError
from trt_lab.model import Model, ModelSource
from trt_lab.record import Record, write_record
from trt_lab.samples.sets import Samples
from trt_lab.tensors import write_samples
from trt_lab.types import BuildOptions, OnProgress

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


def make_record(
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
) -> Record:
    """Builds and runs `probed` in the worker and writes the record below `folder`.

    A build that fails leaves a record as well, which says what happened; the error is raised all the same.

    Args:
        model: The model without probes, for hashes and ids.
        on_submit: Called with the job once it is queued, so that it can be cancelled.

    Raises:
        BackendError, CancelledError: As the job ended.
        RecordError: The record cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    label = "reference" if role == "reference" else f"{options.backend}-{options.plan.default}"
    path = storage.next_path(folder, label, ".trtlab")
    with tempfile.TemporaryDirectory(prefix="trt-lab-") as scratch:
        work = Path(scratch)
        model_path = probed.model.save(work / f"{storage.safe_name(model.name)}.onnx")
        write_samples(work / "in", samples.feeds, which="inputs")
        request = Request(
            backend=options.backend,
            model_path=str(model_path),
            options=options,
            samples_dir=str(work / "in"),
            out_dir=str(work / "out"),
        )
        job = worker.submit(request, on_progress)
        on_submit(job)
        facts = {
            "model": model,
            "probed": probed,
            "options": options,
            "role": role,
            "seed": samples.seed,
            "samples_dir": work / "in",
            "outputs_dir": work / "out",
        }
        try:
            outcome = job.result()
        except KeyboardInterrupt:
            job.cancel()
            raise
        except BackendError as error:
            write_record(path, outcome=None, failure=str(error), log=error.log, **facts)
            raise
        return write_record(path, outcome=outcome, **facts)


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
