"""Tensors with one axis: golden and engine over each other, the difference below, ranges linked; redrawn in place for another pair."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from bokeh.layouts import gridplot
from bokeh.models import BasicTicker, ColumnDataSource, HoverTool, LayoutDOM, NumeralTickFormatter, Range1d, UIElement
from bokeh.plotting import figure

from trt_lab.views.numbers import is_numeric
from trt_lab.views.ranges import index_span, span
from trt_lab.views.theme import DISAGREE_COLOUR, paint
from trt_lab.views.tiles import Axes, Strip, make_strip

BARS = 64
"""Up to this many elements are drawn as bars with dots."""


def strip_figure(golden: np.ndarray, engine: np.ndarray, worst: int | None, axes: Axes) -> tuple[LayoutDOM, str]:
    """The figure, and what must be said about it ("" if every element is drawn).

    Args:
        golden, engine: 1-d arrays of equal, non-zero length.
        worst: Place of the worst element, marked in both plots.
        axes: Names the element under the pointer.
    """
    if not (is_numeric(golden) and is_numeric(engine)):
        raise TypeError("strips need numbers")
    strip = make_strip(golden, engine)
    source = ColumnDataSource(data=_columns(strip, axes), name=_kind(strip))
    x_range = Range1d(**index_span(-0.5, strip.size - 0.5), name="elements shown")
    upper = _values_plot(strip, source, x_range)
    lower = _difference_plot(strip, source, x_range)
    for plot, field in ((upper, "engine"), (lower, "difference")):
        marker = ColumnDataSource(data=_marked(strip, worst, field), name=f"worst {field}")
        ring = plot.scatter("x", "y", source=marker, size=14, fill_color=None, line_width=2)
        paint(ring.glyph, line_color="text")
    figures = gridplot(
        [[upper], [lower]],
        sizing_mode="stretch_width",
        merge_tools=True,
        toolbar_location="right",
        toolbar_options={"logo": None},
    )
    return figures, _note(strip)


def update_strip(
    figures: UIElement, golden: np.ndarray, engine: np.ndarray, worst: int | None, axes: Axes
) -> str | None:
    """Draws other lines in figures made by `strip_figure`; what must be said about them.

    None, and nothing done, where `figures` is something else, or has lines where these are bars.
    """
    found = {model.name: cast("Any", model) for model in figures.references() if model.name}
    strip = make_strip(golden, engine)
    if _kind(strip) not in found:
        return None
    found["elements shown"].update(**index_span(-0.5, strip.size - 0.5))
    found["differences"].update(**_difference_span(strip))
    found["difference bars"].glyph.width = _bar_width(strip)
    for field in ("engine", "difference"):
        found[f"worst {field}"].data = _marked(strip, worst, field)
    found[_kind(strip)].data = _columns(strip, axes)
    return _note(strip)


def _kind(strip: Strip) -> str:
    """Name of the source, which says what is drawn of it."""
    return "bars" if strip.size <= BARS else "lines"


def _note(strip: Strip) -> str:
    if strip.block == 1:
        return ""
    return f"each point is {strip.block:,} elements: mean and range; in the difference their largest |difference|"


def _difference_span(strip: Strip) -> dict[str, Any]:
    finite = np.abs(strip.difference[np.isfinite(strip.difference)])
    limit = float(finite.max()) * 1.25 if finite.size and finite.max() > 0 else 1.0
    return span(-limit, limit)


def _bar_width(strip: Strip) -> float:
    return max(0.6, strip.block)


def _marked(strip: Strip, worst: int | None, field: str) -> dict[str, list[float]]:
    """Where the ring round the worst element lies; nowhere where none differs."""
    if worst is None:
        return {"x": [], "y": []}
    point = worst // strip.block
    height = float((strip.engine if field == "engine" else strip.difference)[point])
    return {"x": [float(strip.start[point])], "y": [height if np.isfinite(height) else 0.0]}


def _columns(strip: Strip, axes: Axes) -> dict[str, object]:
    edge = strip.block / 2
    step = 0.5 if strip.block == 1 else edge
    last = np.minimum(strip.start + strip.block, strip.size) - 1
    names = [axes.index_text((), col=str(a) if a == b else f"{a}…{b}") for a, b in zip(strip.start, last, strict=True)]
    bad = ~np.isfinite(strip.difference)
    return {
        "x": strip.start,
        "golden_x": strip.start - step * 0.35 if strip.size <= BARS else strip.start,
        "engine_x": strip.start + step * 0.35 if strip.size <= BARS else strip.start,
        "golden": strip.golden,
        "engine": strip.engine,
        "low": strip.low,
        "high": strip.high,
        "difference": np.where(bad, 0.0, strip.difference),
        "disagree": np.where(np.isposinf(strip.difference), 0.0, np.nan),
        "difference_text": [_text(value) for value in strip.difference.tolist()],
        "index": names,
    }


def _text(value: float) -> str:
    if np.isnan(value):
        return "none: the same, not finite"
    return "not finite on one side, or not the same" if np.isinf(value) else f"{value:.4g}"


def _plot(title: str, height: int, x_range: Range1d):
    plot = figure(
        title=title,
        x_range=x_range,
        height=height,
        min_width=240,
        sizing_mode="stretch_width",
        tools="xpan,xbox_zoom,xwheel_zoom,reset",
    )
    plot.xaxis.ticker = BasicTicker(mantissas=[1, 2, 5], min_interval=1, num_minor_ticks=0)
    plot.xaxis.formatter = NumeralTickFormatter(format="0")
    plot.xgrid.visible = False
    plot.yaxis.minor_tick_line_color = None
    plot.min_border_left = 64
    return plot


def _values_plot(strip: Strip, source: ColumnDataSource, x_range: Range1d):
    plot = _plot("values", 220, x_range)
    tips = [("index", "@index"), ("golden", "@golden"), ("engine", "@engine"), ("difference", "@difference_text")]
    if strip.size <= BARS:
        hit = []
        for side in ("golden", "engine"):
            bars = plot.vbar(x=f"{side}_x", top=side, width=0.3, source=source, legend_label=side)
            paint(bars.glyph, fill_color=side, line_color=side)
            hit.append(bars)
        plot.add_tools(HoverTool(renderers=hit, tooltips=tips, mode="vline"))
    else:
        band = plot.varea(x="x", y1="low", y2="high", source=source, fill_alpha=0.25)
        paint(band.glyph, fill_color="muted")
        for side, width, dash in (("golden", 3.0, "solid"), ("engine", 1.25, "solid")):
            line = plot.line("x", side, source=source, line_width=width, line_dash=dash, legend_label=side)
            paint(line.glyph, line_color=side)
        plot.add_tools(HoverTool(renderers=[line], tooltips=tips, mode="vline"))
    legend = plot.legend[0]
    plot.center.remove(legend)
    legend.update(orientation="horizontal", padding=2, margin=0, glyph_height=12)
    plot.add_layout(legend, "above")
    return plot


def _difference_plot(strip: Strip, source: ColumnDataSource, x_range: Range1d):
    plot = _plot("engine − golden", 150, x_range)
    plot.y_range = Range1d(**_difference_span(strip), name="differences")
    bars = plot.vbar(x="x", top="difference", width=_bar_width(strip), source=source, name="difference bars")
    paint(bars.glyph, fill_color="difference", line_color="difference")
    plot.scatter("x", "disagree", source=source, marker="x", size=9, line_color=DISAGREE_COLOUR, line_width=2)
    tips = [("index", "@index"), ("golden", "@golden"), ("engine", "@engine"), ("difference", "@difference_text")]
    plot.add_tools(HoverTool(renderers=[bars], tooltips=tips, mode="vline"))
    return plot
