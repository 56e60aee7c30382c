"""Runs jobs in a child process that may die: the kernel lives, the error is one line, the next job works."""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import logging
import os
import signal
import threading
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import Pipe
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

from loky import ProcessPoolExecutor

from trt_lab.backends import child
from trt_lab.backends.crash import describe_crash, describe_limit
from trt_lab.backends.jobs import Found, Outcome, Request, Task
from trt_lab.errors import BackendError, CancelledError, TrtLabError, UsageError, WorkerCrashedError
from trt_lab.types import OnProgress, Progress

CANCEL_GRACE_S = 1.5
"""A job that does not stop by itself within this time of a cancel is killed; all in all that stays under 2 s."""

DEATH_S = 10.0
"""Longest wait for the exit code of a process that died."""

USUAL_WIDTH = 4
"""Jobs sent at once to an executor that does not tell how many it runs side by side, such as that of Dask."""

DRAIN_S = 1.0
"""Longest wait for progress that is still under way when a job has ended."""

Result = TypeVar("Result")

_log = logging.getLogger(__name__)
_numbers = itertools.count(1)


class Job(Generic[Found]):
    """One request under way. All methods may be called from any thread."""

    def __init__(
        self,
        request: Request | Task[Found],
        on_progress: OnProgress | None,
        limit_s: float | None,
        cancel: Callable[[Job[Any]], None],
    ) -> None:
        """Made by `Worker.submit`."""
        self.request = request
        self.progress = Progress("queued")
        """The newest step that was told."""
        self.limit_s = limit_s
        self.id = f"{os.getpid()}-{next(_numbers)}"
        self.started = False
        self.retried = False
        self.cancelled = False
        self.drained = threading.Event()
        self._on_progress = on_progress
        self._cancel = cancel
        self._future: concurrent.futures.Future[Found] = concurrent.futures.Future()
        self._timers: list[threading.Timer] = []
        self._lock = threading.Lock()

    def result(self, timeout: float | None = None) -> Found:
        """Waits for the outcome.

        Args:
            timeout: Seconds to wait; the job goes on when they are over.

        Raises:
            TimeoutError: Not done within `timeout`.
            WorkerCrashedError: The process died, or ran past its limit.
            CancelledError: It was cancelled.
            TrtLabError: As `jobs.execute` raised it.
        """
        return self._future.result(timeout)

    def cancel(self) -> None:
        """Stops the job: asks first, kills its process after `CANCEL_GRACE_S`. Done is left as it is."""
        self._cancel(self)

    def done(self) -> bool:
        """Whether `result` returns or raises at once."""
        return self._future.done()

    def add_done_callback(self, callback: Callable[[Job[Found]], object]) -> None:
        """Calls `callback(job)` once it is done, from any thread; at once when it is done already."""
        self._future.add_done_callback(lambda _: callback(self))

    # --- for the worker --------------------------------------------------------------------

    def tell(self, progress: Progress) -> None:
        """Passes a step on. A callback that fails is logged and harms nothing; `CancelledError` cancels the job."""
        if self.done():
            return
        self.progress = progress
        if self._on_progress is None:
            return
        try:
            self._on_progress(progress)
        except CancelledError:
            self.cancel()
        except Exception:  # noqa: BLE001 (the callback is the user's; it is logged)
            _log.exception("the progress callback of a job failed")

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Calls `action` later, unless the job is done by then."""
        timer = threading.Timer(seconds, action)
        timer.daemon = True
        with self._lock:
            if self.done():
                return
            self._timers.append(timer)
        timer.start()

    def finish(self, outcome: Found | None, error: BaseException | None = None) -> None:
        """Ends the job; the first call counts."""
        with self._lock:
            if self._future.done():
                return
            timers = list(self._timers)
        for timer in timers:
            timer.cancel()
        with contextlib.suppress(concurrent.futures.InvalidStateError):  # another thread was first
            if error is None and outcome is not None:
                self._future.set_result(outcome)
            else:
                self._future.set_exception(error)


class _Child:
    """One worker process and the connection to it."""

    def __init__(self, on_message: Callable[[child.Told], None]) -> None:
        self._ours, self._theirs = Pipe()
        self._on_message = on_message
        self._sending = threading.Lock()
        self._executor = ProcessPoolExecutor(1, initializer=child.start, initargs=(self._theirs, os.getpid()))
        self._processes: list[Any] = []
        self._closed = False
        threading.Thread(target=self._read, name="trt-lab-worker", daemon=True).start()

    def submit(self, function: Callable[..., Result], *args: object) -> concurrent.futures.Future[Result]:
        future = self._executor.submit(function, *args)
        self._processes = list((self._executor._processes or {}).values())
        return future

    def exit_codes(self) -> str:
        """How the process ended, as loky writes it: `SIGKILL(-9)`, or `EXIT(3)`; "" when it is not known.

        loky waits a quarter of a second for it; a process that holds a GPU takes longer to be gone.
        """
        for process in self._processes:
            process.join(DEATH_S)
        codes = [process.exitcode for process in self._processes if process.exitcode is not None]
        return " ".join(f"{signal.Signals(-code).name if code < 0 else 'EXIT'}({code})" for code in codes)

    def ask_to_stop(self, job: Job[Any]) -> None:
        with self._sending:
            if not self._closed:
                self._ours.send(job.id)

    def drain(self, job: Job[Any]) -> None:
        """Waits until all that the process told about `job` was passed on.

        The message goes in at the child's end, so behind all that the child sent before.
        """
        with self._sending:
            if self._closed:
                return
            self._theirs.send(child.Told("drained", job.id))
        job.drained.wait(DRAIN_S)

    def kill(self) -> None:
        """Ends the process at once. Safe to call twice."""
        with self._sending:
            if self._closed:
                return
            self._closed = True
            self._theirs.send(child.Told("end", ""))
        self._executor.shutdown(wait=False, kill_workers=True)

    def _read(self) -> None:
        try:
            while (message := self._ours.recv()).kind != "end":
                self._on_message(message)
        except (EOFError, OSError):
            pass
        finally:
            self._ours.close()
            self._theirs.close()


class Worker:
    """Runs jobs one after the other in a child process that is kept warm.

    The process is started by loky (a fresh interpreter, no fork), so it does not matter what threads or
    libraries the kernel has. It ends with the kernel.

    Args:
        executor: Runs the jobs instead, as many at once as it likes; anything with the interface of
            `concurrent.futures.Executor`, such as `dask.distributed.Client.get_executor()`. There is no
            progress then, and a cancelled job may go on unheard.
        limit_s: Jobs that run longer are killed; None for no limit. Waiting for another build does not count.
        lock_path: File that is locked while a job runs; by default one for each user of the machine.

    Example:
        >>> job = default_worker().submit(request, print)
        >>> outcome = job.result()
    """

    def __init__(
        self,
        executor: concurrent.futures.Executor | None = None,
        *,
        limit_s: float | None = None,
        lock_path: str | os.PathLike[str] | None = None,
    ) -> None:
        self._executor = executor
        self._limit_s = limit_s
        self._lock_path = Path(lock_path) if lock_path is not None else None
        self._closed = False
        self._start_over()
        _workers.add(self)

    @overload
    def submit(
        self, request: Request, on_progress: OnProgress | None = None, *, limit_s: float | None = None
    ) -> Job[Outcome]: ...

    @overload
    def submit(
        self, request: Task[Found], on_progress: OnProgress | None = None, *, limit_s: float | None = None
    ) -> Job[Found]: ...

    def submit(
        self, request: Request | Task[Any], on_progress: OnProgress | None = None, *, limit_s: float | None = None
    ) -> Job[Any]:
        """Queues a job.

        Args:
            on_progress: Called from a thread of the worker for every step.
            limit_s: For this job, instead of the worker's.

        Raises:
            UsageError: The worker was closed.
        """
        limit = self._limit_s if limit_s is None else limit_s
        job: Job[Any] = Job(request, on_progress, limit, self._cancel)
        if self._executor is not None:
            self._submit_elsewhere(self._executor, job)
            return job
        with self._lock:
            self._check_open()
            self._pending.append(job)
        self._dispatch()
        return job

    def warm(self) -> concurrent.futures.Future[int]:
        """Starts a process and its imports, and returns at once; the future gives the id of that process."""
        with self._lock:
            self._check_open()
            if self._executor is not None:
                return self._executor.submit(child.preload)
            return self._send(child.preload)

    @property
    def width(self) -> int:
        """Jobs that run side by side: 1 in the child process; with an executor what it tells, else `USUAL_WIDTH`."""
        return 1 if self._executor is None else int(getattr(self._executor, "_max_workers", None) or USUAL_WIDTH)

    def close(self) -> None:
        """Ends the process; jobs that are not done raise `CancelledError`. Safe to call twice."""
        with self._lock:
            self._closed = True
            left = [*self._pending, *([self._current] if self._current is not None else [])]
            self._pending.clear()
            self._current = None
            old, self._child = self._child, None
        if old is not None:
            old.kill()
        for job in left:
            job.finish(None, CancelledError("cancelled: the worker was closed"))

    # --- inside ----------------------------------------------------------------------------

    def _start_over(self) -> None:
        self._lock = threading.RLock()
        self._pending: deque[Job[Any]] = deque()
        self._current: Job[Any] | None = None
        self._child: _Child | None = None

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("the worker was closed; make a new one")

    def _send(self, function: Callable[..., Result], *args: object) -> concurrent.futures.Future[Result]:
        """Gives work to the process, to a new one when the old one died meanwhile. Called with the lock held."""
        if self._child is not None:
            try:
                return self._child.submit(function, *args)
            except (BrokenProcessPool, RuntimeError):
                self._child.kill()
        self._child = _Child(self._heard)
        future = self._child.submit(function, *args)
        _end_with_interpreter()
        return future

    def _dispatch(self) -> None:
        with self._lock:
            if self._current is not None or not self._pending:
                return
            job = self._current = self._pending.popleft()
            lock_path = self._lock_path if self._lock_path is not None else child.default_lock_path()
            try:
                future = self._send(child.run, job.id, job.request, str(lock_path))
            except OSError as error:  # no memory, no processes or no files left
                self._current = None
                failure = BackendError(f"no worker process can be started ({error.strerror}); close other programs")
                job.finish(None, failure)
                return
            process = self._child
        future.add_done_callback(lambda done: self._ended(job, process, done))

    def _heard(self, message: child.Told) -> None:
        with self._lock:
            job = self._current
        if job is None or job.id != message.job_id:
            return
        if message.kind == "started":
            job.started = True
        elif message.kind == "running" and job.limit_s is not None:
            limit = job.limit_s
            job.after(
                limit, lambda: self._kill(job, WorkerCrashedError(describe_limit(job.request, job.progress, limit)))
            )
        elif message.kind == "progress" and message.progress is not None:
            job.tell(message.progress)
        elif message.kind == "drained":
            job.drained.set()

    def _ended(self, job: Job[Any], process: _Child | None, future: concurrent.futures.Future[Any]) -> None:
        if not job.done() and process is not None:
            process.drain(job)
        error = future.exception()
        died = isinstance(error, BrokenProcessPool)
        with self._lock:
            if self._current is not job:
                return  # killed: `_kill` has ended it
            self._current = None
            if died and self._child is process:
                self._child = None
            again = died and not (job.started or job.retried or job.cancelled)
            if again:  # the process died before the job reached it, so the job is not to blame
                job.retried = True
                job.drained.clear()
                self._pending.appendleft(job)
        codes = ""
        if died and process is not None:
            codes = process.exit_codes()
            process.kill()
        if not again:
            job.finish(None if error else future.result(), self._translated(job, error, codes))
            if died:
                self._warm_again()
        self._dispatch()

    def _translated(self, job: Job[Any], error: BaseException | None, codes: str = "") -> BaseException | None:
        if error is None or isinstance(error, TrtLabError):
            return error
        if isinstance(error, concurrent.futures.BrokenExecutor):
            if job.cancelled:
                return CancelledError("cancelled")
            return WorkerCrashedError(describe_crash(f"{error} {codes}", job.request, job.progress))
        text = " ".join(str(error).split())[:300]
        return BackendError(f"{Path(job.request.model_path).name}: the worker failed ({type(error).__name__}: {text})")

    def _cancel(self, job: Job[Any]) -> None:
        with self._lock:
            if job.done() or job.cancelled:
                return
            job.cancelled = True
            queued = job in self._pending
            if queued:
                self._pending.remove(job)
            process = self._child if self._current is job else None
        if queued:
            job.finish(None, CancelledError("cancelled"))
            return
        if process is not None:
            process.ask_to_stop(job)
        job.after(CANCEL_GRACE_S, lambda: self._kill(job, CancelledError("cancelled")))

    def _kill(self, job: Job[Any], error: TrtLabError) -> None:
        """Ends a job by ending its process."""
        with self._lock:
            mine = self._current is job
            process = self._child if mine else None
            if mine:
                self._current = self._child = None
        if process is not None:
            process.kill()
        job.finish(None, error)
        if mine:
            self._warm_again()
            self._dispatch()

    def _warm_again(self) -> None:
        """Has a process ready for the next job, so that a crash costs no second wait."""
        with self._lock:
            if not self._closed and self._child is None:
                self._send(child.preload)

    def _submit_elsewhere(self, executor: concurrent.futures.Executor, job: Job[Any]) -> None:
        self._check_open()
        future = executor.submit(child.run_elsewhere, job.request)

        def ended(done: concurrent.futures.Future[Any]) -> None:
            if done.cancelled():
                job.finish(None, CancelledError("cancelled"))
                return
            error = done.exception()
            job.finish(None if error else done.result(), self._translated(job, error))

        def cancelled() -> None:
            if not future.cancel():
                _log.info("a cancelled job goes on in the executor; its outcome is dropped")

        future.add_done_callback(ended)
        job.add_done_callback(lambda _: None if future.done() else cancelled())
        if job.limit_s is not None:
            limit = job.limit_s
            late = WorkerCrashedError(describe_limit(job.request, job.progress, limit))
            job.after(limit, lambda: job.finish(None, late))


_workers: weakref.WeakSet[Worker] = weakref.WeakSet()
_default: Worker | None = None
_default_lock = threading.Lock()
_ends_with_interpreter = False


def default_worker() -> Worker:
    """The worker that all sessions of this process share."""
    global _default
    with _default_lock:
        if _default is None or _default._closed:
            _default = Worker()
        return _default


def _end_with_interpreter() -> None:
    """Has all processes killed when the interpreter ends.

    loky waits there for jobs under way. Hooks of `threading` run last first, and loky sets its own when its
    first process starts, so this one is set right after. `atexit` would come too late.
    """
    global _ends_with_interpreter
    if not _ends_with_interpreter:
        _ends_with_interpreter = True
        threading._register_atexit(_close_all)  # pyright: ignore[reportAttributeAccessIssue] (as loky and concurrent.futures do)


def _close_all() -> None:
    for worker in list(_workers):
        worker.close()


def _forget_after_fork() -> None:
    """A forked process has neither the threads nor the child of its parent: its workers begin anew."""
    global _default_lock, _ends_with_interpreter
    _default_lock = threading.Lock()
    _ends_with_interpreter = False
    for worker in list(_workers):
        worker._start_over()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
