"""The written trace, held against the Trace Event Format by a strict reader, as perfetto's own binary is no package."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trt_lab.errors import RecordError
from trt_lab.profiling.source import Engine, open_engine
from trt_lab.profiling.traces.chrome import chrome_trace, write_chrome_trace
from trt_lab.types import LayerInfo, LayerTime, NodeId

DATA = Path(__file__).resolve().parents[3] / "data"

METADATA: dict[str, tuple[str, type]] = {
    "process_name": ("name", str),
    "process_sort_index": ("sort_index", int),
    "thread_name": ("name", str),
    "thread_sort_index": ("sort_index", int),
}


def check_trace(text: str) -> list[dict[str, Any]]:
    """Reads a trace by the rules of the Trace Event Format document; gives its complete events.

    JSON object format: `traceEvents` is an array, `displayTimeUnit` is ms or ns. Every event has `name`, `ph`, `ts`,
    `pid`, `tid`; a complete event (X) a `dur`; `ts` and `dur` are numbers of µs; `args` is an object. Metadata events (M)
    have the argument that their name asks for. Complete events of one thread nest or stand apart.
    """

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    content = json.loads(text, parse_constant=refuse)
    assert isinstance(content["traceEvents"], list)
    assert content["displayTimeUnit"] in ("ms", "ns")
    assert isinstance(content["otherData"], dict)
    complete = []
    for event in content["traceEvents"]:
        assert isinstance(event["name"], str)
        event["name"].encode("utf-8")
        assert type(event["pid"]) is int and type(event["tid"]) is int
        assert isinstance(event["ts"], (int, float)) and event["ts"] >= 0
        assert isinstance(event.get("args", {}), dict)
        if event["ph"] == "M":
            argument, kind = METADATA[event["name"]]
            assert type(event["args"][argument]) is kind
        else:
            assert event["ph"] == "X"
            assert isinstance(event["cat"], str)
            assert isinstance(event["dur"], (int, float)) and event["dur"] >= 0
            complete.append(event)
    lanes = defaultdict(list)
    for event in complete:
        start = round(event["ts"] * 1000)
        lanes[event["pid"], event["tid"]].append((start, start + round(event["dur"] * 1000)))
    for spans in lanes.values():
        spans.sort(key=lambda span: (span[0], -span[1]))
        for (_, end), (start, later) in pairwise(spans):
            assert start >= end or later <= end, "events of one thread cross"
    named = {(e["pid"], e["tid"]) for e in content["traceEvents"] if e["name"] == "thread_name"}
    assert {(e["pid"], e["tid"]) for e in complete} <= named
    return complete


def engine(*times: LayerTime, streams: tuple[int | None, ...] = (), label: str = "e") -> Engine:
    layers = tuple(
        LayerInfo(i, t.name, "Conv", stream=streams[i] if i < len(streams) else None, nodes=(NodeId(f"/n{i}"),))
        for i, t in enumerate(times)
    )
    return Engine(label, None, "layers", "trt10", layers, times, (0.9, 1.1))


def written(tmp_path: Path, *engines: Engine) -> list[dict[str, Any]]:
    path = write_chrome_trace(engines, tmp_path / "t.json")
    return check_trace(path.read_text(encoding="utf-8"))


def test_layers_of_a_run_stand_one_after_another_when_no_start_is_known(tmp_path: Path) -> None:
    one = engine(LayerTime(0, "a", 0.15, 0.15, (0.1, 0.2)), LayerTime(1, "b", 0.3, 0.3, (0.3, 0.3)), streams=(0, 1))
    events = written(tmp_path, one)
    layers = [e for e in events if e["cat"] != "run"]
    assert [(e["name"], e["args"]["run"], e["ts"], e["dur"]) for e in layers] == [
        ("a", 1, 0.0, 100.0),
        ("b", 1, 100.0, 300.0),
        ("a", 2, 450.0, 200.0),
        ("b", 2, 650.0, 300.0),
    ]
    assert layers[0]["tid"] != layers[1]["tid"]
    assert layers[0]["args"]["nodes"] == ["/n0"]
    runs = [e for e in events if e["cat"] == "run"]
    assert [(e["name"], e["args"]["layer_sum_ms"], e["args"]["latency_ms"]) for e in runs] == [
        ("run 1", 0.4, 0.9),
        ("run 2", 0.5, 1.1),
    ]
    assert "made up" in chrome_trace([one])["otherData"]["engine_1"]["starts"]  # type: ignore[index,call-overload]


def test_told_starts_are_kept_and_streams_run_beside_each_other(tmp_path: Path) -> None:
    one = engine(
        LayerTime(0, "a", 0.1, 0.1, (0.1,), 0.0),
        LayerTime(1, "b", 0.2, 0.2, (0.2,), 0.02),
        LayerTime(2, "c", 0.1, 0.1, (0.1,), 0.05),
        streams=(0, 1, 0),
    )
    layers = [(e["name"], e["ts"]) for e in written(tmp_path, one) if e["cat"] != "run"]
    assert layers == [("a", 0.0), ("b", 20.0), ("c", 100.0)]  # c cannot begin before a ends: one stream


def test_layer_of_a_branch_not_taken_and_average_alone(tmp_path: Path) -> None:
    one = engine(LayerTime(0, "a", 0.1, 0.1, (0.1, 0.1)), LayerTime(1, "rare", 0.2, 0.2, (0.2,)))
    assert [e["name"] for e in written(tmp_path, one) if e["cat"] != "run"] == ["a", "rare", "a"]
    average = engine(LayerTime(0, "a", 0.1, None), LayerTime(1, "zero", 0.0, None))
    events = written(tmp_path, average)
    assert [(e["name"], e["dur"]) for e in events] == [("average of the runs", 100.0), ("a", 100.0), ("zero", 0.0)]
    assert events[1]["args"]["median_ms"] is None


def test_engine_without_times_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"bare: holds no layer times.*exportProfile"):
        write_chrome_trace([engine(label="bare")], tmp_path / "t.json")
    with pytest.raises(RecordError, match="no engine"):
        write_chrome_trace([], tmp_path / "t.json")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["encoder4-fp16", "l2norm_overflow-fp32", "magika-fp16"])
def test_records_of_a_gpu_lose_no_time(tmp_path: Path, name: str) -> None:
    opened = open_engine(DATA / "gpu" / f"{name}.trtlab")
    events = written(tmp_path, opened, opened)
    for pid in (1, 2):
        spent = sum(e["dur"] for e in events if e["cat"] != "run" and e["pid"] == pid)
        assert spent == pytest.approx(1e3 * sum(sum(t.runs_ms) for t in opened.times), abs=0.001 * len(events))
    mapped = [e for e in events if e["args"].get("nodes")]
    assert len(mapped) > len(events) // 3


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.text(max_size=8) | st.just("a\ud800\x1eb"),
            st.lists(st.floats(0, 1e4, allow_nan=False), max_size=4),
            st.none() | st.integers(0, 3),
            st.floats(0, 50),
        ),
        min_size=1,
        max_size=8,
    ),
    st.booleans(),
)
def test_any_times_give_a_valid_trace(rows: list[tuple[str, list[float], int | None, float]], starts: bool) -> None:
    times = tuple(
        LayerTime(i, name, 0.5, None, tuple(runs), start if starts else None)
        for i, (name, runs, _, start) in enumerate(rows)
    )
    one = engine(*times, streams=tuple(stream for _, _, stream, _ in rows))
    events = check_trace(json.dumps(chrome_trace([one])))
    assert sum(e["cat"] != "run" for e in events) == sum(len(runs) or 1 for _, runs, _, _ in rows)
