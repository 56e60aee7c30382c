"""How smooth a timeline of 100,000 events is, in a real JupyterLab and a headless Chromium.

Run from the checkout: `python -m tests.bench.timeline [EVENTS]`. Prints, in ms, the first paint of the figure (from
the call in Python to the frame in which it is on the screen, with BokehJS still to be brought to the page, and with
it there), and the frames while it is panned by the mouse and by keys, zoomed out and zoomed in: median, 95 %, longest.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from playwright.sync_api import CDPSession, FloatRect, Locator, Page, sync_playwright

from tests.ui.conftest import Lab, running_lab
from tests.ui.test_main_job import python

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
RUNS = 100
PLOT = ".trt-lab-figure-host:not([data-hidden]) .bk-events"

MAKE = """
import time
from types import SimpleNamespace
import numpy as np
from trt_lab.types import LayerInfo, LayerTime
from trt_lab.views.timeline import Timeline
from trt_lab.widgets.figure import FigureWidget

def make(layers, count, **how):
    random = np.random.default_rng(0)
    usual = random.exponential(0.01, layers)
    times = usual[:, None] * random.normal(1, 0.05, (layers, count)).clip(0.5)
    kinds = ["gemm", "kgen", "CaskConvolution", "Reformat", "fusion", "PoolingV2"]
    known = [
        LayerInfo(i, f"/block.{i // 40}/attention/MatMul_{i} + /block.{i // 40}/attention/Add_{i}",
                  kinds[i % 6], precision="float16", nodes=(f"/block.{i // 40}/attention/MatMul_{i}",))
        for i in range(layers)
    ]
    figures = zip(known, times.mean(axis=1).tolist(), np.median(times, axis=1).tolist(), times.tolist())
    timed = [LayerTime(l.index, l.name, mean, median, tuple(each)) for l, mean, median, each in figures]
    return SimpleNamespace(name="engine", layers=known, times=timed, latency_ms=(float(usual.sum()),)), how

cases = {"layers": make(EVENTS, 3), "runs": make(EVENTS // RUNS, RUNS, runs="sequence", by="type")}
widget = FigureWidget()
widget
"""
SHOW = """
started, used = time.time(), time.process_time()
record, how = cases['CASE']
widget.set_figure(Timeline(record, **how).figure)
print(started, time.process_time() - used)
"""

PAINTED = """() => {
  const seen = new Set(document.querySelectorAll('.trt-lab-figure-host'));
  window.painted = new Promise(resolve => {
    const look = () => {
      const host = [...document.querySelectorAll('.trt-lab-figure-host:not([data-hidden])')].find(h => !seen.has(h));
      requestAnimationFrame(host ? () => resolve(performance.timeOrigin + performance.now()) : look);
    };
    look();
  });
}"""

FRAMES = """() => {
  const frames = window.frames_ = [];
  window.stopped = false;
  let last = performance.now();
  const look = now => {
    frames.push(now - last);
    last = now;
    if (!window.stopped) requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}"""


def first_paint(lab: Lab, case: str) -> str:
    """How long from the call in Python to the frame that shows the figure, and the processor time in it."""
    lab.page.evaluate(PAINTED)
    session = threads(lab.page)
    before = busy_ms(session)
    started, used = map(float, python(lab, "bench.ipynb", SHOW.replace("CASE", case)).split())
    wall = float(lab.page.evaluate("() => window.painted")) - started * 1000
    return f"first paint {wall:.0f} ms; of the processor: Python {used * 1000:.0f}, page {busy_ms(session) - before:.0f} ms"


def watch_frames(page: Page, name: str, act: Callable[[], object]) -> None:
    """Prints the lengths of the frames while `act` runs, and the processor time that the page took for each."""
    session = threads(page)
    page.evaluate(FRAMES)
    before = busy_ms(session)
    act()
    spent = busy_ms(session) - before
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => { window.stopped = true; done(); }))")
    frames = np.array(page.evaluate("() => window.frames_")[2:])
    middle, most = np.percentile(frames, (50, 95))
    cost = spent / frames.size
    print(f"{name}: {frames.size} frames, median {middle:.0f}, 95 % {most:.0f}, longest {frames.max():.0f} ms", end="")
    print(f"; {cost:.1f} ms of the processor a frame")


def threads(page: Page) -> CDPSession:
    """A session that tells processor times of the page."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    return session


def busy_ms(session: CDPSession) -> float:
    """Processor time of the page's main thread so far: on a busy machine frames wait, this does not."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return 1000 * next(each["value"] for each in metrics if each["name"] == "TaskDuration")


def drag(page: Page, box: FloatRect, rounds: int = 1) -> None:
    """Pans to and fro by the mouse."""
    left, right, y = box["x"] + 0.4 * box["width"], box["x"] + 0.8 * box["width"], box["y"] + 0.5 * box["height"]
    for _ in range(rounds):
        page.mouse.move(right, y)
        page.mouse.down()
        page.mouse.move(left, y, steps=25)
        page.mouse.up()
    for _ in range(rounds):
        page.mouse.move(left, y)
        page.mouse.down()
        page.mouse.move(right, y, steps=25)
        page.mouse.up()


def press(page: Page, keys: str) -> None:
    """Presses keys as fast as a held key repeats, or the page follows."""
    for key in keys:
        page.keyboard.press(key)


def measure(lab: Lab, plot: Locator) -> None:
    """Prints the frames of one figure."""
    page = lab.page
    box = plot.bounding_box()
    assert box is not None
    watch_frames(page, "  pan by keys, zoomed out", lambda: (plot.click(), press(page, "wwwwaaaadddd" * 2)))
    watch_frames(page, "  zoom by keys", lambda: press(page, "w" * 12 + "s" * 12))
    press(page, "0" + "w" * 12)
    watch_frames(page, "  pan by mouse, zoomed in", lambda: drag(page, box))
    press(page, "0www")
    watch_frames(page, "  pan by mouse, zoomed out", lambda: drag(page, box))


def main() -> None:
    """Measures one record of many layers, and one of fewer layers and many runs."""
    events = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as home, running_lab(Path(home)) as server, sync_playwright() as playwright:
        found = shutil.which("chromium") or shutil.which("chromium-browser")
        page = playwright.chromium.launch(executable_path=found, args=FLAGS).new_page(
            viewport={"width": 1440, "height": 900}
        )
        lab = Lab(page, server, "bench").open()
        notebook = lab.run_cells(
            MAKE.replace("EVENTS // RUNS", str(events // RUNS))
            .replace("EVENTS", str(events))
            .replace("RUNS", str(RUNS)),
            name="bench.ipynb",
        )
        print(f"{events:,} layers, BokehJS still to come: {first_paint(lab, 'layers')}")
        measure(lab, notebook.locator(PLOT).first)
        print(f"{events // RUNS:,} layers, {RUNS} runs: {first_paint(lab, 'runs')}")
        measure(lab, notebook.locator(PLOT).first)
        print(f"{events:,} layers again: {first_paint(lab, 'layers')}")


if __name__ == "__main__":
    main()
