"""Read-only looks at a model: ids, neighbours, scopes, search and positions."""

from trt_lab.graph.constants import InitializerStats
from trt_lab.graph.layout import KINDS, Layout, layout
from trt_lab.graph.scopes import Scope
from trt_lab.graph.search import Hit, search
from trt_lab.graph.tree import ancestors, default_expanded
from trt_lab.graph.view import GraphInfo, GraphView

__all__ = [
    "KINDS",
    "GraphInfo",
    "GraphView",
    "Hit",
    "InitializerStats",
    "Layout",
    "Scope",
    "ancestors",
    "default_expanded",
    "layout",
    "search",
]
