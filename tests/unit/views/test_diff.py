"""Diff figures."""

from __future__ import annotations

import json
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from bokeh.core.json_encoder import serialize_json
from bokeh.document import Document
from bokeh.models import ColumnDataSource, LinearColorMapper
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.unit.views.samples import LIMIT, named, pair, plots_of, size_of, words
from trt_lab.errors import UsageError
from trt_lab.types import TensorStats
from trt_lab.views.diff import default_slice, diff_figure, update_diff


def test_golden_and_engine_share_one_scale_and_the_difference_is_symmetric() -> None:
    golden, engine = pair((5, 6))
    engine[2, 3] = 40.0
    figure = diff_figure(golden, engine, name="t")
    mappers: dict[Any, Any] = {plot.name: named(plot, "image").glyph.color_mapper for plot in plots_of(figure)}
    assert mappers["golden"] is mappers["engine"]
    assert mappers["golden"].low == pytest.approx(float(min(golden.min(), engine.min())))
    assert mappers["golden"].high == 40.0
    assert mappers["difference"].low == -mappers["difference"].high
    assert mappers["difference"].high == pytest.approx(40.0 - float(golden[2, 3]))


@given(
    hnp.arrays(np.float32, (4, 5), elements=st.floats(width=32)),
    hnp.arrays(np.float32, (4, 5), elements=st.floats(width=32)),
)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_values_give_finite_scales_that_hold_all_finite_cells(golden: np.ndarray, engine: np.ndarray) -> None:
    figure = diff_figure(golden, engine)
    values, differences = named(figure, "values"), named(figure, "differences")
    finite = np.concatenate([side[np.isfinite(side)] for side in (golden, engine)])
    assert np.isfinite([values.low, values.high, differences.low, differences.high]).all()
    assert values.low < values.high and differences.low < differences.high
    assert differences.low == -differences.high
    if finite.size:
        assert values.low <= finite.min() and finite.max() <= values.high
    document = Document()
    document.add_root(figure)
    json.loads(serialize_json(document.to_json().content))


def test_the_maps_move_together() -> None:
    plots = plots_of(diff_figure(*pair((5, 6))))
    assert len(plots) == 3
    assert len({id(plot.x_range) for plot in plots}) == len({id(plot.y_range) for plot in plots}) == 1


def test_the_default_slice_holds_the_worst_element_and_marks_it() -> None:
    golden, engine = pair((2, 8, 5, 6))
    engine[1, 3, 2, 4] += 9
    assert default_slice(golden, engine) == (1, 3)
    figure = diff_figure(golden, engine, name="/a")
    assert named(figure, "worst").data == {"x": [4], "y": [2]}
    np.testing.assert_array_equal(named(figure, "maps").data["golden"][0], golden[1, 3])
    assert "slice [1, 3, :, :]" in words(figure)
    other = diff_figure(golden, engine, slice=(0, 0))
    assert named(other, "worst").data == {"x": [], "y": []}
    with pytest.raises(UsageError, match="outside axis 1"):
        diff_figure(golden, engine, slice=(0, 8))


def test_hover_names_the_element() -> None:
    hover = named(named(diff_figure(*pair((1, 3, 5, 6)), slice=(2,)), "golden"), "hover")
    tips = dict(hover.tooltips)
    assert tips["index"] == "[0, 2, $y{0}, $x{0}]"
    assert {"golden", "engine", "difference"} <= set(tips)


def test_c48_a_64_mb_tensor_is_sent_in_less_than_1_mb() -> None:
    golden = np.zeros((4096, 4096), np.float32)
    engine = golden.copy()
    engine[4001, 77] = np.float32(0.25)
    figure = diff_figure(golden, engine, name="big")
    assert size_of(figure) < LIMIT
    assert np.nanmax(named(figure, "maps").data["difference"][0]) == 0.25
    assert "16 × 16 elements" in words(figure)


@given(
    st.lists(st.integers(1, 700), min_size=0, max_size=4).filter(lambda s: np.prod(s) < 2**19), st.integers(0, 2**32)
)
@settings(max_examples=8, deadline=None)
def test_no_figure_is_larger_than_1_mb(shape: list[int], seed: int) -> None:
    assert size_of(diff_figure(*pair(tuple(shape), seed), name="/x" * 200)) < LIMIT


def test_non_finite_values_are_counted_on_each_side() -> None:
    """C22: NaN and infinities that agree are no difference."""
    golden = np.array([[np.nan, np.inf, -np.inf, np.inf, 1.0]] * 2, np.float32)
    engine = np.array([[np.nan, np.inf, -np.inf, -np.inf, np.nan]] * 2, np.float32)
    figure = diff_figure(golden, engine)
    text = words(figure)
    assert "NaN: 2 in golden, 4 in engine" in text
    assert "+Inf: 4 in golden, 2 in engine" in text
    assert "−Inf: 2 in golden, 4 in engine" in text
    assert "in the difference: 4 not finite on one side, or not the same" in text
    assert "in the difference: 6 the same on both sides" in text
    difference = named(figure, "maps").data["difference"][0]
    assert np.isnan(difference[:, :3]).all() and np.isposinf(difference[:, 3:]).all()
    mapper: LinearColorMapper = named(figure, "values")
    assert len({mapper.nan_color, mapper.low_color, mapper.high_color}) == 3


def test_c21_identical_arrays_are_drawn() -> None:
    golden = np.zeros((3, 4), np.float32)
    figure = diff_figure(golden, golden)
    assert "no element differs" in words(figure)
    assert (named(figure, "differences").low, named(figure, "differences").high) == (-1.0, 1.0)


def test_c13_no_elements_and_c30_other_shapes_are_said() -> None:
    empty = np.zeros((1, 0, 3), np.float32)
    assert "z: 0 elements, shapes equal" in words(diff_figure(empty, empty, name="z"))
    text = words(diff_figure(np.zeros((2, 4)), np.zeros((2, 3)), name="nz"))
    assert "nz: shapes differ" in text and "[2, 4]" in text and "[2, 3]" in text
    assert "shapes differ" in words(diff_figure(np.zeros((2, 1)), np.zeros((1, 2))))


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int64, np.float16, ml_dtypes.bfloat16, ml_dtypes.int4])
@pytest.mark.parametrize("shape", [(), (1, 1), (5,), (4, 5), (2, 4, 5)])
def test_all_types_and_ranks_are_drawn(dtype: type, shape: tuple[int, ...]) -> None:
    golden, engine = np.zeros(shape, dtype), np.ones(shape, dtype)
    figure = diff_figure(golden, engine, name="t")
    assert size_of(figure) < LIMIT
    assert "t" in words(figure)


def test_strings_are_counted() -> None:
    golden, engine = np.array(["a", "ü"], object), np.array(["a", "u"], object)
    assert "1 of 2 elements differ" in words(diff_figure(golden, engine, name="s"))


def test_one_axis_is_drawn_as_lines_with_the_worst_element_kept() -> None:
    golden = np.zeros(100_000, np.float32)
    engine = golden.copy()
    engine[77_777] = -3
    figure = diff_figure(golden, engine)
    source: ColumnDataSource = named(figure, "lines")
    assert min(source.data["difference"]) == -3.0
    assert "each point is 98 elements" in words(figure)


def test_the_figures_of_compare_are_shown() -> None:
    golden, engine = pair((4, 5))
    stats = TensorStats(
        "t",
        "differs",
        "float32",
        "float32",
        (4, 5),
        (4, 5),
        count=20,
        max_abs=0.5,
        max_abs_at=(3, 1),
        rmse=0.25,
        cosine=None,
        over_tolerance=7,
    )
    text = words(diff_figure(golden, engine, name="t", stats=stats))
    assert "worst element [3, 1]" in text
    assert "RMSE 0.25 · cosine not defined" in text and "7 of 20 over tolerance" in text


def test_names_are_text() -> None:
    figure = diff_figure(*pair((4, 5)), name="<img src=x onerror=alert(1)>")
    assert "<img src=x onerror=alert(1)>" in words(figure)
    assert not [
        model for model in figure.references() if type(model).__name__ in ("HTML", "Div") and hasattr(model, "text")
    ]


def contents(figure: Any) -> Any:
    """What a figure shows: all that `diff_figure` decides from the pair."""
    data = {source.name: source.data for source in figure.select({"type": ColumnDataSource})}
    ranges = {name: named(figure, name).properties_with_values() for name in ("columns", "rows")}
    scales = {name: (named(figure, name).low, named(figure, name).high) for name in ("values", "differences")}
    tips = [hover.tooltips for hover in figure.select({"name": "hover"})]
    return repr(
        (sorted(data), [data[key] for key in sorted(data)], ranges, scales, tips, sorted(words(figure).split("\n")))
    )


@given(
    hnp.arrays(np.float32, (3, 4, 5), elements=st.floats(width=32)),
    hnp.arrays(np.float32, (2, 6, 3), elements=st.floats(width=32)),
)
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_figure_drawn_again_in_place_shows_what_a_new_one_would(first: np.ndarray, second: np.ndarray) -> None:
    figure = diff_figure(first, first[::-1], name="first")
    assert update_diff(figure, second, second[::-1], name="second")
    assert contents(figure) == contents(diff_figure(second, second[::-1], name="second"))


def lines(figure: Any, kind: str) -> Any:
    """What the plots of a tensor with one axis show."""
    data = {source.name: source.data for source in figure.select({"type": ColumnDataSource})}
    ends = [(float(r.start), float(r.end), float(r.reset_start), float(r.reset_end), r.bounds)
            for r in (named(figure, "elements shown"), named(figure, "differences"))]  # fmt: skip
    shown = [data[name] for name in (kind, "worst engine", "worst difference")]
    return repr((shown, ends, named(figure, "difference bars").glyph.width, sorted(words(figure).split("\n"))))


@pytest.mark.parametrize(("kind", "before", "after"), [("lines", 5000, 65), ("lines", 70, 4097), ("bars", 64, 2)])
def test_lines_drawn_again_in_place_show_what_new_ones_would(kind: str, before: int, after: int) -> None:
    figure = diff_figure(*pair((1, before)), name="first")
    golden, engine = pair((after, 1), seed=3)
    engine[after // 2], golden[0] = np.inf, np.nan
    for other in (engine, golden, -engine):
        assert update_diff(figure, golden, other, name="second")
        assert lines(figure, kind) == lines(diff_figure(golden, other, name="second"), kind)
    assert "worst element" in words(figure) and "NaN: 1 in golden" in words(figure)


def test_bars_need_a_figure_of_their_own() -> None:
    bars, line = diff_figure(*pair((64,))), diff_figure(*pair((65,)))
    assert not update_diff(bars, *pair((65,)))
    assert not update_diff(line, *pair((64,)))
    assert not update_diff(bars, *pair((1,)))
    assert lines(bars, "bars") == lines(diff_figure(*pair((64,))), "bars")


def test_what_is_not_drawn_as_maps_needs_a_figure_of_its_own() -> None:
    maps, line = diff_figure(*pair((5, 6))), diff_figure(*pair((9,)))
    before = contents(maps)
    assert not update_diff(maps, *pair((9,)))
    assert not update_diff(maps, np.zeros((2, 4)), np.zeros((2, 3)))
    assert not update_diff(line, *pair((5, 6)))
    assert contents(maps) == before
