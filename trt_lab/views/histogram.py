"""How the values of both sides are spread: two step lines on one axis, counts on a log scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from bokeh.layouts import column
from bokeh.models import Column, ColumnDataSource, HoverTool, LayoutDOM, Pane, Range1d, UIElement
from bokeh.plotting import figure

from trt_lab.views.numbers import as_float, is_numeric, plural
from trt_lab.views.ranges import span
from trt_lab.views.text import change_text, message_pane, text_pane
from trt_lab.views.theme import finish, paint

BINS = 64
FLOOR = 0.5
"""Half a count: empty bins rest on it, one element stands above it."""
_BLOCK = 1 << 20


def histogram_figure(golden: np.ndarray, engine: np.ndarray, *, name: str = "") -> LayoutDOM:
    """Histogram of the finite values of both sides over one set of bins; the others are counted beside it.

    The two arrays may differ in shape. Sides that are identical lie on each other and both are seen: golden is a
    filled area, the engine a line.
    """
    title = name or "tensor"
    if not (is_numeric(golden) and is_numeric(engine)):
        return _stack(message_pane(f"{title}: no histogram", [f"{golden.dtype} has no values on an axis."]))
    bins = _bins(golden, engine)
    if bins is None:
        return _stack(message_pane(f"{title}: no finite values", [_counted(golden, engine)], height=160))
    return _stack(_draw(bins), text_pane([[_counted(golden, engine)]]))


def update_histogram(shown: UIElement, golden: np.ndarray, engine: np.ndarray) -> bool:
    """Draws another pair in the figure that `histogram_figure` made; False, and nothing done, where that cannot be."""
    if not isinstance(shown, Column) or not (is_numeric(golden) and is_numeric(engine)):
        return False
    found = {model.name: cast("Any", model) for model in shown.references() if model.name}
    bins = _bins(golden, engine) if "bins" in found else None
    if bins is None:
        return False
    found["values"].update(**span(float(bins.edges[0]), float(bins.edges[-1])))
    found["elements"].update(**span(FLOOR, bins.top))
    found["engine outline"].data = bins.outline
    found["bins"].data = bins.columns
    change_text(cast("Pane", shown.children[1]), text_pane([[_counted(golden, engine)]]))
    return True


@dataclass(frozen=True)
class _Bins:
    """Elements of both sides in each bin; `edges` has one more entry than the counts."""

    edges: np.ndarray
    golden: np.ndarray
    engine: np.ndarray

    @property
    def top(self) -> float:
        """Upper end of the axis of counts."""
        return max(int(self.golden.max()), int(self.engine.max()), 1) * 2.0

    @property
    def columns(self) -> dict[str, np.ndarray]:
        return {
            "left": self.edges[:-1],
            "right": self.edges[1:],
            "golden": self.golden,
            "engine": self.engine,
            "golden_top": np.maximum(self.golden, FLOOR),
            "hit": np.full(self.golden.size, self.top),
        }

    @property
    def outline(self) -> dict[str, np.ndarray]:
        return {"x": np.repeat(self.edges, 2)[1:-1], "y": np.repeat(np.maximum(self.engine, FLOOR), 2)}


def _bins(golden: np.ndarray, engine: np.ndarray) -> _Bins | None:
    """None where no value is finite."""
    finite = [span for span in (_span(golden), _span(engine)) if span is not None]
    if not finite:
        return None
    edges = _edges(min(low for low, _ in finite), max(high for _, high in finite), golden, engine)
    return _Bins(edges, _count(golden, edges), _count(engine, edges))


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


def _draw(bins: _Bins):
    source = ColumnDataSource(data=bins.columns, name="bins")
    outline = ColumnDataSource(data=bins.outline, name="engine outline")
    plot = figure(
        height=220,
        min_width=240,
        sizing_mode="stretch_width",
        y_axis_type="log",
        x_range=Range1d(**span(float(bins.edges[0]), float(bins.edges[-1])), name="values"),
        y_range=Range1d(**span(FLOOR, bins.top), name="elements"),
        tools="xpan,xbox_zoom,xwheel_zoom,reset",
        toolbar_location="right",
        toolbar_inner=True,
        x_axis_label="value",
        y_axis_label="elements (log)",
    )
    filled = plot.quad("left", "right", "golden_top", FLOOR, source=source, fill_alpha=0.55, legend_label="golden")
    paint(filled.glyph, fill_color="golden", line_color="golden")
    line = plot.line("x", "y", source=outline, line_width=2, legend_label="engine")
    paint(line.glyph, line_color="engine")
    hit = plot.quad("left", "right", "hit", FLOOR, source=source, fill_alpha=0, line_alpha=0)
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
