"""Slices and downsampling."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from trt_lab.errors import UsageError
from trt_lab.views.numbers import subtract
from trt_lab.views.tiles import axes_of, check_choice, make_strip, make_tile

PLANES = hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=40)
VALUES = st.floats(-1e6, 1e6, width=32)


@given(st.data(), PLANES)
def test_the_worst_cell_survives_downsampling(data: st.DataObject, shape: tuple[int, int]) -> None:
    golden = data.draw(hnp.arrays(np.float32, shape, elements=VALUES))
    engine = data.draw(hnp.arrays(np.float32, shape, elements=VALUES))
    tile = make_tile(golden, engine, max_cells=7)
    assert max(tile.difference.shape) <= 7
    worst = np.abs(engine.astype(np.float64) - golden).max()
    assert np.abs(tile.difference).max() == np.float32(worst)
    row, col = np.unravel_index(np.abs(engine.astype(np.float64) - golden).argmax(), shape)
    cell = tile.difference[row // tile.block[0], col // tile.block[1]]
    assert abs(cell) == np.float32(worst)


@given(st.data(), PLANES)
def test_values_are_the_means_of_their_blocks(data: st.DataObject, shape: tuple[int, int]) -> None:
    golden = data.draw(hnp.arrays(np.float32, shape, elements=VALUES))
    tile = make_tile(golden, golden, max_cells=7)
    rows, cols = tile.block
    for i in range(tile.golden.shape[0]):
        for j in range(tile.golden.shape[1]):
            block = golden[i * rows : (i + 1) * rows, j * cols : (j + 1) * cols].astype(np.float64)
            assert tile.golden[i, j] == pytest.approx(block.mean(), rel=1e-6, abs=1e-6)
    assert not tile.difference.any()


def test_one_nan_marks_its_block_and_agreeing_ones_do_not_hide_a_number() -> None:
    golden, engine = np.zeros((8, 8)), np.zeros((8, 8))
    engine[0, 1] = np.nan
    golden[4:6, 4:6] = engine[4:6, 4:6] = np.inf
    golden[6, 0] = engine[6, 0] = np.nan
    engine[7, 1] = 3.0
    tile = make_tile(golden, engine, max_cells=4)
    assert tile.difference[0, 0] == np.inf and np.isnan(tile.engine[0, 0]) and tile.golden[0, 0] == 0
    assert np.isnan(tile.difference[2, 2]) and tile.golden[2, 2] == np.inf
    assert tile.difference[3, 0] == 3.0


def test_a_finite_double_beyond_float32_stays_finite() -> None:
    tile = make_tile(np.array([[1e300, 1.0]]), np.array([[-1e300, 1.0]]))
    assert np.isfinite(tile.golden).all() and np.isfinite(tile.engine).all()


@pytest.mark.parametrize(
    ("shape", "rows", "cols", "chosen"),
    [
        ((1, 8, 5, 6), 2, 3, (1,)),
        ((2, 8, 5, 6), 2, 3, (0, 1)),
        ((1, 512, 1, 1), None, 1, ()),
        ((4, 512, 1, 1), 0, 1, ()),
        ((1, 1), None, None, ()),
        ((), None, None, ()),
        ((7,), None, 0, ()),
    ],
)
def test_axes_of_size_one_are_no_news(
    shape: tuple[int, ...], rows: int | None, cols: int | None, chosen: tuple[int, ...]
) -> None:
    axes = axes_of(shape)
    assert (axes.rows, axes.cols, axes.chosen) == (rows, cols, chosen)


def test_a_slice_is_named_and_cut() -> None:
    array = np.arange(2 * 3 * 1 * 4 * 5).reshape(2, 3, 1, 4, 5)
    axes = axes_of(array.shape)
    assert axes.choices == (2, 3)
    assert axes.index_text((1, 2)) == "[1, 2, 0, :, :]"
    np.testing.assert_array_equal(axes.cut(array, (1, 2)), array[1, 2, 0])
    assert axes.choice_of((1, 2, 0, 3, 4)) == (1, 2)


def test_a_slice_that_does_not_fit_is_refused() -> None:
    axes = axes_of((2, 3, 4, 5))
    with pytest.raises(UsageError, match=r"needs 2 slice indices \(axes \[0, 1\]\), 1 given"):
        check_choice(axes, (0,))
    with pytest.raises(UsageError, match=r"index 3 is outside axis 1, which has 3 elements"):
        check_choice(axes, (0, 3))
    assert check_choice(axes, (-1, 0)) == (1, 0)


@given(st.integers(1, 500), st.integers(1, 60), st.randoms(use_true_random=False))
@settings(max_examples=50)
def test_the_worst_element_survives_in_a_strip(size: int, points: int, random) -> None:
    golden, engine = np.zeros(size), np.zeros(size)
    at = random.randrange(size)
    engine[at] = -5.0
    strip = make_strip(golden, engine, max_points=points)
    assert len(strip.start) <= points
    assert strip.difference[at // strip.block] == -5.0
    assert strip.low.min() == -5.0 and strip.high.max() == 0.0


def test_differences_are_taken_in_a_wider_type() -> None:
    """C18: uint8 1 − 2 is not 255, int8 −128 − 127 does not wrap, bools subtract."""
    assert subtract(np.array([1], np.uint8), np.array([2], np.uint8)).tolist() == [-1.0]
    assert subtract(np.array([-128], np.int8), np.array([127], np.int8)).tolist() == [-255.0]
    assert subtract(np.array([True]), np.array([False])).tolist() == [1.0]
    assert subtract(np.array([2**63 - 1]), np.array([2**63 - 2])).tolist() == [1.0]
    assert subtract(np.array([2**64 - 1], np.uint64), np.array([-1])).tolist() == [2.0**64]


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4, ml_dtypes.uint4])
def test_small_types_are_subtracted(dtype: type) -> None:
    assert subtract(np.array([3], dtype), np.array([1], dtype)).tolist() == [2.0]
