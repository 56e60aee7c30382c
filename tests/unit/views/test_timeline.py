"""Timelines: how bars lie, how they are joined, what is said."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from bokeh.models import HoverTool
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import CHECKOUT
from tests.unit.views.samples import LIMIT, bars_of, named, plots_of, record, size_of, words
from trt_lab.profiling.latency import account_latency
from trt_lab.profiling.source import engine_of
from trt_lab.record import Record
from trt_lab.types import LayerInfo, LayerTime, NodeId
from trt_lab.views.joining import BUDGET, join_narrow
from trt_lab.views.lanes import MAX_LANES, lay_out
from trt_lab.views.timeline import Timeline, timeline_figure

GPU = CHECKOUT / "tests" / "data" / "gpu"


def test_missing_starts_are_laid_end_to_end_and_said() -> None:
    figure = timeline_figure(record([1.0, 2.0, 3.0]))
    data = bars_of(figure).data
    assert list(data["left"]) == [0.0, 1.0, 3.0] and list(data["right"]) == [1.0, 3.0, 6.0]
    assert "laid end to end in the engine's order: the profiler tells no start times" in words(figure)


def test_known_starts_are_kept_and_streams_get_lanes() -> None:
    figure = timeline_figure(record([1.0, 2.0, 3.0], starts=[5.0, 0.0, 1.0], streams=[0, 1, 1]))
    data = bars_of(figure).data
    found = {int(layer): (left, lane) for layer, left, lane in zip(data["layer"], data["left"], data["y"], strict=True)}
    assert found == {0: (5.0, 0), 1: (0.0, 1), 2: (1.0, 1)}
    plot = plots_of(figure)[0]
    assert plot.yaxis[0].major_label_overrides == {0: "stream 0", 1: "stream 1"}
    assert "end to end in" not in words(figure)


def test_c39_layer_sum_and_latency_are_two_numbers() -> None:
    text = words(timeline_figure(record([0.2, 0.12], latency=(0.277, 0.3, 0.2))))
    assert "layer sum 0.32 ms" in text and "end-to-end latency 0.277 ms" in text
    assert "without the profiler" in text
    assert "end-to-end latency not measured" in words(timeline_figure(record([0.2])))


def test_a_record_without_times_says_why() -> None:
    text = words(timeline_figure(record([])))
    assert "No layer times in this record" in text and "no layers" in text


def test_each_run_gets_its_lane() -> None:
    sides = record([1.0, 2.0], runs=[(1.0, 1.5), (2.0, 2.5)])
    figure = timeline_figure(sides, runs="each")
    data = bars_of(figure).data
    rows = sorted(zip(data["y"], data["left"], data["right"], strict=True))
    assert rows == [(0, 0.0, 1.0), (0, 1.0, 3.0), (1, 0.0, 1.5), (1, 1.5, 4.0)]
    assert plots_of(figure)[0].yaxis[0].major_label_overrides == {0: "run 1", 1: "run 2"}


def test_spread_is_drawn_from_the_runs() -> None:
    figure = timeline_figure(record([1.0], runs=[tuple(np.linspace(0.5, 1.5, 11))]))
    spread = named(figure, "spread").data
    assert spread["x0"][0] == pytest.approx(0.6) and spread["x1"][0] == pytest.approx(1.4)
    assert "80 % of its runs" in words(figure)


def test_two_records_lie_under_each_other_each_with_its_numbers() -> None:
    figure = timeline_figure([record([1.0], name="fp32"), record([0.5], name="fp16")])
    assert list(plots_of(figure)[0].yaxis[0].major_label_overrides.values()) == ["fp32 · layers", "fp16 · layers"]
    text = words(figure)
    assert "fp32: layer sum 1 ms" in text and "fp16: layer sum 0.5 ms" in text


@given(
    st.lists(st.floats(0, 1e3), min_size=1, max_size=300),
    st.integers(1, 20),
    st.integers(1, 50),
    st.floats(0, 1),
    st.floats(0.01, 1),
)
@settings(deadline=None)
def test_joining_keeps_every_layer_and_all_time(
    durations: list[float], budget: int, pixels: int, start: float, width: float
) -> None:
    bars = lay_out([record(durations, streams=[i % 3 for i in range(len(durations))])])
    groups = join_narrow(bars, 0.0, bars.end or 1.0, pixels=pixels, budget=budget)
    assert groups.count.sum() == len(durations)
    assert groups.busy.sum() == pytest.approx(sum(durations))
    assert groups.first.size <= max(budget, 3)
    assert (groups.right >= groups.left).all()
    low = start * bars.end
    view = join_narrow(bars, low, low + width * bars.end, pixels=pixels, budget=budget)
    inside = (bars.start + bars.duration >= low) & (bars.start <= low + width * bars.end)
    assert view.count.sum() == inside.sum()
    assert view.first.size <= max(budget, 3)


def test_wide_bars_are_never_joined() -> None:
    bars = lay_out([record([10.0, 0.001, 0.001, 10.0, 0.001])])
    groups = join_narrow(bars, 0.0, bars.end, pixels=100)
    assert groups.count.tolist() == [1, 2, 1, 1]


def test_joined_bars_say_how_many_and_come_apart_when_zoomed() -> None:
    random = np.random.default_rng(0)
    figure = timeline_figure(record(random.exponential(0.01, 20_000).tolist()))
    source = bars_of(figure)
    assert len(source.data["left"]) <= BUDGET
    assert size_of(figure) < LIMIT
    joined = [name for name, layer in zip(source.data["name"], source.data["layer"], strict=True) if layer < 0]
    assert joined and all(name.endswith(" layers") for name in joined)
    plot = plots_of(figure)[0]
    width = named(figure, "time").end / 1000
    plot.x_range.update(start=50 * width, end=51 * width)
    shown = [
        layer
        for layer, left, right in zip(source.data["layer"], source.data["left"], source.data["right"], strict=True)
        if right > 50 * width and left < 51 * width
    ]
    assert shown and all(layer >= 0 for layer in shown)


def test_a_tap_calls_back_with_the_layer_and_python_selects() -> None:
    taps: list[int] = []
    timeline = Timeline(record([1.0, 2.0, 3.0], starts=[3.0, 0.0, 1.0]), on_select=taps.append)
    source = bars_of(timeline.figure)
    row = np.asarray(source.data["layer"]).tolist().index(2)
    source.selected.indices = [row]
    assert taps == [2]
    timeline.select(0)
    assert np.asarray(source.data["layer"])[source.selected.indices].tolist() == [0]
    timeline.select(None)
    assert taps == [2] and source.selected.indices == []


def test_names_are_escaped_by_the_tooltip_and_long_ones_shortened() -> None:
    long = record([1.0])
    long.times[0] = LayerTime(0, "/a" * 500, 1.0, 1.0)
    figure = timeline_figure(long)
    assert len(bars_of(figure).data["name"][0]) == 200
    hovers = [model for model in figure.references() if isinstance(model, HoverTool)]
    assert hovers
    for hover in hovers:
        assert "{safe}" not in str(hover.tooltips)


def test_types_beyond_the_palette_share_a_colour() -> None:
    kinds = [f"type{i}" for i in range(20)]
    text = words(timeline_figure(record([1.0] * 20, types=kinds)))
    assert "11 other types" in text


def test_runs_follow_each_other_in_one_lane_a_type() -> None:
    side = record([1.0, 2.0, 3.0], runs=[(1.0, 1.5), (2.0, 2.5), (3.0, 3.5)], types=["gemm", "Reformat", "gemm"])
    figure = timeline_figure(side, runs="sequence", by="type")
    data = bars_of(figure).data
    rows = sorted(zip(data["left"], data["right"], data["y"], data["layer"], strict=True))
    assert rows == [(0, 1, 0, 0), (1, 3, 1, 1), (3, 6, 0, 2), (6, 7.5, 0, 0), (7.5, 10, 1, 1), (10, 13.5, 0, 2)]
    assert plots_of(figure)[0].yaxis[0].major_label_overrides == {0: "gemm", 1: "Reformat"}
    assert "2 runs one after another" in words(figure)


def test_lanes_by_scope_are_those_that_the_nodes_of_a_layer_share() -> None:
    side = record([1.0] * 4)
    nodes = [("/a/b/Conv", "/a/c/Relu"), ("/a/b/Conv", "/a/b/Add"), (), ("Top",)]
    side.layers = [
        LayerInfo(i, f"layer{i}", "t", nodes=tuple(map(NodeId, names)), nodes_from="name")
        for i, names in enumerate(nodes)
    ]
    bars = lay_out([side], by="scope")
    assert bars.lanes == ("/a", "/a/b", "no ONNX node known", "/")
    assert bars.lane.tolist() == [0, 1, 2, 3]


def test_many_scopes_are_cut_to_a_depth_and_many_types_share_a_lane() -> None:
    count = 200
    side = record([float(i + 1) for i in range(count)], types=[f"type{i}" for i in range(count)])
    side.layers = [
        LayerInfo(i, f"layer{i}", f"type{i}", nodes=(NodeId(f"/net/block.{i % 4}/part.{i}/Conv"),))
        for i in range(count)
    ]
    assert lay_out([side], by="scope").lanes == tuple(f"/net/block.{i}" for i in range(4))
    by_type = lay_out([side], by="type")
    assert len(by_type.lanes) == MAX_LANES and by_type.lanes[0] == "type199"
    assert by_type.lanes[-1] == f"{count - MAX_LANES + 1} others"
    assert by_type.start.size == count


def test_a_layer_is_selected_where_it_is_joined_and_brought_into_view() -> None:
    timeline = Timeline(record([0.001] * 20_000, types=["a", "b"] * 10_000), by="type")
    source, shown = bars_of(timeline.figure), named(timeline.figure, "time")
    timeline.select(15_000)
    (bar,) = source.selected.indices
    assert source.data["left"][bar] <= 15.0 < source.data["right"][bar] and source.data["y"][bar] == 0
    shown.update(start=1.0, end=1.1)
    assert source.selected.indices == []
    timeline.select(15_000, reveal=True)
    assert shown.start < 15.0 < shown.end and shown.end - shown.start == pytest.approx(0.1)
    (bar,) = source.selected.indices
    assert source.data["layer"][bar] == 15_000


def test_taps_and_selections_in_two_records_go_by_node() -> None:
    taps: list[int] = []
    first, second = record([1.0, 2.0]), record([3.0, 4.0], name="fp32")
    second.layers = [replace(layer, nodes=first.layers[1 - i].nodes) for i, layer in enumerate(second.layers)]
    timeline = Timeline([first, second], on_select=taps.append)
    source = bars_of(timeline.figure)
    bar = next(
        i for i, (y, x) in enumerate(zip(source.data["y"], source.data["left"], strict=True)) if (y, x) == (1, 0)
    )
    source.selected.indices = [bar]
    assert taps == [1]  # the layer of the first record that holds the same node
    timeline.select(0)
    chosen = [(source.data["y"][i], source.data["layer"][i]) for i in source.selected.indices]
    assert sorted(chosen) == [(0, 0), (1, 1)] and taps == [1]


def test_zooming_and_panning_send_bars_only_where_they_are_needed() -> None:
    random = np.random.default_rng(1)
    figure = timeline_figure(record(random.exponential(0.01, 50_000).tolist()))
    source, shown = bars_of(figure), named(figure, "time")
    sent: list[int] = []
    source.on_change("data", lambda _name, _old, new: sent.append(len(new["left"])))
    middle = shown.end / 2
    width = shown.end / 500
    shown.update(start=middle, end=middle + width)
    assert sent
    sent.clear()
    shown.update(start=middle + 0.2 * width, end=middle + 1.2 * width)
    assert sent == []  # still within what was sent around it
    shown.update(start=middle + 3 * width, end=middle + 4 * width)
    assert sent and max(sent) <= BUDGET
    inside = (source.data["right"] >= shown.start) & (source.data["left"] <= shown.end)
    assert source.data["left"].min() <= shown.start and source.data["right"].max() >= shown.end and inside.any()


def test_the_difference_between_layer_sum_and_latency_is_explained() -> None:
    recorded = Record.open(GPU / "l2norm_overflow-fp16.trtlab")
    text = words(Timeline(recorded, account=account_latency(engine_of(recorded))).figure)
    assert "layer sum 0.1315 ms" in text
    assert "difference +0.02944 ms — profiler: not measured" in text
