"""Histograms."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from bokeh.models import ColumnDataSource
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.unit.views.samples import LIMIT, named, size_of, words
from trt_lab.views.histogram import histogram_figure, update_histogram


def bins(figure) -> ColumnDataSource:
    found = figure.select_one({"name": "bins"})
    assert found is not None
    return found


@given(hnp.arrays(np.float64, st.integers(1, 50)), hnp.arrays(np.float64, st.integers(1, 50)))
@settings(max_examples=12, deadline=None)
def test_every_finite_element_is_counted_once(golden: np.ndarray, engine: np.ndarray) -> None:
    figure = histogram_figure(golden, engine)
    if not (np.isfinite(golden).any() or np.isfinite(engine).any()):
        assert "no finite values" in words(figure)
        return
    data = bins(figure).data
    assert sum(data["golden"]) == np.isfinite(golden).sum()
    assert sum(data["engine"]) == np.isfinite(engine).sum()


def test_c21_identical_and_constant_arrays_are_drawn() -> None:
    data = bins(histogram_figure(np.zeros(7), np.zeros(7))).data
    assert sum(data["golden"]) == sum(data["engine"]) == 7


def test_both_sides_share_the_bins_and_the_log_axis_takes_empty_ones() -> None:
    figure = histogram_figure(np.arange(100.0), np.arange(100.0) * 2)
    data = bins(figure).data
    assert data["left"][0] == 0 and data["right"][-1] == 198
    assert float(np.min(np.asarray(data["golden_top"]))) > 0
    plot = figure.select_one({"name": "bins"})
    assert plot is not None and size_of(figure) < LIMIT


def test_non_finite_values_are_counted_apart() -> None:
    text = words(histogram_figure(np.array([np.nan, np.nan, 1.0]), np.array([np.inf, -np.inf, 1.0])))
    assert "golden: 3 elements, of which 2 NaN (not on the axis)" in text
    assert "engine: 3 elements, of which 1 +Inf, 1 −Inf (not on the axis)" in text


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint64, np.float16, ml_dtypes.bfloat16, ml_dtypes.int4])
def test_all_types(dtype: type) -> None:
    data = bins(histogram_figure(np.array([0, 1, 1], dtype), np.array([1, 1], dtype))).data
    assert sum(data["golden"]) == 3 and sum(data["engine"]) == 2


def test_small_integers_get_a_bin_each() -> None:
    data = bins(histogram_figure(np.array([0, 1, 3]), np.array([3, 3]))).data
    assert list(data["golden"]) == [1, 1, 0, 1] and list(data["engine"]) == [0, 0, 0, 2]


def test_empty_and_strings() -> None:
    assert "no finite values" in words(histogram_figure(np.zeros(0), np.zeros(0)))
    assert "no histogram" in words(histogram_figure(np.array(["a"], object), np.array(["b"], object)))


def test_a_histogram_drawn_again_in_place_shows_what_a_new_one_would() -> None:
    first, second = np.arange(100.0), np.array([np.nan, -3.0, 5.0, 5.0])
    figure, fresh = histogram_figure(first, first * 2), histogram_figure(second, second + 1)
    assert update_histogram(figure, second, second + 1)
    for name in ("bins", "engine outline"):
        assert repr(named(figure, name).data) == repr(named(fresh, name).data)
    for name in ("values", "elements"):
        assert named(figure, name).properties_with_values() == named(fresh, name).properties_with_values()
    assert words(figure) == words(fresh)
    assert not update_histogram(figure, np.zeros(0), np.zeros(0))
    assert not update_histogram(histogram_figure(np.zeros(0), np.zeros(0)), first, first)
