"""Exports of Nsight Systems as lines of JSON, of both kinds.

`nsys export --type json` writes one event a line (`{"Type": 79, "CudaEvent": {...}}`) and the strings on a line of their
own (`{"data": [...]}`), or one a line (`{"type": "String", ...}`); whole numbers of 64 bits are text.
`nsys export --type jsonlines` writes the rows of the SQLite tables, each with its `table`.
Sources: "JSON and Text Format Description" of Nsight Systems, and files that it wrote.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from trt_lab.errors import RecordError
from trt_lab.profiling.traces.kernels import Trace
from trt_lab.profiling.traces.nsys_rows import TABLES, Rows

if TYPE_CHECKING:
    from trt_lab.profiling.source import Engine

_NVTX = {
    "Timestamp": "start", "EndTimestamp": "end", "Text": "text", "TextId": "textId", "GlobalTid": "globalTid",
    "DomainId": "domainId", "Type": "eventType",
}  # fmt: skip
_CUDA = {"startNs": "start", "endNs": "end"}
_PARTS = {"kernel": "CUPTI_ACTIVITY_KIND_KERNEL", "memcpy": "CUPTI_ACTIVITY_KIND_MEMCPY", "memset": "CUPTI_ACTIVITY_KIND_MEMSET"}  # fmt: skip


def is_nsys_line(content: object) -> bool:
    """Whether a parsed line may be of such an export."""
    if not isinstance(content, Mapping):
        return False
    if isinstance(content.get("table"), str):
        return True
    if "Type" in content or content.get("type") in ("String", "ThreadName"):
        return True
    return isinstance(content.get("data"), list) and "traceEvents" not in content


def parse_nsys_json(data: bytes, name: str, engine: Engine | None = None) -> Trace:
    """Reads the lines of an export. A line that is broken is told with its byte place; all others are read.

    Raises:
        RecordError: No line can be read, or none is of Nsight Systems.
    """
    rows = Rows("nsys-json")
    known, at, number = 0, 0, 0
    broken: list[tuple[int, int, str]] = []
    for number, line in enumerate(data.split(b"\n"), 1):
        begin, at = at, at + len(line) + 1
        if not line.strip(b" \t\r\xef\xbb\xbf"):
            continue
        try:
            content = json.loads(line.decode("utf-8-sig"), strict=False)
        except json.JSONDecodeError as error:
            broken.append((begin + len(error.doc[: error.pos].encode()), number, error.msg))
            continue
        except UnicodeDecodeError as error:
            broken.append((begin + error.start, number, "not UTF-8 text"))
            continue
        except (ValueError, RecursionError):
            broken.append((begin, number, "nested too deeply, or a number of thousands of digits"))
            continue
        if is_nsys_line(content):
            known += 1
            _add(rows, content)
    if not known:
        if broken:
            place, line_number, why = broken[0]
            raise RecordError(f"{name}: broken JSON at byte {place} (line {line_number}): {why}; no line can be read")
        raise RecordError(f"{name}: no line is of Nsight Systems; make it with nsys export --type json REPORT.nsys-rep")
    return rows.trace(engine, _notes(broken, number))


def _notes(broken: list[tuple[int, int, str]], lines: int) -> tuple[str, ...]:
    if not broken:
        return ()
    place, number, why = broken[0]
    if len(broken) == 1 and number == lines:
        return (f"the file is cut at byte {place} (line {number}): the lines before were read",)
    more = f" and {len(broken) - 1} more" if len(broken) > 1 else ""
    return (f"broken JSON at byte {place} (line {number}): {why}{more}; the other lines were read",)


def _add(rows: Rows, content: Mapping[str, Any]) -> None:
    table = content.get("table")
    if isinstance(table, str):
        if table in TABLES:
            rows.add(table, content)
        return
    if isinstance(content.get("data"), list):
        for number, text in enumerate(content["data"]):
            rows.add("StringIds", {"id": number, "value": text})
    elif content.get("type") == "String":
        rows.add("StringIds", content)
    elif isinstance(event := content.get("NvtxEvent"), Mapping):
        rows.add("NVTX_EVENTS", {ours: event[theirs] for theirs, ours in _NVTX.items() if theirs in event})
    elif isinstance(event := content.get("TraceProcessEvent"), Mapping):
        rows.add("CUPTI_ACTIVITY_KIND_RUNTIME", _renamed(event))
    elif isinstance(event := content.get("CudaEvent"), Mapping):
        for part, home in _PARTS.items():
            if isinstance(event.get(part), Mapping):
                rows.add(home, {**_renamed(event), **event[part]})


def _renamed(event: Mapping[str, Any]) -> dict[str, Any]:
    return {_CUDA.get(key, key): value for key, value in event.items() if value not in ("", None)}
