"""Frames of Q/DQ pairs and layers: the declared columns, missing is missing."""

from __future__ import annotations

from trt_lab.diagnose.quantization.measure import Error, PairFigures
from trt_lab.diagnose.quantization.task import LayerSensitivity
from trt_lab.frames.quantization import LAYER_COLUMNS, PAIR_COLUMNS, pairs_frame, sensitivity_frame
from trt_lab.types import NodeId, TensorId

WEIGHT = PairFigures(
    tensor=TensorId("w_dq"), kind="weight", quantize=None, dequantize=NodeId("dq"), dtype="int8", channels=4, axis=0,
    scale_min=0.5, scale_max=2.0, zero_point=0, count=12, largest=3.0, saturated=None, zeroed=None, levels_used=9, levels=256,
    range_used=None, wider_db=None, local=None, before=None, after=None,
)  # fmt: skip


def test_columns_are_declared_even_when_empty() -> None:
    for frame, columns in ((pairs_frame(()), PAIR_COLUMNS), (sensitivity_frame(()), LAYER_COLUMNS)):
        assert {name: str(kind) for name, kind in frame.dtypes.items()} == columns and len(frame) == 0


def test_what_is_not_known_is_missing() -> None:
    row = pairs_frame([WEIGHT]).iloc[0]
    assert row["quantize"] is None and row["count"] == 12
    missing = (
        "saturated",
        "zeroed",
        "range_used",
        "local_snr_db",
        "local_max_abs",
        "local_broken",
        "before_snr_db",
        "after_snr_db",
    )
    assert pairs_frame([WEIGHT])[list(missing)].isna().all(axis=None)


def test_layers() -> None:
    layer = LayerSensitivity(
        NodeId("a"), "Conv", (TensorId("x"), TensorId("w")), Error(12.5, 0.25, 0, False), Error(), None
    )
    frame = sensitivity_frame([layer])
    assert frame["tensors"][0] == ("x", "w") and frame["only_snr_db"][0] == 12.5 and frame["only_max_abs"][0] == 0.25
    assert frame[["without_snr_db", "gain_db"]].isna().all(axis=None)
