"""Each zoo model fails in FP16 as it says, and is right with the region it says, in an emulation of its own."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from trt_lab import zoo
from trt_lab.errors import UsageError
from trt_lab.graph import GraphView
from trt_lab.model import Model
from trt_lab.zoo.blocks import BLOCKS


def emulate_fp16(model: Model, keep: tuple[str, ...]) -> onnx.ModelProto:
    """Rounds to FP16 what nodes outside `keep` read and make, by Cast pairs (facts: the runtime keeps those)."""
    proto = model.proto()
    del proto.graph.value_info[:]
    floats = {t.name for t in proto.graph.initializer if t.data_type == onnx.TensorProto.FLOAT}
    floats |= {value.name for value in proto.graph.input}
    kinds = {str(info.name): info.dtype for info in GraphView.of(model).tensors.values()}
    rounded: dict[str, str] = {}
    nodes: list[onnx.NodeProto] = []

    def round_trip(name: str) -> str:
        if name not in rounded:
            half, rounded[name] = f"{name}__half", f"{name}__rounded"
            nodes.append(helper.make_node("Cast", [name], [half], to=onnx.TensorProto.FLOAT16))
            nodes.append(helper.make_node("Cast", [half], [rounded[name]], to=onnx.TensorProto.FLOAT))
        return rounded[name]

    for node in proto.graph.node:
        if node.name not in keep:
            node.input[:] = [round_trip(name) if name in floats else name for name in node.input]
        floats.update(name for name in node.output if kinds[name] == "float32")
        if (
            node.name in keep
            or node.output[0] not in floats
            or node.output[0] in {value.name for value in proto.graph.output}
        ):
            nodes.append(node)
            continue
        raw = f"{node.output[0]}__raw"
        nodes.append(node)
        made = node.output[0]
        node.output[0] = raw
        nodes.append(helper.make_node("Cast", [raw], [f"{raw}__half"], to=onnx.TensorProto.FLOAT16))
        nodes.append(helper.make_node("Cast", [f"{raw}__half"], [made], to=onnx.TensorProto.FLOAT))
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    return proto


def run(proto: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, feeds)[0])


def worst(name: str, keep: tuple[str, ...], scale: float = 1.0) -> float:
    """Largest difference of the emulated model from FP32 over all samples."""
    made = zoo.get(name)
    proto, emulated = made.model.proto(), emulate_fp16(made.model, keep)
    feeds = [{key: value * np.float32(scale) for key, value in sample.items()} for sample in made.feeds]
    return max(float(np.abs(run(proto, sample) - run(emulated, sample)).max()) for sample in feeds)


FAULTY = [entry.name for entry in zoo.entries() if entry.fault]
CLEAN = [entry.name for entry in zoo.entries() if not entry.fault]
SMALL = [name for name in FAULTY if not name.startswith("deep_")]
LIMIT = 1e-3
"""Absolute and relative tolerance of a session."""


def fails(name: str, keep: tuple[str, ...]) -> bool:
    """Whether the emulated model is out of the default tolerance on any sample."""
    made = zoo.get(name)
    proto, emulated = made.model.proto(), emulate_fp16(made.model, keep)
    return not all(
        np.allclose(run(emulated, sample), run(proto, sample), atol=LIMIT, rtol=LIMIT, equal_nan=True)
        for sample in made.feeds
    )


def test_there_are_enough_faults_of_enough_kinds_and_sizes() -> None:
    assert len(FAULTY) >= 40 and len(CLEAN) >= 5
    assert len({block.kind for block in BLOCKS.values() if block.kind}) >= 10
    assert sum(len(entry.truth) > 1 for entry in zoo.entries()) >= 5
    sizes = [len(zoo.get(name).model.ir.graph) for name in ("layernorm_overflow", "deep_100", "deep_1000")]
    assert sizes[0] < 25 and sizes[1] >= 80 and sizes[2] >= 1000
    assert zoo.names()[:3] == ("l2norm_overflow", "layernorm_overflow", "clean_cnn")


def test_listing_makes_no_model() -> None:
    zoo.get.cache_clear()
    assert len({entry.name for entry in zoo.entries()}) == len(zoo.names())
    assert zoo.get.cache_info().currsize == 0


@pytest.mark.parametrize("name", zoo.names())
def test_model_is_valid_small_and_named(name: str) -> None:
    made = zoo.get(name)
    proto = made.model.proto()
    onnx.checker.check_model(proto, full_check=True)
    assert len(proto.SerializeToString()) < 2_000_000
    view = GraphView.of(made.model)
    assert set(made.truth) <= set(made.keep) <= set(view.nodes)
    assert all(node.name.startswith("/") for node in view.nodes.values())
    assert bool(made.fault) == bool(made.truth)
    assert next(e for e in zoo.entries() if e.name == name) == zoo.Entry(
        name, made.fault, made.truth, made.keep, made.note
    )
    assert len(made.feeds) == 4 and set(made.feeds[0]) == set(view.inputs)
    for first, second in zip(made.feeds, made.feeds[1:], strict=False):
        assert not np.array_equal(next(iter(first.values())), next(iter(second.values())))


@pytest.mark.parametrize("name", SMALL)
def test_every_fault_shows_and_needs_all_that_it_names(name: str) -> None:
    keep = zoo.get(name).keep
    assert fails(name, ())
    assert not fails(name, keep)
    for dropped in keep:
        assert fails(name, tuple(node for node in keep if node != dropped)), dropped


@pytest.mark.parametrize("name", CLEAN)
def test_clean_models_stay_right_in_fp16(name: str) -> None:
    assert not fails(name, ())


def test_an_infinity_in_the_middle_does_no_harm() -> None:
    made = zoo.get("clean_saturated")
    emulated = emulate_fp16(made.model, ())
    emulated.graph.output.append(onnx.ValueInfoProto(name="/saturated/Exp_output_0"))
    session = onnxruntime.InferenceSession(emulated.SerializeToString(), providers=["CPUExecutionProvider"])
    assert np.isinf(np.asarray(session.run(["/saturated/Exp_output_0"], made.feeds[0])[0])).any()


@pytest.mark.parametrize("name", ["l2norm_overflow", "layernorm_overflow"])
@pytest.mark.parametrize("scale", [1.0, 0.1, 2.0])
def test_fault_shows_in_fp16_and_the_region_repairs_it(name: str, scale: float) -> None:
    made = zoo.get(name)
    assert worst(name, (), scale) > 0.02
    assert worst(name, made.truth, scale) > 0.02
    assert worst(name, made.keep, scale) < 1e-3


def test_only_the_truth_leaves_the_range_first() -> None:
    for name in ("l2norm_overflow", "layernorm_overflow"):
        made = zoo.get(name)
        proto = made.model.proto()
        view = GraphView.of(made.model)
        names = [tensor for node in view.nodes.values() for tensor in node.outputs if tensor]
        del proto.graph.output[:]
        proto.graph.output.extend(onnx.ValueInfoProto(name=tensor) for tensor in names)
        session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
        peaks = dict(
            zip(names, (float(np.abs(np.asarray(v)).max()) for v in session.run(names, made.feeds[0])), strict=True)
        )
        first = next(tensor for tensor in names if peaks[tensor] > 65504)
        assert view.tensors[first].producer == made.truth[0]


def test_c24_written_out_layernorm_gives_the_stated_numbers() -> None:
    values = np.array([[400, -400, 100, -100]], np.float32)
    initial = [
        numpy_helper.from_array(np.array(2, np.float32), "two"),
        numpy_helper.from_array(np.array(1e-5, np.float32), "eps"),
    ]
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["m"], axes=[-1], name="n0"),
        helper.make_node("Sub", ["x", "m"], ["d"], name="n1"),
        helper.make_node("Pow", ["d", "two"], ["p"], name="n2"),
        helper.make_node("ReduceMean", ["p"], ["v"], axes=[-1], name="n3"),
        helper.make_node("Add", ["v", "eps"], ["a"], name="n4"),
        helper.make_node("Sqrt", ["a"], ["s"], name="n5"),
        helper.make_node("Div", ["d", "s"], ["q"], name="n6"),
        helper.make_node("Identity", ["q"], ["y"], name="n7"),
    ]
    info = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [1, 4]) for n in "xy"]
    graph = helper.make_graph(nodes, "c24", info[:1], info[1:], initial)
    model = Model.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    np.testing.assert_allclose(run(model.proto(), {"x": values}), [[1.37199, -1.37199, 0.342997, -0.342997]], rtol=1e-5)
    assert run(emulate_fp16(model, ()), {"x": values}).tolist() == [[0, 0, 0, 0]]


def test_unknown_name_lists_what_there_is() -> None:
    with pytest.raises(
        UsageError, match="no zoo model 'resnet'; there are: l2norm_overflow, layernorm_overflow, clean_cnn, "
    ):
        zoo.get("resnet")


def test_made_again_it_is_the_same() -> None:
    first = zoo.get("l2norm_overflow").model.hash
    zoo.get.cache_clear()
    assert zoo.get("l2norm_overflow").model.hash == first
