"""See why a TensorRT engine gives other numbers than its ONNX model, and where its time goes.

    import trt_lab

    lab = trt_lab.Session("model.onnx")
    lab  # in a notebook: the workbench
    lab.use(precision="fp16")
    record = lab.build()
    lab.compare()

The names below are the public ones. They are loaded when first used, so that `import trt_lab` costs
nothing: neither onnx, onnxruntime, bokeh nor anywidget is imported by it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trt_lab.errors import (
        BackendError,
        BackendUnavailableError,
        BuildError,
        CancelledError,
        CompareError,
        EditError,
        InputError,
        ModelError,
        RecordError,
        RunError,
        TrtLabError,
        UsageError,
        WorkerCrashedError,
    )
    from trt_lab.model import Model
    from trt_lab.notebook import Session
    from trt_lab.profiling.exporter import Exporter
    from trt_lab.profiling.sampler import Sampler
    from trt_lab.profiling.source import open_engine
    from trt_lab.profiling.traces.chrome import write_chrome_trace
    from trt_lab.profiling.traces.read import read_trace
    from trt_lab.profiling.triton import read_triton_metrics
    from trt_lab.record import Record
    from trt_lab.samples.images import read_images
    from trt_lab.types import BuildOptions, PrecisionPlan, ShapeRange, Tolerance

__version__ = "0.1.0"

_HOMES = {
    "BackendError": "errors",
    "BackendUnavailableError": "errors",
    "BuildError": "errors",
    "BuildOptions": "types",
    "CancelledError": "errors",
    "CompareError": "errors",
    "EditError": "errors",
    "Exporter": "profiling.exporter",
    "InputError": "errors",
    "Model": "model",
    "ModelError": "errors",
    "PrecisionPlan": "types",
    "Record": "record",
    "RecordError": "errors",
    "RunError": "errors",
    "Sampler": "profiling.sampler",
    "Session": "notebook",
    "ShapeRange": "types",
    "Tolerance": "types",
    "TrtLabError": "errors",
    "UsageError": "errors",
    "WorkerCrashedError": "errors",
    "open_engine": "profiling.source",
    "read_images": "samples.images",
    "read_trace": "profiling.traces.read",
    "read_triton_metrics": "profiling.triton",
    "write_chrome_trace": "profiling.traces.chrome",
}
"""Module that each public name comes from."""

__all__ = [
    "BackendError",
    "BackendUnavailableError",
    "BuildError",
    "BuildOptions",
    "CancelledError",
    "CompareError",
    "EditError",
    "Exporter",
    "InputError",
    "Model",
    "ModelError",
    "PrecisionPlan",
    "Record",
    "RecordError",
    "RunError",
    "Sampler",
    "Session",
    "ShapeRange",
    "Tolerance",
    "TrtLabError",
    "UsageError",
    "WorkerCrashedError",
    "__version__",
    "open_engine",
    "read_images",
    "read_trace",
    "read_triton_metrics",
    "write_chrome_trace",
]


def __getattr__(name: str) -> object:
    """Loads a public name when it is first used (PEP 562)."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
