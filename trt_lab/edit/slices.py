"""Slices of one model, many of them and quickly: for a run part by part. `extract` makes models for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper

from trt_lab.edit.extract import read_tensors
from trt_lab.edit.lowering import is_weight
from trt_lab.graph import GraphView
from trt_lab.model import Model
from trt_lab.types import NodeId, TensorId


class Slicer:
    """Holds the file's form of a model once; a slice copies its own nodes and weights only."""

    def __init__(self, model: Model) -> None:
        """`model` is one for the runtime: in order, names unique."""
        self._view = GraphView.of(model)
        self._proto = model.proto()
        graph = self._proto.graph
        self._nodes = dict(zip(self._view.graphs[""].nodes, graph.node, strict=True))
        self._weights = {tensor.name: tensor for tensor in graph.initializer}

    def inputs(self, nodes: Sequence[NodeId]) -> tuple[TensorId, ...]:
        """What must be fed: what the nodes read and neither make nor have as weights."""
        made = {t for node in nodes for t in self._view.nodes[node].outputs}
        read = dict.fromkeys(t for node in nodes for t in read_tensors(self._view.nodes[node]))
        return tuple(t for t in read if t not in made and not is_weight(self._view, t))

    def cut(self, nodes: Sequence[NodeId], feeds: Mapping[TensorId, np.ndarray], outputs: Sequence[TensorId]) -> bytes:
        """A model of `nodes`, in the order given, with inputs of the types of `feeds`."""
        view = self._view
        names = [view.tensors[t].name for node in nodes for t in read_tensors(view.nodes[node])]
        constants = dict.fromkeys(
            p for node in nodes for t in read_tensors(view.nodes[node])
            if (p := view.tensors[t].producer) is not None and is_weight(view, t)
        )  # fmt: skip
        part = onnx.ModelProto()
        part.ir_version = self._proto.ir_version
        part.opset_import.extend(self._proto.opset_import)
        part.functions.extend(self._proto.functions)
        part.graph.name = "slice"
        part.graph.node.extend(self._nodes[node] for node in (*constants, *nodes))
        part.graph.initializer.extend(self._weights[name] for name in dict.fromkeys(names) if name in self._weights)
        for tensor, array in feeds.items():
            part.graph.input.append(
                helper.make_tensor_value_info(view.tensors[tensor].name, _number(array.dtype), None)
            )
        part.graph.output.extend(onnx.ValueInfoProto(name=view.tensors[t].name) for t in outputs)
        return part.SerializeToString()


def with_input_shapes(model: Model, shapes: Mapping[str, tuple[int, ...]]) -> Model:
    """A copy whose inputs have these shapes, and whose other shapes follow from them."""
    copy = model.clone_ir()
    for value in copy.graph.inputs:
        if value.name is not None and value.name in shapes:
            value.shape = ir.Shape(shapes[value.name])
    return Model.from_ir(copy, path=model.path, notes=model.notes)


def _number(dtype: np.dtype) -> int:
    return onnx.TensorProto.STRING if dtype.kind in "OUS" else int(ir.DataType.from_numpy(dtype))
