"""An engine from any file as DataFrames: its layers with times and bytes, its shares, reformats, splits and lints."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

import pandas as pd

from trt_lab.frames.columns import make_frame
from trt_lab.frames.layers import layer_row
from trt_lab.frames.times import time_figures
from trt_lab.profiling.fusion import Split
from trt_lab.profiling.lints import Lint
from trt_lab.profiling.shapes import TensorShape
from trt_lab.profiling.shares import Reformat, Share, memory, precision_key
from trt_lab.profiling.source import Engine
from trt_lab.types import LayerInfo

ENGINE_COLUMNS = {
    "index": "Int64",
    "name": "object",
    "type": "object",
    "precision": "object",
    "tactic": "object",
    "stream": "Int64",
    "profile": "Int64",
    "inputs": "object",
    "input_dtypes": "object",
    "input_shapes": "object",
    "outputs": "object",
    "output_dtypes": "object",
    "output_shapes": "object",
    "nodes": "object",
    "nodes_from": "object",
    "average_ms": "float64",
    "median_ms": "float64",
    "min_ms": "float64",
    "max_ms": "float64",
    "share": "float64",
    "runs": "Int64",
    "weights_bytes": "Int64",
    "input_bytes": "Int64",
    "output_bytes": "Int64",
    "least_bytes": "Int64",
}
"""`share` is a fraction of the sum of the averages. `least_bytes` takes unknown sizes as 1. `profile` is the
optimisation profile a layer belongs to, where the engine has several."""

SHARE_COLUMNS = {"key": "object", "layers": "Int64", "timed": "Int64", "time_ms": "float64", "share": "float64"}

REFORMAT_COLUMNS = {
    "index": "Int64",
    "name": "object",
    "change": "object",
    "before": "object",
    "after": "object",
    "serves": "object",
    "time_ms": "float64",
    "share": "float64",
    "moved_bytes": "Int64",
}

SPLIT_COLUMNS = {
    "tensor": "object",
    "node": "object",
    "reader": "object",
    "layer": "Int64",
    "reader_layer": "Int64",
    "reason": "object",
    "text": "object",
    "reformat": "Int64",
    "tensor_bytes": "Int64",
}

LINT_COLUMNS = {
    "rule": "object",
    "severity": "object",
    "layers": "object",
    "nodes": "object",
    "message": "object",
    "gain_ms": "float64",
    "gain_share": "float64",
    "basis": "object",
    "evidence": "object",
}

SHAPE_COLUMNS = {
    "tensor": "object",
    "node": "object",
    "layers": "object",
    "dtype": "object",
    "symbolic": "object",
    "smallest": "object",
    "usual": "object",
    "largest": "object",
    "usual_bytes": "Int64",
    "largest_bytes": "Int64",
    "note": "object",
}


def engine_frame(engine: Engine) -> pd.DataFrame:
    """One row a layer, in the engine's order; then names that were timed and are no layer, with no type.

    The sum of `average_ms` is the profile's, and `share` adds up to 1. Layers that were not timed have no time.
    """
    times = dict(engine.time_of)
    bytes_of = {found.index: asdict(found) for found in memory(engine)}
    total = engine.layer_sum_ms
    empty: dict[str, object] = {column: None for column in ENGINE_COLUMNS}
    rows = []
    for layer in engine.layers:
        time = times.pop(layer.index, None)
        told = time_figures(time, total) if time is not None else {}
        sizes = {key: bytes_of[layer.index][key] for key in ENGINE_COLUMNS if key.endswith("_bytes")}
        rows.append({**empty, **_layer(layer), **told, **sizes})
    for time in times.values():
        rows.append({**empty, "index": time.index, "name": time.name, **time_figures(time, total)})
    return make_frame(ENGINE_COLUMNS, rows)


def shares_frame(found: Iterable[Share]) -> pd.DataFrame:
    """One row a precision or type."""
    return make_frame(SHARE_COLUMNS, (asdict(share) for share in found))


def reformats_frame(found: Iterable[Reformat]) -> pd.DataFrame:
    """One row a reformat, the slowest first."""
    return make_frame(REFORMAT_COLUMNS, (asdict(item) for item in found))


def splits_frame(found: Iterable[Split]) -> pd.DataFrame:
    """One row a pair of neighbours that did not fuse, in graph order."""
    return make_frame(SPLIT_COLUMNS, (asdict(item) for item in found))


def lints_frame(found: Iterable[Lint]) -> pd.DataFrame:
    """One row a finding, errors first."""
    return make_frame(LINT_COLUMNS, ({name: getattr(item, name) for name in LINT_COLUMNS} for item in found))


def shapes_frame(found: Iterable[TensorShape]) -> pd.DataFrame:
    """One row a tensor, in graph order."""
    return make_frame(SHAPE_COLUMNS, (asdict(item) for item in found))


def _layer(layer: LayerInfo) -> dict[str, object]:
    profile = layer.attributes.get("profile")
    return {
        **layer_row(layer),
        "type": layer.type or None,
        "precision": precision_key(layer) if layer.type else layer.precision,
        "profile": profile if isinstance(profile, int) else None,
        "input_shapes": tuple(tensor.shape for tensor in layer.inputs),
    }
