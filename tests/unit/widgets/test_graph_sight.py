"""Marks of tensors that are safe to probe, colours of local and accumulated errors, and undo."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.unit.widgets.test_graph import Browser, small, stats
from trt_lab.diagnose.locate import TensorError
from trt_lab.errors import UsageError
from trt_lab.notebook import Session
from trt_lab.types import LayerInfo, LayerTensor, NodeId, TensorId
from trt_lab.widgets.graph import GraphWidget
from trt_lab.widgets.undo import DEPTH, Undo


def layer(index: int, name: str, nodes: tuple[str, ...], *outputs: str) -> LayerInfo:
    made = tuple(LayerTensor(output) for output in outputs)
    return LayerInfo(index, name, "Layer", nodes=tuple(NodeId(node) for node in nodes), outputs=made)


def seen(safe: tuple[str, ...], effects: dict | None = None, *, outputs: bool = True) -> GraphWidget:
    """An engine of two layers: Conv + Relu (c is inside), Sigmoid + Tanh (s is inside)."""
    layers = (
        layer(0, "Conv + Relu", ("/Conv", "/a/Relu"), *(["r"] if outputs else [])),
        layer(1, "Sigmoid + Tanh", ("/a/b/Sigmoid", "/a/b/Tanh"), *(["t"] if outputs else [])),
    )
    widget = GraphWidget(small())
    widget.set_results((), SimpleNamespace(layers=layers, times=()))  # type: ignore[arg-type]  # all that is used
    widget.set_safe(safe, effects)
    return widget


def test_the_card_says_before_probing_what_a_probe_does() -> None:
    browser = Browser(seen(("r", "t")))
    (r,) = browser.card("/a/Relu")["outputs"]
    assert (r["safe"], r["sight"]) == (True, "safe to probe: lies between engine layers")
    (s,) = browser.card("/a/b/Sigmoid")["outputs"]
    assert (s["safe"], s["sight"]) == (False, "a probe here splits layer Sigmoid + Tanh")
    (y,) = browser.card("y")["outputs"]
    assert (y["safe"], y["sight"]) == (False, "a probe here changes the engine: no layer gives this tensor")
    x, w = browser.card("/Conv")["inputs"]
    assert (x["safe"], w["safe"]) == (None, None)
    assert {"name": "safe to probe", "value": "2 of 3 tensors"} in browser.card("/a")["facts"]


def test_what_was_measured_counts_more_than_what_was_predicted() -> None:
    browser = Browser(seen(("r", "t"), {"r": "perturbing", "s": "neutral", "t": "unknown"}))
    found = [browser.card(node)["outputs"][0] for node in ("/a/Relu", "/a/b/Sigmoid", "/a/b/Tanh")]
    assert [tensor["safe"] for tensor in found] == [False, True, None]
    assert [tensor["sight"] for tensor in found[:2]] == [
        "this probe changed the engine", "this probe left the engine as it was",
    ]  # fmt: skip


def test_boxes_are_marked_and_the_legend_counts() -> None:
    browser = Browser(seen(("r", "t")))
    opened, _ = browser.scene(expanded=["/a", "/a/b"])
    colours, arrays = browser.colours(opened, "type")
    assert {name for name, flag in zip(opened["ids"], arrays["safe"], strict=True) if flag} == {"/a/Relu", "/a/b/Tanh"}
    assert (colours["safe"], colours["hidden"]) == (2, 3)
    closed, _ = browser.scene(expanded=[])
    assert not browser.colours(closed, "type")[1]["safe"].any()


@pytest.mark.parametrize("outputs", [True, False], ids=["before a build", "layers that tell no outputs"])
def test_where_nothing_is_known_nothing_is_said(outputs: bool) -> None:
    browser = Browser(GraphWidget(small()) if outputs else seen((), outputs=False))
    scene, _ = browser.scene(expanded=["/a"])
    colours, arrays = browser.colours(scene, "type")
    assert (colours["safe"], colours["hidden"], int(arrays["safe"].sum())) == (None, None, 0)
    assert browser.card("/a/Relu")["outputs"][0]["safe"] is None


def test_local_and_accumulated_errors_are_coloured_on_the_scale_of_the_tensors_themselves() -> None:
    rows = [
        TensorError(TensorId("c"), NodeId("/Conv"), stats("c", "same", snr_db=66.0), False, (), stats("c", "same", snr_db=66.0)),
        TensorError(TensorId("r"), NodeId("/a/Relu"), stats("r", "differs", inf_mismatch=3), True, (), stats("r", "differs", snr_db=15.0)),
        TensorError(TensorId("s"), NodeId("/a/b/Sigmoid"), stats("s", "same", exact=True), False, ()),
    ]  # fmt: skip
    widget = GraphWidget(small())
    browser = Browser(widget)
    scene, _ = browser.scene(expanded=["/a", "/a/b"])
    assert "Find cause" in browser.colours(scene, "local")[0]["missing"]
    widget.set_errors(rows)
    at = {name: index for index, name in enumerate(scene["ids"])}
    colours, arrays = browser.colours(scene, "local")
    assert arrays["level"][at["/Conv"]] == 0.0
    assert arrays["level"][at["/a/Relu"]] == pytest.approx(0.75)
    assert colours["figures"][at["/a/Relu"]] == "15 dB"
    assert not arrays["level"][at["/a/b/Sigmoid"]] >= 0  # never low: it has no local error
    colours, arrays = browser.colours(scene, "accumulated")
    assert (arrays["level"][at["/a/Relu"]], colours["figures"][at["/a/Relu"]]) == (1.0, "Inf")
    assert (arrays["level"][at["/a/b/Sigmoid"]], colours["figures"][at["/a/b/Sigmoid"]]) == (0.0, "exact")


def test_changes_are_taken_back_newest_first_and_the_oldest_are_forgotten() -> None:
    shown: list[str] = []
    done: list[int] = []
    undo = Undo(shown.append)
    undo.take_back()
    for number in range(DEPTH + 1):
        undo.did(str(number), lambda number=number: done.append(number))
    undo.take_back()
    undo.take_back()
    assert done == [DEPTH, DEPTH - 1]
    assert shown[-1] == str(DEPTH - 2)
    for _ in range(DEPTH):
        undo.take_back()
    assert (done[-1], shown[-1]) == (1, "")


def test_a_change_that_a_cell_took_back_is_told_and_forgotten(tmp_path: Path) -> None:
    lab = Session("zoo:l2norm_overflow", records=tmp_path)
    graph = lab.workbench.graph
    lab.workbench._probe("/Mul_output_0", True)
    lab.workbench._keep("/Mul", True)
    assert graph.undo == "/Mul kept in FP32"
    browser = Browser(graph)
    assert browser.ask("graph.undo")[0]["ok"]
    assert (lab.options.plan.keep_fp32, graph.undo) == ((), "probe on /Mul_output_0")
    lab.unprobe("/Mul_output_0")
    assert "no probe on" in browser.ask("graph.undo")[0]["error"]
    assert graph.undo == ""
    with pytest.raises(UsageError):
        lab.unprobe("/Mul_output_0")
