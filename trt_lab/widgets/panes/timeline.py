"""The Timeline tab: layers of one engine along time."""

from __future__ import annotations

from collections.abc import Callable

import ipywidgets as ui

from trt_lab.record import Record
from trt_lab.views.timeline import select_layer, timeline_figure
from trt_lab.widgets.figure import FigureWidget
from trt_lab.widgets.text import line


class TimelinePane(ui.VBox):
    """Shows the layer times of one record; drawn only while it is seen.

    Args:
        on_select: Called with the index of the layer that was tapped.
    """

    def __init__(self, on_select: Callable[[int], None]) -> None:
        self._on_select = on_select
        self._record: Record | None = None
        self._drawn: Record | None = None
        self._seen = False
        self.heading = ui.HTML(line("No layer times yet: press Build.", kind="quiet"))
        self.figure = FigureWidget()
        self.figure.layout.display = "none"
        super().__init__([self.heading, self.figure])
        self.add_class("trt-lab-pane")

    def show(self, record: Record | None) -> None:
        """Shows another record."""
        self.heading.layout.display = "" if record is None else "none"
        self.figure.layout.display = "none" if record is None else ""
        self._record = record
        self._draw()

    def set_seen(self, seen: bool) -> None:
        """Says whether the tab is the one on top."""
        self._seen = seen
        self._draw()

    def _draw(self) -> None:
        record = self._record
        if self._seen and record is not None and record is not self._drawn:
            self._drawn = record
            self.figure.set_figure(timeline_figure(record, on_select=self._on_select))

    def select(self, index: int) -> None:
        """Marks a layer."""
        if self.figure.figure is not None:
            select_layer(self.figure.figure, index)


def timeline_widget(record: Record) -> FigureWidget:
    """The timeline of one record, for a notebook cell."""
    return FigureWidget(timeline_figure(record))
