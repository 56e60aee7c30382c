"""The map of nodes and layers: held against lists read by hand, and each reason on a graph made for it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from trt_lab.compare.align import LayerMap
from trt_lab.compare.unmapped import explain_layer
from trt_lab.engine_json import parse_engine_json
from trt_lab.engine_nodes import NodeIndex
from trt_lab.graph.view import GraphView
from trt_lab.model import Model
from trt_lab.profiling.source import open_engine
from trt_lab.types import LayerInfo, LayerTensor, NodeId

CHECKED = Path(__file__).resolve().parents[2] / "data" / "layer_maps"
GPU = CHECKED.parent / "gpu"
RECORDS = ("encoder4.fp16", "encoder4.fp32", "l2norm_overflow.fp16", "l2norm_overflow.fp32")


def view_of(nodes: list[onnx.NodeProto], output: str, **initializers: list[float]) -> GraphView:
    """A graph of floats from `x` (2×8) to `output`."""
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 8])]
    outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)]
    constants = [helper.make_tensor(k, TensorProto.FLOAT, [len(v)], v) for k, v in initializers.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    return GraphView.of(Model.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])))


def node(op: str, reads: list[str], makes: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op, reads, [makes], name=f"n_{makes}", **attributes)


def layer(index: int, *nodes: str, reads: str = "x", makes: str = "t", kind: str = "Kernel") -> LayerInfo:
    return LayerInfo(
        index, " + ".join(nodes) or "k", kind, (LayerTensor(reads),), (LayerTensor(makes),),
        nodes=tuple(NodeId(n) for n in nodes), nodes_from="metadata" if nodes else "none",
    )  # fmt: skip


# --- lists read by hand ---------------------------------------------------------------------------


@pytest.mark.parametrize("record", RECORDS)
def test_no_link_differs_from_the_list_read_by_hand(shared: Path, record: str) -> None:
    folder = shared / "trt_records"
    engine = open_engine(folder / f"{record}.layers.json", model=folder / f"{record.split('.')[0]}.onnx")
    assert engine.map is not None
    checked = json.loads((CHECKED / f"{record}.json").read_text(encoding="utf-8"))["layers"]
    assert [row["name"] for row in checked] == [found.name for found in engine.layers]
    right = {(row["layer"], name, role) for row in checked for role in ("computes", "serves") for name in row[role]}
    assert {(link.layer, str(link.node), link.role) for link in engine.map.links} == right


def test_no_link_of_resnet18_differs_from_the_list_read_by_hand(shared: Path) -> None:
    engine = open_engine(shared / "trt_records" / "resnet18.fp32.layers.json")
    checked = json.loads((CHECKED / "resnet18.fp32.json").read_text(encoding="utf-8"))["layers"]
    assert [(row["name"], row["computes"]) for row in checked] == [(x.name, list(x.nodes)) for x in engine.layers]


@pytest.mark.parametrize("record", RECORDS)
def test_the_lists_agree_with_what_the_files_say_in_other_words(shared: Path, record: str) -> None:
    """The kernels' names are Myelin's own short words for the operators, and do not come from the map."""
    words = {
        "Softmax": ("Sub", "mha"),
        "Erf": ("Erf", "Fc"),
        "LayerNormalization": ("Mea", "Sqr"),
        "Transpose": ("Tra",),
    }
    folder = shared / "trt_records"
    view = GraphView.of(Model.load(folder / f"{record.split('.')[0]}.onnx"))
    named = 0
    for row in json.loads((CHECKED / f"{record}.json").read_text(encoding="utf-8"))["layers"]:
        title = row["name"]
        if title.startswith("__myl_"):
            for name in row["computes"]:
                op = view.nodes[NodeId(name)].op_type
                assert any(word in title for word in words.get(op, ("",))), (title, name)
        elif row["computes"] and not title.startswith("_"):
            bare = re.sub(r"_myl\d+_\d+$", "", title)
            assert any(name.replace(".", "_") in bare.replace(".", "_") for name in row["computes"]), title
            named += 1
    assert named >= 14


def test_at_least_95_of_100_nodes_are_mapped_or_listed_with_the_reason(shared: Path) -> None:
    folder = shared / "trt_records"
    files = [f for f in sorted(folder.glob("*.layers.json")) if not f.name.startswith("resnet18")]
    assert len(files) == 8
    for file in files:
        found = open_engine(file, model=folder / f"{file.name.split('.')[0]}.onnx").map
        assert found is not None and found.coverage is not None and found.coverage >= 0.95, file.name
        assert set(found.unmapped_nodes) <= set(found.node_reasons)
        for index in set(range(len(found.layers))) - {link.layer for link in found.links}:
            assert found.layer_reasons[index].text


@pytest.mark.parametrize(("record", "model"), [("magika-fp16", "magika"), ("ppocr_det-fp16", "ppocr_det")])
def test_real_models_on_a_real_gpu_are_covered(real_model: Callable[[str], Path], record: str, model: str) -> None:
    found = open_engine(GPU / f"{record}.trtlab", model=real_model(model)).map
    assert found is not None and (found.coverage or 0) >= 0.95
    assert all(link.confidence == "certain" for link in found.links if link.source == "metadata")


# --- links ----------------------------------------------------------------------------------------


def test_a_reformat_serves_and_a_quantisation_computes() -> None:
    view = view_of([node("QuantizeLinear", ["x", "s"], "q"), node("DequantizeLinear", ["q", "s"], "y")], "y", s=[1.0])
    text = {
        "Layers": [
            {"Name": "Reformatting CopyNode for Input Tensor 0 to n_y", "LayerType": "Reformat", "Inputs": [],
             "Outputs": []},
            {"Name": "n_q", "LayerType": "Reformat", "Inputs": [], "Outputs": []},
            {"Name": "n_y", "LayerType": "Scale", "Inputs": [], "Outputs": []},
        ]
    }  # fmt: skip
    layers = parse_engine_json(json.dumps(text), index=NodeIndex.of(view.nodes.values())).layers
    found = LayerMap.of(layers, view)
    assert [(x.layer, x.node, x.role, x.source) for x in found.links] == [
        (0, "n_y", "serves", "name"), (1, "n_q", "computes", "name"), (2, "n_y", "computes", "name"),
    ]  # fmt: skip
    assert found.layers_of(NodeId("n_y")) == (0, 2) and found.computed_in(NodeId("n_y")) == (2,)


def test_a_node_between_nodes_of_one_layer_is_in_it_and_shape_arithmetic_is_not() -> None:
    nodes = [
        node("Relu", ["x"], "a"), node("Neg", ["a"], "b"), node("Shape", ["a"], "s"), node("Reshape", ["b", "s"], "y"),
    ]  # fmt: skip
    view = view_of(nodes, "y")
    found = LayerMap.of([layer(0, "n_a", "n_y", makes="y")], view)
    enclosed = [link for link in found.links if link.source == "tensors"]
    assert [(link.node, link.confidence) for link in enclosed] == [("n_b", "likely")]
    assert found.node_reasons[NodeId("n_s")].kind in ("shape", "constant")
    apart = LayerMap.of([layer(0, "n_a", makes="a"), layer(1, "n_y", reads="b", makes="y")], view)
    assert not [link for link in apart.links if link.source == "tensors"]
    assert apart.node_reasons[NodeId("n_b")].kind == "not_told" and apart.coverage == pytest.approx(3 / 4)
    twice = LayerMap.of([layer(0, "n_a", "n_y", makes="a"), layer(1, "n_a", "n_y", reads="b", makes="y")], view)
    assert not [link for link in twice.links if link.source == "tensors"], "in which of the two, nobody tells"


def test_a_foreign_node_is_walked_from_its_outputs_to_its_inputs() -> None:
    view = view_of(
        [node("Relu", ["x"], "a"), node("Neg", ["a"], "b"), node("Abs", ["b"], "c"), node("Erf", ["c"], "y")], "y"
    )
    tensors = [[{"Name": "x"}], [{"Name": "c"}]]
    text = {
        "Layers": [
            {"Name": "{ForeignNode[n_a...n_c]}", "LayerType": "Myelin", "Inputs": tensors[0], "Outputs": tensors[1]},
            {
                "Name": "(Unnamed Layer* 3) [Unary]",
                "LayerType": "Unary",
                "Inputs": tensors[1],
                "Outputs": [{"Name": "y"}],
            },
        ]
    }
    layers = parse_engine_json(json.dumps(text), index=NodeIndex.of(view.nodes.values())).layers
    found = LayerMap.of(layers, view)
    assert [(x.layer, x.node, x.source, x.confidence) for x in found.links] == [
        (0, "n_a", "tensors", "likely"), (0, "n_b", "tensors", "likely"), (0, "n_c", "tensors", "likely"),
        (1, "n_y", "tensors", "likely"),
    ]  # fmt: skip
    assert found.together([NodeId("n_a"), NodeId("n_c")]) and found.coverage == 1.0


def test_names_that_the_model_does_not_have_are_listed() -> None:
    view = view_of([node("Relu", ["x"], "y")], "y")
    found = LayerMap.of([layer(0, "n_y", "foreign")], view)
    assert found.unknown_nodes == ("foreign",) and found.nodes_of(0) == ("n_y",)


# --- reasons --------------------------------------------------------------------------------------


def test_each_reason_of_a_node_without_a_layer() -> None:
    nodes = [
        node("Conv", ["x4", "w"], "c"), node("BatchNormalization", ["c", "g", "g", "g", "g"], "bn"),
        node("Identity", ["bn"], "id"), node("Reshape", ["id", "to"], "r"), node("Erf", ["r"], "y"),
        node("Neg", ["g"], "k"), node("Relu", ["x4"], "dead"), node("Shape", ["x4"], "sh"),
        node("Dropout", ["x4"], "drop"), node("Gather", ["sh", "i"], "n"), node("Add", ["y", "k"], "end"),
        node("Unsqueeze", ["n", "i0"], "to"),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x4", TensorProto.FLOAT, ["N", 1, 4, 4])],
        [helper.make_tensor_value_info("end", TensorProto.FLOAT, None),
         helper.make_tensor_value_info("drop", TensorProto.FLOAT, None)],
        [helper.make_tensor("w", TensorProto.FLOAT, [1, 1, 1, 1], [1.0]),
         helper.make_tensor("g", TensorProto.FLOAT, [1], [1.0]),
         helper.make_tensor("i", TensorProto.INT64, [], [0]), helper.make_tensor("i0", TensorProto.INT64, [1], [0])],
    )  # fmt: skip
    view = GraphView.of(Model.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])))
    found = LayerMap.of([layer(0, "n_c"), layer(1, "n_end", reads="y")], view)
    kinds = {name.removeprefix("n_"): reason.kind for name, reason in found.node_reasons.items()}
    assert kinds == {
        "bn": "weights", "id": "no_op", "r": "data_movement", "y": "not_told", "k": "constant", "dead": "dead",
        "sh": "shape", "drop": "no_op", "n": "shape", "to": "shape",
    }  # fmt: skip
    assert found.node_reasons[NodeId("n_bn")].text == "folded into the weights of 'n_c'"
    assert [name for name, reason in found.node_reasons.items() if not reason.folded] == ["n_y"]


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (LayerInfo(0, "w", "Constant"), "constant"),
        (LayerInfo(0, "__myl_Mov_myl6_0", "kgen", (LayerTensor("w"),)), "constant"),
        (LayerInfo(0, "[trainStation1]", "TrainStation"), "sync"),
        (LayerInfo(0, "signal", "signal"), "sync"),
        (LayerInfo(0, "__mye15755_0_myl1_0", "shape_call"), "host"),
        (LayerInfo(0, "__myl_Add_myl1_0", "kgen", (LayerTensor("t"),)), "made_up"),
        (LayerInfo(0, "Reformatting CopyNode for Input Tensor 0 to zz", "Reformat"), "reformat"),
        (LayerInfo(0, "k", "kgen", attributes={"Metadata": "[ONNX Layer: gone]"}), "foreign"),
    ],
)
def test_each_reason_of_a_layer_without_a_node(given: LayerInfo, kind: str) -> None:
    reason = explain_layer(given, {"w"}, detailed=True, known=True)
    assert reason.kind == kind and reason.text
