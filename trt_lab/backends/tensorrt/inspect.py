"""Layers of a live engine, read with its own inspector."""

from __future__ import annotations

from typing import Any

from trt_lab.backends.tensorrt.versions import Library
from trt_lab.engine_json import EngineJson, parse_engine_json
from trt_lab.engine_nodes import NodeIndex


def read_layers(library: Library, engine: Any, index: NodeIndex | None, context: Any = None) -> EngineJson:
    """Layers in the engine's order.

    Args:
        context: An execution context with its input shapes set; then shapes that depend on them are told.
    """
    inspector = engine.create_engine_inspector()
    if context is not None:
        inspector.execution_context = context
    text = inspector.get_engine_information(library.module.LayerInformationFormat.JSON)
    return parse_engine_json(text, name="engine inspector", index=index)
