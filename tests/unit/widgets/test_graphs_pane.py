"""The two graphs of the workbench and the one selection, without a browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import CHECKOUT
from tests.unit.views.samples import plots_of, words
from trt_lab.notebook import Session
from trt_lab.profiling.source import engine_of
from trt_lab.record import Record
from trt_lab.widgets.graph_layers import engine_lines
from trt_lab.widgets.panes.graphs import BOTH, ENGINE, ONNX
from trt_lab.widgets.panes.timeline import TimelinePane
from trt_lab.widgets.workbench import TABS, Workbench

RECORD = CHECKOUT / "tests" / "data" / "gpu" / "l2norm_overflow-fp16.trtlab"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Workbench:
    monkeypatch.setattr(Session, "start_golden", lambda self: None)  # nothing is built here
    return Session.open_any(RECORD).workbench


def test_the_engine_graph_is_made_when_it_is_asked_for(bench: Workbench) -> None:
    graphs = bench.graphs
    assert graphs.choice.layout.display == ""
    assert graphs.box.children == (graphs.graph,) and graphs.engine_graph.empty
    graphs.choice.value = ENGINE
    assert graphs.box.children == (graphs.engine_graph,) and not graphs.engine_graph.empty
    graphs.choice.value = BOTH
    assert graphs.box.children == (graphs.graph, graphs.engine_graph)
    graphs.choice.value = ONNX
    assert graphs.box.children == (graphs.graph,)


def test_a_layer_lights_its_nodes_and_a_node_its_layers(bench: Workbench) -> None:
    graphs = bench.graphs
    graphs.choice.value = BOTH
    layer_1 = next(node for node in graphs.engine_graph._open_view().nodes if node.startswith("/a/1 "))
    graphs.engine_graph.selected = layer_1
    assert bench.graph.selected == "/a/a.1/Relu"
    assert bench.graph.related == ["/a/a.0/Conv", "/a/a.1/Relu"]
    assert bench.layers_pane.table.selected == "1"
    bench.graph.selected = "/a/a.3/Relu"
    assert graphs.engine_graph.selected == "/a/2 Conv + Relu"
    assert bench.graph.related == ["/a/a.2/Conv", "/a/a.3/Relu"]
    bench.layers_pane.table.selected = "1"
    assert graphs.engine_graph.selected == layer_1
    bench.graph.selected = "/Constant"  # computed while building: in no layer
    assert graphs.engine_graph.selected == "" and bench.graph.related == []


def test_a_diff_or_finding_of_the_same_engine_leaves_its_graph_alone(bench: Workbench) -> None:
    graphs = bench.graphs
    graphs.choice.value = BOTH
    view, engine = graphs.engine_graph._open_view(), bench._engine
    bench.graph.selected = "/a/a.3/Relu"
    graphs.engine_graph.colour_by = "precision"
    bench._changed("finding")
    assert bench._engine is engine and graphs.engine_graph._open_view() is view
    assert graphs.engine_graph.selected == "/a/2 Conv + Relu" and graphs.engine_graph.colour_by == "precision"


def test_the_timeline_is_drawn_when_seen_and_lists_the_slowest(bench: Workbench) -> None:
    pane = bench.timeline_pane
    assert pane.figure.figure is None
    bench.tabs.selected_index = TABS.index("Timeline")
    first = pane.figure.figure
    assert first is not None
    pane.lanes.value = "type"
    assert pane.figure.figure is not first
    rows = pane.table._rows
    shown = [rows.row(at) for at in range(len(rows.keys))]
    means = [row[3] for row in shown]
    assert len(shown) == 10 and means == sorted(means, reverse=True)
    pane.count.value = 50
    assert len(pane.table._rows.keys) == 22
    last = pane.table._rows.row(21)
    assert last[5] == pytest.approx(1.0)
    pane.table.selected = "1"
    assert bench.graph.selected == "/a/a.1/Relu"


def test_another_record_stands_beside(bench: Workbench) -> None:
    pane = TimelinePane(lambda index: None)
    record, other = Record.open(RECORD), Record.open(RECORD.with_name("l2norm_overflow-fp32.trtlab"))
    pane.set_seen(True)
    pane.show(record, engine_of(record), [record, other])
    assert [name for name, _ in pane.beside.options] == ["nothing", "l2norm_overflow-fp32"]
    pane.beside.value = other.name
    figure = pane.figure.figure
    assert figure is not None
    lanes = plots_of(figure)[0].yaxis[0].major_label_overrides
    assert list(lanes.values()) == ["l2no…flow-fp16 · stream 0", "l2no…flow-fp32 · stream 0"]
    assert f"{record.name}: layer sum" in words(figure) and f"{other.name}: layer sum" in words(figure)
    pane.show(record, engine_of(record))
    assert pane.beside.value == ""


def test_cards_tell_who_shares_a_layer_and_why_neighbours_do_not() -> None:
    lines = engine_lines(engine_of(Record.open(RECORD)))
    assert lines["/a/a.0/Conv"][:2] == [
        "1: /a/a.0/Conv + /a/a.1/Relu · CaskConvolution · float16 · 0.00866 ms",
        "shared with /a/a.1/Relu",
    ]
    assert "not fused with /Mul_1: the type changes from float16 to float32" in lines["/Mul"]
    assert lines["/Constant"] == ["in no layer: constant: computed while building"]


def test_without_an_engine_there_is_no_choice(tmp_path: Path) -> None:
    bench = Session("zoo:l2norm_overflow", records=tmp_path).workbench
    assert bench.graphs.choice.layout.display == "none"
    assert bench.timeline_pane.controls.layout.display == "none"
    assert "press Build" in bench.timeline_pane.heading.value
