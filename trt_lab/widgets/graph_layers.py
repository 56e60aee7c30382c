"""What the card of a node says about the engine: its layers, who shares them, and why its neighbours do not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trt_lab.engine_nodes import is_reformat
from trt_lab.profiling.fusion import fusion
from trt_lab.profiling.source import Engine
from trt_lab.types import LayerInfo, LayerTime

_NAMED = 4
"""Most nodes that are named on a line."""

_NODES_OF_LAYER = 12
"""Most nodes that the card of a layer names."""

_SPLITS = 4
"""Most neighbours of which the card says why they were not fused."""


def layer_lines(layers: Sequence[LayerInfo], times: Iterable[LayerTime]) -> dict[str, list[str]]:
    """By node: a line for each layer that names it, and one for the nodes that share the layer."""
    spent = {time.index: time for time in times}
    lines: dict[str, list[str]] = {}
    for layer in sorted(layers, key=is_reformat):  # what computes a node stands before what serves it
        text = _text(layer, spent.get(layer.index))
        shared = layer.nodes[: _NAMED + 1]
        for node in layer.nodes:
            own = lines.setdefault(node, [])
            own.append(text)
            others = [other for other in shared if other != node][:_NAMED]
            if others and not is_reformat(layer):
                more = len(layer.nodes) - 1 - len(others)
                own.append(f"shared with {', '.join(others)}{f' and {more} more' if more else ''}")
    return lines


def engine_lines(engine: Engine) -> dict[str, list[str]]:
    """`layer_lines` of an engine; where its graph is known, also which neighbours did not fuse, and why no layer."""
    lines = layer_lines(engine.layers, engine.times)
    if engine.map is None:
        return lines
    for split in fusion(engine).splits:
        own = lines.setdefault(split.node, [])
        told = sum(line.startswith("not fused with ") for line in own)
        if told < _SPLITS:
            own.append(f"not fused with {split.reader}: {split.text}")
    for node, reason in engine.map.node_reasons.items():
        lines.setdefault(node, []).append(f"in no layer: {reason.text}")
    return lines


def own_lines(layer: LayerInfo, time: LayerTime | None) -> list[str]:
    """What the card of a layer, in the engine's own graph, says: itself, its nodes, its time."""
    nodes = ", ".join(layer.nodes[:_NODES_OF_LAYER])
    more = len(layer.nodes) - _NODES_OF_LAYER
    lines = [_text(layer, time), f"nodes: {nodes}{f' and {more} more' if more > 0 else ''}" if nodes else ""]
    return [line for line in lines if line]


def _text(layer: LayerInfo, time: LayerTime | None) -> str:
    spent = f"{time.average_ms:.3g} ms" if time is not None else ""
    return " · ".join(filter(None, (f"{layer.index}: {layer.name}", layer.type, layer.precision, spent)))
