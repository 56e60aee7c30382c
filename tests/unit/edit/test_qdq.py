"""Q/DQ pairs and layers as they stand in a model, and models with some of them taken away."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.unit.edit.qdq_models import W0, W1, float_convs, one_pair, run, samples, two_convs
from trt_lab.edit.qdq import dequantise, find_qdq, quantise_only, remove_pair
from trt_lab.errors import EditError
from trt_lab.graph import GraphView
from trt_lab.model import Model


def q_nodes(model: Model) -> list[str]:
    return [node.name for node in model.proto().graph.node if node.op_type in ("QuantizeLinear", "DequantizeLinear")]


def fake(values: np.ndarray, scale: np.ndarray | float) -> np.ndarray:
    """Q and DQ in numpy, INT8, zero point 0."""
    steps = np.clip(np.rint(values / np.float32(scale)), -128, 127)
    return (steps * np.float32(scale)).astype(np.float32)


def test_pairs_and_layers() -> None:
    found = find_qdq(GraphView.of(two_convs(stored=True, output=True)))
    assert [(p.tensor, p.kind, p.quantize, p.dequantizes) for p in found.pairs] == [
        ("w1_dq", "weight", None, ("w1_dq_node",)),
        ("x", "activation", "x_q", ("x_dq",)),
        ("w0", "weight", "w0_q", ("w0_dq",)),
        ("r", "activation", "r_q", ("r_dq",)),
        ("sum", "activation", "sum_q", ("sum_dq",)),
    ]
    assert [(layer.node, layer.reads) for layer in found.layers] == [
        ("a", ("x_dq", "w0_dq")),
        ("b", ("r_dq", "w1_dq")),
        ("neg", ("r_dq",)),
        ("sum_dq", ("y",)),
    ]
    by_tensor = {p.tensor: p for p in found.pairs}
    assert by_tensor["w0"].axis == 0 and by_tensor["w0"].scale is not None and by_tensor["w0"].scale.shape == (4,)
    assert by_tensor["x"].axis is None and by_tensor["x"].dtype == "int8"
    assert found.floats == {"x_dq": "x", "w0_dq": "w0", "r_dq": "r", "y": "sum"} and found.notes == ()


def test_a_scale_that_is_computed_is_not_known() -> None:
    proto = one_pair(0.5, np.int8(0), (1, 4)).proto()
    proto.graph.node.insert(0, onnx.helper.make_node("Abs", ["s"], ["s2"], name="abs"))
    for node in proto.graph.node:
        node.input[:] = ["s2" if name == "s" and node.name != "abs" else name for name in node.input]
    (pair,) = find_qdq(GraphView.of(Model.load(proto))).pairs
    assert pair.scale is None and pair.axis is None


def test_integer_operators_are_told() -> None:
    proto = one_pair(0.5, np.int8(0), (1, 4)).proto()
    proto.graph.node[1].op_type = "Identity"
    del proto.graph.node[1].input[1:]
    proto.graph.node[2].CopyFrom(onnx.helper.make_node("Cast", ["x_dq"], ["y"], name="id", to=1))
    found = find_qdq(GraphView.of(Model.load(proto)))
    assert found.pairs == () and found.layers == ()
    assert found.notes == ("nothing dequantises what 'q' makes: its readers compute with integers, left out",)


@pytest.mark.parametrize("output", [False, True])
def test_without_any_qdq_it_is_the_float_model(output: bool) -> None:
    model = two_convs(output=output)
    before = model.hash
    done = dequantise(model)
    assert q_nodes(done.model) == [] and model.hash == before and done.notes == ()
    onnx.checker.check_model(done.model.proto(), full_check=True)
    assert {t.name for t in done.model.proto().graph.initializer} == {"w0", "w1"}
    for feeds in samples():
        np.testing.assert_array_equal(run(done.model, feeds)[0], run(float_convs(), feeds)[0])


@pytest.mark.parametrize("kept", [c for size in (1, 2, 3) for c in itertools.combinations(["a", "b", "neg"], size)])
def test_each_layer_alone_or_together_gives_what_numpy_gives(kept: tuple[str, ...]) -> None:
    model = two_convs(per_channel=False)
    done = quantise_only(model, kept).model
    onnx.checker.check_model(done.proto(), full_check=True)
    reference = float_convs().proto()
    for feeds in samples(1):
        x = fake(feeds["x"], 0.03) if "a" in kept else feeds["x"]
        w0 = fake(W0, np.abs(W0).max() / np.float32(127)) if "a" in kept else W0
        w1 = fake(W1, np.abs(W1).max() / np.float32(127)) if "b" in kept else W1
        r = np.maximum(run(_with_weight(reference, "w0", w0), {"x": x}, ["a_out"])[0], 0)
        b = np.einsum("oi,nihw->nohw", w1[:, :, 0, 0], fake(r, 0.2) if "b" in kept else r)
        expected = b - (fake(r, 0.2) if "neg" in kept else r)
        np.testing.assert_allclose(run(done, feeds)[0], expected, atol=2e-5)


def _with_weight(proto: onnx.ModelProto, name: str, values: np.ndarray) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for tensor in copy.graph.initializer:
        if tensor.name == name:
            tensor.CopyFrom(onnx.numpy_helper.from_array(values, name))
    copy.graph.output.append(onnx.ValueInfoProto(name="a_out"))
    return copy


def test_a_tensor_that_others_read_keeps_its_pair() -> None:
    done = dequantise(two_convs(), ["neg"])
    assert "r_q" in q_nodes(done.model) and done.layers == ("neg",)
    by_name = {node.name: list(node.input) for node in done.model.proto().graph.node}
    assert by_name["neg"] == ["r"] and by_name["b"] == ["r_dq", "w1_dq"]


def test_stored_integers_stay_unless_their_floats_are_given() -> None:
    model = two_convs(stored=True)
    left = dequantise(model)
    assert q_nodes(left.model) == ["w1_dq_node"]
    assert left.notes == ("'b' keeps reading 'w1_dq': the file stores integers, and the FP32 model was not given",)
    given = dequantise(model, weights={find_qdq(GraphView.of(model)).pairs[0].tensor: W1})
    assert q_nodes(given.model) == [] and given.notes == ()
    feeds = samples(1)[0]
    np.testing.assert_array_equal(run(given.model, feeds)[0], run(float_convs(), feeds)[0])


def test_an_output_keeps_its_name() -> None:
    done = dequantise(two_convs(output=True), ["sum_dq"])
    proto = done.model.proto()
    assert [value.name for value in proto.graph.output] == ["y"] and "sum_q" not in q_nodes(done.model)
    onnx.checker.check_model(proto, full_check=True)


def test_one_pair_taken_away() -> None:
    done = remove_pair(two_convs(), "x")
    assert q_nodes(done.model) == ["w0_q", "w0_dq", "r_q", "r_dq", "w1_q", "w1_dq"]
    assert q_nodes(remove_pair(two_convs(), "r_dq").model) == ["x_q", "x_dq", "w0_q", "w0_dq", "w1_q", "w1_dq"]
    with pytest.raises(EditError, match="tensor 'a_out' is not quantised"):
        remove_pair(two_convs(), "a_out")


def test_unknown_layers_are_refused() -> None:
    with pytest.raises(EditError, match=r"'relu' reads no quantised tensor; layers that do: 'a', 'b', 'neg'"):
        dequantise(two_convs(), ["relu"])
    with pytest.raises(EditError, match="'relu'"):
        quantise_only(two_convs(), ["relu"])


def test_a_float_model_comes_back_as_it_is() -> None:
    model = float_convs()
    assert dequantise(model).model is model


def test_polygraphys_model(shared: Path) -> None:
    found = find_qdq(GraphView.of(Model.load(shared / "real_inputs/onnx/Polygraphy/tests/models/qdq_conv.onnx")))
    (pair,) = found.pairs
    assert (pair.dtype, pair.axis, pair.quantize) == ("uint8", 1, "onnx_graphsurgeon_node_1")
    assert [layer.node for layer in found.layers] == ["Conv_0"]
