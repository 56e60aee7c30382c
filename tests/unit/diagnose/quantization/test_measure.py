"""Figures of a pair against numpy and ONNX Runtime."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.unit.edit.qdq_models import one_pair, run
from trt_lab.diagnose.quantization.evaluate import QdqEvaluator
from trt_lab.diagnose.quantization.measure import Error, ErrorSum, PairFigures, PairSum, levels_of, limits
from trt_lab.edit.qdq import find_qdq
from trt_lab.graph import GraphView
from trt_lab.model import Model

VALUES = arrays(np.float32, (2, 4, 3), elements=st.floats(-300, 300, width=32))
SCALES = st.floats(0.015625, 4, width=32)


def figures(model: Model, *feeds: np.ndarray) -> PairFigures:
    """Figures of the only pair of a model."""
    evaluator = QdqEvaluator(model, [{"x": x} for x in feeds])
    (pair,) = find_qdq(GraphView.of(model)).pairs
    total = PairSum(pair)
    for sample in range(len(feeds)):
        list(evaluator.measure([total], sample))
    return total.figures()


@given(x=VALUES, scale=SCALES, zero=st.integers(-100, 100))
@settings(max_examples=30, deadline=None)
def test_error_saturation_and_levels_are_those_of_the_runtime(x: np.ndarray, scale: float, zero: int) -> None:
    model = one_pair(scale, np.int8(zero), x.shape)
    made = figures(model, x)
    restored = run(model, {"x": x})[0]
    gap = x.astype(np.float64) - restored
    assert made.local is not None and made.count == x.size
    assert made.local.max_abs == pytest.approx(float(np.abs(gap).max()))
    if np.any(gap) and np.any(x):
        assert made.local.snr_db == pytest.approx(
            10 * math.log10(float((x.astype(np.float64) ** 2).sum() / (gap**2).sum()))
        )
    else:
        assert made.local.snr_db is None and made.local.exact == (not np.any(gap))
    codes = run(model, {"x": x}, ["x_q"])[0] if "x_q" in [o.name for o in model.proto().graph.output] else None
    assert codes is None and made.levels == 256
    assert made.levels_used == len(np.unique(np.clip(np.rint(x / np.float32(scale)) + zero, -128, 127)))
    steps = np.rint(x.astype(np.float64) / np.float32(scale)) + zero
    assert made.saturated == pytest.approx(float(((steps < -128) | (steps > 127)).mean()))
    # What is not cut is off by half a step at most; a cut value by how far it lies outside.
    inside = np.abs(gap[(steps >= -128) & (steps <= 127)])
    assert not inside.size or inside.max() <= scale * 0.500001 + 1e-4


@given(x=VALUES, scales=arrays(np.float32, 4, elements=SCALES))
@settings(max_examples=20, deadline=None)
def test_scales_by_channel_are_taken_channel_by_channel(x: np.ndarray, scales: np.ndarray) -> None:
    made = figures(one_pair(scales, np.zeros(4, np.int8), x.shape, axis=1), x)
    steps = x.astype(np.float64) / scales.reshape(1, 4, 1)
    assert (made.channels, made.axis) == (4, 1)
    assert made.range_used == pytest.approx(float(np.abs(steps).max() / 128), rel=1e-6)
    assert made.saturated == pytest.approx(float(((np.rint(steps) < -128) | (np.rint(steps) > 127)).mean()))
    assert made.zeroed == pytest.approx(float(((np.rint(steps) == 0) & (x != 0)).mean()))


def test_samples_are_summed_and_not_averaged() -> None:
    model = one_pair(1.0, np.int8(0), (1, 2))
    a, b = np.array([[1.25, 0.0]], np.float32), np.array([[0.0, 100.5]], np.float32)
    made = figures(model, a, b)
    assert made.local is not None
    assert made.local.snr_db == pytest.approx(10 * math.log10((1.25**2 + 100.5**2) / (0.25**2 + 0.5**2)))
    assert made.count == 4 and made.largest == 100.5 and made.levels_used == 3


def test_before_and_after() -> None:
    """The input of a pair is exact here, so nothing is wrong before it, and behind it all that is its own."""
    made = figures(one_pair(0.5, np.int8(0), (1, 3)), np.array([[0.6, -2.2, 3.0]], np.float32))
    assert made.before is not None and made.before.exact and made.before.snr_db is None
    assert made.after == made.local and made.after is not None and not made.after.exact


def test_fp8_is_judged_by_its_own_limits() -> None:
    fp8 = np.zeros((), ml_dtypes.float8_e4m3fn)
    x = np.array([[448.0, 1000.0, 0.0005, 1.1]], np.float32)
    made = figures(one_pair(1.0, fp8, (1, 4)), x)
    assert (made.dtype, made.levels) == ("float8_e4m3fn", 256)
    assert made.saturated == 0.25 and made.zeroed == 0.25
    assert made.range_used == pytest.approx(1000 / 448)
    assert made.local is not None and made.local.max_abs == pytest.approx(552)  # 1000 is cut to 448


def test_a_scale_of_nan_breaks_values_and_is_no_number() -> None:
    made = figures(one_pair(float("nan"), np.int8(0), (1, 3)), np.ones((1, 3), np.float32))
    assert made.local is not None and made.local.broken == 3 and made.local.snr_db is None
    assert made.scale_min is None and made.range_used is None


def test_sums_of_nothing_and_of_other_shapes() -> None:
    total = ErrorSum()
    total.add(np.zeros(0, np.float32), np.zeros(0, np.float32))
    total.add(np.ones(2), np.ones(3))
    total.add(np.array(["a"], object), np.array(["b"], object))
    total.add([1], None)
    assert not total.seen and total.error() == Error()


def test_worse_is_worse() -> None:
    errors = [
        Error(),
        Error(40.0, 1.0, 0, False),
        Error(10.0, 1.0, 0, False),
        Error(None, 1.0, 0, False),
        Error(50.0, 1.0, 2, False),
    ]
    assert sorted(errors, key=lambda error: error.badness) == errors


@pytest.mark.parametrize(
    ("dtype", "low", "high", "levels"),
    [("int8", -128, 127, 256), ("uint8", 0, 255, 256), ("int4", -8, 7, 16), ("float8_e4m3fn", -448, 448, 256), ("int32", -(2**31), 2**31 - 1, None)],
)  # fmt: skip
def test_types(dtype: str, low: float, high: float, levels: int | None) -> None:
    assert limits(dtype) == (low, high) and levels_of(dtype) == levels
