"""The Timeline tab: layers of one engine along time."""

from __future__ import annotations

from collections.abc import Callable

import ipywidgets as ui

from trt_lab.record import Record
from trt_lab.views.timeline import select_layer, timeline_figure
from trt_lab.widgets.figure import FigureWidget
from trt_lab.widgets.text import line


class TimelinePane(ui.VBox):
    """Shows the layer times of one record.

    Args:
        on_select: Called with the index of the layer that was tapped.
    """

    def __init__(self, on_select: Callable[[int], None]) -> None:
        self._on_select = on_select
        self.heading = ui.HTML(line("No layer times yet: press Build.", kind="quiet"))
        self.figure = FigureWidget()
        self.figure.layout.display = "none"
        super().__init__([self.heading, self.figure])
        self.add_class("trt-lab-pane")

    def show(self, record: Record | None) -> None:
        """Shows another record."""
        self.heading.layout.display = "" if record is None else "none"
        self.figure.layout.display = "none" if record is None else ""
        if record is not None:
            self.figure.set_figure(timeline_figure(record, on_select=self._on_select))

    def select(self, index: int) -> None:
        """Marks a layer."""
        if self.figure.figure is not None:
            select_layer(self.figure.figure, index)


def timeline_widget(record: Record) -> FigureWidget:
    """The timeline of one record, for a notebook cell."""
    return FigureWidget(timeline_figure(record))
