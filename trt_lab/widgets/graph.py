"""The graph of a model on a canvas: click, probe, keep in FP32, colour by what was measured."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import anywidget
import traitlets

from trt_lab.compare.observer import Effect
from trt_lab.diagnose.locate import TensorError
from trt_lab.errors import UsageError
from trt_lab.graph.layout import Layout, layout
from trt_lab.graph.search import search
from trt_lab.graph.tree import default_expanded
from trt_lab.graph.view import GraphView
from trt_lab.types import TensorStats
from trt_lab.widgets.channel import Call, Channel, Reply
from trt_lab.widgets.graph_card import Known, make_card
from trt_lab.widgets.graph_layers import layer_lines
from trt_lab.widgets.graph_paint import Measured, make_colours
from trt_lab.widgets.graph_scene import make_scene, place_of
from trt_lab.widgets.graph_sight import see
from trt_lab.widgets.graph_static import static_html
from trt_lab.widgets.still import still
from trt_lab.wire import (
    Card,
    CardRequest,
    ColourBy,
    ColoursChanged,
    ColoursRequest,
    GraphChanged,
    Hit,
    Hits,
    KeepRequest,
    Place,
    PlaceRequest,
    ProbeRequest,
    SceneRequest,
    SearchRequest,
    UndoRequest,
)

if TYPE_CHECKING:
    from trt_lab.frames.times import Timed

NO_MODEL = "No model open."
_LAYOUTS_KEPT = 4

OnToggle = Callable[[str, bool], None]
"""Called with a tensor or node, and whether it was switched on."""


class GraphWidget(anywidget.AnyWidget):
    """Shows one model. It keeps what is shown and forwards what is clicked; it changes no model.

    Args:
        view: The model to show, or None.
        locked: Why nothing can be probed or kept in this graph; "" where it can.
    """

    _esm = Path(__file__).parent / "static" / "graph.js"

    selected = traitlets.Unicode().tag(sync=True)
    """Node, scope path or tensor that is chosen. Type: str. Default: "", nothing."""

    selected_tensor = traitlets.Unicode().tag(sync=True)
    """Tensor that is chosen; its edges are lit. Type: str. Default: "", none."""

    related = traitlets.List(traitlets.Unicode()).tag(sync=True)
    """Nodes that go with the selected one: those of one engine layer. Type: list of str. Default: []."""

    probes = traitlets.List(traitlets.Unicode()).tag(sync=True)
    """Probed tensors. Type: list of str. Default: []."""

    kept = traitlets.List(traitlets.Unicode()).tag(sync=True)
    """Nodes kept in FP32. Type: list of str. Default: []."""

    colour_by = traitlets.Enum(list(get_args(ColourBy)), "type").tag(sync=True)
    """What colours tell. Type: str. Default: "type"."""

    undo = traitlets.Unicode().tag(sync=True)
    """What Ctrl+Z takes back, in words. Type: str. Default: "", nothing."""

    empty = traitlets.Unicode(NO_MODEL).tag(sync=True)
    """What stands in place of a graph; "" while there is one. Type: str. Default: "No model open."."""

    def __init__(self, view: GraphView | None = None, *, locked: str = "", **traits: Any) -> None:
        self._locked = locked
        self._lock = threading.RLock()
        self._view = view
        self._measured = Measured()
        self._held: int | None = None
        self._layer_lines: Mapping[str, Sequence[str]] = {}
        self._layouts: dict[tuple[str, frozenset[str]], Layout] = {}
        self._on_probe: list[OnToggle] = []
        self._on_keep: list[OnToggle] = []
        self._on_undo: list[Callable[[], None]] = []
        super().__init__(empty="" if view is not None else NO_MODEL, **traits)
        self._channel = Channel(self)
        handle = self._channel.handle
        handle(SceneRequest, self._scene, background=True)
        handle(ColoursRequest, self._colours, background=True)
        handle(CardRequest, self._card, background=True)
        handle(SearchRequest, self._search, background=True)
        handle(PlaceRequest, self._place)
        handle(ProbeRequest, self._probe)
        handle(KeepRequest, self._keep)
        handle(UndoRequest, self._undo)
        self.observe(lambda _change: self._recolour(), ["probes", "kept"])

    # --- for the owner -------------------------------------------------------------------

    def set_view(self, view: GraphView | None, empty: str = NO_MODEL) -> None:
        """Shows another model, or none and `empty` in its place; what was measured is forgotten."""
        with self._lock:
            self._view, self._measured, self._layer_lines = view, Measured(), {}
            self._layouts.clear()
        with self.hold_sync():
            self.selected, self.selected_tensor, self.related, self.probes, self.kept = "", "", [], [], []
            self.empty = "" if view is not None else empty
        self._channel.emit(GraphChanged())

    def set_results(
        self,
        tensors: Iterable[TensorStats],
        record: Timed | None,
        lines: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Shows marks and errors of a diff, and layers and times of an engine.

        Args:
            tensors: Of the newest diff; none when there is none.
            record: Of the newest engine.
            lines: What cards say of the engine, by node; by default the layers that name the node.
        """
        layers = tuple(record.layers) if record is not None else ()
        timed = record.times if record is not None else ()
        with self._lock:
            stats = {entry.name: entry for entry in tensors}
            times = {time.index: time.average_ms for time in timed}
            self._layer_lines = layer_lines(layers, timed) if lines is None else lines
            self._measured = replace(self._measured, stats=stats, layers=layers, times_ms=times, sight={})
        self._recolour()

    def set_safe(self, safe: Collection[str], effects: Mapping[str, Effect] | None = None) -> None:
        """Marks the tensors that can be probed without changing the engine of `set_results`, which forgets them.

        Args:
            safe: Tensors that lie between its layers.
            effects: What the probes in it did to it.
        """
        with self._lock:
            if self._view is None:
                return
            sight = see(self._view, self._measured.layers, frozenset(safe), effects or {})
            if sight == self._measured.sight:
                return
            self._measured = replace(self._measured, sight=sight)
        self._recolour()

    def set_errors(self, errors: Iterable[TensorError]) -> None:
        """Shows local and accumulated errors that a search measured; none takes them away."""
        with self._lock:
            known = tuple(errors)
            if known == self._measured.errors:
                return
            self._measured = replace(self._measured, errors=known)
        self._recolour()

    @contextmanager
    def changing(self) -> Iterator[None]:
        """All that is measured anew in the block recolours the graph once, at its end: each time the browser asks anew."""
        with self._lock:
            self._held = 0
        try:
            yield
        finally:
            with self._lock:
                held, self._held = self._held, None
            if held:
                self._channel.emit(ColoursChanged())

    def _recolour(self) -> None:
        with self._lock:
            if self._held is not None:
                self._held += 1
                return
        self._channel.emit(ColoursChanged())

    def on_probe(self, callback: OnToggle) -> None:
        """Calls `callback(tensor, on)` when a probe is put on or taken off; its TrtLabError is shown on the card."""
        self._on_probe.append(callback)

    def on_keep(self, callback: OnToggle) -> None:
        """Calls `callback(node, on)` when a node is to be kept in FP32, or given back."""
        self._on_keep.append(callback)

    def on_undo(self, callback: Callable[[], None]) -> None:
        """Calls `callback()` when what `undo` says is to be taken back."""
        self._on_undo.append(callback)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is None:
            return None
        data, metadata = bundle
        with self._lock:
            view = self._view
        text = f"GraphWidget({view.model.name}, {len(view.nodes)} nodes)" if view is not None else "GraphWidget()"
        data = {**data, "text/plain": text}
        if view is not None:
            data["text/html"] = still(static_html(view))
        return data, metadata

    # --- for the browser -----------------------------------------------------------------

    def _open_view(self) -> GraphView:
        with self._lock:
            if self._view is None:
                raise UsageError("no model is open")
            return self._view

    def _layout(self, view: GraphView, graph: str, expanded: frozenset[str]) -> Layout:
        """The layout of that choice, of which the newest few are kept."""
        key = (graph, expanded)
        with self._lock:
            known = self._layouts.pop(key, None) if view is self._view else None
        made = known or layout(view, expanded, graph)
        with self._lock:
            if view is self._view:
                self._layouts[key] = made
                while len(self._layouts) > _LAYOUTS_KEPT:
                    del self._layouts[next(iter(self._layouts))]
        return made

    def _scene(self, request: SceneRequest, call: Call) -> Reply:
        view = self._open_view()
        view.scopes(request.graph)  # an unknown graph is refused before anything is chosen for it
        chosen = default_expanded(view, graph=request.graph) if request.expanded is None else request.expanded
        made = self._layout(view, request.graph, frozenset(chosen) | frozenset(request.open))
        call.check()
        with self._lock:
            if view is self._view:
                self._layouts[request.graph, made.expanded] = made
        return Reply(*make_scene(view, made))

    def _colours(self, request: ColoursRequest, call: Call) -> Reply:
        view = self._open_view()
        made = self._layout(view, request.graph, frozenset(request.expanded))
        with self._lock:
            measured = self._measured
        return Reply(*make_colours(view, made, request.by, measured, tuple(self.probes), tuple(self.kept)))

    def _card(self, request: CardRequest, call: Call) -> Card:
        view = self._open_view()
        with self._lock:
            measured, layers = self._measured, self._layer_lines
        known = Known(tuple(self.probes), tuple(self.kept), measured.stats, layers, measured.sight, self._locked)
        return make_card(view, request.item, known)

    def _search(self, request: SearchRequest, call: Call) -> Hits:
        found = search(self._open_view(), request.query, request.limit)
        return Hits(hits=[Hit(what=hit.kind, id=hit.id, label=hit.label, detail=hit.detail) for hit in found])

    def _place(self, request: PlaceRequest, call: Call) -> Place:
        return place_of(self._open_view(), request.item)

    def _probe(self, request: ProbeRequest, call: Call) -> None:
        self._refuse_if_locked()
        self._open_view().tensor(request.tensor)
        for callback in self._on_probe:
            callback(request.tensor, request.on)

    def _keep(self, request: KeepRequest, call: Call) -> None:
        self._refuse_if_locked()
        self._open_view().node(request.node)
        for callback in self._on_keep:
            callback(request.node, request.on)

    def _undo(self, request: UndoRequest, call: Call) -> None:
        for callback in self._on_undo:
            callback()

    def _refuse_if_locked(self) -> None:
        if self._locked:
            raise UsageError(self._locked)
