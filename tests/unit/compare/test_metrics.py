"""Metrics against plain float64 arithmetic, and the exact numbers of the cases."""

from __future__ import annotations

import math
import tracemalloc
from dataclasses import replace
from typing import Self

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trt_lab.compare import metrics
from trt_lab.compare.metrics import compare_arrays
from trt_lab.types import TensorStats, Tolerance

TOLERANCE = Tolerance()
SMALL_FLOATS = ("bfloat16", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz")
SMALL_FLOATS += ("float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn")
FLOATS = ("float16", "float32", "float64", *SMALL_FLOATS)
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int4", "uint4")
EXAMPLES = (50, pytest.param(1000, marks=pytest.mark.slow))
"""Of hypothesis, a type: a few while one works, all of them in `make test`."""
EXACT = ("count", "differing", "finite", "over_tolerance", "zero_reference", "nan_both", "nan_only_a", "nan_only_b")
EXACT += ("inf_both", "inf_mismatch", "pos_inf_a", "neg_inf_a", "pos_inf_b", "neg_inf_b", "exact", "verdict")
EXACT += ("max_abs", "max_abs_at", "max_rel", "max_rel_at")


def dtype_of(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else np.dtype(name)


def reference(a: np.ndarray, b: np.ndarray, atol: float, rtol: float) -> dict:
    """The same figures written down plainly, over whole float64 tensors."""
    with np.errstate(all="ignore"):
        x, y = a.astype(np.float64).reshape(-1), b.astype(np.float64).reshape(-1)
        finite = np.isfinite(x) & np.isfinite(y)
        nan_x, nan_y = np.isnan(x), np.isnan(y)
        same_inf = np.isinf(x) & (x == y)
        mismatch = (np.isinf(x) | np.isinf(y)) & ~same_inf & ~nan_x & ~nan_y
        d = np.where(finite, np.abs(x - y), -1.0)
        over = finite & (d > atol + rtol * np.abs(y))
        rel = np.where(finite & (y != 0), np.abs(x - y) / np.abs(y), -1.0)
        xf, yf = x[finite], y[finite]
        dd, aa, bb, ab = ((xf - yf) ** 2).sum(), (xf**2).sum(), (yf**2).sum(), (xf * yf).sum()
    wrong = int((nan_x ^ nan_y).sum() + mismatch.sum())
    figures: dict = {
        "count": x.size,
        "finite": int(finite.sum()),
        "differing": int((d > 0).sum()) + wrong,
        "over_tolerance": int(over.sum()) + wrong,
        "zero_reference": int((finite & (y == 0) & (x != 0)).sum()),
        "nan_both": int((nan_x & nan_y).sum()),
        "nan_only_a": int((nan_x & ~nan_y).sum()),
        "nan_only_b": int((nan_y & ~nan_x).sum()),
        "inf_both": int(same_inf.sum()),
        "inf_mismatch": int(mismatch.sum()),
        "pos_inf_a": int((x == np.inf).sum()),
        "neg_inf_a": int((x == -np.inf).sum()),
        "pos_inf_b": int((y == np.inf).sum()),
        "neg_inf_b": int((y == -np.inf).sum()),
    }
    figures["exact"] = figures["differing"] == 0
    figures["verdict"] = "differs" if figures["over_tolerance"] else "same"
    for key, values in (("max_abs", d), ("max_rel", rel)):
        at = int(values.argmax())
        there = values[at] >= 0
        figures[key] = float(values[at]) if there and math.isfinite(values[at]) else None
        figures[f"{key}_at"] = tuple(int(i) for i in np.unravel_index(at, a.shape)) if there else None
    sums = math.isfinite(dd) and math.isfinite(aa) and math.isfinite(bb)
    figures["rmse"] = math.sqrt(dd / len(xf)) if len(xf) and sums else None
    norm = math.sqrt(aa) * math.sqrt(bb) if sums else 0.0
    figures["cosine"] = ab / norm if norm > 0 else None
    figures["snr_db"] = 10 * (math.log10(bb) - math.log10(dd)) if sums and dd > 0 and bb > 0 else None
    return figures


def assert_equal(stats: TensorStats, wanted: dict) -> None:
    for key in EXACT:
        assert getattr(stats, key) == wanted[key], key
    for key in ("rmse", "cosine", "snr_db"):
        found = getattr(stats, key)
        if wanted[key] is None:
            assert found is None, key
        else:
            assert found == pytest.approx(wanted[key], rel=1e-11, abs=1e-11), key


class InTurn:
    """Stands for a pool of threads: the parts one after the other, without the cost of starting threads."""

    def __init__(self, _workers: int) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    map = staticmethod(map)


@pytest.fixture
def tiny_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many blocks in two parts even for a handful of elements."""
    monkeypatch.setattr(metrics, "BLOCK", 8)
    monkeypatch.setattr(metrics, "_PARALLEL_FROM", 24)
    monkeypatch.setattr(metrics, "_cores", lambda: 2)
    monkeypatch.setattr(metrics, "ThreadPoolExecutor", InTurn)


@st.composite
def pairs(draw: st.DrawFn, dtype: np.dtype, plain: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two arrays. Half of the elements are plain numbers, the others any code of the type, so NaN, infinities and
    subnormals are met; some elements agree."""
    size = draw(st.integers(1, 40))
    width = dtype.itemsize + 1
    data = np.frombuffer(draw(st.binary(min_size=size * (2 * width + 1), max_size=size * (2 * width + 1))), np.uint8)
    sides = []
    for part in (data[: size * width], data[size * width : 2 * size * width]):
        codes, choice = part[size:].copy().view(dtype), part[:size]
        with np.errstate(all="ignore"):
            sides.append(np.where(choice < 128, plain[choice % len(plain)].astype(dtype), codes))
    return np.where(data[2 * size * width :] < draw(st.integers(0, 256)), sides[1], sides[0]), sides[1]


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.usefixtures("tiny_blocks")
def test_floats_equal_the_plain_reference(name: str, examples: int) -> None:
    plain = np.array([0.0, 1.0, -1.0, 0.5, 2.0, 4.0, 1.5])

    @settings(max_examples=examples, deadline=None, database=None)
    @given(pairs(dtype_of(name), plain), st.sampled_from([0.0, 1e-3, 0.5, 1e30]), st.sampled_from([0.0, 1e-3, 1.0]))
    def check(pair: tuple[np.ndarray, np.ndarray], atol: float, rtol: float) -> None:
        assert_equal(compare_arrays(*pair, Tolerance(atol, rtol)), reference(*pair, atol, rtol))

    check()


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.usefixtures("tiny_blocks")
def test_integers_equal_the_plain_reference(name: str, examples: int) -> None:
    @settings(max_examples=examples, deadline=None, database=None)
    @given(pairs(dtype_of(name), np.arange(4)), st.sampled_from([0.0, 1e-3, 1.0]))
    def check(pair: tuple[np.ndarray, np.ndarray], atol: float) -> None:
        assert_equal(compare_arrays(*pair, Tolerance(atol, 0.5)), reference(*pair, atol, 0.0))

    check()


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.usefixtures("tiny_blocks")
def test_bools_equal_the_plain_reference(examples: int) -> None:
    @settings(max_examples=examples, deadline=None, database=None)
    @given(pairs(np.dtype(np.uint8), np.arange(2)), st.sampled_from([0.0, 2.0]))
    def check(pair: tuple[np.ndarray, np.ndarray], atol: float) -> None:
        left, right = ((side & 1).astype(bool) for side in pair)
        assert_equal(compare_arrays(left, right, Tolerance(atol, 0.5)), reference(left, right, 0.0, 0.0))

    check()


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.parametrize("mixed", [False, True])
def test_wide_integers_are_compared_exactly(mixed: bool, examples: int) -> None:
    @settings(max_examples=examples, deadline=None, database=None)
    @given(pairs(np.dtype(np.int64), np.arange(4)))
    def check(pair: tuple[np.ndarray, np.ndarray]) -> None:
        left, right = pair[0], pair[1].view(np.uint64) if mixed else pair[1]
        gaps = [abs(int(x) - int(y)) for x, y in zip(left, right, strict=True)]
        stats = compare_arrays(left, right, Tolerance(0.0, 0.0))
        assert stats.differing == stats.over_tolerance == sum(gap > 0 for gap in gaps)
        assert stats.max_abs == pytest.approx(float(max(gaps)), rel=1e-15)

    check()


def test_int64_neighbours_beyond_float64_differ() -> None:
    stats = compare_arrays(np.array([2**53 + 1, 5]), np.array([2**53, 5]), TOLERANCE)
    assert (stats.verdict, stats.differing, stats.max_abs, stats.max_abs_at) == ("differs", 1, 1.0, (0,))


@pytest.mark.parametrize(
    "types", [("float16", "float32"), ("bfloat16", "float16"), ("float32", "float64"), ("int32", "float32")]
)
def test_types_of_the_two_sides_may_differ(types: tuple[str, str]) -> None:
    rng = np.random.default_rng(0)
    a, b = ((rng.normal(size=(37, 11)) * 9).astype(dtype_of(name)) for name in types)
    stats = compare_arrays(a, b, TOLERANCE)
    assert_equal(stats, reference(a, b, 1e-3, 1e-3))
    assert (stats.dtype_a, stats.dtype_b) == types


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1.0])
def test_many_blocks_and_threads_equal_the_reference(scale: float) -> None:
    rng = np.random.default_rng(1)
    b = rng.normal(size=(3, 700_001)).astype(np.float32)
    b[:, ::5] = 0
    a = b + (rng.normal(size=b.shape) * scale).astype(np.float32) * (rng.random(b.shape) < 0.3)
    a = a.astype(np.float32)
    a[2, 5], b[1, 7], a[0, 9] = np.nan, np.inf, -np.inf
    assert_equal(compare_arrays(a, b, TOLERANCE), reference(a, b, 1e-3, 1e-3))


def test_views_that_are_not_contiguous() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(2, 300, 400)).astype(np.float32)
    assert_equal(compare_arrays(a.T, b.T, TOLERANCE), reference(a.T, b.T, 1e-3, 1e-3))
    assert_equal(
        compare_arrays(a[::2, ::-3], b[::2, ::-3], TOLERANCE), reference(a[::2, ::-3], b[::2, ::-3], 1e-3, 1e-3)
    )


def test_no_copy_of_the_tensors() -> None:
    a = np.ones(25_000_000, np.float32)
    b = a[::-1]  # not contiguous, the worst case
    tracemalloc.start()
    stats = compare_arrays(a, b, TOLERANCE)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert stats.exact and peak < 16e6


def test_c13_no_elements() -> None:
    empty = np.zeros((1, 5, 0, 3), np.float32)
    stats = compare_arrays(empty, empty.copy(), TOLERANCE)
    assert (stats.verdict, stats.note, stats.count) == ("same", "0 elements, shapes equal", 0)
    assert stats.max_abs is None and stats.rmse is None and stats.cosine is None


def test_c18_bools_and_small_integers_use_a_wider_type() -> None:
    stats = compare_arrays(np.array([True, False, True]), np.array([True, True, False]), Tolerance(5.0, 5.0))
    assert (stats.verdict, stats.differing, stats.over_tolerance) == ("differs", 2, 2)
    assert compare_arrays(np.array([1], np.uint8), np.array([2], np.uint8), TOLERANCE).max_abs == 1.0
    assert compare_arrays(np.array([-128], np.int8), np.array([127], np.int8), TOLERANCE).max_abs == 255.0


def test_c21_zeros_in_the_reference() -> None:
    ref = np.array([0, 0, 1e-9, 1, 100], np.float32)
    out = np.array([0, 1e-6, 1.001e-6, 1.01, 99], np.float32)
    stats = compare_arrays(out, ref, TOLERANCE)
    assert (stats.max_abs, stats.max_abs_at) == (1.0, (4,))
    assert stats.zero_reference == 1
    assert stats.max_rel == pytest.approx(1000.0, rel=1e-4) and stats.max_rel_at == (2,)
    assert stats.verdict == "differs"


def test_c21_identical_arrays_are_exact() -> None:
    ref = np.array([0, 1, -2], np.float32)
    stats = compare_arrays(ref.copy(), ref, TOLERANCE)
    assert (stats.verdict, stats.exact, stats.max_abs, stats.max_rel, stats.snr_db) == ("same", True, 0.0, 0.0, None)


def test_c21_a_scale_error_fails_at_cosine_one() -> None:
    ref = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    stats = compare_arrays(2 * ref, ref, TOLERANCE)
    assert stats.cosine == pytest.approx(1.0) and stats.snr_db == pytest.approx(0.0, abs=1e-9)
    assert stats.verdict == "differs"


def test_c22_nan_and_infinity_on_both_sides() -> None:
    ref = np.array([np.nan, np.inf, -np.inf, np.inf, 1], np.float32)
    out = np.array([np.nan, np.inf, -np.inf, -np.inf, np.nan], np.float32)
    stats = compare_arrays(out, ref, TOLERANCE)
    assert stats.nan_both + stats.inf_both == 3
    assert (stats.inf_mismatch, stats.nan_only_a, stats.nan_only_b) == (1, 1, 0)
    assert stats.finite == 0 and stats.cosine is None and stats.snr_db is None and stats.max_abs is None
    assert (stats.verdict, stats.over_tolerance) == ("differs", 2)
    agreeing = compare_arrays(out[:3], ref[:3], TOLERANCE)
    assert agreeing.verdict == "same" and agreeing.exact


def test_c24_a_zero_vector_has_no_cosine() -> None:
    ref = np.array([[1.37199, -1.37199, 0.342997, -0.342997]], np.float32)
    out = np.array([[0, -0.0, 0, -0.0]], np.float32)
    stats = compare_arrays(out, ref, TOLERANCE)
    assert stats.cosine is None and "zero vector" in stats.note
    assert stats.max_abs == pytest.approx(1.37199, rel=1e-6) and stats.verdict == "differs"


def test_c30_shapes_that_differ_are_not_broadcast() -> None:
    stats = compare_arrays(np.zeros((2, 4)), np.zeros((2, 3)), TOLERANCE)
    assert (stats.verdict, stats.note) == ("differs", "shapes differ: (2, 4) against (2, 3)")
    assert stats.count == 0 and stats.max_abs is None
    assert compare_arrays(np.zeros((2, 1)), np.zeros((2, 4)), TOLERANCE).verdict == "differs"
    assert compare_arrays(np.zeros(()), np.zeros((1,)), TOLERANCE).note == "shapes differ: () against (1,)"


def test_text() -> None:
    a, b = np.array([["a", "ü"]], object), np.array([["a", "u"]])
    stats = compare_arrays(a, b, TOLERANCE)
    assert (stats.verdict, stats.differing, stats.dtype_a) == ("differs", 1, "string") and "[0, 1]" in stats.note
    assert compare_arrays(a, a.astype(np.str_), TOLERANCE).verdict == "same"
    assert compare_arrays(a, np.zeros((1, 2)), TOLERANCE).note == "types differ: string against float64"


def test_complex_numbers_by_parts() -> None:
    a, b = np.array([1 + 2j, 3j], np.complex64), np.array([1 + 2j, 4j], np.complex64)
    stats = compare_arrays(a, b, TOLERANCE)
    assert (stats.verdict, stats.max_abs, stats.max_abs_at, stats.shape_a) == ("differs", 1.0, (1, 1), (2,))


def test_differences_beyond_float64_stay_undefined() -> None:
    stats = compare_arrays(np.array([1e308, 1.0]), np.array([-1e308, 1.0]), TOLERANCE)
    assert stats.verdict == "differs" and stats.max_abs is None and stats.rmse is None
    assert "beyond float64" in stats.note and stats.max_abs_at == (0,)


@pytest.mark.parametrize("name", ["float32", "float16", "float64", "int32", "int64", "bool"])
def test_screening_leaves_out_the_sums_and_nothing_else(name: str) -> None:
    rng = np.random.default_rng(0)
    b = (rng.normal(size=(3, 20_000)) * 10).astype(name)
    a = b.copy()
    a[0, 5], a[2, 7], a[1, ::100] = 1, 0, b[1, 1::100]
    if name.startswith("float"):
        a[1, 4], b[1, 9] = np.nan, np.inf
    full, quick = compare_arrays(a, b, TOLERANCE), compare_arrays(a, b, TOLERANCE, sums=False)
    assert (quick.rmse, quick.cosine, quick.snr_db) == (None, None, None) and full.rmse is not None
    assert replace(full, rmse=None, cosine=None, snr_db=None) == quick
