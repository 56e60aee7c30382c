"""Plays a record back: the layers, times and outputs that another machine left, with no engine at all."""

from __future__ import annotations

import numpy as np

from trt_lab.backends.base import Built, Feeds, Profile, Recording, Runner
from trt_lab.errors import BackendUnavailableError, RunError
from trt_lab.model import Model
from trt_lab.types import BackendInfo, BuildOptions, OnProgress, Progress

_WITHOUT = "plays records back and builds nothing: open one with trt_lab.Record.open(PATH)"


class Recorded:
    """A backend over one record; without one it can do nothing, and says so."""

    name = "recorded"

    def __init__(self, recording: Recording | None = None) -> None:
        self._recording = recording

    def info(self) -> BackendInfo:
        """Can run what it has recorded; can never build anything else."""
        if self._recording is None:
            return BackendInfo(self.name, None, can_build=False, can_run=False, reason=_WITHOUT)
        count = self._recording.samples
        return BackendInfo(
            self.name, None, can_build=False, can_run=True,
            reason=f"plays back '{self._recording.name}': {count} samples, nothing else can be run",
        )  # fmt: skip

    def build(self, model: Model, options: BuildOptions, on_progress: OnProgress) -> Built:
        """Gives what was recorded.

        Args:
            model: Not looked at: the record holds the model it was made of.
            options: Not looked at either; those of the build are in the record.

        Raises:
            BackendUnavailableError: There is no record.
        """
        recording = self._need()
        on_progress(Progress("build", 1.0, f"read from '{recording.name}'"))
        return Built(
            tuple(recording.layers), tuple(recording.log()), 0.0, {"recorded": recording.name}, handle=recording
        )

    def open(self, built: Built) -> Runner:
        """A runner that answers from the record."""
        return Playback(built.handle)

    def _need(self) -> Recording:
        if self._recording is None:
            raise BackendUnavailableError(f"the backend 'recorded' {_WITHOUT}")
        return self._recording


class Playback:
    """Answers runs from a record."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def run(self, feeds: Feeds) -> dict[str, np.ndarray]:
        """Outputs of the sample whose inputs are bit for bit these.

        Raises:
            RunError: No such sample was recorded.
        """
        for index in range(self._recording.samples):
            if _same(self._recording.inputs(index), feeds):
                return dict(self._recording.outputs(index))
        raise RunError(
            f"'{self._recording.name}' has no sample with these inputs: it plays back its "
            f"{self._recording.samples} samples only; build an engine to run others"
        )

    def profile(self, feeds: Feeds, repeats: int) -> Profile:
        """The times that were recorded, however many runs they had."""
        return Profile(tuple(self._recording.times), tuple(self._recording.latency_ms))

    def close(self) -> None:
        """There is nothing to free."""


def _same(recorded: Feeds, given: Feeds) -> bool:
    return set(recorded) == set(given) and all(
        _equal(np.asarray(given[name]), array) for name, array in recorded.items()
    )


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype == object:
        return bool(np.array_equal(a, b))
    return a.tobytes() == b.tobytes()
