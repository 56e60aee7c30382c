"""Shapes along the graph against the optimisation profile: what each tensor is at the smallest, usual and largest input."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from trt_lab.graph.view import GraphView
from trt_lab.profiling.shares import tensor_bytes
from trt_lab.profiling.source import Engine
from trt_lab.types import JsonValue, NodeId, Shape, ShapeRange, TensorId

Sizes = tuple[int | None, ...]
"""A shape in which some sizes may be unknown."""


@dataclass(frozen=True, slots=True)
class TensorShape:
    """One tensor of the main graph.

    Attributes:
        layers: That compute its node; empty where none does, or no engine is known.
        symbolic: As the model says it.
        smallest, usual, largest: At the three points of the profile; a size that the model does not tie to an input is None.
        usual_bytes, largest_bytes: None where a size or the type is not known.
        note: `empty at the smallest` and the like.
    """

    tensor: TensorId
    node: NodeId | None
    layers: tuple[int, ...]
    dtype: str | None
    symbolic: Shape | None
    smallest: Sizes | None
    usual: Sizes | None
    largest: Sizes | None
    usual_bytes: int | None
    largest_bytes: int | None
    note: str = ""


def ranges_of(engine: Engine) -> tuple[ShapeRange, ...]:
    """The optimisation profile that the engine was built for; empty where it is not known."""
    told = engine.facts.get("shapes")
    return tuple(_range(item) for item in told if isinstance(item, dict)) if isinstance(told, list) else ()


def graph_shapes(
    view: GraphView, ranges: Iterable[ShapeRange], engine: Engine | None = None
) -> tuple[TensorShape, ...]:
    """Each tensor that is no initializer, in graph order.

    Symbols such as `N` get their sizes from the inputs that carry them. Sizes that the model does not express by such a
    symbol stay unknown: nothing is run here.
    """
    points = [_bindings(view, ranges, pick) for pick in ("min", "opt", "max")]
    given = {r.name: r for r in ranges}
    found = []
    for tensor, info in view.tensors.items():
        if info.role == "initializer" or info.graph:
            continue
        own = given.get(tensor)
        known = (own.min, own.opt, own.max) if own is not None else None
        smallest, usual, largest = known or (_sizes(info.shape, point) for point in points)
        layers = engine.map.computed_in(info.producer) if engine is not None and engine.map and info.producer else ()
        sizes = tensor_bytes(info.dtype, usual), tensor_bytes(info.dtype, largest)
        note = _note((smallest, usual, largest))
        found.append(
            TensorShape(tensor, info.producer, layers, info.dtype, info.shape, smallest, usual, largest, *sizes, note)
        )
    return tuple(found)


def _bindings(view: GraphView, ranges: Iterable[ShapeRange], pick: str) -> dict[str, int | None]:
    """Symbol → size at one point of the profile; None where two inputs disagree."""
    found: dict[str, int | None] = {}
    for item in ranges:
        info = view.tensors.get(TensorId(item.name))
        for size, dim in zip(getattr(item, pick), info.shape if info and info.shape else (), strict=False):
            if isinstance(dim, str):
                found[dim] = size if found.get(dim, size) == size else None
    return found


def _sizes(shape: Shape | None, symbols: Mapping[str, int | None]) -> Sizes | None:
    if shape is None:
        return None
    return tuple(dim if isinstance(dim, int) else symbols.get(dim) if isinstance(dim, str) else None for dim in shape)


def _note(shapes: tuple[Sizes | None, ...]) -> str:
    for shape, where in zip(shapes, ("smallest", "usual", "largest"), strict=True):
        if shape is not None and 0 in shape:
            return f"empty at the {where} shape"
    return ""


def _range(item: Mapping[str, JsonValue]) -> ShapeRange:
    def sizes(key: str) -> tuple[int, ...]:
        told = item.get(key)
        return tuple(size for size in told if isinstance(size, int)) if isinstance(told, list) else ()

    return ShapeRange(str(item.get("name", "")), sizes("min"), sizes("opt"), sizes("max"))
