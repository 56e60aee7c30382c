"""Latency against the size of the inputs, one row a size."""

from __future__ import annotations

from typing import Any, Protocol

import pandas as pd

from trt_lab.frames.columns import make_frame

COLUMNS = {
    "size": "object",
    "elements": "Int64",
    "multiple_of": "Int64",
    "runs": "Int64",
    "median_ms": "float64",
    "quick_ms": "float64",
    "ms_per_million": "float64",
    "layer_sum_ms": "float64",
    "slowest_layer": "object",
    "expected_ms": "float64",
    "pad_to": "object",
    "pad_gain_ms": "float64",
    "profile": "Int64",
    "position": "object",
    "tuned_ms": "float64",
    "blame": "object",
    "flags": "object",
}
"""`quick_ms` is the lower quartile; `ms_per_million` is for each million elements of the inputs with free axes;
`expected_ms` what neighbours let expect; `pad_to` a larger size that is quicker; `tuned_ms` an engine for this size alone."""


class Swept(Protocol):
    """What the frame needs of a `profiling.sweep.Sweep`."""

    def rows(self) -> list[dict[str, Any]]: ...


def sweep_frame(sweep: Swept) -> pd.DataFrame:
    """One row a size, in the order of the sweep; missing where it did not run."""
    return make_frame(COLUMNS, sweep.rows())
