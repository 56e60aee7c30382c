"""The session as a notebook and a JupyterLab panel show it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nbformat
import onnx
import pytest
from nbconvert import HTMLExporter
from onnx import TensorProto, helper

from trt_lab import notebook, zoo
from trt_lab.errors import UsageError
from trt_lab.widgets.workbench import Workbench

LARGEST_STILL = 300_000


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """What `open_panel` displays; no panel is open before and after."""
    found: list[Any] = []
    monkeypatch.setattr("IPython.display.display", found.append)
    monkeypatch.setattr(notebook, "_panel", None)
    monkeypatch.setattr(notebook, "_panel_path", None)
    yield found


def save(path: Path, name: str) -> str:
    zoo.get(name).model.save(path)
    return str(path)


def test_the_same_path_again_shows_the_session_that_is_there(tmp_path: Path, shown: list[Any]) -> None:
    path = save(tmp_path / "model.onnx", "l2norm_overflow")
    notebook.open_panel(path)
    notebook.panel_session().probe("/Mul_output_0")
    notebook.open_panel(path)
    assert shown[0] is shown[1]
    assert notebook.panel_session().probes == ("/Mul_output_0",)


def test_another_path_opens_another_session(tmp_path: Path, shown: list[Any]) -> None:
    notebook.open_panel(save(tmp_path / "a.onnx", "l2norm_overflow"))
    first = notebook.panel_session()
    first.probe("/Mul_output_0")
    notebook.open_panel(save(tmp_path / "b.onnx", "l2norm_overflow"))
    assert notebook.panel_session() is not first
    assert notebook.panel_session().probes == ()
    assert shown[0] is not shown[1]


def test_a_file_that_cannot_be_opened_leaves_no_session(tmp_path: Path, shown: list[Any]) -> None:
    notebook.open_panel(save(tmp_path / "a.onnx", "l2norm_overflow"))
    notebook.open_panel(str(tmp_path / "missing.onnx"))
    assert not isinstance(shown[1], Workbench)
    with pytest.raises(UsageError, match="no model is open in this panel"):
        notebook.panel_session()


def chain(length: int) -> onnx.ModelProto:
    """`length` Relus with long names, one after the other."""
    name = "/encoder/layers.{}/self_attention/output_projection/Relu_output_0"
    names = ["x", *(name.format(number) for number in range(length - 1)), "y"]
    nodes = [
        helper.make_node("Relu", [names[number]], [names[number + 1]], name=f"node {number}")
        for number in range(length)
    ]
    ports = [helper.make_tensor_value_info(port, TensorProto.FLOAT, [1, 8]) for port in ("x", "y")]
    return helper.make_model(helper.make_graph(nodes, "chain", ports[:1], ports[1:]), ir_version=9)


@pytest.mark.parametrize("length", [3, 400, 10_000])
def test_c47_the_still_view_stays_small(length: int) -> None:
    with ThreadPoolExecutor(1) as executor:
        bundle = notebook.Session(chain(length), executor=executor)._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html", "application/vnd.jupyter.widget-view+json"}
    assert f"{length} nodes" in bundle["text/html"]
    assert bundle["text/html"].startswith('<div class="trt-lab-still">')
    assert len(bundle["text/html"].encode()) <= LARGEST_STILL
    assert "<script" not in bundle["text/html"]


def test_c47_nbconvert_writes_the_still_view() -> None:
    with ThreadPoolExecutor(1) as executor:
        bundle = notebook.Session("zoo:l2norm_overflow", executor=executor)._repr_mimebundle_()
    cell = nbformat.v4.new_code_cell(
        "lab", outputs=[nbformat.v4.new_output("execute_result", data=bundle, execution_count=1)]
    )
    page, _ = HTMLExporter().from_notebook_node(nbformat.v4.new_notebook(cells=[cell]))
    assert '<div class="trt-lab-still">' in page
    assert "23 nodes" in page
    assert "Error displaying widget" not in page
