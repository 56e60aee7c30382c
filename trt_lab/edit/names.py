"""Fresh names for nodes and tensors that an edit adds."""

from __future__ import annotations

from trt_lab.graph import GraphView


class Names:
    """Hands out names that nothing in the model has, subgraphs and made-up node ids included."""

    def __init__(self, nodes: set[str], tensors: set[str]) -> None:
        """Takes over both sets."""
        self._nodes = nodes
        self._tensors = tensors

    @classmethod
    def of(cls, view: GraphView) -> Names:
        """Names that are taken in the model of `view`."""
        nodes = {str(node) for node in view.nodes} | {info.name for info in view.nodes.values()}
        tensors = {str(tensor) for tensor in view.tensors} | {info.name for info in view.tensors.values()}
        return cls(nodes, tensors)

    def node(self, wanted: str) -> str:
        """`wanted`, or `wanted_2`, `wanted_3`, … when it is taken."""
        return _claim(wanted, self._nodes)

    def tensor(self, wanted: str) -> str:
        """`wanted`, or `wanted_2`, `wanted_3`, … when it is taken."""
        return _claim(wanted, self._tensors)


def _claim(wanted: str, taken: set[str]) -> str:
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted}_{number}"
    taken.add(name)
    return name
