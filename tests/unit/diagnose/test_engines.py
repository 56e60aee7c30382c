"""The search on engines, with builds that answer as measured ones did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, log2
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from trt_lab import zoo
from trt_lab.diagnose.engines import EngineFound, EngineSearch, group_by_layer, needed
from trt_lab.diagnose.locate import Trial
from trt_lab.graph import GraphView
from trt_lab.model import Model
from trt_lab.record import Record
from trt_lab.types import LayerInfo, NodeId

GPU = Path(__file__).resolve().parents[2] / "data" / "gpu"


def chain(length: int) -> GraphView:
    names = ["x", *(f"t{i}" for i in range(length))]
    nodes = [helper.make_node("Relu", [names[i]], [names[i + 1]], name=f"n{i:03d}") for i in range(length)]
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in (names[0], names[-1])]
    graph = helper.make_graph(nodes, "chain", info[:1], info[1:])
    return GraphView.of(Model.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)))


def layer(index: int, *nodes: str) -> LayerInfo:
    return LayerInfo(index, " + ".join(nodes), "PWN", nodes=tuple(NodeId(n) for n in nodes), nodes_from="metadata")


class Builds:
    """Counts engines; `good` decides on a set, `refuses` says which sets do not build."""

    def __init__(
        self, good: Callable[[set[str]], bool], refuses: Callable[[set[str]], bool] = lambda keep: False
    ) -> None:
        self.good, self.refuses = good, refuses
        self.sets: list[tuple[str, ...]] = []
        self.batches: list[int] = []

    def __call__(self, sets: Sequence[tuple[NodeId, ...]]) -> list[Trial | None]:
        self.batches.append(len(sets))
        self.sets += sets
        return [None if self.refuses(set(keep)) else Trial(keep, self.good(set(keep)), 0.1, builds=1) for keep in sets]


def search(
    view: GraphView, builds: Builds, groups: Sequence[tuple[NodeId, ...]] | None = None, first: Sequence[str] = (),
    **more: int,
) -> EngineFound:  # fmt: skip
    nodes = view.graphs[""].nodes
    made = EngineSearch(view, nodes, groups or [(n,) for n in nodes], builds, **more)
    found = made.run([NodeId(n) for n in first])
    assert made.built == len(builds.sets) == len(set(builds.sets)), "every build is counted, none made twice"
    return found


def test_layers_that_share_a_node_are_one_group_and_the_order_is_topological() -> None:
    nodes = [NodeId(n) for n in "abcdefg"]
    groups = group_by_layer(nodes, [layer(0, "e", "d"), layer(1, "b", "c", "not there"), layer(2, "c", "f")])
    assert groups == (("a",), ("b", "c", "f"), ("d", "e"), ("g",))


def test_groups_of_a_measured_engine_hold_each_node_once() -> None:
    record = Record.open(GPU / "l2norm_overflow-fp16.trtlab")
    view = GraphView.of(zoo.get("l2norm_overflow").model)
    nodes = view.graphs[""].nodes
    groups = group_by_layer(nodes, record.layers)
    assert sorted(n for g in groups for n in g) == sorted(nodes)
    assert ("/a/a.0/Conv", "/a/a.1/Relu") in groups
    assert len(groups) < len(nodes)


def test_the_set_of_emulation_is_widened_to_whole_layers_first() -> None:
    view = chain(40)
    groups = group_by_layer(view.graphs[""].nodes, [layer(0, "n009", "n010", "n011")])
    builds = Builds(lambda keep: {"n009", "n010", "n011"} <= keep)
    found = search(view, builds, groups, ["n010"])
    assert builds.sets[0] == ("n009", "n010", "n011")
    assert found.region.keep_fp32 == ("n009", "n010", "n011") and found.region.minimal
    assert len(builds.sets) <= 5
    assert needed(found.region.trials, found.region.keep_fp32) == dict.fromkeys(("n009", "n010", "n011"), True)


def test_without_a_hint_groups_are_bisected_in_topological_order() -> None:
    view = chain(200)
    groups = group_by_layer(
        view.graphs[""].nodes, [layer(i, *(f"n{j:03d}" for j in range(i * 4, i * 4 + 4))) for i in range(50)]
    )
    builds = Builds(lambda keep: {"n101", "n102"} <= keep)
    found = search(view, builds, groups)
    assert found.region.keep_fp32 == ("n101", "n102") and found.region.minimal
    assert found.region.monotone
    assert len(builds.sets) <= 1 + 2 * ceil(log2(50)) + 6
    assert any(len(keep) > 50 for keep in builds.sets), "several groups a build"


def test_two_faults_far_apart_are_both_kept_and_what_lies_between_is_dropped() -> None:
    view = chain(64)
    builds = Builds(lambda keep: {"n010", "n050"} <= keep)
    found = search(view, builds, limit=60)
    assert found.region.keep_fp32 == ("n010", "n050") and found.region.minimal


def test_side_by_side_fewer_rounds() -> None:
    view = chain(64)
    one, four = (Builds(lambda keep: "n037" in keep) for _ in range(2))
    alone = search(view, one, limit=60)
    together = search(view, four, limit=60, width=4)
    assert alone.region.keep_fp32 == together.region.keep_fp32 == ("n037",)
    assert len(four.batches) < len(one.batches) and max(four.batches) == 4


def test_the_limit_leaves_a_set_that_passes_and_says_that_it_is_not_minimal() -> None:
    view = chain(64)
    builds = Builds(lambda keep: {"n001", "n020", "n040", "n060"} <= keep)
    found = search(view, builds, limit=10)
    assert found.exhausted and not found.region.minimal
    assert {"n001", "n020", "n040", "n060"} <= set(found.region.keep_fp32)
    assert len(builds.sets) <= 10


def test_an_engine_that_fails_in_fp32_too_is_no_matter_of_precision() -> None:
    found = search(chain(8), Builds(lambda keep: False), first=["n003"])
    assert found.all_fail and found.region.keep_fp32 == ()


def test_a_set_that_does_not_build_is_neither_good_nor_bad() -> None:
    builds = Builds(lambda keep: "n005" in keep, refuses=lambda keep: keep == {"n005"})
    found = search(chain(8), builds, limit=40)
    assert found.unbuilt == 1
    assert "n005" in found.region.keep_fp32 and len(found.region.keep_fp32) == 2
    assert all(set(trial.keep_fp32) != {"n005"} for trial in found.region.trials)


def test_results_that_are_not_monotone_are_said_and_the_set_still_passes() -> None:
    builds = Builds(lambda keep: "n006" in keep and len(keep) != 7)
    found = search(chain(8), builds, limit=60)
    assert not found.region.monotone
    assert builds.good(set(found.region.keep_fp32))


@settings(max_examples=60, deadline=None)
@given(
    st.sets(st.integers(0, 29), min_size=1, max_size=4),
    st.lists(st.integers(1, 5), min_size=1, max_size=12),
    st.sets(st.integers(0, 29), max_size=5),
    st.sampled_from([1, 3]),
)
def test_whatever_is_needed_the_set_passes_and_is_minimal(
    wanted: set[int], sizes: list[int], first: set[int], width: int
) -> None:
    view = VIEW
    need = {f"n{i:03d}" for i in wanted}
    layers, start = [], 0
    for index, size in enumerate(sizes):
        layers.append(layer(index, *(f"n{j:03d}" for j in range(start, min(start + size, 30)))))
        start += size
    groups = group_by_layer(view.graphs[""].nodes, layers)
    builds = Builds(lambda keep: need <= keep)
    found = search(view, builds, groups, [f"n{i:03d}" for i in first], limit=1000, width=width)
    assert set(found.region.keep_fp32) == need and found.region.minimal and found.region.monotone


VIEW = chain(30)


@pytest.mark.parametrize("width", [1, 4])
def test_mul_alone_does_not_help_and_the_region_is_found(width: int) -> None:
    """As measured, strongly typed: the value must stay in FP32 until /Div brings it back into range."""
    made = zoo.get("l2norm_overflow")
    view = GraphView.of(made.model)
    groups = group_by_layer(view.graphs[""].nodes, Record.open(GPU / "l2norm_overflow-fp16.trtlab").layers)
    builds = Builds(lambda keep: set(made.keep) <= keep)
    found = search(view, builds, groups, ["/Mul"], limit=40, width=width)
    assert found.region.keep_fp32 == made.keep and found.region.minimal
    assert all(needed(found.region.trials, made.keep).values())
