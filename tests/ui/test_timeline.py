"""Timeline and engine graph in a real JupyterLab: keys, finer bars on zooming, a GPU record with no GPU."""

from __future__ import annotations

import shutil

import pytest
from playwright.sync_api import Locator, expect

from .conftest import CHECKOUT, Lab
from .test_figure_widget import canvas_of
from .test_main_job import BUILD_MS, python

RECORD = "l2norm_overflow-fp16.trtlab"

MANY = """
from types import SimpleNamespace
from trt_lab.types import LayerInfo, LayerTime
from trt_lab.views.timeline import Timeline
from trt_lab.widgets.figure import FigureWidget
count = 100_000
layers = [LayerInfo(i, f"/block/MatMul_{i}", "gemm") for i in range(count)]
times = [LayerTime(i, f"/block/MatMul_{i}", 0.01, 0.01) for i in range(count)]
timeline = Timeline(SimpleNamespace(name="many", layers=layers, times=times, latency_ms=()))
shown = timeline.figure.select_one({"name": "time"})
FigureWidget(timeline.figure)
"""


def tooltip_in(lab: Lab, events: Locator) -> Locator:
    """What stands beside the pointer in the middle of the figure."""
    box = events.bounding_box()
    assert box is not None
    middle = box["x"] + 0.55 * box["width"], box["y"] + 0.4 * box["height"]
    lab.page.mouse.move(middle[0] - 40, middle[1])
    lab.page.mouse.move(*middle)
    return lab.page.locator(".bk-Tooltip")


def wait_for_range(lab: Lab, condition: str) -> None:
    """Waits until Python holds a range of which `condition` is true."""
    for _ in range(60):
        if python(lab, "test.ipynb", f"start, end = shown.start, shown.end; print({condition})") == "True":
            return
        lab.page.evaluate("() => new Promise(done => requestAnimationFrame(done))")
    pytest.fail(f"{condition}: {python(lab, 'test.ipynb', 'print(shown.start, shown.end)')}")


def test_zooming_brings_finer_bars(lab: Lab) -> None:
    cell = lab.run_cells(MANY).locator(".jp-CodeCell").first
    expect(canvas_of(cell)).to_be_visible(timeout=BUILD_MS)
    events = cell.locator(".trt-lab-figure .bk-events")
    expect(tooltip_in(lab, events)).to_contain_text(" layers")
    lab.page.mouse.down()
    lab.page.mouse.up()
    for _ in range(32):
        lab.page.keyboard.press("w")
    wait_for_range(lab, "end - start < 1.2")
    expect(tooltip_in(lab, events)).to_contain_text("/block/MatMul_", timeout=BUILD_MS)
    before = float(python(lab, "test.ipynb", "print(shown.start)"))
    for _ in range(10):
        lab.page.keyboard.press("d")
    wait_for_range(lab, f"start > {before} + 0.9 * (end - start)")
    expect(tooltip_in(lab, events)).to_contain_text("/block/MatMul_", timeout=BUILD_MS)
    lab.page.keyboard.press("0")
    wait_for_range(lab, "end - start > 1000")
    expect(tooltip_in(lab, events)).to_contain_text(" layers", timeout=BUILD_MS)
    assert lab.errors == []


def test_a_gpu_record_shows_its_engine_with_no_gpu(lab: Lab) -> None:
    shutil.copytree(CHECKOUT / "tests" / "data" / "gpu" / RECORD, lab.root / RECORD)
    lab.execute("trt-lab:open", path=RECORD)
    panel = lab.ready_panel(RECORD)
    panel.get_by_role("tab", name="Timeline").click()
    expect(canvas_of(panel)).to_be_visible(timeout=BUILD_MS)
    expect(panel.get_by_text("0.1021 ms")).to_be_visible()
    expect(panel.get_by_text("difference")).to_be_visible()
    slowest = panel.get_by_role("grid", name="Slowest layers")
    expect(slowest.get_by_role("row").nth(1)).to_contain_text("0.009507")

    panel.get_by_role("button", name="Both").click()
    graphs = panel.locator(".trt-graph")
    expect(graphs).to_have_count(2)
    for number in (0, 1):
        expect(graphs.nth(number)).to_have_attribute("data-state", "ready", timeout=BUILD_MS)
    slowest.get_by_role("row").nth(2).click()
    cards = panel.locator(".trt-card")
    expect(cards.nth(0)).to_contain_text("/a/a.1/Relu")
    expect(cards.nth(0)).to_contain_text("shared with /a/a.0/Conv")
    expect(cards.nth(1)).to_contain_text("/a/1 Conv + Relu")
    expect(cards.nth(1).get_by_role("button", name="Probe")).to_have_count(0)
    expect(graphs.nth(0).locator(".trt-viewport")).to_have_attribute("data-related", "2")

    graphs.nth(1).get_by_role("listbox").focus()
    lab.page.keyboard.press("ArrowDown")
    expect(cards.nth(0)).to_contain_text("/a/a.3/Relu")
    panel.get_by_role("tab", name="Layers").click()
    layers = panel.get_by_role("grid", name="Layers")
    expect(layers.locator("[aria-selected=true]")).to_contain_text("/a/a.2/Conv + /a/a.3/Relu")
    panel.get_by_role("tab", name="Timeline").click()
    python(lab, RECORD, "from trt_lab import notebook; notebook.panel_session().workbench.layers_pane.select(21)")
    panel.get_by_role("tab", name="Layers").click()
    expect(layers.locator("[aria-selected=true]")).to_contain_text("21")
    expect(layers.locator("[aria-selected=true]")).to_be_in_viewport()
    expect(panel.get_by_text("6 of 22 layers only change type or layout")).to_be_visible()
    assert lab.errors == []
