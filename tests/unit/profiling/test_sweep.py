from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from trt_lab.backends.jobs import execute
from trt_lab.errors import InputError, UsageError
from trt_lab.model import Model
from trt_lab.profiling.sweep import Sweep, sweep
from trt_lab.profiling.sweep_flags import LayerPoint, SweepPoint, flag, propose_profiles
from trt_lab.profiling.sweep_sizes import choose_sizes, elements, parse_sizes
from trt_lab.types import BuildOptions, OnProgress, ShapeRange


def image_model(*, batch: Any = "N", height: Any = "H", width: Any = "W", second: bool = False) -> Model:
    """Conv over an image of any size; `second` adds an input that shares the batch axis."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, height, width])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    weights = helper.make_tensor("w", TensorProto.FLOAT, [4, 3, 3, 3], np.full(108, 0.1, np.float32))
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], "/conv/Conv", pads=[1, 1, 1, 1])]
    inputs, outputs = [x], [y]
    if second:
        inputs.append(helper.make_tensor_value_info("s", TensorProto.FLOAT, [batch, 2]))
        nodes.append(helper.make_node("Relu", ["s"], ["t"], "/relu"))
        outputs.append(helper.make_tensor_value_info("t", TensorProto.FLOAT, None))
    graph = helper.make_graph(nodes, "g", inputs, outputs, [weights])
    return Model.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10))


def here(task: Any, on_progress: OnProgress) -> Any:
    """Runs a task as the worker does, in this process."""
    return execute(task, on_progress)


def silent(_: object) -> None: ...


def runs(middle: float, spread: float = 0.02, seed: int = 0, count: int = 30) -> tuple[float, ...]:
    return tuple(middle * (1 + spread * np.random.default_rng(seed).standard_normal(count)))


def point(height: int, width: int, middle: float, **more: Any) -> SweepPoint:
    return SweepPoint({"x": (1, 3, height, width)}, runs(middle, seed=height * 7 + width), **more)


# --- which sizes are flagged ---------------------------------------------------------------


def test_638x479_is_told_to_be_padded_to_640x480() -> None:
    """A size off the multiples takes longer than the next larger one, in one layer."""
    layers = {s: (LayerPoint(0, "/conv1", t), LayerPoint(1, "/fc", 1.0)) for s, t in (("off", 8.0), ("on", 3.0))}
    points = flag(
        [
            point(240, 320, 3.0),
            point(479, 638, 13.0, layers=layers["off"]),
            point(480, 640, 8.0, layers=layers["on"]),
            point(960, 1280, 30.0),
        ]
    )
    off = points[1]
    assert off.pad_to == {"x": (1, 3, 480, 640)}
    assert off.pad_gain_ms == pytest.approx(5.0, rel=0.05)
    assert off.blame == "/conv1"
    assert re.match(r"off the tuned kernels: 1x3x480x640 takes (8|7\.9)", off.flags[0])
    assert "'/conv1'" in off.flags[0]
    assert [p.flags for p in (points[0], points[2], points[3])] == [(), (), ()]
    found = Sweep("m", "tensorrt", points, propose_profiles(points))
    assert found.headline.startswith("m on tensorrt: 4 sizes, 1 flagged; pad 1x3x479x638 to 1x3x480x640: 1")
    assert [row["multiple_of"] for row in found.rows()] == [16, 1, 32, 64]


def test_a_size_above_the_line_of_its_neighbours_is_told_though_no_larger_one_is_quicker() -> None:
    points = flag([point(100, 100, 1.0), point(150, 150, 3.4), point(200, 200, 4.0)])
    assert points[1].pad_to is None
    assert points[1].expected_ms == pytest.approx(2.25, rel=0.05)
    assert points[1].flags[0].startswith("off the tuned kernels: 3.4")


def test_what_is_slow_in_one_round_only_was_disturbed() -> None:
    """Another program ran beside it: most runs are slow, but not those of every round."""
    quiet, noisy = (2.0,) * 10, (9.0,) * 10
    small = SweepPoint({"x": (1, 3, 95, 95)}, quiet + noisy * 3, (2.0, 9.0, 9.0, 9.0))
    large = SweepPoint({"x": (1, 3, 96, 96)}, (2.1,) * 40, (2.1, 2.1, 2.1, 2.1))
    assert flag([small, large])[0].flags == ()
    always = SweepPoint({"x": (1, 3, 95, 95)}, noisy * 4, (9.0, 9.0, 9.0, 9.0))
    assert flag([always, large])[0].pad_to == large.sizes
    below = SweepPoint({"x": (1, 3, 64, 64)}, (1.5,) * 40, (1.5,) * 4)
    above = SweepPoint({"x": (1, 3, 128, 128)}, (9.5,) * 40, (9.5,) * 4)
    assert flag([below, replace(small, sizes={"x": (1, 3, 70, 70)}), above])[1].flags == ()
    assert "neighbours" in flag([below, replace(always, sizes={"x": (1, 3, 70, 70)}), above])[1].flags[0]


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.3, 1.4))
def test_noise_alone_flags_nothing(seed: int, power: float) -> None:
    generator = np.random.default_rng(seed)
    points = [
        SweepPoint({"x": (1, 3, s, s)}, tuple(1e-3 * (s * s) ** power * (1 + 0.05 * generator.standard_normal(30))))
        for s in (64, 95, 96, 127, 128, 223, 224, 256)
    ]
    assert [p.flags for p in flag(points)] == [()] * len(points)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 6))
def test_a_planted_fifth_is_found(seed: int, which: int) -> None:
    """A size that takes 20 % more than the next larger one, under a noise of 3 %."""
    generator = np.random.default_rng(seed)
    sizes = (64, 95, 96, 127, 128, 223, 224, 256)
    middles = [s * s / 1e3 for s in sizes]
    middles[which] = 1.2 * middles[which + 1]
    points = [
        SweepPoint({"x": (1, 3, s, s)}, tuple(m * (1 + 0.03 * generator.standard_normal(30))))
        for s, m in zip(sizes, middles, strict=True)
    ]
    flagged = flag(points)
    assert flagged[which].pad_to is not None
    assert [i for i, p in enumerate(flagged) if p.pad_to is not None and i > which] == []


def test_profiles_tell_outside_and_worse_than_the_optimum() -> None:
    ranges = ([ShapeRange("x", (1, 3, 100, 100), (1, 3, 200, 200), (1, 3, 400, 400))],)
    points = flag(
        [point(50, 50, 0.5), point(100, 100, 1.3), point(200, 200, 4.0), point(400, 400, 40.0), point(500, 500, 50.0)],
        ranges,
    )
    assert [(p.profile, p.position) for p in points] == [
        (None, "outside"), (0, "inside"), (0, "optimum"), (0, "inside"), (None, "outside"),
    ]  # fmt: skip
    assert points[0].flags == ("outside of every optimisation profile",)
    assert points[1].flags == points[2].flags == ()
    assert any(f.startswith("outside the optimum of the profile: more time for each element") for f in points[3].flags)


def test_an_engine_built_for_the_size_proves_what_the_optimum_costs() -> None:
    ranges = ([ShapeRange("x", (1, 3, 1, 1), (1, 3, 200, 200), (1, 3, 400, 400))],)
    good, bad = flag([point(100, 100, 2.0, tuned_ms=1.99), point(120, 120, 3.0, tuned_ms=2.0)], ranges)
    assert good.flags == ()
    assert re.match(r"outside the optimum of the profile: (3|2\.9).* an engine built for it 2 ms", bad.flags[-1])


def test_what_did_not_run_is_missing_and_says_why() -> None:
    broken = SweepPoint({"x": (1, 3, 8, 8)}, error="too small")
    points = flag([broken, point(16, 16, 1.0)])
    assert points[0].flags == ("did not run: too small",)
    row = Sweep("m", "b", points, ()).rows()[0]
    assert row["median_ms"] is None and row["runs"] is None and row["layer_sum_ms"] is None
    assert propose_profiles(points) == ((ShapeRange("x", (1, 3, 16, 16), (1, 3, 16, 16), (1, 3, 16, 16)),),)


# --- proposed profiles ---------------------------------------------------------------------


def test_proposed_profiles_leave_out_what_is_better_padded() -> None:
    points = flag([point(240, 320, 3.0), point(479, 638, 13.0), point(480, 640, 8.0), point(960, 1280, 30.0)])
    small, large = propose_profiles(points)
    assert small[0] == ShapeRange("x", (1, 3, 240, 320), (1, 3, 480, 640), (1, 3, 480, 640))
    assert large[0] == ShapeRange("x", (1, 3, 960, 1280), (1, 3, 960, 1280), (1, 3, 960, 1280))


def test_the_optimum_in_use_stays_the_optimum() -> None:
    usual = [ShapeRange("x", (1, 3, 100, 100), (1, 3, 110, 110), (1, 3, 200, 200))]
    points = flag([point(s, s, s / 50) for s in (100, 110, 150, 200)])
    (only,) = propose_profiles(points, usual)
    assert only[0].opt == (1, 3, 110, 110)


@given(st.lists(st.tuples(st.integers(1, 900), st.integers(1, 900)), min_size=1, max_size=12, unique=True))
def test_every_size_lies_in_a_proposed_profile_within_reach(sizes: list[tuple[int, int]]) -> None:
    points = flag([point(h, w, 1e-4 * h * w + 0.1) for h, w in sizes])
    profiles = propose_profiles(points)
    for p in points:
        shape = (p.pad_to or p.sizes)["x"]
        assert any(
            all(a <= b <= c for a, b, c in zip(r.min, shape, r.max, strict=True)) and all(
                a <= b <= c for a, b, c in zip(r.min, r.opt, r.max, strict=True)
            )
            for (r,) in profiles
        )  # fmt: skip
    assert len(profiles) <= len(points)


# --- sizes ---------------------------------------------------------------------------------


def test_automatic_sizes_span_the_range_with_their_neighbours_off_the_multiples() -> None:
    model = image_model()
    ranges = [ShapeRange("x", (1, 3, 240, 320), (1, 3, 480, 640), (8, 3, 960, 1280))]
    sizes = [size["x"] for size in choose_sizes(model, ranges)]
    assert (1, 3, 480, 640) in sizes and (1, 3, 479, 639) in sizes
    assert (1, 3, 240, 320) in sizes and (1, 3, 960, 1280) in sizes
    assert (8, 3, 480, 640) in sizes and (7, 3, 480, 640) in sizes
    assert all(1 <= b <= 8 and 240 <= h <= 960 and 320 <= w <= 1280 for b, _, h, w in sizes)
    assert len(sizes) == len(set(sizes)) <= 24


def test_without_a_range_one_is_proposed() -> None:
    sizes = [size["x"] for size in choose_sizes(image_model(batch=1), [])]
    assert (1, 3, 224, 224) in sizes and (1, 3, 448, 448) in sizes and (1, 3, 56, 56) in sizes


def test_inputs_that_share_an_axis_move_together() -> None:
    for size in choose_sizes(image_model(second=True), []):
        assert size["x"][0] == size["s"][0] and size["s"][1:] == (2,) or "s" not in size
    named = parse_sizes(image_model(second=True), [{"x": "2x3x8x8", "s": "2x2"}])
    assert named == ({"x": (2, 3, 8, 8), "s": (2, 2)},) and elements(named[0]) == 388


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ([], "give 1 to 64 sizes"),
        ("1x3x8x8", "give 1 to 64 sizes"),
        (["1x4x8x8"], r"input 'x': 1x4x8x8 does not fit the model's \?×3×\?×\?"),
        (["1x3x8"], "does not fit"),
        (["1x3x0x8"], "does not fit"),
        (["1x3xax8"], "is no list of sizes"),
        ([{"z": "1x3x8x8"}], "no input 'z'"),
        ([{}], "no size for input 'x'"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(sizes: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_sizes(image_model(), sizes)


def test_a_model_of_one_size_has_nothing_to_sweep() -> None:
    model = image_model(batch=1, height=8, width=8)
    with pytest.raises(UsageError, match="every input has a fixed shape"):
        sweep(model, BuildOptions(), here, silent)
    with pytest.raises(UsageError, match="one size only"):
        choose_sizes(image_model(), [ShapeRange("x", *[(1, 3, 8, 8)] * 3)])
    with pytest.raises(UsageError, match="too few"):
        sweep(image_model(), BuildOptions(), here, silent, repeats=1)
    with pytest.raises(UsageError, match="2 inputs with free axes"):
        parse_sizes(image_model(second=True), ["1x3x8x8"])


# --- the whole way -------------------------------------------------------------------------


def test_onnxruntime_is_swept_in_one_build_a_sweep() -> None:
    told: list[float] = []
    found = sweep(
        image_model(), BuildOptions(), here, lambda p: told.append(p.fraction or 0.0),
        sizes=["1x3x16x16", "1x3x15x15", "1x3x96x96"], repeats=6,
    )  # fmt: skip
    assert [row["size"] for row in found.rows()] == ["1x3x16x16", "1x3x15x15", "1x3x96x96"]
    assert all(row["runs"] == 6 and row["median_ms"] > 0 and row["layer_sum_ms"] > 0 for row in found.rows())
    assert found.rows()[2]["slowest_layer"] and found.rows()[2]["position"] is None
    assert min(found.points[2].latency_ms) > min(found.points[1].latency_ms)
    assert "no optimisation profiles" in found.notes[0]
    assert told == sorted(told) and told[-1] <= 1.0


def test_tuned_builds_one_more_for_each_size() -> None:
    found = sweep(image_model(), BuildOptions(), here, silent, sizes=["1x3x8x8", "1x3x16x16"], repeats=3, tuned=True)
    assert all(row["tuned_ms"] > 0 for row in found.rows())


class ScriptedRunner:
    """Times that are given: what a GPU with kernels tuned for multiples of 32 would tell."""

    def profile(self, feeds: dict[str, np.ndarray], repeats: int) -> Any:
        from trt_lab.backends.base import Profile
        from trt_lab.types import LayerTime

        _, _, height, width = feeds["x"].shape
        if height > 640:
            raise InputError(
                f"'x' is {feeds['x'].shape}, the engine takes up to 640. Build with a wider range of shapes"
            )
        slow = 1.6 if height % 32 or width % 32 else 1.0
        middle = slow * height * width / 4e4
        return Profile((LayerTime(0, "/conv/Conv", middle, middle),), runs(middle, 0.01, count=repeats))

    def close(self) -> None: ...


def test_sweep_of_a_backend_with_profiles(monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    from trt_lab import backends
    from trt_lab.backends.base import Built

    asked: list[BuildOptions] = []

    def build(model: Model, options: BuildOptions, on_progress: OnProgress) -> Built:
        asked.append(options)
        return Built((), (), 0.1)

    backend = SimpleNamespace(
        build=build, open=lambda built: ScriptedRunner(), info=lambda: SimpleNamespace(can_run=True, reason="")
    )
    monkeypatch.setattr(backends, "get", lambda name: backend)
    options = BuildOptions(
        backend="tensorrt", shapes=(ShapeRange("x", (1, 3, 240, 320), (1, 3, 480, 640), (1, 3, 640, 640)),)
    )
    found = sweep(image_model(), options, here, silent, sizes=["1x3x480x640", "1x3x479x638", "1x3x672x672"])
    rows = {row["size"]: row for row in found.rows()}
    assert len(asked) == 1 and asked[0].shapes == options.shapes
    assert rows["1x3x479x638"]["pad_to"] == "1x3x480x640"
    assert rows["1x3x479x638"]["blame"] == "/conv/Conv"
    assert rows["1x3x480x640"]["flags"] == "" and rows["1x3x480x640"]["position"] == "optimum"
    assert rows["1x3x672x672"]["flags"].startswith("did not run: 'x' is (1, 3, 672, 672)")
    assert rows["1x3x672x672"]["position"] == "outside" and rows["1x3x672x672"]["median_ms"] is None
    assert found.proposal == ((ShapeRange("x", *[(1, 3, 480, 640)] * 3),),)
