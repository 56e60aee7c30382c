"""A saved notebook, opened again when the kernel that had its widgets is gone (C47)."""

from __future__ import annotations

import json
import urllib.request

from playwright.sync_api import expect

from .conftest import KERNEL_MS, Lab

NOTE = "Kernel gone: run the cell again for the live view."


def shut_down(lab: Lab) -> None:
    """Ends all kernels and waits until they are gone."""
    for session in lab.server.get("api/sessions"):
        url = f"{lab.server.url}/api/sessions/{session['id']}"
        urllib.request.urlopen(urllib.request.Request(url, method="DELETE"), timeout=30).close()
    lab.wait_kernels(0)


def test_c47_a_saved_notebook_keeps_a_still_view(lab: Lab) -> None:
    notebook = lab.run_cells(
        "import trt_lab\nlab = trt_lab.Session('zoo:l2norm_overflow')\nlab",
        "import ipywidgets\nipywidgets.IntSlider(description='not ours')",
        name="kept.ipynb",
    )
    expect(notebook.locator(".trt-graph")).to_have_attribute("data-state", "ready", timeout=KERNEL_MS)
    lab.execute("docmanager:save")
    lab.execute("application:close")
    expect(notebook).to_have_count(0)
    shut_down(lab)
    saved = json.loads((lab.root / "kept.ipynb").read_text("utf-8"))
    assert 'class="trt-lab-still"' in "".join(saved["cells"][0]["outputs"][0]["data"]["text/html"])

    lab.execute("docmanager:open", path="kept.ipynb")
    cell = notebook.locator(".jp-CodeCell").first
    expect(cell.get_by_text(NOTE)).to_be_visible(timeout=KERNEL_MS)
    expect(cell.locator(".trt-lab-still")).to_contain_text("23 nodes")
    expect(cell.get_by_text("Error displaying widget")).to_have_count(0)
    # Outputs of others keep what ipywidgets says.
    expect(notebook.locator(".jp-CodeCell").last).to_contain_text("Error displaying widget", timeout=KERNEL_MS)
    # Run again, it is live again.
    lab.execute("notebook:run-all-cells")
    expect(notebook.locator(".trt-graph")).to_have_attribute("data-state", "ready", timeout=KERNEL_MS)
    expect(cell.get_by_text(NOTE)).to_have_count(0)
