"""Which part of a tensor is drawn, and how it is made small enough to send.

A heat map shows two axes of a tensor. Axes of size 1 are no news, so the two shown are the last two
larger ones; an index is chosen for each of the others. A plane of more than `MAX_CELLS` cells a side
is cut into blocks: the value maps show the mean of a block, the difference map its element with the
largest |difference|, so that the worst cell is always on the screen. A NaN or infinity marks its block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trt_lab.errors import UsageError
from trt_lab.views.numbers import FloatArray, as_float, subtract

MAX_CELLS = 256


@dataclass(frozen=True, slots=True)
class Axes:
    """How a shape is laid on a map.

    Attributes:
        rows, cols: Axes shown; None where the tensor has fewer than two axes larger than 1.
        chosen: Axes larger than 1 for which one index must be chosen, in order.
        shape: The shape this is about.
    """

    rows: int | None
    cols: int | None
    chosen: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def choices(self) -> tuple[int, ...]:
        """Sizes of the `chosen` axes: the ranges of the sliders."""
        return tuple(self.shape[axis] for axis in self.chosen)

    def index_text(self, chosen: Sequence[int], row: str = ":", col: str = ":") -> str:
        """`[0, 3, :, :]`, with `row` and `col` in place of the colons where given."""
        at = dict(zip(self.chosen, chosen, strict=True))
        parts = [
            row if axis == self.rows else col if axis == self.cols else str(at.get(axis, 0))
            for axis in range(len(self.shape))
        ]
        return f"[{', '.join(parts)}]"

    def choice_of(self, index: Sequence[int]) -> tuple[int, ...]:
        """The choice of the slice that holds the element at `index`."""
        return tuple(int(index[axis]) for axis in self.chosen)

    def cut(self, array: np.ndarray, chosen: Sequence[int]) -> np.ndarray:
        """The slice itself, a view: 2-d where both `rows` and `cols` are there, else 1-d or 0-d."""
        at = dict(zip(self.chosen, chosen, strict=True))
        key = tuple(
            slice(None) if axis in (self.rows, self.cols) else at.get(axis, 0) for axis in range(len(self.shape))
        )
        return array[key]


def axes_of(shape: tuple[int, ...]) -> Axes:
    """The last two axes larger than 1 are shown; a tensor with one such axis has only `cols`."""
    large = [axis for axis, size in enumerate(shape) if size > 1]
    return Axes(
        rows=large[-2] if len(large) > 1 else None,
        cols=large[-1] if large else None,
        chosen=tuple(large[:-2]),
        shape=shape,
    )


def check_choice(axes: Axes, chosen: Sequence[int]) -> tuple[int, ...]:
    """`chosen` with negative indices counted from the end.

    Raises:
        UsageError: Not one index an axis, or an index outside its axis.
    """
    if len(chosen) != len(axes.chosen):
        raise UsageError(
            f"A tensor of shape {list(axes.shape)} needs {len(axes.chosen)} slice indices "
            f"(axes {list(axes.chosen)}), {len(chosen)} given."
        )
    for axis, size, index in zip(axes.chosen, axes.choices, chosen, strict=True):
        if not -size <= index < size:
            raise UsageError(
                f"Slice index {index} is outside axis {axis}, which has {size} elements (0 to {size - 1})."
            )
    return tuple(index % size for size, index in zip(axes.choices, chosen, strict=True))


@dataclass(frozen=True, slots=True)
class Tile:
    """A plane ready to be drawn; three float32 arrays of one shape, at most `max_cells` a side.

    Attributes:
        golden, engine: Values, or means of blocks.
        difference: engine − golden of the element with the largest |difference| in each block. NaN where
            both sides hold the same non-finite values only, +Inf where a non-finite value disagrees.
        block: Elements of the tensor a cell stands for (rows, columns).
        size: Rows and columns of the plane itself.
    """

    golden: np.ndarray
    engine: np.ndarray
    difference: np.ndarray
    block: tuple[int, int]
    size: tuple[int, int]

    @property
    def reduced(self) -> bool:
        return self.block != (1, 1)


def make_tile(golden: np.ndarray, engine: np.ndarray, max_cells: int = MAX_CELLS) -> Tile:
    """Shrinks two 2-d arrays of equal shape; works through one row of blocks at a time, so a big plane is never copied."""
    rows, cols = golden.shape
    block = (-(-rows // max_cells), -(-cols // max_cells))
    bands = [
        _shrink_band(golden[start : start + block[0]], engine[start : start + block[0]], block[1])
        for start in range(0, rows, block[0])
    ]
    values, others, differences = (_as_float32(np.stack(part)) for part in zip(*bands, strict=True))
    return Tile(values, others, differences, block, (rows, cols))


def _as_float32(values: FloatArray) -> np.ndarray:
    """float32, with finite values beyond its range at its edge: only true infinities may look infinite."""
    edge = float(np.finfo(np.float32).max)
    return np.where(np.isfinite(values), np.clip(values, -edge, edge), values).astype(np.float32)


def _shrink_band(golden: np.ndarray, engine: np.ndarray, width: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """One row of blocks: the means of both sides and the worst difference of each block `width` columns wide."""
    difference = subtract(engine, golden)
    if golden.shape[0] == 1 and width == 1:
        return as_float(golden)[0], as_float(engine)[0], difference[0]
    starts = np.arange(0, golden.shape[1], width)
    counts = golden.shape[0] * np.diff(np.append(starts, golden.shape[1])).astype(np.float64)
    means = []
    with np.errstate(invalid="ignore", over="ignore"):
        for side in (golden, engine):
            means.append(np.add.reduceat(as_float(side).sum(axis=0), starts) / counts)
    high = np.fmax.reduceat(np.fmax.reduce(difference, axis=0), starts)
    low = np.fmin.reduceat(np.fmin.reduce(difference, axis=0), starts)
    return means[0], means[1], np.where(np.abs(low) > np.abs(high), low, high)


@dataclass(frozen=True, slots=True)
class Strip:
    """A line ready to be drawn: float64 arrays of one length, at most `max_points` long.

    Attributes:
        start: First index of each block.
        golden, engine: Means of the finite values of each block; NaN where there is none.
        low, high: Smallest and largest finite value of either side in each block.
        difference: As in `Tile`.
        block: Elements a point stands for.
        size: Elements of the line.
    """

    start: np.ndarray
    golden: np.ndarray
    engine: np.ndarray
    low: np.ndarray
    high: np.ndarray
    difference: np.ndarray
    block: int
    size: int


def make_strip(golden: np.ndarray, engine: np.ndarray, max_points: int = 1024) -> Strip:
    """Shrinks two 1-d arrays of equal, non-zero length."""
    size = golden.size
    block = -(-size // max_points)
    start = np.arange(0, size, block)
    difference = subtract(engine, golden)
    high = np.fmax.reduceat(difference, start)
    low = np.fmin.reduceat(difference, start)
    means, lows, highs = [], [], []
    for side in (golden, engine):
        values = as_float(side)
        values[~np.isfinite(values)] = np.nan
        count = np.add.reduceat(np.isfinite(values).astype(np.float64), start)
        with np.errstate(invalid="ignore", divide="ignore"):
            means.append(np.add.reduceat(np.nan_to_num(values), start) / count)
        lows.append(np.fmin.reduceat(values, start))
        highs.append(np.fmax.reduceat(values, start))
    return Strip(
        start=start,
        golden=means[0],
        engine=means[1],
        low=np.fmin(*lows),
        high=np.fmax(*highs),
        difference=np.where(np.abs(low) > np.abs(high), low, high),
        block=block,
        size=size,
    )
