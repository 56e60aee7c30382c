"""The recorded engines of a real GPU: one probe that hides the fault, one that changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from trt_lab.compare.align import LayerMap
from trt_lab.compare.observer import hidden_tensors, nearest_safe, observe, safe_to_probe
from trt_lab.engine_json import read_engine_json
from trt_lab.engine_nodes import NodeIndex
from trt_lab.graph import GraphView
from trt_lab.model import Model
from trt_lab.types import LayerInfo, LayerTensor, NodeId, TensorId
from trt_lab.zoo import get

RECORDS = Path(__file__).parents[2] / "data" / "trt_records"
FUSED = "/a/a.10/Conv + /a/a.11/Relu + /Constant_output_0 + ONNXTRT_Broadcast + /Mul"


def engine(name: str, index: NodeIndex | None = None) -> tuple[LayerInfo, ...]:
    return read_engine_json(RECORDS / f"{name}.layers.json", index).layers


@pytest.fixture(scope="module")
def l2norm(shared: Path) -> GraphView:
    return GraphView.of(Model.load(shared / "trt_records" / "l2norm_overflow.onnx"))


def test_c17_the_probe_that_hides_the_overflow_is_perturbing() -> None:
    found = observe(engine("l2norm_overflow.fp16"), engine("l2norm_overflow.fp16.probe1"), probes=["p"])
    assert found.effect == "perturbing" and found.by_probe == {"p": "perturbing"}
    (change,) = found.changes
    assert (change.kind, change.layer) == ("split", FUSED)
    assert change.into == ("/a/a.10/Conv + /a/a.11/Relu", "PWN(/Mul)")
    assert ("/Mul_output_0", "float16", "float32") in [(t.tensor, t.clean, t.probed) for t in found.types]
    assert (found.layers_clean, found.layers_probed) == (20, 23)
    assert FUSED in found.sentence and found.as_json()["effect"] == "perturbing"


def test_c17_a_probe_that_changes_nothing_is_neutral() -> None:
    found = observe(engine("encoder4.fp16"), engine("encoder4.fp16.probe1"), probes=["p"])
    assert found.effect == "neutral" and not found.changes and not found.types
    assert found.tactics == ("__myl_TraResSliSliResTraResTraResSli_myl1_4",)
    assert found.neutral_tensors == ()


def test_c17_neutral_tensors_are_proposed(l2norm: GraphView) -> None:
    index = NodeIndex.of(l2norm.nodes.values())
    clean = engine("l2norm_overflow.fp16", index)
    safe = safe_to_probe(clean, l2norm)
    assert TensorId("/Mul_output_0") in safe and TensorId("/a/a.11/Relu_output_0") not in safe
    assert list(safe) == sorted(safe, key=l2norm.order)
    assert TensorId("/a/a.11/Relu_output_0") in hidden_tensors(clean, l2norm)
    assert not set(safe) & set(hidden_tensors(clean, l2norm))
    before, behind = nearest_safe(TensorId("/a/a.11/Relu_output_0"), clean, l2norm)
    assert before == ("/a/a.9/Relu_output_0",) and behind == ("/Mul_output_0",)
    probed = engine("l2norm_overflow.fp16.probe1", index)
    assert observe(clean, probed, view=l2norm).neutral_tensors == safe


def test_c17_what_to_probe_in_place_of_a_perturbing_probe(l2norm: GraphView) -> None:
    index = NodeIndex.of(l2norm.nodes.values())
    probes = ["/a/a.11/Relu_output_0", "/Mul_output_0"]
    clean, probed = (engine(f"l2norm_overflow.fp16{part}", index) for part in ("", ".probe1"))
    found = observe(clean, probed, probes=probes, view=l2norm)
    assert found.by_probe["/a/a.11/Relu_output_0"] == "perturbing"
    assert found.instead == {"/a/a.11/Relu_output_0": ("/a/a.9/Relu_output_0", "/Mul_output_0")}
    assert found.as_json()["instead"] == {"/a/a.11/Relu_output_0": ["/a/a.9/Relu_output_0", "/Mul_output_0"]}
    assert observe(clean, clean, probes=probes, view=l2norm).instead == {}


def test_layer_map_of_a_recorded_engine(l2norm: GraphView) -> None:
    layers = engine("l2norm_overflow.fp16", NodeIndex.of(l2norm.nodes.values()))
    found = LayerMap.of(layers, l2norm)
    assert found.nodes_of(6) == ("/a/a.10/Conv", "/a/a.11/Relu", "/Mul")
    assert found.layers_of(NodeId("/Mul")) == (6,)
    assert found.layers_of(NodeId("/o/Conv")) == (18, 19)
    assert found.unmapped_layers == () and found.unknown_nodes == ()
    assert {l2norm.nodes[node].op_type for node in found.unmapped_nodes} == {"Constant"}
    assert found.together([NodeId("/Mul"), NodeId("/a/a.11/Relu")]) and not found.together(
        [NodeId("/Mul"), NodeId("/Div")]
    )


def layer(index: int, *nodes: str, inputs: str = "float16", out: str = "t", dtype: str = "float16") -> LayerInfo:
    return LayerInfo(
        index, " + ".join(nodes), "Kernel", (LayerTensor("i", inputs),), (LayerTensor(out, dtype),),
        nodes=tuple(NodeId(node) for node in nodes), nodes_from="metadata",
    )  # fmt: skip


def test_merged_and_gone_layers() -> None:
    merged = observe([layer(0, "a", out="x"), layer(1, "b")], [layer(0, "a", "b")])
    assert [change.kind for change in merged.changes] == ["merged", "merged"]
    gone = observe([layer(0, "a", out="x"), layer(1, "b")], [layer(0, "a", out="x")])
    assert [(change.kind, change.layer) for change in gone.changes] == [("gone", "b")]


def test_layers_of_the_probe_itself_do_not_count() -> None:
    found = observe([layer(0, "a")], [layer(0, "a"), layer(1, "probe", out="p")], probes=["t"])
    assert found.effect == "neutral"


def test_each_probe_is_judged_where_the_change_can_be_traced() -> None:
    view = GraphView.of(get("clean_cnn").model)
    first, second, *_ = (info for info in view.nodes.values() if info.op_type == "Conv")
    relu = next(view.nodes[n] for n in view.successors(first.id))
    clean = [layer(0, first.id, relu.id, out="x"), layer(1, second.id)]
    probed = [layer(0, first.id, out="w"), layer(1, relu.id, out="x"), layer(2, second.id)]
    inside, outside = first.outputs[0], relu.outputs[0]
    assert inside is not None and outside is not None
    found = observe(clean, probed, probes=[inside, outside], view=view)
    assert found.by_probe == {inside: "perturbing", outside: "neutral"}
