"""What runs in the worker process: one job at a time, watched by a thread that hears the parent.

The parent and this process share one connection. Parent to child: the id of a job to cancel. Child to
parent: `Told` messages. When the connection ends, the parent is gone, and so is this process.
"""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

import filelock
import platformdirs
from loky import process_executor

from trt_lab.backends.jobs import Outcome, Request, Task, execute
from trt_lab.backends.output import OUTPUT_FILE, log_lines, printed_to
from trt_lab.errors import BackendError, CancelledError
from trt_lab.types import OnProgress, Progress

PARENT_CHECK_S = 2.0
"""How often the parent's life is asked for, should another process hold its end of the connection open."""

GROWTH_BYTES = 6 * 2**30
"""A process that grows by more is replaced after its job."""

PROGRESS_EVERY_S = 0.03
"""Messages of one phase that come closer together are left out."""

LOCK_PATIENCE_S = 0.25
"""Waiting for the machine's lock is told after this time."""


@dataclass(frozen=True)
class Told:
    """A message to the parent. `started`: the job arrived; `running`: it has the machine's lock."""

    kind: Literal["started", "running", "progress", "drained", "end"]
    job_id: str
    progress: Progress | None = None


_parent: Connection | None = None
_sending = threading.Lock()
_cancelled: dict[str, threading.Event] = {}


def start(connection: Connection, parent_pid: int) -> None:
    """Initializer of the worker process."""
    global _parent
    # An interrupt of the notebook goes to the whole process group; what becomes of the job is the parent's choice.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # loky replaces a process that has grown by 300 MB; the libraries of TensorRT are larger, and take 13 s to load.
    process_executor._MAX_MEMORY_LEAK_SIZE = GROWTH_BYTES
    _parent = connection
    threading.Thread(target=_listen, args=(connection, parent_pid), name="trt-lab-parent", daemon=True).start()


def preload() -> int:
    """Gives the id of this process; to unpickle it, this module and all it imports are loaded."""
    return os.getpid()


def run(job_id: str, request: Request | Task[Any], lock_path: str) -> Any:
    """Runs one job. Raises what `jobs.execute` raises, `CancelledError` when the parent asked."""
    _send(Told("started", job_id))
    cancelled = _cancelled.setdefault(job_id, threading.Event())
    last = ("", 0.0)

    def tell(progress: Progress) -> None:
        nonlocal last
        if cancelled.is_set():
            raise CancelledError("cancelled")
        now = time.monotonic()
        if progress.phase != last[0] or progress.fraction == 1.0 or now - last[1] >= PROGRESS_EVERY_S:
            last = (progress.phase, now)
            _send(Told("progress", job_id, progress))

    try:
        with machine_lock(lock_path, tell):
            _send(Told("running", job_id))
            started = datetime.now()
            printed = Path(request.out_dir) / OUTPUT_FILE
            try:
                with printed_to(printed):
                    outcome = execute(request, tell)
            except BackendError as error:
                error.log = (*error.log, *log_lines(printed, started))
                raise
            if not isinstance(outcome, Outcome):
                return outcome
            return replace(outcome, log=(*outcome.log, *log_lines(printed, started)))
    finally:
        _cancelled.pop(job_id, None)


def run_elsewhere(request: Request | Task[Any]) -> Any:
    """Runs one job in an executor that trt-lab did not start: a thread, or a process of any machine."""
    with machine_lock(str(default_lock_path()), _silent):
        return execute(request, _silent)


def default_lock_path() -> Path:
    """File that a build locks, one for each user of a machine; a home folder may be shared by several machines."""
    return platformdirs.user_cache_path("trt-lab", ensure_exists=True) / f"build-{platform.node() or 'here'}.lock"


@contextlib.contextmanager
def machine_lock(path: str, on_progress: OnProgress) -> Iterator[None]:
    """Holds the machine's build lock; the system frees it when the process dies.

    Raises:
        BackendError: The lock file cannot be made.
        CancelledError: From `on_progress`, while waiting.
    """
    lock = filelock.FileLock(path)
    patience = LOCK_PATIENCE_S
    while True:
        try:
            lock.acquire(timeout=patience, poll_interval=0.02)
            break
        except filelock.Timeout:
            on_progress(Progress("wait", None, "waiting for another build"))
        except OSError as error:
            raise BackendError(f"{path}: cannot be locked ({error.strerror}); make its folder writable") from error
    try:
        yield
    finally:
        lock.release()


def _send(message: Told) -> None:
    if _parent is None:
        return
    # A parent that closed its end is gone or no longer cares: `_listen` ends this process then.
    with _sending, contextlib.suppress(OSError):
        _parent.send(message)


def _listen(connection: Connection, parent_pid: int) -> None:
    while True:
        try:
            if connection.poll(PARENT_CHECK_S):
                _cancelled.setdefault(connection.recv(), threading.Event()).set()
            elif os.getppid() != parent_pid:
                os._exit(0)
        except (EOFError, OSError):
            os._exit(0)


def _silent(_: Progress) -> None:
    """Progress that nobody hears."""
