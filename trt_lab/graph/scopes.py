"""Scopes: the folders that node names such as `/a/b/Conv` make."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trt_lab.types import NodeId, NodeInfo


@dataclass(frozen=True, slots=True)
class Scope:
    """A folder of nodes, made of the `/a/b` parts of their names.

    Attributes:
        path: As in `NodeInfo.scope`; "" for the top.
        nodes: Nodes right in it.
        children: Scopes right in it, in graph order.
        count: Nodes in it and below.
    """

    path: str
    nodes: tuple[NodeId, ...]
    children: tuple[Scope, ...]
    count: int


def scope_of(name: str) -> str:
    """The `/a/b` part of a node name: `/a/a.0/Conv` lies in `/a/a.0`, `/Mul` and `Mul` at the top ("")."""
    return name.rpartition("/")[0].rstrip("/")


def scope_chain(scope: str) -> list[str]:
    """The scopes from the outermost to `scope` itself: `/a/b` gives `/a`, `/a/b`."""
    return [scope[:end] for end in range(1, len(scope)) if scope[end] == "/" and scope[end - 1] != "/"] + (
        [scope] if scope else []
    )


def common_scope(first: str, second: str) -> str:
    """The innermost scope that holds both."""
    if first == second:
        return first
    common = ""
    for one, two in zip(scope_chain(first), scope_chain(second), strict=False):
        if one != two:
            break
        common = one
    return common


def scope_tree(nodes: Iterable[NodeInfo]) -> Scope:
    """The tree of the scopes of `nodes`, in the order of the nodes."""
    direct: dict[str, list[NodeId]] = {"": []}
    children: dict[str, list[str]] = {"": []}
    for node in nodes:
        if node.scope not in direct:
            parent = ""
            for path in scope_chain(node.scope):
                if path not in direct:
                    direct[path], children[path] = [], []
                    children[parent].append(path)
                parent = path
        direct[node.scope].append(node.id)
    made: dict[str, Scope] = {}
    for path in reversed(direct):  # a scope is found after the one that holds it
        inner = tuple(made[child] for child in children[path])
        made[path] = Scope(path, tuple(direct[path]), inner, len(direct[path]) + sum(child.count for child in inner))
    return made[""]
