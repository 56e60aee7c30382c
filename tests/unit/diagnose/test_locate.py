"""The search on numbers alone: what is tried is a function of this test, so the truth is known."""

from __future__ import annotations

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from trt_lab.diagnose.locate import Trial, downstream, find_region, find_source, is_large, tensor_errors
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
    assert find_source(view, tensor_errors(view, [stats("t0", snr_db=60.0), stats("y", verdict="same")])) is None


@pytest.mark.parametrize(
    ("figures", "large"),
    [
        ({"verdict": "same", "snr_db": 1.0}, False),
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
