"""Worst elements."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from trt_lab.errors import CompareError
from trt_lab.views import worst
from trt_lab.views.worst import WorstElement, worst_elements, worst_frame


def test_c21_numbers() -> None:
    golden = np.array([0, 0, 1e-9, 1, 100], np.float32)
    engine = np.array([0, 1e-6, 1.001e-6, 1.01, 99], np.float32)
    found = worst_elements(golden, engine, 5)
    assert [element.index for element in found] == [(4,), (3,), (1,), (2,)]
    assert found[0] == WorstElement((4,), 100.0, 99.0, 1.0, 0.01)
    assert found[2].rel is None and found[2].abs == pytest.approx(1e-6)
    assert found[3].rel == pytest.approx(1000, rel=1e-3)


def test_c22_only_disagreements_are_listed_first() -> None:
    golden = np.array([np.nan, np.inf, -np.inf, np.inf, 1.0, 2.0])
    engine = np.array([np.nan, np.inf, -np.inf, -np.inf, np.nan, 7.0])
    found = worst_elements(golden, engine)
    assert [element.index for element in found] == [(3,), (4,), (5,)]
    assert [element.abs for element in found] == [None, None, 5.0]
    assert [element.rel for element in found] == [None, None, 2.5]


@given(
    hnp.arrays(np.float32, 37, elements=st.floats(-1e3, 1e3, width=32)),
    hnp.arrays(np.float32, 37, elements=st.floats(-1e3, 1e3, width=32)),
    st.integers(1, 50),
)
def test_it_is_the_top_of_a_full_sort_whatever_the_blocks(golden: np.ndarray, engine: np.ndarray, count: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worst, "_BLOCK", 8)
        found = worst_elements(golden, engine, count)
    errors = np.abs(engine.astype(np.float64) - golden)
    expected = sorted(errors[errors > 0].tolist(), reverse=True)[:count]
    assert [element.abs for element in found] == expected
    assert all(errors[element.index] == element.abs for element in found)


def test_scalars_equal_and_empty_tensors() -> None:
    assert worst_elements(np.array(3), np.array(5))[0] == WorstElement((), 3.0, 5.0, 2.0, 2 / 3)
    assert worst_elements(np.ones(4), np.ones(4)) == ()
    assert worst_elements(np.ones((0, 3)), np.ones((0, 3))) == ()
    with pytest.raises(CompareError, match="equal shapes"):
        worst_elements(np.ones((2, 4)), np.ones((2, 3)))


def test_the_frame_leaves_missing_missing() -> None:
    frame = worst_frame(worst_elements(np.array([[0.0, 1.0]]), np.array([[1.0, np.nan]])))
    assert tuple(frame.columns) == worst.COLUMNS
    assert frame["index"].tolist() == ["[0, 1]", "[0, 0]"]
    assert frame["abs_err"].isna().tolist() == [True, False]
    assert frame["rel_err"].isna().tolist() == [True, True]
    assert worst_frame(()).empty
