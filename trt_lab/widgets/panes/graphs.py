"""The graphs of the workbench: the ONNX model, the engine built from it, or both, with one selection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import ipywidgets as ui

from trt_lab.graph.engine import EngineView, engine_view
from trt_lab.profiling.source import Engine
from trt_lab.types import LayerInfo, LayerTime, NodeId, TensorStats
from trt_lab.widgets.channel import answer_while_busy
from trt_lab.widgets.graph import GraphWidget
from trt_lab.widgets.graph_layers import own_lines

ONNX, ENGINE, BOTH = "ONNX", "Engine", "Both"

LOCKED = "Probes and kept nodes are chosen in the ONNX graph."
NO_LAYERS = "No engine yet: press Build."


class GraphsPane(ui.VBox):
    """Shows one graph or two. Nothing of the engine is laid out before its graph is asked for.

    Args:
        graph: Of the ONNX model; the owner fills it.
        on_select: Called with the index of the layer that was clicked in the engine's graph.
    """

    def __init__(self, graph: GraphWidget, on_select: Callable[[int], None]) -> None:
        self._on_select = on_select
        self._engine: Engine | None = None
        self._tensors: tuple[TensorStats, ...] = ()
        self._drawn: Engine | None = None
        self._shown: EngineView | None = None
        self._marked: tuple[int, ...] = ()
        self.graph = graph
        self.engine_graph = GraphWidget(None, locked=LOCKED)
        self.engine_graph.empty = NO_LAYERS
        self.choice = ui.ToggleButtons(
            options=[ONNX, ENGINE, BOTH],
            tooltips=["The model's nodes", "The engine's layers; probes are put on nodes", "Both, side by side"],
            style={"button_width": "auto"},
        )
        self.box = ui.Box([self.graph])
        self.box.add_class("trt-lab-graphs-box")
        super().__init__([self.choice, self.box])
        self.add_class("trt-lab-graphs")
        self.choice.observe(lambda change: self._chosen(change["new"]), "value")
        self.engine_graph.observe(lambda change: self._clicked(change["new"]), "selected")
        self._show_choice()

    def show(self, engine: Engine | None, tensors: Sequence[TensorStats] = ()) -> None:
        """Shows another engine.

        Args:
            tensors: Of the newest diff.
        """
        if engine is not self._engine:
            self._engine, self._marked = engine, ()
            self._show_choice()
        self._tensors = tuple(tensors)
        self._draw()

    def select(self, layers: Sequence[int]) -> None:
        """Marks layers in the engine's graph, the first as the selected one."""
        self._marked = tuple(layers)
        shown = self._shown
        if shown is None or self._drawn is not self._engine:
            return
        ids = [str(shown.ids[layer]) for layer in layers if layer in shown.ids]
        if self.engine_graph.selected not in ids:
            self.engine_graph.selected = ids[0] if ids else ""
        self.engine_graph.related = ids

    def _show_choice(self) -> None:
        built = self._engine is not None and bool(self._engine.layers)
        self.choice.layout.display = "" if built else "none"
        if not built:
            self.choice.value = ONNX

    def _chosen(self, choice: str | None) -> None:
        shown = {ENGINE: [self.engine_graph], BOTH: [self.graph, self.engine_graph]}.get(choice or ONNX, [self.graph])
        self.box.children = tuple(shown)
        (self.add_class if choice == BOTH else self.remove_class)("trt-lab-both")
        self._draw()
        answer_while_busy(self)

    def _draw(self) -> None:
        engine = self._engine
        if self.choice.value == ONNX:
            return
        if engine is self._drawn:
            self._colour()
            return
        self._drawn = engine
        if engine is None or not engine.layers:
            self._shown = None
            self.engine_graph.set_view(None, NO_LAYERS)
            return
        self._shown = engine_view(engine.layers, f"{engine.label} (engine)", _given(engine))
        self.engine_graph.set_view(self._shown.view)
        self._colour()
        self.engine_graph.colour_by = "time" if engine.times else "type"
        self.select(self._marked)

    def _colour(self) -> None:
        """What was measured of the engine that is drawn."""
        engine, shown = self._drawn, self._shown
        if engine is None or shown is None:
            return
        lines = {
            str(shown.ids[layer.index]): own_lines(layer, engine.time_of.get(layer.index)) for layer in engine.layers
        }
        self.engine_graph.set_results(self._tensors, _AsNodes.of(engine, shown), lines)

    def _clicked(self, node: str) -> None:
        if self._shown is not None and (index := self._shown.indices.get(NodeId(node))) is not None:
            self._on_select(index)


@dataclass(frozen=True)
class _AsNodes:
    """Layers each of which is its own node in the engine's graph: so are colours and cards made."""

    layers: tuple[LayerInfo, ...]
    times: tuple[LayerTime, ...]

    @classmethod
    def of(cls, engine: Engine, shown: EngineView) -> _AsNodes:
        layers = tuple(replace(layer, nodes=(shown.ids[layer.index],)) for layer in engine.layers)
        return cls(layers, engine.times)


def _given(engine: Engine) -> set[str]:
    """Names of the engine's inputs, as far as they are known."""
    names = {binding.name for binding in engine.bindings if binding.is_input}
    return names | (set(engine.view.inputs) if engine.view is not None else set())
