"""One tensor on both sides: golden, engine and difference as linked heat maps, or as lines where there is one axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from bokeh.layouts import column, gridplot
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

from trt_lab.types import TensorStats
from trt_lab.views.numbers import as_float, is_numeric, number, plural, shape_text, subtract
from trt_lab.views.strips import strip_figure
from trt_lab.views.text import Piece, message_pane, strong, swatch, text_pane
from trt_lab.views.theme import (
    AGREE_COLOUR,
    DISAGREE_COLOUR,
    NAN_COLOUR,
    NEGATIVE_INFINITY_COLOUR,
    POSITIVE_INFINITY_COLOUR,
    ROLES,
    VALUES,
    finish,
    paint,
)
from trt_lab.views.tiles import MAX_CELLS, Axes, Tile, axes_of, check_choice, make_tile
from trt_lab.views.worst import WorstElement, worst_elements

HEIGHT = 300
TOOLS = "pan,box_zoom,wheel_zoom,reset"


def default_slice(golden: np.ndarray, engine: np.ndarray, stats: TensorStats | None = None) -> tuple[int, ...]:
    """The slice that holds the worst element (all zeros where nothing differs); see `tiles.axes_of` for its axes."""
    axes = axes_of(golden.shape)
    index = _worst_index(golden, engine, stats)
    return axes.choice_of(index) if index is not None else (0,) * len(axes.chosen)


def diff_figure(
    golden: np.ndarray,
    engine: np.ndarray,
    *,
    name: str = "",
    stats: TensorStats | None = None,
    slice: Sequence[int] | None = None,
    max_cells: int = MAX_CELLS,
) -> LayoutDOM:
    """Golden, engine and difference of one tensor.

    Golden and engine share one colour scale, the difference has one that is symmetric about 0; the three maps pan
    and zoom together. What is sent stays below 1 MB whatever the tensor's size: see `tiles`.

    Args:
        golden, engine: The two arrays. Shapes that differ, no elements, or types that are not numbers give a message.
        name: The tensor's name.
        stats: What `compare` says about the pair; its worst element and figures are shown.
        slice: An index for each of `tiles.axes_of(shape).chosen`; default is the slice with the worst element.
        max_cells: Most cells a side of each map.

    Raises:
        UsageError: `slice` does not fit the shape.
    """
    message = _message(golden, engine, name, stats)
    if message is not None:
        return _stack(message)
    axes = axes_of(golden.shape)
    worst = _worst_index(golden, engine, stats)
    if slice is None:
        chosen = axes.choice_of(worst) if worst is not None else (0,) * len(axes.chosen)
    else:
        chosen = check_choice(axes, slice)
    shown = (axes.cut(golden, chosen), axes.cut(engine, chosen))
    here = worst if worst is not None and axes.choice_of(worst) == chosen else None
    if axes.cols is None:
        return _stack(_scalar(shown[0], shown[1], name, stats))
    if axes.rows is None:
        at = None if here is None else here[axes.cols]
        body, note = strip_figure(shown[0], shown[1], at, axes)
    else:
        at_cell = None if here is None else (here[axes.rows], here[axes.cols])
        tile = make_tile(shown[0], shown[1], max_cells)
        body, note = _maps(tile, axes, chosen, at_cell), _block_note(tile)
    heading = text_pane(
        [
            [strong(name)] if name else [],
            [_facts(golden, engine, axes, chosen, note)],
            [_verdict_line(golden, engine, worst, stats)],
        ]
    )
    return _stack(heading, body, text_pane([_non_finite(golden, engine)]))


def _stack(*parts) -> LayoutDOM:
    return finish(column(*parts, sizing_mode="stretch_width"))


def _worst_index(golden: np.ndarray, engine: np.ndarray, stats: TensorStats | None) -> tuple[int, ...] | None:
    """Place of the element that differs most; a non-finite disagreement is worse than any number."""
    non_finite = stats is None or stats.nan_only_a or stats.nan_only_b or stats.inf_mismatch
    if stats is not None and not non_finite and (stats.exact or stats.max_abs_at is not None):
        return None if stats.exact or not stats.max_abs else stats.max_abs_at
    elements: tuple[WorstElement, ...] = worst_elements(golden, engine, 1)
    return elements[0].index if elements else None


def _message(golden: np.ndarray, engine: np.ndarray, name: str, stats: TensorStats | None):
    title = name or "tensor"
    note = stats.note if stats else ""
    if golden.shape != engine.shape:
        return message_pane(
            f"{title}: shapes differ",
            [
                f"golden {golden.dtype} {shape_text(golden.shape)} · engine {engine.dtype} {shape_text(engine.shape)}",
                "Tensors of different shapes are not compared element by element, and never broadcast.",
            ],
        )
    if golden.size == 0:
        return message_pane(
            f"{title}: 0 elements, shapes equal",
            [f"{golden.dtype} {shape_text(golden.shape)}: nothing to compare.", note],
        )
    if not (is_numeric(golden) and is_numeric(engine)):
        differing = int(np.count_nonzero(np.asarray(golden != engine)))
        return message_pane(
            f"{title}: {golden.dtype} cannot be drawn",
            [f"{differing:,} of {plural(golden.size, 'element')} differ.", note],
        )
    return None


def _scalar(golden: np.ndarray, engine: np.ndarray, name: str, stats: TensorStats | None):
    """A tensor of one element: the numbers themselves."""
    want, got = (side.reshape(-1)[0] for side in (golden, engine))
    difference = float(subtract(np.asarray([got]), np.asarray([want]))[0])
    shown = number(difference) if np.isfinite(difference) else ("none" if np.isnan(difference) else "not finite")
    return message_pane(
        f"{name or 'tensor'}: one element ({golden.dtype})",
        [
            f"golden {number(_plain(want))} · engine {number(_plain(got))} · difference {shown}",
            stats.note if stats else "",
        ],
        height=120,
    )


def _plain(value) -> float | int | bool:
    if isinstance(value, np.bool_):
        return bool(value)
    return int(value) if isinstance(value, np.integer) else float(as_float(np.asarray([value]))[0])


def _facts(golden: np.ndarray, engine: np.ndarray, axes: Axes, chosen: tuple[int, ...], note: str) -> str:
    dtypes = str(golden.dtype) if golden.dtype == engine.dtype else f"golden {golden.dtype}, engine {engine.dtype}"
    parts = [f"{dtypes} {shape_text(golden.shape)}"]
    if axes.chosen:
        parts.append(f"slice {axes.index_text(chosen)}")
    return " · ".join([*parts, *([note] if note else [])])


def _block_note(tile: Tile) -> str:
    if not tile.reduced:
        return ""
    rows, cols = tile.block
    return f"each cell is {rows} × {cols} elements: their mean; in the difference their largest |difference|"


def _verdict_line(
    golden: np.ndarray, engine: np.ndarray, worst: tuple[int, ...] | None, stats: TensorStats | None
) -> str:
    if worst is None:
        return "no element differs"
    want, got = (float(as_float(np.asarray(side[worst])[None])[0]) for side in (golden, engine))
    parts = [f"worst element {list(worst)}: golden {number(want)}, engine {number(got)}"]
    if np.isfinite(want) and np.isfinite(got):
        parts.append(f"|difference| {number(abs(got - want))}")
    if stats is not None:
        parts.append(f"RMSE {number(stats.rmse)} · cosine {number(stats.cosine)}")
        if stats.over_tolerance:
            parts.append(f"{stats.over_tolerance:,} of {stats.count:,} over tolerance")
        if stats.note:
            parts.append(stats.note)
    return " · ".join(parts)


def _non_finite(golden: np.ndarray, engine: np.ndarray) -> list[Piece]:
    """Legend and counts of the non-finite cells, over the whole tensor; empty where there are none."""
    if not {golden.dtype.kind, engine.dtype.kind} & {"f", "V"}:
        return []
    counts = np.zeros((3, 2), dtype=np.int64)
    agree = disagree = 0
    flat = golden.reshape(-1), engine.reshape(-1)
    for start in range(0, golden.size, 1 << 20):
        want, got = (as_float(side[start : start + (1 << 20)]) for side in flat)
        for row, test in enumerate((np.isnan, np.isposinf, np.isneginf)):
            counts[row] += (int(test(want).sum()), int(test(got).sum()))
        either = ~(np.isfinite(want) & np.isfinite(got))
        same = (np.isnan(want) & np.isnan(got)) | (want == got)
        agree += int((either & same).sum())
        disagree += int((either & ~same).sum())
    if not counts.any():
        return []
    labels = ((NAN_COLOUR, "NaN"), (POSITIVE_INFINITY_COLOUR, "+Inf"), (NEGATIVE_INFINITY_COLOUR, "−Inf"))
    pieces: list[Piece] = [
        swatch(colour, f"{label}: {want:,} in golden, {got:,} in engine")
        for (colour, label), (want, got) in zip(labels, counts.tolist(), strict=True)
        if want or got
    ]
    if disagree:
        pieces.append(
            swatch(DISAGREE_COLOUR, f"in the difference: {disagree:,} not finite on one side, or not the same")
        )
    if agree:
        pieces.append(swatch(AGREE_COLOUR, f"in the difference: {agree:,} the same on both sides"))
    return pieces


def _maps(tile: Tile, axes: Axes, chosen: tuple[int, ...], worst: tuple[int, int] | None) -> LayoutDOM:
    """The three maps; one source, so that each array is sent once."""
    rows, cols = tile.size
    source = ColumnDataSource(
        data={
            "golden": [tile.golden],
            "engine": [tile.engine],
            "difference": [tile.difference],
            "width": [tile.golden.shape[1] * tile.block[1]],
            "height": [tile.golden.shape[0] * tile.block[0]],
        },
        name="maps",
    )
    marker = ColumnDataSource(data={"x": [worst[1]] if worst else [], "y": [worst[0]] if worst else []}, name="worst")
    x_range = Range1d(start=-0.5, end=cols - 0.5, bounds=(-0.5, cols - 0.5))
    y_range = Range1d(start=rows - 0.5, end=-0.5, bounds=(-0.5, rows - 0.5))
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
        plot.add_tools(_hover(image, axes, chosen, tile))
        _mark(plot, marker)
        bar = ColorBar(color_mapper=mapper, height=10, padding=4, margin=0, ticker=BasicTicker(desired_num_ticks=4))
        plot.add_layout(bar, "below")
        _index_axes(plot)
        plots.append(plot)
    return gridplot(
        [plots], sizing_mode="stretch_width", merge_tools=True, toolbar_location="right", toolbar_options={"logo": None}
    )


def _mappers(tile: Tile) -> tuple[LinearColorMapper, LinearColorMapper]:
    """One scale for both value maps, one about zero for the difference; non-finite cells fall off their ends."""
    both = np.concatenate([tile.golden.ravel(), tile.engine.ravel()])
    finite = both[np.isfinite(both)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    if low == high:
        pad = abs(low) * 0.5 or 0.5
        low, high = low - pad, high + pad
    values = LinearColorMapper(
        palette=list(VALUES),
        low=low,
        high=high,
        nan_color=NAN_COLOUR,
        high_color=POSITIVE_INFINITY_COLOUR,
        low_color=NEGATIVE_INFINITY_COLOUR,
        name="values",
    )
    gaps = np.abs(tile.difference[np.isfinite(tile.difference)])
    limit = float(gaps.max()) if gaps.size else 0.0
    limit = limit or 1.0
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


def _hover(renderer, axes: Axes, chosen: tuple[int, ...], tile: Tile) -> HoverTool:
    kind = " (mean)" if tile.reduced else ""
    return HoverTool(
        name="hover",
        renderers=[renderer],
        tooltips=[
            ("index", axes.index_text(chosen, "$y{0}", "$x{0}")),
            (f"golden{kind}", "@golden"),
            (f"engine{kind}", "@engine"),
            (f"difference{' (largest)' if tile.reduced else ''}", "@difference"),
        ],
    )


def _mark(plot, marker: ColumnDataSource) -> None:
    """A ring round the worst element, seen on any colour: white on black."""
    for width, colour in ((4.5, "#000000"), (2.0, "#ffffff")):
        plot.scatter(
            "x", "y", source=marker, marker="circle", size=16, fill_color=None, line_color=colour, line_width=width
        )


def _index_axes(plot) -> None:
    for axis in (plot.xaxis, plot.yaxis):
        axis.ticker = BasicTicker(mantissas=[1, 2, 5], min_interval=1, num_minor_ticks=0, desired_num_ticks=5)
        axis.formatter = NumeralTickFormatter(format="0")
    plot.grid.visible = False
