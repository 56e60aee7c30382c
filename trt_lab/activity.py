"""What a session is doing: one thing at a time, told by a status, stopped by `cancel`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import RLock, Thread
from typing import Literal

from trt_lab.backends.worker import Job
from trt_lab.errors import CancelledError, TrtLabError, UsageError
from trt_lab.types import OnProgress, Progress


@dataclass(frozen=True)
class Status:
    """What the session is doing, for a status bar. `fraction` is None while the length is unknown."""

    state: Literal["idle", "busy", "failed", "done"]
    text: str
    fraction: float | None = None


class Activity:
    """At most one build, run or search at a time.

    Args:
        notify: Called after each change of `status`, in the thread that made it.
    """

    def __init__(self, notify: Callable[[], None]) -> None:
        self._notify = notify
        self._lock = RLock()
        self._jobs: list[Job] = []
        self._cancelled = False
        self.busy = False
        self.status = Status("idle", "not built yet")

    def set(self, status: Status) -> None:
        """Shows another status."""
        self.status = status
        self._notify()

    def tell(self, progress: Progress) -> None:
        """Shows a step of what is under way."""
        self.set(Status("busy", f"{progress.phase}: {progress.message}".rstrip(": "), progress.fraction))

    def refuse(self, what: str) -> None:
        """Raises UsageError when something is under way."""
        if self.busy:
            raise UsageError(f"cannot {what} while a build is running; wait for it or cancel it")

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """Marks the block as what is under way, and its end or error as the status.

        Raises:
            UsageError: Something else is.
        """
        with self._lock:
            self.refuse(what)
            self.busy, self._cancelled = True, False
        self.set(Status("busy", f"{what}: starting"))
        end = Status("failed", f"{what} stopped by an unexpected error")
        try:
            yield
            end = Status("done", f"{what} done")
        except CancelledError:
            end = Status("idle", "cancelled")
            raise
        except TrtLabError as error:
            end = Status("failed", str(error))
            raise
        finally:
            with self._lock:
                self.busy, self._jobs = False, []
            self.set(end)

    def submitted(self, job: Job) -> None:
        """Makes `job` one that `cancel` stops; several can be under way in an executor."""
        with self._lock:
            self._jobs = [*(known for known in self._jobs if not known.done()), job]
            cancelled = self._cancelled
        if cancelled:
            job.cancel()

    def telling(self, report: OnProgress) -> OnProgress:
        """Progress for the status as well as for `report`."""

        def tell(progress: Progress) -> None:
            self.tell(progress)
            report(progress)

        return tell

    def cancel(self) -> None:
        """Stops what is under way; does nothing when nothing is."""
        with self._lock:
            self._cancelled = self.busy
            jobs = list(self._jobs)
        for job in jobs:
            job.cancel()

    def start(self, what: str, work: Callable[[], object]) -> None:
        """Runs `work`, which marks itself by `doing`, in a thread; its error is told by the status.

        Raises:
            UsageError: Something is under way.
        """
        self.refuse(what)

        def run() -> None:
            with suppress(TrtLabError):
                work()

        Thread(target=run, name=f"trt-lab-{what}", daemon=True).start()


def silent(progress: Progress) -> None:
    """Drops progress that nobody asked for."""
