"""NVIDIA ModelOpt as another quantiser, where it is installed: its command is run in a process of its own.

It knows which operators pay to quantise for TensorRT, and FP8. It is an extra: `pip install trt-lab[modelopt]`.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from trt_lab.backends.onnxruntime.quantize import Quantized, QuantizeTask, open_for_quantiser, refuse_quantised
from trt_lab.edit.qdq import find_qdq
from trt_lab.errors import BackendUnavailableError, BuildError, UsageError
from trt_lab.graph import GraphView
from trt_lab.model import Model
from trt_lab.samples.representative import check_representative
from trt_lab.tensors import open_samples, write_npz
from trt_lab.types import OnProgress, Progress

MODULE = "modelopt"

_METHODS = {"minmax": "max", "entropy": "entropy"}
_ASK_EVERY_S = 0.5
_TAIL = 300


def is_installed() -> bool:
    """Whether ModelOpt can be run here; it is not imported for this."""
    return importlib.util.find_spec(MODULE) is not None


def quantize_with_modelopt(task: QuantizeTask, on_progress: OnProgress) -> Quantized:
    """Runs `python -m modelopt.onnx.quantization` and reads what it wrote.

    Raises:
        BackendUnavailableError: ModelOpt is not installed. UsageError: It cannot do what is asked.
        BuildError: It failed; the message holds its last line.
    """
    started = time.perf_counter()
    if not is_installed():
        raise BackendUnavailableError(
            "ModelOpt is not installed here; pip install 'trt-lab[modelopt]', or quantise with ONNX Runtime (tool 'ort')"
        )
    _refuse(task)
    on_progress(Progress("quantise", 0.0, "reading the model"))
    model = open_for_quantiser(task.model_path)
    refuse_quantised(model)
    samples = open_samples(task.samples_dir)
    out = Path(task.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="trt-lab-modelopt-") as folder:
        source = model.save(Path(folder) / "model.onnx")
        data = write_npz(Path(folder) / "calibration.npz", stacked(samples))
        _run(_command(task, source, data, out), Path(folder), on_progress)
    if not out.is_file():
        raise BuildError(
            f"{model.name}: ModelOpt ended well and wrote no {out.name}; run its command by hand to see why"
        )
    found = find_qdq(GraphView.of(Model.load(out)))
    on_progress(Progress("done", 1.0))
    notes = check_representative(samples, generated=task.generated)
    return Quantized(
        str(out), len(found.pairs), len(found.layers), len(samples), time.perf_counter() - started, MODULE, notes=notes
    )


def stacked(samples: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Samples one behind the other along the first axis, as ModelOpt reads them.

    Raises:
        UsageError: They differ in other sizes, or an input has no axes.
    """
    made: dict[str, np.ndarray] = {}
    for name in samples[0]:
        arrays = [np.asarray(sample[name]) for sample in samples]
        if any(array.ndim == 0 or array.shape[1:] != arrays[0].shape[1:] for array in arrays):
            raise UsageError(
                f"input '{name}' differs in size from sample to sample, which ModelOpt cannot take: give samples of one size, "
                "or quantise with ONNX Runtime (tool 'ort')"
            )
        made[name] = np.concatenate(arrays)
    return made


def _refuse(task: QuantizeTask) -> None:
    if task.method not in _METHODS:
        raise UsageError(f"ModelOpt knows no method '{task.method}'; take {' or '.join(_METHODS)}")
    if task.read_cache is not None or task.write_cache is not None:
        raise UsageError("calibration caches are read and written with ONNX Runtime's quantiser only (tool 'ort')")
    if not task.per_channel:
        raise UsageError("ModelOpt always gives each channel of a weight its scale; leave per-tensor scales out")


def _command(task: QuantizeTask, source: Path, data: Path, out: Path) -> list[str]:
    words = [sys.executable, "-m", "modelopt.onnx.quantization", "--onnx_path", str(source), "--output_path", str(out)]
    words += ["--quantize_mode", task.type, "--calibration_method", _METHODS[task.method]]
    words += ["--calibration_data_path", str(data), "--calibration_eps", "cpu", "--high_precision_dtype", "fp32"]
    words += ["--op_types_to_quantize", *task.operators]
    return [*words, *(["--nodes_to_exclude", *(str(node) for node in task.exclude)] if task.exclude else [])]


def _run(words: list[str], folder: Path, on_progress: OnProgress) -> None:
    """Runs a command; asks now and then whether it is still wanted, and kills it when not."""
    log = folder / "modelopt.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
        try:
            while True:
                on_progress(Progress("calibrate", None, "ModelOpt"))
                try:
                    process.wait(_ASK_EVERY_S)
                    break
                except subprocess.TimeoutExpired:
                    continue
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    if process.returncode != 0:
        lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
        last = lines[-1][:_TAIL] if lines else f"exit status {process.returncode}, and it said nothing"
        raise BuildError(f"ModelOpt failed: {last}")
