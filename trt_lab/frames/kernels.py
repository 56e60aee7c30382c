"""Kernels of a GPU trace, one row each, under the layer that launched them."""

from __future__ import annotations

from typing import Any, Protocol

import pandas as pd

from trt_lab.frames.columns import make_frame

COLUMNS = {
    "layer": "object",
    "kernel": "object",
    "start_ms": "float64",
    "duration_ms": "float64",
    "nodes": "object",
    "via": "object",
    "stream": "Int64",
    "device": "Int64",
}
"""`start_ms` is from the first kernel; `via` says how the layer was found, see `profiling.traces.kernels`."""


class Traced(Protocol):
    """What the frame needs of a `profiling.traces.kernels.Trace`."""

    def rows(self) -> list[dict[str, Any]]: ...


def kernels_frame(trace: Traced) -> pd.DataFrame:
    """One row a kernel, copy or fill, by start."""
    return make_frame(COLUMNS, trace.rows())
