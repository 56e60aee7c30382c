"""Baselines: what is slower is found, noise is not, and a baseline of something else is refused by its key."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trt_lab.errors import CompareError, RecordError
from trt_lab.profiling.baseline import baseline_of, compare_baseline, read_baseline, write_baseline
from trt_lab.profiling.reports import MAX_ROWS, junit_xml, markdown
from trt_lab.profiling.source import Engine, open_engine
from trt_lab.types import LayerInfo, LayerTime, NodeId

DATA = Path(__file__).resolve().parents[2] / "data" / "gpu"
REPEATS = 200
RUNS = 20


@pytest.fixture(scope="module")
def encoder() -> Engine:
    return open_engine(DATA / "encoder4-fp16.trtlab")


def remeasured(engine: Engine, runs: Callable[[LayerTime], Sequence[float]]) -> Engine:
    """The engine with other runs of each layer."""
    times = []
    for time in engine.times:
        values = tuple(float(ms) for ms in runs(time))
        times.append(replace(time, runs_ms=values, average_ms=fmean(values), median_ms=median(values)))
    return replace(engine, times=tuple(times))


def averaged(engine: Engine, average: Callable[[LayerTime], float], *, with_median: bool) -> Engine:
    """The engine as trtexec's profile tells it: no single runs; TensorRT 8 tells no medians."""
    times = []
    for time in engine.times:
        ms = float(average(time))
        times.append(replace(time, runs_ms=(), average_ms=ms, median_ms=ms if with_median else None))
    return replace(engine, times=tuple(times), latency_ms=())


def slower_layers(engine: Engine, baseline: Engine) -> list[tuple[str, ...]]:
    check = compare_baseline(engine, baseline_of(baseline))
    assert check.only("faster") == ()
    return [row.layers for row in check.only("slower")]


def test_a_planted_fifth_is_found_and_noise_is_not(encoder: Engine) -> None:
    """+20 % on one layer, every run of every layer ±5 %: 200 seeded repeats, both sides measured anew each time."""
    rng = np.random.default_rng(2026)
    for _ in range(REPEATS):

        def noise() -> np.ndarray:
            return 1 + rng.uniform(-0.05, 0.05, RUNS)

        before = remeasured(encoder, lambda time: time.average_ms * noise())
        assert slower_layers(remeasured(encoder, lambda time: time.average_ms * noise()), before) == []
        victim = int(rng.integers(len(encoder.times)))
        factors = np.where(np.arange(len(encoder.layers)) == victim, 1.2, 1.0)
        planted = remeasured(encoder, lambda time, by=factors: time.average_ms * noise() * by[time.index])
        assert slower_layers(planted, before) == [(encoder.layers[victim].name,)]


@pytest.mark.parametrize("with_median", [True, False])
def test_the_same_where_only_averages_are_known(encoder: Engine, with_median: bool) -> None:
    rng = np.random.default_rng(7)
    before = averaged(encoder, lambda time: time.average_ms, with_median=with_median)
    for _ in range(REPEATS):
        quiet = averaged(
            encoder, lambda time: time.average_ms * (1 + rng.uniform(-0.05, 0.05)), with_median=with_median
        )
        assert slower_layers(quiet, before) == []
        victim = int(rng.integers(len(encoder.times)))
        factors = np.where(np.arange(len(encoder.layers)) == victim, 1.2, 1.0) * (
            1 + rng.uniform(-0.05, 0.05, len(encoder.layers))
        )
        planted = averaged(encoder, lambda time, by=factors: time.average_ms * by[time.index], with_median=with_median)
        assert slower_layers(planted, before) == [(encoder.layers[victim].name,)]


@pytest.mark.parametrize(
    "name",
    ["encoder4-fp32", "encoder4-fp16", "ppocr_det-fp32", "ppocr_det-fp16", "magika-fp16", "l2norm_overflow-fp16"],
)
def test_real_noise_of_a_gpu_is_no_finding(name: str) -> None:
    """The first ten runs against the last ten; a layer of 2 µs scatters by 40 %, and the tolerance is 15 %."""
    engine = open_engine(DATA / f"{name}.trtlab")
    first = remeasured(engine, lambda time: time.runs_ms[:10])
    last = remeasured(engine, lambda time: time.runs_ms[10:])
    check = compare_baseline(last, baseline_of(first))
    assert check.only("slower", "faster", "new", "gone") == ()
    assert len(check.rows) >= 15


def test_both_directions_total_and_latency(encoder: Engine) -> None:
    slow = remeasured(encoder, lambda time: [ms * (0.5 if time.index == 2 else 1.5) for ms in time.runs_ms])
    slow = replace(slow, latency_ms=tuple(ms * 1.4 for ms in encoder.latency_ms))
    check = compare_baseline(slow, baseline_of(encoder))
    assert [row.label for row in check.only("faster")] == ["/emb/MatMul + /emb/Add"]
    slower = check.only("slower")
    assert [row.what for row in slower[:2]] == ["total", "latency"]
    assert slower[1].change == pytest.approx(0.4)
    assert slower[0].baseline_ms is not None
    assert [row.change for row in slower[2:]] == pytest.approx([0.5] * (len(slower) - 2))
    assert len(slower) > 30


def test_a_layer_that_was_fused_otherwise_is_matched_by_its_nodes() -> None:
    before = made([("a", "a", 1.0), ("b", "b", 1.0), ("c", "c", 1.0)])
    fused = made([("c", "c", 1.0), ("a + b", "a b", 2.6), ("new", "z", 0.1)])
    check = compare_baseline(fused, baseline_of(before))
    assert [(row.layers, row.nodes, row.baseline_ms, row.now_ms) for row in check.only("slower") if row.nodes] == [
        (("a + b",), ("a", "b"), 2.0, 2.6)
    ]
    assert [row.label for row in check.only("new")] == ["z"]
    back = compare_baseline(before, baseline_of(fused))
    assert [row.label for row in back.only("gone")] == ["z"]


def made(layers: list[tuple[str, str, float]], **facts: str) -> Engine:
    infos = tuple(
        LayerInfo(i, name, "kgen", nodes=tuple(NodeId(n) for n in nodes.split()))
        for i, (name, nodes, _) in enumerate(layers)
    )
    times = tuple(LayerTime(i, name, ms, ms) for i, (name, _, ms) in enumerate(layers))
    return Engine("made", None, "layers", "trt10", infos, times, facts=facts)


@pytest.mark.parametrize(
    ("tolerance", "factor", "verdict"),
    [(0.15, 1.14, "same"), (0.15, 1.16, "slower"), (0.15, 0.84, "faster"), (0.5, 1.4, "same"), (0.0, 1.01, "slower")],
)
def test_the_tolerance_is_the_limit_where_nothing_scatters(tolerance: float, factor: float, verdict: str) -> None:
    layers = [(f"l{i}", f"n{i}", 1.0) for i in range(10)]
    now = [(name, nodes, ms * factor if name == "l3" else ms) for name, nodes, ms in layers]
    rows = compare_baseline(made(now), baseline_of(made(layers)), tolerance).rows
    assert [row.verdict for row in rows if row.nodes == ("n3",)] == [verdict]


def test_layers_that_took_no_time_have_no_change() -> None:
    before = made([("a", "a", 0.0), ("b", "b", 1.0), ("c", "c", 0.0)])
    rows = {
        row.label: row
        for row in compare_baseline(made([("a", "a", 0.0), ("b", "b", 1.0), ("c", "c", 0.5)]), baseline_of(before)).rows
    }
    assert (rows["a"].change, rows["a"].verdict) == (None, "same")
    assert (rows["c"].change, rows["c"].verdict) == (None, "slower")


@pytest.mark.parametrize("key", ["backend", "gpu", "version", "model_hash"])
def test_a_baseline_of_something_else_is_refused_by_its_key(encoder: Engine, key: str) -> None:
    other = replace(encoder, facts={**encoder.facts, key: "another"})
    with pytest.raises(CompareError, match=f"of another {key}: it has 'another'"):
        compare_baseline(encoder, baseline_of(other))


def test_what_one_side_does_not_know_is_said_and_not_refused(encoder: Engine) -> None:
    bare = replace(encoder, facts={})
    notes = compare_baseline(bare, baseline_of(encoder)).notes
    assert [note.split()[0] for note in notes] == ["backend", "gpu", "version", "model_hash"]


def test_c35_a_rebuilt_engine_of_the_same_model_is_compared_and_named(encoder: Engine) -> None:
    rebuilt = replace(encoder, facts={**encoder.facts, "engine_hash": "0" * 64})
    check = compare_baseline(rebuilt, baseline_of(encoder))
    assert check.notes == ("engine_hash is '000000000000…' now, '4354973652ca…' in the baseline",)
    assert check.only("slower", "faster") == ()


def test_a_baseline_that_shares_no_layer_is_refused(encoder: Engine) -> None:
    other = replace(made([("q", "q", 1.0)]), label="other")
    with pytest.raises(CompareError, match="the baseline of 'other' has none of its layers"):
        compare_baseline(encoder, baseline_of(other))
    with pytest.raises(CompareError, match="no layer was timed"):
        baseline_of(replace(encoder, times=()))


def test_it_is_read_back_as_it_was_written(encoder: Engine, tmp_path: Path) -> None:
    file = write_baseline(baseline_of(encoder), tmp_path / "b.json")
    kept = read_baseline(file)
    assert kept == baseline_of(encoder).model_copy(update={"created": kept.created})
    assert (kept.gpu, kept.version) == ("NVIDIA H200", "10.6.0.post2")
    assert kept.layers[2].spread_ms is not None
    assert compare_baseline(encoder, kept).only("slower", "faster", "new", "gone") == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "broken JSON at byte 1"),
        ("[]", "key 'baseline_version' is missing"),
        ('{"baseline_version": 0}', "or no version"),
        ('{"baseline_version": true}', "or no version"),
        ('{"baseline_version": 99}', "baseline_version is 99"),
        ('{"baseline_version": 1, "created": "", "trt_lab": "", "label": ""}', "key 'total'"),
        (
            '{"baseline_version": 1, "created": "", "trt_lab": "", "label": "", "total": {"average_ms": 1}, "layers": []}',
            "key 'layers'",
        ),
        (
            '{"baseline_version": 1, "created": "", "trt_lab": "", "label": "", "total": {"average_ms": NaN}, "layers": [{}]}',
            "key 'total.average_ms'",
        ),
    ],
)
def test_what_is_no_baseline_is_refused(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "b.json"
    file.write_text(text)
    with pytest.raises(RecordError, match=words) as raised:
        read_baseline(file)
    assert str(file) in str(raised.value)
    with pytest.raises(RecordError, match="cannot be read"):
        read_baseline(tmp_path / "missing.json")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(data=st.data())
def test_a_damaged_baseline_is_an_error_in_words_or_still_sound(
    encoder: Engine, tmp_path: Path, data: st.DataObject
) -> None:
    text = bytearray(baseline_of(encoder).model_dump_json().encode())
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text) - 1))
        text[start : start + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=6))
    file = tmp_path / "b.json"
    file.write_bytes(bytes(text))
    try:
        rows = compare_baseline(encoder, read_baseline(file)).rows
    except (RecordError, CompareError) as error:
        assert str(error)
    else:
        assert rows[0].what == "total"


def test_junit_and_markdown_tell_what_is_slower(encoder: Engine) -> None:
    slow = remeasured(encoder, lambda time: [ms * (2 if time.index == 2 else 1) for ms in time.runs_ms])
    check = compare_baseline(slow, baseline_of(encoder))
    root = ElementTree.fromstring(junit_xml([check]))
    suite = root.find("testsuite")
    assert suite is not None
    failed = [case.get("name") for case in suite.iter("testcase") if case.find("failure") is not None]
    assert failed == ["/emb/MatMul + /emb/Add"]
    assert suite.get("failures") == "1"
    assert int(suite.get("tests", "0")) == len(list(suite.iter("testcase"))) == len(check.rows)
    text = markdown([check])
    assert "## encoder4-fp16: 1 slower, 0 faster" in text
    assert "| /emb/MatMul \\+ /emb/Add |" in text
    assert "+100.0 %" in text


def test_c37_control_characters_and_marks_do_no_harm() -> None:
    nasty = "a\x1e|<script>`*\x00\n# b\ud800"
    before = made([(nasty, nasty.replace("\n", ""), 1.0), ("other", "other", 1.0)])
    after = made([(nasty, nasty.replace("\n", ""), 2.0), ("other", "other", 1.0)])
    check = compare_baseline(replace(after, label=nasty), baseline_of(before))
    xml = junit_xml([check])
    ElementTree.fromstring(xml)
    assert not any(byte < 32 and byte not in b"\t\n\r" for byte in xml)
    text = markdown([check])
    assert "<script>" not in text
    assert "\x1e" not in text
    assert "\n# b" not in text


def test_markdown_tables_stay_short() -> None:
    before = made([(f"l{i}", f"n{i}", 1.0) for i in range(100)])
    after = made([(f"l{i}", f"n{i}", 2.0) for i in range(100)])
    text = markdown([compare_baseline(after, baseline_of(before))])
    assert text.count("\n| n") == MAX_ROWS
    assert f"and {100 - MAX_ROWS} more" in text


def test_the_file_is_strict_json(encoder: Engine, tmp_path: Path) -> None:
    file = write_baseline(baseline_of(encoder), tmp_path / "b.json")

    def refuse(word: str) -> None:
        raise ValueError(word)

    content = json.loads(file.read_text(), parse_constant=refuse)
    assert content["layers"][2]["nodes"] == ["/emb/MatMul", "/emb/Add"]
