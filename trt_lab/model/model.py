"""The model: one ONNX graph with its weights, read once and never changed."""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import onnx
import onnx_ir as ir
from onnx_ir.serde import SerdeError

from trt_lab.errors import ModelError
from trt_lab.model.check import Cycle, parents_of, prepare, topological_order
from trt_lab.model.collection import hold_collection
from trt_lab.model.digest import hash_graph, hash_weights
from trt_lab.model.external import take_in
from trt_lab.model.infer import graphs_of, infer_into, initializers, light_proto, lighten
from trt_lab.model.naming import assign_names
from trt_lab.model.outside import set_folder, take_all_in
from trt_lab.model.read import parse, read_path
from trt_lab.tensors.atomic import file_target
from trt_lab.types import Shape

ModelSource: TypeAlias = "str | os.PathLike[str] | bytes | onnx.ModelProto | ir.Model | Model"

EXTERNAL_ABOVE_BYTES = 1_500_000_000
"""Models with more weights than this are saved with a data file beside them; protobuf ends at 2 GB."""


class Model:
    """An ONNX model, immutable. Edits make a new one.

    Nodes are in topological order, and types and shapes are inferred. Weights above 64 KB in external
    files stay there until they are read.

    Example:
        >>> model = Model.load("model.onnx")
        >>> model.name, model.opset[""]
    """

    def __init__(self, graph: ir.Model, *, path: Path | None, notes: Sequence[str], inferred: bool) -> None:
        """Use `load`, `from_proto` or `from_ir`."""
        self._model = graph
        self._path = path
        self._name: str | None = None
        self._notes = list(notes)
        self._declared: dict[ir.Value, Shape] = {}
        self._inferred = inferred
        self._lock = threading.RLock()
        self.memo: dict[str, object] = {}
        """Things derived from the model that live as long as it does (its `GraphView`)."""

    # --- making --------------------------------------------------------------------------

    @classmethod
    def load(cls, source: ModelSource, *, name: str | None = None) -> Model:
        """Opens a model; the source itself is never changed.

        Args:
            name: What to call it; by default what its file or graph is called.
            source: Path of an .onnx file, its bytes, a ModelProto, an onnx_ir.Model, or a Model (returned as it is).

        Raises:
            ModelError: Not an ONNX file, truncated, empty, opset unknown, external data missing or outside
                the model's folder, a tensor made twice or never, a cycle.
        """
        if isinstance(source, Model):
            return source
        model = cls._open(source)
        model._name = name
        return model

    @classmethod
    def _open(cls, source: ModelSource) -> Model:
        if isinstance(source, onnx.ModelProto):
            copy = onnx.ModelProto()
            copy.CopyFrom(source)
            return cls.from_proto(copy)
        if isinstance(source, ir.Model):
            return cls.from_ir(_clone(source))
        if isinstance(source, bytes | bytearray | memoryview):
            return cls.from_proto(parse(bytes(source), "the model given as bytes"))
        if isinstance(source, str | os.PathLike):
            proto, path = read_path(source)
            return cls.from_proto(proto, path=path)
        raise ModelError(
            f"cannot open a model from {type(source).__name__}: give a path, bytes, an onnx.ModelProto or an onnx_ir.Model"
        )

    @classmethod
    def from_proto(cls, proto: onnx.ModelProto, *, path: Path | None = None, notes: Sequence[str] = ()) -> Model:
        """Makes a model of `proto`, which must not be used afterwards (`load` copies instead).

        Args:
            proto: Taken over.
            path: File it came from; external data is looked for in its folder.
            notes: Lines put before those of this call.

        Raises:
            ModelError: See `load`.
        """
        label = str(path) if path is not None else f"model '{proto.graph.name or 'unnamed'}'"
        found = prepare(proto, label)
        found += take_in(proto, label, path.parent if path is not None else None)
        try:
            with hold_collection():
                graph = ir.from_proto(proto)
        except (SerdeError, ValueError, TypeError, NotImplementedError) as error:
            raise ModelError(f"{label}: {_first_cause(error)}; export the model again") from error
        if path is not None:
            set_folder(graph, path.parent)
        model = cls(graph, path=path, notes=[*notes, *found], inferred=True)
        model._infer(lighten(proto))
        return model

    @classmethod
    def from_ir(
        cls, graph: ir.Model, *, path: Path | None = None, notes: Sequence[str] = (), inferred: bool = False
    ) -> Model:
        """Makes a model of `graph`, which must not be changed afterwards (`load` copies instead).

        Types and shapes are inferred when `ir` is first asked for, unless they are `inferred` already.

        Raises:
            ModelError: The graph has no nodes or a cycle.
        """
        label = str(path) if path is not None else f"model '{graph.graph.name or 'unnamed'}'"
        if not len(graph.graph):
            raise ModelError(f"{label}: the graph has no nodes, so there is nothing to build; export the model again")
        sorted_here = [_sort(part, label) for part in graph.graphs()]
        extra = ["sorted: nodes stood before the nodes they read from"] if any(sorted_here) else []
        return cls(graph, path=path, notes=[*notes, *extra], inferred=inferred)

    # --- looking -------------------------------------------------------------------------

    @property
    def ir(self) -> ir.Model:
        """The graph with inferred types and shapes. Never change it: see `clone_ir`."""
        if not self._inferred:
            with self._lock:
                if not self._inferred:
                    self._infer(light_proto(self._model))
                    self._inferred = True
        return self._model

    @property
    def path(self) -> Path | None:
        """File that the model was loaded from."""
        return self._path

    @property
    def name(self) -> str:
        """Name for people: that of the file without its ending, else that of the graph."""
        if self._name is not None:
            return self._name
        return self._path.stem if self._path is not None else self._model.graph.name or "model"

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done or found on opening, one line each."""
        return tuple(self._notes)

    @property
    def opset(self) -> dict[str, int]:
        """Domain to opset version; domain "" is ai.onnx."""
        return dict(self._model.opset_imports)

    @property
    def declared_shapes(self) -> Mapping[ir.Value, Shape]:
        """Shapes stored in the file that contradict the inferred ones (which `ir` holds), by value of `ir`."""
        _ = self.ir
        return self._declared

    @cached_property
    def hash(self) -> str:
        """SHA-256 in hex over graph and weights, the same however the weights are stored.

        Left out: declared shapes, documentation, producer.
        """
        return hashlib.sha256((self.graph_hash + self.weights_hash).encode()).hexdigest()

    @cached_property
    def graph_hash(self) -> str:
        """SHA-256 in hex over nodes, inputs, outputs and the types of the weights."""
        return hash_graph(self._model)

    @cached_property
    def weights_hash(self) -> str:
        """SHA-256 in hex over all initializers: name, type, shape and bytes."""
        return hash_weights(self._model)

    def __repr__(self) -> str:
        return f"Model({self.name!r}, {len(self._model.graph)} nodes, opset {self.opset.get('', '?')})"

    # --- copies --------------------------------------------------------------------------

    def proto(self) -> onnx.ModelProto:
        """A fresh ModelProto with all weights in it.

        Raises:
            ModelError: The weights exceed what one protobuf holds (2 GB); use `save`. Or an attribute has no value.
        """
        if self._weight_bytes() > EXTERNAL_ABOVE_BYTES:
            raise ModelError(
                f"{self.name}: the weights are too large for one protobuf (2 GB); save the model to a file"
            )
        with hold_collection():
            try:
                return ir.to_proto(take_all_in(self._model))
            except SerdeError as error:
                cause: BaseException = error
                while cause.__cause__ is not None:  # the outermost tells the whole model, the innermost what is wrong
                    cause = cause.__cause__
                raise ModelError(f"{self.name} cannot be written as ONNX ({cause}): export the model again") from error

    def clone_ir(self) -> ir.Model:
        """A copy of `ir` to edit; tensors are shared, not copied."""
        return _clone(self.ir)

    def for_runtime(self, *, own: bool = False) -> Model:
        """The model as strict runtimes take it: nodes sorted, each with a name of its own, no stale shapes.

        A node of the main graph is then called as its NodeId. Tensor names do not change. Itself where it is so.

        Args:
            own: A copy in any case, which the caller may change.
        """
        if not own and all(_named(graph) for graph in self.ir.graphs()):
            return self
        copy = self.clone_ir()
        notes: list[str] = []
        for graph in copy.graphs():
            for node, name in zip(graph, _own_names(graph), strict=True):
                if node.name and node.name != name:
                    notes.append(f"several nodes are called '{node.name}': the runtime copy calls one '{name}'")
                node.name = name
        return Model(copy, path=None, notes=[*self._notes, *notes], inferred=True)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the model, with external data in `PATH.data` above 1.5 GB of weights. Atomic: all or nothing.

        Raises:
            ModelError: The folder is missing or cannot be written, or `path` is no place for a file.
        """
        target = Path(path).expanduser()
        try:
            file = file_target(target)
            with tempfile.TemporaryDirectory(prefix=".trtlab-", dir=file.parent) as folder:
                self._write(Path(folder), file)
        except OSError as error:
            raise ModelError(f"{target} cannot be written: {error.strerror or error}") from error
        return target

    # --- inside --------------------------------------------------------------------------

    def _write(self, folder: Path, target: Path) -> None:
        written = folder / target.name
        data = folder / f"{target.name}.data"
        if self._weight_bytes() > EXTERNAL_ABOVE_BYTES:
            ir.save(_clone(self._model), written, external_data=data.name)
        else:
            written.write_bytes(self.proto().SerializeToString())
        for file in (data, written):
            if file.exists():
                with file.open("rb") as opened:
                    os.fsync(opened.fileno())
                os.replace(file, target.parent / file.name)

    def _weight_bytes(self) -> int:
        return sum(tensor.nbytes for _, tensor in initializers(self._model))

    def _infer(self, light: onnx.ModelProto) -> None:
        with hold_collection():
            self._declared, failure = infer_into(self._model, light)
        if failure:
            self._notes.append(f"shapes could not be inferred, those in the file are shown: {failure}")


def _own_names(graph: ir.Graph) -> list[str]:
    return assign_names((node.name or "", node.op_type) for node in graph)


def _named(graph: ir.Graph) -> bool:
    """Whether each node has a name of its own."""
    return all(node.name == name for node, name in zip(graph, _own_names(graph), strict=True))


def _clone(graph: ir.Model) -> ir.Model:
    with hold_collection():
        try:
            return graph.clone()
        except (RuntimeError, ValueError) as error:
            raise ModelError(f"model '{graph.graph.name or 'unnamed'}': {_first_cause(error)}") from error


def _first_cause(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(str(error).split())[:300]


def _sort(graph: ir.Graph, label: str) -> bool:
    """Sorts one graph in place; says whether there was something to do."""
    nodes = list(graph)
    reads = [_reads(node) for node in nodes]
    parents = parents_of(reads, [node.outputs for node in nodes])
    if all(parent < index for index, mine in enumerate(parents) for parent in mine):
        return False
    order = topological_order(parents)
    if isinstance(order, Cycle):
        chain = " → ".join(f"'{nodes[i].name or nodes[i].op_type}'" for i in order.shown())
        raise ModelError(f"{label}: the nodes {chain} form a cycle, which no engine can run; undo the last edit")
    graph.extend(nodes[i] for i in order)
    return True


def _reads(node: ir.Node) -> list[ir.Value]:
    """Values that a node reads, those read inside its subgraphs included."""
    found: list[ir.Value] = []
    waiting = [node]
    while waiting:
        current = waiting.pop()
        found.extend(value for value in current.inputs if value is not None)
        for graph in graphs_of(current):
            waiting.extend(graph)
            found.extend(graph.outputs)
    return found
