"""How long from a press on Probe to the diff on the screen, in a real JupyterLab with magika.

Run from the checkout: `python -m tests.bench.probe_to_diff MODEL.onnx [ROUNDS]`. Prints each round, its parts, and
the medians, in seconds. Probe and Build are pressed one right after the other; the time runs from the first press, as
the page hears of it, until the heading names the new tensor and the pixels of the heat maps have changed.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Locator, Page, expect, sync_playwright

from tests.ui.conftest import Lab, running_lab
from tests.ui.test_main_job import click_node, open_workbench
from trt_lab.graph.view import GraphView
from trt_lab.model import Model

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]

WATCH = """([panel, tensor]) => {
  const text = tensor.slice(-12);
  const times = {};
  panel.addEventListener('click', event => { times.start = event.timeStamp; }, { capture: true, once: true });
  const mark = name => { times[name] ??= performance.now(); };
  const pane = panel.querySelector('.trt-lab-pane');
  const figures = [...pane.querySelectorAll('.trt-lab-figure')].slice(0, -1); // the last is the histogram
  const inside = function* (node) {
    for (const child of node.children) {
      yield child;
      yield* inside(child);
      if (child.shadowRoot) yield* inside(child.shadowRoot);
    }
  };
  const all = () => figures.filter(f => f.checkVisibility()).flatMap(f => [...inside(f)]);
  const picture = () => {
    const small = new OffscreenCanvas(48, 48).getContext('2d', { willReadFrequently: true });
    const canvases = all().filter(e => e.tagName === 'CANVAS' && e.width > 100 && e.height > 100);
    for (const canvas of canvases) small.drawImage(canvas, 0, 0, 48, 48);
    return canvases.length + small.getImageData(0, 0, 48, 48).data.join();
  };
  const named = () => all().some(e => e.shadowRoot === null && e.textContent.includes(text));
  const before = picture();
  window.probeToDiff = null;
  const look = () => {
    const row = [...pane.querySelectorAll('[role=row]')].some(r => r.textContent.includes(text));
    if (row) mark('table');
    if (row && named()) {
      mark('heading');
      const now = picture();
      if (now !== before || now.startsWith('0')) { // one number is told in words, without a canvas
        mark('maps');
        window.probeToDiff = times;
        return;
      }
    }
    setTimeout(look, 15); // asking in every frame would make the page draw every frame
  };
  look();
}"""


def tensors_of(path: Path, count: int) -> list[tuple[str, str]]:
    """Nodes spread over the model, each with the float tensor that it makes."""
    view = GraphView.of(Model.load(path))
    good = [
        (str(node.id), str(node.outputs[0]))
        for node in view.nodes.values()
        if not node.graph
        and node.outputs[0] is not None
        and node.op_type not in ("Constant", "Identity")
        and view.tensors[node.outputs[0]].dtype == "float32"
        and not view.tensors[node.outputs[0]].is_output
    ]
    step = max(1, len(good) // count)
    return good[::step][:count]


def middle(button: Locator) -> tuple[float, float]:
    """Where a button that stands still is pressed, in CSS pixels."""
    button.click(trial=True)
    box = button.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def measure(page: Page, panel: Locator, node: str, tensor: str) -> dict[str, float]:
    """Seconds from the press to the row in the table, and to the painted maps."""
    click_node(page, panel, node)
    button = panel.locator(".trt-card").get_by_role("button", name="Probe", exact=True).first
    expect(button).to_be_visible()
    places = [middle(button), middle(panel.get_by_role("button", name="Build"))]
    page.evaluate(WATCH, [panel.element_handle(), tensor])
    for place in places:  # real presses, without the waits for a still page that a locator adds
        page.mouse.click(*place)
    times = page.wait_for_function("() => window.probeToDiff", timeout=60_000).json_value()
    expect(panel.get_by_role("button", name="Cancel")).to_be_disabled(timeout=60_000)
    return {part: (times[part] - times["start"]) / 1000 for part in ("table", "heading", "maps")}


def main() -> None:
    """Opens the model, builds once, then measures."""
    model = Path(sys.argv[1])
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    with tempfile.TemporaryDirectory() as home, running_lab(Path(home)) as server, sync_playwright() as playwright:
        found = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = playwright.chromium.launch(executable_path=found, args=FLAGS)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        lab = Lab(page, server, "bench").open()
        shutil.copy(model, lab.root / "model.onnx")
        panel = open_workbench(lab, "model.onnx")
        panel.get_by_role("button", name="Build").click()
        expect(panel.locator(".trt-lab-figure:visible").first.locator("canvas").first).to_be_visible(timeout=120_000)
        expect(panel.get_by_role("button", name="Cancel")).to_be_disabled(timeout=60_000)
        found_times = []
        for node, tensor in tensors_of(model, rounds):
            times = measure(page, panel, node, tensor)
            found_times.append(times)
            print(f"{times['maps']:.3f} s (row in the table after {times['table']:.3f} s)  {tensor}")
        for part in ("table", "heading", "maps"):
            print(f"median {part}: {statistics.median(t[part] for t in found_times):.3f} s")


if __name__ == "__main__":
    main()
