"""What a session makes of engines that contradict emulation, move by themselves, or differ from build to build.

The engines are stand-ins on the CPU that answer as real ones were seen to; see tests/gpu for those.
"""

from __future__ import annotations

import importlib.util
import json
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.integration.engines import FakeEngine, install, typed, with_tactics
from trt_lab import Session
from trt_lab.backends.tensorrt import tactics as edit
from trt_lab.errors import CancelledError, EditError, UsageError
from trt_lab.types import JsonValue, LayerInfo, LogLine, NodeId

REGION = ("/norm/Pow", "/norm/ReduceMean_1", "/norm/Add", "/norm/Sqrt")


def fake_trt() -> Any:
    """The stand-in of TensorRT's bindings."""
    file = Path(__file__).resolve().parents[1] / "unit" / "backends" / "tensorrt" / "fake_trt.py"
    spec = importlib.util.spec_from_file_location("fake_trt", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


Start = Callable[..., Session]
L2NORM = ("/Mul", "/ReduceSum", "/Add", "/Sqrt", "/Div")


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Makes a session on an engine."""

    def make(engine: FakeEngine, model: str = "zoo:layernorm_overflow", workers: int = 1, **use: object) -> Session:
        install(engine, monkeypatch)
        lab = Session(model, records=tmp_path / "records", executor=ThreadPoolExecutor(workers))
        lab.use(**{"backend": engine.name, "precision": "fp16", "profile_runs": 2, **use})  # type: ignore[arg-type]
        return lab

    return make


# --- the engine decides ------------------------------------------------------------------


def fused(layers: tuple[LayerInfo, ...], number: int) -> tuple[LayerInfo, ...]:
    """/norm/Add … /norm/Div in one layer, as a fused pointwise kernel."""
    del number
    nodes = tuple(NodeId(n) for n in ("/norm/Add", "/norm/Sqrt", "/norm/Div"))
    left = tuple(layer for layer in layers if not set(layer.nodes) & set(nodes))
    return (*left, LayerInfo(len(left), "PWN(/norm/Add)", "PWN", nodes=nodes, nodes_from="name", precision="float16"))


def test_a_layer_that_takes_one_type_is_kept_whole(start: Start) -> None:
    """The kernel that fuses Add, Sqrt and Div is FP32 only when all three are asked for."""
    group = {"/norm/Add", "/norm/Sqrt", "/norm/Div"}

    def obeys(kept: tuple[NodeId, ...]) -> tuple[NodeId, ...]:
        return kept if group <= set(kept) else tuple(n for n in kept if n not in group)

    engine = FakeEngine(obeys=obeys, layers=fused)
    finding = start(engine).locate()
    assert engine.built[:2] == [(), REGION], "emulation's set is tried first"
    assert set(finding.keep_fp32) == {*REGION, "/norm/Div"} and finding.proved
    assert len(engine.built) == finding.engine_builds <= 12
    assert len(set(engine.built)) == len(engine.built)
    assert finding.region is not None and finding.region.minimal
    assert sum(trial.builds for trial in finding.region.trials) == finding.engine_builds
    assert finding.as_json()["needed"] == dict.fromkeys(finding.keep_fp32, True), (
        "each was left out once, and it failed"
    )


def test_an_engine_that_does_not_build_is_no_failure_of_accuracy(start: Start, tmp_path: Path) -> None:
    want = {*REGION, "/norm/Div"}
    engine = FakeEngine(obeys=lambda kept: kept if want <= set(kept) else (), refuses=lambda kept: set(kept) == want)
    finding = start(engine).locate(artifacts=tmp_path / "steps")
    assert finding.proved and want < set(finding.keep_fp32)
    assert any("did not build, which says nothing of accuracy" in note for note in finding.notes)
    assert finding.engine_builds == len(engine.built)
    built = list(engine.built)
    again = start(engine).locate(artifacts=tmp_path / "steps", resume=True)
    assert engine.built == built, "what did not build is not built again either"
    assert (again.keep_fp32, again.engine_builds) == (finding.keep_fp32, finding.engine_builds)


@pytest.mark.parametrize("stopped", [2, 4, 7])
def test_a_search_on_engines_that_was_stopped_builds_none_of_them_again(
    start: Start, tmp_path: Path, stopped: int
) -> None:
    want = {*REGION, "/norm/Div"}

    def obeys(kept: tuple[NodeId, ...]) -> tuple[NodeId, ...]:
        if len(engine.built) == stopped and not again:
            raise CancelledError("cancelled")
        return kept if want <= set(kept) else ()

    again: list[bool] = []
    engine = FakeEngine(obeys=obeys)
    with pytest.raises(CancelledError):
        start(engine).locate(artifacts=tmp_path / "steps")
    whole = engine.built[:-1]
    again.append(True)
    finding = start(engine).locate(artifacts=tmp_path / "steps", resume=True)
    assert set(finding.keep_fp32) == want and finding.proved
    later = engine.built[stopped:]
    assert not set(later) & set(whole) and len(set(later)) == len(later)
    assert finding.engine_builds == len(whole) + len(later), "each is counted, whenever it was built"


def test_an_engine_that_is_bad_in_fp32_too_is_told(start: Start) -> None:
    finding = start(FakeEngine(spoils=lambda number: 1.0)).locate()
    assert not finding.proved and finding.keep_fp32 == ()
    assert any("fails with every node in FP32 too" in note and "TF32" in note for note in finding.notes)


def test_asked_for_half_and_got_none(start: Start) -> None:
    engine = FakeEngine(obeys=lambda kept: None, layers=lambda layers, number: typed(layers, "float32"))
    finding = start(engine).locate()
    assert finding.verdict == "same" and engine.built == [()]
    assert "asked FP16, 0 of " in finding.notes[0] and "layers are half" in finding.notes[0]


def test_a_weakly_typed_engine_that_passes_says_its_types(start: Start) -> None:
    """As l2norm_overflow at a low builder level on an H200: half where it does no harm."""
    kept = dict.fromkeys(L2NORM, "float32")

    def layers(found: tuple[LayerInfo, ...], number: int) -> tuple[LayerInfo, ...]:
        return tuple(
            replace(layer, precision="float32" if set(layer.nodes) & set(kept) else "float16") for layer in found
        )

    engine = FakeEngine(obeys=lambda keep: None, layers=layers)
    finding = start(engine, "zoo:l2norm_overflow", strongly_typed=False).locate()
    assert finding.verdict == "same" and engine.built == [()]
    (note,) = [note for note in finding.notes if "passes with nothing kept" in note]
    assert "weakly typed, TensorRT chose FP32 where it matters (asked FP16, " in note and "layers are half" in note


def test_weakly_typed_the_types_of_the_engine_stand_beside(start: Start) -> None:
    """As measured: /Mul alone does not help, and a set that passes is no cause."""
    engine = FakeEngine(layers=lambda layers, number: typed(layers, "float16"))
    finding = start(engine, "zoo:l2norm_overflow", strongly_typed=False).locate()
    assert finding.source is not None and finding.source.node == "/Mul"
    assert finding.keep_fp32 == L2NORM and finding.proved
    assert finding.as_json()["needed"] == dict.fromkeys(L2NORM, True), "each was left out of an engine, and it failed"
    assert finding.engine_builds == len(engine.built) == len(set(engine.built)) <= 12
    (note,) = [note for note in finding.notes if note.startswith("weakly typed")]
    assert "of " in note and "layers are half" in note and "the cause is what stands as the source" in note


def test_weakly_typed_a_smaller_set_may_do(start: Start) -> None:
    """TensorRT keeps a sum in FP32 by itself, so the engine needs less than emulation says."""
    engine = FakeEngine(obeys=lambda kept: L2NORM if {"/Mul", "/Div"} <= set(kept) else kept)
    finding = start(engine, "zoo:l2norm_overflow", strongly_typed=False).locate()
    assert finding.keep_fp32 == ("/Mul", "/Div") and finding.proved
    assert finding.as_json()["needed"] == {"/Mul": True, "/Div": True}
    assert finding.after is not None and finding.after.verdict == "same"
    strong = start(FakeEngine(), "zoo:l2norm_overflow").locate()
    assert strong.keep_fp32 == L2NORM and strong.engine_builds == 2, "strongly typed, emulation is right"


def test_c32_requests_that_were_not_honoured_stand_beside(start: Start) -> None:
    def facts(kept: tuple[NodeId, ...]) -> dict[str, JsonValue]:
        states = ["not honoured" if node == "/Sqrt" else "honoured" for node in kept]
        return {"constraints": [{"node": n, "asked": "fp32", "state": s} for n, s in zip(kept, states, strict=True)]}

    finding = start(FakeEngine(facts=facts), "zoo:l2norm_overflow", strongly_typed=False).locate()
    assert [note for note in finding.notes if note.startswith("FP32 asked")] == ["FP32 asked for '/Sqrt': not honoured"]


def test_engines_are_built_side_by_side_in_an_executor(start: Start) -> None:
    want = {*REGION, "/norm/Div"}
    alone, together = (FakeEngine(obeys=lambda kept: kept if want <= set(kept) else ()) for _ in range(2))
    first = start(alone).locate()
    second = start(together, workers=3).locate()
    assert set(first.keep_fp32) == set(second.keep_fp32) == want
    assert second.engine_builds == len(together.built) and second.proved
    assert [(e.tensor, e.stats, e.local) for e in first.errors] == [(e.tensor, e.stats, e.local) for e in second.errors]


def test_metrics_and_times_of_fp32_low_and_mixed_stand_in_a_table(start: Start) -> None:
    engine = FakeEngine(layers=lambda layers, number: typed(layers, "float16"))
    finding = start(engine).locate(fp32=True)
    table = finding.table
    assert list(table["engine"]) == ["fp32", "fp16", "fp16, 4 in fp32"]
    assert list(table["verdict"]) == ["same", "differs", "same"]
    assert list(table["kept"]) == [0, 0, 4]
    assert (table["latency_ms"] > 0).all() and (table["layer_sum_ms"] > 0).all()
    assert table["runs_per_s"].to_list() == pytest.approx([1000 / ms for ms in table["latency_ms"]])
    sums = table["layer_sum_ms"]
    assert finding.layer_cost_ms == pytest.approx(sums[2] - sums[1])
    told = json.loads(json.dumps(finding.as_json(), allow_nan=False))
    assert [row["engine"] for row in told["table"]] == list(table["engine"])
    assert finding.engine_builds == 2, "the engine in FP32 proves nothing, so it is not counted"


def test_times_of_emulation_are_no_measure(tmp_path: Path) -> None:
    lab = Session("zoo:layernorm_overflow", records=tmp_path)
    lab.use(precision="fp16")
    finding = lab.locate(fp32=True)
    assert len(finding.table) == 3 and finding.table["latency_ms"].isna().all()
    assert finding.table["layer_sum_ms"].isna().all() and finding.layer_cost_ms is None


# --- engines that move by themselves -----------------------------------------------------


def test_an_engine_that_moves_as_much_as_it_errs_is_not_searched(start: Start) -> None:
    engine = FakeEngine(moves=lambda run: 0.5 * run)
    finding = start(engine).locate()
    assert engine.built == [()], "said before the search"
    assert not finding.proved
    assert "no search on the engine: the engine differs from itself by" in finding.notes[-1]


def test_an_engine_that_moves_a_little_is_searched_with_a_wider_tolerance(start: Start) -> None:
    engine = FakeEngine(moves=lambda run: 0.002 * (run % 3))
    finding = start(engine).locate()
    assert finding.keep_fp32 == REGION and finding.proved and engine.built == [(), REGION]
    assert any("differs from itself by 0.002" in note and "widened" in note for note in finding.notes)


def test_an_engine_whose_outputs_turn_to_nan_now_and_then_is_not_searched(start: Start) -> None:
    finding = start(FakeEngine(moves=lambda run: math.nan if run % 3 == 1 else 0.0)).locate()
    assert not finding.proved and "from run to run" in finding.notes[-1]


# --- builds that differ ------------------------------------------------------------------


def test_builds_that_agree_bit_by_bit(start: Start) -> None:
    found = start(FakeEngine(), "zoo:clean_layers").flaky(3)
    assert found.kind == "identical" and len(found.builds) == 3
    assert all(build.same_bits and build.repeats and build.right for build in found.builds)
    assert "the same bit by bit" in found.headline and found.lock is None


def test_c35_other_kernels_that_are_all_right(start: Start) -> None:
    engine = FakeEngine(
        layers=lambda layers, number: with_tactics(layers, {"/norm/Sub": f"kernel{number % 2}"}),
        spoils=lambda number: 7e-5 * (number % 2),
    )
    found = start(engine, precision="fp32").flaky(3)
    assert found.kind == "other kernels, all right"
    (choice,) = found.tactics
    assert "/norm/Sub" in choice.nodes and choice.by_build == ("kernel1", "kernel0", "kernel1")
    assert choice.suspect == ()
    assert "all are right" in found.headline and "1 layer with another kernel" in found.headline


def test_c35_wrong_now_and_then_names_the_kernel_that_only_the_wrong_build_has(start: Start) -> None:
    engine = FakeEngine(
        layers=lambda layers, number: with_tactics(
            layers, {"/norm/Sub": f"a{number}", "/norm/Div": "bad" if number == 2 else "good"}
        ),
        spoils=lambda number: 0.57 if number == 2 else 0.0,
    )
    found = start(engine, precision="fp32").flaky(4)
    assert found.kind == "wrong now and then"
    assert [build.right for build in found.builds] == [True, False, True, True]
    suspects = {node: choice.suspect for choice in found.tactics for node in choice.nodes}
    assert suspects["/norm/Div"] == ("bad",)
    assert found.builds[1].error == pytest.approx(0.57, abs=0.01)
    assert "1 of 4 builds are wrong (number 2" in found.headline
    json.dumps(found.as_json(), allow_nan=False)


def test_all_wrong_is_no_matter_of_chance(start: Start) -> None:
    found = start(FakeEngine(spoils=lambda number: 1.0)).flaky(2)
    assert found.kind == "all wrong" and "lab.locate()" in found.headline


def test_each_build_of_tensorrt_has_a_timing_cache_of_its_own_and_the_best_is_locked(start: Start) -> None:
    engine = FakeEngine(name="tensorrt")

    def layers(told: tuple[LayerInfo, ...], number: int) -> tuple[LayerInfo, ...]:
        cache = Path(engine.options[number - 1].timing_cache or "")
        if not cache.exists():
            cache.write_text(f"k{number}")
        return with_tactics(told, {"/norm/Sub": cache.read_text()})

    engine.layers, engine.spoils = layers, lambda number: 1.0 if number == 1 else 0.0
    found = start(engine, precision="fp32").flaky(2)
    first, second, again = engine.options
    assert len({first.timing_cache, second.timing_cache, again.timing_cache}) == 3
    assert first.engine_cache == "off", "a cached engine would be no second build"
    assert found.kind == "wrong now and then" and found.locked is True
    assert found.lock == again.timing_cache and Path(found.lock).read_text() == "k2"


def test_one_build_cannot_differ(start: Start) -> None:
    with pytest.raises(UsageError, match="2 or more"):
        start(FakeEngine()).flaky(1)


def test_a_tactic_is_forbidden_from_what_the_log_of_a_build_tells(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the stand-in of TensorRT 10.13 that the timing cache's own tests use; no GPU at hand has such a version."""
    library = fake_trt().library("10.13.3", editable=True)
    monkeypatch.setattr(edit, "load", lambda kind: library)
    key = "0x" + "1a" * 16
    log = (
        f"Autotuning op conv1(key: {key}):\n   3, 0.0112640, 1.0, 0.5, gemm_a, 0x665ded9abbf88,\n"
        "   5, 0.0118784, 1.1, 0.5, gemm_b, 0x393e4ef8ad243,\n"
    )
    engine = FakeEngine(name="tensorrt")

    def layers(told: tuple[LayerInfo, ...], number: int) -> tuple[LayerInfo, ...]:
        cache = Path(engine.options[number - 1].timing_cache or "")
        cache.write_text(json.dumps({"gpu": "stub", "entries": {key: [0x665DED9ABBF88, 0.011264]}}))
        return told

    engine.layers, engine.log = layers, (LogLine("verbose", log),)
    lab = start(engine, "zoo:clean_layers", precision="fp32", editable_timing_cache=True, log_severity="verbose")
    found = lab.flaky(2)
    (changed,) = lab.forbid_tactics(found.builds[0], ["gemm_a"], tmp_path / "without.cache")
    assert (changed.before, changed.after) == (0x665DED9ABBF88, 0x393E4EF8AD243)
    assert json.loads((tmp_path / "without.cache").read_text())["entries"][key][0] == 0x393E4EF8AD243
    engine.log = ()
    silent = lab.flaky(2)
    with pytest.raises(UsageError, match="tells no tactics that were timed"):
        lab.forbid_tactics(silent.builds[0], ["gemm_a"], tmp_path / "x.cache")
    with pytest.raises(UsageError, match="left no timing cache"):
        lab.forbid_tactics(replace(silent.builds[0], saved_cache=None), ["gemm_a"], tmp_path / "x.cache")


# --- switches ----------------------------------------------------------------------------


def test_switches_are_turned_one_by_one_and_the_one_that_helps_is_named(start: Start) -> None:
    engine = FakeEngine(name="tensorrt")
    engine.spoils = lambda number: 0.5 if engine.options[number - 1].tf32 else 0.0
    lab = start(engine, precision="fp32", tf32=True, sparse_weights=True, builder_level=3)
    found = lab.switches()
    assert [(row.switch.name, row.switch.how) for row in found.tried] == [
        ("tf32", "off"), ("sparse weights", "off"), ("builder level", "0"), ("builder level", "5"),
    ]  # fmt: skip
    assert [row.passes for row in found.tried] == [True, False, False, False]
    assert found.headline.startswith("the error goes with: tf32 (off)")
    assert [o.tf32 for o in engine.options] == [True, False, True, True, True], "one at a time"
    assert lab.code.splitlines()[-1] == "lab.switches()"


def test_tf32_is_found_on_the_cpu_too_where_it_is_emulated(tmp_path: Path) -> None:
    lab = Session("zoo:clean_layers", records=tmp_path)
    lab.use(tf32=True, atol=1e-6, rtol=1e-6)
    found = lab.switches()
    assert [row.switch.name for row in found.helping] == ["tf32"], found
    assert found.base.error is not None and found.base.error > 1e-6


def test_a_fusion_is_cut_by_an_output_and_by_a_cast_and_told_as_such(tmp_path: Path) -> None:
    lab = Session("zoo:layernorm_overflow", records=tmp_path)
    lab.use(precision="fp16")
    found = lab.switches([("/norm/Sub", "/norm/Pow")])
    ways = [row for row in found.tried if row.switch.name == "fusion of /norm/Sub and /norm/Pow"]
    assert [row.switch.how for row in ways] == [
        "cut: '/norm/Sub_output_0' kept as an output", "cut: a cast before '/norm/Pow', which stays FP32",
    ]  # fmt: skip
    by_name = {row.switch.name: row for row in found.tried}
    assert by_name["precision"].passes is True and by_name["optimizer"].passes is False
    assert [row.switch.name for row in found.helping] == ["precision"]
    assert all(row.latency_ms is None for row in found.tried if row.switch.name != "precision")


def test_a_pair_that_does_not_touch_cannot_be_cut(tmp_path: Path) -> None:
    lab = Session("zoo:layernorm_overflow", records=tmp_path)
    with pytest.raises(EditError, match="'/norm/Sqrt' does not read from '/norm/Sub'"):
        lab.switches([("/norm/Sub", "/norm/Sqrt")])


def test_an_engine_that_is_right_needs_no_switch(tmp_path: Path) -> None:
    lab = Session("zoo:clean_layers", records=tmp_path)
    found = lab.switches()
    assert found.headline == "the engine is right as it is; no switch is needed"
    assert [row.switch.name for row in found.tried] == ["optimizer"]


def test_a_switch_that_does_not_build_says_why(start: Start) -> None:
    engine = FakeEngine(refuses=lambda kept: kept == ("/norm/Pow",))
    found = start(engine).switches([("/norm/Sub", "/norm/Pow")])
    (row,) = [row for row in found.tried if row.passes is None]
    assert "no implementation" in row.note
    assert replace(row, note="").error is None
