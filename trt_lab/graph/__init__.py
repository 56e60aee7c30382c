"""Read-only looks at a model: ids, neighbours, scopes, search and positions."""

from trt_lab.graph.view import GraphInfo, GraphView, InitializerStats, Scope

__all__ = ["GraphInfo", "GraphView", "InitializerStats", "Scope"]
