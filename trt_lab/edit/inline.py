"""Local functions put in place of their calls, with the ids by which the user knows the nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import onnx_ir.passes.common as passes

from trt_lab.errors import EditError
from trt_lab.graph import GraphView
from trt_lab.model import Model
from trt_lab.types import NodeId


@dataclass(frozen=True)
class Inlined:
    """A model without local functions.

    Attributes:
        model: The very model given when it has none.
        origin: Node of `model` → node of the model given (`call/Function/inner`), where the two differ.
        notes: What was done, one line each.
    """

    model: Model
    origin: Mapping[NodeId, NodeId] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def inline_functions(model: Model) -> Inlined:
    """Inlines all local functions; done once a model.

    Raises:
        EditError: The functions call each other in a ring, use another opset, or have graphs as attributes.
    """
    if not model.ir.functions:
        return Inlined(model)
    known = model.memo.get("inlined")
    if isinstance(known, Inlined):
        return known
    view = GraphView.of(model)
    copy = model.clone_ir()
    count = len(copy.functions)
    try:
        passes.InlinePass()(copy)
    except (ValueError, RuntimeError) as error:
        cause = error.__cause__ or error
        raise EditError(
            f"{model.name}: its local functions cannot be inlined: {cause}; inline them at export"
        ) from error
    inlined = Model.from_ir(copy, path=model.path, notes=model.notes)
    sources = list(_leaves(view, "", {(domain, name) for domain, name, _ in model.ir.functions}))
    ids = GraphView.of(inlined).graphs[""].nodes
    if len(sources) != len(ids):
        raise EditError(
            f"{model.name}: its local functions hold too many nodes to be inlined here; inline them at export"
        )
    found = Inlined(
        inlined,
        {new: old for new, old in zip(ids, sources, strict=True) if new != old},
        (f"{count} local functions were inlined: a precision holds for single nodes",),
    )
    model.memo["inlined"] = found
    return found


def _leaves(view: GraphView, path: str, functions: set[tuple[str, str]]) -> Iterator[NodeId]:
    """Nodes of a graph in order, each function call replaced by the nodes in it."""
    for node_id in view.graphs[path].nodes:
        info = view.nodes[node_id]
        if (info.domain, info.op_type) in functions and info.subgraphs:
            yield from _leaves(view, info.subgraphs[-1], functions)
        else:
            yield node_id
