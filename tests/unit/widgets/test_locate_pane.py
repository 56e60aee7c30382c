"""The Locate tab without a browser: what it says before, while and after a search, and what its buttons do."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from trt_lab.diagnose.locate import Trial
from trt_lab.diagnose.steps import Search, Step
from trt_lab.notebook import Session
from trt_lab.types import NodeId
from trt_lab.widgets.panes.locate import LocateActions, LocatePane
from trt_lab.widgets.panes.locate_words import count_steps, how_sure, kept_text, verdict_lines
from trt_lab.widgets.workbench import TABS

WAIT_S = 120


@pytest.fixture
def lab(tmp_path: Path) -> Session:
    return Session("zoo:l2norm_overflow", records=tmp_path / "records")


def shown(widget: object) -> bool:
    return widget.layout.display != "none"  # type: ignore[attr-defined]


def column(table, name: str) -> list:
    place = [column["name"] for column in table.columns].index(name)
    return [table._rows.row(index)[place] for index in range(len(table._rows.keys))]


def found(lab: Session) -> LocatePane:
    """The pane after a search that was begun by its button."""
    pane = lab.workbench.locate_pane
    ended = threading.Event()
    lab.observe(lambda change: ended.set() if change == "status" and lab.status.state in ("done", "failed") else None)
    pane.start.click()
    while lab.finding is None or lab.status.text != lab.finding.headline:  # the last thing that is told
        assert ended.wait(WAIT_S), lab.status
        ended.clear()
    return pane


def test_before_a_search_the_tab_says_what_to_do_and_what_it_does(lab: Session) -> None:
    pane = lab.workbench.locate_pane
    assert "choose fp16 or bf16" in pane.intro.value
    assert pane.start.disabled
    assert (shown(pane.intro), shown(pane.result), shown(pane.steps), shown(pane.stop)) == (True, False, False, False)
    lab.use(precision="bf16")
    assert not pane.start.disabled
    assert "which nodes does bf16 spoil" in pane.intro.value
    assert "prediction by emulation" in pane.intro.value
    lab.use(backend="recorded")
    assert "built with recorded, then prove it" in pane.intro.value


def test_a_search_shows_its_tab_its_steps_and_its_finding(lab: Session, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    lab.use(precision="fp16")
    bench, pane = lab.workbench, found(lab)
    assert lab.finding is not None
    assert bench.tabs.selected_index == TABS.index("Locate")
    assert (shown(pane.intro), shown(pane.stop), shown(pane.start)) == (False, False, True)
    assert "Kept in FP32, 5 nodes repair it" in pane.verdict.value
    assert "predicted by emulation on the CPU, no engine built" in pane.verdict.value
    assert {"✓ passes", "✗ fails"} <= set(column(pane.steps, "state"))
    assert "no engine built" in pane.steps_heading.value
    kept = [
        node
        for node, role in zip(column(pane.evidence, "node"), column(pane.evidence, "role"), strict=True)
        if "keep" in role
    ]
    assert kept == list(lab.finding.keep_fp32)
    assert column(pane.evidence, "role")[0] == "source · keep"
    assert column(pane.evidence, "kind")[0] == "overflow"
    assert column(pane.evidence, "local")[0] == "−Inf"
    assert bench.graph.colour_by == "local"
    assert bench.graph.selected == "/Mul"  # the source
    assert "/Mul: overflow: largest magnitude" in pane.detail.value
    pane.evidence.selected = pane.evidence._rows.keys[3]
    assert bench.graph.selected == "/Sqrt"
    assert pane.recipes.snippets[0]["label"] == "ModelOpt AutoCast, for any TensorRT"
    pane.export.click()
    assert "wrote" in pane.told.value
    assert len(list(tmp_path.glob("l2norm_overflow.fp16-*.onnx"))) == 1
    assert "Finding" not in bench._repr_mimebundle_()["text/html"]
    assert "5 nodes repair it" in bench._repr_mimebundle_()["text/html"]


def test_engines_that_were_built_stand_in_a_table(lab: Session) -> None:
    lab.use(precision="fp16")
    finding = lab.locate()
    pane = lab.workbench.locate_pane
    assert not shown(pane.table)
    proved = replace(finding, emulated=False, proved=True, engine_builds=2, fp32=finding.after, notes=("<b>",))
    pane.show_finding(proved, {})
    assert shown(pane.table)
    assert column(pane.table, "engine") == ["fp32", "fp16", "fp16, 5 in fp32"]
    assert column(pane.table, "verdict") == ["same", "differs", "same"]
    assert "proved on the engine without probes, 2 engines built" in how_sure(proved)
    assert "not proved, 1 engine built" in how_sure(replace(proved, proved=False, engine_builds=1))
    assert "note: &lt;b&gt;" in verdict_lines(proved)[-1]
    same = replace(finding, verdict="same", region=None, after=None, source=None, sources=(), errors=())
    pane.show_finding(same, {})
    assert "nothing to find" in pane.verdict.value
    assert (shown(pane.repair), shown(pane.evidence), shown(pane.result)) == (False, False, True)


def test_what_was_found_is_applied_and_taken_back(lab: Session) -> None:
    lab.use(precision="fp16")
    lab.keep("/o/Conv")
    pane = found(lab)
    assert lab.finding is not None
    pane.keep.click()
    assert lab.options.plan.keep_fp32 == lab.finding.keep_fp32
    assert (pane.keep.disabled, pane.keep.description) == (True, "Kept in FP32")
    assert lab.workbench.graph.undo == "5 nodes kept in FP32"
    pane.undo.click()
    assert lab.options.plan.keep_fp32 == ("/o/Conv",)
    assert (pane.keep.disabled, pane.undo.disabled) == (False, True)


def test_a_stopped_search_can_be_gone_on_with() -> None:
    calls: list[str] = []
    actions = LocateActions(
        start=lambda resume: calls.append(f"start {resume}"), stop=lambda: calls.append("stop"),
        choose=calls.append, keep=lambda: None, undo=lambda: None, export=lambda: "",
    )  # fmt: skip
    pane = LocatePane(actions)
    pane.show_choice("fp16", "tensorrt", busy=False)
    search = Search(None, "fp16")
    steps = (Step("try", "fails", (NodeId("/a"), NodeId("/b"))), Step("build tensorrt", "running", (), builds=1))
    pane.show_search(search, steps, "prove: engine 1")
    assert "fp16 · prove: engine 1" in pane.heading.value
    assert "1 set tried on the CPU, 1 engine built" in pane.steps_heading.value
    assert column(pane.steps, "kept") == ["nothing", "/a, /b"]
    assert (shown(pane.stop), shown(pane.start), shown(pane.go_on)) == (True, False, False)
    pane.stop.click()
    pane.steps.selected = "1"
    search.state = "stopped"
    pane.show_search(search, steps[:1], "cancelled")
    assert (shown(pane.stop), shown(pane.start), shown(pane.go_on), shown(pane.intro)) == (False, True, True, True)
    pane.go_on.click()
    assert calls == ["stop", "/a", "start True"]


def test_counts_and_sets_in_words() -> None:
    assert count_steps(()) == "0 sets tried on the CPU, no engine built"
    assert (kept_text(None), kept_text(()), kept_text((NodeId("/a"),))) == ("", "nothing", "/a")
    assert kept_text(tuple(NodeId(str(number)) for number in range(7))) == "7 nodes: 0 … 6"
    told = Search(None, "fp16").steps([Trial((), False, None), Trial((NodeId("/a"),), True, 0.1, builds=1)])
    assert [(step.what, step.state, step.builds) for step in told] == [("try", "fails", 0), ("build", "passes", 1)]
