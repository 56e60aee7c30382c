"""Chrome traces of torch's profiler (Kineto): kernels, the calls that launched them, and the ranges round those.

Source of the format: what `torch.profiler.profile(...).export_chrome_trace` writes. Complete events (`ph: X`) with
times in µs; `cat` is `kernel`, `gpu_memcpy` or `gpu_memset` for work of the GPU, `cuda_runtime` or `cuda_driver` for
calls, `user_annotation` and `cpu_op` for ranges; `args.correlation` joins a call with what it launched.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trt_lab.errors import RecordError
from trt_lab.profiling.traces.kernels import Activity, Launch, Range, Trace, hang

if TYPE_CHECKING:
    from trt_lab.profiling.source import Engine

_GPU = ("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset")
_CALLS = ("cuda_runtime", "cuda_driver", "runtime", "driver")
_RANGES = ("user_annotation", "cpu_op", "operator", "python_function")
_GPU_RANGES = ("gpu_user_annotation",)
_GZIP = b"\x1f\x8b"
_LATEST_US = 1e16
"""Times from the year 2286 on are none; Chrome traces count from 1970 at most."""


def parse_torch_trace(data: bytes, name: str, engine: Engine | None = None) -> Trace:
    """Reads the content of a trace, also a zipped one. Of one that was cut, what stands before the cut.

    Raises:
        RecordError: It is no Chrome trace, or nothing can be read before the place where it is broken (named).
    """
    text, notes = _text(data, name)
    events, more = _events(text, name)
    work, calls, ranges = [], {}, []
    skipped = 0
    for event in events:
        if not isinstance(event, Mapping) or event.get("ph") != "X":
            continue
        kind = str(event.get("cat", "")).lower()
        span = _span(event)
        if kind not in (*_GPU, *_CALLS, *_RANGES, *_GPU_RANGES):
            continue
        if span is None:
            skipped += 1
        elif kind in _GPU:
            work.append(_activity(event, span))
        elif kind in _CALLS:
            correlation = _correlation(event)
            if correlation is not None:
                calls[correlation] = Launch(_thread(event), span[0])
        else:
            ranges.append(Range(str(event.get("name", "")), _thread(event), *span))
    if skipped:
        more.append(f"{skipped} events without a valid time were left out")
    return hang(work, calls, ranges, engine, "torch", [*notes, *more])


def _activity(event: Mapping[str, Any], span: tuple[int, int]) -> Activity:
    args = _args(event)
    return Activity(
        (str(event.get("name", "")),), *span,
        stream=_whole(args.get("stream")), device=_whole(args.get("device")),
        launch=_correlation(event), lane=_thread(event), in_graph=_whole(args.get("graph id")) not in (None, 0),
    )  # fmt: skip


def _args(event: Mapping[str, Any]) -> Mapping[str, Any]:
    args = event.get("args")
    return args if isinstance(args, Mapping) else {}


def _correlation(event: Mapping[str, Any]) -> int | str | None:
    value = _args(event).get("correlation")
    return value if isinstance(value, int | str) else None


def _thread(event: Mapping[str, Any]) -> tuple[str, str]:
    return str(event.get("pid")), str(event.get("tid"))


def _whole(value: object) -> int | None:
    return value if type(value) is int and -(2**63) <= value < 2**63 else None


def _span(event: Mapping[str, Any]) -> tuple[int, int] | None:
    """Start and end in ns; None where the event has no time, one that no clock tells, or a negative duration."""
    try:
        start, duration = float(event["ts"]), float(event["dur"])
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    if not (abs(start) < _LATEST_US and 0 <= duration < _LATEST_US):
        return None
    return round(start * 1e3), round((start + duration) * 1e3)


def _text(data: bytes, name: str) -> tuple[str, list[str]]:
    notes = []
    if data.startswith(_GZIP):
        packed, opened = data, zlib.decompressobj(wbits=31)
        try:
            data = opened.decompress(packed)
        except zlib.error as error:
            raise RecordError(f"{name}: broken gzip file ({error}); record or copy it again") from error
        if not opened.eof:
            notes.append(f"the gzip file ends at byte {len(packed)}, before its end: what it holds so far was read")
    try:
        return data.decode("utf-8-sig"), notes
    except UnicodeDecodeError as error:
        if error.end < len(data):
            raise RecordError(f"{name}: not UTF-8 text (byte {error.start}); it is no Chrome trace") from error
        return data[: error.start].decode("utf-8-sig"), notes  # cut within a character


def _events(text: str, name: str) -> tuple[Sequence[Any], list[str]]:
    """The events, and notes. A whole file is one JSON value: an array of events, or an object that holds it."""
    try:
        content = json.loads(text, strict=False)
    except json.JSONDecodeError as error:
        return _events_before_cut(text, name, error)
    except (ValueError, RecursionError) as error:
        raise RecordError(
            f"{name}: no Chrome trace: nested too deeply, or a number in it has thousands of digits"
        ) from error
    events = content.get("traceEvents") if isinstance(content, Mapping) else content
    if not isinstance(events, list):
        raise RecordError(f"{name}: no Chrome trace: the key 'traceEvents' with a list is missing")
    return events, []


def _events_before_cut(text: str, name: str, error: json.JSONDecodeError) -> tuple[Sequence[Any], list[str]]:
    key = text.find('"traceEvents"')
    at = text.find("[", max(key, 0))
    decoder = json.JSONDecoder(strict=False)
    events: list[Any] = []
    if at >= 0 and (key >= 0 or text.lstrip().startswith("[")):
        at += 1
        while True:
            while at < len(text) and text[at] in " \t\r\n,":
                at += 1
            try:
                event, at = decoder.raw_decode(text, at)
            except (ValueError, RecursionError):
                break
            events.append(event)
    place = len(text[: error.pos].encode())
    if not events:
        raise RecordError(
            f"{name}: broken JSON at byte {place} (line {error.lineno}): {error.msg}; no event stands before that "
            "place. Was it cut? Record it again"
        ) from error
    if text[at : at + 1] == "]":  # all events are there, what follows them is not
        return events, [f"the file is broken after its events, at byte {place}"]
    lost = len(text[:at].encode())
    return events, [f"the file is broken at byte {place}: {len(events)} events up to byte {lost} were read, no later"]
