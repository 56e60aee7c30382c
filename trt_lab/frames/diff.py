"""How the tensors of two sides differ."""

from __future__ import annotations

import pandas as pd

from trt_lab.compare.sides import Comparison
from trt_lab.frames.columns import make_frame

COLUMNS = {
    "name": "object",
    "verdict": "object",
    "note": "object",
    "sample": "Int64",
    "dtype_a": "object",
    "dtype_b": "object",
    "shape_a": "object",
    "shape_b": "object",
    "count": "Int64",
    "finite": "Int64",
    "differing": "Int64",
    "over_tolerance": "Int64",
    "max_abs": "float64",
    "max_abs_at": "object",
    "max_rel": "float64",
    "max_rel_at": "object",
    "zero_reference": "Int64",
    "rmse": "float64",
    "cosine": "float64",
    "snr_db": "float64",
    "exact": "boolean",
    "nan_both": "Int64",
    "nan_only_a": "Int64",
    "nan_only_b": "Int64",
    "inf_both": "Int64",
    "inf_mismatch": "Int64",
    "pos_inf_a": "Int64",
    "neg_inf_a": "Int64",
    "pos_inf_b": "Int64",
    "neg_inf_b": "Int64",
}
"""Fields of `TensorStats`; errors are in the units of the tensor."""


def diff_frame(comparison: Comparison, *, per_sample: bool = False) -> pd.DataFrame:
    """One row a tensor, at its worst sample, in graph order; or one row for each tensor and sample."""
    rows = comparison.per_sample if per_sample else comparison.tensors
    return make_frame(COLUMNS, ({name: getattr(stats, name) for name in COLUMNS} for stats in rows))
