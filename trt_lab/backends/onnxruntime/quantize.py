"""Makes an INT8 model of an FP32 one with ONNX Runtime's quantiser: Q/DQ, symmetric, as TensorRT takes it.

Weights stay float in the file, with a Q/DQ pair each (TensorRT folds it), so that their own error can be seen. Biases
stay float. Names of nodes and tensors stay.
"""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QDQQuantizer, QuantType
from onnxruntime.quantization.calibrate import TensorsData, create_calibrator

from trt_lab.backends.tensorrt.calibration import CalibrationCache, of_ranges, read_cache, write_cache
from trt_lab.edit.qdq import find_qdq
from trt_lab.errors import BuildError, UsageError
from trt_lab.graph import GraphView
from trt_lab.model import Model
from trt_lab.samples.representative import check_representative
from trt_lab.tensors import open_samples
from trt_lab.types import NodeId, OnProgress, Progress

Method = Literal["minmax", "entropy", "percentile"]
METHODS: dict[Method, CalibrationMethod] = {
    "minmax": CalibrationMethod.MinMax,
    "entropy": CalibrationMethod.Entropy,
    "percentile": CalibrationMethod.Percentile,
}

OPERATORS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
"""What is quantised unless others are named: the operators whose INT8 kernels pay."""

_FIRST_OPSET_WITH_CHANNELS = 13
"""The first in which QuantizeLinear has an axis."""


@dataclass(frozen=True)
class QuantizeTask:
    """What is made of what; paths are readable where it runs.

    Attributes:
        out: ONNX file to write.
        method: How ranges come from samples.
        per_channel: A scale for each output channel of a weight.
        operators: Types of nodes to quantise.
        exclude: Nodes that stay float.
        read_cache: Calibration cache of TensorRT whose scales are used; no sample is run then.
        write_cache: Calibration cache of TensorRT to write.
        generated: The samples are random numbers.
        type: Of the quantised numbers; FP8 is ModelOpt's.
    """

    model_path: str
    samples_dir: str
    out: str
    method: Method = "entropy"
    per_channel: bool = True
    operators: tuple[str, ...] = OPERATORS
    exclude: tuple[NodeId, ...] = ()
    read_cache: str | None = None
    write_cache: str | None = None
    generated: bool = False
    type: Literal["int8", "fp8"] = "int8"


@dataclass(frozen=True)
class Quantized:
    """What was made.

    Attributes:
        model: ONNX file.
        pairs, layers: How many Q/DQ pairs and quantised layers it has.
        samples: How many were run.
        cache: Calibration cache that was written.
        notes: What speaks against the samples, and what could not be done; one line each.
    """

    model: str
    pairs: int
    layers: int
    samples: int
    seconds: float
    tool: str = "onnxruntime"
    cache: str | None = None
    notes: tuple[str, ...] = ()


def quantize(task: QuantizeTask, on_progress: OnProgress) -> Quantized:
    """Calibrates and writes the model.

    Raises:
        UsageError: The model is quantised already, its opset is too old, it has none of the operators; no such node.
        BuildError: ONNX Runtime failed. RecordError: A cache that cannot be read or written.
    """
    started = time.perf_counter()
    on_progress(Progress("quantise", 0.0, "reading the model"))
    model = open_for_quantiser(task.model_path)
    _check(model, task)
    samples = [dict(sample) for sample in open_samples(task.samples_dir)]
    notes: list[str] = []
    if task.read_cache is not None:
        cache = read_cache(task.read_cache)
        ranges, used = cache.ranges, 0
        notes += _cache_notes(GraphView.of(model), cache, task)
    else:
        notes += check_representative(samples, generated=task.generated)
        ranges, used = _calibrate(model, samples, task, on_progress), len(samples)
    on_progress(Progress("quantise", 0.9, "placing Q/DQ"))
    made = _place(model, ranges, task)
    found = find_qdq(GraphView.of(made))
    if not found.pairs:
        raise BuildError(
            f"{model.name}: no Q/DQ pair could be placed, for no tensor that {', '.join(task.operators)} read has a range; "
            "calibrate with samples that reach them"
        )
    Path(task.out).parent.mkdir(parents=True, exist_ok=True)
    path = made.save(task.out)
    written = write_cache(task.write_cache, of_ranges(ranges)) if task.write_cache is not None else None
    on_progress(Progress("done", 1.0))
    return Quantized(
        model=str(path),
        pairs=len(found.pairs),
        layers=len(found.layers),
        samples=used,
        seconds=time.perf_counter() - started,
        cache=str(written) if written is not None else None,
        notes=tuple(notes),
    )


def open_for_quantiser(path: str) -> Model:
    """A model whose nodes have names of their own, called as its file is."""
    loaded = Model.load(path)
    runtime = loaded.for_runtime()
    return loaded if runtime is loaded else Model.load(runtime.ir, name=loaded.name)


def refuse_quantised(model: Model) -> None:
    """Raises UsageError for a model that has Q/DQ already."""
    if find_qdq(GraphView.of(model)).pairs:
        raise UsageError(f"{model.name} has Q/DQ already; give the FP32 model that it was made of")


def _check(model: Model, task: QuantizeTask) -> None:
    view = GraphView.of(model)
    refuse_quantised(model)
    if task.type != "int8":
        raise UsageError(f"ONNX Runtime's quantiser makes INT8; for {task.type} take ModelOpt (tool 'modelopt')")
    opset = model.opset.get("", 0)
    if task.per_channel and opset < _FIRST_OPSET_WITH_CHANNELS:
        raise UsageError(
            f"{model.name}: opset {opset} has no scales by channel (13 has): export with a newer opset, or quantise per tensor "
            "(--per-tensor)"
        )
    for node in task.exclude:
        view.node(node)
    if not any(info.op_type in task.operators and not info.graph for info in view.nodes.values()):
        raise UsageError(
            f"{model.name} has no {', '.join(task.operators)}, so there is nothing to quantise; name others (operators, or --operator)"
        )


def _cache_notes(view: GraphView, cache: CalibrationCache, task: QuantizeTask) -> list[str]:
    read = {
        t for info in view.nodes.values() if info.op_type in task.operators and not info.graph for t in info.inputs
        if t is not None and view.tensors[t].role != "initializer" and view.tensors[t].dtype == "float32"
    }  # fmt: skip
    missing = sorted(t for t in read if view.tensors[t].name not in cache.scales)
    notes = [f"scales are those of a calibration cache of TensorRT {cache.trt_version}", *cache.notes]
    if missing:
        notes.append(f"{len(missing)} tensors have no scale in the cache ('{missing[0]}'): what reads them stays float")
    return notes


def _calibrate(
    model: Model, samples: Sequence[Mapping[str, np.ndarray]], task: QuantizeTask, on_progress: OnProgress
) -> dict[str, tuple[float, float]]:
    """Ranges of all tensors that are quantised, or of all float tensors where a cache is to be written."""
    with TemporaryDirectory(prefix="trt-lab-quantise-") as folder, contextlib.redirect_stdout(io.StringIO()):
        source = model.save(Path(folder) / "model.onnx")
        try:
            calibrator = create_calibrator(
                source,
                None if task.write_cache is not None else list(task.operators),
                str(Path(folder) / "augmented.onnx"),
                METHODS[task.method],
                extra_options={"symmetric": True},
            )
            assert calibrator is not None
            for index, sample in enumerate(samples):
                on_progress(Progress("calibrate", 0.8 * index / len(samples), f"sample {index + 1} of {len(samples)}"))
                calibrator.collect_data(_One(sample))
            on_progress(Progress("calibrate", 0.85, f"ranges by {task.method}"))
            found = calibrator.compute_data()
        except (RuntimeError, ValueError, TypeError, AssertionError) as error:
            raise BuildError(
                f"{model.name}: ONNX Runtime cannot calibrate it: {' '.join(str(error).split())[:300]}"
            ) from error
    return {name: (_number(data.range_value[0]), _number(data.range_value[1])) for name, data in found.items()}


class _One(CalibrationDataReader):
    """One sample in the form that the calibrator reads."""

    def __init__(self, sample: Mapping[str, np.ndarray]) -> None:
        self._left: list[Mapping[str, np.ndarray]] = [sample]

    def get_next(self) -> Any:
        return self._left.pop() if self._left else None


def _number(value: Any) -> float:
    return float(np.asarray(value).reshape(-1)[0])


def _place(model: Model, ranges: Mapping[str, tuple[float, float]], task: QuantizeTask) -> Model:
    wide: dict[str, Any] = {
        name: (np.array(low, np.float32), np.array(high, np.float32)) for name, (low, high) in ranges.items()
    }  # fmt: skip
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            quantizer = QDQQuantizer(
                model.proto(),
                task.per_channel,
                False,
                QuantType.QInt8,
                QuantType.QInt8,
                TensorsData(CalibrationMethod.MinMax, wide),
                [],
                [str(node) for node in (*task.exclude, *_without_range(model, ranges, task))],
                list(task.operators),
                {
                    "ActivationSymmetric": True,
                    "WeightSymmetric": True,
                    "AddQDQPairToWeight": True,
                    "QuantizeBias": False,
                    "OpTypesToExcludeOutputQuantization": list(task.operators),
                },
            )
            quantizer.quantize_model()
    except (RuntimeError, ValueError, TypeError, AssertionError, KeyError) as error:
        raise BuildError(
            f"{model.name}: ONNX Runtime cannot quantise it: {' '.join(str(error).split())[:300]}"
        ) from error
    return Model.from_proto(quantizer.model.model, notes=model.notes)


def _without_range(model: Model, ranges: Mapping[str, tuple[float, float]], task: QuantizeTask) -> list[NodeId]:
    """Nodes that read a computed tensor whose range is not known, or is 0 or infinite: they stay float."""
    view = GraphView.of(model)
    found = []
    for info in view.nodes.values():
        if info.op_type not in task.operators or info.graph:
            continue
        for tensor in info.inputs:
            if tensor is None or view.constant(tensor) is not None or view.tensors[tensor].dtype != "float32":
                continue
            low, high = ranges.get(view.tensors[tensor].name, (0.0, 0.0))
            if not np.isfinite(low + high) or max(abs(low), abs(high)) == 0:
                found.append(info.id)
                break
    return found
