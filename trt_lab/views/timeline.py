"""Layers of an engine along time: one lane a stream, coloured by layer type, joined where they are too narrow to see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from bokeh.layouts import column
from bokeh.models import ColumnDataSource, FixedTicker, HoverTool, LayoutDOM, Range1d, TapTool, UIElement
from bokeh.plotting import figure

from trt_lab.types import LayerInfo
from trt_lab.views.lanes import PIXELS, Bars, Groups, Timed, join_narrow, lay_out, layer_sum_ms
from trt_lab.views.numbers import plural
from trt_lab.views.text import message_pane, strong, swatch, text_pane
from trt_lab.views.theme import CATEGORICAL, MERGED_COLOUR, category_colours, finish, paint

SOURCE = "layers"
"""Name of the data source of the bars; its column `layer` holds the layer's index, −1 where several are joined."""

LANE_HEIGHT = 38
MARGIN = 92
MAX_HEIGHT = 640
NARROW = 620
"""Width for which labels are cut, in pixels: half a laptop's screen, so that they fit wider ones too."""

_CHARACTER = 6.2
"""Mean width of a character of the labels, in pixels."""

_NODES_SHOWN = 6


def timeline_figure(
    records: Timed | Sequence[Timed],
    *,
    runs: Literal["median", "each"] = "median",
    on_select: Callable[[int], None] | None = None,
) -> LayoutDOM:
    """The timeline of one record, or of several under each other.

    Bars narrower than a pixel are joined and say how many layers they hold; they come apart when one zooms in
    (where Python is there to answer). Layer sum and end-to-end latency are given as two numbers.

    Args:
        records: Anything with `name`, `layers`, `times` and `latency_ms`.
        runs: One bar a layer at its median with the spread beside it, or the lanes of each run.
        on_select: Called with the index of the layer that was clicked, once a click; not for joined bars.
    """
    sides = list(records) if isinstance(records, Sequence) else [records]
    if not any(side.times for side in sides):
        reason = "no layers" if not any(side.layers for side in sides) else "it was built without the profiler"
        return _stack(message_pane("No layer times in this record", [f"Reason: {reason}."]))
    bars = lay_out(sides, runs)
    view = _View(sides, bars)
    plot = view.plot()
    if on_select is not None:
        view.source.selected.on_change("indices", lambda _name, _old, new: _tell(view.source, new, on_select))
    headings = [_numbers(side, titled=len(sides) > 1) for side in sides]
    notes = [*bars.notes]
    if len(view.spread.data["x0"]):
        notes.append("the line under a bar spans the ends of 80 % of its runs")
    return _stack(text_pane([*headings, notes and ["; ".join(notes) + "."]]), plot, text_pane([view.legend()]))


def select_layer(timeline: UIElement, layer: int | None) -> None:
    """Selects the bar of a layer (None: nothing). A bar that stands for several layers is selected for each of them."""
    source = timeline.select_one({"name": SOURCE})
    if not isinstance(source, ColumnDataSource):
        return
    first, last = np.asarray(source.data["first_layer"]), np.asarray(source.data["last_layer"])
    found: list[int] = [] if layer is None else np.flatnonzero((first <= layer) & (layer <= last)).tolist()
    if source.selected.indices != found:
        source.selected.indices = found


def _tell(source: ColumnDataSource, indices: Sequence[int], on_select: Callable[[int], None]) -> None:
    column = np.asarray(source.data["layer"])
    layers = {int(column[index]) for index in indices}
    if len(layers) == 1 and (layer := layers.pop()) >= 0:
        on_select(layer)


def _stack(*parts) -> LayoutDOM:
    return finish(column(*parts, sizing_mode="stretch_width"))


def _numbers(record: Timed, *, titled: bool) -> list:
    """Layer sum and latency, each called by its own name."""
    total = layer_sum_ms(record)
    runs = min((len(time.runs_ms) for time in record.times), default=0)
    how = f"averages of {plural(runs, 'profiled run')}" if runs else "while profiled"
    line: list = [strong(f"{record.name}: ")] if titled else []
    line += ["layer sum ", strong(f"{total:.4g} ms"), f" ({plural(len(record.times), 'layer')}, {how})"]
    latency = list(record.latency_ms)
    if latency:
        line += [" · end-to-end latency ", strong(f"{float(np.median(latency)):.4g} ms")]
        line += [f" (median of {plural(len(latency), 'run')} without the profiler)"]
    else:
        line += [" · end-to-end latency not measured"]
    return line


class _View:
    """The bars on the screen, drawn anew when the range shown asks for finer ones."""

    def __init__(self, records: Sequence[Timed], bars: Bars) -> None:
        self._bars = bars
        self._records = records
        self._layers: list[dict[int, LayerInfo]] = [{layer.index: layer for layer in r.layers} for r in records]
        self._names = [{time.index: time.name for time in r.times} for r in records]
        self._averages = [{time.index: time.average_ms for time in r.times} for r in records]
        self._totals = [layer_sum_ms(r) or 1.0 for r in records]
        self._types = [self._type(i) for i in range(bars.layer.size)]
        spent: dict[str, float] = {}
        for kind, duration in zip(self._types, bars.duration.tolist(), strict=True):
            spent[kind] = spent.get(kind, 0.0) + duration
        self._spent = dict(sorted(spent.items(), key=lambda item: -item[1]))
        self._colours = category_colours(list(self._spent))
        self._end = bars.end * 1.01 or 1.0
        self._loaded = (0.0, self._end)
        self.x_range = Range1d(start=0.0, end=self._end, bounds=(0, self._end), name="time")
        groups = join_narrow(bars, 0.0, self._end)
        self.joined = bool((groups.count > 1).any())
        self.source = ColumnDataSource(data=self._columns(groups, self._end), name=SOURCE)
        self.spread = ColumnDataSource(data=self._whiskers(groups, self._end), name="spread")

    def plot(self):
        lanes = len(self._bars.lanes)
        plot = figure(
            x_range=self.x_range,
            y_range=Range1d(start=lanes - 0.5, end=-0.5),
            height=min(MAX_HEIGHT, MARGIN + LANE_HEIGHT * lanes),
            min_width=300,
            sizing_mode="stretch_width",
            tools="xpan,xbox_zoom,xwheel_zoom,reset",
            toolbar_location="above",
            x_axis_label="ms",
        )
        bars = plot.hbar(
            y="y", left="left", right="right", height=0.66, source=self.source, fill_color="colour", line_color="colour"
        )
        bars.nonselection_glyph = bars.glyph.clone(fill_alpha=0.35, line_alpha=0.35)
        bars.selection_glyph = bars.glyph.clone()
        bars.selection_glyph.line_width = 2
        paint(bars.selection_glyph, line_color="text")
        whiskers = plot.segment(x0="x0", x1="x1", y0="y", y1="y", source=self.spread, line_width=2)
        paint(whiskers.glyph, line_color="muted")
        labels = plot.text(
            x="left",
            y="y",
            text="label",
            source=self.source,
            text_color="ink",
            text_font_size="11px",
            text_baseline="middle",
            x_offset=4,
        )
        labels.nonselection_glyph = labels.glyph.clone(text_alpha=0.5)
        plot.add_tools(_hover(bars), TapTool(renderers=[bars]))
        plot.yaxis.ticker = FixedTicker(ticks=list(range(lanes)))
        plot.yaxis.major_label_overrides = {i: _elide(name, 28) for i, name in enumerate(self._bars.lanes)}
        plot.yaxis.major_tick_line_color = None
        plot.ygrid.visible = False
        if self.joined:
            for edge in ("start", "end"):
                self.x_range.on_change(edge, self._range_changed)
        return plot

    def legend(self) -> list:
        """Types and their share of the time, in the colours of the bars."""
        total = sum(self._spent.values()) or 1.0
        named = [item for item in self._spent.items()][: len(CATEGORICAL)]
        pieces = [swatch(self._colours[kind], f"{_elide(kind, 40)} {duration / total:.1%}") for kind, duration in named]
        others = len(self._spent) - len(named)
        if others or self.joined:
            words = [f"{plural(others, 'other type')}"] * bool(others) + [
                "layers of several types, joined: zoom in"
            ] * self.joined
            pieces.append(swatch(MERGED_COLOUR, "; ".join(words)))
        return pieces

    def _range_changed(self, _name: str, _old: float, _new: float) -> None:
        """Sends bars for the range shown and its surroundings, unless those on the screen are fine enough."""
        start, end = (float(edge) for edge in (self.x_range.start, self.x_range.end) if isinstance(edge, float | int))
        width, (low, high) = end - start, self._loaded
        if width <= 0 or (low <= start and end <= high and width * 8 > high - low):
            return
        low, high = max(0.0, start - width), min(self._end, end + width)
        self._loaded = (low, high)
        groups = join_narrow(self._bars, low, high, pixels=3 * PIXELS)
        layers = np.asarray(self.source.data["layer"])
        chosen = {int(layers[index]) for index in self.source.selected.indices} - {-1}
        columns = self._columns(groups, width)
        self.source.data = columns
        self.spread.data = self._whiskers(groups, width)
        self.source.selected.indices = [i for i, layer in enumerate(columns["layer"].tolist()) if layer in chosen]

    def _type(self, bar: int) -> str:
        layer = self._layers[self._bars.engine[bar]].get(int(self._bars.layer[bar]))
        return layer.type if layer is not None and layer.type else "type not recorded"

    def _share_of_types(self, bar: int, count: int) -> dict[str, float]:
        """Time of each layer type among joined bars."""
        shares: dict[str, float] = {}
        for at in range(bar, bar + count):
            shares[self._types[at]] = shares.get(self._types[at], 0.0) + float(self._bars.duration[at])
        return shares

    def _columns(self, groups: Groups, width: float) -> dict[str, Any]:
        bars, first, single = self._bars, groups.first, groups.count == 1
        last = first + groups.count - 1
        rows = [
            self._row(int(f), int(n), float(busy)) for f, n, busy in zip(first, groups.count, groups.busy, strict=True)
        ]
        room = (groups.right - groups.left) / width * NARROW
        names = [row["name"] for row in rows]
        labels = [_fit(name, pixels) for name, pixels in zip(names, room.tolist(), strict=True)]
        return {
            "left": groups.left,
            "right": groups.right,
            "y": bars.lane[first].astype(np.int32),
            "layer": np.where(single, bars.layer[first], -1).astype(np.int32),
            "first_layer": bars.layer[first].astype(np.int32),
            "last_layer": bars.layer[last].astype(np.int32),
            "label": labels,
            **{key: [row[key] for row in rows] for key in ("name", "type", "nodes", "time", "colour", "ink")},
        }

    def _row(self, bar: int, count: int, busy: float) -> dict[str, str]:
        engine = int(self._bars.engine[bar])
        layers = self._bars.layer[bar : bar + count].tolist()
        share = sum(self._averages[engine][layer] for layer in layers) / self._totals[engine]
        kinds = self._share_of_types(bar, count)
        main = max(kinds, key=kinds.__getitem__)
        colour = self._colours[main] if kinds[main] > 0.5 * busy or len(kinds) == 1 else MERGED_COLOUR
        row = {"colour": colour, "ink": _ink(colour), "time": f"{busy:.4g} ms · {share:.2%} of the layer sum"}
        if count > 1:
            text = ", ".join(sorted(kinds)[:4]) + (" …" if len(kinds) > 4 else "")
            return row | {"name": f"{count:,} layers", "type": text, "nodes": "zoom in to see them"}
        low, high = self._bars.low[bar], self._bars.high[bar]
        if np.isfinite(low):
            row["time"] += f" · 80 % of runs in {low:.4g} … {high:.4g}"
        index = int(self._bars.layer[bar])
        layer = self._layers[engine].get(index)
        precision = f" · {layer.precision}" if layer is not None and layer.precision else ""
        nodes = layer.nodes if layer is not None else ()
        text = ", ".join(_elide(node, 80) for node in nodes[:_NODES_SHOWN])
        more = f" and {len(nodes) - _NODES_SHOWN} more" if len(nodes) > _NODES_SHOWN else ""
        return row | {
            "name": _elide(self._names[engine][index], 200),
            "type": self._types[bar] + precision,
            "nodes": text + more or "not known",
        }

    def _whiskers(self, groups: Groups, width: float) -> dict[str, Any]:
        """Spread of single bars that are wide enough for it to be seen, as a line under the bar."""
        bars, first = self._bars, groups.first[groups.count == 1]
        seen = first[np.isfinite(bars.low[first]) & (bars.duration[first] / width * PIXELS > 6)]
        return {
            "x0": bars.start[seen] + bars.low[seen],
            "x1": bars.start[seen] + bars.high[seen],
            "y": bars.lane[seen] + 0.41,
        }


def _hover(renderer) -> HoverTool:
    tips = [("layer", "@name"), ("type", "@type"), ("ONNX nodes", "@nodes"), ("time", "@time")]
    return HoverTool(renderers=[renderer], tooltips=tips)


def _elide(text: str, limit: int) -> str:
    """Long names keep their two ends: in a graph the end tells most."""
    if len(text) <= limit:
        return text
    head = limit // 3
    return f"{text[:head]}…{text[-(limit - head - 1) :]}"


def _fit(text: str, pixels: float) -> str:
    """As much of the end of a name as fits into a bar, "" if that is too little to be of use."""
    room = int((pixels - 8) / _CHARACTER)
    if len(text) <= room:
        return text
    return f"…{text[-(room - 1) :]}" if room >= 8 else ""


def _ink(colour: str) -> str:
    """Black or white, whichever is read better on `colour` (relative luminance as WCAG 2 defines it)."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#000000" if luminance > 0.179 else "#ffffff"
