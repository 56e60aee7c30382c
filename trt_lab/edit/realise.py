"""The two realisations of a `Lowering`: Cast pairs around FP32 nodes, and a typed ONNX."""

from __future__ import annotations

from collections.abc import Iterable

import ml_dtypes
import numpy as np
import onnx_ir as ir

from trt_lab.edit.lowering import Lowering, Read, constant_tensor
from trt_lab.edit.names import Names
from trt_lab.edit.probe import is_probe
from trt_lab.edit.schema import FIRST_IR_WITH_FREE_INITIALIZERS, OUTPUT_TYPE_ATTRIBUTE, LowPrecision
from trt_lab.errors import EditError
from trt_lab.graph import GraphView
from trt_lab.model import Model
from trt_lab.types import NodeId, TensorId

LOW_DTYPES: dict[LowPrecision, ir.DataType] = {"fp16": ir.DataType.FLOAT16, "bf16": ir.DataType.BFLOAT16}
_NUMPY: dict[LowPrecision, np.dtype] = {"fp16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}

_HELD_BYTES = 1024 * 1024
"""Rounded weights up to this size are kept with the model; larger ones are rounded when they are written."""

_FIRST_OPSET_WITH_CAST_NUMBERS = 6  # `to` of Cast was a string before


class Draft:
    """A copy of the model while one realisation is written into it."""

    def __init__(self, lowering: Lowering, source: Model) -> None:
        """Copies `source`; each node of the main graph is then called by its NodeId."""
        self.lowering = lowering
        self.source = source
        self.model = source.clone_ir()
        self.graph = self.model.graph
        self.view = GraphView.of(source)
        self.low_type = LOW_DTYPES[lowering.low]
        self.names = Names.of(self.view)
        self.origin: dict[str, NodeId] = {str(new): old for new, old in lowering.inlined.origin.items()}
        self.nodes: dict[NodeId, ir.Node] = {}
        walk = ir.traversal.RecursiveGraphIterator
        for old, new in zip(walk(source.ir.graph), walk(self.graph), strict=True):
            node_id = self.view.node_id_of(old)
            if node_id is not None:
                self.nodes[node_id] = new
        for node_id in self.view.graphs[""].nodes:
            self.nodes[node_id].name = str(node_id)
        self.values: dict[str, ir.Value] = {
            v.name: v for v in (*self.graph.inputs, *self.graph.initializers.values()) if v.name
        }
        self.values.update((v.name, v) for node in self.graph for v in node.outputs if v.name)

    def cast(self, source: ir.Value, to: ir.DataType, name: str, owner: NodeId) -> ir.Value:
        """Puts a Cast right behind `source`; its output is called `name`, which must be free."""
        suffix = "fp32" if to == ir.DataType.FLOAT else self.lowering.low
        made = ir.Value(name=name, type=ir.TensorType(to), shape=None if source.shape is None else source.shape.copy())
        base = (source.name or "").removesuffix(f"_{self.lowering.low}")
        node = ir.Node(
            "", "Cast", [source], [self.cast_attribute(to)], name=self.names.node(f"{base}_to_{suffix}"), outputs=[made]
        )
        self.origin[node.name or ""] = self.lowering.inlined.origin.get(owner, owner)
        producer = source.producer()
        if producer is not None:
            self.graph.insert_after(producer, node)
        else:
            self.graph.insert_before(self.graph[0], node)
        return made

    def cast_attribute(self, to: ir.DataType) -> ir.Attr:
        """Attribute `to` of a Cast at the model's opset."""
        if self.graph.opset_imports.get("", 1) < _FIRST_OPSET_WITH_CAST_NUMBERS:
            return ir.AttrString("to", to.name)
        return ir.AttrInt64("to", int(to))

    def rewire(self, reads: Iterable[Read], to: ir.Value) -> None:
        """Makes these readings read `to`."""
        for read in reads:
            self.nodes[read.node].replace_input_with(read.index, to)

    def replace_output(self, old: ir.Value, new: ir.Value) -> None:
        """Puts `new` wherever `old` is a graph output."""
        for index, value in enumerate(self.graph.outputs):
            if value is old:
                self.graph.outputs[index] = new

    def set_weights(self, *, typed: bool) -> None:
        """Gives low readers their weights: in place when nothing else reads them, else a copy."""
        for tensor, reads in self.lowering.weights.items():
            value = self.values[tensor]
            bounds = tuple(read for read in reads if self._is_bound(read))
            others = tuple(read for read in reads if read not in bounds)
            shared = tensor in self.lowering.shared_weights
            for mine, bound in ((others, False), (bounds, True)):
                if not mine:
                    continue
                if not shared and not (bound and others):
                    self._fill(value, self._rounded(tensor, value.name or "", typed=typed, bound=bound))
                    continue
                name = self.names.tensor(f"{value.name}_{self.lowering.low}")
                rounded = self._rounded(tensor, name, typed=typed, bound=bound)
                self.rewire(mine, self._new_constant(rounded, name, mine[0].node))

    def _is_bound(self, read: Read) -> bool:
        """Whether it is the smallest or largest value of a Clip."""
        node = self.nodes[read.node]
        return node.op_type == "Clip" and not node.domain and read.index > 0

    def _fill(self, value: ir.Value, rounded: ir.TensorProtocol) -> None:
        producer = value.producer()
        value.type = ir.TensorType(rounded.dtype)
        if producer is None:
            value.const_value = rounded
            return
        for attribute in ("value_float", "value_floats", "sparse_value"):
            producer.attributes.pop(attribute, None)
        producer.attributes["value"] = ir.AttrTensor("value", rounded)

    def _new_constant(self, tensor: ir.TensorProtocol, name: str, owner: NodeId) -> ir.Value:
        value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(tensor.shape.numpy()))
        if (self.model.ir_version or 0) >= FIRST_IR_WITH_FREE_INITIALIZERS:
            value.const_value = tensor
            self.graph.register_initializer(value)
            return value
        node = ir.Node(
            "", "Constant", [], [ir.AttrTensor("value", tensor)], name=self.names.node(name), outputs=[value]
        )
        self.origin[node.name or ""] = self.lowering.inlined.origin.get(owner, owner)
        self.graph.insert_before(self.graph[0], node)
        return value

    def _rounded(self, tensor: TensorId, name: str, *, typed: bool, bound: bool) -> ir.TensorProtocol:
        """A weight in the low type, or rounded to it and stored as float32. A bound of a Clip stays finite."""
        low, dtype = self.lowering.low, self.low_type if typed else ir.DataType.FLOAT
        model = self.source
        held = model.memo.setdefault(f"rounded.{low}.{dtype.name}", {})
        assert isinstance(held, dict)
        key = (tensor, name, bound)
        if key in held:
            return held[key]
        source = constant_tensor(self.view.ir_value(tensor))
        if source is None:
            raise EditError(
                f"{model.name}: the values of '{tensor}' are not in the file, so they cannot be rounded; "
                "take a model with its weights"
            )

        def convert() -> ir.TensorProtocol:
            rounded = _round(source, tensor, model.name, low, typed=typed, bound=bound)
            return ir.tensor(rounded, dtype=dtype, name=name)

        if source.nbytes > _HELD_BYTES:
            return ir.LazyTensor(convert, dtype, ir.Shape(source.shape.numpy()), name=name)
        held[key] = convert()
        return held[key]

    def finish(self) -> Model:
        """The edited model."""
        return Model.from_ir(self.model, path=self.source.path, notes=self.source.notes)


def _round(
    source: ir.TensorProtocol, tensor: TensorId, model: str, low: LowPrecision, *, typed: bool, bound: bool
) -> np.ndarray:
    try:
        values = source.numpy()
    except (ValueError, OSError) as error:
        raise EditError(
            f"{model}: the values of '{tensor}' cannot be read ({error}), so they cannot be rounded; take a model with its weights"
        ) from error
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # infinity is the faithful answer
        rounded = values.astype(_NUMPY[low])
        if bound:  # TensorRT takes no infinite bound, and the largest number of the type bounds all the finite ones
            largest = ml_dtypes.finfo(_NUMPY[low]).max
            rounded = np.where(np.isfinite(values), np.clip(rounded, -largest, largest), rounded)
        return rounded if typed else rounded.astype(np.float32)


def write_emulation(lowering: Lowering) -> Draft:
    """FP32 nodes with a Cast pair behind each low node and before low readers of FP32 tensors.

    The rounded tensor carries the name of the original, so that whoever reads or compares it sees what the
    engine would hold.
    """
    draft = Draft(lowering, lowering.model)
    for tensor, node_id in lowering.low_tensors.items():
        node, value = draft.nodes[node_id], draft.values[tensor]
        if is_probe(node):
            continue  # what it shows is rounded already
        name, uses = value.name or "", list(value.uses())
        if node.op_type == "Cast" and not node.domain:
            # Rounds once, as the engine does: integer → FP16, and not integer → FP32 → FP16.
            node.attributes["to"] = draft.cast_attribute(draft.low_type)
            value.name = draft.names.tensor(f"{name}_{lowering.low}")
            value.type = ir.TensorType(draft.low_type)
            half = value
        else:
            value.name = draft.names.tensor(f"{name}_exact")
            half = draft.cast(value, draft.low_type, draft.names.tensor(f"{name}_{lowering.low}"), node_id)
        rounded = draft.cast(half, ir.DataType.FLOAT, name, node_id)
        for use in uses:
            use.node.replace_input_with(use.idx, rounded)
        draft.replace_output(value, rounded)
        draft.values[tensor] = rounded
    for tensor, reads in lowering.down.items():
        value = draft.values[tensor]
        half = draft.cast(value, draft.low_type, draft.names.tensor(f"{value.name}_{lowering.low}"), reads[0].node)
        rounded = draft.cast(half, ir.DataType.FLOAT, draft.names.tensor(f"{value.name}_rounded"), reads[0].node)
        draft.rewire(reads, rounded)
    draft.set_weights(typed=False)
    return draft


def write_typed(lowering: Lowering) -> Draft:
    """Low nodes in the low type, casts only where the type changes: one a tensor and direction.

    Written at an opset whose schemas have the low type. The emulation stays at the model's own, for which
    runtimes have kernels.
    """
    draft = Draft(lowering, lowering.raised.model)
    for tensor, node_id in lowering.low_tensors.items():
        node, value = draft.nodes[node_id], draft.values[tensor]
        _set_output_type(draft, node)
        value.type = ir.TensorType(draft.low_type)
        reads = lowering.up.get(tensor, ())
        name = value.name or ""
        if tensor in lowering.up_outputs:
            value.name = draft.names.tensor(f"{name}_{lowering.low}")
            raised = draft.cast(value, ir.DataType.FLOAT, name, node_id)
            draft.replace_output(value, raised)
        elif reads:
            raised = draft.cast(value, ir.DataType.FLOAT, draft.names.tensor(f"{name}_fp32"), reads[0].node)
        else:
            continue
        draft.rewire(reads, raised)
    for tensor, reads in lowering.down.items():
        value = draft.values[tensor]
        lowered = draft.cast(value, draft.low_type, draft.names.tensor(f"{value.name}_{lowering.low}"), reads[0].node)
        draft.rewire(reads, lowered)
    draft.set_weights(typed=True)
    return draft


def _set_output_type(draft: Draft, node: ir.Node) -> None:
    """Changes the attribute that tells the output type, where an operator has one."""
    attribute = OUTPUT_TYPE_ATTRIBUTE.get(node.op_type) if not node.domain else None
    if attribute is None:
        return
    if node.op_type == "Cast":
        node.attributes["to"] = draft.cast_attribute(draft.low_type)
    elif node.op_type == "ConstantOfShape":
        given = node.attributes.get("value")
        number = np.zeros(1, np.float32) if given is None else given.as_tensor().numpy()
        with np.errstate(over="ignore", under="ignore"):
            low = number.astype(_NUMPY[draft.lowering.low])
        node.attributes["value"] = ir.AttrTensor("value", ir.tensor(low, dtype=draft.low_type))
    else:
        node.attributes[attribute] = ir.AttrInt64(attribute, int(draft.low_type))
