"""Which ONNX nodes went into which engine layers, link by link, and what has no link with the reason."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from trt_lab.compare.align import LayerMap
from trt_lab.compare.unmapped import Reason
from trt_lab.frames.columns import make_frame
from trt_lab.graph.view import GraphView

COLUMNS = {
    "layer": "Int64",
    "layer_name": "object",
    "layer_type": "object",
    "node": "object",
    "op_type": "object",
    "scope": "object",
    "role": "object",
    "source": "object",
    "confidence": "object",
    "reason_kind": "object",
    "reason": "object",
    "folded": "boolean",
}
"""A row is a link (`layer` and `node`), a layer without a node, or a node without a layer (`reason` says why)."""


def layer_map_frame(found: LayerMap, view: GraphView) -> pd.DataFrame:
    """Links by layer, then layers without a node, then nodes without a layer in graph order."""
    return make_frame(COLUMNS, _rows(found, view))


def _rows(found: LayerMap, view: GraphView) -> Iterator[dict[str, object]]:
    empty: dict[str, object] = {column: None for column in COLUMNS}
    by_index = {layer.index: layer for layer in found.layers}
    for link in found.links:
        layer, node = by_index[link.layer], view.nodes[link.node]
        yield {
            **empty, "layer": layer.index, "layer_name": layer.name, "layer_type": layer.type, "node": node.id,
            "op_type": node.op_type, "scope": node.scope, "role": link.role, "source": link.source,
            "confidence": link.confidence,
        }  # fmt: skip
    for index, reason in found.layer_reasons.items():
        layer = by_index[index]
        told = {"layer": index, "layer_name": layer.name, "layer_type": layer.type}
        yield {**empty, **told, **_why(reason), "folded": None}
    for name, reason in found.node_reasons.items():
        node = view.nodes[name]
        yield {**empty, "node": node.id, "op_type": node.op_type, "scope": node.scope, **_why(reason)}


def _why(reason: Reason) -> dict[str, object]:
    return {"reason_kind": reason.kind, "reason": reason.text, "folded": reason.folded}
