"""The Timeline tab: layers of one or more engines along time, and the slowest of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ipywidgets as ui

from trt_lab.profiling.latency import account_latency
from trt_lab.profiling.source import Engine
from trt_lab.record import Record
from trt_lab.views.timeline import Timeline, timeline_figure
from trt_lab.widgets.figure import FigureWidget
from trt_lab.widgets.table import TableWidget
from trt_lab.widgets.text import line
from trt_lab.wire import Column

SLOWEST = (10, 20, 50)
"""How many of the slowest layers can be listed."""

COLUMNS = (
    Column(name="rank", label="#", format="integer", width=44, help="1 is the slowest layer"),
    Column(name="name", label="slowest layers", format="name"),
    Column(name="type", label="type", width=120),
    Column(name="average_ms", label="mean", unit="ms", format="figure", width=84, help="of the profiled runs"),
    Column(name="share", label="share", format="share", width=84, help="of the sum of layers"),
    Column(name="together", label="so far", format="share", width=84, help="share of this layer and all slower ones"),
)


class TimelinePane(ui.VBox):
    """Shows the layer times of one record, and of others beside it; drawn only while it is seen.

    Args:
        on_select: Called with the index of the layer that was tapped or chosen in the table.
    """

    def __init__(self, on_select: Callable[[int], None]) -> None:
        self._on_select = on_select
        self._record: Record | None = None
        self._engine: Engine | None = None
        self._others: dict[str, Record] = {}
        self._drawn: tuple[object, ...] = ()
        self._timeline: Timeline | None = None
        self._seen = self._filling = False
        self.heading = ui.HTML(line("No layer times yet: press Build.", kind="quiet"))
        self.lanes = _choice("lanes by", [("stream", "stream"), ("ONNX scope", "scope"), ("layer type", "type")])
        self.runs = _choice(
            "runs", [("median", "median"), ("under each other", "each"), ("one after another", "sequence")]
        )
        self.beside = _choice("beside it", [("nothing", "")])
        self.count = _choice("list the slowest", [(str(count), count) for count in SLOWEST])
        controls = (self.lanes, self.runs, self.beside, self.count)
        self.controls = ui.HBox(controls, layout={"flex_flow": "row wrap"})
        self.figure = FigureWidget()
        self.table = TableWidget(columns=COLUMNS, empty="No layer was timed.", rows_shown=10, label="Slowest layers")
        super().__init__([self.heading, self.controls, self.figure, self.table])
        self.add_class("trt-lab-pane")
        for control in (self.lanes, self.runs, self.beside):
            control.observe(lambda _change: self._draw(), "value")
        self.count.observe(lambda _change: self._list_slowest(), "value")
        self.table.observe(lambda change: self._row_chosen(change["new"]), "selected")
        self._show_parts()

    def show(self, record: Record | None, engine: Engine | None = None, others: Sequence[Record] = ()) -> None:
        """Shows another record.

        Args:
            engine: The same as an engine: the difference of layer sum and latency is then explained.
            others: Records that can be put beside it.
        """
        self._record, self._engine = record, engine
        self._others = {other.name: other for other in others if other is not record and other.times}
        self._filling = True
        try:
            chosen = self.beside.value
            self.beside.options = [("nothing", ""), *((name, name) for name in self._others)]
            self.beside.value = chosen if chosen in self._others else ""
        finally:
            self._filling = False
        self._show_parts()
        self._list_slowest()
        self._draw()

    def set_seen(self, seen: bool) -> None:
        """Says whether the tab is the one on top."""
        self._seen = seen
        self._draw()

    def select(self, index: int) -> None:
        """Marks a layer."""
        self._filling = True
        try:
            self.table.selected = str(index) if str(index) in self._listed() else ""
        finally:
            self._filling = False
        if self._timeline is not None:
            self._timeline.select(index, reveal=True)

    def _show_parts(self) -> None:
        timed = self._record is not None and bool(self._record.times)
        _display(self.heading, self._record is None)
        _display(self.figure, self._record is not None)
        for part in (self.controls, self.table):
            _display(part, timed)
        _display(self.beside, bool(self._others))

    def _draw(self) -> None:
        record = self._record
        wanted = (record, self.lanes.value, self.runs.value, self.beside.value)
        if self._filling or not self._seen or record is None or wanted == self._drawn:
            return
        self._drawn = wanted
        other = self._others.get(str(self.beside.value or ""))
        self._timeline = Timeline(
            [record] if other is None else [record, other],
            runs=self.runs.value or "median",
            by=self.lanes.value or "stream",
            on_select=self._on_select,
            account=account_latency(self._engine) if self._engine is not None else None,
        )
        self.figure.set_figure(self._timeline.figure)

    def _listed(self) -> list[str]:
        times = self._record.times if self._record is not None else ()
        slowest = sorted(times, key=lambda time: -time.average_ms)[: int(self.count.value or SLOWEST[0])]
        return [str(time.index) for time in slowest]

    def _list_slowest(self) -> None:
        record = self._record
        times = {str(time.index): time for time in record.times} if record is not None else {}
        types = {str(layer.index): layer.type for layer in record.layers} if record is not None else {}
        total = sum(time.average_ms for time in times.values())
        keys, so_far = self._listed(), 0.0
        together: list[float | None] = []
        for key in keys:
            so_far += times[key].average_ms
            together.append(so_far / total if total else None)
        self.table.set_rows(
            keys=keys,
            rank=range(1, len(keys) + 1),
            name=[times[key].name for key in keys],
            type=[types.get(key, "") for key in keys],
            average_ms=[times[key].average_ms for key in keys],
            share=[times[key].average_ms / total if total else None for key in keys],
            together=together,
        )

    def _row_chosen(self, key: str) -> None:
        if key and not self._filling:
            if self._timeline is not None:
                self._timeline.select(int(key), reveal=True)
            self._on_select(int(key))


def timeline_widget(record: Record) -> FigureWidget:
    """The timeline of one record, for a notebook cell."""
    return FigureWidget(timeline_figure(record))


def _choice(label: str, options: list) -> ui.Dropdown:
    return ui.Dropdown(
        description=label, options=options, layout={"width": "auto"}, style={"description_width": "auto"}
    )


def _display(part: ui.DOMWidget, shown: bool) -> None:
    part.layout.display = "" if shown else "none"
