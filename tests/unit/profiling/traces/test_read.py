"""Small traces in exactly the forms that torch's profiler and Nsight Systems write."""

from __future__ import annotations

import gzip
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trt_lab.errors import RecordError
from trt_lab.profiling.source import Engine
from trt_lab.profiling.traces.kernels import KernelTime
from trt_lab.profiling.traces.nsys_json import parse_nsys_json
from trt_lab.profiling.traces.read import read_trace
from trt_lab.profiling.traces.torch import parse_torch_trace
from trt_lab.types import LayerInfo, NodeId

PID = 0x1_0A16CF_000000
TID = PID + 0x0A16CF
OTHER = PID + 0x0A1B18

LAYERS = (
    LayerInfo(0, "/conv/Conv + /relu/Relu", "CaskConvolution", nodes=(NodeId("/conv/Conv"), NodeId("/relu/Relu"))),
    LayerInfo(1, "/fc/Gemm", "gemm", nodes=(NodeId("/fc/Gemm"),), tactic="sm90_xmma_gemm"),
)
ENGINE = Engine("e", None, "layers", "trt10", LAYERS)

STRINGS = [
    "",
    "cudaLaunchKernel_v7000",
    "conv_kernel",
    "void conv_kernel<float>(int)",
    "sm90_xmma_gemm",
    "TensorRT",
    "/fc/Gemm",
]

LAUNCHES = [(1_000, 1_100, TID, 11), (2_000, 2_100, TID, 12), (9_000, 9_100, TID, 13)]
"""Start, end, thread, correlation."""
KERNELS = [(5_000, 25_000, 2, 3, 11), (25_000, 30_000, 4, 4, 12), (60_000, 61_000, 4, 4, 13)]
"""Start, end, short name, demangled name, correlation. All launches lie long before the kernels."""
RANGES = [
    (800, 3_000, "ExecutionContext::enqueue", TID),
    (900, 1_500, "/conv/Conv + /relu/Relu", TID),
    (1_900, 2_500, "/fc/Gemm", TID),
    (900, 10_000, "/fc/Gemm", OTHER),
]

EXPECTED = [
    ("/conv/Conv + /relu/Relu", "conv_kernel", 0.0, 0.02, ("/conv/Conv", "/relu/Relu"), "launch"),
    ("/fc/Gemm", "sm90_xmma_gemm", 0.02, 0.005, ("/fc/Gemm",), "launch"),
]


def seen(kernel: KernelTime) -> tuple[Any, ...]:
    return kernel.layer, kernel.kernel, kernel.start_ms, kernel.duration_ms, tuple(map(str, kernel.nodes)), kernel.via


SCHEMA = """
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER,
 category INTEGER, color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER,
 uint64Value INTEGER, int64Value INTEGER, doubleValue REAL, uint32Value INTEGER, int32Value INTEGER, floatValue REAL,
 jsonTextId INTEGER, jsonText TEXT, binaryData TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL,
 globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
 contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER,
 globalPid INTEGER, demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER,
 launchType INTEGER, cacheConfig INTEGER, registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL,
 gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL, blockX INTEGER NOT NULL, blockY INTEGER NOT NULL,
 blockZ INTEGER NOT NULL, staticSharedMemory INTEGER NOT NULL, dynamicSharedMemory INTEGER NOT NULL,
 localMemoryPerThread INTEGER NOT NULL, localMemoryTotal INTEGER NOT NULL, gridId INTEGER NOT NULL,
 sharedMemoryExecuted INTEGER, graphNodeId INTEGER, sharedMemoryLimitConfig INTEGER);
"""


def insert(db: sqlite3.Connection, table: str, row: dict[str, Any]) -> None:
    marks = ", ".join("?" for _ in row)
    db.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", list(row.values()))


def range_text(text: str) -> dict[str, Any]:
    """A registered string is an id, another one stands in the row."""
    return {"textId": STRINGS.index(text)} if text in STRINGS else {"text": text}


def nsys_rows(*, graph: bool = False) -> list[tuple[str, dict[str, Any]]]:
    """Rows as Nsight Systems' tables hold them; the text of a range stands in it, or in the strings."""
    rows: list[tuple[str, dict[str, Any]]] = [("StringIds", {"id": i, "value": s}) for i, s in enumerate(STRINGS)]
    rows.append(
        (
            "NVTX_EVENTS",
            {"start": 1, "eventType": 75, "globalTid": TID, "textId": STRINGS.index("TensorRT"), "domainId": 1},
        )
    )
    rows.append(("NVTX_EVENTS", {"start": 700, "eventType": 34, "text": "a mark", "globalTid": TID, "domainId": 0}))
    rows.append(
        (
            "NVTX_EVENTS",
            {"start": 10, "end": 99_000, "eventType": 59, "text": "my step", "globalTid": TID, "domainId": 0},
        )
    )
    rows += [
        ("NVTX_EVENTS", {"start": s, "end": e, "eventType": 59, "globalTid": tid, "domainId": 1, **range_text(t)})
        for s, e, t, tid in RANGES
    ]
    rows += [
        (
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            {"start": s, "end": e, "eventClass": 1, "globalTid": t, "correlationId": c, "nameId": 1, "returnValue": 0},
        )
        for s, e, t, c in LAUNCHES
    ]
    sizes = ("registersPerThread", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "staticSharedMemory")
    sizes += ("dynamicSharedMemory", "localMemoryPerThread", "localMemoryTotal", "gridId")
    rows += [
        (
            "CUPTI_ACTIVITY_KIND_KERNEL",
            {"start": s, "end": e, "deviceId": 0, "contextId": 1, "streamId": 7, "correlationId": c, "globalPid": PID}
            | {"demangledName": long, "shortName": short, **dict.fromkeys(sizes, 1)}
            | ({"graphNodeId": 9} if graph else {}),
        )
        for s, e, short, long, c in KERNELS
    ]
    return rows


def write_sqlite(path: Path, rows: list[tuple[str, dict[str, Any]]]) -> Path:
    with sqlite3.connect(path) as db:
        db.executescript(SCHEMA)
        for table, row in rows:
            insert(db, table, row)
    db.close()
    return path


def json_lines(rows: list[tuple[str, dict[str, Any]]]) -> bytes:
    """`--type jsonlines`: a row a line."""
    return b"".join(json.dumps({"table": table, **row}).encode() + b"\n" for table, row in rows)


def json_events(*, strings_first: bool) -> bytes:
    """`--type json`: an event a line, numbers of 64 bits as text, the strings on one line."""
    strings = [{"data": STRINGS}]
    events: list[dict[str, Any]] = [
        {
            "Type": 75,
            "NvtxEvent": {"Type": 75, "Timestamp": "1", "Text": "TensorRT", "GlobalTid": str(TID), "DomainId": "1"},
        }
    ]
    events += [
        {
            "Type": 59,
            "NvtxEvent": {
                "Type": 59, "Timestamp": str(s), "Text": t, "GlobalTid": str(tid), "EndTimestamp": str(e),
                "DomainId": "1", "NsTime": True,
            },
        }
        for s, e, t, tid in RANGES
    ]  # fmt: skip
    events += [
        {
            "Type": 48,
            "TraceProcessEvent": {
                "startNs": str(s), "endNs": str(e), "correlationId": c, "eventClass": 1, "name": "1",
                "returnValue32": 0, "globalTid": str(t),
            },
        }
        for s, e, t, c in LAUNCHES
    ]  # fmt: skip
    events += [
        {
            "Type": 79,
            "CudaEvent": {
                "startNs": str(s), "endNs": str(e), "correlationId": c, "deviceId": 0, "contextId": "1",
                "streamId": "7", "eventClass": 3, "globalPid": str(PID), "greenContextId": "0",
                "kernel": {"demangledName": str(long), "shortName": str(short), "blockX": 128},
            },
        }
        for s, e, short, long, c in KERNELS
    ]  # fmt: skip
    events.append({"Type": 27, "CommEvent": {"what": "not read"}})
    lines = [*strings, *events] if strings_first else [*events, *strings]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def torch_events() -> dict[str, Any]:
    """As Kineto writes them."""

    def us(ns: int) -> float:
        return 198_093_488_000 + ns / 1e3

    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 1147, "tid": 0, "ts": us(0), "args": {"name": "python"}},
        {"ph": "X", "cat": "cpu_op", "name": "tensorrt::execute_engine", "pid": 1147, "tid": 1147, "ts": us(10),
         "dur": 3.9, "args": {"External id": 1}},
    ]  # fmt: skip
    for start, end, text, tid in RANGES:
        event = {"ph": "X", "cat": "user_annotation", "name": text, "pid": 1147, "tid": 1147 if tid == TID else 2000}
        events.append({**event, "ts": us(start), "dur": (end - start) / 1e3, "args": {"External id": 2}})
    for start, end, _, correlation in LAUNCHES:
        args = {"External id": 1, "cbid": 211, "correlation": correlation}
        event = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1147, "tid": 1147, "args": args}
        events.append({**event, "ts": us(start), "dur": (end - start) / 1e3})
        events.append(
            {"ph": "s", "id": correlation, "pid": 1147, "tid": 1147, "ts": us(start), "cat": "ac2g", "name": "ac2g"}
        )
    for start, end, short, _, correlation in KERNELS:
        args = {"External id": 1, "device": 0, "context": 1, "stream": 7, "correlation": correlation, "grid": [1, 1, 1]}
        event = {"ph": "X", "cat": "kernel", "name": STRINGS[short], "pid": 0, "tid": 7, "args": args}
        events.append({**event, "ts": us(start), "dur": (end - start) / 1e3})
    return {
        "schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H200"}], "displayTimeUnit": "ms",
        "baseTimeNanoseconds": 1743521598000000000, "traceEvents": events, "traceName": "t.json",
    }  # fmt: skip


def every_form(tmp_path: Path) -> dict[str, Path]:
    files = {
        "nsys-sqlite": write_sqlite(tmp_path / "r.sqlite", nsys_rows()),
        "json": tmp_path / "r.json",
        "json-old": tmp_path / "old.json",
        "jsonlines": tmp_path / "r.jsonl",
        "torch": tmp_path / "t.pt.trace.json",
        "torch-gz": tmp_path / "t.pt.trace.json.gz",
    }
    files["json"].write_bytes(json_events(strings_first=True))
    files["json-old"].write_bytes(json_events(strings_first=False))
    files["jsonlines"].write_bytes(json_lines(nsys_rows()))
    files["torch"].write_text(json.dumps(torch_events(), indent=1))
    files["torch-gz"].write_bytes(gzip.compress(json.dumps(torch_events()).encode()))
    return files


FORMS = ["nsys-sqlite", "json", "json-old", "jsonlines", "torch", "torch-gz"]


@pytest.mark.parametrize("form", FORMS)
def test_kernels_hang_under_the_layer_whose_range_launched_them(tmp_path: Path, form: str) -> None:
    trace = read_trace(every_form(tmp_path)[form], ENGINE)
    last = ("/fc/Gemm", "sm90_xmma_gemm", 0.055, 0.001, ("/fc/Gemm",), "tactic")  # launched outside of all layers
    assert [seen(k) for k in trace.kernels] == [*EXPECTED, last]
    assert trace.notes == ()
    assert {(k.stream, k.device) for k in trace.kernels} == {(7, 0)}
    assert [row["layer"] for row in trace.rows()] == [k.layer for k in trace.kernels]
    assert trace.by_layer() == pytest.approx({LAYERS[0].name: 0.02, "/fc/Gemm": 0.006})


@pytest.mark.parametrize("form", FORMS)
def test_without_an_engine_the_ranges_themselves_are_the_layers(tmp_path: Path, form: str) -> None:
    trace = read_trace(every_form(tmp_path)[form])
    assert [seen(k) for k in trace.kernels][:2] == EXPECTED
    assert (trace.kernels[2].layer, trace.kernels[2].via) == (None, "none")
    assert trace.notes[0].startswith("1 of 3 kernels belong to no known layer")


def test_another_engine_is_told(tmp_path: Path) -> None:
    other = Engine("o", None, "layers", "trt10", (LayerInfo(0, "/other", "x"),))
    trace = read_trace(every_form(tmp_path)["nsys-sqlite"], other)
    assert {k.layer for k in trace.kernels} == {None}
    assert trace.notes[-1] == "nothing in the trace is named after a layer of the engine: is it of another engine?"


def test_cuda_graph_is_told_and_not_guessed(tmp_path: Path) -> None:
    trace = read_trace(write_sqlite(tmp_path / "g.sqlite", nsys_rows(graph=True)))
    assert {k.layer for k in trace.kernels} == {None}
    assert "3 kernels ran in a CUDA graph, whose one launch does not tell their layers apart" in trace.notes


def test_without_launches_time_places_a_kernel_and_is_named(tmp_path: Path) -> None:
    rows = [row for row in nsys_rows() if row[0] != "CUPTI_ACTIVITY_KIND_RUNTIME"]
    rows = [(t, r) for t, r in rows if r.get("globalTid") != OTHER]
    rows.append(
        (
            "NVTX_EVENTS",
            {"start": 4_000, "end": 26_000, "eventType": 59, "text": "/fc/Gemm", "globalTid": TID, "domainId": 1},
        )
    )
    trace = read_trace(write_sqlite(tmp_path / "r.sqlite", rows), ENGINE)
    assert [(k.layer, k.via) for k in trace.kernels] == [
        ("/fc/Gemm", "time"),
        ("/fc/Gemm", "tactic"),
        ("/fc/Gemm", "tactic"),
    ]
    assert trace.notes[0] == "1 kernels were placed by time alone, as their launch is not in the trace"


def test_copies_are_rows_too_and_bad_rows_are_counted() -> None:
    rows = [
        (
            "CUPTI_ACTIVITY_KIND_MEMCPY",
            {"start": 5, "end": 15, "copyKind": 1, "bytes": 8, "globalPid": PID, "streamId": 7},
        ),
        ("CUPTI_ACTIVITY_KIND_MEMSET", {"start": 15, "end": 16, "globalPid": PID, "streamId": 7}),
        ("CUPTI_ACTIVITY_KIND_KERNEL", {"start": 30, "end": 20, "shortName": 2, "globalPid": PID}),
        ("CUPTI_ACTIVITY_KIND_KERNEL", {"start": 30, "end": 40, "shortName": 77, "globalPid": PID}),
    ]
    trace = parse_nsys_json(json_lines(rows), "r.jsonl")
    assert [k.kernel for k in trace.kernels] == ["memcpy HtoD", "memset", "#77"]
    assert trace.notes[:2] == (
        "1 rows without a valid time or id were left out",
        "1 kernels have a number for a name: the strings they refer to are not in the file",
    )


# --- cut in the middle ---------------------------------------------------------------------


def test_cut_torch_trace_is_read_up_to_the_cut_and_says_where() -> None:
    data = json.dumps(torch_events()).encode()
    cut = data.rindex(b'"sm90_xmma_gemm"') + 4
    trace = parse_torch_trace(data[:cut], "t.json", ENGINE)
    assert [seen(k) for k in trace.kernels] == EXPECTED
    begin = data.rindex(b'"sm90_xmma_gemm"')  # the string that is not closed
    assert trace.notes[0].startswith(f"the file is broken at byte {begin}: 14 events up to byte ")


def test_cut_gzip_is_read_up_to_the_cut() -> None:
    packed = gzip.compress(json.dumps(torch_events()).encode())
    trace = parse_torch_trace(packed[:-20], "t.json.gz", ENGINE)
    assert trace.notes[0].startswith(f"the gzip file ends at byte {len(packed) - 20}, before its end")


def test_torch_trace_of_which_nothing_is_left_is_an_error_with_the_place() -> None:
    with pytest.raises(RecordError, match=r"t\.json: broken JSON at byte 18 .*no event stands before"):
        parse_torch_trace(b'{"traceEvents": [{', "t.json")


def test_cut_json_lines_are_read_up_to_the_cut() -> None:
    data = json_lines(nsys_rows())
    begin = data.rindex(b'{"table"')
    trace = parse_nsys_json(data[: begin + 20], "r.jsonl", ENGINE)
    assert [seen(k) for k in trace.kernels] == EXPECTED
    assert trace.notes[0].startswith("the file is cut at byte ")
    assert begin <= int(trace.notes[0].split("byte ")[1].split()[0]) <= begin + 20
    with pytest.raises(RecordError, match="broken JSON at byte"):
        parse_nsys_json(data[:12], "r.jsonl")


def test_cut_database_is_an_error_with_the_place(tmp_path: Path) -> None:
    whole = write_sqlite(tmp_path / "r.sqlite", nsys_rows())
    data = whole.read_bytes()
    for length in (50, 4096 + 7, len(data) - 1):
        cut = tmp_path / "cut.sqlite"
        cut.write_bytes(data[:length])
        with pytest.raises(RecordError, match=rf"cut\.sqlite: cut at byte {length}\b"):
            read_trace(cut)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\x00\x01binary report", "nsys export --type sqlite"),
        (b'{"Layers": []}', "'traceEvents' with a list is missing"),
        (b'{"traceEvents": 3}', "'traceEvents' with a list is missing"),
        (b"[", "broken JSON at byte 1"),
    ],
)
def test_other_files_are_refused_with_what_to_do(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(RecordError, match=message):
        read_trace(path)


def test_database_of_something_else_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "o.db") as db:
        db.execute("CREATE TABLE t (a)")
    db.close()
    with pytest.raises(RecordError, match="no export of Nsight Systems"):
        read_trace(tmp_path / "o.db")
    with pytest.raises(RecordError, match="cannot be read"):
        read_trace(tmp_path / "none.sqlite")


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["torch", "json", "jsonlines"]), st.binary(max_size=3))
def test_any_cut_and_any_bytes_give_a_trace_or_one_readable_error(place: int, form: str, junk: bytes) -> None:
    data = {
        "torch": lambda: json.dumps(torch_events()).encode(),
        "json": lambda: json_events(strings_first=False),
        "jsonlines": lambda: json_lines(nsys_rows()),
    }[form]()
    place %= len(data)
    parse = parse_torch_trace if form == "torch" else parse_nsys_json
    try:
        trace = parse(data[:place] + junk, "f", ENGINE)
    except RecordError as error:
        assert str(error).startswith("f: ") and "\n" not in str(error)
    else:
        assert len(trace.kernels) <= len(KERNELS)
        assert len(trace.kernels) == len(KERNELS) or trace.notes


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 100_000,
        b'{"traceEvents": [' + b"9" * 5000 + b"]}",
        b'{"Type": ' + b"9" * 5000 + b"}",
        b'{"Type": ' + b"[" * 100_000,
    ],
)
def test_numbers_and_nests_that_no_tool_writes_are_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "trace.json"
    file.write_bytes(content)
    with pytest.raises(RecordError, match=r"trace\.json"):
        read_trace(file)


def test_times_and_ids_that_are_none_are_left_out_and_counted() -> None:
    event = {"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 2}
    odd = [{"ts": 1e308}, {"ts": int("9" * 400)}, {"dur": "1e400"}, {"dur": -1}]
    ids = [{"args": {"correlation": [1]}}, {"cat": "cuda_runtime", "args": {"correlation": {"a": 2}}}]
    trace = parse_torch_trace(json.dumps([event, *({**event, **change} for change in (*odd, *ids))]).encode(), "t")
    assert [(k.kernel, k.duration_ms) for k in trace.kernels] == [("k", 0.002)] * 2
    assert "4 events without a valid time were left out" in trace.notes

    kernel = {"table": "CUPTI_ACTIVITY_KIND_KERNEL", "start": 1, "end": 2001, "shortName": "k"}
    rows = [
        kernel, {**kernel, "globalPid": "y"}, {**kernel, "shortName": {"a": 1}}, {**kernel, "correlationId": [1]},
        {**kernel, "start": -(10**30), "end": 10**30}, {**kernel, "end": 1e400}, {**kernel, "streamId": 2**63},
        {"table": "NVTX_EVENTS", "start": 1, "end": 2, "globalTid": 3, "textId": "q"},
        {"table": "NVTX_EVENTS", "start": 1, "end": 2, "globalTid": 3, "text": "t", "domainId": [1]},
    ]  # fmt: skip
    trace = parse_nsys_json(b"\n".join(json.dumps(row).encode() for row in rows), "t")
    assert {(k.kernel, k.stream) for k in trace.kernels} == {("k", None)}
    assert any("rows without a valid time or id were left out" in note for note in trace.notes)
