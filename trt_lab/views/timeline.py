"""Layers of engines along time, in lanes, coloured by layer type, joined where they are too narrow to see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from bokeh.layouts import column
from bokeh.models import ColumnDataSource, FixedTicker, HoverTool, LayoutDOM, Range1d, TapTool
from bokeh.plotting import figure

from trt_lab.model import hold_collection
from trt_lab.profiling.latency import LatencyAccount
from trt_lab.profiling.node_time import sum_runs
from trt_lab.views.joining import PIXELS, Groups, join_narrow
from trt_lab.views.lanes import LaneBy, RunsAs, Timed, lay_out, layer_sum_ms
from trt_lab.views.numbers import plural
from trt_lab.views.rows import Rows, elide
from trt_lab.views.text import message_pane, strong, swatch, text_pane
from trt_lab.views.theme import CATEGORICAL, MERGED_COLOUR, category_colours, finish, paint

SOURCE = "layers"
"""Name of the data source of the bars; its column `layer` holds the layer's index, −1 where several are joined."""

RANGE = "time"
"""Name of the range along time. The front end moves it by keys (labextension/src/widgets/figure/keys.ts)."""

KEYS = "W S zoom · A D pan · F fits the chosen layer · 0 shows all · Ctrl + wheel zooms"
"""What the keys do once the figure has the focus, as in Perfetto."""

LANE_HEIGHTS = (20, 38)
MARGIN = 92
MAX_HEIGHT = 640
NARROW = 620
"""Width for which labels are cut, in pixels: half a laptop's screen, so that they fit wider ones too."""

_AROUND = 0.5
"""How much is sent besides what is shown, to either side, in widths of the range shown."""

_FINER = 3.0
"""New bars are sent when the range shown is this much narrower than the one they were made for."""

_LANE_NAME = 28
"""Most characters of the name of a lane."""

_CHARACTER = 6.2
"""Mean width of a character of the labels, in pixels."""

_LEAST_ROOM = 20.0
"""Bars narrower than this get no label, in pixels."""


def timeline_figure(
    records: Timed | Sequence[Timed],
    *,
    runs: RunsAs = "median",
    by: LaneBy = "stream",
    on_select: Callable[[int], None] | None = None,
) -> LayoutDOM:
    """The figure of a `Timeline`."""
    return Timeline(records, runs=runs, by=by, on_select=on_select).figure


class Timeline:
    """The timeline of one record, or of several under each other.

    Bars narrower than a pixel are joined and say how many layers they hold; they come apart when one zooms in
    (where Python is there to answer). Layer sum and end-to-end latency are given as two numbers.

    Args:
        records: Anything with `name`, `layers`, `times` and `latency_ms`.
        runs: See `RunsAs`. A bar at its median has the spread beside it.
        by: What layers of one lane have in common.
        on_select: Called with the index of the layer (of the first record) that was clicked; not for joined bars.
        account: Explains the difference between layer sum and latency of the first record.
    """

    def __init__(
        self,
        records: Timed | Sequence[Timed],
        *,
        runs: RunsAs = "median",
        by: LaneBy = "stream",
        on_select: Callable[[int], None] | None = None,
        account: LatencyAccount | None = None,
    ) -> None:
        sides = list(records) if isinstance(records, Sequence) else [records]
        self._on_select = on_select
        self._view: _View | None = None
        if not any(side.times for side in sides):
            reason = "no layers" if not any(side.layers for side in sides) else "it was built without the profiler"
            self.figure = _stack(message_pane("No layer times in this record", [f"Reason: {reason}."]))
            return
        with hold_collection():  # of 100,000 layers; it would take as long as all the rest
            view = self._view = _View(sides, runs, by)
            headings = [
                line
                for at, side in enumerate(sides)
                for line in _numbers(side, None if at else account, titled=len(sides) > 1)
            ]
            notes = [*view.bars.notes]
            if len(view.spread.data["x0"]):
                notes.append("the line under a bar spans the ends of 80 % of its runs")
        below = text_pane([view.legend(), [KEYS], ["; ".join(notes) + "."] if notes else []])
        self.figure = _stack(text_pane(headings), view.plot(), below)
        view.source.selected.on_change("indices", lambda _name, _old, new: self._tapped(new))

    def select(self, layer: int | None, *, reveal: bool = False) -> None:
        """Selects the bars of a layer of the first record, also where they are joined with others; None: nothing.

        Args:
            reveal: Moves the range shown so that the first of them is in it.
        """
        if self._view is not None:
            self._view.select(layer, reveal=reveal)

    def _tapped(self, indices: Sequence[int]) -> None:
        view = self._view
        if view is None or view.filling or self._on_select is None:
            return
        rows = {view.row_of(index) for index in indices}
        if len(rows) == 1 and (row := rows.pop()) is not None and (layer := view.rows.layer_of(row)) is not None:
            view.chosen = layer
            self._on_select(layer)


def _stack(*parts) -> LayoutDOM:
    return finish(column(*parts, sizing_mode="stretch_width"))


def _numbers(record: Timed, account: LatencyAccount | None, *, titled: bool) -> list[list]:
    """Layer sum and latency, each called by its own name, and what makes the difference."""
    runs = sum_runs(record.times)
    total = float(np.median(runs)) if runs else layer_sum_ms(record)
    said = f"median of {plural(len(runs), 'profiled run')}" if runs else "while profiled"
    line: list = [strong(f"{record.name}: ")] if titled else []
    line += ["layer sum ", strong(f"{total:.4g} ms"), f" ({plural(len(record.times), 'layer')}, {said})"]
    latency = list(record.latency_ms)
    if latency:
        line += [" · end-to-end latency ", strong(f"{float(np.median(latency)):.4g} ms")]
        line += [f" (median of {plural(len(latency), 'run')} without the profiler)"]
    else:
        line += [" · end-to-end latency not measured"]
    if account is None or account.difference_ms is None:
        return [line]
    return [line, ["difference ", strong(f"{account.difference_ms:+.4g} ms"), f" — {'; '.join(account.words[1:])}."]]


class _View:
    """The bars on the screen, made anew when the range shown asks for others."""

    def __init__(self, records: Sequence[Timed], runs: RunsAs, by: LaneBy) -> None:
        self.bars = lay_out(records, runs, by)
        self.rows = Rows(records)
        self._medians = runs == "median"
        kinds = self.rows.kind[self.bars.row]
        spent = np.bincount(kinds, weights=self.bars.duration, minlength=len(self.rows.kinds))
        order = np.argsort(-spent, kind="stable").tolist()
        self._spent = {self.rows.kinds[kind]: float(spent[kind]) for kind in order}
        colours = category_colours(list(self._spent))
        self._colours = [colours[kind] for kind in self.rows.kinds]
        self._end = self.bars.end * 1.01 or 1.0
        self._loaded = (0.0, self._end)
        self._made_for = self._end
        self.chosen: int | None = None
        self.filling = False
        self.x_range = Range1d(start=0.0, end=self._end, bounds=(0, self._end), name=RANGE)
        self._groups = join_narrow(self.bars, 0.0, self._end)
        self.joined = bool((self._groups.count > 1).any())
        self.source = ColumnDataSource(name=SOURCE)
        self.labels = ColumnDataSource(name="labels")
        self.spread = ColumnDataSource(name="spread")
        self._fill()

    def plot(self):
        lanes = len(self.bars.lanes)
        least, most = LANE_HEIGHTS
        plot = figure(
            x_range=self.x_range,
            y_range=Range1d(start=lanes - 0.5, end=-0.5),
            height=MARGIN + lanes * max(least, min(most, (MAX_HEIGHT - MARGIN) // lanes)),
            min_width=300,
            sizing_mode="stretch_width",
            tools="xpan,xbox_zoom,xwheel_zoom,reset",
            toolbar_location="above",
            x_axis_label="ms",
        )
        bars = plot.hbar(
            y="y", left="left", right="edge", height=0.66, source=self.source, fill_color="colour", line_color=None
        )
        bars.nonselection_glyph = bars.glyph.clone(fill_alpha=0.35)
        bars.selection_glyph = bars.glyph.clone(line_width=2)
        paint(bars.selection_glyph, line_color="text")
        whiskers = plot.segment(x0="x0", x1="x1", y0="y", y1="y", source=self.spread, line_width=2)
        paint(whiskers.glyph, line_color="muted")
        plot.text(
            x="x",
            y="y",
            text="text",
            source=self.labels,
            text_color="ink",
            text_font_size="11px",
            text_baseline="middle",
            x_offset=4,
        )
        plot.add_tools(_hover(bars), TapTool(renderers=[bars]))
        plot.yaxis.ticker = FixedTicker(ticks=list(range(lanes)))
        plot.yaxis.major_label_overrides = {i: _short(name) for i, name in enumerate(self.bars.lanes)}
        plot.yaxis.major_tick_line_color = None
        plot.ygrid.visible = False
        for edge in ("start", "end"):
            self.x_range.on_change(edge, self._range_changed)
        return plot

    def legend(self) -> list:
        """Types and their share of the time, in the colours of the bars."""
        total = sum(self._spent.values()) or 1.0
        named = list(self._spent.items())[: len(CATEGORICAL)]
        colours = dict(zip(self.rows.kinds, self._colours, strict=True))
        pieces = [swatch(colours[kind], f"{elide(kind, 40)} {duration / total:.1%}") for kind, duration in named]
        others = len(self._spent) - len(named)
        if others or self.joined:
            words = [f"{plural(others, 'other type')}"] * bool(others) + [
                "layers of several types, joined: zoom in"
            ] * self.joined
            pieces.append(swatch(MERGED_COLOUR, "; ".join(words)))
        return pieces

    def row_of(self, index: int) -> int | None:
        """The row of a bar on the screen; None where it stands for several."""
        groups = self._groups
        return int(self.bars.row[groups.first[index]]) if groups.count[index] == 1 else None

    def select(self, layer: int | None, *, reveal: bool) -> None:
        """See `Timeline.select`."""
        self.chosen = layer
        if reveal and layer is not None:
            self._reveal(self._bars_of(layer))
        self._mark()

    def _bars_of(self, layer: int) -> np.ndarray:
        return np.flatnonzero(np.isin(self.bars.row, self.rows.with_layer(layer)))

    def _mark(self) -> None:
        """Selects what is chosen among the bars on the screen; nobody is told."""
        found: list[int] = []
        if self.chosen is not None:
            found = self._groups.holding(self._bars_of(self.chosen)).tolist()
        if self.source.selected.indices != found:
            self.filling = True
            try:
                self.source.selected.indices = found
            finally:
                self.filling = False

    def _shown(self) -> tuple[float, float]:
        start, end = self.x_range.start, self.x_range.end
        return (float(start), float(end)) if isinstance(start, float | int) and isinstance(end, float | int) else (0, 0)

    def _reveal(self, bars: np.ndarray) -> None:
        start, end = self._shown()
        width = end - start
        begin, stop = self.bars.start[bars], self.bars.start[bars] + self.bars.duration[bars]
        if not bars.size or width <= 0 or ((begin < end) & (stop > start)).any():
            return
        low = float(np.clip((begin[0] + stop[0] - width) / 2, 0.0, max(0.0, self._end - width)))
        self.x_range.update(start=low, end=low + width)

    def _range_changed(self, _name: str, _old: float, _new: float) -> None:
        """Sends bars for the range shown and its surroundings, unless those on the screen are right for it."""
        start, end = self._shown()
        width, (low, high) = end - start, self._loaded
        if width <= 0 or (low <= start and end <= high and width * _FINER > self._made_for):
            return
        low, high = max(0.0, start - _AROUND * width), min(self._end, end + _AROUND * width)
        self._loaded, self._made_for = (low, high), width
        pixels = round(PIXELS * max(1.0, (high - low) / width))
        self._groups = join_narrow(self.bars, low, high, pixels=pixels)
        self.filling = True
        try:
            self.source.selected.indices = []
            self._fill()
        finally:
            self.filling = False
        self._mark()

    def _fill(self) -> None:
        """Gives the sources what is to be seen of the groups."""
        columns = self._columns(self._groups)
        self.source.data = columns
        self.labels.data = self._labels(self._groups, columns)
        self.spread.data = self._whiskers(self._groups)

    def _labels(self, groups: Groups, columns: dict[str, Any]) -> dict[str, Any]:
        """Names of the bars that are wide enough for one. A source of their own: texts are what costs most to draw."""
        room = (groups.right - groups.left) / self._made_for * NARROW
        texts = {at: _fit(columns["name"][at], float(room[at])) for at in np.flatnonzero(room >= _LEAST_ROOM).tolist()}
        at = np.array([place for place, text in texts.items() if text], dtype=np.int64)
        return {
            "x": groups.left[at],
            "y": columns["y"][at],
            "text": [texts[place] for place in at.tolist()],
            "ink": [_ink(columns["colour"][place]) for place in at.tolist()],
        }

    def _columns(self, groups: Groups) -> dict[str, Any]:
        bars, rows, first = self.bars, self.rows, groups.first
        single = groups.count == 1
        row = bars.row[first]
        held = np.repeat(np.arange(first.size), groups.count)
        inside = np.repeat(first - np.concatenate([[0], np.cumsum(groups.count)[:-1]]), groups.count)
        at = inside + np.arange(held.size)
        kinds = len(rows.kinds)
        by_kind = np.bincount(
            held * kinds + rows.kind[bars.row[at]], weights=bars.duration[at], minlength=first.size * kinds
        ).reshape(first.size, kinds)
        present = np.zeros((first.size, kinds), bool)
        present[held, rows.kind[bars.row[at]]] = True
        main = by_kind.argmax(axis=1)
        main[single] = rows.kind[row[single]]
        clear = (by_kind.max(axis=1) > 0.5 * groups.busy) | (present.sum(axis=1) == 1)
        colours = [self._colours[kind] if own else MERGED_COLOUR for kind, own in zip(main, clear, strict=True)]
        shares = np.bincount(held, weights=rows.share[bars.row[at]], minlength=first.size)
        names = [
            elide(rows.names[r], 200) if one else f"{n:,} layers"
            for r, one, n in zip(row.tolist(), single.tolist(), groups.count.tolist(), strict=True)
        ]
        return {
            "left": groups.left,
            "right": groups.right,
            "edge": self._edges(groups),
            "y": bars.lane[first].astype(np.int32),
            "layer": np.where(single, rows.index[row], -1).astype(np.int32),
            "name": names,
            "type": [
                rows.type_text(r) if one else rows.types_text(np.flatnonzero(present[i]))
                for i, (r, one) in enumerate(zip(row.tolist(), single.tolist(), strict=True))
            ],
            "nodes": [
                rows.nodes_text(r) if one else "zoom in to see them"
                for r, one in zip(row.tolist(), single.tolist(), strict=True)
            ],
            "time": self._times(groups, shares, single, row),
            "colour": colours,
        }

    def _edges(self, groups: Groups) -> np.ndarray:
        """Where bars end on the screen: a pixel before the next one begins, and never narrower than a pixel."""
        pixel = self._made_for / PIXELS
        width = groups.right - groups.left
        return groups.left + np.maximum(width - np.minimum(pixel, 0.15 * width), pixel)

    def _times(self, groups: Groups, shares: np.ndarray, single: np.ndarray, row: np.ndarray) -> list[str]:
        """Time and share of each bar, and its spread where it stands for one layer."""
        spread = np.full((row.size, 2), np.nan)
        if self._medians:
            spread[single] = self.rows.spread(row[single])
        return [
            f"{busy:.4g} ms · {share:.2%} of the layer sum"
            + (f" · 80 % of runs in {low:.4g} … {high:.4g}" if np.isfinite(low) else "")
            for busy, share, (low, high) in zip(groups.busy.tolist(), shares.tolist(), spread.tolist(), strict=True)
        ]

    def _whiskers(self, groups: Groups) -> dict[str, Any]:
        """Spread of single bars that are wide enough for it to be seen, as a line under the bar."""
        bars = self.bars
        first = groups.first[groups.count == 1] if self._medians else np.zeros(0, np.int64)
        wide = first[bars.duration[first] / self._made_for * PIXELS > 6]
        spread = self.rows.spread(bars.row[wide])
        known = np.isfinite(spread[:, 0])
        seen, low, high = wide[known], spread[known, 0], spread[known, 1]
        return {"x0": bars.start[seen] + low, "x1": bars.start[seen] + high, "y": bars.lane[seen] + 0.41}


def _short(lane: str) -> str:
    """What a lane is called on the axis: of a long name some of each part is left."""
    parts = lane.split(" · ")
    return lane if len(lane) <= _LANE_NAME else " · ".join(elide(part, _LANE_NAME // len(parts)) for part in parts)


def _hover(renderer) -> HoverTool:
    tips = [("layer", "@name"), ("type", "@type"), ("ONNX nodes", "@nodes"), ("time", "@time")]
    return HoverTool(renderers=[renderer], tooltips=tips)


def _fit(text: str, pixels: float) -> str:
    """As much of the end of a name as fits into a bar, "" if that is too little to be of use."""
    room = int((pixels - 8) / _CHARACTER)
    if len(text) <= room:
        return text
    return f"…{text[-(room - 1) :]}" if room >= 8 else ""


@lru_cache(maxsize=64)
def _ink(colour: str) -> str:
    """Black or white, whichever is read better on `colour` (relative luminance as WCAG 2 defines it)."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#000000" if luminance > 0.179 else "#ffffff"
