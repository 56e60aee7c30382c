"""FigureWidget in a real JupyterLab: drawn without a network, live both ways, in both themes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import Locator, Page, expect

if TYPE_CHECKING:
    from conftest import Lab

TIMELINE = """
from types import SimpleNamespace
import ipywidgets
from trt_lab.errors import UsageError
from trt_lab.types import LayerInfo, LayerTime
from trt_lab.views.timeline import Timeline
from trt_lab.widgets.figure import FigureWidget

layers = [LayerInfo(i, f"layer <b>{i}</b>", "Conv", nodes=("/<img src=x onerror=alert(1)>",)) for i in range(3)]
times = [LayerTime(layer.index, layer.name, 1.0, 1.0, (0.9, 1.1), float(layer.index)) for layer in layers]
record = SimpleNamespace(name="r", layers=layers, times=times, latency_ms=[2.5])
taps, label = [], ipywidgets.Label("taps []")
def tapped(layer):
    taps.append(layer)
    label.value = f"taps {taps}"
    if layer == 2:
        raise UsageError("layer 2 is not for <b>tapping</b>")
timeline = Timeline(record, on_select=tapped)
figure = timeline.figure
widget = FigureWidget(figure)
ipywidgets.VBox([label, widget])
"""

IMAGE = """
import numpy as np
from bokeh.models import ColumnDataSource, Range1d
from bokeh.plotting import figure as plot
from trt_lab.views.theme import finish
source = ColumnDataSource({"x": np.array([0.0]), "y": np.array([0.0]), "size": np.array([1.0])})
p = plot(height=200, sizing_mode="stretch_width", x_range=Range1d(-5, 5), y_range=Range1d(-5, 5), toolbar_location=None)
p.rect("x", "y", "size", "size", source=source, fill_color="#ff0000", line_color=None)
p.xaxis.axis_label = "a label to be read"
second = FigureWidget(finish(p))
second
"""

COUNT = """(canvas, [low, high]) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let count = 0;
  for (let i = 0; i < data.length; i += 4) {
    count += [0, 1, 2].every((c) => data[i + c] >= low[c] && data[i + c] <= high[c]) && data[i + 3] > 200;
  }
  return count;
}"""
RED = [[250, 0, 0], [255, 5, 5]]
BAR = [[0, 112, 176], [2, 116, 180]]
"""Bars of the first layer type."""
INK_OF_LIGHT = [[82, 91, 101], [92, 101, 111]]
INK_OF_DARK = [[158, 168, 179], [168, 178, 189]]
"""Colours of the words along the axes in either theme (role "muted" of views/theme.py), give or take 5."""


DOUBLE_TAP_MS = 400
"""Two taps within 300 ms are one double tap to Bokeh, wherever they are: a person pauses that long."""


def canvas_of(cell: Locator) -> Locator:
    """The canvas that a figure is painted on; it lies in Bokeh's shadow roots."""
    return cell.locator(".trt-lab-figure:visible canvas").first


def wait_for_pixels(page: Page, canvas: Locator, colour: list[list[int]], at_least: int, at_most: int = 10**9) -> None:
    """Waits until the canvas holds so many pixels of a colour."""
    page.wait_for_function(
        f"([canvas, colour, low, high]) => {{ const n = ({COUNT})(canvas, colour); return n >= low && n <= high; }}",
        arg=[canvas.element_handle(), colour, at_least, at_most],
    )


def run_more(lab: Lab, code: str) -> None:
    """Runs code in the notebook's kernel, beside its cells."""
    lab.page.evaluate(
        """async (code) => {
          const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
          const reply = await kernel.requestExecute({ code }).done;
          if (reply.content.status !== "ok") throw new Error(reply.content.evalue);
        }""",
        code,
    )


def test_a_tap_reaches_python_once_and_python_reaches_the_figure(lab: Lab) -> None:
    panel = lab.run_cells(TIMELINE)
    cell = panel.locator(".jp-CodeCell").first
    expect(cell.get_by_text("layer sum 3 ms")).to_be_visible(timeout=30_000)
    canvas = canvas_of(cell)
    expect(canvas).to_be_visible()
    assert lab.page.evaluate("() => typeof window.Bokeh") == "undefined"
    hosts = {request.url.split("/")[2] for request in lab.requests if request.url.startswith(("http:", "https:"))}
    assert hosts == {lab.server.url.split("/")[2]}

    box = cell.locator(".trt-lab-figure .bk-events").bounding_box()
    assert box is not None
    lane = box["y"] + 62
    lab.page.mouse.move(box["x"] + box["width"] * 0.5, lane)
    tooltip = lab.page.locator(".bk-Tooltip").filter(has_text="layer <b>1</b>")
    expect(tooltip).to_be_visible()
    expect(tooltip.get_by_text("/<img src=x onerror=alert(1)>")).to_be_visible()
    assert tooltip.locator("img").count() == 0
    lab.page.mouse.click(box["x"] + box["width"] * 0.5, lane)
    expect(cell.get_by_text("taps [1]")).to_be_visible()

    lab.page.wait_for_timeout(DOUBLE_TAP_MS)
    lab.page.mouse.click(box["x"] + box["width"] * 0.9, lane)
    status = cell.locator(".trt-lab-figure-status")
    expect(status).to_have_text("layer 2 is not for <b>tapping</b>Try again")
    expect(cell.get_by_text("taps [1, 2]")).to_be_visible()
    expect(canvas).to_be_visible()

    few = canvas.evaluate(COUNT, BAR)  # of the chosen bar; the others are faint
    run_more(lab, "timeline.select(None)")
    wait_for_pixels(lab.page, canvas, BAR, 2 * few)
    expect(cell.get_by_text("taps [1, 2]", exact=True)).to_be_visible()
    run_more(lab, "from trt_lab.views.text import message_pane; widget.set_figure(message_pane('<i>another</i>', []))")
    expect(cell.get_by_text("<i>another</i>")).to_be_visible()
    expect(canvas).to_have_count(0)
    assert not lab.errors


def test_numpy_columns_theme_and_the_end_of_the_kernel(lab: Lab) -> None:
    panel = lab.run_cells("from trt_lab.widgets.figure import FigureWidget", IMAGE, "second", TIMELINE)
    cells = panel.locator(".jp-CodeCell")
    first, twin = canvas_of(cells.nth(1)), canvas_of(cells.nth(2))
    page = lab.page
    for canvas in (first, twin):
        expect(canvas).to_be_visible(timeout=30_000)
        wait_for_pixels(page, canvas, INK_OF_LIGHT, 20)
    assert page.evaluate("() => globalThis[Symbol.for('trt-lab.bokeh')].size") == 1
    few = first.evaluate(COUNT, RED)
    assert 0 < few
    run_more(lab, "source.data = {'x': np.array([0.0]), 'y': np.array([0.0]), 'size': np.array([4.0])}")
    for canvas in (first, twin):
        wait_for_pixels(page, canvas, RED, few * 10)

    lab.set_theme(dark=True)
    for canvas in (first, twin):
        wait_for_pixels(page, canvas, INK_OF_DARK, 20)
        wait_for_pixels(page, canvas, INK_OF_LIGHT, 0, 5)
    lab.set_theme(dark=False)
    wait_for_pixels(page, first, INK_OF_LIGHT, 20)
    assert not lab.errors

    page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    for number in (1, 3):
        expect(cells.nth(number).locator(".trt-lab-figure-status")).to_contain_text(
            "run the cell again", timeout=30_000
        )
    expect(first).to_be_visible()
