"""Makes the pictures of the README: the workbench with a probe in it, in light and dark.

Run from the checkout after `make build`: `python -m labextension.scripts.screenshots`. Needs Pillow, for small files.
"""

from __future__ import annotations

import io
import shutil
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import ViewportSize, expect, sync_playwright

from tests.ui.conftest import Lab, running_lab
from tests.ui.test_main_job import click_node, open_workbench, probe_and_build
from trt_lab import zoo

OUT = Path(__file__).resolve().parents[1] / "docs"
SIZE: ViewportSize = {"width": 1440, "height": 900}
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]


LARGEST = 250_000


def save(picture: bytes, path: Path) -> None:
    """As a PNG of at most 250 KB: with all its colours if they fit, else with 256."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    image.save(path, optimize=True)
    if path.stat().st_size > LARGEST:
        image.quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


def main() -> None:
    """Opens a model that fails in FP16, probes the node where it starts, and takes both pictures."""
    OUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as home, running_lab(Path(home)) as server, sync_playwright() as playwright:
        found = shutil.which("chromium") or shutil.which("chromium-browser")
        page = playwright.chromium.launch(executable_path=found, args=FLAGS).new_page(viewport=SIZE)
        lab = Lab(page, server, "screenshots").open()
        zoo.get("l2norm_overflow").model.save(lab.root / "l2norm_overflow.onnx")
        panel = open_workbench(lab, "l2norm_overflow.onnx")
        lab.execute("application:toggle-left-area")
        panel.get_by_role("combobox", name="precision").select_option("fp16")
        click_node(page, panel, "/ReduceSum")
        probe_and_build(panel, "/ReduceSum_output_0")
        expect(panel.get_by_role("button", name="Cancel")).to_be_disabled(timeout=60_000)
        for name in ("light", "dark"):
            lab.set_theme(dark=name == "dark")
            page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
            save(page.screenshot(), OUT / f"workbench-{name}.png")


if __name__ == "__main__":
    main()
