"""Golden, engine and difference as three linked heat maps; redrawn in place for another pair of arrays."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from bokeh.layouts import gridplot
from bokeh.models import (
    BasicTicker,
    ColorBar,
    ColumnDataSource,
    HoverTool,
    Image,
    LayoutDOM,
    LinearColorMapper,
    NumeralTickFormatter,
    Range1d,
    UIElement,
)
from bokeh.plotting import figure

from trt_lab.views.ranges import index_span
from trt_lab.views.theme import (
    AGREE_COLOUR,
    DISAGREE_COLOUR,
    NAN_COLOUR,
    NEGATIVE_INFINITY_COLOUR,
    POSITIVE_INFINITY_COLOUR,
    ROLES,
    VALUES,
    paint,
)
from trt_lab.views.tiles import Axes, Tile

HEIGHT = 300
TOOLS = "pan,box_zoom,wheel_zoom,reset"


def maps_figure(tile: Tile, axes: Axes, chosen: tuple[int, ...], worst: tuple[int, int] | None) -> LayoutDOM:
    """The three maps; one source, so that each array is sent once.

    Args:
        tile: What is drawn. axes, chosen: Name the element under the pointer.
        worst: Row and column of the worst element, which gets a ring.
    """
    source = ColumnDataSource(data=_cells(tile), name="maps")
    marker = ColumnDataSource(data=_marked(worst), name="worst")
    rows, cols = tile.size
    x_range = Range1d(**index_span(-0.5, cols - 0.5), name="columns")
    y_range = Range1d(**index_span(rows - 0.5, -0.5), name="rows")
    values, differences = _mappers(tile)
    plots: list[UIElement | None] = []
    for key, mapper in (("golden", values), ("engine", values), ("difference", differences)):
        plot = figure(
            title="engine − golden" if key == "difference" else key,
            x_range=x_range,
            y_range=y_range,
            height=HEIGHT,
            min_width=150,
            min_border_left=32,
            sizing_mode="stretch_width",
            tools=TOOLS,
            name=key,
        )
        glyph = Image(image=key, x=-0.5, y=-0.5, dw="width", dh="height", color_mapper=mapper)
        image = plot.add_glyph(source, glyph, name="image")
        plot.add_tools(HoverTool(name="hover", renderers=[image], tooltips=_tooltips(tile, axes, chosen)))
        _ring(plot, marker)
        bar = ColorBar(color_mapper=mapper, height=10, padding=4, margin=0, ticker=BasicTicker(desired_num_ticks=4))
        plot.add_layout(bar, "below")
        _index_axes(plot)
        plots.append(plot)
    return gridplot(
        [plots], sizing_mode="stretch_width", merge_tools=True, toolbar_location="right", toolbar_options={"logo": None}
    )


def update_maps(
    maps: UIElement, tile: Tile, axes: Axes, chosen: tuple[int, ...], worst: tuple[int, int] | None
) -> bool:
    """Draws another tile in a figure made by `maps_figure`; False, and nothing done, where `maps` is something else."""
    models = maps.references()
    found = {model.name: cast("Any", model) for model in models if model.name}
    if "maps" not in found:
        return False
    rows, cols = tile.size
    found["columns"].update(**index_span(-0.5, cols - 0.5))
    found["rows"].update(**index_span(rows - 0.5, -0.5))
    low, high, limit = _scales(tile)
    found["values"].update(low=low, high=high)
    found["differences"].update(low=-limit, high=limit)
    for hover in models:
        if isinstance(hover, HoverTool):
            hover.tooltips = _tooltips(tile, axes, chosen)
    found["worst"].data = _marked(worst)
    found["maps"].data = _cells(tile)
    return True


def _cells(tile: Tile) -> dict[str, Any]:
    return {
        "golden": [tile.golden],
        "engine": [tile.engine],
        "difference": [tile.difference],
        "width": [tile.golden.shape[1] * tile.block[1]],
        "height": [tile.golden.shape[0] * tile.block[0]],
    }


def _marked(worst: tuple[int, int] | None) -> dict[str, Any]:
    return {"x": [worst[1]] if worst else [], "y": [worst[0]] if worst else []}


def _scales(tile: Tile) -> tuple[float, float, float]:
    """Ends of the scale that both value maps share, and of the one about zero for the difference."""
    both = np.concatenate([tile.golden.ravel(), tile.engine.ravel()])
    finite = both[np.isfinite(both)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    if low == high:
        pad = abs(low) * 0.5 or 0.5
        low, high = low - pad, high + pad
    gaps = np.abs(tile.difference[np.isfinite(tile.difference)])
    limit = float(gaps.max()) if gaps.size else 0.0
    return low + 0.0, high + 0.0, limit or 1.0  # −0.0, which a scale in place would not take over from 0.0, is 0.0


def _mappers(tile: Tile) -> tuple[LinearColorMapper, LinearColorMapper]:
    """Non-finite cells fall off the ends of the scales."""
    low, high, limit = _scales(tile)
    values = LinearColorMapper(
        palette=list(VALUES),
        low=low,
        high=high,
        nan_color=NAN_COLOUR,
        high_color=POSITIVE_INFINITY_COLOUR,
        low_color=NEGATIVE_INFINITY_COLOUR,
        name="values",
    )
    differences = LinearColorMapper(
        palette=list(ROLES["diverging"][0]),
        low=-limit,
        high=limit,
        nan_color=AGREE_COLOUR,
        high_color=DISAGREE_COLOUR,
        low_color=DISAGREE_COLOUR,
        name="differences",
    )
    paint(differences, palette="diverging")
    return values, differences


def _tooltips(tile: Tile, axes: Axes, chosen: tuple[int, ...]) -> list[tuple[str, str]]:
    kind = " (mean)" if tile.reduced else ""
    return [
        ("index", axes.index_text(chosen, "$y{0}", "$x{0}")),
        (f"golden{kind}", "@golden"),
        (f"engine{kind}", "@engine"),
        (f"difference{' (largest)' if tile.reduced else ''}", "@difference"),
    ]


def _ring(plot, marker: ColumnDataSource) -> None:
    """Round the worst element, seen on any colour: white on black."""
    for width, colour in ((4.5, "#000000"), (2.0, "#ffffff")):
        plot.scatter(
            "x", "y", source=marker, marker="circle", size=16, fill_color=None, line_color=colour, line_width=width
        )


def _index_axes(plot) -> None:
    for axis in (plot.xaxis, plot.yaxis):
        axis.ticker = BasicTicker(mantissas=[1, 2, 5], min_interval=1, num_minor_ticks=0, desired_num_ticks=5)
        axis.formatter = NumeralTickFormatter(format="0")
    plot.grid.visible = False
