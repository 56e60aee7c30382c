"""Times of the layers of an engine, profiler on. Their sum is not the end-to-end latency."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pandas as pd

from trt_lab.frames.columns import make_frame
from trt_lab.types import LayerInfo, LayerTime

COLUMNS = {
    "index": "Int64",
    "name": "object",
    "type": "object",
    "precision": "object",
    "stream": "Int64",
    "start_ms": "float64",
    "average_ms": "float64",
    "median_ms": "float64",
    "min_ms": "float64",
    "max_ms": "float64",
    "std_ms": "float64",
    "share": "float64",
    "runs": "Int64",
    "nodes": "object",
}
"""`share` is a fraction of the sum of the averages; min, max and std are over the profiled runs."""


class Timed(Protocol):
    """What the frame needs of a record."""

    @property
    def layers(self) -> tuple[LayerInfo, ...]: ...
    @property
    def times(self) -> tuple[LayerTime, ...]: ...


def times_frame(record: Timed) -> pd.DataFrame:
    """One row a timed layer, in the profiler's order."""
    layers = {layer.index: layer for layer in record.layers}
    total = sum(time.average_ms for time in record.times)
    return make_frame(COLUMNS, (_row(time, layers.get(time.index), total) for time in record.times))


def time_figures(time: LayerTime, total_ms: float | None) -> dict[str, object]:
    """Average, median, extremes and spread of a layer's runs, and its share of the sum of all averages."""
    runs = np.asarray(time.runs_ms, np.float64)
    return {
        "average_ms": time.average_ms,
        "median_ms": time.median_ms,
        "min_ms": runs.min() if runs.size else None,
        "max_ms": runs.max() if runs.size else None,
        "std_ms": runs.std(ddof=1) if runs.size > 1 else None,
        "share": time.average_ms / total_ms if total_ms else None,
        "runs": runs.size or None,
    }


def _row(time: LayerTime, layer: LayerInfo | None, total: float) -> dict[str, object]:
    return {
        "index": time.index,
        "name": time.name,
        "type": layer.type if layer else None,
        "precision": layer.precision if layer else None,
        "stream": layer.stream if layer else None,
        "start_ms": time.start_ms,
        "nodes": layer.nodes if layer else (),
        **time_figures(time, total),
    }
