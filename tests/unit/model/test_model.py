"""What a model gives: hash, copies, inference, saving."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import trt_lab.model.model as model_module
from trt_lab.errors import ModelError
from trt_lab.graph import GraphView
from trt_lab.model import Model, assign_names


def linear(weight: np.ndarray, outside: Path | None = None) -> onnx.ModelProto:
    """x[N, k] · w, then Relu; with `outside` the weights go to that file."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"], name="fc"), helper.make_node("Relu", ["h"], ["y"], name="act")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", weight.shape[0]])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weight, "w")],
    )
    if outside is not None:
        tensor = graph.initializer[0]
        outside.write_bytes(tensor.raw_data)
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=outside.name)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


WEIGHT = np.random.default_rng(0).standard_normal((256, 128)).astype(np.float32)
"""128 kB: large enough to stay outside."""


def test_hash_sees_graph_and_weights_and_not_how_they_are_stored(tmp_path: Path) -> None:
    plain = Model.load(linear(WEIGHT))
    path = tmp_path / "m.onnx"
    path.write_bytes(linear(WEIGHT, tmp_path / "w.bin").SerializeToString())
    outside = Model.load(path)
    assert isinstance(outside.ir.graph.initializers["w"].const_value, onnx_ir.ExternalTensor)
    assert plain.hash == outside.hash and len(plain.hash) == 64

    proto = linear(WEIGHT)
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.float_data.extend(WEIGHT.reshape(-1).tolist())
    proto.doc_string, proto.producer_name = "other words", "other"
    assert Model.load(proto).hash == plain.hash

    changed = WEIGHT.copy()
    changed[-1, -1] += 1
    assert Model.load(linear(changed)).weights_hash != plain.weights_hash
    assert Model.load(linear(changed)).graph_hash == plain.graph_hash
    renamed = linear(WEIGHT)
    renamed.graph.node[1].name = "act2"
    assert Model.load(renamed).hash != plain.hash
    assert Model.load(renamed).weights_hash == plain.weights_hash


def test_proto_holds_external_weights_and_is_fresh(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(linear(WEIGHT, tmp_path / "w.bin").SerializeToString())
    model = Model.load(path)
    proto = model.proto()
    np.testing.assert_array_equal(numpy_helper.to_array(proto.graph.initializer[0]), WEIGHT)
    proto.graph.node[0].name = "changed"
    assert model.proto().graph.node[0].name == "fc"


def test_proto_takes_in_external_data_of_branches_and_attributes(tmp_path: Path) -> None:
    def outside(name: str, fill: float) -> onnx.TensorProto:
        tensor = numpy_helper.from_array(np.full((64, 512), fill, np.float32), name)
        (tmp_path / f"{name}.bin").write_bytes(tensor.raw_data)
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=f"{name}.bin")
        return tensor

    result = [helper.make_tensor_value_info("r", TensorProto.FLOAT, None)]
    then = helper.make_graph([helper.make_node("Neg", ["w"], ["r"], name="neg")], "b", [], result, [outside("w", 1)])
    constant = helper.make_node("Constant", [], ["r"], name="k", value=outside("v", 2))
    node = helper.make_node(
        "If", ["c"], ["y"], then_branch=then, else_branch=helper.make_graph([constant], "b", [], result), name="if0"
    )
    info = [
        helper.make_tensor_value_info("c", TensorProto.BOOL, []),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, None),
    ]
    graph = helper.make_graph([node], "g", info[:1], info[1:])
    path = tmp_path / "m.onnx"
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(proto.SerializeToString())
    whole = Model.load(path).proto().SerializeToString()
    session = onnxruntime.InferenceSession(whole, providers=["CPUExecutionProvider"])
    for choice, expected in ((True, -1), (False, 2)):
        found = np.asarray(session.run(None, {"c": np.array(choice)})[0])
        assert found.shape == (64, 512) and (found == expected).all()


def test_clone_shares_weights_and_nothing_else() -> None:
    model = Model.load(linear(WEIGHT))
    clone = model.clone_ir()
    assert clone.graph.initializers["w"].const_value is model.ir.graph.initializers["w"].const_value
    clone.graph[0].name = "changed"
    clone.graph.outputs[0].shape = onnx_ir.Shape([1])
    assert model.ir.graph[0].name == "fc"
    assert GraphView.of(model).tensor("y").shape == ("N", 128)


def test_from_ir_infers_and_sorts() -> None:
    ir = onnx_ir.from_proto(linear(WEIGHT))
    first, second = ir.graph[0], ir.graph[1]
    ir.graph.extend([second, first])
    model = Model.from_ir(ir)
    assert [node.name for node in model.ir.graph] == ["fc", "act"]
    assert model.notes == ("sorted: nodes stood before the nodes they read from",)
    assert GraphView.of(model).tensor("h").shape == ("N", 128)


def test_from_ir_names_a_cycle() -> None:
    ir = onnx_ir.from_proto(linear(WEIGHT))
    ir.graph[0].replace_input_with(0, ir.graph[1].outputs[0])
    with pytest.raises(ModelError, match="'fc' → 'act' → 'fc' form a cycle"):
        Model.from_ir(ir)


def test_inference_keeps_large_weights_out(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    real = onnx.shape_inference.infer_shapes

    def watched(proto: onnx.ModelProto, **options: bool) -> onnx.ModelProto:
        sizes.append(proto.ByteSize())
        return real(proto, **options)

    monkeypatch.setattr(onnx.shape_inference, "infer_shapes", watched)
    weight = np.zeros((2048, 1024), np.float32)
    Model.load(linear(weight))
    _ = Model.load(onnx_ir.from_proto(linear(weight))).ir
    assert len(sizes) == 2 and max(sizes) < 2000


def test_c08_model_over_two_gigabytes_opens_without_reading_it(tmp_path: Path) -> None:
    rows = 2_200_000_000 // (4 * 1024)
    proto = linear(np.zeros((4, 1024), np.float32), tmp_path / "w.bin")
    proto.graph.initializer[0].dims[0] = rows
    proto.graph.input[0].type.tensor_type.shape.dim[1].dim_value = rows
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(rows * 4096)
    path = tmp_path / "big.onnx"
    path.write_bytes(proto.SerializeToString())
    model = Model.load(path)
    view = GraphView.of(model)
    assert len(view.nodes) == 2 and view.tensor("y").shape == ("N", 1024)
    with pytest.raises(ModelError, match="too large for one protobuf"):
        model.proto()


def test_save_and_load_again(tmp_path: Path) -> None:
    model = Model.load(linear(WEIGHT))
    path = model.save(tmp_path / "out.onnx")
    assert Model.load(path).hash == model.hash
    assert sorted(file.name for file in tmp_path.iterdir()) == ["out.onnx"]
    onnx.checker.check_model(str(path), full_check=True)
    with pytest.raises(ModelError, match=r"missing/out\.onnx cannot be written"):
        model.save(tmp_path / "missing" / "out.onnx")


def test_save_puts_many_weights_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_module, "EXTERNAL_ABOVE_BYTES", 100_000)
    model = Model.load(linear(WEIGHT))
    path = model.save(tmp_path / "out.onnx")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["out.onnx", "out.onnx.data"]
    assert path.stat().st_size < 1000
    again = Model.load(path)
    assert again.hash == model.hash
    again.save(path)  # over the file that its own weights lie in
    assert Model.load(path).hash == model.hash


def test_c02_duplicate_names_are_unique_in_the_runtime_copy() -> None:
    proto = linear(WEIGHT)
    proto.graph.node[1].name = "fc"
    model = Model.load(proto)
    runtime = model.for_runtime()
    assert list(GraphView.of(model).nodes) == ["fc", "fc#2"]
    assert [node.name for node in runtime.proto().graph.node] == ["fc", "fc#2"]
    assert "several nodes are called 'fc': the runtime copy calls one 'fc#2'" in runtime.notes
    session = onnxruntime.InferenceSession(runtime.proto().SerializeToString(), providers=["CPUExecutionProvider"])
    assert [output.name for output in session.get_outputs()] == ["y"]
    assert [node.name for node in model.proto().graph.node] == ["fc", "fc"]


def test_c01_made_up_names_are_never_stored() -> None:
    proto = linear(WEIGHT)
    for node in proto.graph.node:
        node.ClearField("name")
    model = Model.load(proto)
    assert [node.name for node in model.proto().graph.node] == ["", ""]
    assert [node.name for node in model.for_runtime().proto().graph.node] == ["MatMul_0", "Relu_0"]
    assert [node.name for node in Model.load(model.clone_ir()).proto().graph.node] == ["", ""]


def test_names_are_unique_whatever_is_taken() -> None:
    nodes = [("a", "X"), ("a", "X"), ("a#2", "X"), ("", "Relu"), ("Relu_0", "Relu"), ("", "Relu")]
    assert assign_names(nodes) == ["a", "a#2", "a#2#2", "Relu_0#2", "Relu_0", "Relu_1"]
    assert assign_names([("a", "X")], {"p/a"}, "p/") == ["p/a#2"]


def test_c10_inferred_shape_wins_and_the_old_one_is_kept() -> None:
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], name="Conv18")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, 30, 6])],
        [numpy_helper.from_array(np.ones((1, 1, 3, 3), np.float32), "w")],
    )
    model = Model.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    tensor = GraphView.of(model).tensor("y")
    assert tensor.shape == (1, 1, 6, 6) and tensor.declared_shape == (1, 1, 30, 6)
    edited = Model.load(model.clone_ir())
    assert GraphView.of(edited).tensor("y").declared_shape is None
    onnx.checker.check_model(edited.proto(), full_check=True)


def test_declared_shape_fills_what_inference_cannot_know() -> None:
    graph = helper.make_graph(
        [
            helper.make_node("Reshape", ["x", "s"], ["r"], name="reshape"),
            helper.make_node("Mystery", ["r"], ["m"], domain="my", name="mystery"),
            helper.make_node("Relu", ["m"], ["y"], name="relu"),
        ],
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 6]),
            helper.make_tensor_value_info("s", TensorProto.INT64, [2]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        value_info=[
            helper.make_tensor_value_info("r", TensorProto.FLOAT, ["N", 3]),
            helper.make_tensor_value_info("m", TensorProto.FLOAT16, ["N", 7]),
        ],
    )
    view = GraphView.of(Model.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)))
    assert view.tensor("r").shape == ("N", 3)
    assert (view.tensor("m").dtype, view.tensor("m").shape) == ("float16", ("N", 7))
    assert (view.tensor("y").dtype, view.tensor("y").shape) == ("float16", ("N", 7))
    assert all(tensor.declared_shape is None for tensor in view.tensors.values())


def test_failed_inference_is_a_note_not_an_error() -> None:
    proto = linear(WEIGHT)
    proto.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 99  # MatMul cannot fit
    view = GraphView.of(Model.load(proto))
    assert view.tensor("h").shape is None and len(view.nodes) == 2


def test_threads_can_share_a_model() -> None:
    model = Model.load(onnx_ir.from_proto(linear(WEIGHT)))
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(f"{model.hash}{len(model.ir.graph)}")) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1 and len(found) == 8
