"""What in a difference of runs is noise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from trt_lab.profiling.noise import SIGNIFICANT, adjust_p_values, bootstrap_interval, rank_p_values


def test_p_values_of_equal_distributions_are_uniform() -> None:
    rng = np.random.default_rng(0)
    p_values = rank_p_values([(rng.normal(1, 0.05, 20), rng.normal(1, 0.05, 20)) for _ in range(2000)])
    assert all(p is not None for p in p_values)
    below = [np.mean([p < level for p in p_values if p is not None]) for level in (0.05, 0.5)]
    assert below == pytest.approx([0.05, 0.5], abs=0.03)


def test_of_many_equal_layers_none_is_called_different() -> None:
    rng = np.random.default_rng(1)
    alarms = 0
    for _ in range(100):
        pairs = [(rng.normal(1, 0.05, 20), rng.normal(1, 0.05, 20)) for _ in range(50)]
        alarms += any(p is not None and p <= SIGNIFICANT for p in adjust_p_values(rank_p_values(pairs)))
    assert alarms <= 12  # 5 of 100 expected, standard deviation 2.2


def test_a_shift_is_found() -> None:
    rng = np.random.default_rng(2)
    (p_value,) = rank_p_values([(rng.normal(1, 0.05, 20), rng.normal(1.2, 0.05, 20))])
    assert p_value is not None
    assert p_value < 1e-4


def test_few_runs_and_constant_runs() -> None:
    assert rank_p_values([([1.0] * 4, [2.0] * 20), ([1.0] * 9, [1.0] * 9), ([], [])]) == [None, 1.0, None]
    (split,) = rank_p_values([([1.0] * 9, [2.0] * 9)])
    assert split is not None
    assert split < 0.001


def test_unknown_p_values_are_not_counted_as_tests() -> None:
    assert adjust_p_values([None, 0.01, None, 0.04]) == [None, 0.02, None, 0.04]
    assert adjust_p_values([None]) == [None]


def test_the_interval_holds_the_difference_of_the_medians() -> None:
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(200):
        interval = bootstrap_interval(rng.normal(1, 0.05, 25), rng.normal(1.1, 0.05, 25))
        assert interval is not None
        held += interval[0] <= 0.1 <= interval[1]
    assert 180 <= held <= 200  # 95 % wanted; the percentile method of a median is a little off at 25 runs
    assert bootstrap_interval([1.0] * 4, [1.0] * 9) is None
    assert bootstrap_interval([1.0] * 9, [1.5] * 9) == (0.5, 0.5)


RUNS = st.lists(st.integers(0, 6).map(float), min_size=5, max_size=25)


@given(st.lists(st.tuples(RUNS, RUNS), min_size=1, max_size=8))
def test_the_rank_test_is_that_of_scipy(pairs: list[tuple[list[float], list[float]]]) -> None:
    for (a, b), p_value in zip(pairs, rank_p_values(pairs), strict=True):
        constant = len({*a, *b}) == 1
        wanted = 1.0 if constant else stats.mannwhitneyu(a, b, method="asymptotic").pvalue
        assert p_value == pytest.approx(wanted, rel=1e-9)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_the_correction_is_that_of_scipy(p_values: list[float]) -> None:
    assert adjust_p_values(p_values) == pytest.approx(stats.false_discovery_control(p_values).tolist())
