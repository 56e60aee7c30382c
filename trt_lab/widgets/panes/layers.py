"""The Layers tab: what the engine is made of, and who has which share of it."""

from __future__ import annotations

from collections.abc import Callable

import ipywidgets as ui

from trt_lab.profiling.shares import Share, memory, reformats, shares
from trt_lab.profiling.source import Engine
from trt_lab.record import Record
from trt_lab.widgets.table import TableWidget
from trt_lab.widgets.text import line
from trt_lab.wire import Column

COLUMNS = (
    Column(name="index", label="#", format="integer", width=44, help="place in the engine's own order"),
    Column(name="name", label="layer", format="name", width=220),
    Column(name="average_ms", label="mean", unit="ms", format="figure", width=84, help="of the profiled runs"),
    Column(name="share", label="share", format="share", width=72, help="of the sum of layers"),
    Column(name="type", label="type", width=126),
    Column(name="precision", label="computes in", width=112),
    Column(name="weights_kib", label="weights", unit="KiB", format="figure", width=104, help="weights and constants"),
    Column(
        name="moved_kib",
        label="moves",
        unit="KiB",
        format="figure",
        width=96,
        help="activations read and written, at least: sizes that are not known count as 1",
    ),
    Column(name="node_count", label="nodes", format="integer", width=64, help="ONNX nodes that went into it"),
    Column(name="nodes", label="ONNX nodes", format="name", width=240),
    Column(name="tactic", label="tactic", format="name", width=240),
)

_GROUPS = 6
"""Most precisions or types that a line names."""


class LayersPane(ui.VBox):
    """Shows the layers of one record.

    Args:
        on_select: Called with the index of the layer chosen in the table.
    """

    def __init__(self, on_select: Callable[[int], None]) -> None:
        self.heading = ui.HTML()
        self.shares = ui.HTML()
        self.table = TableWidget(columns=COLUMNS, empty="No engine yet: press Build.", rows_shown=20, label="Layers")
        super().__init__([self.heading, self.shares, self.table])
        self.add_class("trt-lab-pane")
        self.table.observe(lambda change: on_select(int(change["new"])) if change["new"] else None, "selected")

    def show(self, record: Record | None, engine: Engine | None = None) -> None:
        """Shows another record.

        Args:
            engine: The same as an engine: shares by type and precision, and memory by layer, are then told.
        """
        layers = record.layers if record is not None else ()
        times = {time.index: time.average_ms for time in record.times} if record is not None else {}
        total = sum(times.values())
        held = {each.index: each for each in memory(engine)} if engine is not None else {}
        self.heading.value = line(heading(record)) if record is not None else ""
        self.shares.value = "".join(line(text) for text in share_lines(engine)) if engine is not None else ""
        self.table.set_rows(
            keys=[str(layer.index) for layer in layers],
            index=[layer.index for layer in layers],
            name=[layer.name for layer in layers],
            type=[layer.type for layer in layers],
            precision=[layer.precision or "" for layer in layers],
            average_ms=[times.get(layer.index) for layer in layers],
            share=[times[layer.index] / total if total and layer.index in times else None for layer in layers],
            weights_kib=[_kib(held[layer.index].weights_bytes) if held else None for layer in layers],
            moved_kib=[_kib(held[layer.index].least_bytes) if held else None for layer in layers],
            node_count=[len(layer.nodes) if layer.nodes_from != "none" else None for layer in layers],
            nodes=[" + ".join(layer.nodes) for layer in layers],
            tactic=[layer.tactic or "" for layer in layers],
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


def share_lines(engine: Engine) -> list[str]:
    """Share of the time, or of the layers where none was timed, by precision and by type; what reformats cost."""
    if not engine.layers:
        return []
    lines = [f"by {by}: {_listed(shares(engine, by), len(engine.layers))}" for by in ("precision", "type")]
    found = reformats(engine)
    if found:
        timed = [each.time_ms for each in found if each.time_ms is not None]
        total = engine.layer_sum_ms
        cost = f", {sum(timed):.3g} ms, {sum(timed) / total:.1%} of the layer sum" if timed and total else ""
        lines.append(f"reformats: {len(found)} of {len(engine.layers)} layers only change type or layout{cost}")
    return lines


def _listed(found: tuple[Share, ...], layers: int) -> str:
    parts = [
        f"{each.key} {each.share:.1%}" if each.share is not None else f"{each.key} {each.layers} of {layers} layers"
        for each in found[:_GROUPS]
    ]
    return " · ".join(parts) + (f" · {len(found) - _GROUPS} more" if len(found) > _GROUPS else "")


def _kib(size: int | None) -> float | None:
    return None if size is None else size / 1024
