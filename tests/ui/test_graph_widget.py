"""GraphWidget in a real JupyterLab: clicks on the canvas, keys, both themes, a busy kernel, a kernel that is gone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Locator, expect

if TYPE_CHECKING:
    from conftest import Lab

OPEN = """
import ipywidgets
from trt_lab.graph import GraphView
from trt_lab.model import Model
from trt_lab.types import TensorStats
from trt_lab.errors import UsageError
from trt_lab.widgets.graph import GraphWidget

graph = GraphWidget(GraphView.of(Model.load({path!r})))
label = ipywidgets.Label()
def tell(*_):
    label.value = f"selected={{graph.selected}} probes={{graph.probes}} kept={{graph.kept}}"
def probe(tensor, on):
    if "refuse" in tensor:
        raise UsageError("not this one")
    graph.probes = [*graph.probes, tensor] if on else [p for p in graph.probes if p != tensor]
def keep(node, on):
    graph.kept = [*graph.kept, node] if on else [k for k in graph.kept if k != node]
graph.on_probe(probe)
graph.on_keep(keep)
graph.observe(tell, ["selected", "probes", "kept"])
graph.layout.height = "620px"
box = ipywidgets.VBox([label, graph])
"""
SHOW = "from trt_lab.widgets.channel import answer_while_busy\nanswer_while_busy(box)\nbox"


def show(lab: Lab, path: str | Path) -> Locator:
    """Opens a model in a notebook cell; the widget, painted."""
    panel = lab.run_cells(OPEN.format(path=str(path)), SHOW)
    graph = panel.locator(".trt-graph")
    painted(graph)
    graph.evaluate("element => element.scrollIntoView({ block: 'center' })")
    return graph


def painted(graph: Locator) -> None:
    expect(graph).to_have_attribute("data-state", "ready", timeout=30_000)
    expect(graph.locator(".trt-viewport")).to_have_attribute("data-painted", graph.get_attribute("data-items") or "")


def click(lab: Lab, graph: Locator, item: str, *, count: int = 1) -> None:
    """Presses the mouse on the canvas where an item is drawn."""
    lab.page.wait_for_function("([element, id]) => element.locate(id) !== null", arg=[graph.element_handle(), item])
    at = graph.evaluate("(element, id) => element.locate(id)", item)
    lab.page.mouse.click(at["x"], at["y"], click_count=count)


def test_a_node_clicked_on_the_canvas_is_probed_and_kept_and_python_knows(lab: Lab, shared: Path) -> None:
    graph = show(lab, shared / "trt_records" / "l2norm_overflow.onnx")
    lab.page.keyboard.press("Escape")
    stage = graph.locator(".trt-stage")
    stage.focus()
    stage.press("/")
    graph.get_by_role("combobox", name="Search nodes and tensors").fill("/Mul")
    expect(graph.get_by_role("listbox", name="Results").get_by_role("option").first).to_contain_text("/Mul")
    graph.get_by_role("combobox", name="Search nodes and tensors").press("Enter")
    card = graph.get_by_role("region", name="Selected item")
    expect(card).to_contain_text("/Mul_output_0")
    stage.press("Escape")
    expect(card).to_be_hidden()
    click(lab, graph, "/Mul")
    expect(card.get_by_role("heading", level=3)).to_have_text("Mul")
    card.get_by_role("button", name="Probe").first.click()
    expect(card.get_by_role("button", name="✓ Probed")).to_be_visible()
    card.get_by_role("button", name="Keep FP32").click()
    expect(card.get_by_role("button", name="✓ Kept in FP32")).to_be_visible()
    said = lab.page.get_by_text("selected=/Mul probes=['/Mul_output_0'] kept=['/Mul']")
    expect(said).to_be_visible()
    stage.focus()
    stage.press("p")
    stage.press("k")
    expect(lab.page.get_by_text("selected=/Mul probes=[] kept=[]")).to_be_visible()
    assert lab.errors == []


def test_keys_follow_edges_open_scopes_and_reach_a_screen_reader(lab: Lab, shared: Path) -> None:
    graph = show(lab, shared / "trt_records" / "l2norm_overflow.onnx")
    stage = graph.locator(".trt-stage")
    active = graph.locator(".trt-stage [role=option][aria-selected=true]")
    stage.focus()
    stage.press("/")
    graph.get_by_role("combobox", name="Search nodes and tensors").fill("/Mul")
    graph.get_by_role("combobox", name="Search nodes and tensors").press("Enter")
    expect(active).to_have_attribute("data-id", "/Mul")
    expect(stage).to_be_focused()
    stage.press("ArrowUp")
    expect(active).to_have_attribute("data-id", "/a/a.11/Relu")
    stage.press("ArrowDown")
    expect(active).to_have_attribute("data-id", "/Mul")
    expect(active).to_contain_text("Mul, /Mul")
    identifier = active.get_attribute("id")
    expect(stage).to_have_attribute("aria-activedescendant", identifier or "")
    expect(graph.get_by_role("status").filter(has_text="/Mul")).to_have_count(1)


def test_a_scope_opens_where_it_stands_and_closes_again(lab: Lab, shared: Path) -> None:
    graph = show(lab, shared / "trt_records" / "l2norm_overflow.onnx")
    items = int(graph.get_attribute("data-items") or 0)
    stage = graph.locator(".trt-stage")
    click(lab, graph, "/a")
    expect(graph.locator(".trt-stage [role=option][aria-selected=true]")).to_have_attribute("data-id", "/a")
    stage.press("Enter")
    lab.page.wait_for_function(
        "([element, n]) => Number(element.dataset.items) < n", arg=[graph.element_handle(), items]
    )
    painted(graph)
    click(lab, graph, "/a", count=2)
    expect(graph).to_have_attribute("data-items", str(items))


@pytest.mark.parametrize("model", ["magika", "ppocr_det", "silero_16k"])
def test_real_models_are_drawn_and_clicked(lab: Lab, real_model: Callable[[str], Path], model: str) -> None:
    graph = show(lab, real_model(model))
    stage = graph.locator(".trt-stage")
    stage.focus()
    stage.press("ArrowDown")
    stage.press("ArrowDown")
    card = graph.get_by_role("region", name="Selected item")
    expect(card.get_by_role("heading", level=3)).to_be_visible()
    selected = graph.locator(".trt-stage [role=option][aria-selected=true]").get_attribute("data-id") or ""
    click(lab, graph, selected)
    card.get_by_role("button", name="Probe", exact=True).first.click()
    expect(card.get_by_role("button", name="✓ Probed").first).to_be_visible()
    expect(lab.page.get_by_text("probes=['")).to_be_visible()
    assert lab.errors == []


def test_nested_graphs_are_entered_and_left(lab: Lab, real_model: Callable[[str], Path]) -> None:
    graph = show(lab, real_model("silero"))
    click(lab, graph, "If_0", count=2)
    crumbs = graph.get_by_role("navigation", name="Scope")
    expect(crumbs).to_contain_text("then_branch")
    painted(graph)
    graph.locator(".trt-stage").press("Backspace")
    expect(crumbs).not_to_contain_text("then_branch")


def test_the_card_answers_while_a_cell_runs(lab: Lab, shared: Path) -> None:
    graph = show(lab, shared / "trt_records" / "l2norm_overflow.onnx")
    lab.page.evaluate(
        """code => {
          const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
          window.busy = kernel.requestExecute({ code }).done.then(() => { window.busyEnded = true; });
        }""",
        "go_on = True\nimport time\nfor turn in range(400):\n    label.value = label.value\n    time.sleep(0.05)\n"
        "    if not go_on:\n        break",
    )
    lab.page.wait_for_function(
        "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.status === 'busy'"
    )
    click(lab, graph, "/a/a.0/Conv")
    card = graph.get_by_role("region", name="Selected item")
    card.get_by_role("button", name="Probe").first.click()
    expect(card.get_by_role("button", name="✓ Probed")).to_be_visible()
    assert lab.page.evaluate("() => window.busyEnded") is None
    lab.execute("notebook:interrupt-kernel")


def test_both_themes_paint_the_canvas(lab: Lab, shared: Path) -> None:
    graph = show(lab, shared / "trt_records" / "l2norm_overflow.onnx")
    corner = "canvas => Array.from(canvas.getContext('2d').getImageData(3, 3, 1, 1).data).slice(0, 3)"
    canvas = graph.locator(".trt-canvas")
    assert sum(canvas.evaluate(corner)) > 700
    lab.set_theme(dark=True)
    lab.page.wait_for_function(f"canvas => ({corner})(canvas).every((part) => part < 60)", arg=canvas.element_handle())
    lab.set_theme(dark=False)
    lab.page.wait_for_function(f"canvas => ({corner})(canvas).every((part) => part > 230)", arg=canvas.element_handle())


def test_c47_a_kernel_that_is_gone_is_said_in_place(lab: Lab, shared: Path) -> None:
    graph = show(lab, shared / "trt_records" / "l2norm_overflow.onnx")
    lab.start("kernelmenu:restart")
    lab.page.locator(".jp-Dialog .jp-mod-accept").click()
    expect(graph.locator(".trt-kernel")).to_contain_text("run the cell again", timeout=30_000)
    expect(graph.locator(".trt-canvas")).to_be_visible()
    assert not [error for error in lab.errors if "Uncaught" in error or "uncaught" in error]


def test_no_model_and_an_error_are_said_in_place(lab: Lab) -> None:
    panel = lab.run_cells(
        "from trt_lab.widgets.graph import GraphWidget\ngraph = GraphWidget()\ngraph",
        "graph.set_view(None, empty='<b>broken.onnx</b>: this is no ONNX file')",
    )
    graph = panel.locator(".trt-graph")
    expect(graph).to_have_attribute("data-state", "empty")
    expect(graph.locator(".trt-notice")).to_have_text("<b>broken.onnx</b>: this is no ONNX file")


LARGE = """
import numpy as np, onnx
from onnx import helper
nodes, last = [], "x"
for block in range(530):
    for step in range(19):
        name = f"/layers.{block}/part.{step // 5}/Op{step}"
        reads = [last, f"/layers.{block}/part.0/Op0_out"] if step == 18 else [last]
        nodes.append(helper.make_node("Add" if step == 18 else ("Relu", "Tanh", "Sigmoid")[step % 3], reads, [name + "_out"], name=name))
        last = name + "_out"
info = lambda name: helper.make_tensor_value_info(name, 1, [1, 4])
made = helper.make_graph(nodes, "g", [info("x")], [info(last)])
onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "large.onnx")
"""
OPENINGS = 3
"""Tries: what else runs on the machine slows one of them, not all."""
WATCH = """() => {
  window.blocks = [];
  new PerformanceObserver((list) => window.blocks.push(...list.getEntries().map((entry) => entry.duration)))
    .observe({ entryTypes: ["longtask"] });
}"""


def test_ten_thousand_nodes_are_painted_in_time_and_never_block_the_page(lab: Lab) -> None:
    panel = lab.run_cells(
        LARGE,
        "from trt_lab.graph import GraphView\nfrom trt_lab.model import Model\nfrom trt_lab.widgets.graph import GraphWidget",
    )
    lab.page.evaluate(WATCH)
    lab.page.evaluate(
        """code => {
          const notebook = window.jupyterapp.shell.currentWidget.content;
          notebook.model.sharedModel.insertCell(2, { cell_type: 'code', source: code });
          notebook.activeCellIndex = 2;
        }""",
        "graph = GraphWidget(GraphView.of(Model.load('large.onnx')))\ngraph.layout.height = '600px'\ngraph",
    )
    graph = panel.locator(".trt-graph")
    seconds: list[float] = []
    while len(seconds) < OPENINGS and min(seconds, default=99) > 3:
        lab.execute("notebook:clear-cell-output")
        expect(graph).to_have_count(0)
        lab.page.evaluate("() => { window.opened = performance.now(); }")
        lab.execute("notebook:run-cell")
        painted(graph)
        seconds.append(round(lab.page.evaluate("() => (performance.now() - window.opened) / 1000"), 2))
    blocks = lab.page.evaluate("() => window.blocks")
    print(json.dumps({"seconds": seconds, "blocks_ms": [round(block) for block in blocks]}))
    assert min(seconds) <= 3
    assert max(blocks, default=0) <= 200
