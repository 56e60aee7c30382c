"""Layers of an engine."""

from __future__ import annotations

from typing import Protocol

import pandas as pd

from trt_lab.frames.columns import make_frame
from trt_lab.types import LayerInfo

COLUMNS = {
    "index": "Int64",
    "name": "object",
    "type": "object",
    "precision": "object",
    "tactic": "object",
    "stream": "Int64",
    "inputs": "object",
    "input_dtypes": "object",
    "outputs": "object",
    "output_dtypes": "object",
    "output_shapes": "object",
    "nodes": "object",
    "node_count": "Int64",
    "nodes_from": "object",
}
"""`inputs` to `nodes` hold tuples, one entry a tensor or node."""


class Layered(Protocol):
    """What the frame needs of a record."""

    @property
    def layers(self) -> tuple[LayerInfo, ...]: ...


def layers_frame(record: Layered) -> pd.DataFrame:
    """One row a layer, in the engine's order."""
    return make_frame(COLUMNS, (layer_row(layer) for layer in record.layers))


def layer_row(layer: LayerInfo) -> dict[str, object]:
    """One layer by column."""
    return {
        "index": layer.index,
        "name": layer.name,
        "type": layer.type,
        "precision": layer.precision,
        "tactic": layer.tactic,
        "stream": layer.stream,
        "inputs": tuple(tensor.name for tensor in layer.inputs),
        "input_dtypes": tuple(tensor.dtype for tensor in layer.inputs),
        "outputs": tuple(tensor.name for tensor in layer.outputs),
        "output_dtypes": tuple(tensor.dtype for tensor in layer.outputs),
        "output_shapes": tuple(tensor.shape for tensor in layer.outputs),
        "nodes": layer.nodes,
        "node_count": len(layer.nodes) if layer.nodes_from != "none" else None,
        "nodes_from": layer.nodes_from,
    }
