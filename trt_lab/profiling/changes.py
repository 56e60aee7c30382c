"""What the builder did otherwise in one engine than in another: fusions, kernels and types, by ONNX node."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from trt_lab.profiling.matching import match_layers
from trt_lab.profiling.node_time import LAYER_KEY, Piece
from trt_lab.types import LayerInfo

FusionKind = Literal["fused", "split", "regrouped", "only_a", "only_b"]
_INTEGERS = ("int32", "int64", "bool")
"""Types of shapes and indices, which say nothing about the type a layer computes in."""


@dataclass(frozen=True, slots=True)
class FusionChange:
    """Nodes that went into other layers in b than in a.

    Attributes:
        kind: `fused`: fewer layers in b; `split`: more; `regrouped`: as many, made up otherwise; `only_a`, `only_b`:
            the other engine has no layer with them (folded away, removed, or not told).
        nodes: All nodes of these layers.
        layers_a, layers_b: Their names.
    """

    kind: FusionKind
    nodes: tuple[str, ...]
    layers_a: tuple[str, ...]
    layers_b: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TacticChange:
    """The same nodes in one layer on both sides, by another kernel."""

    nodes: tuple[str, ...]
    layer_a: str
    layer_b: str
    tactic_a: str
    tactic_b: str


@dataclass(frozen=True, slots=True)
class TypeChange:
    """A node that is computed in another type; types that meet in one fused layer, or in several, are joined by `+`."""

    node: str
    type_a: str
    type_b: str


def fusions(a: Sequence[Piece], b: Sequence[Piece]) -> tuple[FusionChange, ...]:
    """Nodes that were fused otherwise; reformats, which serve other layers, are left out."""
    sides = [[piece for piece in pieces if piece.nodes and not piece.reformat] for pieces in (a, b)]
    found = []
    for match in match_layers(*([piece.key for piece in pieces] for pieces in sides)):
        if not match.equal:
            x, y = len(match.a), len(match.b)
            kind: FusionKind = "fused" if x > y else "split" if y > x else "regrouped"
            if not x or not y:
                kind = "only_a" if x else "only_b"
            names = [tuple(sides[side][i].name for i in places) for side, places in enumerate((match.a, match.b))]
            found.append(FusionChange(kind, match.keys, names[0], names[1]))
    return tuple(found)


def tactics(a: Sequence[Piece], b: Sequence[Piece]) -> tuple[TacticChange, ...]:
    """Layers that hold the same nodes and run another kernel; where one of both does not tell its kernel, none."""
    by_nodes: dict[frozenset[str], list[LayerInfo]] = defaultdict(list)
    for piece in b:
        if piece.layer is not None and not piece.reformat:
            by_nodes[frozenset(piece.keys)].append(piece.layer)
    groups: dict[frozenset[str], list[Piece]] = defaultdict(list)
    for piece in a:
        if piece.layer is not None and not piece.reformat:
            groups[frozenset(piece.keys)].append(piece)
    found = []
    for keys, pieces in groups.items():
        others = by_nodes.get(keys, [])
        for piece, other in _pairs(pieces, others):
            if piece.layer is None or piece.layer.tactic is None or other.tactic is None:
                continue
            if piece.layer.tactic != other.tactic:
                nodes = tuple(key.removeprefix(LAYER_KEY) for key in piece.keys)
                found.append(TacticChange(nodes, piece.name, other.name, piece.layer.tactic, other.tactic))
    return tuple(found)


def types(a: Sequence[Piece], b: Sequence[Piece]) -> tuple[TypeChange, ...]:
    """Nodes computed in another type, in the order of a; nodes whose type is not told on both sides are left out."""
    of_a, of_b = _types_of(a), _types_of(b)
    return tuple(
        TypeChange(node, kind, of_b[node]) for node, kind in of_a.items() if node in of_b and of_b[node] != kind
    )


def type_of(layer: LayerInfo) -> str | None:
    """The type that a layer computes in; where it does not tell, the types of its tensors, joined by `+`."""
    if layer.precision is not None:
        return layer.precision
    tensors = {tensor.dtype for tensor in (*layer.inputs, *layer.outputs) if tensor.dtype}
    return "+".join(sorted(tensors - set(_INTEGERS) or tensors)) or None


def _types_of(pieces: Sequence[Piece]) -> dict[str, str]:
    found: dict[str, set[str]] = defaultdict(set)
    for piece in pieces:
        kind = type_of(piece.layer) if piece.layer is not None and not piece.reformat else None
        if kind is not None:
            for node in piece.nodes:
                found[node].update(kind.split("+"))
    return {node: "+".join(sorted(kinds)) for node, kinds in found.items()}


def _pairs(pieces: Sequence[Piece], others: Sequence[LayerInfo]) -> list[tuple[Piece, LayerInfo]]:
    """Layers with the same nodes, one to one: those of one kernel first, then of one type, then in their order."""
    if len(pieces) != len(others):
        return []
    same = Counter(other.tactic for other in others)
    open_pieces, open_others = [], list(others)
    for piece in pieces:
        tactic = piece.layer.tactic if piece.layer is not None else None
        if same[tactic] > 0:
            same[tactic] -= 1
            open_others.remove(next(other for other in open_others if other.tactic == tactic))
        else:
            open_pieces.append(piece)
    found = []
    for piece in open_pieces:
        kind = piece.layer.type if piece.layer is not None else ""
        other = next((other for other in open_others if other.type == kind), open_others[0])
        open_others.remove(other)
        found.append((piece, other))
    return found
