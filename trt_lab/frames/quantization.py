"""Q/DQ pairs and quantised layers of a model."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from trt_lab.diagnose.quantization.measure import Error, PairFigures
from trt_lab.diagnose.quantization.task import LayerSensitivity
from trt_lab.frames.columns import make_frame

PAIR_COLUMNS = {
    "tensor": "object",
    "kind": "object",
    "quantize": "object",
    "dequantize": "object",
    "dtype": "object",
    "channels": "Int64",
    "axis": "Int64",
    "scale_min": "float64",
    "scale_max": "float64",
    "zero_point": "Int64",
    "count": "Int64",
    "largest": "float64",
    "saturated": "float64",
    "zeroed": "float64",
    "levels_used": "Int64",
    "levels": "Int64",
    "range_used": "float64",
    "wider_db": "float64",
    "local_snr_db": "float64",
    "local_max_abs": "float64",
    "local_broken": "Int64",
    "before_snr_db": "float64",
    "after_snr_db": "float64",
    "outlier": "float64",
}
"""Fields of `PairFigures`; `saturated`, `zeroed` and `range_used` are fractions of 1, errors in units of the tensor."""

LAYER_COLUMNS = {
    "node": "object",
    "op_type": "object",
    "tensors": "object",
    "only_snr_db": "float64",
    "only_max_abs": "float64",
    "without_snr_db": "float64",
    "without_max_abs": "float64",
    "gain_db": "float64",
}
"""Fields of `LayerSensitivity`: `only_…` with this layer alone quantised, `without_…` with all but it."""


def pairs_frame(pairs: Iterable[PairFigures]) -> pd.DataFrame:
    """One row a Q/DQ pair, in the order given: the worst local error first."""
    return make_frame(PAIR_COLUMNS, (_pair(pair) for pair in pairs))


def sensitivity_frame(layers: Iterable[LayerSensitivity]) -> pd.DataFrame:
    """One row a layer, in the order given: the most sensitive first."""
    return make_frame(
        LAYER_COLUMNS,
        (
            {
                "node": layer.node,
                "op_type": layer.op_type,
                "tensors": layer.tensors,
                "only_snr_db": layer.only.snr_db,
                "only_max_abs": layer.only.max_abs,
                "without_snr_db": layer.without.snr_db,
                "without_max_abs": layer.without.max_abs,
                "gain_db": layer.gain_db,
            }
            for layer in layers
        ),
    )


def _pair(pair: PairFigures) -> dict[str, object]:
    own = {name: getattr(pair, name) for name in PAIR_COLUMNS if hasattr(pair, name)}
    return own | {
        "local_snr_db": _snr(pair.local),
        "local_max_abs": pair.local.max_abs if pair.local is not None else None,
        "local_broken": pair.local.broken if pair.local is not None else None,
        "before_snr_db": _snr(pair.before),
        "after_snr_db": _snr(pair.after),
    }


def _snr(error: Error | None) -> float | None:
    return error.snr_db if error is not None else None
