"""Probes: what is added, what is refused, and that nothing else changes."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, parser

from trt_lab.edit.probe import add_probes, remove_probes
from trt_lab.errors import EditError, ModelError, TrtLabError
from trt_lab.graph import GraphView
from trt_lab.model import Model


def _parse(text: str, opset: int = 17, ir_version: int = 8) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: {ir_version}, opset_import: ["" : {opset}]>\n{text}')


def _load(text: str, opset: int = 17) -> Model:
    return Model.from_proto(_parse(text, opset))


def _run(model: Model, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.proto().SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return {name: np.asarray(value) for name, value in zip(names, session.run(None, feeds), strict=True)}


CHAIN = "agraph (float[2] x) => (float[2] c) { a = Relu(x) b = Neg(a) c = Exp(b) }"


def test_c01_probe_invents_no_names(tmp_path: Path) -> None:
    model = _load(CHAIN)
    assert list(GraphView.of(model).nodes) == ["Relu_0", "Neg_0", "Exp_0"]
    probed = add_probes(model, ["b"])
    saved = Model.load(probed.model.save(tmp_path / "probed.onnx"))
    assert [node.name for node in saved.proto().graph.node] == ["", "", "", "b_probe"]
    assert list(GraphView.of(saved).nodes)[:3] == ["Relu_0", "Neg_0", "Exp_0"]


def test_c05_omitted_input_is_no_tensor() -> None:
    model = _load("agraph (float[4] x) => (float[4] y) <float mx = {6}> { c = Clip(x, , mx) y = Neg(c) }")
    with pytest.raises(EditError, match="names no tensor.*omitted optional input"):
        add_probes(model, [""])
    probed = add_probes(model, ["c"])
    assert probed.outputs == {"c": "c_probe"}
    proto = probed.model.proto()
    assert all(value.name for value in (*proto.graph.input, *proto.graph.output, *proto.graph.value_info))
    assert _run(probed.model, {"x": np.array([-9, 3, 6, 7], np.float32)})["c_probe"].tolist() == [-9, 3, 6, 6]


def test_c05_lstm_with_omitted_inputs_and_outputs() -> None:
    model = _load(
        "agraph (float[3,1,4] x, float[1,20,4] w, float[1,20,5] r) => (float[1,1,5] h)"
        " { , last = LSTM <hidden_size = 5> (x, w, r) h = Neg(last) }"
    )
    probed = add_probes(model, ["last"]).model.proto()
    onnx.checker.check_model(probed, full_check=True)
    assert [node.op_type for node in probed.graph.node] == ["LSTM", "Neg", "Identity"]
    assert probed.graph.node[0].output[0] == ""


def test_c10_stale_shapes_are_dropped() -> None:
    proto = _parse(
        "agraph (float[1,1,8,8] x, float[1,1,3,3] w) => (float[1,1,6,6] y)"
        "{ [Conv18] c = Conv <kernel_shape = [3, 3]> (x, w) y = Relu(c) }"
    )
    proto.graph.value_info.append(helper.make_tensor_value_info("c", TensorProto.FLOAT, [1, 1, 30, 6]))
    with pytest.raises(onnx.shape_inference.InferenceError, match=r"\(6\) vs \(30\)"):
        onnx.checker.check_model(proto, full_check=True)
    probed = add_probes(Model.load(proto), ["c"])
    saved = probed.model.proto()
    onnx.checker.check_model(saved, full_check=True)
    declared = {value.name: value for value in (*saved.graph.value_info, *saved.graph.output)}
    for name in ("c", "c_probe"):
        assert [dim.dim_value for dim in declared[name].type.tensor_type.shape.dim] == [1, 1, 6, 6]
    assert any("[1, 1, 30, 6]" in note and "'c'" in note for note in probed.notes)


def test_c19_inputs_outputs_and_twice() -> None:
    model = _load("agraph (float[2] x) => (float[2] y) { y = Relu(x) }")
    probed = add_probes(model, ["x", "y", "y", "x"])
    assert probed.outputs == {"x": "x_probe", "y": "y"}
    proto = probed.model.proto()
    assert [output.name for output in proto.graph.output] == ["y", "x_probe"]
    assert [node.op_type for node in proto.graph.node] == ["Relu", "Identity"]
    again = add_probes(probed.model, ["x", "y"])
    assert again.outputs == probed.outputs
    assert again.model is probed.model


def test_c19_output_listed_twice_stays() -> None:
    proto = _parse("agraph (float[2] x) => (float[2] y) { a = Neg(x) y = Relu(a) }")
    proto.graph.output.append(proto.graph.output[0])
    model = Model.load(proto)
    probed = add_probes(model, ["y", "a"])
    assert [output.name for output in probed.model.proto().graph.output] == ["y", "y", "a_probe"]
    assert remove_probes(probed.model).hash == model.hash


def test_c20_type_rank_and_symbol_are_kept(tmp_path: Path) -> None:
    model = _load(
        "agraph (float[N,1,4,4] x, float[2,1,3,3] w) => (float[N,2,2,2] y)"
        "{ c = Conv <kernel_shape = [3, 3]> (x, w) y = Relu(c) }"
    )
    path = add_probes(model, ["c"]).model.save(tmp_path / "probed.onnx")
    onnx.checker.check_model(str(path), full_check=True)
    made = onnx.load(path).graph.output[1].type.tensor_type
    assert made.elem_type == TensorProto.FLOAT
    assert [dim.dim_param or dim.dim_value for dim in made.shape.dim] == ["N", 2, 2, 2]


def test_c20_unknown_rank_is_typed_without_shape() -> None:
    model = _load("agraph (float[6] x, int64[r] s) => (float[6] y) { a = Reshape(x, s) b = Neg(a) y = Relu(x) }")
    view = GraphView.of(model)
    assert view.tensor("b").shape is None
    probed = add_probes(model, ["b"])
    made = probed.model.proto().graph.output[1].type.tensor_type
    assert made.elem_type == TensorProto.FLOAT
    assert not made.HasField("shape")
    assert any("rank of 'b' is not known" in note for note in probed.notes)
    values = _run(probed.model, {"x": np.arange(6, dtype=np.float32), "s": np.array([2, 3], np.int64)})
    assert values["b_probe"].shape == (2, 3)


@pytest.mark.parametrize(
    ("element", "opset"),
    [("bool", 17), ("int64", 17), ("float16", 17), ("bfloat16", 17), ("double", 17), ("uint8", 17), ("string", 17),
     ("float8e4m3fn", 19), ("int4", 21)],
)  # fmt: skip
def test_every_type_can_be_probed(element: str, opset: int) -> None:
    model = Model.from_proto(
        _parse(f"agraph ({element}[3] x) => ({element}[3] y) {{ a = Identity(x) y = Identity(a) }}", opset, 10)
    )
    proto = add_probes(model, ["a", "x"]).model.proto()
    onnx.checker.check_model(proto, full_check=True)
    types = {value.type.tensor_type.elem_type for value in proto.graph.output}
    assert len(types) == 1


def test_bool_int64_initializer_and_multi_output_nodes() -> None:
    model = _load(
        "agraph (float[4] x) => (float[2] y) <float[4] w = {1, 2, 3, 4}, int64[1] k = {2}>"
        "{ s = Add(x, w) values, places = TopK(s, k) big = Greater(values, values) y = Neg(values) }"
    )
    probed = add_probes(model, ["places", "values", "big", "w"])
    onnx.checker.check_model(probed.model.proto(), full_check=True)
    values = _run(probed.model, {"x": np.array([0, 9, 0, 0], np.float32)})
    assert list(values) == ["y", "places_probe", "values_probe", "big_probe", "w_probe"]
    assert values["places_probe"].tolist() == [1, 3]
    assert values["values_probe"].tolist() == [11, 4]
    assert values["big_probe"].tolist() == [False, False]
    assert values["w_probe"].tolist() == [1, 2, 3, 4]


IF = (
    "agraph (bool c, float[2] x) => (float[2] y) { [if0] y = If (c) <"
    "then_branch = g1 () => (float[2] r) { t = Neg(x) r = Abs(t) },"
    "else_branch = g2 () => (float[2] r) { r = Exp(x) } > }"
)


def test_inside_a_subgraph_is_refused_with_advice() -> None:
    model = _load(IF)
    inner = next(t for t in GraphView.of(model).tensors if t.endswith("/t"))
    with pytest.raises(EditError) as refused:
        add_probes(model, [inner])
    text = str(refused.value)
    assert "lies inside the subgraph" in text
    assert "only tensors of the main graph can be graph outputs" in text
    assert "'y'" in text


def test_unknown_tensor_names_close_ones() -> None:
    with pytest.raises(EditError, match="no tensor 'conv_ot'.*did you mean 'conv_out'"):
        add_probes(_load("agraph (float[2] x) => (float[2] y) { conv_out = Neg(x) y = Relu(conv_out) }"), ["conv_ot"])


def test_a_sequence_is_refused() -> None:
    proto = _parse(
        "agraph (float[2] x) => (float[2] y) { s = SequenceConstruct(x) y = ConcatFromSequence <axis = 0> (s) }"
    )
    with pytest.raises(EditError, match="'s' cannot be made an output: it is no tensor, or its type is not known"):
        add_probes(Model.load(proto), ["s"])
    proto.graph.value_info.append(helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None))
    with pytest.raises(EditError, match="'s' cannot be made an output: it is a sequence"):
        add_probes(Model.load(proto), ["s"])


def test_names_do_not_collide() -> None:
    model = _load(
        "agraph (float[2] x) => (float[2] y) { [a_probe] a = Neg(x) a_probe = Exp(a) a_probe_2 = Abs(a) y = Add(a_probe, a_probe_2) }"
    )
    probed = add_probes(model, ["a"])
    assert probed.outputs == {"a": "a_probe_3"}
    names = [node.name for node in probed.model.proto().graph.node]
    assert names.count("a_probe") == 1
    onnx.checker.check_model(probed.model.proto(), full_check=True)


def test_other_readers_read_the_original_tensor() -> None:
    probed = add_probes(_load(CHAIN), ["a"]).model.proto()
    assert list(probed.graph.node[1].input) == ["a"]
    assert list(probed.graph.node[3].input) == ["a"]


def _rich_model() -> onnx.ModelProto:
    """A model with all that an exporter may drop: metadata, documentation, functions, annotations, several opsets."""
    proto = parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 18, "local" : 1, "com.example" : 3],'
        ' producer_name: "maker", producer_version: "7", model_version: 5, domain: "d", doc_string: "model doc">\n'
        "agraph (float[N,4] x) => (float[N,4] y) <float[4] w = {1, 2, 3, 4}>"
        "{ a = Add(x, w) b = local.twice(a) y = Relu(b) }\n"
        '<domain: "local", opset_import: ["" : 18]> twice (i) => (o) { o = Add(i, i) }'
    )
    proto.metadata_props.add(key="k", value="v")
    proto.graph.doc_string = "graph doc"
    proto.graph.metadata_props.add(key="gk", value="gv")
    proto.graph.node[0].doc_string = "node doc"
    proto.graph.node[0].metadata_props.add(key="namespace", value="a/b")
    proto.graph.input[0].doc_string = "input doc"
    proto.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    proto.graph.initializer[0].doc_string = "weight doc"
    annotation = proto.graph.quantization_annotation.add(tensor_name="a")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="w")
    return proto


def test_nothing_else_changes() -> None:
    model = Model.load(_rich_model())
    before = model.proto()
    probed = add_probes(model, ["a", "x", "w"]).model.proto()
    assert model.proto() == before
    for wanted in (probed.graph.node[3], probed.graph.node[4], probed.graph.node[5]):
        assert wanted.op_type == "Identity"
    del probed.graph.node[3:]
    del probed.graph.output[1:]
    assert probed == before
    assert before.graph.node[0].metadata_props[0].key == "namespace"
    assert before.graph.quantization_annotation[0].tensor_name == "a"
    assert before.functions[0].name == "twice"


def test_remove_gives_back_an_equal_model(tmp_path: Path) -> None:
    model = Model.load(_rich_model())
    probed = add_probes(model, ["a", "x", "w"]).model
    assert probed.hash != model.hash
    assert remove_probes(probed).hash == model.hash
    assert remove_probes(Model.load(probed.save(tmp_path / "p.onnx"))).hash == model.hash
    assert remove_probes(model) is model


def test_a_model_without_standard_opset_gets_one_and_loses_it_again() -> None:
    node = helper.make_node("Thing", ["x"], ["y"], domain="my.ops")
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("x", "y")]
    proto = helper.make_model(
        helper.make_graph([node], "g", value[:1], value[1:]), opset_imports=[helper.make_opsetid("my.ops", 1)]
    )
    model = Model.load(proto)
    probed = add_probes(model, ["x"]).model
    assert probed.opset[""] == 13
    assert remove_probes(probed).opset == {"my.ops": 1}
    assert remove_probes(probed).hash == model.hash


def test_weights_are_shared_not_copied() -> None:
    proto = _parse("agraph (float[1,1000] x, float[1000,1000] z) => (float[1,1000] y) { a = MatMul(x, z) y = Relu(a) }")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros((1000, 1000), np.float32), "z"))
    del proto.graph.input[1]
    model = Model.load(proto)
    probed = add_probes(model, ["a"]).model
    assert probed.ir.graph.initializers["z"].const_value is model.ir.graph.initializers["z"].const_value


def test_probing_a_real_model_is_quick(real_model) -> None:
    model = Model.load(real_model("magika"))
    view = GraphView.of(model)
    tensor = [info.id for info in view.tensors.values() if info.producer][len(view.nodes) // 2]

    def once() -> float:
        start = time.perf_counter()
        add_probes(model, [tensor])
        return time.perf_counter() - start

    assert min(once() for _ in range(10)) < 0.030


def test_every_small_real_model_can_be_probed_everywhere(shared: Path) -> None:
    seen = 0
    for path in sorted((shared / "real_inputs" / "onnx").rglob("*.onnx")):
        try:
            model = Model.load(path)
            view = GraphView.of(model)
            valid = not _check(model.proto())
        except ModelError:
            continue
        tensors = [t.id for t in view.tensors.values() if not t.graph and t.dtype is not None]
        try:
            probed = add_probes(model, tensors)
        except TrtLabError as error:
            raise AssertionError(f"{path}: {error}") from error
        assert list(probed.outputs) == tensors
        assert remove_probes(probed.model).hash == model.hash, path
        if valid and all(view.tensors[t].shape is not None for t in tensors):
            assert not _check(probed.model.proto()), path
            seen += 1
    assert seen >= 30


def _check(proto: onnx.ModelProto) -> str:
    try:
        onnx.checker.check_model(proto, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        return str(error)
    return ""


@settings(max_examples=25, deadline=None)
@given(data=st.data(), count=st.integers(1, 8))
def test_probes_show_the_tensor_and_leave_the_outputs(data: st.DataObject, count: int) -> None:
    lines, names = [], ["x"]
    for index in range(count):
        op = data.draw(st.sampled_from(["Neg", "Relu", "Abs", "Add"]))
        reads = [data.draw(st.sampled_from(names)) for _ in range(2 if op == "Add" else 1)]
        lines.append(f"t{index} = {op}({', '.join(reads)})")
        names.append(f"t{index}")
    model = _load(f"agraph (float[3] x) => (float[3] y) {{ {' '.join(lines)} y = Identity({names[-1]}) }}")
    wanted = data.draw(st.lists(st.sampled_from(names), min_size=1))
    probed = add_probes(model, wanted)
    feeds = {"x": np.array([-1.5, 0, 2.25], np.float32)}
    plain, values = _run(model, feeds), _run(probed.model, feeds)
    assert values["y"].tobytes() == plain["y"].tobytes()
    whole = _run(add_probes(model, names).model, feeds)
    for tensor, output in probed.outputs.items():
        assert values[output].tobytes() == whole[f"{tensor}_probe"].tobytes()
    assert remove_probes(probed.model).hash == model.hash
