"""TF32 put into a model: the inputs of products rounded to 10 bits, as tensor cores do where TF32 is on.

ONNX has no type for TF32, so a cast cannot do it. Veltkamp's splitting does, in float32 alone: with c = 8193·x
(8193 = 2^13 + 1), c − (c − x) is x rounded to 11 significant bits, the nearest (T. J. Dekker, "A floating-point technique for
extending the available precision", 1971). c overflows beyond 2^114, where x is left as it is, as are infinities and NaN. Tensor cores add
up in FP32, and so does this. It is a prediction: kernels may round ties another way, and TensorRT may choose FP32 all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from trt_lab.edit.names import Names
from trt_lab.errors import EditError
from trt_lab.graph import GraphView
from trt_lab.model import Model
from trt_lab.types import NodeId

PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
_SPLIT = np.float32(2**13 + 1)
_LARGEST = np.float32(2.0**114)
_FIRST_OPSET_WITH_WHERE = 9


@dataclass(frozen=True)
class Tf32Emulated:
    """A model whose products read TF32.

    Attributes:
        model: Nodes of its main graph are called by their NodeId.
        origin: Name of each node that was added → the product it rounds for.
        products: Products that read rounded inputs.
        left: Products inside subgraphs, which are left alone.
    """

    model: Model
    origin: Mapping[str, NodeId]
    products: tuple[NodeId, ...]
    left: tuple[NodeId, ...] = ()


def emulate_tf32(model: Model) -> Tf32Emulated:
    """A copy in which Conv, ConvTranspose, Gemm and MatMul of the main graph read inputs and weights rounded to TF32.

    The third input (a bias) is added in FP32 and not rounded. A tensor with several products as readers is rounded
    once. Names, inputs and outputs stay.

    Args:
        model: Stays equal.

    Raises:
        EditError: The opset is below 9, which has no Where.
    """
    source = model.for_runtime()
    if source.opset.get("", 1) < _FIRST_OPSET_WITH_WHERE:
        raise EditError(
            f"{model.name}: opset {source.opset.get('', 1)} is too old to emulate TF32; convert it to 9 or later"
        )
    view = GraphView.of(source)
    copy = source.clone_ir()
    writer = _Writer(copy.graph, Names.of(view))
    products = []
    for old, node in zip(source.ir.graph, list(copy.graph), strict=True):
        owner = view.node_id_of(old)
        if owner is None or node.op_type not in PRODUCTS or node.domain:
            continue
        if writer.round_inputs(node, owner):
            products.append(owner)
    left = tuple(i for i, info in view.nodes.items() if info.graph and info.op_type in PRODUCTS and not info.domain)
    if not products:
        return Tf32Emulated(model, {}, (), left)
    edited = Model.from_ir(copy, path=model.path, notes=source.notes)
    return Tf32Emulated(edited, writer.origin, tuple(products), left)


class _Writer:
    """Puts the rounding in front of products of one graph."""

    def __init__(self, graph: ir.Graph, names: Names) -> None:
        self.origin: dict[str, NodeId] = {}
        self._graph = graph
        self._names = names
        self._rounded: dict[ir.Value, ir.Value] = {}
        self._constants: dict[float, ir.Value] = {}

    def round_inputs(self, node: ir.Node, owner: NodeId) -> bool:
        """Makes `node` read its first two inputs rounded; whether there was one to round."""
        found = False
        for index, value in enumerate(node.inputs[:2]):
            if value is None or value.dtype != ir.DataType.FLOAT:
                continue
            if value not in self._rounded:
                self._rounded[value] = self._round(value, node, owner)
            node.replace_input_with(index, self._rounded[value])
            found = True
        return found

    def _round(self, value: ir.Value, before: ir.Node, owner: NodeId) -> ir.Value:
        split, largest = (self._constant(float(n), before, owner) for n in (_SPLIT, _LARGEST))
        size = self._add("Abs", [value], value, before, owner)
        inside = self._add("Less", [size, largest], value, before, owner, ir.DataType.BOOL)
        scaled = self._add("Mul", [value, split], value, before, owner)
        rest = self._add("Sub", [scaled, value], value, before, owner)
        high = self._add("Sub", [scaled, rest], value, before, owner)
        return self._add("Where", [inside, high, value], value, before, owner)

    def _add(
        self,
        op_type: str,
        inputs: list[ir.Value],
        like: ir.Value,
        before: ir.Node,
        owner: NodeId,
        kind: ir.DataType = ir.DataType.FLOAT,
    ) -> ir.Value:
        name = f"{like.name}_tf32_{op_type}"
        shape = None if like.shape is None else like.shape.copy()
        made = ir.Value(name=self._names.tensor(name), type=ir.TensorType(kind), shape=shape)
        self._insert(ir.Node("", op_type, inputs, name=self._names.node(name), outputs=[made]), before, owner)
        return made

    def _constant(self, number: float, before: ir.Node, owner: NodeId) -> ir.Value:
        if number not in self._constants:
            tensor = ir.tensor(np.float32(number), dtype=ir.DataType.FLOAT)
            made = ir.Value(name=self._names.tensor("tf32"), type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(()))
            node = ir.Node(
                "", "Constant", [], [ir.AttrTensor("value", tensor)], name=self._names.node("tf32"), outputs=[made]
            )
            self._insert(node, before, owner)
            self._constants[number] = made
        return self._constants[number]

    def _insert(self, node: ir.Node, before: ir.Node, owner: NodeId) -> None:
        self.origin[node.name or ""] = owner
        self._graph.insert_before(before, node)
