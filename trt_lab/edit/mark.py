"""Marks: existing tensors made graph outputs, without a node behind them. For reference and emulation runs."""

from __future__ import annotations

from collections.abc import Iterable

from trt_lab.edit.probe import Probed, find_tensor
from trt_lab.graph import GraphView
from trt_lab.model import Model
from trt_lab.types import TensorId


def mark(model: Model, tensors: Iterable[str]) -> Probed:
    """Makes tensors that a node computes graph outputs, behind the existing outputs.

    Each carries its own name. Inputs and initializers have no node, so they cannot be marked; they are known
    without a run, and are left out with a note.

    Args:
        model: Stays equal.
        tensors: Ids of tensors of the main graph.

    Raises:
        EditError: No such tensor, '', a tensor inside a subgraph, or no tensor at all (a sequence).
    """
    view = GraphView.of(model)
    found = [find_tensor(view, name) for name in dict.fromkeys(tensors)]
    made = [info for info in found if info.producer is not None or info.is_output]
    without = [f"'{info.name}' is an {info.role}: it is known without a run" for info in found if info not in made]
    return _mark(model, [info.id for info in made], view, without)


def mark_all(model: Model) -> Probed:
    """Marks every tensor that a node of the main graph computes. What has no tensor type is left out with a note."""
    view = GraphView.of(model)
    made = [info for info in view.tensors.values() if not info.graph and info.producer is not None]
    typed = [info.id for info in made if info.dtype is not None]
    without = [f"'{info.name}' left out: no tensor of a known type" for info in made if info.dtype is None]
    return _mark(model, typed, view, without)


def _mark(model: Model, tensors: list[TensorId], view: GraphView, notes: list[str]) -> Probed:
    outputs = {tensor: view.tensors[tensor].name for tensor in tensors}
    fresh = {view.tensors[tensor].name for tensor in tensors if not view.tensors[tensor].is_output}
    if not fresh:
        return Probed(model, outputs, tuple(notes))
    copy = model.clone_ir()
    values = {value.name: value for node in copy.graph for value in node.outputs}
    copy.graph.outputs.extend(values[view.tensors[t].name] for t in tensors if view.tensors[t].name in fresh)
    return Probed(Model.from_ir(copy, path=model.path, notes=model.notes), outputs, tuple(notes))
