"""Rows of Nsight Systems' tables, from either of its exports, as kernels, launches and ranges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from trt_lab.profiling.traces.kernels import Activity, Launch, Range, Trace, hang

if TYPE_CHECKING:
    from trt_lab.profiling.source import Engine

_T = TypeVar("_T")

_ODD = (KeyError, TypeError, ValueError, OverflowError)
"""What a row raises that has other fields than an export writes."""

_PROCESS = 24
"""Bits of the thread in a `globalTid`; those above tell the process."""

_COPIES = {
    1: "HtoD",
    2: "DtoH",
    3: "HtoA",
    4: "AtoH",
    5: "AtoA",
    6: "AtoD",
    7: "DtoA",
    8: "DtoD",
    9: "HtoH",
    10: "PtoP",
}
"""`copyKind`, as CUPTI numbers it."""

_DOMAIN_CREATED = 75
"""`eventType` of a row that names a domain."""


class Rows:
    """Collects rows; `trace` puts them together once all strings are known.

    Args:
        source: See `Trace`.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._strings: dict[int, str] = {}
        self._work: list[tuple[str, Mapping[str, Any]]] = []
        self._launches: dict[object, Launch] = {}
        self._ranges: list[Mapping[str, Any]] = []
        self._domains: dict[object, Mapping[str, Any]] = {}
        self._odd = 0

    def add(self, table: str, row: Mapping[str, Any]) -> None:
        """Takes a row of one of `TABLES`; rows without usable times are counted and left out."""
        try:
            TABLES[table](self, row)
        except _ODD:
            self._odd += 1

    def trace(self, engine: Engine | None, notes: tuple[str, ...] = ()) -> Trace:
        """What was collected, hung under layers."""
        domains = dict(self._made(lambda item: (item[0], self._text(item[1])), self._domains.items()))
        ranges = list(self._made(lambda row: self._range(row, domains), self._ranges))
        work = list(self._made(lambda item: self._activity(*item), self._work))
        told = list(notes)
        if self._odd:
            told.append(f"{self._odd} rows without a valid time or id were left out")
        nameless = sum(1 for activity in work if activity.names[0].startswith("#"))
        if nameless:
            told.append(f"{nameless} kernels have a number for a name: the strings they refer to are not in the file")
        threads: dict[object, set[object]] = {}
        for item in ranges:
            threads.setdefault(_process(item.thread), set()).add(item.thread)
        return hang(_with_lane(work, threads), self._launches, ranges, engine, self._source, told)

    def _made(self, make: Callable[[Any], _T], rows: Iterable[Any]) -> Iterator[_T]:
        """What is made of each row; rows of which nothing can be made are counted and left out."""
        for row in rows:
            try:
                yield make(row)
            except _ODD:
                self._odd += 1

    # --- one method a kind of row ------------------------------------------------------------

    def _string(self, row: Mapping[str, Any]) -> None:
        self._strings[int(row["id"])] = str(row["value"])

    def _launch(self, row: Mapping[str, Any]) -> None:
        thread = int(row["globalTid"])
        self._launches[_process(thread), int(row["correlationId"])] = Launch(thread, _whole(row["start"]))

    def _nvtx(self, row: Mapping[str, Any]) -> None:
        if row.get("eventType") == _DOMAIN_CREATED:
            self._domains[_domain(row)] = row
            return
        if row.get("end") in (None, 0):  # a mark
            return
        start, end, thread = _whole(row["start"]), _whole(row["end"]), int(row["globalTid"])
        if end < start:
            raise ValueError("ends before it starts")
        self._ranges.append({**row, "start": start, "end": end, "globalTid": thread})

    def _gpu(self, kind: str, row: Mapping[str, Any]) -> None:
        start, end = _whole(row["start"]), _whole(row["end"])
        if end < start:
            raise ValueError("ends before it starts")
        self._work.append((kind, {**row, "start": start, "end": end}))

    def _kernel(self, row: Mapping[str, Any]) -> None:
        self._gpu("kernel", row)

    def _memcpy(self, row: Mapping[str, Any]) -> None:
        self._gpu("memcpy", row)

    def _memset(self, row: Mapping[str, Any]) -> None:
        self._gpu("memset", row)

    # --- putting together --------------------------------------------------------------------

    def _range(self, row: Mapping[str, Any], domains: Mapping[object, str]) -> Range:
        return Range(self._text(row), row["globalTid"], row["start"], row["end"], domains.get(_domain(row)))

    def _activity(self, kind: str, row: Mapping[str, Any]) -> Activity:
        names: tuple[str, ...] = (kind,)
        if kind == "kernel":
            ids = [row[key] for key in ("shortName", "demangledName", "mangledName", "name") if key in row]
            names = tuple(dict.fromkeys(self._name(number) for number in ids)) or ("#unknown",)
        elif kind == "memcpy":
            names = (f"memcpy {_COPIES.get(int(row.get('copyKind', 0)), 'unknown')}",)
        process = _process(int(row["globalPid"])) if "globalPid" in row else None
        correlation = row.get("correlationId")
        return Activity(
            names, row["start"], row["end"],
            stream=_int(row.get("streamId")), device=_int(row.get("deviceId")),
            launch=None if correlation is None or process is None else (process, int(correlation)),
            lane=process, in_graph=bool(row.get("graphNodeId") or row.get("graphId")),
        )  # fmt: skip

    def _name(self, number: Any) -> str:
        if isinstance(number, str) and not number.isdigit():
            return number
        return self._strings.get(int(number), f"#{number}")

    def _text(self, row: Mapping[str, Any]) -> str:
        if row.get("text") not in (None, ""):
            return str(row["text"])
        return self._name(row["textId"]) if "textId" in row else ""


TABLES: dict[str, Callable[[Rows, Mapping[str, Any]], None]] = {
    "StringIds": Rows._string,
    "CUPTI_ACTIVITY_KIND_RUNTIME": Rows._launch,
    "CUPTI_ACTIVITY_KIND_DRIVER": Rows._launch,
    "NVTX_EVENTS": Rows._nvtx,
    "CUPTI_ACTIVITY_KIND_KERNEL": Rows._kernel,
    "CUPTI_ACTIVITY_KIND_MEMCPY": Rows._memcpy,
    "CUPTI_ACTIVITY_KIND_MEMSET": Rows._memset,
}
"""The tables that are read, and what is done with a row of each."""


def _with_lane(work: list[Activity], threads: Mapping[object, set[object]]) -> list[Activity]:
    """Activities under the one thread of their process that has ranges; where there are several, time tells nothing."""
    placed = []
    for activity in work:
        found = threads.get(activity.lane, set())
        placed.append(replace(activity, lane=next(iter(found)) if len(found) == 1 else None))
    return placed


def _whole(value: Any) -> int:
    """A number of the 64 bits that all exports have. Raises one of `_ODD` where it is none."""
    number = int(value)
    if not -(2**63) <= number < 2**63:
        raise ValueError("more than 64 bits")
    return number


def _process(thread: object) -> object:
    return thread >> _PROCESS if isinstance(thread, int) else None


def _domain(row: Mapping[str, Any]) -> object:
    return row.get("domainId"), _process(int(row["globalTid"])) if "globalTid" in row else None


def _int(value: Any) -> int | None:
    try:
        return None if value is None else _whole(value)
    except _ODD:
        return None
