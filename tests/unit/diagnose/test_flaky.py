"""Builds held against each other: kernels of the wrong ones, and two engines as they were recorded on an H200."""

from __future__ import annotations

from pathlib import Path

import pytest

from trt_lab.diagnose.flaky import best_build, judge_builds, tactic_choices
from trt_lab.record import Record
from trt_lab.types import LayerInfo, NodeId, Tolerance

GPU = Path(__file__).resolve().parents[2] / "data" / "gpu"


def engine(**kernels: str | None) -> tuple[LayerInfo, ...]:
    return tuple(
        LayerInfo(i, name, "gemm", tactic=kernel, nodes=(NodeId(name),))
        for i, (name, kernel) in enumerate(kernels.items())
    )


def test_a_kernel_that_only_wrong_builds_have_is_suspect() -> None:
    engines = [engine(a="k1", b="k1"), engine(a="k2", b="k2"), engine(a="k2", b="k1")]
    a, b = tactic_choices(engines, [True, False, True])
    assert (a.layer, a.by_build, a.suspect) == ("a", ("k1", "k2", "k2"), ())
    assert (b.layer, b.by_build, b.suspect) == ("b", ("k1", "k2", "k1"), ("k2",))


def test_nobody_is_suspect_where_all_are_wrong_and_layers_that_do_not_tell_are_left_out() -> None:
    engines = [engine(a="k1", b=None), engine(a="k2", b="k2")]
    (choice,) = tactic_choices(engines, [False, False])
    assert choice.layer == "a" and choice.suspect == ()
    assert tactic_choices([], []) == ()


def test_two_engines_of_one_model_of_which_one_was_right() -> None:
    """The clean FP16 engine overflowed; the one with a probe in it, built from the same timing cache, did not."""
    clean, probed, reference = (
        Record.open(GPU / f"l2norm_overflow-{name}.trtlab") for name in ("fp16", "fp16-probe", "probe-reference")
    )
    found = judge_builds([clean, probed], reference, Tolerance(), repeats=[True, None], caches=[None, "t.cache"])
    assert found.kind == "wrong now and then"
    assert [build.right for build in found.builds] == [False, True]
    assert found.builds[0].error == pytest.approx(0.154, abs=0.01)
    assert found.builds[1].error is not None and found.builds[1].error < 1e-3
    assert found.fusions, "the probe split a fused layer"
    assert best_build(found) is found.builds[1] and found.builds[1].saved_cache == "t.cache"
    assert "1 of 2 builds are wrong (number 1" in found.headline
    assert [b["timing_cache"] for b in found.as_json()["builds"]] == [False, True]  # type: ignore[union-attr,index,call-overload]
    html = found._repr_html_()
    assert "✗ wrong" in html and "✓ right" in html


def test_one_engine_twice_is_identical() -> None:
    record, reference = (Record.open(GPU / f"encoder4-{name}.trtlab") for name in ("fp16", "reference"))
    found = judge_builds([record, record], reference, Tolerance(1e-2, 1e-2))
    assert found.kind == "identical" and found.tactics == () and found.fusions == ()
