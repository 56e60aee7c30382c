"""Engines of the real TensorRT, each built once a session, each in the worker's process."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from trt_lab import backends
from trt_lab.backends.jobs import Outcome, Request
from trt_lab.backends.worker import Worker
from trt_lab.model import Model
from trt_lab.tensors import open_samples, write_samples
from trt_lab.types import BuildOptions, Progress

Feeds = Sequence[Mapping[str, np.ndarray]]


@dataclass(frozen=True)
class Engine:
    """What one job gave."""

    outcome: Outcome
    outputs: list[Mapping[str, np.ndarray]]
    folder: Path

    def worst(self, reference: Feeds) -> float:
        """Largest |engine − reference| over all samples and outputs of the reference; infinite when one is not finite."""
        differences = [
            np.abs(mine[name].astype(np.float64) - theirs[name].astype(np.float64)).max(initial=0.0)
            for mine, theirs in zip(self.outputs, reference, strict=True)
            for name in theirs
        ]
        return float(max(differences)) if np.isfinite(differences).all() else float("inf")


class Lab:
    """Builds and runs in the worker."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.worker = Worker(limit_s=500)
        self._numbers = itertools.count()

    def request(self, model: Model, options: BuildOptions, feeds: Feeds) -> Request:
        """A request with its files written."""
        work = self.folder / f"{next(self._numbers):03d}"
        work.mkdir()
        path = model.save(work / "model.onnx")
        write_samples(work / "in", feeds, which="inputs")
        return Request(options.backend, str(path), options, str(work / "in"), str(work / "out"))

    def run(
        self, model: Model, options: BuildOptions, feeds: Feeds, on_progress: Callable[[Progress], None] | None = None
    ) -> Engine:
        """Builds, runs and profiles."""
        request = self.request(model, options, feeds)
        outcome = self.worker.submit(request, on_progress).result(500)
        out = Path(request.out_dir)
        return Engine(outcome, open_samples(out / "samples", which="outputs"), out)

    def reference(self, model: Model, feeds: Feeds) -> list[Mapping[str, np.ndarray]]:
        """Outputs of ONNX Runtime, FP32, optimiser off."""
        return self.run(model, BuildOptions(backend="onnxruntime", optimizer=False, profile_runs=0), feeds).outputs


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """The worker, and what it builds; skipped where full TensorRT cannot build."""
    info = backends.get("tensorrt").info()
    if not info.can_build:
        pytest.skip(f"TensorRT cannot build here: {info.reason}")
    made = Lab(tmp_path_factory.mktemp("gpu"))
    yield made
    made.worker.close()


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of timing caches that starts empty."""
    return tmp_path_factory.mktemp("timing")
