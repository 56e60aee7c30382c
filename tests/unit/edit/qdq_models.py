"""Quantised models made by hand, and a plain run of ONNX Runtime to hold them against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from trt_lab.model import Model

CHANNELS = 4
RANDOM = np.random.default_rng(7)
W0 = RANDOM.standard_normal((CHANNELS, 3, 3, 3)).astype(np.float32)
W1 = RANDOM.standard_normal((CHANNELS, CHANNELS, 1, 1)).astype(np.float32)


def run(
    model: Model | onnx.ModelProto, feeds: Mapping[str, np.ndarray], wanted: Sequence[str] = ()
) -> list[np.ndarray]:
    """Outputs, unoptimised."""
    proto = model.proto() if isinstance(model, Model) else model
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [np.asarray(value) for value in session.run(list(wanted) or None, dict(feeds))]


def samples(count: int = 3) -> list[dict[str, np.ndarray]]:
    """Inputs of `two_convs`."""
    random = np.random.default_rng(11)
    return [{"x": random.standard_normal((1, 3, 6, 6)).astype(np.float32)} for _ in range(count)]


def scale_of(values: np.ndarray, axis: int | None = None) -> np.ndarray:
    """The symmetric INT8 scale of a tensor, or those of its channels."""
    magnitudes = np.abs(values)
    others = tuple(i for i in range(values.ndim) if i != axis)
    return np.asarray(magnitudes.max(axis=None if axis is None else others) / 127, np.float32)


def two_convs(*, stored: bool = False, output: bool = False, x_scale: float = 0.03, per_channel: bool = True) -> Model:
    """x → Q/DQ → Conv a → Relu → Q/DQ, which two read: Conv b and Neg; y = b + neg.

    Args:
        stored: The weight of `b` is in the file as integers, with no QuantizeLinear.
        output: Another Q/DQ gives out y.
        x_scale: Scale of the input.
    """
    axis = 0 if per_channel else None
    weights: dict[str, np.ndarray] = {
        "sx": np.array(x_scale, np.float32), "zx": np.array(0, np.int8),
        "sr": np.array(0.2, np.float32), "zr": np.array(0, np.int8),
        "w0": W0, "s0": scale_of(W0, axis), "z0": np.zeros(np.shape(scale_of(W0, axis)), np.int8),
        "s1": scale_of(W1, axis), "z1": np.zeros(np.shape(scale_of(W1, axis)), np.int8),
    }  # fmt: skip
    nodes = [
        *_qdq("x", "x", "sx", "zx"),
        *_qdq("w0", "w0", "s0", "z0", axis=0),
        helper.make_node("Conv", ["x_dq", "w0_dq"], ["a_out"], name="a", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a_out"], ["r"], name="relu"),
        *_qdq("r", "r", "sr", "zr"),
    ]
    if stored:
        steps = W1 / np.reshape(scale_of(W1, axis), (-1, 1, 1, 1) if per_channel else ())
        weights["w1_quantized"] = np.clip(np.rint(steps), -128, 127).astype(np.int8)
        nodes.append(
            helper.make_node("DequantizeLinear", ["w1_quantized", "s1", "z1"], ["w1_dq"], name="w1_dq_node", axis=0)
        )
    else:
        weights["w1"] = W1
        nodes += _qdq("w1", "w1", "s1", "z1", axis=0)
    nodes += [
        helper.make_node("Conv", ["r_dq", "w1_dq"], ["b_out"], name="b"),
        helper.make_node("Neg", ["r_dq"], ["n_out"], name="neg"),
        helper.make_node("Add", ["b_out", "n_out"], ["sum" if output else "y"], name="add"),
    ]
    if output:
        weights |= {"sy": np.array(0.1, np.float32), "zy": np.array(0, np.int8)}
        nodes += _qdq("sum", "sum", "sy", "zy", restored="y")
    return make("two_convs", nodes, weights, {"x": [1, 3, 6, 6]}, {"y": [1, CHANNELS, 6, 6]})


def float_convs() -> Model:
    """What `two_convs` was made of."""
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a_out"], name="a", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a_out"], ["r"], name="relu"),
        helper.make_node("Conv", ["r", "w1"], ["b_out"], name="b"),
        helper.make_node("Neg", ["r"], ["n_out"], name="neg"),
        helper.make_node("Add", ["b_out", "n_out"], ["y"], name="add"),
    ]
    return make("two_convs_float", nodes, {"w0": W0, "w1": W1}, {"x": [1, 3, 6, 6]}, {"y": [1, CHANNELS, 6, 6]})


def one_pair(scale: object, zero_point: object, shape: Sequence[int], *, axis: int = 1, opset: int = 19) -> Model:
    """x → QuantizeLinear `q` → DequantizeLinear `dq` → Identity → y."""
    nodes = [*_qdq("x", "", "s", "z", axis=axis), helper.make_node("Identity", ["x_dq"], ["y"], name="id")]
    weights = {"s": np.asarray(scale, np.float32), "z": np.asarray(zero_point)}
    return make("one_pair", nodes, weights, {"x": list(shape)}, {"y": list(shape)}, opset=opset)


def weight_pair(weight: np.ndarray, scale: object, axis: int = 0) -> Model:
    """y = x · DQ(Q(weight)), the scale by channel."""
    count = np.asarray(scale).shape
    nodes = [
        *_qdq("w", "w", "s", "z", axis=axis),
        helper.make_node("MatMul", ["x", "w_dq"], ["y"], name="mul"),
    ]
    weights = {"w": weight.astype(np.float32), "s": np.asarray(scale, np.float32), "z": np.zeros(count, np.int8)}
    return make("weight_pair", nodes, weights, {"x": [1, weight.shape[0]]}, {"y": [1, weight.shape[1]]})


def make(
    name: str,
    nodes: Sequence[onnx.NodeProto],
    weights: Mapping[str, np.ndarray],
    inputs: Mapping[str, Sequence[int]],
    outputs: Mapping[str, Sequence[int]],
    opset: int = 17,
) -> Model:
    """A model of FLOAT inputs and outputs."""
    graph = helper.make_graph(
        list(nodes),
        name,
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in outputs.items()],
        [
            numpy_helper.from_array(np.ascontiguousarray(a), n) if a.ndim else numpy_helper.from_array(a, n)
            for n, a in weights.items()
        ],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    return Model.from_proto(proto)


def _qdq(
    tensor: str, prefix: str, scale: str, zero: str, *, axis: int | None = None, restored: str = ""
) -> list[onnx.NodeProto]:
    more = {} if axis is None else {"axis": axis}
    start = f"{prefix}_" if prefix else ""
    return [
        helper.make_node("QuantizeLinear", [tensor, scale, zero], [f"{tensor}_q"], name=f"{start}q", **more),
        helper.make_node(
            "DequantizeLinear", [f"{tensor}_q", scale, zero], [restored or f"{tensor}_dq"], name=f"{start}dq", **more
        ),
    ]
