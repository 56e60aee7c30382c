"""The Layers tab: what the engine is made of."""

from __future__ import annotations

from collections.abc import Callable

import ipywidgets as ui

from trt_lab.record import Record
from trt_lab.widgets.table import TableWidget
from trt_lab.widgets.text import line
from trt_lab.wire import Column

COLUMNS = (
    Column(name="name", label="layer", format="name"),
    Column(name="type", label="type", width=110),
    Column(name="precision", label="computes in", width=132),
    Column(name="average_ms", label="mean", unit="ms", format="figure", width=80, help="of the profiled runs"),
    Column(name="share", label="share", format="share", width=70, help="of the sum of layers"),
    Column(name="nodes", label="ONNX nodes", format="name"),
)


class LayersPane(ui.VBox):
    """Shows the layers of one record.

    Args:
        on_select: Called with the index of the layer chosen in the table.
    """

    def __init__(self, on_select: Callable[[int], None]) -> None:
        self.heading = ui.HTML()
        self.table = TableWidget(columns=COLUMNS, empty="No engine yet: press Build.", rows_shown=20)
        super().__init__([self.heading, self.table])
        self.add_class("trt-lab-pane")
        self.table.observe(lambda change: on_select(int(change["new"])) if change["new"] else None, "selected")

    def show(self, record: Record | None) -> None:
        """Shows another record."""
        layers = record.layers if record is not None else ()
        times = {time.index: time.average_ms for time in record.times} if record is not None else {}
        total = sum(times.values())
        self.heading.value = line(heading(record)) if record is not None else ""
        self.table.set_rows(
            keys=[str(layer.index) for layer in layers],
            name=[layer.name for layer in layers],
            type=[layer.type for layer in layers],
            precision=[layer.precision or "" for layer in layers],
            average_ms=[times.get(layer.index) for layer in layers],
            share=[times[layer.index] / total if total and layer.index in times else None for layer in layers],
            nodes=[" + ".join(layer.nodes) for layer in layers],
        )

    def select(self, index: int) -> None:
        """Marks a layer."""
        self.table.selected = str(index)


def heading(record: Record) -> str:
    """Backend, version, and whether low precision is real or emulated."""
    meta = record.meta
    text = f"{len(record.layers)} layers · {meta.backend} {meta.backend_version or ''}"
    emulated = meta.facts.get("emulated")
    return f"{text} · {emulated} emulated on the CPU: a prediction" if emulated else text
