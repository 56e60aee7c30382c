"""The workbench without a browser: traits and messages, errors in place, one selection."""

from __future__ import annotations

import threading
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from trt_lab.notebook import Session
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
    assert bench.diff_pane.table.selected == "/Mul_output_0"
    bench.graph.selected = "/o/Conv"
    assert bench.diff_pane.table.selected == "y"
    bench.diff_pane.table.selected = "/Mul_output_0"
    assert bench.graph.selected == "/Mul"


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
