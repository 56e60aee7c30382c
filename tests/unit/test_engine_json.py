"""Reading engine layer JSON: every dialect, every kind of damage."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trt_lab.engine_json import (
    NOT_DETAILED,
    count_precisions,
    count_tensor_types,
    dtype_of,
    parse_engine_json,
    read_engine_json,
)
from trt_lab.engine_nodes import NodeIndex, map_layers, metadata_nodes, name_parts, split_profile
from trt_lab.engine_profile import match_times
from trt_lab.errors import RecordError
from trt_lab.graph import GraphView
from trt_lab.model import Model
from trt_lab.types import LayerInfo, LayerTensor, NodeId, NodeInfo, TensorId


def layer(name: str, **keys: object) -> dict[str, object]:
    return {"Name": name, "LayerType": "kgen", "Inputs": [], "Outputs": [], **keys}


def tensor(name: str, kind: str) -> dict[str, object]:
    return {"Name": name, "Dimensions": [1, -1], "Format/Datatype": kind}


def parse(content: object) -> tuple[LayerInfo, ...]:
    return parse_engine_json(json.dumps(content)).layers


# --- recorded engines ------------------------------------------------------------------


def test_recorded_fp16_engine(shared: Path) -> None:
    read = read_engine_json(shared / "trt_records" / "l2norm_overflow.fp16.layers.json")
    assert read.dialect == "trt10"
    assert len(read.layers) == 20
    assert count_precisions(read.layers) == {"float16": 16, "float32": 4}
    assert [b.name for b in read.bindings] == ["x", "y"]
    assert [b.is_input for b in read.bindings] == [True, False]
    reduce = read.layers[8]
    assert (reduce.type, reduce.precision, reduce.nodes, reduce.nodes_from) == (
        "Reduce",
        "float32",
        ("/Mul_1", "/ReduceSum"),
        "metadata",
    )
    assert read.layers[6].outputs[0] == LayerTensor("/Mul_output_0", "float16", (None, 32, 64, 64), None, "Device")
    reformat = read.layers[0]
    assert reformat.nodes == ("/a/a.0/Conv", "/a/a.1/Relu")
    assert reformat.nodes_from == "name"


def test_each_node_of_the_model_is_in_a_layer_of_its_engine(shared: Path) -> None:
    model = Model.load(shared / "trt_records" / "l2norm_overflow.onnx")
    view = GraphView.of(model)
    index = NodeIndex.of(view.nodes.values())
    read = read_engine_json(shared / "trt_records" / "l2norm_overflow.fp16.layers.json", index)
    mapped = {node for item in read.layers for node in item.nodes}
    left = {view.nodes[node].op_type for node in view.nodes if node not in mapped}
    assert left == {"Constant"}
    assert mapped <= set(view.nodes)


@pytest.mark.parametrize(
    ("name", "layers"),
    [("encoder4.fp16", 43), ("encoder4.fp32", 61), ("resnet18.fp32", 56), ("l2norm_overflow.fp16.debugall", 267)],
)
def test_recorded_engines_are_read_whole(shared: Path, name: str, layers: int) -> None:
    read = read_engine_json(shared / "trt_records" / f"{name}.layers.json")
    assert len(read.layers) == layers
    assert [item.index for item in read.layers] == list(range(layers))
    assert all(t.dtype for item in read.layers for t in (*item.inputs, *item.outputs))


def test_layer_norm_of_an_fp16_engine_is_partly_fp32(shared: Path) -> None:
    read = read_engine_json(shared / "trt_records" / "encoder4.fp16.layers.json")
    split = read.layers[11]
    assert {t.dtype for t in split.outputs} == {"float32"}
    assert {t.dtype for t in split.inputs} == {"float16", "int64"}
    assert split.precision is None
    assert read.layers[2].precision == "float16"


def test_trex_files(shared: Path) -> None:
    folder = shared / "real_inputs" / "trex"
    files = sorted(folder.rglob("*.graph.json"))
    assert len(files) == 7
    for file in files:
        read = read_engine_json(file)
        assert read.dialect == "trt8"
        assert all(item.precision for item in read.layers)
        assert Counter(item.nodes_from for item in read.layers)["name"] >= len(read.layers) - 2
    qat = read_engine_json(folder / "tests" / "inputs" / "mobilenet.qat.onnx.engine.graph.json")
    assert count_precisions(qat.layers) == {"int8": 70, "float16": 2, "float32": 1}
    assert qat.layers[1].nodes == ("features.0.0.weight", "QuantizeLinear_8", "Conv_12", "Clip_16")
    assert qat.layers[0].outputs[0].format == "Four wide channel vectorized row major Int8 format"


def test_tf32_is_told_by_the_kernel(shared: Path) -> None:
    folder = shared / "real_inputs" / "trex" / "examples" / "pytorch" / "resnet" / "A100" / "fp32"
    read = read_engine_json(folder / "resnet.onnx.engine.graph.json")
    assert count_precisions(read.layers) == {"tf32": 20, "float32": 12}


# --- dialects --------------------------------------------------------------------------


def test_dialect_11() -> None:
    content = {
        "Layers": [
            layer(
                "conv_myl0_1",
                LayerType="correlation",
                Inputs=[
                    {"Name": "x", "Dimensions": [1, 3], "Datatype": "Half", "Format": "(NHWC) Channel major format"}
                ],
                Outputs=[{"Name": "y", "Dimensions": [1, 4], "Datatype": "BFloat16", "Format": "(Linear)"}],
                Metadata="[ONNX Layer: conv]",
            )
        ],
        "I/O Tensors": [
            {"Name": "x", "IOMode": "Input", "DataType": "Half", "Dimensions": [1, -1], "Location": "Device"},
            {"Name": "y", "IOMode": "Output", "DataType": "Float", "Dimensions": [1, 4], "Location": "Device"},
        ],
    }
    read = parse_engine_json(json.dumps(content))
    assert read.dialect == "trt11"
    assert read.layers[0].inputs[0].format == "(NHWC) Channel major format"
    assert [t.dtype for t in (*read.layers[0].inputs, *read.layers[0].outputs)] == ["float16", "bfloat16"]
    assert [(b.name, b.is_input, b.dtype, b.shape) for b in read.bindings] == [
        ("x", True, "float16", (1, None)),
        ("y", False, "float32", (1, 4)),
    ]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Half", "float16"),
        ("Float", "float32"),
        ("BFloat16", "bfloat16"),
        ("Bool", "bool"),
        ("FP8", "float8_e4m3fn"),
        ("Int4", "int4"),
        ("Row major linear FP16 format", "float16"),
        ("Channel major FP16 format where channel % 8 == 0", "float16"),
        ("Thirty-two wide channel vectorized row major Int8 format", "int8"),
        ("Row major linear BF16 format", "bfloat16"),
        ("something new", None),
        ("", None),
        (None, None),
    ],
)
def test_types(text: str | None, name: str | None) -> None:
    assert dtype_of(text) == name


# --- C36 -------------------------------------------------------------------------------


def test_c36_plain_strings() -> None:
    read = parse_engine_json('{"Layers":["a + b","c"],"Bindings":["x","y"]}')
    assert read.dialect == "names"
    assert [item.name for item in read.layers] == ["a + b", "c"]
    assert [item.nodes for item in read.layers] == [("a", "b"), ("c",)]
    assert read.notes == (NOT_DETAILED,)
    assert [b.name for b in read.bindings] == ["x", "y"]


def test_c36_no_layers() -> None:
    read = parse_engine_json('{"Layers":[]}')
    assert (read.layers, read.dialect, read.notes) == ((), "empty", ("no layers",))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{}", "'Layers' is missing"),
        ("[]", "a list at top level"),
        ('[{"Name":"a"}]', "'Layers'"),
        ('{"Bindings":[]}', "'Layers' is missing (keys found: 'Bindings')"),
        ('{"Layers":{}}', "'Layers' holds no list"),
        ('{"Layers":[{"LayerType":"x"}]}', "layer 0 has no key 'Name'"),
        ('{"Layers":[3]}', "layer 0"),
    ],
)
def test_c36_missing_keys_are_named(text: str, words: str) -> None:
    with pytest.raises(RecordError) as caught:
        parse_engine_json(text, name="e.json")
    assert words in str(caught.value)
    assert str(caught.value).startswith("e.json")


def test_c36_objects_without_bindings() -> None:
    read = parse_engine_json(json.dumps({"Layers": [layer("a")]}))
    assert (read.dialect, read.bindings, len(read.layers)) == ("trt8", (), 1)


# --- C37 -------------------------------------------------------------------------------


@pytest.mark.parametrize("separator", ["\\u001e", "\\u001f", "\x1e", "\x1f"])
def test_c37_control_characters(separator: str) -> None:
    text = '{"Layers":[{"Name":"k","LayerType":"kgen","Inputs":[],"Outputs":[],' + (
        f'"Metadata":"[ONNX Layer: a]{separator}[ONNX Layer: b]"' + "}]}"
    )
    (found,) = parse_engine_json(text).layers
    assert found.nodes == ("a", "b")
    assert found.nodes_from == "metadata"


def test_metadata_names_may_hold_brackets() -> None:
    assert metadata_nodes("[ONNX Layer: a[0]]\x1e[ONNX Layer: b]") == ("a[0]", "b")
    assert metadata_nodes("[ONNX Layer: a][ONNX Layer: b][ONNX Layer: a]") == ("a", "b")
    assert metadata_nodes("") == ()


# --- C38, C41 --------------------------------------------------------------------------


def test_c38_layers_without_tensors() -> None:
    train, signal, wait, bare = parse(
        {
            "Layers": [
                layer("[trainStation1]", LayerType="TrainStation"),
                layer("signal", LayerType="signal"),
                layer("wait", LayerType="wait"),
                {"Name": "bare", "LayerType": "NoOp", "Outputs": [tensor("t", "Half")]},
            ]
        }
    )
    assert [(item.inputs, item.outputs, item.precision) for item in (train, signal, wait)] == [((), (), None)] * 3
    assert (bare.inputs, bare.outputs[0].dtype) == ((), "float16")


def test_c41_encodings() -> None:
    content = {"Layers": [layer("层/归一化", Weights={"Type": "Half", "Count": float("nan")}, Scale=float("inf"))]}
    text = json.dumps(content, ensure_ascii=False)
    for data in (text.encode("utf-8-sig"), text.encode(), "\ufeff" + text):
        (found,) = parse_engine_json(data).layers
        assert found.name == "层/归一化"
        assert found.attributes["Scale"] is None
        json.dumps(dict(found.attributes), allow_nan=False)
    with pytest.raises(RecordError, match="byte 0"):
        parse_engine_json(text.encode("utf-16"))
    with pytest.raises(RecordError, match="broken JSON at byte"):
        parse_engine_json(text.encode()[:40])


def test_numbers_out_of_range_are_strict_json() -> None:
    (found,) = parse_engine_json('{"Layers":[{"Name":"a","X":1e999}]}').layers
    assert found.attributes["X"] is None


# --- names -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("A + B", ("A", "B")),
        ("PWN(PWN(a, b), c)", ("a", "b", "c")),
        ("PWN(a)", ("a",)),
        ("{ForeignNode[first...last]}", ("first", "last")),
        ("/conv/Conv + PWN(/relu/Relu)", ("/conv/Conv", "/relu/Relu")),
        ("Reformatting CopyNode for Input Tensor 0 to X + Y", ("X", "Y")),
        ("(Unnamed Layer* 13) [Shuffle]", ()),
        ("w + ONNXTRT_Broadcast + /Mul", ("w", "/Mul")),
        ("a + b [profile 12]", ("a", "b")),
        ("__myl_TraAddCas_myl1_7", ()),
        ("fc (1) + b", ("fc (1)", "b")),
    ],
)
def test_name_parts(name: str, parts: tuple[str, ...]) -> None:
    assert name_parts(name) == parts


def test_profile_suffix() -> None:
    assert split_profile("a [profile 3]") == ("a", 3)
    assert split_profile("a [profile x]") == ("a [profile x]", None)
    (found,) = parse({"Layers": [layer("conv [profile 11]")]})
    assert (found.name, found.attributes["profile"]) == ("conv", 11)


@given(st.text(max_size=60))
def test_any_name_can_be_split(name: str) -> None:
    parts = name_parts(name)
    assert all(part and part == part.strip() for part in parts)
    assert len(set(parts)) == len(parts)


def chain(count: int) -> NodeIndex:
    nodes = [
        NodeInfo(NodeId(f"n.{i}"), f"n.{i}", "Relu", "", "", (TensorId(f"t{i}"),), (TensorId(f"t{i + 1}"),))
        for i in range(count)
    ]
    return NodeIndex.of(nodes, {"cast_1": NodeId("n.1")})


def flow(index: int, name: str, read: str, made: str, **keys: object) -> LayerInfo:
    return LayerInfo(index, name, "Fused", (LayerTensor(read),), (LayerTensor(made),), **keys)  # type: ignore[arg-type]  # fields by name


def test_foreign_node_by_its_tensors() -> None:
    layers = map_layers([flow(0, "{ForeignNode[n.1...n.3]}", "t1", "t4"), flow(1, "rest", "t4", "t6")], chain(6))
    assert [(item.nodes, item.nodes_from) for item in layers] == [
        (("n.1", "n.2", "n.3"), "tensors"),
        (("n.4", "n.5"), "tensors"),
    ]


def test_tensor_names_of_the_engine_prove_nothing() -> None:
    layers = map_layers([flow(0, "copy", "x'", "t3"), flow(1, "last", "__mye1", "t6")], chain(6))
    assert [item.nodes_from for item in layers] == ["none", "none"]


def test_names_against_the_model() -> None:
    index = chain(3)
    layers = map_layers(
        [
            flow(0, "/n_2_myl0_4", "a", "b"),
            flow(1, "cast_1", "b", "c"),
            flow(2, "weight + n.0", "c", "d"),
            flow(3, "node_of_t2", "d", "e"),
        ],
        NodeIndex(index.by_name, {}, {}, {"/n_2": NodeId("n.2")}),
    )
    assert [item.nodes for item in layers] == [("n.2",), ("n.1",), ("n.0",), ("n.1",)]
    assert {item.nodes_from for item in layers} == {"name"}


def test_constant_layers_are_of_the_node_that_holds_them() -> None:
    node = NodeInfo(NodeId("c"), "c", "Constant", "", "", (), (TensorId("c_out"),))
    constant = LayerInfo(0, "c_out_clone_1", "Constant")
    weight = LayerInfo(1, "w", "Constant")
    mapped = map_layers([constant, weight], NodeIndex.of([node]))
    assert [(item.nodes, item.nodes_from) for item in mapped] == [(("c",), "tensors"), ((), "none")]


def test_tensors_are_counted_once_and_reformats_not() -> None:
    layers = parse(
        {
            "Layers": [
                layer("a", Inputs=[tensor("x", "Float")], Outputs=[tensor("t", "Half")]),
                layer("b", Inputs=[tensor("t", "Half")], Outputs=[tensor("u", "Half")]),
                layer("r", LayerType="Reformat", Inputs=[tensor("u", "Half")], Outputs=[tensor("y", "Float")]),
            ]
        }
    )
    assert count_tensor_types(layers) == {"float16": 2, "float32": 1}


# --- C40 -------------------------------------------------------------------------------


def named(*names: str) -> list[LayerInfo]:
    return [LayerInfo(i, name, "") for i, name in enumerate(names)]


def test_c40_equal_names_are_matched_in_order() -> None:
    layers = named("a", "b", "copy", "c", "d", "copy")
    times, notes = match_times(layers, [[("copy", 0.1), ("copy", 0.3)], [("copy", 0.1), ("copy", 0.5)]])
    assert [(t.index, t.runs_ms) for t in times] == [(2, (0.1, 0.1)), (5, (0.3, 0.5))]
    assert times[1].average_ms == pytest.approx(0.4)
    assert times[1].median_ms == pytest.approx(0.4)
    assert notes == ("4 layers have no time, first 'a'",)


def test_c40_other_counts_are_ambiguous() -> None:
    times, notes = match_times(named("copy", "copy"), [[("copy", 0.1), ("copy", 0.3), ("copy", 0.2)]])
    assert len(times) == 1
    assert times[0].average_ms == pytest.approx(0.6)
    assert "ambiguous" in notes[0]


def test_c40_names_in_only_one_are_listed() -> None:
    times, notes = match_times(named("a", "b"), [[("a [profile 2]", 1.0), ("x", 2.0)]])
    assert [(t.index, t.name, t.average_ms) for t in times] == [(0, "a", 1.0), (2, "x", 2.0)]
    assert notes == ("'x' was timed but is no layer of the engine", "1 layer has no time, first 'b'")


@pytest.mark.parametrize(
    "name",
    [
        "{ForeignNode[a", "PWN(", "PWN(" * 2000 + "a" + ")" * 2000, "PWN(" * 2000,
        "Reformatting CopyNode for Input Tensor 0 to " * 2000, "x [profile " + "9" * 5000 + "]",
    ],
)  # fmt: skip
def test_names_that_no_builder_writes_are_parts_of_themselves(name: str) -> None:
    assert all(isinstance(part, str) and part for part in name_parts(name))
    (read,) = parse_engine_json(json.dumps({"Layers": [name]})).layers
    assert read.name == name


def test_numbers_that_are_no_sizes_are_not_known() -> None:
    tensor = {"Name": "x", "Dimensions": [2, -1, 10**30, 1.5, True, None, {}, "N"], "Format/Datatype": "Half"}
    (read,) = parse_engine_json(json.dumps({"Layers": [layer("a", StreamId=10**30, Inputs=[tensor])]})).layers
    assert read.stream is None
    assert read.inputs[0].shape == (2, None, None, None, None, None, None, "N")
