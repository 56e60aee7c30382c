"""Layers of two engines matched by the ONNX nodes in them, never by their place in a file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass


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


def match_layers(a: Sequence[tuple[str, ...]], b: Sequence[tuple[str, ...]]) -> list[Match]:
    """The smallest groups of layers that can be compared without guessing how a fused layer's time is made up.

    Layers with the same set of nodes on both sides are a group. What is left is joined by shared nodes: where one side
    fused what the other did not, all layers that hold any of these nodes are one group. Every layer is in exactly one.

    Args:
        a, b: The nodes of each layer.

    Returns:
        Groups in the order of `a`, then those that only `b` has.
    """
    sides = (a, b)
    same: dict[frozenset[str], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for side, layers in enumerate(sides):
        for place, keys in enumerate(layers):
            same[frozenset(keys)][side].append(place)
    found, rest = [], _Groups()
    for keys, places in same.items():
        if places[0] and places[1]:
            found.append(_match(sides, places, equal=True))
        else:
            rest.join(keys)
    open_groups: dict[str, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for keys, places in same.items():
        if not (places[0] and places[1]):
            group = open_groups[rest.root(next(iter(keys)))]
            group[0].extend(places[0])
            group[1].extend(places[1])
    found += [_match(sides, places, equal=False) for places in open_groups.values()]
    return sorted(found, key=lambda match: (not match.a, min(match.a or match.b)))


def _match(sides: Sequence[Sequence[tuple[str, ...]]], places: tuple[list[int], list[int]], *, equal: bool) -> Match:
    a, b = (tuple(sorted(found)) for found in places)
    keys = dict.fromkeys(key for side, found in zip(sides, (a, b), strict=True) for i in found for key in side[i])
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
