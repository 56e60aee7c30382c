"""INT8 of weakly typed TensorRT (10.x) from a calibration cache: scales are given, so no sample is run while building."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from trt_lab.backends.tensorrt.calibration import ALGORITHM, cache_text, read_cache
from trt_lab.backends.tensorrt.versions import Library
from trt_lab.edit.qdq import find_qdq
from trt_lab.errors import UsageError
from trt_lab.graph import GraphView
from trt_lab.model import Model
from trt_lab.types import BuildOptions, JsonValue


def check_calibration(library: Library, model: Model, options: BuildOptions) -> None:
    """Refuses a calibration cache that could not be used.

    Raises:
        UsageError: Types come from the ONNX, the model has Q/DQ, or none of its tensors is in the cache.
        RecordError: It cannot be read.
    """
    if options.calibration_cache is None:
        return
    if options.strongly_typed or not library.weakly_typed:
        raise UsageError(
            f"{library.title}: a calibration cache is for weakly typed builds (strongly_typed=False, up to TensorRT 10); "
            "trt-lab quantize --read-cache makes Q/DQ of it, which every version takes"
        )
    if find_qdq(GraphView.of(model)).pairs:
        raise UsageError(f"{model.name} has Q/DQ, which decide its scales; leave calibration_cache out")
    cache = read_cache(options.calibration_cache)
    names = {info.name for info in GraphView.of(model).tensors.values()}
    if not names & set(cache.scales):
        raise UsageError(
            f"{options.calibration_cache}: none of its {len(cache.scales)} tensors is in {model.name}; it is another model's"
        )


def set_calibrator(library: Library, config: Any, file: str) -> dict[str, JsonValue]:
    """Gives a builder config the scales of a cache; returns what to keep in the record. The INT8 flag is the caller's."""
    module = library.module
    cache = read_cache(file)
    # A cache of another version or algorithm is calibrated anew, which is impossible here: the scales count, not their header.
    text = cache_text(replace(cache, version=_digits(library), algorithm=ALGORITHM)).encode()

    class GivenScales(module.IInt8EntropyCalibrator2):  # the bindings want one of their own classes
        def __init__(self) -> None:
            module.IInt8EntropyCalibrator2.__init__(self)

        def get_batch_size(self) -> int:
            return 1

        def get_batch(self, names: Any) -> None:
            del names  # there are no samples

        def read_calibration_cache(self) -> bytes:
            return text

        def write_calibration_cache(self, data: Any) -> None:
            del data  # it is what was read

    config.int8_calibrator = GivenScales()
    return {"file": file, "tensors": len(cache.scales), "made_by": cache.trt_version}


def _digits(library: Library) -> str:
    """The version as the header of a cache writes it: 100600 for 10.6.0."""
    major, minor, patch = (*library.numbers, 0, 0, 0)[:3]
    return str(major * 10_000 + minor * 100 + patch)
