"""The workbench as axe-core judges it, in light and dark."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from trt_lab import zoo

from .conftest import CHECKOUT, Lab
from .test_main_job import BUILD_MS, click_node, open_workbench, probe_and_build

AXE = CHECKOUT / "labextension" / "node_modules" / "axe-core" / "axe.min.js"
TABS = ("Diff", "Locate", "Timeline", "Layers", "Log", "Code")


def violations(lab: Lab, panel: Locator) -> list[str]:
    """Serious and critical violations inside the panel: rule, and the places."""
    judged = lab.page.evaluate("panel => axe.run(panel)", panel.element_handle())
    found: list[dict[str, Any]] = judged["violations"]
    passed = {rule["id"]: len(rule["nodes"]) for rule in judged["passes"]}
    assert passed["button-name"] > 5  # it did look
    assert passed["color-contrast"] > 8
    return [
        f"{rule['id']}: {node['html'][:160]} — {node.get('failureSummary', '')[:200]}"
        for rule in found
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
    ]


@pytest.fixture
def workbench(lab: Lab) -> Locator:
    """A workbench with a probe, a build and a finding, a node chosen."""
    if not AXE.is_file():
        pytest.fail("axe-core is not installed: run `make build` first.", pytrace=False)
    zoo.get("l2norm_overflow").model.save(lab.root / "judged.onnx")
    panel = open_workbench(lab, "judged.onnx")
    panel.get_by_role("combobox", name="precision").select_option("fp16")
    click_node(lab.page, panel, "/Mul")
    probe_and_build(panel, "/Mul_output_0")
    panel.get_by_role("button", name="Find cause").click()
    expect(panel.get_by_role("button", name="Keep these in FP32")).to_be_visible(timeout=BUILD_MS)
    lab.page.evaluate(AXE.read_text("utf-8"))
    return panel


def test_axe_sees_what_is_wrong(lab: Lab, workbench: Locator) -> None:
    workbench.evaluate(
        "panel => panel.append(Object.assign(document.createElement('button'), { style: 'width: 20px; height: 20px' }))"
    )
    assert [text.split(":")[0] for text in violations(lab, workbench)] == ["button-name"]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_nothing_serious(lab: Lab, workbench: Locator, dark: bool) -> None:
    lab.set_theme(dark=dark)
    found = {}
    for name in TABS:
        tab = workbench.get_by_role("tab", name=name)
        tab.click()
        expect(tab).to_have_attribute("aria-selected", "true")
        found[name] = violations(lab, workbench)
    workbench.get_by_role("button", name="Both").click()
    expect(workbench.locator(".trt-graph[data-state=ready]")).to_have_count(2, timeout=BUILD_MS)
    found["both graphs"] = violations(lab, workbench)
    assert found == {name: [] for name in (*TABS, "both graphs")}
