"""Finds nodes, tensors, scopes and operators by parts of their names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from trt_lab.graph.view import GraphView
from trt_lab.types import Shape

_WORD_START = re.compile(r"[^a-z0-9]")


@dataclass(frozen=True, slots=True)
class Hit:
    """One thing found.

    Attributes:
        kind: What `id` is the id of; a scope's id is its path.
        label: The id, to show.
        detail: Operator and scope of a node, type and shape of a tensor, number of nodes of a scope.
        graph: Path of the graph it lies in.
    """

    kind: Literal["node", "tensor", "scope"]
    id: str
    label: str
    detail: str
    graph: str = ""


def search(view: GraphView, query: str, limit: int = 50) -> list[Hit]:
    """Things whose id, or whose operator, holds every word of the query; nodes inside subgraphs included.

    Case does not count. Best first: equal, then starting with the query, then a part of the name starting
    with it, then anywhere; within these nodes before tensors before scopes, and graph order.

    Args:
        query: One or more words; `type:Conv` asks for the operator alone.
        limit: Most hits returned.
    """
    words = query.lower().split()
    if not words or limit < 1:
        return []
    found: list[tuple[int, int, int, Hit]] = []
    for place, (kind_rank, text, extra, hit) in enumerate(_candidates(view)):
        score = _score(words, text, extra)
        if score is not None:
            found.append((score, kind_rank, place, hit))
    found.sort(key=lambda entry: entry[:3])
    return [hit for *_, hit in found[:limit]]


def _candidates(view: GraphView) -> Iterator[tuple[int, str, str, Hit]]:
    """(kind rank, lower-case id, lower-case operator, hit) of all that can be found."""
    for node in view.nodes.values():
        operator = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        detail = f"{operator} in {node.graph}" if node.graph else operator
        yield 0, node.id.lower(), operator.lower(), Hit("node", node.id, node.id, detail, node.graph)
    for tensor in view.tensors.values():
        detail = f"{tensor.dtype or '?'} {shape_text(tensor.shape)}"
        yield 1, tensor.id.lower(), "", Hit("tensor", tensor.id, tensor.id, detail, tensor.graph)
    waiting = [view.scopes()]
    for scope in waiting:
        waiting.extend(scope.children)
        if scope.path:
            yield 2, scope.path.lower(), "", Hit("scope", scope.path, scope.path, f"{scope.count} nodes")


def _score(words: list[str], text: str, operator: str) -> int | None:
    """0 (best) to 3, or None when a word is in neither text."""
    worst = 0
    for word in words:
        if word.startswith("type:"):
            wanted = word[5:]
            if not wanted or not operator.startswith(wanted):
                return None
            worst = max(worst, 0 if operator == wanted else 1)
            continue
        at = text.find(word)
        if text == word or operator == word:
            score = 0
        elif at == 0 or operator.startswith(word):
            score = 1
        elif at > 0 and _WORD_START.match(text[at - 1]):
            score = 2
        elif at > 0 or word in operator:
            score = 3
        else:
            return None
        worst = max(worst, score)
    return worst


def shape_text(shape: Shape | None) -> str:
    """`1×3×N×?` for a shape, `scalar` for rank 0, `?` for an unknown rank."""
    if shape is None:
        return "?"
    return "×".join("?" if dim is None else str(dim) for dim in shape) or "scalar"
