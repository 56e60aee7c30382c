"""The main job in a real JupyterLab: open by double click, click a node, probe, build, see the diff."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from trt_lab import zoo
from trt_lab.graph.view import GraphView
from trt_lab.model import Model
from trt_lab.types import NodeId

from .conftest import KERNEL_MS, Lab

BUILD_MS = 120_000
"""Longest build on a slow machine, in milliseconds."""


def open_workbench(lab: Lab, path: str) -> Locator:
    """Opens a model by double click; returns its panel once the graph is painted."""
    lab.double_click(path)
    panel = lab.ready_panel(path)
    expect(panel.locator(".trt-graph")).to_have_attribute("data-state", "ready", timeout=BUILD_MS)
    return panel


def click_node(page: Page, panel: Locator, node: str) -> None:
    """Finds a node by the search box, then clicks it on the canvas, where the graph says that it is."""
    graph = panel.locator(".trt-graph")
    search = panel.get_by_role("combobox", name="Search")
    search.fill(node)
    panel.locator(".trt-hits").get_by_role("option").first.click()
    expect(panel.locator(".trt-card")).to_be_visible()  # the card takes its place before the node is looked for
    place = page.wait_for_function(
        """([graph, id]) => {
          const at = graph.locate(id);
          const before = graph.dataset.lastPlace;
          graph.dataset.lastPlace = JSON.stringify(at);
          return at && before === graph.dataset.lastPlace ? at : null;
        }""",
        arg=[graph.element_handle(), node],
        polling=200,
        timeout=20_000,
    ).json_value()
    page.mouse.click(place["x"], place["y"])
    expect(panel.locator(".trt-card")).to_contain_text(node)


def probe_and_build(panel: Locator, tensor: str) -> None:
    """Presses Probe on the card of the clicked node, then Build, and waits for the verdict."""
    card = panel.locator(".trt-card")
    card.get_by_role("button", name="Probe").first.click()
    expect(card.get_by_role("button", name="Probed").first).to_be_visible()
    panel.get_by_role("button", name="Build").click()
    row = panel.get_by_role("row").filter(has_text=tensor[-12:])
    expect(row.first).to_be_visible(timeout=BUILD_MS)
    for number in (0, 1):  # heat maps, histogram
        shown = panel.locator(".trt-lab-figure:visible").nth(number)
        expect(shown.locator("canvas").first).to_be_visible(timeout=BUILD_MS)


def middle_node(model: Model) -> tuple[NodeId, str]:
    """A node in the middle of the main graph with one float output that is no graph output."""
    view = GraphView.of(model)
    good = [
        node
        for node in view.nodes.values()
        if not node.graph
        and node.op_type not in ("Constant", "Identity")
        and node.outputs[0] is not None
        and view.tensors[node.outputs[0]].dtype == "float32"
        and not view.tensors[node.outputs[0]].is_output
    ]
    chosen = good[len(good) // 2]
    assert chosen.outputs[0] is not None
    return chosen.id, chosen.outputs[0]


def python(lab: Lab, panel_path: str, code: str) -> str:
    """What `code` prints in the kernel of a panel."""
    return lab.page.evaluate(
        """async ([path, code]) => {
          const { sessions } = window.jupyterapp.serviceManager;
          await sessions.refreshRunning();
          const model = [...sessions.running()].find(each => each.path === path || each.name === path);
          const session = sessions.connectTo({ model });
          let text = '';
          const future = session.kernel.requestExecute({ code, store_history: false });
          future.onIOPub = message => { text += message.content.text ?? (message.content.evalue ?? ''); };
          await future.done;
          session.dispose();
          return text.trim();
        }""",
        [panel_path, code],
    )


def test_probes_are_still_there_after_a_reload(lab: Lab) -> None:
    zoo.get("l2norm_overflow").model.save(lab.root / "reloaded.onnx")
    with lab.page.expect_response(
        lambda response: (
            "/api/workspaces" in response.url
            and response.request.method == "PUT"
            and "reloaded.onnx" in (response.request.post_data or "")
        ),
        timeout=KERNEL_MS,
    ):
        panel = open_workbench(lab, "reloaded.onnx")
    click_node(lab.page, panel, "/Mul")
    panel.locator(".trt-card").get_by_role("button", name="Probe").first.click()
    expect(panel.locator(".trt-card").get_by_role("button", name="Probed").first).to_be_visible()
    lab.open(reset=False)
    panel = lab.ready_panel("reloaded.onnx")
    expect(panel.locator(".trt-graph")).to_have_attribute("data-state", "ready", timeout=BUILD_MS)
    click_node(lab.page, panel, "/Mul")
    expect(panel.locator(".trt-card").get_by_role("button", name="Probed").first).to_be_visible()
    said = python(lab, "reloaded.onnx", "from trt_lab import notebook; print(notebook.panel_session().probes)")
    assert said == "('/Mul_output_0',)"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ppocr_det", "magika", "silero_16k"])
def test_a_real_model_is_probed_and_compared(lab: Lab, real_model: Callable[[str], Path], name: str) -> None:
    shutil.copy(real_model(name), lab.root / f"{name}.onnx")
    node, tensor = middle_node(Model.load(real_model(name)))
    panel = open_workbench(lab, f"{name}.onnx")
    click_node(lab.page, panel, node)
    probe_and_build(panel, tensor)
    assert lab.errors == []


def test_the_planted_fault_is_found_by_clicks(lab: Lab) -> None:
    zoo.get("l2norm_overflow").model.save(lab.root / "l2norm_overflow.onnx")
    panel = open_workbench(lab, "l2norm_overflow.onnx")
    panel.get_by_role("combobox", name="precision").select_option("fp16")
    click_node(lab.page, panel, "/Mul")
    probe_and_build(panel, "/Mul_output_0")
    expect(panel.get_by_text("differs · ").first).to_be_visible()
    expect(panel.get_by_text("first at /Mul").first).to_be_visible()
    said = python(lab, "l2norm_overflow.onnx", "from trt_lab import notebook; print(notebook.panel_session().probes)")
    assert said == "('/Mul_output_0',)"
    panel.get_by_role("button", name="Find cause").click()
    expect(panel.get_by_text("Kept in FP32, 5 nodes repair it: /Mul … /Div").first).to_be_visible(timeout=BUILD_MS)
    panel.get_by_role("tab", name="Code").click()
    expect(panel.get_by_text("lab.probe('/Mul_output_0')")).to_be_visible()
    assert lab.errors == []


def test_a_narrow_workbench_stands_one_above_the_other(lab: Lab) -> None:
    zoo.get("l2norm_overflow").model.save(lab.root / "narrow.onnx")
    panel = open_workbench(lab, "narrow.onnx")
    body, tabs = panel.locator(".trt-lab-body"), panel.locator(".trt-lab-body > :last-child")

    def below() -> bool:
        graph, other = panel.locator(".trt-lab-body > :first-child").bounding_box(), tabs.bounding_box()
        assert graph is not None and other is not None
        return other["y"] >= graph["y"] + graph["height"]

    size = lab.page.viewport_size
    assert size is not None
    expect(body).to_have_css("flex-direction", "row")
    assert not below()
    try:
        lab.page.set_viewport_size({**size, "width": 760})
        expect(body).to_have_css("flex-direction", "column")
        assert below()
        lab.page.set_viewport_size(size)
        expect(body).to_have_css("flex-direction", "row")
    finally:
        lab.page.set_viewport_size(size)
