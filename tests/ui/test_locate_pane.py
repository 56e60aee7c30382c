"""The Locate tab in a real JupyterLab: search, look at the evidence, keep, take back, export."""

from __future__ import annotations

import shutil

from playwright.sync_api import Locator, expect

from trt_lab import zoo

from .conftest import CHECKOUT, KERNEL_MS, Lab
from .test_main_job import BUILD_MS, open_workbench, python

RECORD = CHECKOUT / "tests" / "data" / "gpu" / "l2norm_overflow-fp16.trtlab"


def choose(workbench: Locator, node: str) -> Locator:
    """Finds a node by the search box; returns its card."""
    workbench.get_by_role("combobox", name="Search").fill(node)
    workbench.locator(".trt-hits").get_by_role("option").first.click()
    card = workbench.locator(".trt-card")
    expect(card).to_contain_text(node)
    return card


def test_the_cause_is_found_kept_taken_back_and_exported(lab: Lab) -> None:
    zoo.get("l2norm_overflow").model.save(lab.root / "located.onnx")
    panel = open_workbench(lab, "located.onnx")
    panel.get_by_role("tab", name="Locate").click()
    expect(panel.get_by_text("Nothing to search in fp32: choose fp16 or bf16")).to_be_visible()
    expect(panel.get_by_role("button", name="Find the cause")).to_be_disabled()
    panel.get_by_role("combobox", name="precision").select_option("fp16")
    panel.get_by_role("button", name="Find the cause").click()
    expect(panel.get_by_role("button", name="Stop")).to_be_visible()
    steps = panel.get_by_role("grid", name="Steps")
    expect(steps.get_by_text("… running").first).to_be_visible(timeout=BUILD_MS)
    expect(panel.get_by_text("fp16 differs: overflow in /Mul")).to_be_visible(timeout=BUILD_MS)
    expect(steps.get_by_text("✓ passes").first).to_be_attached()
    expect(panel.get_by_text("sets tried on the CPU, no engine built")).to_be_visible()
    expect(panel.get_by_role("combobox", name="Colour by")).to_have_value("local")

    panel.get_by_role("grid", name="Evidence").get_by_text("/Sqrt").click()
    card = panel.locator(".trt-card")
    expect(card).to_contain_text("/Sqrt")
    panel.get_by_role("button", name="Keep these in FP32").click()
    expect(card.get_by_role("button", name="Kept in FP32")).to_be_visible()
    panel.get_by_role("listbox", name="Graph.").focus()
    lab.page.keyboard.press("Control+z")
    expect(card.get_by_role("button", name="Keep FP32")).to_be_visible()
    expect(panel.get_by_role("button", name="Nothing to undo")).to_be_disabled()

    panel.get_by_role("button", name="Copy").first.click()
    expect(panel.get_by_text("Copied").or_(panel.get_by_text("Selected: press Ctrl+C"))).to_be_visible()
    panel.get_by_role("button", name="Export repaired ONNX").click()
    expect(panel.get_by_text("wrote ")).to_be_visible(timeout=KERNEL_MS)
    said = python(lab, "located.onnx", "from trt_lab import notebook; print(notebook.panel_session().options.plan)")
    assert "keep_fp32=()" in said
    assert len(list(lab.root.glob("located.fp16-*.onnx"))) == 1
    assert lab.errors == []


def test_a_recorded_engine_tells_where_a_probe_would_change_it(lab: Lab) -> None:
    shutil.copytree(RECORD, lab.root / "recorded.trtlab")
    notebook = lab.run_cells(
        "import trt_lab; lab = trt_lab.Session.open_any('recorded.trtlab'); lab", name="marks.ipynb"
    )
    expect(notebook.get_by_text("safe to probe: 16 of 32 tensors")).to_be_visible(timeout=KERNEL_MS)
    card = choose(notebook, "/Mul")
    expect(card.get_by_text("safe to probe: lies between engine layers")).to_be_visible()
    expect(card.get_by_text("a probe here splits layer /a/a.10/Conv + /a/a.11/Relu")).to_be_visible()
    marked = notebook.get_by_role("listbox", name="Graph.").get_by_role("option").filter(has_text="safe to probe")
    assert "/Mul;" in " ".join(marked.all_text_contents())
    assert "/Mul_1" not in " ".join(marked.all_text_contents())
