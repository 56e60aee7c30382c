"""The Log tab: what the backend said, and the Code tab: the Python that repeats it all."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import ipywidgets as ui

from trt_lab.errors import TrtLabError
from trt_lab.record import Record
from trt_lab.widgets.table import TableWidget
from trt_lab.widgets.text import line, preformatted
from trt_lab.wire import Column

COLUMNS = (
    Column(name="severity", label="severity", width=90),
    Column(name="source", label="from", width=110),
    Column(name="message", label="message"),
)
EMPTY = "No log yet: press Build."
LINES = 20_000
"""Lines held for the table; the record on disk has all."""


class LogPane(ui.VBox):
    """Shows the log of one record, warnings and errors counted."""

    def __init__(self) -> None:
        self.heading = ui.HTML()
        self.table = TableWidget(columns=COLUMNS, empty=EMPTY, rows_shown=20)
        super().__init__([self.heading, self.table])
        self.add_class("trt-lab-pane")

    def show(self, record: Record | None) -> None:
        """Shows another record."""
        lines = list(islice(record.log(), LINES)) if record is not None else []
        counts = {kind: sum(entry.severity == kind for entry in lines) for kind in ("error", "warning")}
        if record is not None:
            more = " (the first of more; all are in the record)" if len(lines) == LINES else ""
            text = f"{len(lines)} lines{more} · {counts['error']} errors · {counts['warning']} warnings · {record.path}"
            self.heading.value = line(text)
        self.table.empty = "The backend wrote no log." if record is not None else EMPTY
        self.table.set_rows(
            keys=[str(number) for number in range(len(lines))],
            severity=[entry.severity for entry in lines],
            source=[entry.source for entry in lines],
            message=[entry.message for entry in lines],
        )


class CodePane(ui.VBox):
    """Shows the Python that repeats what was done.

    Args:
        export: Writes the notebook and returns its path.
    """

    def __init__(self, export: Callable[[], str]) -> None:
        self._export = export
        self.code = ui.HTML()
        self.button = ui.Button(description="Export as notebook", icon="file-export", layout={"width": "auto"})
        self.told = ui.HTML()
        super().__init__([ui.HBox([self.button, self.told]), self.code])
        self.add_class("trt-lab-pane")
        self.button.on_click(self._clicked)

    def show(self, code: str) -> None:
        """Shows other code."""
        self.code.value = preformatted(code)

    def _clicked(self, _button: ui.Button) -> None:
        try:
            self.told.value = line(f"wrote {self._export()}", kind="good")
        except (TrtLabError, OSError) as error:
            self.told.value = line(str(error), kind="error")
