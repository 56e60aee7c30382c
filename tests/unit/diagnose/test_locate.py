"""The search on numbers alone: what is tried is a function of this test, so the truth is known."""

from __future__ import annotations

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from trt_lab.diagnose.locate import (
    Trial,
    contradictions,
    downstream,
    find_region,
    find_source,
    find_sources,
    is_large,
    tensor_errors,
)
from trt_lab.graph.view import GraphView
from trt_lab.model import Model
from trt_lab.types import NodeId, TensorStats


def chain(length: int) -> GraphView:
    """x → n0 → n1 → … → y, with a side branch s that no other node reads."""
    nodes = [
        helper.make_node("Relu", [f"t{i - 1}" if i else "x"], [f"t{i}" if i < length - 1 else "y"], name=f"n{i}")
        for i in range(length)
    ]
    nodes.append(helper.make_node("Neg", ["x"], ["side"], name="s"))
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in ("x", "y", "side")]
    graph = helper.make_graph(nodes, "chain", value[:1], value[1:])
    proto: onnx.ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    return GraphView.of(Model.load(proto))


def stats(name: str, **figures: object) -> TensorStats:
    figures = {"verdict": "differs", "count": 4, "snr_db": 3.0, "max_abs": 1.0, **figures}
    return TensorStats(name, dtype_a="float32", dtype_b="float32", shape_a=(4,), shape_b=(4,), **figures)  # type: ignore[arg-type]  # test data


def needs(truth: set[NodeId], tried: list[Trial]):
    """A check that passes when all of `truth` is kept."""

    def attempt(keep: tuple[NodeId, ...]) -> Trial:
        trial = Trial(keep, truth <= set(keep), None)
        tried.append(trial)
        return trial

    return attempt


def test_source_is_the_first_large_error_with_good_inputs() -> None:
    view = chain(5)
    good = {"verdict": "same", "snr_db": 66.0}
    rows = tensor_errors(
        view,
        [
            stats("y"),
            stats("t0", **good),
            stats("t2", inf_mismatch=2),
            stats("t1", **good),
            stats("t3"),
            stats("side", **good),
        ],
    )
    assert [row.tensor for row in rows if row.large] == ["t2", "t3", "y"]
    source = find_source(view, rows)
    assert source is not None
    assert (source.node, source.tensor) == ("n2", "t2")
    assert "2 of 4 values became infinite" in source.why


def test_no_source_without_a_large_error() -> None:
    view = chain(3)
    assert find_source(view, tensor_errors(view, [stats("t0", snr_db=60.0), stats("y", snr_db=48.0)])) is None


@pytest.mark.parametrize(
    ("figures", "large"),
    [
        ({"verdict": "same", "snr_db": 1.0}, True),
        ({"verdict": "same", "snr_db": None, "exact": True}, False),
        ({"verdict": "not_comparable", "snr_db": 1.0}, False),
        ({"snr_db": 66.0}, False),
        ({"snr_db": 29.9}, True),
        ({"snr_db": None, "max_abs": 1.37}, True),
        ({"snr_db": 90.0, "nan_only_a": 1}, True),
        ({"snr_db": 90.0, "inf_mismatch": 1}, True),
    ],
)
def test_large_is_more_than_rounding(figures: dict[str, object], large: bool) -> None:
    assert is_large(stats("t", **figures)) is large


def test_another_shape_is_large() -> None:
    odd = TensorStats("t", "differs", "float32", "float32", (2, 4), (2, 3))
    assert is_large(odd)


def test_downstream_leaves_side_branches_out() -> None:
    assert downstream(chain(4), NodeId("n1")) == ["n1", "n2", "n3"]


@given(st.integers(2, 24), st.data())
def test_region_is_the_smallest_set_whatever_it_is(length: int, data: st.DataObject) -> None:
    view = chain(length)
    start = data.draw(st.integers(0, length - 1))
    below = [NodeId(f"n{i}") for i in range(start, length)]
    truth = {below[0], *data.draw(st.sets(st.sampled_from(below)))}
    tried: list[Trial] = []
    region = find_region(view, below[0], needs(truth, tried))
    assert set(region.keep_fp32) == truth
    assert region.minimal
    assert list(region.trials) == tried


def test_a_second_fault_elsewhere_is_found_by_starting_from_all() -> None:
    region = find_region(chain(6), NodeId("n3"), needs({NodeId("n3"), NodeId("s")}, []))
    assert set(region.keep_fp32) == {"n3", "s"}


def test_a_fault_that_fp32_has_too_gives_no_region() -> None:
    def never(keep: tuple[NodeId, ...]) -> Trial:
        return Trial(keep, False, 1.0)

    region = find_region(chain(4), NodeId("n1"), never)
    assert region.keep_fp32 == ()
    assert not region.minimal


def test_sources_are_nodes_whose_local_error_is_large_while_inputs_are_good() -> None:
    view = chain(5)
    good = {"verdict": "same", "snr_db": 66.0}
    rows = tensor_errors(
        view,
        [stats("t0", **good), stats("t1"), stats("t2"), stats("t3"), stats("y"), stats("side")],
        {
            "t0": stats("t0", **good),
            "t1": stats("t1"),
            "t2": stats("t2"),
            "t3": stats("t3", **good),
            "side": stats("side"),
        },
    )
    assert [s.node for s in find_sources(view, rows)] == ["n1", "s"]
    assert [s.node for s in find_sources(view, rows, {NodeId("n1"), NodeId("n2")})] == ["n1"]
    assert [row.local_large for row in rows if row.tensor in ("t2", "t3")] == [True, False]


@given(st.integers(4, 30), st.data())
def test_several_faults_are_found_from_the_suspects(length: int, data: st.DataObject) -> None:
    view = chain(length)
    nodes = [NodeId(f"n{i}") for i in range(length)]
    truth = data.draw(st.sets(st.sampled_from(nodes), min_size=1))
    innocent = data.draw(st.sets(st.sampled_from(nodes)))
    tried: list[Trial] = []
    suspects = [n for n in nodes if n in truth | innocent]
    region = find_region(view, None, needs(truth, tried), suspects=suspects)
    assert set(region.keep_fp32) == truth
    assert region.monotone
    assert len({frozenset(t.keep_fp32) for t in tried}) == len(tried), "no set is tried twice"


def test_a_check_that_is_not_monotone_is_told() -> None:
    def odd(keep: tuple[NodeId, ...]) -> Trial:
        return Trial(keep, NodeId("n1") in keep and set(keep) != {"n0", "n1"}, None)

    region = find_region(chain(5), None, odd, suspects=[NodeId("n0"), NodeId("n1")])
    assert region.keep_fp32 == ("n1",)
    assert not region.monotone
    good, bad = contradictions(region.trials)[0]
    assert good.passes and not bad.passes and set(good.keep_fp32) < set(bad.keep_fp32)


def test_only_nodes_that_can_be_low_are_kept() -> None:
    able = [NodeId("n0"), NodeId("n2")]
    region = find_region(chain(4), None, needs({NodeId("n2")}, []), suspects=[NodeId("n1")], able=able)
    assert region.keep_fp32 == ("n2",)
    assert all(set(trial.keep_fp32) <= set(able) for trial in region.trials)
