"""Layers of two engines matched by the ONNX nodes in them, never by their place in a file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from trt_lab.engine_nodes import plain_name

_Places: TypeAlias = tuple[list[int], list[int]]


@dataclass(frozen=True, slots=True)
class Match:
    """Layers of both sides that hold the same nodes, as positions in what was given.

    Attributes:
        a, b: Positions; one of them may be empty.
        keys: All nodes in them, in the order of a side that has them.
        equal: Each layer of one side has one with the same nodes on the other: nothing was fused otherwise.
    """

    a: tuple[int, ...]
    b: tuple[int, ...]
    keys: tuple[str, ...]
    equal: bool


class LayerKey(NamedTuple):
    """What a layer is matched by: its nodes and, where several layers hold the same, its name."""

    keys: tuple[str, ...]
    name: str


def match_layers(a: Sequence[LayerKey], b: Sequence[LayerKey]) -> list[Match]:
    """The smallest groups of layers that can be compared without guessing how a fused layer's time is made up.

    Layers with the same set of nodes on both sides are a group; several of them are told apart by their names where
    both sides have the same names. What is left is joined by shared nodes: where one side fused what the other did
    not, all layers that hold any of these nodes are one group. Every layer is in exactly one.

    Returns:
        Groups in the order of `a`, then those that only `b` has.
    """
    sides = (a, b)
    same: dict[frozenset[str], _Places] = defaultdict(_places)
    for side, layers in enumerate(sides):
        for place, layer in enumerate(layers):
            same[frozenset(layer.keys)][side].append(place)
    found: list[Match] = []
    rest = _Groups()
    for keys, places in same.items():
        if places[0] and places[1]:
            found += [_match(sides, part, equal=True) for part in _by_name(sides, places)]
        else:
            rest.join(keys)
    open_groups: dict[str, _Places] = defaultdict(_places)
    for keys, places in same.items():
        if not (places[0] and places[1]):
            group = open_groups[rest.root(next(iter(keys)))]
            group[0].extend(places[0])
            group[1].extend(places[1])
    found += [_match(sides, places, equal=False) for places in open_groups.values()]
    return sorted(found, key=lambda match: (not match.a, min(match.a or match.b)))


def _places() -> _Places:
    return [], []


def _by_name(sides: Sequence[Sequence[LayerKey]], places: _Places) -> list[_Places]:
    """Layers with the same nodes, told apart by name where each name is on both sides as often; else all together."""
    parts: dict[str, _Places] = defaultdict(_places)
    for side, found in enumerate(places):
        for place in found:
            parts[plain_name(sides[side][place].name)][side].append(place)
    return list(parts.values()) if all(len(x) == len(y) for x, y in parts.values()) else [places]


def _match(sides: Sequence[Sequence[LayerKey]], places: _Places, *, equal: bool) -> Match:
    a, b = (tuple(sorted(found)) for found in places)
    keys = dict.fromkeys(key for side, found in zip(sides, (a, b), strict=True) for i in found for key in side[i].keys)
    return Match(a, b, tuple(keys), equal and len(a) == len(b))


class _Groups:
    """Disjoint sets of nodes."""

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}

    def root(self, key: str) -> str:
        self._parent.setdefault(key, key)
        while self._parent[key] != key:
            self._parent[key] = self._parent[self._parent[key]]
            key = self._parent[key]
        return key

    def join(self, keys: frozenset[str]) -> None:
        first, *others = keys
        for key in (first, *others):
            self._parent[self.root(key)] = self.root(first)
