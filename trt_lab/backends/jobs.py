"""One job: build a model, run every sample, profile. Runs in the worker process.

What crosses the process border is small and picklable: paths in, figures out. Tensors go through files.
"""

from __future__ import annotations

import pickle
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import platformdirs

from trt_lab import backends
from trt_lab.backends.base import Built, Profile, Runner
from trt_lab.errors import BackendError, CancelledError, InputError, RunError, TrtLabError
from trt_lab.model import Model
from trt_lab.progress import scaled
from trt_lab.tensors import open_samples, write_safetensors
from trt_lab.types import BuildOptions, JsonValue, OnProgress, Outcome, Progress

BUILD_SHARE = 0.7
RUN_SHARE = 0.2
"""Parts of the progress bar: the build, then the samples, then the profile."""

ENGINE_FILE = "engine.plan"
TRACE_FILE = "last-error.txt"

MOVED_TWICE = "moved_twice"
"""Fact of an engine that was profiled: outputs that the same input gives otherwise when it is run again, and by how
much (None where that is not finite). Empty for an engine that repeats itself bit by bit."""

Found = TypeVar("Found")


@dataclass(frozen=True)
class Request:
    """What a job needs. Paths are absolute, and readable where the job runs.

    Attributes:
        backend: Name in `backends.names()`.
        model_path: ONNX file, probes already in it.
        samples_dir: Folder of samples (see `tensors.open_samples`).
        out_dir: Folder for what the job leaves; made if it is not there.
        keep: Outputs to save; None for all.
    """

    backend: str
    model_path: str
    options: BuildOptions
    samples_dir: str
    out_dir: str
    keep: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Task(Generic[Found]):
    """Other work for the process of the jobs: `function(argument, on_progress)`, a search for instance.

    Attributes:
        function: Of a module, so that the process can import it. It calls `on_progress` often, which raises
            `CancelledError` when the task is to stop.
        argument: Small and picklable; tensors go through files.
        model_path, backend: For messages. out_dir: See `Request`.
    """

    function: Callable[[Any, OnProgress], Found]
    argument: Any
    model_path: str
    out_dir: str
    backend: str = "onnxruntime"


def execute(request: Request | Task[Any], on_progress: OnProgress) -> Any:
    """Does the job; gives an `Outcome` for a `Request`, and for a `Task` what its function gives.

    Raises:
        TrtLabError: What went wrong, in one line; whatever else a library raises is turned into a
            `BackendError`, and its traceback kept in the user's log folder. All survive pickling.
    """
    out = Path(request.out_dir)
    try:
        out.mkdir(parents=True, exist_ok=True)
        if isinstance(request, Task):
            return request.function(request.argument, on_progress)
        return _execute(request, out, on_progress)
    except TrtLabError as error:
        raise _picklable(error) from None
    except MemoryError as error:
        raise RunError(
            f"{Path(request.model_path).name}: out of memory while working with '{request.backend}'; "
            "use smaller shapes, fewer probes or a machine with more memory"
        ) from error
    except Exception as error:  # noqa: BLE001 (a library's own errors are unknown here)
        kept = _keep_trace()
        raise BackendError(
            f"{Path(request.model_path).name}: '{request.backend}' failed unexpectedly "
            f"({type(error).__name__}: {_one_line(error)}){kept}; please report it"
        ) from None


def _execute(request: Request, out: Path, on_progress: OnProgress) -> Outcome:
    backend = backends.get(request.backend)
    on_progress(Progress("build", 0.0, f"reading {Path(request.model_path).name}"))
    model = Model.load(request.model_path)
    samples = open_samples(request.samples_dir)
    built = backend.build(model, request.options, scaled(on_progress, 0.0, BUILD_SHARE))
    engine_file = _write_engine(out, built)
    here = backend.info()
    if not here.can_run:  # built here, to be run elsewhere
        on_progress(Progress("done", 1.0, here.reason))
        facts = {**built.facts, "not_run": here.reason}
        return Outcome(built.layers, (), (), built.log, built.build_s, 0.0, facts, engine_file=engine_file)
    runner = backend.open(built)
    try:
        started = time.perf_counter()
        names = _run_all(request, runner, samples, out, on_progress)
        run_s = time.perf_counter() - started
        profile, moved = Profile((), ()), None
        if request.options.profile_runs:
            on_progress(Progress("profile", BUILD_SHARE + RUN_SHARE, f"{request.options.profile_runs} runs"))
            moved = _moved(runner, samples[0], out)
            profile = runner.profile(samples[0], request.options.profile_runs)
    finally:
        runner.close()
    on_progress(Progress("done", 1.0))
    return Outcome(
        layers=built.layers,
        times=profile.times,
        latency_ms=profile.latency_ms,
        log=built.log,
        build_s=built.build_s,
        run_s=run_s,
        facts={
            **built.facts,
            **({"profiler": dict(profile.facts)} if profile.facts else {}),
            **({MOVED_TWICE: moved} if moved is not None else {}),
        },
        output_names=names,
        samples=len(samples),
        engine_file=engine_file,
    )


def _run_all(
    request: Request, runner: Runner, samples: Sequence[Mapping[str, np.ndarray]], out: Path, on_progress: OnProgress
) -> tuple[str, ...]:
    """Runs every sample and writes its outputs. Returns their names."""
    names: tuple[str, ...] = ()
    for index, feeds in enumerate(samples):
        fraction = BUILD_SHARE + RUN_SHARE * index / len(samples)
        on_progress(Progress("run", fraction, f"sample {index + 1}/{len(samples)}"))
        outputs = runner.run(feeds)
        names = tuple(outputs) if request.keep is None else _kept(request.keep, outputs)
        folder = out / "samples" / f"{index:03d}"
        folder.mkdir(parents=True, exist_ok=True)
        write_safetensors(folder / "outputs.safetensors", {name: outputs[name] for name in names})
    return names


def _moved(runner: Runner, feeds: Mapping[str, np.ndarray], out: Path) -> dict[str, JsonValue]:
    """What `MOVED_TWICE` holds, from a second run of the first sample."""
    first = open_samples(out / "samples", which="outputs")[0]
    again = runner.run(feeds)
    moved: dict[str, JsonValue] = {}
    for name, before in first.items():
        after = again[name]
        if (
            before.shape == after.shape
            and np.ascontiguousarray(after).tobytes() == np.ascontiguousarray(before).tobytes()
        ):
            continue
        numbers = before.shape == after.shape and before.dtype.kind not in "OSU"
        with np.errstate(invalid="ignore"):
            largest = float(np.abs(after.astype(np.float64) - before.astype(np.float64)).max()) if numbers else np.nan
        moved[name] = largest if np.isfinite(largest) else None
    return moved


def _kept(keep: tuple[str, ...], outputs: Iterable[str]) -> tuple[str, ...]:
    known = list(outputs)
    missing = [name for name in keep if name not in known]
    if missing:
        raise InputError(f"no output '{missing[0]}' to keep; the engine gives {', '.join(known)}")
    return tuple(name for name in known if name in keep)


def _write_engine(out: Path, built: Built) -> str | None:
    if built.engine is None:
        return None
    (out / ENGINE_FILE).write_bytes(built.engine)
    return ENGINE_FILE


def _picklable(error: TrtLabError) -> TrtLabError:
    """The error itself when it survives the way to another process, else one of its base that does."""
    try:
        copy = pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 (whatever pickling raises, the error must travel)
        copy = None
    if type(copy) is type(error) and str(copy) == str(error):
        return error
    base = CancelledError if isinstance(error, CancelledError) else BackendError
    return base(str(error))


def _keep_trace() -> str:
    """Keeps the traceback for a bug report, in the user's log folder: the job's own folder may be temporary."""
    file = platformdirs.user_log_path("trt-lab") / TRACE_FILE
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(traceback.format_exc(), encoding="utf-8")
    except OSError:
        return ""
    return f", traceback in {file}"


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or "no message"
