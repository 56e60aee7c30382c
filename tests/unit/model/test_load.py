"""Opening models: every source, every kind of bad input."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from trt_lab.errors import ModelError
from trt_lab.graph import GraphView
from trt_lab.model import Model

OPENS: dict[str, int] = {
    "Polygraphy/examples/api/07_tensorrt_and_dynamic_shapes/dynamic_identity.onnx": 1,
    "Polygraphy/examples/cli/check/01_linting_an_onnx_model/bad_graph.onnx": 9,
    "Polygraphy/examples/cli/inspect/08_inspecting_tensorrt_onnx_support/model.onnx": 4,
    "Polygraphy/examples/cli/inspect/09_inspecting_tensorrt_static_onnx_support/nested_local_function.onnx": 6,
    "Polygraphy/examples/cli/multi_device/attention_head.onnx": 7,
    "Polygraphy/examples/cli/run/01_comparing_frameworks/dynamic_identity.onnx": 2,
    "Polygraphy/examples/cli/run/08_adding_precision_constraints/needs_constraints.onnx": 4,
    "Polygraphy/examples/cli/surgeon/02_folding_constants/model.onnx": 3,
    "Polygraphy/examples/cli/surgeon/04_setting_upper_bounds/model.onnx": 9,
    "Polygraphy/examples/dev/02_extending_polygraphy_run/no_op_reshape.onnx": 1,
    "Polygraphy/tests/models/and.onnx": 1,
    "Polygraphy/tests/models/attention.onnx": 3,
    "Polygraphy/tests/models/attention_same_qkv.onnx": 3,
    "Polygraphy/tests/models/bad_graph_conditionally_invalid.onnx": 4,
    "Polygraphy/tests/models/bad_graph_with_duplicate_node_names.onnx": 2,
    "Polygraphy/tests/models/bad_graph_with_multi_level_errors.onnx": 1,
    "Polygraphy/tests/models/bad_graph_with_no_name.onnx": 1,
    "Polygraphy/tests/models/capability.onnx": 5,
    "Polygraphy/tests/models/cleanable.onnx": 3,
    "Polygraphy/tests/models/const_foldable.onnx": 3,
    "Polygraphy/tests/models/constant_fold_bloater.onnx": 1,
    "Polygraphy/tests/models/custom_op_node.onnx": 1,
    "Polygraphy/tests/models/dim_param.onnx": 1,
    "Polygraphy/tests/models/dynamic_identity.onnx": 1,
    "Polygraphy/tests/models/ext_weights_same_dir/ext_weights.onnx": 3,
    "Polygraphy/tests/models/identity.onnx": 1,
    "Polygraphy/tests/models/identity_identity.onnx": 2,
    "Polygraphy/tests/models/identity_with_initializer.onnx": 1,
    "Polygraphy/tests/models/inp_dim_val_not_set.onnx": 1,
    "Polygraphy/tests/models/instancenorm.onnx": 1,
    "Polygraphy/tests/models/loop.onnx": 10,
    "Polygraphy/tests/models/matmul.bf16.onnx": 1,
    "Polygraphy/tests/models/matmul.fp16.onnx": 1,
    "Polygraphy/tests/models/matmul.onnx": 1,
    "Polygraphy/tests/models/matmul_2layer.onnx": 2,
    "Polygraphy/tests/models/multi_output.onnx": 3,
    "Polygraphy/tests/models/needs_constraints.onnx": 4,
    "Polygraphy/tests/models/no_op_reshape.onnx": 1,
    "Polygraphy/tests/models/nonzero.onnx": 1,
    "Polygraphy/tests/models/qdq_conv.onnx": 3,
    "Polygraphy/tests/models/reducable.onnx": 5,
    "Polygraphy/tests/models/reducable_with_const.onnx": 3,
    "Polygraphy/tests/models/renamable.onnx": 4,
    "Polygraphy/tests/models/residual_block.onnx": 15,
    "Polygraphy/tests/models/roialign.onnx": 1,
    "Polygraphy/tests/models/scan.onnx": 3,
    "Polygraphy/tests/models/sparse.conv.onnx": 1,
    "Polygraphy/tests/models/tensor_attr.onnx": 1,
    "Polygraphy/tests/models/toy_subgraph.onnx": 6,
    "Polygraphy/tests/models/transpose_matmul.onnx": 2,
    "Polygraphy/tests/models/unbounded_dds.onnx": 9,
    "Polygraphy/tests/models/weightless.conv.onnx": 1,
    "Polygraphy/tests/models/weightless.matmul.bf16.onnx": 1,
    "Polygraphy/tests/models/weightless.matmul.fp16.onnx": 1,
    "Polygraphy/tests/models/weightless.qdq_conv.onnx": 3,
    "Polygraphy/tests/models/weightless.sparse.matmul.onnx": 1,
    "Polygraphy/tests/models/weightless.transpose_matmul.onnx": 1,
    "old/I.onnx": 500,
    "old/bad.onnx": 5,
    "onnx-graphsurgeon/tests/models/lstm.onnx": 1,
    "onnx-graphsurgeon/tests/models/nested_dup_names.onnx": 2,
    "onnx-graphsurgeon/tests/models/sparse_nnz.onnx": 1,
    "onnx-graphsurgeon/tests/models/sparse_nnz_rank.onnx": 1,
    "onnx-graphsurgeon/tests/models/test_recursive_pattern_building.onnx": 6,
    "onnx-graphsurgeon/tests/models/test_toyPlugin_callback_check_unmatch_case.onnx": 6,
    "onnx-graphsurgeon/tests/models/test_toyPlugin_constant_node_match_case.onnx": 4,
    "onnx-graphsurgeon/tests/models/test_toyPlugin_intermediate_output_to_other_node_unmatch_case.onnx": 7,
    "onnx-graphsurgeon/tests/models/test_toyPlugin_intermediate_output_unmatch_case.onnx": 6,
}
"""Files of real_inputs/onnx that open, with their number of nodes, nested ones included."""

REFUSED: dict[str, str] = {
    "Polygraphy/tests/models/bad_graph_with_no_import_domains.onnx": "no opset import for ai.onnx",
    "Polygraphy/tests/models/empty.onnx": "the graph has no nodes",
    "Polygraphy/tests/models/ext_weights.onnx": "tensor 'a': its data file {folder}/Polygraphy/tests/models/ext_weights.data",
    "old/invalid.onnx": "is not an ONNX file",
    "onnx-graphsurgeon/tests/models/initializer_is_output.onnx": "the graph has no nodes",
}
"""Those that do not, with a part of the line they give; it always names the file too."""


def simple(name: str = "g") -> onnx.ModelProto:
    """x → Relu → Neg → y."""
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 4]) for n in "xy"]
    nodes = [helper.make_node("Relu", ["x"], ["a"], name="r"), helper.make_node("Neg", ["a"], ["y"], name="n")]
    return make(helper.make_graph(nodes, name, info[:1], info[1:]))


def make(graph: onnx.GraphProto, opset: int = 17, **extra: object) -> onnx.ModelProto:
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8, **extra)  # pyright: ignore[reportArgumentType]


def line_of(source: object) -> str:
    """The error that opening `source` gives; it must be a single line."""
    with pytest.raises(ModelError) as caught:
        Model.load(source)  # pyright: ignore[reportArgumentType]
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize("name", sorted(OPENS))
def test_real_input_opens(name: str, shared: Path) -> None:
    model = Model.load(shared / "real_inputs/onnx" / name)
    view = GraphView.of(model)
    assert len(view.nodes) == OPENS[name]
    assert "" not in view.tensors and all(view.nodes) and all(view.tensors)
    again = Model.load(model.proto())
    assert again.hash == model.hash
    assert list(GraphView.of(again).nodes) == list(view.nodes)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_real_input_gives_one_line(name: str, shared: Path) -> None:
    folder = shared / "real_inputs/onnx"
    text = line_of(folder / name)
    assert name in text and REFUSED[name].format(folder=folder) in text


def test_every_real_input_is_stated(shared: Path) -> None:
    folder = shared / "real_inputs/onnx"
    found = {str(path.relative_to(folder)) for path in folder.rglob("*.onnx")}
    assert found == set(OPENS) | set(REFUSED)


@pytest.mark.parametrize("kind", ["path", "str", "bytes", "proto", "ir", "model"])
def test_all_sources_give_the_same_model(kind: str, tmp_path: Path) -> None:
    proto = simple()
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    ir = onnx_ir.from_proto(proto)
    sources = {"path": path, "str": str(path), "bytes": proto.SerializeToString(), "proto": proto, "ir": ir}
    source = Model.load(path) if kind == "model" else sources[kind]
    before = proto.SerializeToString()
    model = Model.load(source)
    assert model.hash == Model.load(path).hash
    assert model.path == (path if kind in ("path", "str", "model") else None)
    assert model.name == ("m" if model.path else "g")
    assert model.opset == {"": 17}
    assert (model is source) == (kind == "model")
    assert proto.SerializeToString() == before
    assert ir.graph[0].outputs[0].shape is None  # inference went to our copy


def test_not_a_model_at_all() -> None:
    assert "give a path, bytes" in line_of(3)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    assert line_of(tmp_path / "no.onnx") == f"{tmp_path / 'no.onnx'}: no such file; check the path"
    (tmp_path / "a.onnx").write_bytes(b"x")
    assert "is a folder; give one of its files: a.onnx" in line_of(tmp_path)


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (b"", "is empty (0 bytes)"),
        (b"hello, this is no model", "is not an ONNX file"),
        (b"PK\x03\x04rest", "is a zip archive"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "git lfs pull"),
        (b"<!DOCTYPE html>", "web page"),
        (b"ftrt\x00\x01", "is a TensorRT engine"),
        (b"\x08\x08", "no graph in it"),
    ],
)
def test_wrong_files(data: bytes, part: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.onnx"
    path.write_bytes(data)
    text = line_of(path)
    assert part in text and str(path) in text


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_truncated_file_never_opens_as_the_whole(data: st.DataObject) -> None:
    whole = simple().SerializeToString()
    cut = data.draw(st.integers(1, len(whole) - 1))
    text = line_of(whole[:cut])
    assert any(part in text for part in ("is truncated", "damaged", "no graph", "no opset import", "not an ONNX file"))


def test_truncated_file_says_how_much_is_missing(tmp_path: Path) -> None:
    whole = simple().SerializeToString()
    path = tmp_path / "cut.onnx"
    path.write_bytes(whole[: len(whole) // 2])
    text = line_of(path)
    assert (
        f"{path} is truncated: {len(whole) // 2} bytes are there" in text and "bytes of its graph are missing" in text
    )


@settings(max_examples=80, deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_give_one_line(data: bytes) -> None:
    line_of(data)


def test_opset_unknown_and_absent() -> None:
    proto = simple()
    proto.opset_import[0].version = 99
    assert "opset 99 of ai.onnx is not known here (1 to " in line_of(proto)
    del proto.opset_import[:]
    assert "node 'r' (Relu)" in line_of(proto)


def test_unknown_operators_open_as_nodes() -> None:
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 4]) for n in "xy"]
    nodes = [
        helper.make_node("LeakyThing", ["x"], ["a"], domain="my.ops", name="k"),
        helper.make_node("NoSuchOp", ["a"], ["b"], name="u"),
        helper.make_node("Relu", ["b"], ["y"], name="r"),
    ]
    view = GraphView.of(Model.load(make(helper.make_graph(nodes, "g", info[:1], info[1:]))))
    assert [(node.domain, node.op_type) for node in view.nodes.values()] == [
        ("my.ops", "LeakyThing"),
        ("", "NoSuchOp"),
        ("", "Relu"),
    ]
    assert view.tensor("y").shape == (1, 4)


def test_c11_unsorted_nodes_are_sorted_and_a_cycle_names_its_nodes() -> None:
    proto = simple()
    nodes = [helper.make_node("Neg", ["a"], ["y"], name="n"), helper.make_node("Relu", ["x"], ["a"], name="r")]
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    model = Model.load(proto)
    assert list(GraphView.of(model).nodes) == ["r", "n"]
    assert model.notes == ("sorted: the file lists nodes before the nodes they read from",)
    onnx.checker.check_model(model.proto(), full_check=True)
    assert [node.name for node in proto.graph.node] == ["n", "r"]  # the source stays

    ring = [("a", ["x", "c_out"]), ("b", ["a_out"]), ("c", ["b_out"])]
    del proto.graph.node[:]
    proto.graph.node.extend(helper.make_node("Sum", reads, [f"{name}_out"], name=name) for name, reads in ring)
    proto.graph.node.append(helper.make_node("Neg", ["c_out"], ["y"], name="last"))
    text = line_of(proto)
    assert "'a' → 'b' → 'c' → 'a' form a cycle" in text and "last" not in text


def test_cycle_through_a_subgraph_is_found() -> None:
    inner = helper.make_graph(
        [helper.make_node("Neg", ["late"], ["r"], name="in")],
        "b",
        [],
        [helper.make_tensor_value_info("r", TensorProto.FLOAT, None)],
    )
    proto = simple()
    proto.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    del proto.graph.node[:]
    proto.graph.node.extend(
        [
            helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner, name="if"),
            helper.make_node("Neg", ["y"], ["late"], name="n"),
        ]
    )
    assert "'if' → 'n' → 'if' form a cycle" in line_of(proto)


@pytest.mark.parametrize("outside", [False, True])
def test_tensor_made_by_nobody_or_twice(outside: bool) -> None:
    proto = simple()
    if outside:
        proto.graph.node[1].input[0] = "ghost"
        assert "node 'n' reads tensor 'ghost', which no node" in line_of(proto)
    else:
        proto.graph.node[1].output[0] = "a"
        assert "tensor 'a' is made twice, by node 'r' and by node 'n'" in line_of(proto)


def test_damaged_weights_are_named() -> None:
    proto = simple()
    weight = numpy_helper.from_array(np.ones(4, np.float32), "w")
    weight.raw_data = weight.raw_data[:8]
    proto.graph.initializer.append(weight)
    assert "tensor 'w' is damaged: 16 needed, 8 there" in line_of(proto)


def test_stripped_weights_open_with_a_note(shared: Path) -> None:
    model = Model.load(shared / "real_inputs/onnx/Polygraphy/tests/models/weightless.conv.onnx")
    assert any("weights are not in the file" in note for note in model.notes)
    assert all(GraphView.of(model).constant(t) is None for t in GraphView.of(model).tensors)


def test_sparse_initializer_keeps_its_values(shared: Path) -> None:
    path = shared / "real_inputs/onnx/onnx-graphsurgeon/tests/models/sparse_nnz.onnx"
    model = Model.load(path)
    assert model.notes == ("sparse initializer 'w_sparse' made dense",)
    sparse = onnx.load(path).graph.sparse_initializer[0]
    values = GraphView.of(model).constant("w_sparse")
    assert values is not None and values.shape == tuple(sparse.dims)
    np.testing.assert_array_equal(values[values != 0], numpy_helper.to_array(sparse.values))


# --- external data -------------------------------------------------------------------------


def reshape_with_external_shape(folder: Path, location: str = "data.bin", data: bytes | None = None) -> Path:
    """Case C09: Reshape of x[2, 6] by an external shape [3, 4]."""
    shape = numpy_helper.from_array(np.array([3, 4], np.int64), "shp")
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "shp"], ["y"], name="Reshape")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [shape],
    )
    raw = shape.raw_data
    tensor = graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    path = folder / "m.onnx"
    path.write_bytes(make(graph).SerializeToString())
    if data is not None or location == "data.bin":
        (folder / "data.bin").write_bytes(raw if data is None else data)
    return path


def test_c09_external_shape_is_taken_in(tmp_path: Path) -> None:
    model = Model.load(reshape_with_external_shape(tmp_path))
    assert GraphView.of(model).tensor("y").shape == (3, 4)
    (tmp_path / "data.bin").unlink()
    onnx.checker.check_model(model.proto(), full_check=True)


def test_c09_missing_short_and_escaping_data(tmp_path: Path) -> None:
    path = reshape_with_external_shape(tmp_path)
    (tmp_path / "data.bin").write_bytes(b"12345678")
    text = line_of(path)
    assert "tensor 'shp'" in text and "16 needed, 8 there" in text and str(tmp_path / "data.bin") in text
    (tmp_path / "data.bin").unlink()
    text = line_of(path)
    assert "tensor 'shp'" in text and f"{tmp_path / 'data.bin'} is missing" in text
    for location in ("../../etc/hostname", "/etc/hostname", "a/../../x", "C:\\x", "..\\x"):
        text = line_of(reshape_with_external_shape(tmp_path, location))
        assert "tensor 'shp'" in text and location in text and "external data must lie in the model's folder" in text


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_c09_links_out_of_the_folder_are_refused(tmp_path: Path, link: Callable[[Path, Path], None]) -> None:
    outside = tmp_path / "outside.bin"
    outside.write_bytes(bytes(16))
    folder = tmp_path / "model"
    folder.mkdir()
    path = reshape_with_external_shape(folder)
    (folder / "data.bin").unlink()
    link(outside, folder / "data.bin")
    text = line_of(path)
    assert "link" in text and "copy it there" in text


def test_link_within_the_folder_is_fine(tmp_path: Path) -> None:
    path = reshape_with_external_shape(tmp_path)
    (tmp_path / "data.bin").rename(tmp_path / "real.bin")
    (tmp_path / "data.bin").symlink_to("real.bin")
    assert GraphView.of(Model.load(path)).tensor("y").shape == (3, 4)


def test_external_data_without_a_path_says_so(tmp_path: Path) -> None:
    path = reshape_with_external_shape(tmp_path)
    assert "give the path of the model" in line_of(path.read_bytes())


@pytest.mark.parametrize("name", [b"relu_node", b"relu_input", b"relu_graph", b"relu_dim"])
def test_names_that_are_no_text_are_told(tmp_path: Path, name: bytes) -> None:
    given = helper.make_tensor_value_info("relu_input", TensorProto.FLOAT, ["relu_dim"])
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["relu_dim"])
    graph = helper.make_graph(
        [helper.make_node("Relu", ["relu_input"], ["y"], name="relu_node")], "relu_graph", [given], [made]
    )
    file = tmp_path / "m.onnx"
    file.write_bytes(helper.make_model(graph).SerializeToString().replace(name, name[:-1] + b"\xff"))
    with pytest.raises(ModelError, match=r"m\.onnx is a damaged ONNX file \(a name in it is no UTF-8 text"):
        Model.load(file)


def test_an_attribute_without_a_value_is_told_when_the_model_is_written() -> None:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("x", "y")]
    node = helper.make_node("Relu", ["x"], ["y"])
    node.attribute.add(name="alpha")
    model = Model.load(helper.make_model(helper.make_graph([node], "g", values[:1], values[1:])))
    with pytest.raises(ModelError, match="cannot be written as ONNX"):
        model.proto()
