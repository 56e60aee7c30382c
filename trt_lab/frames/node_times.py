"""Time by ONNX node of one engine, and the difference of two by node."""

from __future__ import annotations

import pandas as pd

from trt_lab.frames.columns import make_frame
from trt_lab.profiling.engines import EngineDiff
from trt_lab.profiling.node_time import NodeTimes

TIME_COLUMNS = {
    "node": "object",
    "is_node": "boolean",
    "scope": "object",
    "time_ms": "float64",
    "share": "float64",
    "measured": "boolean",
    "layers": "object",
}
"""`share` is a fraction of the sum of the layers; `measured` is False where a fused layer's time was shared out."""

DIFF_COLUMNS = {
    "node": "object",
    "is_node": "boolean",
    "scope": "object",
    "a_ms": "float64",
    "b_ms": "float64",
    "delta_ms": "float64",
    "measured": "boolean",
    "p_value": "float64",
    "change": "object",
    "layers_a": "object",
    "layers_b": "object",
    "group": "object",
}
"""Fields of `profiling.engines.NodeRow`; `delta_ms` is b − a."""


def node_times_frame(times: NodeTimes) -> pd.DataFrame:
    """One row a node (or a layer of which no node is known), in the order in which the engine runs them."""
    return make_frame(
        TIME_COLUMNS,
        (
            {
                "node": row.label,
                "is_node": row.is_node,
                "scope": row.scope,
                "time_ms": row.ms,
                "share": row.time_fs / times.total_fs if times.total_fs else None,
                "measured": row.exact,
                "layers": row.layers,
            }
            for row in times.rows
        ),
    )


def engine_diff_frame(diff: EngineDiff) -> pd.DataFrame:
    """One row a node in either engine, largest difference first."""
    return make_frame(DIFF_COLUMNS, ({name: getattr(row, name) for name in DIFF_COLUMNS} for row in diff.rows))
