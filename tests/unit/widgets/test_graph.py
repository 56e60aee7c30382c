"""The graph widget without a browser: what it sends, what it answers, what it forwards."""

from __future__ import annotations

import json
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.unit.graph.models import branch, chain, info, transformer, view_of, weight
from trt_lab.errors import EditError
from trt_lab.graph import GraphView
from trt_lab.graph.layout import KINDS
from trt_lab.types import LayerInfo, LayerTime, NodeId, TensorStats
from trt_lab.widgets.graph import NO_MODEL, GraphWidget
from trt_lab.widgets.graph_scene import edge_text, op_class
from trt_lab.widgets.graph_static import MAX_BYTES, static_html
from trt_lab.widgets.transfer import Assembler
from trt_lab.wire import MARKS

WAIT_S = 20


class Browser:
    """Sends requests to a widget and puts the replies together, as the front end does."""

    def __init__(self, widget: GraphWidget) -> None:
        self.widget = widget
        self.events: list[str] = []
        self.largest = 0
        self._assembler = Assembler()
        self._replies: dict[str, Any] = {}
        self._arrived = threading.Condition()
        widget.send = self._sent  # type: ignore[method-assign]  # stands for the comm

    def _sent(self, content: Any, buffers: Any = None) -> None:
        self.largest = max([self.largest, len(json.dumps(content, allow_nan=False)), *(len(b) for b in buffers or [])])
        whole = self._assembler.add(content, buffers or [])
        if whole is None:
            return
        message, arrays = whole
        with self._arrived:
            if "re" in message:
                self._replies[message["re"]] = (message, arrays)
            else:
                self.events.append(message["kind"])
            self._arrived.notify_all()

    def ask(self, kind: str, **fields: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The whole reply and its arrays."""
        name = f"t{len(self._replies)}"
        self.widget._handle_custom_msg({"id": name, "kind": kind, **fields}, [])
        with self._arrived:
            assert self._arrived.wait_for(lambda: name in self._replies, WAIT_S)
        return self._replies[name]

    def scene(self, **fields: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        reply, arrays = self.ask("graph.scene", **fields)
        assert reply["ok"], reply["error"]
        return reply["data"], arrays

    def colours(self, scene: dict[str, Any], by: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        reply, arrays = self.ask("graph.colours", graph=scene["graph"], expanded=scene["expanded"], by=by)
        assert reply["ok"], reply["error"]
        return reply["data"], arrays

    def card(self, item: str) -> dict[str, Any]:
        reply, _ = self.ask("graph.card", item=item)
        assert reply["ok"], reply["error"]
        return reply["data"]


def small() -> GraphView:
    """x → Conv → (a/Relu, a/b/Sigmoid) → Add → y; one node has no name."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="/Conv", kernel_shape=[1, 1]),
        helper.make_node("Relu", ["c"], ["r"], name="/a/Relu"),
        helper.make_node("Sigmoid", ["c"], ["s"], name="/a/b/Sigmoid"),
        helper.make_node("Tanh", ["s"], ["t"], name="/a/b/Tanh"),
        helper.make_node("Add", ["r", "t"], ["y"]),
    ]
    shape = ["N", 2, 4, 4]
    return view_of(nodes, [info("x", shape)], [info("y", shape)], [weight("w", np.ones((2, 2, 1, 1)))])


def nested() -> GraphView:
    """An If whose branches read `x` of the main graph."""
    then = branch([helper.make_node("Relu", ["x"], ["t"], name="inner")], "t")
    other = branch([helper.make_node("Neg", ["x"], ["e"], name="minus")], "e")
    nodes = [helper.make_node("If", ["flag"], ["y"], name="choose", then_branch=then, else_branch=other)]
    return view_of(nodes, [info("flag", [], TensorProto.BOOL), info("x", [2])], [info("y", [2])])


def stats(name: str, verdict: Any, **figures: Any) -> TensorStats:
    return TensorStats(name, verdict, "float32", "float32", (1,), (1,), count=1, **figures)


def test_the_scene_holds_an_entry_for_each_box_and_edge() -> None:
    view = small()
    add = next(node.id for node in view.nodes.values() if not node.name)
    scene, arrays = Browser(GraphWidget(view)).scene(expanded=[])
    assert scene["title"] == view.model.name
    by_id = {name: index for index, name in enumerate(scene["ids"])}
    assert set(by_id) == {"x", "/Conv", "/a", add, "y"}
    count = len(scene["ids"])
    for name in ("x", "y", "w", "h", "kind", "parent", "peer", "count", "op_class"):
        assert arrays[name].shape == (count,), name
    assert {arrays[name].dtype.name for name in ("x", "y", "w", "h", "point_x", "point_y")} == {"float32"}
    edges = arrays["edge_from"].shape[0]
    assert arrays["edge_start"].shape == (edges + 1,)
    assert arrays["edge_start"][-1] == arrays["point_x"].shape[0] == arrays["point_y"].shape[0]
    assert scene["kinds"][arrays["kind"][by_id["/a"]]] == "scope"
    assert arrays["count"][by_id["/a"]] == 3
    assert scene["details"][by_id["/a"]] == "3 nodes"
    assert scene["labels"][by_id["/Conv"]] == "Conv"
    assert scene["op_classes"][arrays["op_class"][by_id["/Conv"]]] == "convolution"
    assert "f32 N×2×4×4" in scene["tensor_labels"]
    assert scene["nodes"] == 5


def test_opening_a_scope_shows_what_it_holds_and_keeps_the_rest() -> None:
    browser = Browser(GraphWidget(small()))
    scene, arrays = browser.scene(expanded=["/a"], open=["/a/b"])
    assert sorted(scene["expanded"]) == ["/a", "/a/b"]
    index = scene["ids"].index("/a/b/Sigmoid")
    frame = arrays["parent"][index]
    assert scene["ids"][frame] == "/a/b"
    assert scene["kinds"][arrays["kind"][frame]] == "frame"


def test_unknown_graph_and_no_model_are_said() -> None:
    reply, _ = Browser(GraphWidget(small())).ask("graph.scene", graph="nowhere")
    assert reply["ok"] is False and "no graph 'nowhere'" in reply["error"]
    empty = GraphWidget()
    assert empty.empty == NO_MODEL
    reply, _ = Browser(empty).ask("graph.scene")
    assert reply["error"] == "no model is open"


def test_nested_graphs_are_reached_from_the_node_that_holds_them() -> None:
    browser = Browser(GraphWidget(nested()))
    scene, _ = browser.scene()
    then, other = scene["nested"]["choose"]
    assert scene["crumbs"] == [{"graph": "", "label": scene["title"]}]
    inner, arrays = browser.scene(graph=then)
    assert [crumb["graph"] for crumb in inner["crumbs"]] == ["", then]
    assert inner["crumbs"][1]["label"] == "choose · then_branch"
    outer = inner["ids"].index("x")
    assert inner["kinds"][arrays["kind"][outer]] == "outer"
    place, _ = browser.ask("graph.place", item=f"{other}/minus")
    assert place["data"] == {"graph": other, "open": [], "item": f"{other}/minus"}
    card = browser.card("choose")
    assert [entry["graph"] for entry in card["nested"]] == [then, other]
    (output,) = browser.card(f"{then}/inner")["outputs"]
    assert "inside the subgraph" in output["refusal"]


@pytest.mark.parametrize(
    ("item", "place"),
    [
        ("/a/b/Tanh", {"graph": "", "open": ["/a", "/a/b"], "item": "/a/b/Tanh"}),
        ("t", {"graph": "", "open": ["/a", "/a/b"], "item": "/a/b/Tanh"}),
        ("x", {"graph": "", "open": [], "item": "x"}),
        ("w", {"graph": "", "open": [], "item": "/Conv"}),
        ("/a/b", {"graph": "", "open": ["/a"], "item": "/a/b"}),
    ],
)
def test_everything_has_a_place(item: str, place: dict[str, Any]) -> None:
    reply, _ = Browser(GraphWidget(small())).ask("graph.place", item=item)
    assert reply["data"] == place


def test_what_is_nowhere_is_said_with_close_names() -> None:
    reply, _ = Browser(GraphWidget(small())).ask("graph.place", item="/a/Rel")
    assert "did you mean '/a/Relu'" in reply["error"]
    reply, _ = Browser(GraphWidget(small())).ask("graph.card", item="/a/b/Tan")
    assert "did you mean '/a/b/Tanh'" in reply["error"]


def test_the_card_tells_attributes_types_neighbours_and_constants() -> None:
    widget = GraphWidget(small(), probes=["c"], kept=["/Conv"])
    browser = Browser(widget)
    card = browser.card("/Conv")
    assert (card["title"], card["subtitle"], card["made_up"]) == ("Conv", "/Conv", False)
    assert {"name": "kernel_shape", "value": "[1, 1]"} in card["facts"]
    x, w = card["inputs"]
    assert (x["type"], x["role"]) == ("float32 · N×2×4×4", "input")
    assert (w["type"], w["role"]) == ("float32 · 2×2×1×1 · 1.0, 1.0, 1.0, 1.0", "initializer")
    (c,) = card["outputs"]
    assert c["other_ends"] == ["/a/Relu", "/a/b/Sigmoid"]
    assert (c["probed"], c["refusal"], card["can_keep"], card["kept"]) == (True, "", True, True)
    nameless = next(node.id for node in small().nodes.values() if not node.name)
    assert browser.card(nameless)["made_up"] is True
    scope = browser.card("/a")
    assert (scope["what"], scope["facts"][0]) == ("scope", {"name": "nodes", "value": "3"})


def test_errors_colour_boxes_and_a_closed_scope_shows_its_worst() -> None:
    widget = GraphWidget(small())
    browser = Browser(widget)
    measured = [
        stats("c", "same", max_abs=1e-6),
        stats("r", "same", max_abs=1e-4),
        stats("s", "differs", max_abs=0.5),
        stats("t", "differs", nan_only_a=3),
        stats("y", "not_comparable", note="shapes differ"),
    ]
    widget.set_results(measured, None)
    assert browser.events == ["graph.colours_changed"]
    scene, _ = browser.scene(expanded=[])
    colours, arrays = browser.colours(scene, "error")
    at = {name: index for index, name in enumerate(scene["ids"])}
    assert arrays["level"][at["/Conv"]] == 0.0
    assert arrays["level"][at["/a"]] == 1.0
    assert colours["figures"][at["/a"]] == "NaN"
    assert MARKS[arrays["mark"][at["/a"]]] == "differs"
    assert MARKS[arrays["mark"][at["/Conv"]]] == "same"
    assert MARKS[arrays["mark"][at["y"]]] == "not_comparable"
    opened, _ = browser.scene(expanded=["/a", "/a/b"])
    colours, arrays = browser.colours(opened, "error")
    at = {name: index for index, name in enumerate(opened["ids"])}
    assert 0.0 < arrays["level"][at["/a/Relu"]] < arrays["level"][at["/a/b/Sigmoid"]] <= 1.0
    assert colours["figures"][at["/a/b/Sigmoid"]] == "0.5"
    assert np.isnan(arrays["level"][at["x"]])


def test_a_single_error_stands_at_the_high_end_of_its_scale() -> None:
    widget = GraphWidget(small())
    widget.set_results([stats("c", "differs", max_abs=0.126), stats("y", "same", max_abs=0.0, exact=True)], None)
    browser = Browser(widget)
    scene, _ = browser.scene(expanded=[])
    colours, arrays = browser.colours(scene, "error")
    at = {name: index for index, name in enumerate(scene["ids"])}
    assert arrays["level"][[at["/Conv"], at["y"]]].tolist() == [1.0, 0.0]
    assert colours["scale"] == ["max abs ≤ 0.0001", "0.13"]


def test_time_of_a_closed_scope_is_that_of_its_layers_each_counted_once() -> None:
    view = small()
    add = next(node.id for node in view.nodes.values() if not node.name)
    layers = (
        LayerInfo(0, "conv", "Conv", precision="float16", nodes=(NodeId("/Conv"),)),
        LayerInfo(1, "fused", "Pointwise", precision="float16", nodes=(NodeId("/a/Relu"), NodeId("/a/b/Sigmoid"))),
        LayerInfo(2, "tanh", "Tanh", precision="float32", nodes=(NodeId("/a/b/Tanh"), add)),
    )
    times = tuple(LayerTime(index, "", time, None) for index, time in enumerate([4.0, 2.0, 1.0]))
    widget = GraphWidget(view)
    widget.set_results((), SimpleNamespace(layers=layers, times=times))  # type: ignore[arg-type]  # all that is used
    browser = Browser(widget)
    scene, _ = browser.scene(expanded=[])
    at = {name: index for index, name in enumerate(scene["ids"])}
    colours, arrays = browser.colours(scene, "time")
    assert colours["scale"] == ["0 ms", "4 ms"]
    assert colours["figures"][at["/a"]] == "3 ms"
    np.testing.assert_allclose(arrays["level"][[at["/Conv"], at["/a"], at[add]]], [1.0, 0.75, 0.25])
    colours, _ = browser.colours(scene, "precision")
    assert colours["figures"][at["/a"]] == "float16 + float32"
    assert {entry["label"] for entry in colours["legend"]} == {"float16", "float32", "mixed"}
    assert browser.card("/a/Relu")["layers"] == ["1: fused · Pointwise · float16 · 2 ms", "shared with /a/b/Sigmoid"]


@pytest.mark.parametrize("by", ["error", "time", "precision"])
def test_what_was_not_measured_is_said(by: str) -> None:
    browser = Browser(GraphWidget(small()))
    scene, _ = browser.scene()
    colours, _ = browser.colours(scene, by)
    assert "press Build" in colours["missing"]


def test_probes_and_kept_nodes_show_on_the_box_that_stands_for_them() -> None:
    browser = Browser(GraphWidget(small(), probes=["t", "x"], kept=["/a/Relu"]))
    scene, _ = browser.scene(expanded=[])
    _, arrays = browser.colours(scene, "type")
    marked = {name for name, flag in zip(scene["ids"], arrays["probed"], strict=True) if flag}
    assert marked == {"/a", "x"}
    assert {name for name, flag in zip(scene["ids"], arrays["kept"], strict=True) if flag} == {"/a"}


def test_clicks_are_forwarded_and_refusals_come_back() -> None:
    widget = GraphWidget(small())
    browser = Browser(widget)
    calls: list[tuple[str, bool]] = []
    widget.on_probe(lambda tensor, on: calls.append((tensor, on)))
    widget.on_keep(lambda node, on: calls.append((node, on)))
    assert browser.ask("graph.probe", tensor="t", on=True)[0]["ok"]
    assert browser.ask("graph.keep", node="/Conv", on=False)[0]["ok"]
    assert calls == [("t", True), ("/Conv", False)]
    assert "no tensor 'nowhere'" in browser.ask("graph.probe", tensor="nowhere", on=True)[0]["error"]

    def refuse(tensor: str, on: bool) -> None:
        raise EditError(f"tensor '{tensor}': not now")

    widget.on_probe(refuse)
    assert browser.ask("graph.probe", tensor="t", on=True)[0]["error"] == "tensor 't': not now"


def test_another_model_forgets_what_was_measured() -> None:
    widget = GraphWidget(small(), probes=["t"])
    widget.selected = "/Conv"
    widget.set_results([stats("c", "differs", max_abs=1.0)], None)
    browser = Browser(widget)
    widget.set_view(nested())
    assert browser.events[-1] == "graph.changed"
    assert (widget.selected, widget.probes, widget.empty) == ("", [], "")
    scene, _ = browser.scene()
    assert "choose" in scene["ids"]
    assert browser.colours(scene, "error")[0]["missing"]
    widget.set_view(None, empty="broken.onnx cannot be opened")
    assert widget.empty == "broken.onnx cannot be opened"


def test_search_finds_nodes_tensors_and_scopes() -> None:
    browser = Browser(GraphWidget(small()))
    reply, _ = browser.ask("graph.search", query="tanh")
    assert reply["data"]["hits"][0] | {"detail": ""} == {
        "what": "node",
        "id": "/a/b/Tanh",
        "label": "/a/b/Tanh",
        "detail": "",
    }
    reply, _ = browser.ask("graph.search", query="  ")
    assert reply["data"]["hits"] == []


def test_a_large_model_goes_in_messages_of_at_most_a_megabyte() -> None:
    view = transformer(530)
    assert len(view.nodes) > 10_000
    widget = GraphWidget(view)
    browser = Browser(widget)
    paths = sorted({scope for node in view.nodes.values() for scope in [node.scope] if scope})
    parents = sorted({path.rsplit("/", 1)[0] for path in paths} - {""})
    scene, arrays = browser.scene(expanded=[*paths, *parents])
    assert sum(scene["kinds"][kind] == "node" for kind in arrays["kind"]) > 10_000
    browser.colours(scene, "type")
    assert 100_000 < browser.largest <= 1_000_000
    assert len(json.dumps({k: str(v) for k, v in widget.get_state().items() if k != "_esm"})) < 10_000


def test_c47_the_static_view_needs_no_script_stays_small_and_escapes_names() -> None:
    nasty = "<script>alert(1)</script>"
    view = chain(30, lambda i: f"/{nasty}/{i}")
    data, _metadata = GraphWidget(view)._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data
    assert data["text/plain"].startswith("GraphWidget(") and "30 nodes" in data["text/plain"]
    html = data["text/html"]
    assert "<svg" in html and "<script" not in html and "Relu" in html
    for large in (transformer(200), chain(5_000, lambda i: "n" * 500 + str(i))):
        assert len(static_html(large).encode()) <= MAX_BYTES


def test_every_kind_of_box_is_known_to_both_ends() -> None:
    assert set(KINDS) == {"frame", "scope", "node", "input", "output", "outer", "portal"}
    assert op_class("Conv") != op_class("MatMul") != op_class("SomethingElse")


@pytest.mark.parametrize(
    ("dtype", "shape", "text"),
    [
        ("float32", ("N", 3, None), "f32 N×3×?"),
        ("bfloat16", (), "bf16 scalar"),
        ("uint8", (1,), "u8 1"),
        ("bool", None, "bool"),
        (None, ("p2o.DynamicDimension.0",), "p2o…n.0"),
    ],
)
def test_the_text_beside_an_edge_is_short(dtype: str | None, shape: Any, text: str) -> None:
    assert edge_text(SimpleNamespace(dtype=dtype, shape=shape)) == text  # type: ignore[arg-type]
