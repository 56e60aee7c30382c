"""How the values of both sides are spread: two step lines on one axis, counts on a log scale."""

from __future__ import annotations

import numpy as np
from bokeh.layouts import column
from bokeh.models import ColumnDataSource, HoverTool, LayoutDOM, Range1d
from bokeh.plotting import figure

from trt_lab.views.numbers import as_float, is_numeric, plural
from trt_lab.views.text import message_pane, text_pane
from trt_lab.views.theme import finish, paint

BINS = 64
_BLOCK = 1 << 20


def histogram_figure(golden: np.ndarray, engine: np.ndarray, *, name: str = "") -> LayoutDOM:
    """Histogram of the finite values of both sides over one set of bins; the others are counted beside it.

    The two arrays may differ in shape. Sides that are identical lie on each other and both are seen: golden is a
    filled area, the engine a line.
    """
    title = name or "tensor"
    if not (is_numeric(golden) and is_numeric(engine)):
        return _stack(message_pane(f"{title}: no histogram", [f"{golden.dtype} has no values on an axis."]))
    spans = [_span(side) for side in (golden, engine)]
    finite = [span for span in spans if span is not None]
    if not finite:
        return _stack(message_pane(f"{title}: no finite values", [_counted(golden, engine)], height=160))
    edges = _edges(min(low for low, _ in finite), max(high for _, high in finite), golden, engine)
    counts = [_count(side, edges) for side in (golden, engine)]
    return _stack(_draw(edges, counts[0], counts[1]), text_pane([[_counted(golden, engine)]]))


def _stack(*parts) -> LayoutDOM:
    return finish(column(*parts, sizing_mode="stretch_width"))


def _span(array: np.ndarray) -> tuple[float, float] | None:
    """Smallest and largest finite value, None where there is none."""
    low, high = np.inf, -np.inf
    for block in _blocks(array):
        block = block[np.isfinite(block)]
        if block.size:
            low, high = min(low, float(block.min())), max(high, float(block.max()))
    return None if low > high else (low, high)


def _blocks(array: np.ndarray):
    flat = array.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        yield as_float(flat[start : start + _BLOCK])


def _edges(low: float, high: float, golden: np.ndarray, engine: np.ndarray) -> np.ndarray:
    """Bin edges; integers of a small range get a bin each."""
    if golden.dtype.kind in "biu" and engine.dtype.kind in "biu" and high - low < BINS:
        return np.arange(low - 0.5, high + 1)
    if low == high:
        pad = abs(low) * 0.5 or 0.5
        low, high = low - pad, high + pad
    # halves first: the width of the whole float64 range is not a float64
    return np.linspace(low / 2, high / 2, BINS + 1) * 2


def _count(array: np.ndarray, edges: np.ndarray) -> np.ndarray:
    total = np.zeros(edges.size - 1, dtype=np.int64)
    for block in _blocks(array):
        inside = np.clip(block[np.isfinite(block)], edges[0], edges[-1])
        total += np.histogram(inside, edges)[0]
    return total


def _draw(edges: np.ndarray, golden: np.ndarray, engine: np.ndarray):
    top = max(int(golden.max()), int(engine.max()), 1)
    floor = 0.5  # half a count: empty bins rest on it, one element stands above it
    source = ColumnDataSource(
        data={
            "left": edges[:-1],
            "right": edges[1:],
            "golden": golden,
            "engine": engine,
            "golden_top": np.maximum(golden, floor),
            "hit": np.full(golden.size, top * 2.0),
        },
        name="bins",
    )
    outline = ColumnDataSource(
        data={"x": np.repeat(edges, 2)[1:-1], "y": np.repeat(np.maximum(engine, floor), 2)}, name="engine outline"
    )
    plot = figure(
        height=220,
        min_width=240,
        sizing_mode="stretch_width",
        y_axis_type="log",
        x_range=Range1d(start=float(edges[0]), end=float(edges[-1])),
        y_range=Range1d(start=floor, end=top * 2.0),
        tools="xpan,xbox_zoom,xwheel_zoom,reset",
        toolbar_location="right",
        toolbar_inner=True,
        x_axis_label="value",
        y_axis_label="elements (log)",
    )
    filled = plot.quad("left", "right", "golden_top", floor, source=source, fill_alpha=0.55, legend_label="golden")
    paint(filled.glyph, fill_color="golden", line_color="golden")
    line = plot.line("x", "y", source=outline, line_width=2, legend_label="engine")
    paint(line.glyph, line_color="engine")
    hit = plot.quad("left", "right", "hit", floor, source=source, fill_alpha=0, line_alpha=0)
    tips = [("value", "@left … @right"), ("golden", "@golden"), ("engine", "@engine")]
    plot.add_tools(HoverTool(renderers=[hit], tooltips=tips, attachment="above", point_policy="follow_mouse"))
    plot.toolbar.autohide = True
    legend = plot.legend[0]
    plot.center.remove(legend)
    legend.update(orientation="horizontal", padding=2, margin=0)
    plot.add_layout(legend, "above")
    plot.xaxis.minor_tick_line_color = plot.yaxis.minor_tick_line_color = None
    plot.xgrid.visible = False
    return plot


def _counted(golden: np.ndarray, engine: np.ndarray) -> str:
    """Elements, and those apart from the axis."""
    parts = []
    for label, side in (("golden", golden), ("engine", engine)):
        counts = np.zeros(3, dtype=np.int64)
        for block in _blocks(side):
            counts += (int(np.isnan(block).sum()), int(np.isposinf(block).sum()), int(np.isneginf(block).sum()))
        words = [
            f"{count:,} {word}" for count, word in zip(counts.tolist(), ("NaN", "+Inf", "−Inf"), strict=True) if count
        ]
        apart = f", of which {', '.join(words)} (not on the axis)" if words else ""
        parts.append(f"{label}: {plural(side.size, 'element')}{apart}")
    return " · ".join(parts)
