"""Which tensors can be seen without changing the engine: for the card and the marks on the graph."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from trt_lab.compare.observer import Effect
from trt_lab.graph.view import GraphView
from trt_lab.types import LayerInfo, NodeId, TensorInfo


@dataclass(frozen=True, slots=True)
class Sight:
    """What a probe on one tensor does to the engine.

    Attributes:
        safe: The engine stays as it is.
        text: In words, for the card.
    """

    safe: bool
    text: str


def see(
    view: GraphView, layers: Sequence[LayerInfo], safe: Collection[str], effects: Mapping[str, Effect]
) -> dict[str, Sight]:
    """By tensor of the main graph, as far as it is known; constants and inputs are left out.

    Args:
        layers: Of the newest engine. Nothing is known where none tells its outputs.
        safe: Tensors that lie between layers, a prediction.
        effects: What the probes in that engine did: measured, so it counts more.
    """
    if not any(layer.outputs for layer in layers):
        return {}
    holders: dict[NodeId, list[LayerInfo]] = {}
    for layer in layers:
        for node in layer.nodes:
            holders.setdefault(node, []).append(layer)
    found: dict[str, Sight] = {}
    for tensor, info in view.tensors.items():
        if info.graph or info.producer is None or view.nodes[info.producer].op_type == "Constant":
            continue
        effect = effects.get(tensor)
        if effect == "neutral":
            found[tensor] = Sight(True, "this probe left the engine as it was")
        elif effect == "perturbing":
            found[tensor] = Sight(False, "this probe changed the engine")
        elif effect is None and tensor in safe:
            found[tensor] = Sight(True, "safe to probe: lies between engine layers")
        elif effect is None:
            found[tensor] = Sight(False, _what_breaks(info, holders.get(info.producer, ())))
    return found


def _what_breaks(info: TensorInfo, makers: Sequence[LayerInfo]) -> str:
    inside = next((layer for layer in makers if any(node in layer.nodes for node in info.consumers)), None)
    if inside is not None:
        return f"a probe here splits layer {inside.name}"
    if makers:
        return f"a probe here changes layer {makers[-1].name}, which does not give this tensor"
    return "a probe here changes the engine: no layer gives this tensor"
