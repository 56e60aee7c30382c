"""Figures of the opened tensor."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from trt_lab.compare.details import error_histogram, index_ties, quantiles, ulp_distance
from trt_lab.errors import CompareError


def test_quantiles_are_exact() -> None:
    b = np.zeros(101)
    a = np.arange(101.0)
    assert quantiles(a, b, (0.5, 0.99, 1.0)) == {0.5: 50.0, 0.99: 99.0, 1.0: 100.0}
    assert quantiles(np.array([np.nan]), np.array([1.0])) == {}
    with pytest.raises(CompareError, match="shapes differ"):
        quantiles(a, b[:3])


@pytest.mark.parametrize(
    "name", ["float16", "float32", "float64", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"]
)
def test_ulp_counts_representable_values(name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else np.dtype(name)
    codes = np.arange(5, dtype=f"u{dtype.itemsize}").view(dtype)
    assert ulp_distance(codes, np.zeros(5, dtype)).tolist() == [0, 1, 2, 3, 4]
    assert ulp_distance(-codes, codes).tolist() == [0, 2, 4, 6, 8]


def test_ulp_of_zeros_mixed_types_and_non_finite() -> None:
    assert ulp_distance(np.array([-0.0]), np.array([0.0])).tolist() == [0]
    assert ulp_distance(np.array([np.inf, np.nan]), np.array([1.0, 1.0])).tolist() == [0, 0]
    one = np.array([1.0], np.float16)
    assert ulp_distance(one, np.array([1.0 + 2**-10])).tolist() == [1]
    assert ulp_distance(np.array([1.0 + 2**-10]), one).tolist() == [1]
    far = int(np.array([1.7e308]).view(np.int64)[0])
    assert ulp_distance(np.array([-1.7e308]), np.array([1.7e308])).tolist() == [2 * far]
    with pytest.raises(CompareError, match="floating"):
        ulp_distance(np.array([1]), np.array([2]))


def test_histogram_accounts_for_every_element() -> None:
    rng = np.random.default_rng(0)
    b = rng.normal(size=1000)
    b[:10] = 0
    a = b + rng.normal(size=1000) * 1e-3
    a[500:] = b[500:]
    a[999] = np.nan
    found = error_histogram(a, b)
    assert found.counts.sum() + found.exact.sum() + found.zero_reference + found.not_finite == 1000
    assert (found.zero_reference, found.not_finite, found.counts.sum()) == (10, 1, 490)
    assert found.counts.shape == (len(found.magnitude_edges) - 1, len(found.error_edges) - 1)
    none = error_histogram(np.zeros(3), np.zeros(3))
    assert none.zero_reference == 3 and none.counts.sum() == 0


def test_ties_of_argmax_and_topk() -> None:
    scores = np.array([[1.0, 1.0005, 0.0], [5.0, 1.0, 0.0]])
    found = index_ties(np.array([0, 1]), np.array([1, 0]), scores)
    assert (found.differing, found.ties, found.wrong) == (2, 1, 1)
    assert (found.largest_margin, found.largest_margin_at) == (4.0, (1,))
    assert index_ties(np.array([1, 0]), np.array([1, 0]), scores).largest_margin is None
    top = index_ties(np.array([[0, 1], [0, 1]]), np.array([[1, 0], [0, 1]]), scores, axis=1)
    assert (top.differing, top.wrong) == (2, 0) and top.largest_margin_at == (0, 0)
    with pytest.raises(CompareError, match="out of range"):
        index_ties(np.array([0, 7]), np.array([1, 0]), scores)
    with pytest.raises(CompareError, match="do not fit"):
        index_ties(np.array([0]), np.array([1]), scores)
