"""Q/DQ: the quantised tensors of a model, who reads them, and edits that give some readers the float numbers back.

A *pair* is a QuantizeLinear with the DequantizeLinear nodes that read it, or a DequantizeLinear on integers that
are stored in the file. A *layer* is a node that reads a dequantised tensor: an engine runs it on the quantised numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import onnx_ir as ir

from trt_lab.edit.lowering import is_weight
from trt_lab.edit.names import Names
from trt_lab.errors import EditError
from trt_lab.graph import GraphView
from trt_lab.model import Model
from trt_lab.types import NodeId, NodeInfo, TensorId

_DOMAINS = ("", "ai.onnx", "com.microsoft")
_DEFAULT_AXIS = 1


@dataclass(frozen=True, slots=True, eq=False)
class QdqPair:
    """One quantised tensor.

    Attributes:
        tensor: Float tensor that is quantised; the dequantised tensor where the file stores integers.
        kind: What it is; a bias is stored in 32-bit integers.
        quantize: None where the file stores integers.
        dequantizes: Nodes that turn it back; at least one.
        codes: The tensor of quantised numbers.
        restored: What `dequantizes` give out, in their order.
        scale, zero_point: As in the file, one value for a whole tensor; None when they are not constant.
        axis: Axis of the scales, None for one scale.
        block: Elements of `axis` that share a scale; 0 where each has its own.
        dtype: Type of the quantised numbers, as in `TensorInfo.dtype`.
    """

    tensor: TensorId
    kind: Literal["activation", "weight", "bias"]
    quantize: NodeId | None
    dequantizes: tuple[NodeId, ...]
    codes: TensorId
    restored: tuple[TensorId, ...]
    scale: np.ndarray | None
    zero_point: np.ndarray | None
    axis: int | None
    block: int
    dtype: str

    @property
    def source(self) -> TensorId | None:
        """The float tensor, None where the file stores integers only."""
        return self.tensor if self.quantize is not None else None

    @property
    def node(self) -> NodeId:
        """The node that an error names: the QuantizeLinear, else the first DequantizeLinear."""
        return self.quantize if self.quantize is not None else self.dequantizes[0]


@dataclass(frozen=True, slots=True)
class QdqLayer:
    """One node that runs on quantised numbers.

    Attributes:
        node: The reader; for a quantised output of the model, the DequantizeLinear that makes it.
        reads: Dequantised tensors that it reads, each once.
        pairs: Places in `Qdq.pairs` of these.
    """

    node: NodeId
    reads: tuple[TensorId, ...]
    pairs: tuple[int, ...]


@dataclass(frozen=True)
class Qdq:
    """All Q/DQ of a main graph.

    Attributes:
        pairs, layers: In graph order.
        floats: Dequantised tensor → float tensor that it stands for; those stored as integers are left out.
        notes: What was not understood, one line each.
    """

    pairs: tuple[QdqPair, ...]
    layers: tuple[QdqLayer, ...]
    floats: Mapping[TensorId, TensorId] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def is_quantize(info: NodeInfo) -> bool:
    """Whether a node is a QuantizeLinear of ONNX or of ONNX Runtime."""
    return info.op_type == "QuantizeLinear" and info.domain in _DOMAINS


def is_dequantize(info: NodeInfo) -> bool:
    """Whether a node is a DequantizeLinear of ONNX or of ONNX Runtime."""
    return info.op_type == "DequantizeLinear" and info.domain in _DOMAINS


def find_qdq(view: GraphView) -> Qdq:
    """Pairs and layers of the main graph; made once a model."""
    known = view.model.memo.get("qdq")
    if not isinstance(known, Qdq):
        known = view.model.memo["qdq"] = _find(view)
    return known


def _find(view: GraphView) -> Qdq:
    nodes = view.graphs[""].nodes
    by_codes: dict[TensorId, list[NodeId]] = {}
    for node in nodes:
        info = view.nodes[node]
        if is_dequantize(info) and info.inputs[0] is not None and info.outputs[0] is not None:
            by_codes.setdefault(info.inputs[0], []).append(node)
    pairs: list[QdqPair] = []
    notes: list[str] = []
    for codes, readers in sorted(by_codes.items(), key=lambda item: view.order(item[0])):
        pair = _pair(view, codes, tuple(readers))
        if pair is None:
            notes.append(
                f"'{readers[0]}' dequantises '{codes}', which a node makes that is no QuantizeLinear: left out"
            )
        else:
            pairs.append(pair)
    lone = [n for n in nodes if is_quantize(view.nodes[n]) and view.nodes[n].outputs[0] not in by_codes]
    notes += [f"nothing dequantises what '{node}' makes: its readers compute with integers, left out" for node in lone]
    others = [n for n in nodes if view.nodes[n].op_type in _INTEGER_OPERATORS]
    if others:
        notes.append(
            f"{len(others)} nodes compute with integers by themselves ('{others[0]}', {view.nodes[others[0]].op_type}); "
            "quantise to the QDQ format to see their tensors"
        )
    floats = {t: pair.source for pair in pairs for t in pair.restored if pair.source is not None}
    return Qdq(tuple(pairs), _layers(view, pairs), {t: _resolve(t, floats) for t in floats}, tuple(notes))


_INTEGER_OPERATORS = frozenset(
    {"QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger", "DynamicQuantizeLinear", "QGemm", "QLinearAdd"}
)


def _pair(view: GraphView, codes: TensorId, readers: tuple[NodeId, ...]) -> QdqPair | None:
    info = view.tensors[codes]
    first = view.nodes[readers[0]]
    maker = view.nodes[info.producer] if info.producer is not None else None
    restored = tuple(t for node in readers if (t := view.nodes[node].outputs[0]) is not None)
    if maker is not None and is_quantize(maker) and maker.inputs[0] is not None:
        tensor, quantize, told = maker.inputs[0], maker.id, maker
    elif is_weight(view, codes):
        tensor, quantize, told = restored[0], None, first
    else:
        return None
    constant = quantize is None or is_weight(view, tensor)
    dtype = info.dtype or "unknown"
    kind: Literal["activation", "weight", "bias"] = (
        "bias" if dtype == "int32" else "weight" if constant else "activation"
    )
    scale, zero_point = _parameter(view, told, 1), _parameter(view, told, 2)
    rank = len(view.tensors[tensor].shape or ()) or len(info.shape or ())
    axis = _axis(told, scale, rank)
    block = int(told.attributes.get("block_size", "0"))
    return QdqPair(
        tensor,
        kind,
        quantize,
        readers,
        codes,
        restored,
        scale,
        zero_point,
        axis,
        block if axis is not None else 0,
        dtype,
    )


def _parameter(view: GraphView, info: NodeInfo, index: int) -> np.ndarray | None:
    tensor = info.inputs[index] if index < len(info.inputs) else None
    if tensor is None:
        return np.zeros((), np.int64) if index == 2 else None
    return view.constant(tensor) if is_weight(view, tensor) else None


def _axis(info: NodeInfo, scale: np.ndarray | None, rank: int) -> int | None:
    if scale is None or scale.ndim == 0 or scale.size == 1:
        return None
    axis = int(info.attributes.get("axis", _DEFAULT_AXIS))
    return axis + rank if axis < 0 else axis


def _layers(view: GraphView, pairs: Iterable[QdqPair]) -> tuple[QdqLayer, ...]:
    reads: dict[NodeId, dict[TensorId, int]] = {}
    for place, pair in enumerate(pairs):
        for tensor, dequantize in zip(pair.restored, pair.dequantizes, strict=True):
            info = view.tensors[tensor]
            if info.is_output:
                reads.setdefault(dequantize, {})[tensor] = place
            for reader in info.consumers:
                if not is_quantize(view.nodes[reader]) and not view.nodes[reader].graph:
                    reads.setdefault(reader, {})[tensor] = place
    order = {node: rank for rank, node in enumerate(view.nodes)}
    return tuple(
        _layer(view.nodes[node], found) for node, found in sorted(reads.items(), key=lambda item: order[item[0]])
    )


def _layer(info: NodeInfo, found: Mapping[TensorId, int]) -> QdqLayer:
    """A layer, its tensors in the order in which the node reads them."""
    reads = [t for t in dict.fromkeys(info.inputs) if t is not None and t in found] or list(found)
    return QdqLayer(info.id, tuple(reads), tuple(dict.fromkeys(found[t] for t in reads)))


def _resolve(tensor: TensorId, floats: Mapping[TensorId, TensorId]) -> TensorId:
    """The float tensor behind one or several Q/DQ."""
    while tensor in floats:
        tensor = floats[tensor]
    return tensor


# --- edits -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Dequantised:
    """A model some of whose layers read float numbers again.

    Attributes:
        model: The very model given when nothing had to change.
        layers: Those that read float numbers now, in graph order.
        notes: What could not be done, one line each.
    """

    model: Model
    layers: tuple[NodeId, ...] = ()
    notes: tuple[str, ...] = ()


def dequantise(
    model: Model, layers: Collection[str] | None = None, *, weights: Mapping[TensorId, np.ndarray] | None = None
) -> Dequantised:
    """Takes Q/DQ away before `layers`, and all Q/DQ nodes that nothing reads any more.

    Cases: (1) a layer reads what the pair quantises; (2) an output of the model is given out by an Identity, so that
    it keeps its name; (3) integers stored in the file become `weights`, or stay, with a note, without them;
    (4) a tensor that other layers read keeps its Q/DQ for those.

    Args:
        model: Stays equal.
        layers: Ids as in `Qdq.layers`; all of them by default.
        weights: Dequantised tensor → float values, as the model had them before it was quantised.

    Raises:
        EditError: No such layer.
    """
    view = GraphView.of(model)
    found = find_qdq(view)
    known = {layer.node: layer for layer in found.layers}
    for name in layers or ():
        if name not in known:
            shown = ", ".join(f"'{node}'" for node in list(known)[:6]) or "none"
            raise EditError(f"{model.name}: '{name}' reads no quantised tensor; layers that do: {shown}")
    chosen = tuple(layer for layer in found.layers if layers is None or layer.node in layers)
    if not chosen:
        return Dequantised(model)
    draft = _Draft(view, found, weights or {})
    for layer in chosen:
        draft.free(layer)
    draft.drop_unread()
    done = Model.from_ir(draft.copy, path=model.path, notes=model.notes)
    return Dequantised(done, tuple(layer.node for layer in chosen), tuple(draft.notes))


def quantise_only(
    model: Model, layers: Collection[str], *, weights: Mapping[TensorId, np.ndarray] | None = None
) -> Dequantised:
    """Leaves Q/DQ before `layers` only: one quantised at a time. Raises EditError when there is no such layer."""
    found = find_qdq(GraphView.of(model))
    known = [layer.node for layer in found.layers]
    if not set(layers) <= set(known):
        return dequantise(model, layers)  # which says what is wrong
    rest = [node for node in known if node not in layers]
    return dequantise(model, rest, weights=weights) if rest else Dequantised(model)


def remove_pair(model: Model, tensor: str) -> Dequantised:
    """Takes the Q/DQ of one tensor away for all its readers. Raises EditError when it has none."""
    view = GraphView.of(model)
    found = find_qdq(view)
    place = next((i for i, pair in enumerate(found.pairs) if tensor in (pair.tensor, pair.codes, *pair.restored)), None)
    if place is None:
        raise EditError(
            f"{model.name}: tensor '{tensor}' is not quantised; name one of the pairs of `trt-lab quantize`"
        )
    pair = found.pairs[place]
    draft = _Draft(view, found, {})
    for layer in found.layers:
        if place in layer.pairs:
            draft.free(QdqLayer(layer.node, tuple(t for t in layer.reads if t in pair.restored), (place,)))
    draft.drop_unread()
    return Dequantised(Model.from_ir(draft.copy, path=model.path, notes=model.notes), (), tuple(draft.notes))


class _Draft:
    """A copy of the model while Q/DQ are taken out of it."""

    def __init__(self, view: GraphView, found: Qdq, weights: Mapping[TensorId, np.ndarray]) -> None:
        self._view, self._found, self._weights = view, found, weights
        self.copy = view.model.clone_ir()
        self._nodes = dict(zip(view.graphs[""].nodes, self.copy.graph, strict=True))
        graph = self.copy.graph
        self._values = {v.name: v for v in (*graph.inputs, *graph.initializers.values()) if v.name}
        self._values.update((v.name, v) for node in graph for v in node.outputs if v.name)
        self._names = Names.of(view)
        self._made: dict[TensorId, ir.Value] = {}
        self.notes: list[str] = []

    def free(self, layer: QdqLayer) -> None:
        """Makes a layer read float numbers."""
        for tensor in layer.reads:
            wanted = self._float(tensor)
            if wanted is None:
                self.notes.append(
                    f"'{layer.node}' keeps reading '{tensor}': the file stores integers, and the FP32 model was not given"
                )
                continue
            value = self._values[self._view.tensors[tensor].name]
            if is_dequantize(self._view.nodes[layer.node]):
                self._give_out(value, wanted)
                continue
            node = self._nodes[layer.node]
            for index, read in enumerate(node.inputs):
                if read is value:
                    node.replace_input_with(index, wanted)

    def _float(self, tensor: TensorId) -> ir.Value | None:
        source = self._found.floats.get(tensor)
        if source is not None:
            return self._values[self._view.tensors[source].name]
        if tensor not in self._weights:
            return None
        if tensor not in self._made:
            name = self._names.tensor(f"{self._view.tensors[tensor].name}_float")
            held = ir.tensor(np.ascontiguousarray(self._weights[tensor], np.float32), name=name)
            made = ir.Value(
                name=name, type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(held.shape.numpy()), const_value=held
            )
            self.copy.graph.register_initializer(made)
            self._made[tensor] = made
        return self._made[tensor]

    def _give_out(self, value: ir.Value, wanted: ir.Value) -> None:
        """An output keeps its name: an Identity makes it, and readers of the dequantised tensor keep theirs."""
        name = value.name or ""
        value.name = self._names.tensor(f"{name}_quantised")
        made = ir.Value(name=name, type=value.type, shape=None if value.shape is None else value.shape.copy())
        self.copy.graph.append(
            ir.Node("", "Identity", [wanted], name=self._names.node(f"{name}_float"), outputs=[made])
        )
        outputs = self.copy.graph.outputs
        for index, output in enumerate(outputs):
            if output is value:
                outputs[index] = made

    def drop_unread(self) -> None:
        """Removes Q/DQ nodes that nothing reads, and what only they read."""
        graph = self.copy.graph
        for node in reversed(list(graph)):
            if node.op_type not in ("QuantizeLinear", "DequantizeLinear"):
                continue
            if any(list(output.uses()) or output in graph.outputs for output in node.outputs):
                continue
            read = [value for value in node.inputs if value is not None]
            graph.remove(node, safe=True)
            for value in read:
                name = value.name or ""
                if name in graph.initializers and not list(value.uses()) and value not in graph.outputs:
                    del graph.initializers[name]
