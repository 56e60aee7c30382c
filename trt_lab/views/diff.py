"""One tensor on both sides: golden, engine and difference as linked heat maps, or as lines where there is one axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from bokeh.layouts import column
from bokeh.models import Column, LayoutDOM, Pane, UIElement

from trt_lab.types import TensorStats
from trt_lab.views.maps import maps_figure, update_maps
from trt_lab.views.numbers import as_float, is_numeric, number, plural, shape_text, subtract
from trt_lab.views.strips import strip_figure, update_strip
from trt_lab.views.text import Piece, change_text, message_pane, strong, swatch, text_pane
from trt_lab.views.theme import (
    AGREE_COLOUR,
    DISAGREE_COLOUR,
    NAN_COLOUR,
    NEGATIVE_INFINITY_COLOUR,
    POSITIVE_INFINITY_COLOUR,
    finish,
)
from trt_lab.views.tiles import MAX_CELLS, Axes, Tile, axes_of, check_choice, make_tile
from trt_lab.views.worst import WorstElement, worst_elements


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
    cut = _Cut.of(golden, engine, stats, slice)
    if cut.axes.cols is None:
        return _stack(_scalar(cut.golden, cut.engine, name, stats))
    if cut.axes.rows is None:
        body, note = strip_figure(cut.golden, cut.engine, cut.place, cut.axes)
    else:
        tile = make_tile(cut.golden, cut.engine, max_cells)
        body, note = maps_figure(tile, cut.axes, cut.chosen, cut.cell), _block_note(tile)
    heading, footing = _texts(golden, engine, name, stats, cut, note)
    return _stack(heading, body, footing)


def update_diff(
    shown: UIElement,
    golden: np.ndarray,
    engine: np.ndarray,
    *,
    name: str = "",
    stats: TensorStats | None = None,
    slice: Sequence[int] | None = None,
) -> bool:
    """Draws another pair in the figure that `diff_figure` made, which takes far less time than a new one.

    Returns:
        False, and nothing is done, where `shown` does not hold what this pair is drawn as: maps, lines or bars.

    Raises:
        UsageError: As `diff_figure`.
    """
    if not isinstance(shown, Column) or len(shown.children) != 3 or _message(golden, engine, name, stats) is not None:
        return False
    cut = _Cut.of(golden, engine, stats, slice)
    heading, body, footing = (cast("UIElement", child) for child in shown.children)
    note = _redraw(body, cut)
    if note is None:
        return False
    for pane, words in zip((heading, footing), _texts(golden, engine, name, stats, cut, note), strict=True):
        change_text(cast("Pane", pane), words)
    return True


def _redraw(body: UIElement, cut: _Cut) -> str | None:
    """Draws a slice in maps or lines that are there; what is to be said about it, None where it cannot be drawn there."""
    if cut.axes.cols is None:
        return None
    if cut.axes.rows is None:
        return update_strip(body, cut.golden, cut.engine, cut.place, cut.axes)
    tile = make_tile(cut.golden, cut.engine, MAX_CELLS)
    return _block_note(tile) if update_maps(body, tile, cut.axes, cut.chosen, cut.cell) else None


@dataclass(frozen=True)
class _Cut:
    """The part of a tensor that is drawn.

    Attributes:
        chosen: An index for each axis that is not drawn.
        golden, engine: The slice of each side.
        anywhere: Index of the element that differs most, None where none does; `worst` is it when it lies in the slice.
    """

    axes: Axes
    chosen: tuple[int, ...]
    golden: np.ndarray
    engine: np.ndarray
    anywhere: tuple[int, ...] | None
    worst: tuple[int, ...] | None

    @classmethod
    def of(cls, golden: np.ndarray, engine: np.ndarray, stats: TensorStats | None, slice: Sequence[int] | None) -> _Cut:
        axes = axes_of(golden.shape)
        worst = _worst_index(golden, engine, stats)
        if slice is None:
            chosen = axes.choice_of(worst) if worst is not None else (0,) * len(axes.chosen)
        else:
            chosen = check_choice(axes, slice)
        here = worst if worst is not None and axes.choice_of(worst) == chosen else None
        return cls(axes, chosen, axes.cut(golden, chosen), axes.cut(engine, chosen), worst, here)

    @property
    def cell(self) -> tuple[int, int] | None:
        """Row and column of the worst element in the slice."""
        rows, cols = self.axes.rows, self.axes.cols
        return None if self.worst is None or rows is None or cols is None else (self.worst[rows], self.worst[cols])

    @property
    def place(self) -> int | None:
        """Place of the worst element along the columns."""
        return None if self.worst is None or self.axes.cols is None else self.worst[self.axes.cols]


def _texts(
    golden: np.ndarray, engine: np.ndarray, name: str, stats: TensorStats | None, cut: _Cut, note: str
) -> tuple[Pane, Pane]:
    """What stands over and under the figure."""
    heading = text_pane(
        [
            [strong(name)] if name else [],
            [_facts(golden, engine, cut.axes, cut.chosen, note)],
            [_verdict_line(golden, engine, cut.anywhere, stats)],
        ]
    )
    return heading, text_pane([_non_finite(golden, engine)])


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
