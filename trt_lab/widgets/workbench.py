"""The workbench: graph on the left, what was measured on the right, one toolbar, one selection."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import ipywidgets as ui

from trt_lab import storage
from trt_lab.compare.observer import Observation
from trt_lab.diagnose.recipes import recipes
from trt_lab.diagnose.steps import Search
from trt_lab.errors import TrtLabError
from trt_lab.options import parse_precision
from trt_lab.profiling.source import Engine
from trt_lab.record import Record
from trt_lab.results import Diff
from trt_lab.session import Change, Session
from trt_lab.types import NodeId, TensorId
from trt_lab.widgets.channel import answer_while_busy
from trt_lab.widgets.graph import GraphWidget
from trt_lab.widgets.graph_layers import engine_lines
from trt_lab.widgets.graph_static import static_html
from trt_lab.widgets.panes.diff import DiffPane
from trt_lab.widgets.panes.graphs import GraphsPane
from trt_lab.widgets.panes.layers import LayersPane
from trt_lab.widgets.panes.locate import LocateActions, LocatePane
from trt_lab.widgets.panes.log import CodePane, LogPane
from trt_lab.widgets.panes.timeline import TimelinePane
from trt_lab.widgets.still import still
from trt_lab.widgets.text import line
from trt_lab.widgets.toolbar import Toolbar
from trt_lab.widgets.undo import Undo

STATUS_EVERY_S = 0.25
"""Progress is shown at most this often; the last state always is."""

TABS = ("Diff", "Locate", "Timeline", "Layers", "Log", "Code")


class Workbench(ui.VBox):
    """Shows a session and forwards clicks to it. Computes nothing.

    Handlers run in several threads (`widgets.channel.answer_while_busy`), so all that they share is
    used under one lock.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._stop: Callable[[], None] = lambda: None
        self._lock = threading.RLock()
        self._selecting = False
        self._status_at = 0.0
        self._engine: Engine | None = None
        self._engine_record: Record | None = None
        self._engine_lines: dict[str, list[str]] | None = None
        self._search_shown: tuple[Search | None, str] | None = None
        self.error = ui.HTML()
        self.graph = GraphWidget(session.view)
        self.undo = Undo(self._show_undo)
        self.toolbar = Toolbar(session, self._show_error)
        self.diff_pane = DiffPane(self._tensor_chosen)
        self.locate_pane = LocatePane(
            LocateActions(
                self._start_search, session.cancel, self._choose, self._keep_found, self.undo.take_back, self._repaired
            )
        )
        self.timeline_pane = TimelinePane(self._layer_chosen)
        self.layers_pane = LayersPane(self._layer_chosen)
        self.log_pane = LogPane()
        self.code_pane = CodePane(self._export)
        self.tabs = ui.Tab(
            [self.diff_pane, self.locate_pane, self.timeline_pane, self.layers_pane, self.log_pane, self.code_pane],
            titles=TABS,
        )
        self.graphs = GraphsPane(self.graph, self._layer_chosen)
        body = ui.HBox([self.graphs, self.tabs])
        body.add_class("trt-lab-body")
        super().__init__([_style(), self.toolbar, self.error, body])
        self.add_class("trt-lab-workbench")
        self.graph.on_probe(self._probe)
        self.graph.on_keep(self._keep)
        self.graph.on_undo(self.undo.take_back)
        self.graph.observe(lambda change: self._node_chosen(change["new"]), "selected")
        self.tabs.observe(lambda change: self._tab_chosen(change["new"]), "selected_index")
        self._show_all()
        self._stop = session.observe(self._changed)
        answer_while_busy(self)
        if session.records and session.reference is None:
            session.start_golden()

    def close(self) -> None:
        """Takes the workbench off the page and stops listening to the session."""
        self._stop()
        super().close()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """Beside the live view a still one, so that a saved notebook shows something without a kernel."""
        bundle = dict(super()._repr_mimebundle_(**kwargs) or {})
        _, diff = self._newest()
        found = diff._repr_html_() if diff is not None else ""
        found += self._session.finding._repr_html_() if self._session.finding is not None else ""
        bundle["text/plain"] = repr(self._session)
        bundle["text/html"] = still(static_html(self._session.view) + found)
        return bundle

    # --- from the session ----------------------------------------------------------------

    def _changed(self, change: Change) -> None:
        if change == "status":
            self._show_status()
            return
        with self._lock, self.graph.changing():
            if change == "model":
                self.graph.set_view(self._session.view)
                self.undo.clear()
                self._show_all()
            elif change in ("probes", "options"):
                self._show_choices()
                self._show_kept()
            elif change == "observer":
                self._show_observation()
            elif change == "samples":
                self.toolbar.refresh()
            elif change == "outputs":
                self.diff_pane.show(self._session.early, self._session.blame())
                answer_while_busy(self.diff_pane)
            elif change in ("record", "reference", "finding"):
                self._show_results()
                self._show_finding()
                if change == "finding" and self._session.finding is not None and self._session.finding.errors:
                    self.graph.colour_by = "local"
            elif change == "code":
                self.code_pane.show(self._session.code)

    def _show_all(self) -> None:
        self._show_choices()
        self._show_results()
        self._show_finding()
        self._show_search()
        self.code_pane.show(self._session.code)
        self.toolbar.show_status(self._session.status)

    def _show_status(self) -> None:
        status, now = self._session.status, time.monotonic()
        if status.state == "busy" and now - self._status_at < STATUS_EVERY_S:
            return
        self._status_at = now
        self.toolbar.show_status(status)
        with self._lock:
            self._show_search_choice()
            self._show_search()

    def _show_search(self) -> None:
        """The steps of a search while it runs, and once more when it has ended."""
        session, search = self._session, self._session.search
        state = search.state if search is not None else ""
        if state != "running" and (search, state) == self._search_shown:
            return
        began_or_ended = self._search_shown != (search, state)
        self._search_shown = (search, state)
        if state == "running" and began_or_ended:
            self.tabs.selected_index = TABS.index("Locate")
        region = session.finding.region if session.finding is not None and state == "ended" else None
        steps = search.steps(region.trials if region is not None else ()) if search is not None else ()
        self.locate_pane.show_search(search, steps, session.status.text)
        if began_or_ended:
            self._show_finding()

    def _show_search_choice(self) -> None:
        options, busy = self._session.options, self._session.status.state == "busy"
        self.locate_pane.show_choice(options.plan.default, options.backend, busy=busy)

    def _show_finding(self) -> None:
        """The finding, unless it is being searched anew."""
        session, finding = self._session, self._session.finding
        if session.search is not None and session.search.state != "ended":
            finding = None
        told: dict[str, str] = {}
        if finding is not None:
            path = str(session.model.path or f"{session.model.name}.onnx")
            told = recipes(path, parse_precision(finding.precision), finding.keep_fp32)
        self.locate_pane.show_finding(finding, told)
        self._show_kept()
        self.graph.set_errors(finding.errors if finding is not None else ())

    def _show_kept(self) -> None:
        """Whether what was found is kept already."""
        finding, plan = self._session.finding, self._session.options.plan
        self.locate_pane.show_kept(
            finding is not None and (finding.precision, finding.keep_fp32) == (plan.default, plan.keep_fp32)
        )

    def _show_choices(self) -> None:
        session = self._session
        self.graph.probes = [str(tensor) for tensor in session.probes]
        self.graph.kept = [str(node) for node in session.options.plan.keep_fp32]
        self.toolbar.refresh()
        self._show_search_choice()

    def _show_results(self) -> None:
        record, diff = self._newest()
        self.diff_pane.show(diff, self._session.blame())
        tensors = diff.tensors if diff is not None else ()
        engine, lines = self._engine_of(record)
        self.timeline_pane.show(record, engine, self._others(record))
        self.layers_pane.show(record, engine)
        self.log_pane.show(record)
        self.graph.set_results(tensors, record, lines)
        self.graphs.show(engine, tensors)
        self._show_observation()
        answer_while_busy(self)

    def _engine_of(self, record: Record | None) -> tuple[Engine | None, dict[str, list[str]] | None]:
        """The engine of a record and what cards say of it; made once, as diffs and findings of it come later."""
        if record is not self._engine_record:
            self._engine_record, self._engine, self._engine_lines = record, None, None
            if record is not None:
                try:
                    self._engine = self._session.engine(record)
                    self._engine_lines = engine_lines(self._engine)
                except TrtLabError as error:
                    self._show_error(str(error))
        return self._engine, self._engine_lines

    def _others(self, record: Record | None) -> list[Record]:
        """Records that can stand beside one in the timeline, the newest first."""
        found = [*reversed(self._session.records), *filter(None, [self._session.reference])]
        return [other for other in found if other is not record]

    def _show_observation(self) -> None:
        """What the probes did to the newest engine, and where others would do nothing."""
        records = self._session.records
        seen = self._seen(records[-1] if records else None)
        self.diff_pane.show_observation(seen)
        self.graph.set_safe(self._session.safe_to_probe, seen.by_probe if seen is not None else {})

    def _seen(self, record: Record | None) -> Observation | None:
        try:
            return self._session.observer(record) if record is not None else None
        except TrtLabError as error:
            self._show_error(str(error))
            return None

    def _newest(self) -> tuple[Record | None, Diff | None]:
        records = self._session.records
        if not records or self._session.reference is None:
            return (records[-1] if records else None), None
        try:
            return records[-1], self._session.compare()
        except TrtLabError as error:
            self._show_error(str(error))
            return records[-1], None

    # --- from the browser ----------------------------------------------------------------

    def _probe(self, tensor: str, on: bool) -> None:
        put, take = self._session.probe, self._session.unprobe
        (put if on else take)(tensor)
        self.undo.did(f"{'probe' if on else 'no probe'} on {tensor}", lambda: (take if on else put)(tensor))

    def _keep(self, node: str, on: bool) -> None:
        keep, give = self._session.keep, self._session.unkeep
        (keep if on else give)(node)
        self.undo.did(f"{node} {'kept' if on else 'not kept'} in FP32", lambda: (give if on else keep)(node))

    def _show_undo(self, what: str) -> None:
        self.graph.undo = what
        self.locate_pane.show_undo(what)

    def _start_search(self, resume: bool) -> None:
        try:
            self._session.start_locate(resume=resume)
        except TrtLabError as error:
            self._show_error(str(error))

    def _keep_found(self) -> None:
        session, before = self._session, self._session.options.plan
        finding = session.finding
        if finding is None:
            return
        session.use(precision=finding.precision, keep_fp32=finding.keep_fp32)
        self.undo.did(
            f"{len(finding.keep_fp32)} nodes kept in FP32",
            lambda: session.use(precision=before.default, keep_fp32=before.keep_fp32),
        )

    def _repaired(self) -> str:
        session, finding = self._session, self._session.finding
        stem = f"{session.model.name}.{finding.precision}" if finding is not None else session.model.name
        return str(session.export_repaired(storage.next_path(Path.cwd(), storage.safe_name(stem), ".onnx")))

    def _choose(self, node: str) -> None:
        self.graph.selected = node

    def _export(self) -> str:
        return str(self._session.export_notebook(Path.cwd() / f"{self._session.model.name}-trt-lab.ipynb"))

    def _show_error(self, text: str) -> None:
        self.error.value = line(text, kind="error") if text else ""

    def _node_chosen(self, node: str) -> None:
        view = self._session.view
        if node not in view.nodes:
            return
        outputs = [tensor for tensor in view.nodes[NodeId(node)].outputs if tensor is not None]

        def show() -> None:
            for tensor in outputs:
                self.diff_pane.show_tensor(tensor)
            self._mark_layer(NodeId(node))

        self._select(show)

    def _tensor_chosen(self, tensor: str) -> None:
        producer = self._session.view.tensors[TensorId(tensor)].producer

        def show() -> None:
            self.graph.selected_tensor = tensor
            self.graph.selected = producer or tensor
            if producer is not None:
                self._mark_layer(producer)

        self._select(show)

    def _layer_chosen(self, index: int) -> None:
        nodes = self._nodes_of(index)

        def show() -> None:
            if nodes:
                self.graph.selected = str(nodes[-1])
            self._mark_layers([index], nodes)

        self._select(show)

    def _mark_layer(self, node: NodeId) -> None:
        """Marks the layers of a node, those that compute it first, and the nodes that share them."""
        found = self._engine.map if self._engine is not None else None
        makers = found.computed_in(node) if found is not None else ()
        layers = list(dict.fromkeys((*makers, *found.layers_of(node)))) if found is not None else []
        self._mark_layers(layers, [other for layer in makers or layers for other in self._nodes_of(layer)])

    def _mark_layers(self, layers: list[int], nodes: Sequence[NodeId]) -> None:
        self.graph.related = list(dict.fromkeys(map(str, nodes)))
        self.graphs.select(layers)
        if layers:
            self.layers_pane.select(layers[0])
            self.timeline_pane.select(layers[0])

    def _nodes_of(self, layer: int) -> tuple[NodeId, ...]:
        found = self._engine.map if self._engine is not None else None
        return found.nodes_of(layer) if found is not None else ()

    def _tab_chosen(self, index: int | None) -> None:
        with self._lock:
            self.timeline_pane.set_seen(index == TABS.index("Timeline"))

    def _select(self, show: Callable[[], None]) -> None:
        """Shows a selection in the other views; what these then report back is not a new one."""
        with self._lock:
            if self._selecting:
                return
            self._selecting = True
            try:
                show()
            finally:
                self._selecting = False


def error_panel(path: str, message: str) -> ui.VBox:
    """What stands in place of a workbench for a file that cannot be opened."""
    heading = line(f"{Path(path).name} cannot be opened", strong=True)
    return ui.VBox([_style(), ui.HTML(heading), ui.HTML(line(message, kind="error"))])


def _style() -> ui.HTML:
    css = files("trt_lab.widgets").joinpath("workbench.css").read_text("utf-8")
    return ui.HTML(f"<style>{css}</style>", layout={"display": "none"})
