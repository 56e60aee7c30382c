"""What goes wrong on a GPU is one clear error, and the next build works."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tests.gpu import models
from tests.gpu.conftest import Lab
from trt_lab import backends
from trt_lab.backends.jobs import Request
from trt_lab.backends.worker import Worker
from trt_lab.errors import BuildError, CancelledError, InputError, TrtLabError, UsageError, WorkerCrashedError
from trt_lab.model import Model
from trt_lab.tensors import open_samples
from trt_lab.types import BuildOptions, PrecisionPlan, Progress, ShapeRange

pytestmark = pytest.mark.gpu

X = ShapeRange("x", (1, 3, 64, 64), (1, 3, 64, 64), (8, 3, 64, 64))
FEEDS = [{"x": np.zeros((1, 3, 64, 64), np.float32)}]
SMALL_FEEDS = [{"x": np.array([[1, 2, 0], [3, 0, 4]], np.float32)}]
CRASHES = int(os.environ.get("TRT_LAB_CRASHES", "50"))
"""How many processes are killed."""
WORKERS = 5
"""Workers at once; each is first killed twice inside TensorRT's builder."""


def options(*shapes: ShapeRange, **more: object) -> BuildOptions:
    return BuildOptions(backend="tensorrt", shapes=shapes, builder_level=1, profile_runs=0, **more)  # type: ignore[arg-type]  # fields by name


@pytest.fixture
def l2norm(shared: Path) -> Model:
    return Model.load(shared / "trt_records" / "l2norm_overflow.onnx")


def test_doctor(lab: Lab) -> None:
    info = backends.get("tensorrt").info()
    assert info.can_build and info.can_run and not info.reason
    (gpu, *_) = info.details["gpus"]  # type: ignore[misc]  # a list
    assert gpu["memory_bytes"] > 10**9  # type: ignore[index]  # a dict
    assert info.details["gpu_memory"] == "CUDA driver (libcuda)"


def crash(worker: Worker, request: Request, killed: signal.Signals, deep: bool) -> str:
    """Kills the worker's process while it builds (`deep`: inside TensorRT's builder); what the error says."""
    process = worker.warm().result(100)

    def kill(progress: Progress) -> None:
        if progress.phase == "build" and (progress.fraction or not deep):
            with contextlib.suppress(ProcessLookupError):  # steps told after the end
                os.kill(process, killed)

    with pytest.raises(WorkerCrashedError) as caught:
        worker.submit(request, kill).result(150)
    return str(caught.value)


def crash_and_build(lab: Lab, l2norm: Model, number: int, rounds: int) -> tuple[list[str], list[str], tuple[int, ...]]:
    """`rounds` crashes of one worker, the first two of them deep, then a build.

    Returns:
        Signals sent, what was said, and the shape that the build gave.
    """
    long = options(X, plan=PrecisionPlan("fp16"), timing_cache="off")
    sent, said = [], []
    worker = Worker(limit_s=200, lock_path=lab.folder / f"crash-{number}.lock")
    try:
        for turn in range(rounds):
            killed = signal.SIGSEGV if turn % 2 else signal.SIGKILL
            deep = turn < 2
            request = (
                lab.request(l2norm, long, FEEDS) if deep else lab.request(models.nonzero(), options(), SMALL_FEEDS)
            )
            sent.append(killed.name)
            said.append(crash(worker, request, killed, deep))
        request = lab.request(models.nonzero(), options(), SMALL_FEEDS)
        worker.submit(request).result(150)
        return sent, said, open_samples(Path(request.out_dir) / "samples", which="outputs")[0]["y"].shape
    finally:
        worker.close()


def test_fifty_crashes_are_fifty_clear_errors(lab: Lab, l2norm: Model) -> None:
    """Children are killed by SIGSEGV and SIGKILL in turn, in several workers at once: starting a process takes seconds."""
    with ThreadPoolExecutor(WORKERS) as pool:
        rounds = [CRASHES // WORKERS + (i < CRASHES % WORKERS) for i in range(WORKERS)]
        ended = list(pool.map(lambda i: crash_and_build(lab, l2norm, i, rounds[i]), range(WORKERS)))
    sent = [name for names, _, _ in ended for name in names]
    said = [text for _, texts, _ in ended for text in texts]
    assert len(said) == CRASHES
    for name, text in zip(sent, said, strict=True):
        assert name in text
        assert "\n" not in text.strip()
    assert [shape for _, _, shape in ended] == [(2, 4)] * WORKERS


_DEBUG = """
import sys
import tensorrt as trt
logger = trt.Logger(trt.Logger.ERROR)
builder = trt.Builder(logger)
network = builder.create_network(0)
parser = trt.OnnxParser(network, logger)
assert parser.parse_from_file(sys.argv[1])
config = builder.create_builder_config()
config.set_flag(trt.BuilderFlag.FP16)
config.builder_optimization_level = 1
profile = builder.create_optimization_profile()
profile.set_shape("x", (1, 128, 64), (4, 128, 64), (8, 128, 64))
config.add_optimization_profile(profile)
for i in range(network.num_layers):
    tensor = network.get_layer(i).get_output(0)
    if tensor is not None and tensor.dtype in (trt.float32, trt.float16) and not tensor.is_shape_tensor:
        network.mark_debug(tensor)
print("built", builder.build_serialized_network(network, config) is not None)
"""


def test_debug_tensors_are_not_used_where_they_kill(lab: Lab, shared: Path) -> None:
    """On 10.6 a network with debug tensors ends the process, or does not build; `doctor` says that probes are used."""
    info = backends.get("tensorrt").info()
    if not str(info.version).startswith("10.6"):
        pytest.skip("seen on 10.6 only")
    assert "mark_debug ends the process" in str(info.details["tensors_inside"])
    command = [sys.executable, "-c", _DEBUG, str(shared / "trt_records" / "encoder4.onnx")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    print("mark_debug on all of encoder4: exit", done.returncode, done.stdout[-200:], done.stderr[-500:])
    assert done.returncode != 0 or "built False" in done.stdout


def test_cancel_within_two_seconds(lab: Lab, l2norm: Model) -> None:
    building = threading.Event()

    def tell(progress: Progress) -> None:
        if progress.phase == "build" and progress.fraction:
            building.set()

    request = lab.request(l2norm, options(X, plan=PrecisionPlan("fp16"), timing_cache="off"), FEEDS)
    job = lab.worker.submit(request, tell)
    assert building.wait(60), "the build did not start"
    started = time.monotonic()
    job.cancel()
    with pytest.raises(CancelledError):
        job.result(10)
    assert time.monotonic() - started < 2.5
    assert lab.run(models.nonzero(), options(), SMALL_FEEDS).outcome.layers


@pytest.mark.parametrize(
    ("model", "error", "words"),
    [
        (models.plugin, BuildError, "name LeakyThing, version 1"),
        (models.nonzero, InputError, "no input"),
    ],
)
def test_wrong_models_and_inputs(lab: Lab, model: object, error: type[TrtLabError], words: str) -> None:
    made = model()  # type: ignore[operator]  # a function
    feeds = [{"x": np.zeros(2, np.float32)}] if error is BuildError else [{**SMALL_FEEDS[0], "z": np.zeros(1)}]
    with pytest.raises(error, match=words):
        lab.run(made, options(), feeds)


def test_c42_dynamic_without_a_range(lab: Lab, l2norm: Model) -> None:
    with pytest.raises(InputError, match="axis 0 unknown"):
        lab.run(l2norm, options(), FEEDS)


def test_shapes_outside_the_range(lab: Lab, l2norm: Model) -> None:
    feeds = [{"x": np.zeros((9, 3, 64, 64), np.float32)}]
    with pytest.raises(
        InputError, match=r"'x' is \(9, 3, 64, 64\), the engine takes \(1, 3, 64, 64\) to \(8, 3, 64, 64\)"
    ):
        lab.run(l2norm, options(X), feeds)


def test_no_such_gpu(lab: Lab) -> None:
    with pytest.raises(TrtLabError, match="no GPU 99 on this machine"):
        lab.run(models.nonzero(), options(device=99), SMALL_FEEDS)


def test_compute_capability_is_for_rtx(lab: Lab) -> None:
    with pytest.raises(UsageError, match="builds for the GPU of this machine"):
        lab.run(models.nonzero(), options(compute_capability="SM90"), SMALL_FEEDS)


# --- engine files: each step in a process of its own -----------------------------------

_OPEN = """
import sys
from trt_lab.backends.tensorrt.backend import open_engine
from trt_lab.backends.tensorrt.trust import engine_version
from trt_lab.errors import TrtLabError
print("version", engine_version(open(sys.argv[1], "rb").read()))
try:
    runner = open_engine(sys.argv[1], trust=sys.argv[2] == "trust")
    print("opened", runner.engine.num_io_tensors)
    runner.close()
except TrtLabError as error:
    print("refused", error)
"""


def open_in_child(path: Path, trust: bool, home: Path | None = None) -> str:
    env = dict(os.environ)
    if home is not None:
        env["XDG_DATA_HOME"] = str(home)
    command = [sys.executable, "-c", _OPEN, str(path), "trust" if trust else "no"]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_c44_engine_files(lab: Lab, tmp_path: Path) -> None:
    engine = lab.run(models.nonzero(), options(), SMALL_FEEDS)
    file = engine.folder / str(engine.outcome.engine_file)
    said = open_in_child(file, trust=False)
    assert "opened 2" in said
    assert f"version {backends.get('tensorrt').info().version}".split(".post")[0] in said
    assert "this machine did not build this engine" in open_in_child(file, False, home=tmp_path / "other")
    cut = tmp_path / "cut.plan"
    cut.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    assert "is cut or damaged" in open_in_child(cut, trust=True)


_MEMORY = """
from trt_lab.backends.tensorrt.device import Device
from trt_lab.errors import RunError
place = Device(0)
try:
    place.allocate(10**13)
except RunError as error:
    print(error)
address = place.allocate(1024)
place.close()
"""


def test_out_of_memory_tells_the_sizes(lab: Lab) -> None:
    done = subprocess.run([sys.executable, "-c", _MEMORY], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "out of GPU memory: 10,000,000,000,000 bytes asked for" in done.stdout
