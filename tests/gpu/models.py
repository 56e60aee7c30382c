"""Small models made by code, each with one thing that an engine must get right."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from trt_lab.model import Model


def value(name: str, kind: int, shape: Sequence[int | str | None] | None) -> onnx.ValueInfoProto:
    """A graph input or output."""
    return helper.make_tensor_value_info(name, kind, shape)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    weights: Sequence[onnx.TensorProto] = (),
    *,
    domains: Sequence[str] = (),
    name: str = "small",
) -> Model:
    """A model at opset 17."""
    graph = helper.make_graph(nodes, name, inputs, outputs, weights)
    imports = [helper.make_opsetid("", 17), *(helper.make_opsetid(domain, 1) for domain in domains)]
    return Model.load(helper.make_model(graph, opset_imports=imports, ir_version=9))


def nonzero() -> Model:
    """NonZero: the size of the output depends on data."""
    node = helper.make_node("NonZero", ["x"], ["y"], name="nz")
    return model([node], [value("x", TensorProto.FLOAT, [2, 3])], [value("y", TensorProto.INT64, [2, None])])


def booleans() -> Model:
    """Greater → Not → Where → Mul, with the boolean tensor as an output (C18)."""
    nodes = [
        helper.make_node("Greater", ["x", "w"], ["g"], name="g"),
        helper.make_node("Not", ["g"], ["n"], name="n"),
        helper.make_node("Where", ["n", "x", "w"], ["s"], name="s"),
        helper.make_node("Mul", ["s", "s"], ["y"], name="m"),
    ]
    weights = numpy_helper.from_array(np.array([0, 1, 2], np.float32), "w")
    outputs = [value("y", TensorProto.FLOAT, [3]), value("n", TensorProto.BOOL, [3])]
    return model(nodes, [value("x", TensorProto.FLOAT, [3])], outputs, [weights])


def reshape_by_input() -> Model:
    """The shape of the output is an input (a shape tensor, read from host memory)."""
    node = helper.make_node("Reshape", ["x", "sizes"], ["y"], name="reshape")
    inputs = [value("x", TensorProto.FLOAT, [2, 6]), value("sizes", TensorProto.INT64, [2])]
    return model([node], inputs, [value("y", TensorProto.FLOAT, [None, None])])


def casts() -> Model:
    """Inputs and outputs of many types."""
    kinds = {
        "f16": TensorProto.FLOAT16,
        "bf16": TensorProto.BFLOAT16,
        "i32": TensorProto.INT32,
        "i64": TensorProto.INT64,
    }
    nodes, inputs, outputs = [], [], []
    for name, kind in kinds.items():
        inputs.append(value(f"x_{name}", kind, [5]))
        outputs.append(value(f"y_{name}", kind, [5]))
        nodes.append(helper.make_node("Add", [f"x_{name}", f"x_{name}"], [f"y_{name}"], name=f"add_{name}"))
    return model(nodes, inputs, outputs)


def matmul() -> Model:
    """A matrix product that TF32 would round (C25)."""
    weights = np.random.default_rng(1).standard_normal((256, 64)).astype(np.float32)
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="mm")
    inputs = [value("x", TensorProto.FLOAT, [64, 256])]
    return model([node], inputs, [value("y", TensorProto.FLOAT, [64, 64])], [numpy_helper.from_array(weights, "w")])


def qdq() -> Model:
    """Two convolutions between quantisers: INT8 by Q/DQ."""
    random = np.random.default_rng(2)
    nodes: list[onnx.NodeProto] = []
    weights = [numpy_helper.from_array(np.array(0, np.int8), "zero")]
    current = "x"
    for i, (read, made) in enumerate(((3, 16), (16, 8))):
        kernel = (random.standard_normal((made, read, 3, 3)) * 0.2).astype(np.float32)
        weights += [
            numpy_helper.from_array(kernel, f"w{i}"),
            numpy_helper.from_array(np.array(0.03, np.float32), f"sx{i}"),
            numpy_helper.from_array(np.array(np.abs(kernel).max() / 127, np.float32), f"sw{i}"),
        ]
        for tensor, scale in ((current, f"sx{i}"), (f"w{i}", f"sw{i}")):
            quantised = [tensor, scale, "zero"]
            nodes.append(helper.make_node("QuantizeLinear", quantised, [f"{tensor}_q"], name=f"q_{tensor}"))
            dequantised = [f"{tensor}_q", scale, "zero"]
            nodes.append(helper.make_node("DequantizeLinear", dequantised, [f"{tensor}_dq"], name=f"dq_{tensor}"))
        read_by = [f"{current}_dq", f"w{i}_dq"]
        nodes.append(helper.make_node("Conv", read_by, [f"c{i}"], name=f"conv{i}", pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"r{i}"], name=f"relu{i}"))
        current = f"r{i}"
    nodes[-1].output[0] = "y"
    inputs = [value("x", TensorProto.FLOAT, [1, 3, 32, 32])]
    return model(nodes, inputs, [value("y", TensorProto.FLOAT, [1, 8, 32, 32])], weights, name="qdq_conv")


def plugin() -> Model:
    """An operator that no library has (C15)."""
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], name="r0"),
        helper.make_node("LeakyThing", ["r"], ["y"], name="lt", domain="my.ops"),
    ]
    inputs = [value("x", TensorProto.FLOAT, [2])]
    return model(nodes, inputs, [value("y", TensorProto.FLOAT, [2])], domains=["my.ops"])


def doubles() -> Model:
    """DOUBLE, which TensorRT rounds to FP32 or refuses (C14)."""
    node = helper.make_node("Add", ["x", "w"], ["y"], name="add")
    inputs, outputs = [value("x", TensorProto.DOUBLE, [2])], [value("y", TensorProto.DOUBLE, [2])]
    return model([node], inputs, outputs, [numpy_helper.from_array(np.array([1e-300, 2.0]), "w")])
