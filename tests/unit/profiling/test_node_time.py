"""Time by ONNX node: what is shared out adds up, exactly; what is not known stays under its layer's name."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trt_lab.frames import node_times_frame
from trt_lab.profiling.node_time import FS_PER_MS, cut_scope, node_times, pieces_of, statistic_of
from trt_lab.profiling.source import Engine, open_engine
from trt_lab.types import LayerInfo, LayerTime, NodeId

DATA = Path(__file__).resolve().parents[2] / "data" / "gpu"
MODELS = ("encoder4", "l2norm_overflow", "magika", "ppocr_det")


def engine(layers: list[tuple[str, tuple[str, ...], float]], *, median: bool = True) -> Engine:
    """An engine of (name, nodes, ms)."""
    return Engine(
        "made",
        None,
        "layers",
        "trt10",
        tuple(
            LayerInfo(i, name, "kgen", nodes=tuple(NodeId(n) for n in nodes))
            for i, (name, nodes, _) in enumerate(layers)
        ),
        tuple(LayerTime(i, name, ms, ms if median else None) for i, (name, _, ms) in enumerate(layers)),
    )


def test_fused_layers_are_shared_out_in_equal_parts() -> None:
    times = node_times(engine([("a + b", ("/x/a", "/x/b"), 3.0), ("b", ("/x/b",), 1.0), ("c", ("/c",), 0.5)]))
    assert {row.key: row.ms for row in times.rows} == {"/x/a": 1.5, "/x/b": 2.5, "/c": 0.5}
    assert {row.key: row.exact for row in times.rows} == {"/x/a": False, "/x/b": False, "/c": True}
    assert times.by_key["/x/b"].layers == ("a + b", "b")
    assert times.total_ms == 4.5
    assert {scope: fs / FS_PER_MS for scope, fs in times.by_scope().items()} == {"/x": 4.0, "": 0.5}


def test_weights_share_out_where_all_are_known() -> None:
    made = engine([("a + b", ("a", "b"), 3.0), ("c + d", ("c", "d"), 3.0), ("e + f", ("e", "f"), 2.0)])
    times = node_times(made, weights={"a": 2.0, "b": 1.0, "c": 5.0, "e": 0.0, "f": 0.0})
    assert {row.key: row.ms for row in times.rows} == {"a": 2.0, "b": 1.0, "c": 1.5, "d": 1.5, "e": 1.0, "f": 1.0}


def test_layers_without_a_node_keep_their_name_without_numbers_that_change() -> None:
    made = engine([("__mye197_0_myl2_0", (), 1.0), ("__mye201_0_myl4_0", (), 2.0), ("own", (), 4.0)])
    rows = node_times(made).rows
    assert [(row.label, row.is_node, row.ms) for row in rows] == [("__mye", False, 3.0), ("own", False, 4.0)]


def test_a_node_and_a_layer_of_the_same_name_are_two() -> None:
    rows = node_times(engine([("x", ("n",), 1.0), ("n", (), 2.0)])).rows
    assert [(row.label, row.is_node, row.ms) for row in rows] == [("n", True, 1.0), ("n", False, 2.0)]


def test_medians_and_averages_are_never_mixed() -> None:
    with_median, without = engine([("a", ("a",), 1.0)]), engine([("a", ("a",), 1.0)], median=False)
    assert statistic_of(with_median) == "median"
    assert statistic_of(with_median, without) == "average"


def test_an_engine_that_was_not_timed_has_no_rows() -> None:
    made = Engine("made", None, "layers", "trt10", (LayerInfo(0, "a", "kgen", nodes=(NodeId("a"),)),))
    assert node_times(made).rows == ()
    assert node_times_frame(node_times(made)).empty


@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from([f"/s{i % 3}/n{i}" for i in range(12)]), max_size=9, unique=True),
            st.floats(min_value=0, max_value=1e4),
        ),
        min_size=1,
        max_size=30,
    ),
    st.dictionaries(st.sampled_from([f"/s{i % 3}/n{i}" for i in range(12)]), st.floats(min_value=0, max_value=1e9)),
)
def test_parts_add_up_to_the_layers_exactly(layers: list[tuple[list[str], float]], weights: dict[str, float]) -> None:
    made = engine([(f"layer {i}", tuple(nodes), ms) for i, (nodes, ms) in enumerate(layers)])
    times = node_times(made, weights=weights)
    whole = sum(round(ms * FS_PER_MS) for _, ms in layers)
    assert sum(row.time_fs for row in times.rows) == times.total_fs == whole
    assert sum(times.by_scope().values()) == whole
    assert all(row.time_fs >= 0 for row in times.rows)


@pytest.mark.parametrize("name", [f"{model}-{precision}" for model in MODELS for precision in ("fp32", "fp16")])
def test_recorded_engines_add_up_by_node_and_by_scope(name: str) -> None:
    opened = open_engine(DATA / f"{name}.trtlab")
    times = node_times(opened)
    medians = [time.median_ms for time in opened.times if time.median_ms is not None]
    assert len(medians) == len(opened.times)
    shuffled = list(times.rows)
    random.Random(0).shuffle(shuffled)
    assert sum(row.time_fs for row in shuffled) == times.total_fs  # whole numbers: equal in any order
    assert times.total_ms == pytest.approx(math.fsum(medians), abs=1e-12 * len(medians))
    for depth in (None, 1, 2):
        assert sum(times.by_scope(depth).values()) == times.total_fs
    assert node_times_frame(times)["share"].sum() == pytest.approx(1.0)


def test_runs_of_nodes_add_up_to_runs_of_layers() -> None:
    opened = open_engine(DATA / "encoder4-fp16.trtlab")
    times = node_times(opened)
    for run in range(20):
        by_node = math.fsum(row.runs_ms[run] for row in times.rows)
        assert by_node == pytest.approx(math.fsum(time.runs_ms[run] for time in opened.times), rel=1e-12)


def test_a_profile_alone_gives_nodes_by_the_names_of_its_layers(tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    file.write_text('[{"count":1},{"name":"Conv_0 + Relu_1","timeMs":2,"averageMs":2,"percentage":100}]')
    opened = open_engine(file)
    assert [(row.label, row.ms) for row in node_times(opened).rows] == [("Conv_0", 1.0), ("Relu_1", 1.0)]


def test_names_that_are_no_layer_are_counted_too() -> None:
    made = engine([("a", ("a",), 1.0)])
    more = Engine("m", None, "layers", "trt10", made.layers, (*made.times, LayerTime(1, "b + c", 2.0, 2.0)))
    assert [piece.layer is None for piece in pieces_of(more)] == [False, True]
    assert {row.label: row.ms for row in node_times(more).rows} == {"a": 1.0, "b": 1.0, "c": 1.0}


@pytest.mark.parametrize(
    ("scope", "depth", "cut"),
    [("/a/b/c", 2, "/a/b"), ("/a", 2, "/a"), ("", 1, ""), ("a/b/c", 1, "a"), ("/a/b", None, "/a/b")],
)
def test_scopes_are_cut_from_the_outermost(scope: str, depth: int | None, cut: str) -> None:
    assert cut_scope(scope, depth) == cut
