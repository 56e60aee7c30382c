"""One build and run as a record: samples in, a job in the worker, a record out."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np

from trt_lab import storage
from trt_lab.backends.jobs import Found, Request, Task
from trt_lab.backends.worker import Job, Worker
from trt_lab.edit.probe import Probed
from trt_lab.errors import BackendError, InputError
from trt_lab.model import Model
from trt_lab.record import Record, write_record
from trt_lab.samples import check_feeds, make_samples
from trt_lab.tensors import read_samples, write_samples
from trt_lab.types import BuildOptions, OnProgress, ShapeRange

Role = Literal["engine", "reference"]
SamplesSource = int | Mapping[str, np.ndarray] | Sequence[Mapping[str, np.ndarray]] | str | PathLike[str]


@dataclass(frozen=True)
class Samples:
    """Sets of inputs that fit one model.

    Attributes:
        feeds: One mapping from input name to array a sample.
        label: Where they come from, for people.
        seed: Of generated samples; None for given ones.
        notes: Ranges and sizes that were chosen, one line each.
    """

    feeds: tuple[Mapping[str, np.ndarray], ...]
    label: str
    seed: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """Number of samples."""
        return len(self.feeds)

    @classmethod
    def of(cls, model: Model, source: SamplesSource, *, seed: int = 0, shapes: Sequence[ShapeRange] = ()) -> Samples:
        """Samples from a number, arrays, or a file or folder.

        Raises:
            InputError: They do not fit the model, or there are none.
            RecordError: The file cannot be read.
        """
        if isinstance(source, int):
            if source < 1:
                raise InputError(f"{source} samples: ask for at least one")
            made = make_samples(model, source, seed, {r.name: r.opt for r in shapes} or None)
            return cls(tuple(made), f"{source} random, seed {seed}", seed, made.notes)
        if isinstance(source, (str, PathLike)):
            return cls.given(model, read_samples(source), label=Path(source).name)
        if isinstance(source, Mapping):
            return cls.given(model, [source])
        return cls.given(model, source)

    @classmethod
    def given(cls, model: Model, feeds: Sequence[Mapping[str, np.ndarray]], *, label: str = "given") -> Samples:
        """Samples from arrays, checked against the model. Raises InputError."""
        if not feeds:
            raise InputError(f"{label}: no samples; give at least one set of inputs")
        return cls(tuple(check_feeds(model, feed) for feed in feeds), f"{len(feeds)} {label}")

    def reshaped(self, model: Model, shapes: Sequence[ShapeRange]) -> Samples:
        """Generated samples anew at other shapes; given ones stay as they are."""
        if self.seed is None:
            return self
        return Samples.of(model, self.count, seed=self.seed, shapes=shapes)


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
        model_path = probed.model.save(work / "model.onnx")
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
