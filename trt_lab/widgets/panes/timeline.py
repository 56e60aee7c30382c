"""The Timeline tab: layers of one engine along time."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import ipywidgets as ui

from trt_lab.frames import times_frame
from trt_lab.record import Record
from trt_lab.views.timeline import timeline_figure
from trt_lab.widgets.figure import FigureWidget
from trt_lab.widgets.text import line

EMPTY = "No layer times yet: press Build."


class TimelinePane(ui.VBox):
    """Shows the layer times of one record.

    Args:
        on_select: Called with the index of the layer that was tapped.
    """

    def __init__(self, on_select: Callable[[int], None]) -> None:
        self._on_select = on_select
        self.heading = ui.HTML(line(EMPTY, kind="quiet"))
        self.figure = FigureWidget()
        self.figure.layout.display = "none"
        super().__init__([self.heading, self.figure])
        self.add_class("trt-lab-pane")

    def show(self, record: Record | None) -> None:
        """Shows another record."""
        if record is None or not record.times:
            text = EMPTY if record is None else "This engine was not profiled, so it has no layer times."
            self.heading.value = line(text, kind="quiet")
            self.figure.layout.display = "none"
            return
        self.heading.value = line(heading(record))
        self.figure.layout.display = ""
        self.figure.set_figure(timeline_figure(times_frame(record), on_select=self._on_select))


def heading(record: Record) -> str:
    """The two totals, never one called the other."""
    total = sum(time.average_ms for time in record.times)
    text = f"{len(record.times)} layers · sum of layers {total:.3f} ms (profiler on)"
    if record.latency_ms:
        text += f" · end-to-end latency {median(record.latency_ms):.3f} ms (median of {len(record.latency_ms)}, profiler off)"
    return text
