"""The worker process: real jobs, real crashes."""

from __future__ import annotations

import concurrent.futures
import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
from filelock import FileLock

from trt_lab import zoo
from trt_lab.backends.jobs import Request
from trt_lab.backends.worker import CANCEL_GRACE_S, Worker
from trt_lab.errors import BackendError, CancelledError, RunError, UsageError, WorkerCrashedError
from trt_lab.model import Model
from trt_lab.samples import make_samples
from trt_lab.tensors import read_samples, write_samples
from trt_lab.types import BuildOptions, PrecisionPlan, Progress

PATIENCE_S = 60
"""Nothing here takes that long; a test that waits so long has failed."""


class Fatal:
    """Build options that do something terrible when the worker process reads them."""

    def __init__(self, how: str) -> None:
        self.how = how
        self.home = os.getpid()

    def __getattr__(self, name: str) -> object:
        if name.startswith("__") or os.getpid() == self.home:
            raise AttributeError(name)
        match self.how:
            case "SIGSEGV":
                ctypes.string_at(0)
            case "SIGABRT":
                os.write(2, b"free(): invalid pointer\n")
                os.abort()
            case "exit":
                os._exit(3)
            case "hang":
                threading.Event().wait()
            case "bug":
                raise ZeroDivisionError("a bug")
            case signal_name:
                os.kill(os.getpid(), getattr(signal, signal_name))
                threading.Event().wait()
        raise AssertionError("it should be dead")


@pytest.fixture
def request_for(tmp_path: Path) -> Callable[..., Request]:
    """Makes requests of a small model; `samples` feeds each."""
    model = zoo.get("l2norm_overflow")
    path = model.model.save(tmp_path / "l2norm.onnx")
    numbers = iter(range(1000))

    def make(samples: int = 1, **options: object) -> Request:
        folder = tmp_path / f"job{next(numbers)}"
        feeds = [model.feeds[i % len(model.feeds)] for i in range(samples)]
        write_samples(folder / "in", feeds, which="inputs")
        wanted = BuildOptions(profile_runs=0, **options)  # pyright: ignore[reportArgumentType] (given by the tests)
        return Request("onnxruntime", str(path), wanted, str(folder / "in"), str(folder / "out"))

    return make


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    """A worker with a lock of its own, so that tests wait for nobody."""
    made = Worker(lock_path=tmp_path / "build.lock")
    yield made
    made.close()


def fatal(request: Request, how: str) -> Request:
    return replace(request, options=Fatal(how))  # pyright: ignore[reportArgumentType] (that is the point)


def test_a_job_leaves_outputs_and_tells_its_steps(worker: Worker, request_for: Callable[..., Request]) -> None:
    request = replace(request_for(2), options=BuildOptions(profile_runs=3))
    seen: list[Progress] = []
    outcome = worker.submit(request, seen.append).result(PATIENCE_S)
    assert outcome.samples == 2
    assert outcome.layers and outcome.times and len(outcome.latency_ms) == 3
    outputs = read_samples(Path(request.out_dir), which="outputs")
    assert [set(sample) for sample in outputs] == [set(outcome.output_names)] * 2
    phases = list(dict.fromkeys(step.phase for step in seen))
    assert phases == ["build", "run", "profile", "done"]
    fractions = [step.fraction for step in seen if step.fraction is not None]
    assert fractions == sorted(fractions) and fractions[-1] == 1.0


def test_the_process_stays_warm(worker: Worker, request_for: Callable[..., Request]) -> None:
    before = worker.warm().result(PATIENCE_S)
    worker.submit(request_for()).result(PATIENCE_S)
    assert worker.warm().result(PATIENCE_S) == before != os.getpid()


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("SIGSEGV", ["SIGSEGV", "invalid memory access", "build", "onnxruntime"]),
        ("SIGKILL", ["SIGKILL", "out of memory", "fewer"]),
        ("SIGABRT", ["SIGABRT", 'last words: "free(): invalid pointer"']),
        ("exit", ["exit code 3"]),
    ],
)
def test_a_crash_is_one_line_and_the_next_job_works(
    worker: Worker, request_for: Callable[..., Request], how: str, words: list[str]
) -> None:
    with pytest.raises(WorkerCrashedError) as caught:
        worker.submit(fatal(request_for(), how)).result(PATIENCE_S)
    message = str(caught.value)
    assert "\n" not in message and "l2norm" in message and "next build works" in message
    for word in words:
        assert word in message
    assert worker.submit(request_for()).result(PATIENCE_S).samples == 1


def test_twenty_crashes_in_a_row_between_good_builds(worker: Worker, request_for: Callable[..., Request]) -> None:
    reference = None
    for number in range(20):
        how = ("SIGSEGV", "SIGKILL")[number % 2]
        bad, good = worker.submit(fatal(request_for(), how)), request_for()
        job = worker.submit(good)  # queued behind the one that dies
        with pytest.raises(WorkerCrashedError, match=how):
            bad.result(PATIENCE_S)
        assert job.result(PATIENCE_S).samples == 1
        values = read_samples(Path(good.out_dir), which="outputs")[0]
        if reference is None:
            reference = values
        for name, array in values.items():
            np.testing.assert_array_equal(array, reference[name])


def test_a_process_killed_between_jobs_is_replaced(worker: Worker, request_for: Callable[..., Request]) -> None:
    process = psutil.Process(worker.warm().result(PATIENCE_S))
    process.kill()
    assert worker.submit(request_for()).result(PATIENCE_S).samples == 1


def test_errors_of_the_job_arrive_as_they_are(worker: Worker, request_for: Callable[..., Request]) -> None:
    with pytest.raises(UsageError, match="timing cache"):
        worker.submit(request_for(timing_cache="x")).result(PATIENCE_S)
    with pytest.raises(BackendError, match="failed unexpectedly") as caught:
        worker.submit(fatal(request_for(), "bug")).result(PATIENCE_S)
    assert "ZeroDivisionError: a bug" in str(caught.value) and "\n" not in str(caught.value)


def test_a_failed_job_brings_the_log_along(worker: Worker, request_for: Callable[..., Request], shared: Path) -> None:
    bad = shared / "real_inputs/onnx/Polygraphy/tests/models/bad_graph_conditionally_invalid.onnx"
    request = replace(request_for(), model_path=str(bad))
    write_samples(request.samples_dir, make_samples(Model.load(bad), 1), which="inputs")
    with pytest.raises(RunError, match="MatMul dimension mismatch") as caught:
        worker.submit(request).result(PATIENCE_S)
    (line,) = [line for line in caught.value.log if line.severity == "error"]
    assert "MatMul" in line.message and line.source == "onnxruntime"


def test_cancel_asks_first_and_keeps_the_process(worker: Worker, request_for: Callable[..., Request]) -> None:
    process = worker.warm().result(PATIENCE_S)
    running = threading.Event()
    job = worker.submit(request_for(3000), lambda step: running.set() if step.phase == "run" else None)
    assert running.wait(PATIENCE_S)
    job.cancel()
    started = time.monotonic()
    with pytest.raises(CancelledError):
        job.result(PATIENCE_S)
    assert time.monotonic() - started < CANCEL_GRACE_S
    assert worker.warm().result(PATIENCE_S) == process
    assert worker.submit(request_for()).result(PATIENCE_S).samples == 1


def test_an_interrupt_of_the_notebook_does_not_reach_the_job(
    worker: Worker, request_for: Callable[..., Request]
) -> None:
    """Jupyter interrupts the whole process group."""
    process = worker.warm().result(PATIENCE_S)
    running = threading.Event()
    job = worker.submit(request_for(50), lambda step: running.set())
    assert running.wait(PATIENCE_S)
    os.kill(process, signal.SIGINT)
    assert job.result(PATIENCE_S).samples == 50
    assert worker.warm().result(PATIENCE_S) == process


def test_a_build_that_does_not_listen_is_killed(worker: Worker, request_for: Callable[..., Request]) -> None:
    process = psutil.Process(worker.warm().result(PATIENCE_S))
    building = threading.Event()
    job = worker.submit(fatal(request_for(), "hang"), lambda step: building.set())
    assert building.wait(PATIENCE_S)
    started = time.monotonic()
    job.cancel()
    with pytest.raises(CancelledError):
        job.result(PATIENCE_S)
    assert time.monotonic() - started < 2.0
    process.wait(PATIENCE_S)
    assert worker.submit(request_for()).result(PATIENCE_S).samples == 1


def test_cancel_of_a_queued_job_leaves_the_running_one(worker: Worker, request_for: Callable[..., Request]) -> None:
    running = threading.Event()
    first = worker.submit(request_for(50), lambda step: running.set())
    assert running.wait(PATIENCE_S)
    second = worker.submit(request_for())
    second.cancel()
    with pytest.raises(CancelledError):
        second.result(PATIENCE_S)
    assert first.result(PATIENCE_S).samples == 50
    second.cancel()
    first.cancel()
    assert first.result(0).samples == 50


def test_progress_callback_can_cancel_and_its_failure_harms_nothing(
    worker: Worker, request_for: Callable[..., Request]
) -> None:
    def stop(step: Progress) -> None:
        raise CancelledError

    with pytest.raises(CancelledError):
        worker.submit(request_for(3000), stop).result(PATIENCE_S)

    def fail(step: Progress) -> None:
        raise ValueError("the user's own bug")

    assert worker.submit(request_for(), fail).result(PATIENCE_S).samples == 1


def test_a_job_past_its_limit_is_killed_and_named(worker: Worker, request_for: Callable[..., Request]) -> None:
    job = worker.submit(fatal(request_for(), "hang"), limit_s=0.3)
    with pytest.raises(WorkerCrashedError, match=r"limit of 0\.3 s.*raise the limit"):
        job.result(PATIENCE_S)
    assert worker.submit(request_for(), limit_s=PATIENCE_S).result(PATIENCE_S).samples == 1


def test_waiting_for_another_build_is_told(worker: Worker, request_for: Callable[..., Request], tmp_path: Path) -> None:
    waiting = threading.Event()
    with FileLock(tmp_path / "build.lock"):
        job = worker.submit(
            request_for(), lambda step: waiting.set() if step.message == "waiting for another build" else None
        )
        assert waiting.wait(PATIENCE_S)
        assert not job.done()
    assert job.result(PATIENCE_S).samples == 1


def test_two_workers_build_one_after_the_other(request_for: Callable[..., Request], tmp_path: Path) -> None:
    workers = [Worker(lock_path=tmp_path / "build.lock") for _ in range(2)]
    try:
        jobs = [worker.submit(request_for(20)) for worker in workers for _ in range(2)]
        assert [job.result(PATIENCE_S).samples for job in jobs] == [20] * 4
    finally:
        for worker in workers:
            worker.close()


def test_several_threads_submit(worker: Worker, request_for: Callable[..., Request]) -> None:
    requests = [request_for() for _ in range(12)]
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        outcomes = list(pool.map(lambda r: worker.submit(r).result(PATIENCE_S), requests))
    assert [outcome.samples for outcome in outcomes] == [1] * 12


def test_closing_cancels_what_is_left_and_ends_the_process(worker: Worker, request_for: Callable[..., Request]) -> None:
    process = psutil.Process(worker.warm().result(PATIENCE_S))
    jobs = [worker.submit(fatal(request_for(), "hang")), worker.submit(request_for())]
    worker.close()
    for job in jobs:
        with pytest.raises(CancelledError):
            job.result(PATIENCE_S)
    process.wait(PATIENCE_S)
    with pytest.raises(UsageError, match="closed"):
        worker.submit(request_for())


def test_another_executor_runs_the_job(request_for: Callable[..., Request]) -> None:
    request = request_for(2, plan=PrecisionPlan("fp16"))
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        seen: list[Progress] = []
        assert Worker(pool).submit(request, seen.append).result(PATIENCE_S).samples == 2
    assert seen == [], "there is no progress from an executor that trt-lab did not start"
    assert len(read_samples(Path(request.out_dir), which="outputs")) == 2


def test_a_crash_in_another_executor_is_one_line(request_for: Callable[..., Request]) -> None:
    context = multiprocessing.get_context("spawn")
    with (
        concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool,
        pytest.raises(WorkerCrashedError, match="next build works"),
    ):
        Worker(pool).submit(fatal(request_for(), "SIGKILL")).result(PATIENCE_S)


def run_script(text: str, *arguments: str, timeout: float = PATIENCE_S) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text), *arguments],
        capture_output=True, text=True, timeout=timeout, check=False, cwd=Path(__file__).parents[2],
    )  # fmt: skip


@pytest.mark.parametrize("end", ["sys.exit(0)", "os.kill(os.getpid(), signal.SIGKILL)", "os._exit(0)"])
def test_the_process_ends_with_its_parent(end: str, tmp_path: Path) -> None:
    """A script without a main guard, as in a notebook."""
    done = run_script(
        f"""
        import os, signal, sys
        from trt_lab.backends.worker import Worker
        worker = Worker(lock_path={str(tmp_path / "lock")!r})
        print(worker.warm().result(), flush=True)
        {end}
        """
    )
    if "exit(0)" in end and "_exit" not in end:
        assert done.stderr == ""
    pid = int(done.stdout)
    if psutil.pid_exists(pid):
        psutil.Process(pid).wait(PATIENCE_S)


def test_leaving_the_interpreter_does_not_wait_for_a_build(request_for: Callable[..., Request], tmp_path: Path) -> None:
    request = request_for()
    done = run_script(
        f"""
        import threading
        from trt_lab.backends.jobs import Request
        from trt_lab.backends.worker import default_worker, Worker
        from trt_lab.types import BuildOptions
        worker = Worker(lock_path={str(tmp_path / "lock")!r})
        running = threading.Event()
        request = Request("onnxruntime", {request.model_path!r}, BuildOptions(profile_runs=1_000_000), {request.samples_dir!r}, {request.out_dir!r})
        job = worker.submit(request, lambda step: running.set())
        assert running.wait(60)
        """
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_a_forked_process_has_a_worker_of_its_own(request_for: Callable[..., Request], tmp_path: Path) -> None:
    first, second = request_for(), request_for()
    done = run_script(
        f"""
        import os, sys
        from trt_lab.backends.jobs import Request
        from trt_lab.backends.worker import Worker
        from trt_lab.types import BuildOptions
        worker = Worker(lock_path={str(tmp_path / "lock")!r})
        def request(folder):
            return Request("onnxruntime", {first.model_path!r}, BuildOptions(profile_runs=0), {first.samples_dir!r}, folder)
        assert worker.submit(request({first.out_dir!r})).result(60).samples == 1
        pid = os.fork()
        if pid == 0:
            ok = worker.submit(request({second.out_dir!r})).result(60).samples == 1
            worker.close()
            os._exit(0 if ok else 1)
        assert os.waitpid(pid, 0)[1] == 0
        assert worker.submit(request({first.out_dir!r})).result(60).samples == 1
        """
    )
    assert done.returncode == 0, done.stderr
