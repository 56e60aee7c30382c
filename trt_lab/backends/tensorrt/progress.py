"""TensorRT's progress monitor as `Progress`, and the way a build is cancelled."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from trt_lab.backends.tensorrt.versions import Library
from trt_lab.types import OnProgress, Progress


@dataclass
class _Phase:
    parent: str | None
    steps: int
    done: int = 0


class BuildProgress:
    """Follows the nested phases of one build.

    Attributes:
        monitor: The IProgressMonitor to set in the builder config.
        stopped: What `on_progress` raised; the build then ends early and the caller raises it.
    """

    def __init__(self, library: Library, on_progress: OnProgress) -> None:
        self.stopped: BaseException | None = None
        self._on_progress = on_progress
        self._phases: dict[str, _Phase] = {}
        self._fraction = 0.0
        self._lock = threading.Lock()
        self.monitor = _make_monitor(library, self)

    def start(self, name: str, parent: str | None, steps: int) -> None:
        """A phase of `steps` steps begins."""
        with self._lock:
            self._phases[name] = _Phase(parent, max(1, steps))
        self._tell(name)

    def finish(self, name: str) -> None:
        """A phase is over."""
        with self._lock:
            self._phases.pop(name, None)

    def step(self, name: str, step: int) -> bool:
        """A step is done; False asks TensorRT to stop."""
        with self._lock:
            phase = self._phases.get(name)
            if phase is not None:
                phase.done = min(phase.steps, step + 1)
        self._tell(name)
        return self.stopped is None

    def fraction(self) -> float:
        """Share of the build that is done, 0 to 1; never goes back."""
        with self._lock:
            roots = [name for name, phase in self._phases.items() if phase.parent not in self._phases]
            now = self._share(roots[0], 0) if roots else 0.0
            self._fraction = max(self._fraction, min(1.0, now))
            return self._fraction

    def _share(self, name: str, depth: int) -> float:
        phase = self._phases[name]
        share = phase.done / phase.steps
        children = [child for child, info in self._phases.items() if info.parent == name]
        if children and depth < 8 and phase.done < phase.steps:
            share += max(self._share(child, depth + 1) for child in children) / phase.steps
        return share

    def _tell(self, name: str) -> None:
        if self.stopped is not None:
            return
        try:
            self._on_progress(Progress("build", self.fraction(), name))
        except BaseException as error:  # noqa: BLE001 (must not pass through TensorRT's C++ frames; the caller raises it)
            self.stopped = error


def _make_monitor(library: Library, progress: BuildProgress) -> Any:
    base = library.module.IProgressMonitor

    class Monitor(base):  # a class of the loaded library, so it can only be made here
        def __init__(self) -> None:
            base.__init__(self)

        def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
            progress.start(phase_name, parent_phase, num_steps)

        def phase_finish(self, phase_name: str) -> None:
            progress.finish(phase_name)

        def step_complete(self, phase_name: str, step: int) -> bool:
            return progress.step(phase_name, step)

    return Monitor()
