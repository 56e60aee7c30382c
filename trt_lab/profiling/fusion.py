"""What went into which layer, and which neighbours did not fuse, with the likely reason.

A reason is what the graph and the layers show; why the builder chose so, it does not tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from trt_lab.compare.align import LayerMap
from trt_lab.errors import RecordError
from trt_lab.graph.view import GraphView
from trt_lab.profiling.shares import tensor_bytes
from trt_lab.profiling.source import Engine
from trt_lab.types import LayerTensor, NodeId, TensorId

SplitReason = Literal["probe", "output", "type_change", "reformat", "extra_reader", "join", "backend", "pattern"]

_MYELIN = ("kgen", "gemm", "fusion", "shape_call", "myelin", "conv", "mha")


@dataclass(frozen=True, slots=True)
class Group:
    """The nodes that one layer computes."""

    layer: int
    name: str
    type: str
    nodes: tuple[NodeId, ...]
    time_ms: float | None


@dataclass(frozen=True, slots=True)
class Split:
    """Two neighbours in different layers, so that the tensor between them is written to memory and read again.

    Attributes:
        tensor: What goes from `node` to `reader`.
        layer, reader_layer: Where they are computed.
        reason: See `text`; the first that holds, in the order of `SplitReason`.
        reformat: The layer that changes type or layout in between.
        tensor_bytes: Of the tensor, None where its size is not known.
    """

    tensor: TensorId
    node: NodeId
    reader: NodeId
    layer: int
    reader_layer: int
    reason: SplitReason
    text: str
    reformat: int | None = None
    tensor_bytes: int | None = None


@dataclass(frozen=True)
class Fusion:
    """Attributes: groups in the engine's order; splits in graph order."""

    groups: tuple[Group, ...]
    splits: tuple[Split, ...]

    @property
    def fused_nodes(self) -> int:
        """Nodes that share a layer with another."""
        return sum(len(group.nodes) for group in self.groups if len(group.nodes) > 1)


def fusion(engine: Engine) -> Fusion:
    """Groups and splits of an engine.

    Raises:
        RecordError: Its graph is not known, so neighbours are not.
    """
    if engine.map is None or engine.view is None:
        raise RecordError(f"{engine.label}: no ONNX graph is known; give the model it was built from.")
    return Fusion(groups(engine), tuple(_Splits(engine, engine.map, engine.view).find()))


def groups(engine: Engine) -> tuple[Group, ...]:
    """Layers that compute nodes. Without a graph, the nodes that they name."""
    found = []
    for layer in engine.layers:
        told = layer.nodes if engine.map is None else engine.map.nodes_of(layer.index)
        nodes = told if engine.map is None else tuple(n for n in told if layer.index in engine.map.computed_in(n))
        if nodes:
            time = engine.time_of.get(layer.index)
            found.append(Group(layer.index, layer.name, layer.type, nodes, time.average_ms if time else None))
    return tuple(found)


class _Splits:
    """Looks at each edge of the graph whose two ends are in layers."""

    def __init__(self, engine: Engine, found: LayerMap, view: GraphView) -> None:
        self._view, self._map = view, found
        self._layers = {layer.index: layer for layer in engine.layers}
        probes = engine.facts.get("probes")
        self._probes = set(probes) if isinstance(probes, dict) else set()
        self._reformats: dict[NodeId, list[int]] = {}
        for link in found.links:
            if link.role == "serves":
                self._reformats.setdefault(link.node, []).append(link.layer)

    def find(self) -> Iterator[Split]:
        for node in self._view.nodes:
            places = self._map.computed_in(node)
            for tensor in self._view.nodes[node].outputs if places else ():
                if tensor is not None:
                    yield from self._at(node, places[-1], tensor)  # the last layer of a node makes its output

    def _at(self, node: NodeId, here: int, tensor: TensorId) -> Iterator[Split]:
        for reader in self._readers(tensor):
            places = self._map.computed_in(reader)
            if places and not set(places) & set(self._map.computed_in(node)):
                reason, text, reformat = self._reason(node, here, tensor, reader, places[0])
                info = self._view.tensors[tensor]
                size = tensor_bytes(self._dtype(tensor, here) or info.dtype, info.shape)
                yield Split(tensor, node, reader, here, places[0], reason, text, reformat, size)

    def _readers(self, tensor: TensorId) -> list[NodeId]:
        """Readers that have a layer; through nodes that need none."""
        found: dict[NodeId, None] = {}
        waiting, seen = [tensor], {tensor}
        while waiting:
            for reader in self._view.tensors[waiting.pop()].consumers:
                if self._map.computed_in(reader):
                    found[reader] = None
                elif self._map.node_reasons[reader].kind in ("no_op", "data_movement", "quantization"):
                    made = [t for t in self._view.nodes[reader].outputs if t and t not in seen]
                    seen.update(made)
                    waiting += made
        return list(found)

    def _reason(
        self, node: NodeId, here: int, tensor: TensorId, reader: NodeId, there: int
    ) -> tuple[SplitReason, str, int | None]:
        a, b = self._layers[here], self._layers[there]
        info = self._view.tensors[tensor]
        between = self._between(tensor, here, there, reader)
        if tensor in self._probes:
            return "probe", "a probe stands on the tensor, so it must exist in memory", between
        if info.is_output:
            return "output", "the tensor is an output of the model, so it must exist in memory", between
        before, behind = _type(a.outputs, tensor) or a.precision, _type(b.inputs, tensor) or b.precision
        if before and behind and before != behind and "tf32" not in (before, behind):
            return "type_change", f"the type changes from {before} to {behind}", between
        if between is not None:
            return "reformat", f"the layout changes in layer {between}", between
        others = [n for n in info.consumers if n != reader and self._map.computed_in(n)]
        apart = [n for n in others if not set(self._map.computed_in(n)) & {here, there}]
        if apart:
            return "extra_reader", f"'{apart[0]}' reads the tensor too, in another layer", None
        late = self._late_input(reader, tensor, here)
        if late is not None:
            return "join", f"'{reader}' also waits for '{late}' from another layer", None
        if (a.type in _MYELIN) != (b.type in _MYELIN):
            return "backend", f"{a.type} and {b.type} are made by different parts of the builder", None
        ops = (self._view.nodes[node].op_type, self._view.nodes[reader].op_type)
        return "pattern", f"{ops[0]} followed by {ops[1]} is no fusion that the builder took here", None

    def _between(self, tensor: TensorId, here: int, there: int, reader: NodeId) -> int | None:
        """A reformat that reads what `here` makes and makes what `there` reads."""
        made = {t.name for t in self._layers[here].outputs} | {tensor}
        read = {t.name for t in self._layers[there].inputs}
        for index in self._reformats.get(reader, ()):
            layer = self._layers[index]
            if any(t.name in made for t in layer.inputs) and any(t.name in read for t in layer.outputs):
                return index
        return None

    def _late_input(self, reader: NodeId, tensor: TensorId, here: int) -> TensorId | None:
        for other in self._view.nodes[reader].inputs:
            if other is None or other == tensor:
                continue
            made_by = self._view.tensors[other].producer
            places = self._map.computed_in(made_by) if made_by is not None else ()
            if places and here not in places and not set(places) & set(self._map.computed_in(reader)):
                return other
        return None

    def _dtype(self, tensor: TensorId, here: int) -> str | None:
        return _type(self._layers[here].outputs, tensor)


def _type(tensors: Iterable[LayerTensor], name: str) -> str | None:
    """Type of the tensor of that name; of the only one, where the engine gave it a name of its own."""
    given = list(tensors)
    for tensor in given:
        if tensor.name == name:
            return tensor.dtype
    return given[0].dtype if len(given) == 1 else None
