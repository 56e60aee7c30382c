"""Parts of models."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from trt_lab import zoo
from trt_lab.edit.extract import boundary, extract, one_node
from trt_lab.errors import EditError, ModelError
from trt_lab.graph import GraphView
from trt_lab.model import Model
from trt_lab.types import NodeId, TensorId

info = helper.make_tensor_value_info


def model_of(nodes: list[onnx.NodeProto], inputs: list, outputs: list, weights: list | None = None) -> Model:
    graph = helper.make_graph(nodes, "part", inputs, outputs, weights or [])
    return Model.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))


def run(model: Model, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    onnx.checker.check_model(model.proto(), full_check=True)
    session = onnxruntime.InferenceSession(model.proto().SerializeToString(), providers=["CPUExecutionProvider"])
    return [np.asarray(output) for output in session.run(None, feeds)]


def clip_model() -> Model:
    """C05: the minimum of the Clip is left out."""
    return model_of(
        [
            helper.make_node("Relu", ["x0"], ["x"], name="relu"),
            helper.make_node("Clip", ["x", "", "mx"], ["y"], name="clip"),
            helper.make_node("Neg", ["y"], ["z"], name="neg"),
        ],
        [info("x0", 1, [4])],
        [info("z", 1, [4])],
        [numpy_helper.from_array(np.float32(6), "mx")],
    )


def test_c05_an_omitted_input_stays_omitted() -> None:
    model = clip_model()
    assert boundary(GraphView.of(model), [NodeId("clip")]) == ("x",)
    part = extract(model, [NodeId("clip")])
    assert part.inputs == ("x",) and part.outputs == ("y",)
    view = GraphView.of(part.model)
    assert "" not in view.tensors and view.node("clip").inputs == ("x", None, "mx")
    assert run(part.model, {"x": np.float32([-9, 3, 6, 7])})[0].tolist() == [-9, 3, 6, 6]
    kinds = {TensorId("x"): ("tensor", np.dtype(np.float32)), TensorId("mx"): ("tensor", np.dtype(np.float32))}
    alone = one_node(GraphView.of(model), NodeId("clip"), kinds)
    assert [value.name for value in alone.graph.input] == ["i0", "i1"]
    assert list(alone.graph.node[0].input) == ["i0", "", "i1"]


def test_the_model_stays_equal_and_what_nobody_reads_is_left_out() -> None:
    model = zoo.get("l2norm_overflow").model
    before = model.hash
    part = extract(model, [NodeId("/Mul"), NodeId("/ReduceSum")])
    assert model.hash == before
    assert part.inputs == ("/a/a.7/Relu_output_0",) and part.outputs == ("/ReduceSum_output_0",)
    assert [v.name for v in part.model.proto().graph.initializer] == ["reduce_axes"]
    made = run(part.model, {"/a/a.7/Relu_output_0": np.full((1, 24, 64, 64), 2, np.float32)})
    assert made[0].shape == (1, 1, 64, 64) and made[0].max() == 96


def test_outputs_that_are_also_read_outside_are_given_out() -> None:
    model = zoo.get("l2norm_overflow").model
    part = extract(model, [NodeId("/a/a.7/Relu"), NodeId("/Mul")])
    assert part.outputs == ("/a/a.7/Relu_output_0", "/Mul_output_0")
    chosen = extract(model, [NodeId("/a/a.7/Relu"), NodeId("/Mul")], outputs=[TensorId("/Mul_output_0")])
    assert chosen.outputs == ("/Mul_output_0",)


def test_sizes_are_frozen_when_asked_and_told() -> None:
    model = zoo.get("l2norm_overflow").model
    name = TensorId("/a/a.7/Relu_output_0")
    part = extract(model, [NodeId("/Mul")], shapes={name: (1, 24, 64, 64)})
    assert GraphView.of(part.model).tensor(name).shape == (1, 24, 64, 64)
    assert part.notes == (f"sizes frozen to those of the sample: {name}",)


def test_branches_take_what_they_read_from_outside_and_constants_come_along() -> None:
    branches = [
        helper.make_graph([helper.make_node(op, ["a", "c"], ["out"], name=op)], op, [], [info("out", 1, [2])])
        for op in ("Add", "Sub")
    ]
    model = model_of(
        [
            helper.make_node("Relu", ["x"], ["a"], name="relu"),
            helper.make_node("Constant", [], ["c"], name="c", value=numpy_helper.from_array(np.float32([5, 6]))),
            helper.make_node("If", ["yes"], ["y"], name="if", then_branch=branches[0], else_branch=branches[1]),
        ],
        [info("x", 1, [2]), info("yes", TensorProto.BOOL, [])],
        [info("y", 1, [2])],
    )
    part = extract(model, [NodeId("if")])
    assert set(part.inputs) == {"a", "yes"}
    assert run(part.model, {"a": np.float32([1, 2]), "yes": np.array(False)})[0].tolist() == [-4, -4]


def test_what_cannot_be_taken_is_said() -> None:
    model = clip_model()
    with pytest.raises(EditError, match="name at least one"):
        extract(model, [])
    with pytest.raises(ModelError, match="no node 'clop'.*clip"):
        extract(model, [NodeId("clop")])
    with pytest.raises(EditError, match="'z' is made by none"):
        extract(model, [NodeId("clip")], outputs=[TensorId("z")])
