"""Small models that the graph tests share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from trt_lab.graph import GraphView
from trt_lab.model import Model


def info(name: str, shape: Sequence[int | str] | None, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def view_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    weights: Sequence[onnx.TensorProto] = (),
    ir_version: int = 8,
    opset: int = 17,
) -> GraphView:
    graph = helper.make_graph(list(nodes), "g", list(inputs), list(outputs), list(weights))
    imports = [helper.make_opsetid("", opset)]
    return GraphView.of(Model.load(helper.make_model(graph, opset_imports=imports, ir_version=ir_version)))


def chain(count: int, name: Callable[[int], str], op_type: str = "Relu") -> GraphView:
    """t0 → Relu → t1 → Relu → …"""
    nodes = [helper.make_node(op_type, [f"t{i}"], [f"t{i + 1}"], name=name(i)) for i in range(count)]
    return view_of(nodes, [info("t0", [1, 4])], [info(f"t{count}", [1, 4])])


def branch(nodes: Sequence[onnx.NodeProto], output: str, weights: Sequence[onnx.TensorProto] = ()) -> onnx.GraphProto:
    return helper.make_graph(list(nodes), "branch", [], [info(output, None)], list(weights))


def weight(name: str, values: object, dtype: type[np.generic] = np.float32) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(values, dtype), name)


def from_edges(count: int, edges: Sequence[tuple[int, int]], names: Callable[[int], str]) -> GraphView:
    """A graph of `count` Sum nodes; each edge goes from a lower to a higher number; sources read the input."""
    reads: list[list[str]] = [[] for _ in range(count)]
    read: set[int] = set()
    for source, target in edges:
        reads[target].append(f"t{source}")
        read.add(source)
    nodes = [helper.make_node("Sum", reads[i] or ["x"], [f"t{i}"], name=names(i)) for i in range(count)]
    outputs = [info(f"t{i}", [1]) for i in range(count) if i not in read]
    return view_of(nodes, [info("x", [1])], outputs)


def transformer(blocks: int, scoped: bool = True) -> GraphView:
    """Blocks as real exports write them: 19 nodes each, a mask that every block reads, two residuals."""
    nodes: list[onnx.NodeProto] = []

    def add(op_type: str, reads: Sequence[str], name: str) -> str:
        label = name if scoped else name.strip("/").replace("/", "_")
        nodes.append(helper.make_node(op_type, list(reads), [f"{label}_output_0"], name=label))
        return f"{label}_output_0"

    current = "x"
    for block in range(blocks):
        path = f"/layers.{block}"
        normal = add("Sigmoid", [current], f"{path}/ln1/Sigmoid")
        heads = [add("Relu", [add("Tanh", [normal], f"{path}/attn/{h}/Tanh")], f"{path}/attn/{h}/Relu") for h in "qkv"]
        scores = add("Add", [add("Mul", heads[:2], f"{path}/attn/Mul"), "mask"], f"{path}/attn/Add")
        mixed = add("Mul", [add("Softmax", [scores], f"{path}/attn/Softmax"), heads[2]], f"{path}/attn/Mul_1")
        current = add("Add", [current, add("Relu", [mixed], f"{path}/attn/out/Relu")], f"{path}/Add")
        inner = add("Relu", [add("Sigmoid", [current], f"{path}/ln2/Sigmoid")], f"{path}/mlp/fc1/Relu")
        inner = add("Mul", [inner, add("Sigmoid", [inner], f"{path}/mlp/act/Sigmoid")], f"{path}/mlp/act/Mul")
        current = add("Add", [current, add("Relu", [inner], f"{path}/mlp/fc2/Relu")], f"{path}/Add_1")
    nodes.append(helper.make_node("Identity", [current], ["y"], name="/out/Identity"))
    return view_of(nodes, [info("x", [1, 4]), info("mask", [1, 4])], [info("y", [1, 4])])
