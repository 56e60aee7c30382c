"""Tells nameless and duplicate nodes apart. The ids of `graph.view` and the names of runtime copies agree by it."""

from __future__ import annotations

from collections.abc import Iterable


def assign_names(nodes: Iterable[tuple[str, str]], taken: set[str] | None = None, prefix: str = "") -> list[str]:
    """Gives each node a name of its own, the same for the same list.

    A named node keeps its name; the second of that name becomes `name#2`. A nameless node becomes
    `OpType_i`, i counting the nameless nodes of that type, so that adding named nodes changes no other name.

    Args:
        nodes: (name, op type) of each node, in graph order.
        taken: Full names used elsewhere; the new ones are added to it.
        prefix: Put before each name.

    Returns:
        One name per node, prefix included.
    """
    listed = list(nodes)
    used = set() if taken is None else taken
    names: list[str] = [""] * len(listed)
    copies: dict[str, int] = {}

    def claim(wanted: str) -> str:
        name, number = wanted, copies.get(wanted, 1)
        while name in used:
            number += 1
            name = f"{wanted}#{number}"
        copies[wanted] = number
        used.add(name)
        return name

    for index, (name, _) in enumerate(listed):
        if name:
            names[index] = claim(prefix + name)
    counts: dict[str, int] = {}
    for index, (name, op_type) in enumerate(listed):
        if not name:
            number = counts.get(op_type, 0)
            counts[op_type] = number + 1
            names[index] = claim(f"{prefix}{op_type}_{number}")
    return names
