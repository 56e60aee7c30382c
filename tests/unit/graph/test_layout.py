"""The drawing: nothing overlaps, everything flows down, the same graph gives the same picture, in time."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from tests.unit.graph.models import branch, chain, from_edges, info, transformer, view_of, weight
from trt_lab import zoo
from trt_lab.errors import ModelError
from trt_lab.graph import KINDS, GraphView, Layout, ancestors, default_expanded, layout
from trt_lab.graph.tree import GROUP_SIZE, MAX_CHILDREN, tree_of


def kind(drawing: Layout, index: int) -> str:
    return KINDS[drawing.kinds[index]]


def of_kind(drawing: Layout, wanted: str) -> list[str]:
    return [name for index, name in enumerate(drawing.ids) if kind(drawing, index) == wanted]


def all_scopes(view: GraphView, graph: str = "") -> frozenset[str]:
    return frozenset(branch.id for branch in tree_of(view, graph).branches[1:] if not branch.is_node)


def holders(drawing: Layout, index: int) -> set[int]:
    found = set()
    while (index := int(drawing.parents[index])) >= 0:
        found.add(index)
    return found


def check_drawing(drawing: Layout) -> None:
    """What holds for every drawing."""
    boxes = drawing.boxes.astype(np.float64)
    x, y, w, h = boxes.T
    slack = 0.51  # float32 at a height of a million pixels
    assert np.isfinite(boxes).all() and np.isfinite(drawing.route_points).all()
    assert (w >= 8).all() and (h > 0).all() and (x >= -slack).all() and (y >= -slack).all()
    assert (x + w <= drawing.width + slack).all() and (y + h <= drawing.height + slack).all()
    above = [holders(drawing, index) for index in range(len(boxes))]
    for a in range(len(boxes)):
        near = (x < x[a] + w[a] - slack) & (x[a] < x + w - slack) & (y < y[a] + h[a] - slack) & (y[a] < y + h - slack)
        for b in np.flatnonzero(near[a + 1 :]) + a + 1:
            assert a in above[b] or b in above[a], f"{drawing.ids[a]} overlaps {drawing.ids[b]}"
        for frame in above[a]:
            assert x[frame] - slack <= x[a] and x[a] + w[a] <= x[frame] + w[frame] + slack
            assert y[frame] - slack <= y[a] and y[a] + h[a] <= y[frame] + h[frame] + slack
            assert frame < a and kind(drawing, frame) == "frame"
    assert drawing.route_starts[0] == 0 and drawing.route_starts[-1] == len(drawing.route_points)
    for edge, (source, target) in enumerate(zip(drawing.edge_sources, drawing.edge_targets, strict=True)):
        route = drawing.route(edge).astype(np.float64)
        assert len(route) >= 2 and (np.diff(route[:, 1]) >= -slack).all()
        assert y[source] + h[source] <= y[target] + slack
        assert abs(route[0, 1] - y[source] - h[source]) < slack and abs(route[-1, 1] - y[target]) < slack
        assert x[source] - slack <= route[0, 0] <= x[source] + w[source] + slack
        assert x[target] - slack <= route[-1, 0] <= x[target] + w[target] + slack
        assert kind(drawing, source) != "frame" and kind(drawing, target) != "frame"


def same(first: Layout, second: Layout) -> bool:
    arrays = (
        "kinds",
        "boxes",
        "parents",
        "counts",
        "peers",
        "edge_sources",
        "edge_targets",
        "edge_tensors",
        "route_points",
    )
    return first.ids == second.ids and all(np.array_equal(getattr(first, n), getattr(second, n)) for n in arrays)


graphs = st.integers(1, 30).flatmap(
    lambda count: st.tuples(
        st.just(count),
        st.sets(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=60),
        st.lists(st.sampled_from(["", "/a", "/a/b", "/c", "/c/d/e", "/a/f"]), min_size=count, max_size=count),
        st.sets(st.sampled_from(["/a", "/a/b", "/c", "/c/d/e", "/a/f"])),
    )
)


@settings(max_examples=60, deadline=None)
@given(graphs)
def test_any_graph_with_any_scopes_open_is_drawn_well(
    graph: tuple[int, set[tuple[int, int]], list[str], set[str]],
) -> None:
    count, pairs, scopes, opened = graph
    edges = sorted({(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]})
    view = from_edges(count, edges, lambda i: f"{scopes[i]}/node_{i}")
    drawing = layout(view, frozenset(opened))
    check_drawing(drawing)
    assert drawing.expanded <= opened
    assert same(drawing, layout(GraphView(view.model), frozenset(opened)))
    nodes = set(of_kind(drawing, "node"))
    for node in view.nodes:
        index = drawing.index_of(node)
        assert index is not None and (drawing.ids[index] == node or node not in nodes)
    # every edge between two different things is drawn, directly or as two stubs
    shown = {node: drawing.index_of(node) for node in view.nodes}
    wanted = {(shown[a], shown[b]) for a in view.nodes for b in view.successors(a) if shown[a] != shown[b]}
    drawn = set(zip(drawing.edge_sources.tolist(), drawing.edge_targets.tolist(), strict=True))
    for source, target in wanted - drawn:
        entering = [s for s, t in drawn if t == target and kind(drawing, s) == "portal"]
        assert source in [int(drawing.peers[portal]) for portal in entering]


@pytest.mark.parametrize("state", ["first", "closed", "open"])
@pytest.mark.parametrize("name", ["l2norm_overflow", "layernorm_overflow", "clean_cnn", "transformer"])
def test_real_structures_are_drawn_well(name: str, state: str) -> None:
    view = transformer(4) if name == "transformer" else GraphView.of(zoo.get(name).model)
    opened = {"first": None, "closed": frozenset[str](), "open": all_scopes(view)}[state]
    check_drawing(layout(view, opened))


def test_chains_are_straight() -> None:
    drawing = layout(chain(50, lambda i: f"/n_{i}"))
    middles = drawing.boxes[:, 0] + drawing.boxes[:, 2] / 2
    assert np.ptp(middles) == 0 and all(len(drawing.route(edge)) == 2 for edge in range(len(drawing.edge_sources)))


def test_trunk_stays_straight_beside_a_residual() -> None:
    nodes = [helper.make_node("Relu", [f"t{i}"], [f"t{i + 1}"], name=f"/n{i}") for i in range(4)]
    nodes.append(helper.make_node("Add", ["t4", "t1"], ["y"], name="/add"))
    drawing = layout(view_of(nodes, [info("t0", [1])], [info("y", [1])]))
    check_drawing(drawing)
    assert np.ptp(drawing.boxes[:, 0] + drawing.boxes[:, 2] / 2) == 0


def test_boxes_are_as_wide_as_their_labels() -> None:
    view = chain(3, lambda i: ["/a", "/some_longer_name", "/" + "x" * 300][i])
    drawing = layout(view)
    widths = {drawing.ids[i]: float(drawing.boxes[i, 2]) for i in range(len(drawing.ids))}
    short, longer, endless = widths["/a"], widths["/some_longer_name"], widths["/" + "x" * 300]
    assert longer - short == 7 * (len("some_longer_name") - len("Relu")) and 60 <= short < 80 and endless <= 240


def test_closed_scopes_count_their_nodes_and_open_ones_hold_them() -> None:
    view = GraphView.of(zoo.get("l2norm_overflow").model)
    closed = layout(view, frozenset())
    counts = {closed.ids[i]: int(closed.counts[i]) for i in range(len(closed.ids)) if kind(closed, i) == "scope"}
    assert counts == {"/a": 8, "/c": 8}
    assert of_kind(closed, "input") == ["x"] and of_kind(closed, "output") == ["y"]
    opened = layout(view, frozenset({"/a", "/nowhere"}))
    assert opened.expanded == {"/a"} and opened.ids[0] == "/a" and kind(opened, 0) == "frame"
    inside = [opened.ids[i] for i in range(len(opened.ids)) if opened.parents[i] == 0]
    assert "/a/a.0/Conv" in inside and len(inside) == 8  # scopes of a single node give way to it
    assert ancestors(view, "/a/a.0/Conv") == ("/a",) and ancestors(view, "/Mul") == ()
    index = closed.index_of("/a/a.0/Conv")
    assert index is not None and closed.ids[index] == "/a"


def test_tensor_with_many_readers_is_drawn_as_portals() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["m"], name="/mask")]
    nodes += [helper.make_node("Add", [f"t{i}", "m"], [f"t{i + 1}"], name=f"/add_{i}") for i in range(9)]
    view = view_of(nodes, [info("x", [1]), info("t0", [1])], [info("t9", [1])])
    drawing = layout(view)
    check_drawing(drawing)
    portals = [i for i in range(len(drawing.ids)) if kind(drawing, i) == "portal"]
    assert len(portals) == 10 and {drawing.ids[i] for i in portals} == {"m"}
    mask = drawing.index_of("/mask")
    assert mask is not None
    assert [int(drawing.peers[i]) for i in portals].count(mask) == 9
    assert {drawing.labels[i] for i in portals if drawing.peers[i] == mask} == {"mask"}
    fewer = view_of(nodes[:9], [info("x", [1]), info("t0", [1])], [info("t8", [1])])
    assert "portal" not in {kind(layout(fewer), i) for i in range(len(layout(fewer).ids))}


@pytest.mark.parametrize(("length", "is_portal"), [(15, False), (16, False), (17, True), (40, True)])
def test_edges_over_more_than_sixteen_ranks_are_portals(length: int, is_portal: bool) -> None:
    nodes = [helper.make_node("Relu", [f"t{i}"], [f"t{i + 1}"], name=f"/n{i}") for i in range(length)]
    nodes.append(helper.make_node("Add", [f"t{length}", "t1"], ["y"], name="/add"))  # /n0 to /add: `length` ranks
    drawing = layout(view_of(nodes, [info("t0", [1])], [info("y", [1])]))
    check_drawing(drawing)
    assert bool(of_kind(drawing, "portal")) == is_portal


def test_ring_of_closed_scopes_is_cut_by_a_portal() -> None:
    names = ["/a/one", "/a/two", "/b/one", "/b/two", "/a/three"]
    view = chain(5, names.__getitem__)
    drawing = layout(view, frozenset())
    check_drawing(drawing)
    assert of_kind(drawing, "scope") == ["/a", "/b"] and of_kind(drawing, "portal") == ["t4", "t4"]


def test_nodes_put_in_by_tools_are_drawn_where_they_belong() -> None:
    names = ["/a/one", "Cast__1", "Transpose__2", "/a/two", "/Mul", "/a/three", "Last__3", "/b/x", "/b/y"]
    view = chain(9, names.__getitem__)
    drawing = layout(view, frozenset())
    assert of_kind(drawing, "scope") == ["/a", "/b"] and of_kind(drawing, "node") == ["/Mul", "Last__3"]
    assert ancestors(view, "Cast__1") == ("/a",) == ancestors(view, "Transpose__2")
    assert view.node("Cast__1").scope == ""
    check_drawing(layout(view, frozenset({"/a"})))


def test_constants_and_initializers_are_not_drawn() -> None:
    nodes = [
        helper.make_node("Constant", [], ["k"], name="/k", value_float=2.0),
        helper.make_node("Identity", ["w"], ["w2"], name="/copy"),
        helper.make_node("Mul", ["x", "k"], ["a"], name="/mul"),
        helper.make_node("Add", ["a", "w2"], ["y"], name="/add"),
        helper.make_node("Constant", [], ["out"], name="/shown", value_float=1.0),
    ]
    view = view_of(nodes, [info("x", [1])], [info("y", [1]), info("out", [])], [weight("w", [1])])
    drawing = layout(view)
    assert of_kind(drawing, "node") == ["/mul", "/add", "/shown"]
    for node, stand_in in (("/k", "/mul"), ("/copy", "/add")):
        index = drawing.index_of(node)
        assert index is not None and drawing.ids[index] == stand_in


def test_nested_graph_shows_outer_tensors() -> None:
    then = branch([helper.make_node("Add", ["x", "w"], ["r"], name="add")], "r")
    node = helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=then, name="if0")
    view = view_of([node], [info("c", [], TensorProto.BOOL), info("x", [2])], [info("y", [2])], [weight("w", [10, 20])])
    main = layout(view)
    assert len(main.edge_sources) == 3  # c and the captured x go in, y comes out
    inner = layout(view, graph="if0/then")
    check_drawing(inner)
    assert of_kind(inner, "outer") == ["x", "w"] and of_kind(inner, "output") == ["if0/then/r"]
    assert of_kind(inner, "node") == ["if0/then/add"] and inner.graph == "if0/then"
    with pytest.raises(ModelError, match="no graph 'if0/no'"):
        layout(view, graph="if0/no")


def test_names_without_scopes_fall_into_groups() -> None:
    view = chain(20_000, lambda i: "")
    drawing = layout(view)
    check_drawing(drawing)
    assert len(drawing.ids) <= MAX_CHILDREN and set(of_kind(drawing, "scope")) == set(drawing.ids[:-2])
    assert sum(drawing.counts) == 20_000
    group = of_kind(drawing, "scope")[3]
    opened = layout(view, frozenset({group}))
    inside = [i for i in range(len(opened.ids)) if opened.parents[i] == 0]
    assert opened.ids[0] == group and len(inside) <= GROUP_SIZE and kind(opened, inside[0]) == "node"
    assert ancestors(view, opened.ids[inside[0]]) == (group,)
    index = drawing.index_of(opened.ids[inside[0]])
    assert index is not None and drawing.ids[index] == group


def test_c12_first_paint_of_twenty_thousand_nodes_is_small_and_quick() -> None:
    view = chain(20_000, lambda i: f"/blk.{i // 10}/relu_{i % 10}")
    start = time.process_time()
    drawing = layout(view)
    assert time.process_time() - start < 1.0
    assert len(drawing.ids) <= 400 and sum(drawing.counts) == 20_000
    assert ancestors(view, "/blk.1500/relu_3")[-1] == "/blk.1500"


def test_first_opening_fits_the_limit_and_opens_equals_together() -> None:
    view = transformer(20)
    for limit in (50, 150, 400, 10_000):
        opened = default_expanded(view, limit)
        drawing = layout(view, opened)
        things = [i for i in range(len(drawing.ids)) if kind(drawing, i) in ("node", "scope")]
        assert len(things) <= limit
        blocks = [f"/layers.{i}" in opened for i in range(20)]
        assert len(set(blocks)) == 1
    assert default_expanded(view, 10_000) == all_scopes(view)


@pytest.mark.parametrize(("blocks", "scoped", "limit_s"), [(263, True, 0.3), (526, True, 0.5), (526, False, 0.8)])
def test_time_to_lay_out_with_all_scopes_open(blocks: int, scoped: bool, limit_s: float) -> None:
    view = transformer(blocks, scoped)
    opened = all_scopes(view)
    best = 9.0
    for _ in range(3):
        start = time.process_time()
        drawing = layout(view, opened)
        best = min(best, time.process_time() - start)
    assert len(of_kind(drawing, "node")) == blocks * 19 + 1
    assert best < 2 * limit_s, f"{best:.2f} s; meant to be {limit_s} s on a quiet machine"


def test_empty_looking_graph_is_drawn() -> None:
    nodes = [helper.make_node("Constant", [], ["y"], name="/k", value_float=2.0)]
    drawing = layout(view_of(nodes, [], [info("y", [])]))
    check_drawing(drawing)
    assert drawing.ids == ("/k", "y")
