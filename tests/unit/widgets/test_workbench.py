"""The workbench without a browser: traits and messages, errors in place, one selection."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from trt_lab.errors import CancelledError
from trt_lab.notebook import Session
from trt_lab.results import Diff
from trt_lab.widgets.text import line


def value_of(widget: object, name: str) -> str:
    return str(getattr(widget, name))


@pytest.fixture
def lab(tmp_path: Path) -> Session:
    return Session("zoo:l2norm_overflow", records=tmp_path)


def test_python_and_workbench_share_probes_and_kept_nodes(lab: Session) -> None:
    bench = lab.workbench
    assert lab.workbench is bench
    lab.probe("/Mul_output_0")
    lab.keep("/Mul")
    assert bench.graph.probes == ["/Mul_output_0"]
    assert bench.graph.kept == ["/Mul"]
    bench._probe("/Mul_output_0", False)
    assert lab.probes == ()
    assert "lab.keep('/Mul')" in value_of(bench.code_pane.code, "value").replace("&#x27;", "'")


def test_toolbar_changes_the_session_and_errors_stand_in_place(lab: Session) -> None:
    bar = lab.workbench.toolbar
    bar.precision.value = "fp16"
    assert lab.options.plan.default == "fp16"
    bar.shapes.value = "x=1"
    assert "NAME:1x3x64x64" in lab.workbench.error.value
    assert lab.options.shapes == ()
    bar.shapes.value = "x:2x3x64x64"
    assert lab.workbench.error.value == ""
    assert lab.options.shapes[0].opt == (2, 3, 64, 64)


def test_build_fills_every_tab_and_marks_the_selection(lab: Session) -> None:
    bench = lab.workbench
    lab.use(precision="fp16")
    lab.probe("/Mul_output_0")
    done = threading.Event()
    lab.observe(lambda change: done.set() if change == "status" and lab.status.state in ("done", "failed") else None)
    lab.start_build()
    assert done.wait(120)
    while lab.building or "first at /Mul" not in bench.toolbar.status.value:
        done.clear()
        assert done.wait(60)
    assert "differs" in bench.toolbar.status.value
    assert "lab.build()" in bench.code_pane.code.value, "its line comes last of all"
    assert bench.diff_pane.table.selected == "/Mul_output_0"
    bench.graph.selected = "/o/Conv"
    assert bench.diff_pane.table.selected == "y"
    bench.diff_pane.table.selected = "/Mul_output_0"
    assert bench.graph.selected == "/Mul"


def test_what_differs_is_shown_before_the_engine_is_profiled(lab: Session) -> None:
    bench = lab.workbench
    lab.build()
    lab.use(precision="fp16")
    lab.probe("/Mul_output_0")
    seen: list[tuple[str, int, str]] = []
    early: list[Diff | None] = []

    def hear(change: str) -> None:
        if change in ("outputs", "record"):
            seen.append((change, len(lab.records), bench.diff_pane.table.selected))
            early.append(lab.early)

    lab.observe(hear)
    record = lab.build()
    assert seen == [("outputs", 1, "/Mul_output_0"), ("record", 2, "/Mul_output_0")]
    assert early[0] is not None and early[1] is None and lab.early is None
    diff = lab.compare()
    assert diff.engine is record and diff.comparison is early[0].comparison
    assert record.times and record.layers and record.latency_ms
    golden, engine = early[0].pair("/Mul_output_0", 0)  # its folder lives as long as it
    np.testing.assert_array_equal(engine, record.outputs(0)["/Mul_output_0"])
    np.testing.assert_array_equal(golden, diff.pair("/Mul_output_0", 0)[0])
    record.verify()


def test_numbers_that_are_shown_already_are_not_drawn_again(lab: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    pane = lab.workbench.diff_pane
    lab.probe("/Mul_output_0")
    lab.build()
    drawn: list[str] = []
    monkeypatch.setattr(type(pane), "_draw", lambda self: drawn.append(self._shown))
    pane.show(lab.compare(), {})
    assert drawn == []
    pane.show(lab.compare(), {"/Mul_output_0": "source"})
    assert drawn == ["/Mul_output_0"]


def test_cancel_in_the_reference_ends_the_engine_that_waits_behind_it(lab: Session) -> None:
    lab.probe("/Mul_output_0")
    with pytest.raises(CancelledError):
        lab.build(lambda progress: lab.cancel())
    assert (lab.records, lab.reference, lab.building, lab.early) == ((), None, False, None)
    assert set(lab.build().outputs(0)) == {"y", "/Mul_output_0"}


def test_a_model_whose_samples_cannot_be_made_is_shown_all_the_same(tmp_path: Path) -> None:
    unknown = helper.make_tensor_value_info("x", TensorProto.FLOAT, None)
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])], "no_rank", [unknown],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "no_rank.onnx")
    lab = Session(tmp_path / "no_rank.onnx", records=tmp_path)
    bench = lab.workbench
    assert "rank of input &#x27;x&#x27;" in bench.error.value
    bench.toolbar.shapes.value = "x:2x3"
    assert bench.error.value == ""
    assert lab.samples.count == 4


def test_the_bundle_has_a_still_view_without_script(lab: Session) -> None:
    data = lab._repr_mimebundle_()
    data = data[0] if isinstance(data, tuple) else data
    assert {"text/plain", "text/html", "application/vnd.jupyter.widget-view+json"} <= set(data)
    assert "<script" not in data["text/html"]
    assert len(data["text/html"]) < 300_000


def test_text_is_escaped() -> None:
    assert "<img" not in line("<img src=x onerror=alert(1)>")
