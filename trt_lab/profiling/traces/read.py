"""Opens a GPU trace of any of the tools that are known, by its content."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from trt_lab.errors import RecordError
from trt_lab.profiling.traces.kernels import Trace
from trt_lab.profiling.traces.nsys import MAGIC, read_nsys_sqlite
from trt_lab.profiling.traces.nsys_json import is_nsys_line, parse_nsys_json
from trt_lab.profiling.traces.torch import parse_torch_trace

if TYPE_CHECKING:
    from trt_lab.profiling.source import Engine

_GZIP = b"\x1f\x8b"


def read_trace(path: str | os.PathLike[str], engine: Engine | None = None) -> Trace:
    """Kernels of a trace, hung under layers.

    Args:
        path: A Chrome trace of torch's profiler (`.json`, `.json.gz`), or an export of Nsight Systems (`--type sqlite`,
            `json` or `jsonlines`).
        engine: The engine that ran; its layers are then looked for, and `nodes` are those of its layers.

    Raises:
        RecordError: It is none of these, or broken; names the file and the byte place.

    Example:
        >>> trace = read_trace("report.sqlite", open_engine("layers.json"))  # doctest: +SKIP
        >>> trace.by_layer()  # doctest: +SKIP
        {'/conv1/Conv': 0.0182, None: 0.0013}
    """
    source = Path(path).expanduser()
    try:
        with open(source, "rb") as file:
            head = file.read(16)
            data = b"" if head.startswith(MAGIC) else head + file.read()
    except OSError as error:
        raise RecordError(f"{source}: cannot be read: {error.strerror or error}; check the path") from error
    if head.startswith(MAGIC):
        return read_nsys_sqlite(source, engine)
    if not data.strip():
        raise RecordError(f"{source}: the file is empty; export or record the trace again")
    if data.startswith(_GZIP):
        return parse_torch_trace(data, str(source), engine)
    if data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"{", b"["):
        raise RecordError(
            f"{source}: neither JSON nor a database; of a report of Nsight Systems make one first: "
            f"nsys export --type sqlite {source.name}"
        )
    if _is_nsys(data):
        return parse_nsys_json(data, str(source), engine)
    return parse_torch_trace(data, str(source), engine)


def _is_nsys(data: bytes) -> bool:
    """Whether the first line is a JSON value of its own, as Nsight Systems writes them."""
    first = data.lstrip(b"\xef\xbb\xbf \t\r\n").split(b"\n", 1)[0]
    try:
        return is_nsys_line(json.loads(first, strict=False))
    except (ValueError, RecursionError):
        return first.startswith((b'{"table":', b'{"Type":', b'{"data":'))
