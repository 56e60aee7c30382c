"""Ids, neighbours, scopes and nested graphs, on the cases met in the field."""

from __future__ import annotations

import time

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.unit.graph.models import branch, chain, info, view_of, weight
from trt_lab.errors import ModelError
from trt_lab.graph import GraphView
from trt_lab.graph.scopes import scope_chain, scope_of
from trt_lab.model import Model


def test_c01_nameless_nodes_have_stable_ids() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Neg", ["a"], ["b"]),
        helper.make_node("Exp", ["b"], ["y"]),
    ]
    view = view_of(nodes, [info("x", [2])], [info("y", [2])])
    assert list(view.nodes) == ["Relu_0", "Neg_0", "Exp_0"]
    assert [node.name for node in view.nodes.values()] == ["", "", ""]
    assert view.notes == ("3 nodes have no name; ids such as 'Relu_0' are made up and never stored",)
    again = GraphView.of(Model.load(view.model.proto()))
    assert list(again.nodes) == list(view.nodes)
    assert GraphView.of(view.model) is view


def test_c02_two_nodes_of_one_name_are_told_apart() -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="fc"),
        helper.make_node("Add", ["a", "b"], ["y"], name="fc"),
    ]
    view = view_of(
        nodes, [info("x", [1, 2])], [info("y", [1, 2])], [weight("w", [[1, 0], [0, 1]]), weight("b", [1, 2])]
    )
    assert {node: view.node(node).op_type for node in view.nodes} == {"fc": "MatMul", "fc#2": "Add"}
    assert view.successors("fc") == ("fc#2",) and view.predecessors("fc#2") == ("fc",)


def two_ifs() -> GraphView:
    """Case C03: two If nodes; each branch has a node `my_add` with output `r`."""
    nodes = []
    for name, output, (then_op, else_op) in (("if0", "p", ("Neg", "Abs")), ("if1", "q", ("Exp", "Relu"))):
        branches = [branch([helper.make_node(op, ["x"], ["r"], name="my_add")], "r") for op in (then_op, else_op)]
        nodes.append(
            helper.make_node("If", ["c"], [output], then_branch=branches[0], else_branch=branches[1], name=name)
        )
    return view_of(nodes, [info("c", [], TensorProto.BOOL), info("x", [2])], [info("p", [2]), info("q", [2])])


def test_c03_branches_keep_apart() -> None:
    view = two_ifs()
    inner = [f"{outer}/{side}/my_add" for outer in ("if0", "if1") for side in ("then", "else")]
    assert [view.node(node).op_type for node in inner] == ["Neg", "Abs", "Exp", "Relu"]
    assert list(view.nodes) == [*inner[:2], "if0", *inner[2:], "if1"]
    assert list(view.graphs) == ["", "if0/then", "if0/else", "if1/then", "if1/else"]
    assert view.graphs["if0/then"].nodes == ("if0/then/my_add",) and view.graphs["if0/then"].node == "if0"
    assert view.tensor("if0/then/r").producer == "if0/then/my_add" and view.tensor("if0/then/r").is_output
    for node in inner:
        owner = node.split("/")[0]
        assert view.predecessors(node) == () and view.successors(node) == (owner,)
    assert view.predecessors("if0") == ("if0/then/my_add", "if0/else/my_add")
    assert view.node("if0").captures == ("x",) and view.node("if0").subgraphs == ("if0/then", "if0/else")
    assert view.tensor("x").consumers == tuple(inner)
    assert [view.order(t) for t in ("x", "if0/then/r", "p", "q")] == sorted(
        view.order(t) for t in ("x", "if0/then/r", "p", "q")
    )


def test_c04_outer_initializer_is_seen_from_the_branch() -> None:
    then = branch([helper.make_node("Add", ["x", "w"], ["r"], name="add")], "r")
    other = branch([helper.make_node("Identity", ["x"], ["r"], name="same")], "r")
    node = helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other, name="if0")
    view = view_of([node], [info("c", [], TensorProto.BOOL), info("x", [2])], [info("y", [2])], [weight("w", [10, 20])])
    assert view.node("if0/then/add").inputs == ("x", "w")
    assert view.node("if0").captures == ("x", "w")
    tensor = view.tensor("w")
    assert (tensor.role, tensor.graph, tensor.consumers) == ("initializer", "", ("if0/then/add",))
    assert (tensor.dtype, tensor.shape) == ("float32", (2,))
    stats = view.initializer_stats("w")
    assert stats is not None and (stats.minimum, stats.maximum, stats.preview) == (10, 20, ("10.0", "20.0"))
    assert view.tensor("if0/then/r").shape == (2,)


def test_deeper_captures_belong_to_every_holder() -> None:
    innermost = branch([helper.make_node("Neg", ["x"], ["s"], name="neg")], "s")
    inner_if = helper.make_node("If", ["c"], ["r"], then_branch=innermost, else_branch=innermost, name="in")
    middle = branch([inner_if], "r")
    node = helper.make_node("If", ["c"], ["y"], then_branch=middle, else_branch=middle, name="out")
    view = view_of([node], [info("c", [], TensorProto.BOOL), info("x", [2])], [info("y", [2])])
    assert set(view.node("out").captures) == {"x", "c"}
    assert view.node("out/then/in").captures == ("x",)
    assert "out/then/in/else/neg" in view.nodes and len(view.graphs) == 7


def test_c05_omitted_inputs_and_outputs_are_no_tensors() -> None:
    lstm_weights = [weight("W", np.zeros((1, 8, 3))), weight("R", np.zeros((1, 8, 2))), weight("B", np.zeros((1, 16)))]
    nodes = [
        helper.make_node("Clip", ["x", "", "mx"], ["c"], name="clip"),
        helper.make_node("LSTM", ["s", "W", "R", "B", ""], ["", "h"], name="lstm", hidden_size=2),
    ]
    inputs = [info("x", [4]), info("s", [5, 1, 3])]
    view = view_of(nodes, inputs, [info("c", [4]), info("h", [1, 1, 2])], [weight("mx", 6), *lstm_weights])
    assert "" not in view.tensors and view.inputs == ("x", "s")
    assert view.node("clip").inputs == ("x", None, "mx")
    assert view.node("lstm").inputs == ("s", "W", "R", "B", None) and view.node("lstm").outputs == (None, "h")
    with pytest.raises(ModelError, match="the name is empty"):
        view.tensor("")


@pytest.mark.parametrize("ir_version", [3, 8])
def test_c06_initializer_listed_as_input_need_not_be_fed(ir_version: int) -> None:
    nodes = [helper.make_node("Add", ["x", "w"], ["y"], name="add")]
    view = view_of(nodes, [info("x", [2]), info("w", [2])], [info("y", [2])], [weight("w", [3, 4])], ir_version, 8)
    assert view.inputs == ("x",) == view.graphs[""].inputs
    tensor = view.tensor("w")
    assert tensor.role == "initializer" and tensor.overridable
    np.testing.assert_array_equal(view.constant("w"), [3, 4])


@pytest.mark.parametrize("stored", ["raw", "int32"])
def test_c07_bfloat16_weights_have_their_values(stored: str) -> None:
    bits = [0x3E80, 0x3F00, 0x3F80, 0x4000]
    tensor = onnx.TensorProto(name="w", data_type=TensorProto.BFLOAT16, dims=[2, 2])
    if stored == "raw":
        tensor.raw_data = np.array(bits, np.uint16).tobytes()
    else:
        tensor.int32_data.extend(bits)
    nodes = [helper.make_node("Cast", ["w"], ["y"], name="cast", to=TensorProto.FLOAT)]
    view = view_of(nodes, [], [info("y", [2, 2])], [tensor])
    values = view.constant("w")
    assert values is not None and values.dtype == ml_dtypes.bfloat16
    assert values.astype(np.float32).tolist() == [[0.25, 0.5], [1, 2]]
    stats = view.initializer_stats("w")
    assert stats is not None and (stats.minimum, stats.maximum, stats.mean, stats.count) == (0.25, 2, 0.9375, 4)


def test_constants_that_are_not_numbers_or_not_finite() -> None:
    nodes = [
        helper.make_node("Constant", [], ["k"], name="k", value_floats=[1.0, float("inf"), float("nan"), 0.0]),
        helper.make_node("Identity", ["k"], ["y"], name="i"),
        helper.make_node("Identity", ["words"], ["z"], name="j"),
    ]
    words = onnx.TensorProto(name="words", data_type=TensorProto.STRING, dims=[2], string_data=[b"a", "ü".encode()])
    view = view_of(nodes, [], [info("y", [4]), info("z", [2], TensorProto.STRING)], [words])
    stats = view.initializer_stats("k")
    assert stats is not None and (stats.minimum, stats.maximum, stats.zeros, stats.not_finite) == (0, 1, 1, 2)
    assert view.tensor("words").dtype == "string"
    text = view.initializer_stats("words")
    assert text is not None and text.minimum is None and text.count == 2
    assert view.initializer_stats("y") is None


def test_c09_shape_constant_is_known() -> None:
    nodes = [helper.make_node("Reshape", ["x", "shp"], ["y"], name="r")]
    view = view_of(nodes, [info("x", [2, 6])], [info("y", None)], [weight("shp", [3, 4], np.int64)])
    assert view.tensor("y").shape == (3, 4) and view.tensor("shp").dtype == "int64"


def test_c10_both_shapes_are_there() -> None:
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], name="Conv18")]
    weights = [weight("w", np.ones((1, 1, 3, 3)))]
    view = view_of(nodes, [info("x", [1, 1, 8, 8])], [info("y", [1, 1, 30, 6])], weights)
    assert (view.tensor("y").shape, view.tensor("y").declared_shape) == ((1, 1, 6, 6), (1, 1, 30, 6))


def test_c11_nodes_stand_in_order() -> None:
    nodes = [helper.make_node("Neg", ["a"], ["y"], name="n"), helper.make_node("Relu", ["x"], ["a"], name="r")]
    view = view_of(nodes, [info("x", [2])], [info("y", [2])])
    assert list(view.nodes) == ["r", "n"] and [view.order(t) for t in ("x", "a", "y")] == [0, 1, 2]
    assert view.notes[0].startswith("sorted:")


def test_c12_twenty_thousand_nodes() -> None:
    model = chain(20_000, lambda i: f"/blk.{i // 10}/relu_{i % 10}").model
    model.memo.clear()
    start = time.process_time()
    view = GraphView.of(model)
    scopes = view.scopes()
    assert time.process_time() - start < 1.0
    assert len(view.nodes) == 20_000 and len(scopes.children) == 2_000 and scopes.count == 20_000
    assert scopes.children[0].path == "/blk.0" and len(scopes.children[0].nodes) == 10
    assert view.successors("/blk.0/relu_9") == ("/blk.1/relu_0",)


def test_loop_and_scan_bodies_are_nested_graphs() -> None:
    body = helper.make_graph(
        [helper.make_node("Add", ["v", "x"], ["v_out"], name="add"), helper.make_node("Identity", ["go"], ["go_out"])],
        "body",
        [info("i", [], TensorProto.INT64), info("go", [], TensorProto.BOOL), info("v", [2])],
        [info("go_out", [], TensorProto.BOOL), info("v_out", [2])],
    )
    nodes = [helper.make_node("Loop", ["n", "", "x"], ["y"], name="loop", body=body)]
    view = view_of(nodes, [info("n", [], TensorProto.INT64), info("x", [2])], [info("y", [2])])
    assert view.graphs["loop/body"].inputs == ("loop/body/i", "loop/body/go", "loop/body/v")
    assert view.graphs["loop/body"].outputs == ("loop/body/go_out", "loop/body/v_out")
    assert list(view.nodes) == ["loop/body/add", "loop/body/Identity_0", "loop"]
    assert view.node("loop").captures == ("x",) and view.tensor("loop/body/v").role == "input"
    assert view.node("loop").attributes["body"] == "graph of 2 nodes"


def test_local_functions_open_per_call() -> None:
    function = helper.make_function(
        "my",
        "Twice",
        ["a"],
        ["b"],
        [helper.make_node("Add", ["a", "a"], ["b"], name="sum")],
        [helper.make_opsetid("", 17)],
    )
    nodes = [
        helper.make_node("Twice", ["x"], ["m"], domain="my", name="one"),
        helper.make_node("Twice", ["m"], ["y"], domain="my", name="two"),
    ]
    graph = helper.make_graph(nodes, "g", [info("x", [2])], [info("y", [2])])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    view = GraphView.of(Model.load(helper.make_model(graph, opset_imports=imports, functions=[function], ir_version=8)))
    assert list(view.nodes) == ["one/Twice/sum", "one", "two/Twice/sum", "two"]
    assert view.node("one/Twice/sum").inputs == ("one/Twice/a", "one/Twice/a")
    assert view.graphs["two/Twice"].outputs == ("two/Twice/b",) and view.tensor("y").shape == (2,)
    assert view.ir_node("one/Twice/sum") is view.ir_node("two/Twice/sum")


def test_ids_never_clash_with_paths() -> None:
    view_names = ["if0/then/my_add", "if0"]
    inner = branch([helper.make_node("Neg", ["x"], ["r"], name="my_add")], "r")
    nodes = [
        helper.make_node("Relu", ["x"], ["if0/then/r"], name=view_names[0]),
        helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner, name="if0"),
    ]
    view = view_of(nodes, [info("c", [], TensorProto.BOOL), info("x", [2])], [info("y", [2]), info("if0/then/r", [2])])
    assert view.node("if0/then/my_add").op_type == "Relu" and view.node("if0/then/my_add#2").op_type == "Neg"
    assert view.tensor("if0/then/r").graph == "" and view.tensor("if0/then/r#2").graph == "if0/then"


def test_sizes_written_as_unknown_are_unknown() -> None:
    view = view_of(
        [helper.make_node("Relu", ["x"], ["y"], name="r")], [info("x", ["N", "?", -1, 0])], [info("y", None)]
    )
    assert view.tensor("x").shape == ("N", None, None, 0)


def test_output_listed_twice_is_one_tensor() -> None:
    view = view_of(
        [helper.make_node("Relu", ["x"], ["y"], name="r")], [info("x", [2])], [info("y", [2]), info("y", [2])]
    )
    assert view.outputs == ("y", "y") and view.tensor("y").is_output


def test_unknown_names_come_with_advice() -> None:
    view = chain(30, lambda i: f"/blk/relu_{i}")
    with pytest.raises(ModelError, match=r"g: no node '/blk/rel_3'; did you mean '/blk/relu_3'"):
        view.node("/blk/rel_3")
    with pytest.raises(ModelError, match=r"no tensor 'T7'; did you mean 't7'"):
        view.tensor("T7")
    with pytest.raises(ModelError, match="no graph 'if9'"):
        view.scopes("if9")


@pytest.mark.parametrize(
    ("name", "scope"),
    [("/a/a.0/Conv", "/a/a.0"), ("/Mul", ""), ("Mul", ""), ("model/l1/Relu", "model/l1"), ("/a//b", "/a")],
)
def test_scope_is_the_folder_part_of_the_name(name: str, scope: str) -> None:
    assert scope_of(name) == scope


def test_scopes_form_a_tree() -> None:
    assert (
        scope_chain("/a/b/c") == ["/a", "/a/b", "/a/b/c"]
        and scope_chain("a/b") == ["a", "a/b"]
        and scope_chain("") == []
    )
    names = ["/a/x", "/a/b/y", "/c/z", "/top", "/a/b/w"]
    root = chain(5, names.__getitem__).scopes()
    assert (root.nodes, root.count) == (("/top",), 5)
    assert [(s.path, s.count) for s in root.children] == [("/a", 3), ("/c", 1)]
    assert root.children[0].children[0].nodes == ("/a/b/y", "/a/b/w")


def test_attributes_are_short_text() -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["y"], name="c", pads=[0, 0, 0, 0], auto_pad="NOTSET"),
        helper.make_node("Constant", [], ["k"], name="k", value=weight("", np.zeros((3, 4)))),
        helper.make_node("Mystery", ["k"], ["z"], name="m", long="é" * 500, many=list(range(1000)), real=0.1),
    ]
    view = view_of(
        nodes, [info("x", [1, 1, 3, 3])], [info("y", None), info("z", None)], [weight("w", np.ones((1, 1, 3, 3)))]
    )
    assert view.node("c").attributes == {"pads": "[0, 0, 0, 0]", "auto_pad": "NOTSET"}
    assert view.node("k").attributes["value"] == "float32 3×4"
    assert view.node("m").attributes["real"] == "0.1"
    assert all(len(text) <= 80 for node in view.nodes.values() for text in node.attributes.values())
