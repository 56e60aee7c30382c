"""What libraries print while a job runs, kept apart from the user's own output and read as a log."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Literal

from trt_lab.types import LogLine

OUTPUT_FILE = "output.txt"
"""In `Request.out_dir`: what the job's libraries printed."""

_ORT_LINE = re.compile(
    r"^(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+) \[(?P<severity>[VIWEF]):(?P<source>[^:\]]*):[^\]]*\] (?P<message>.*)$"
)
_SEVERITIES: dict[str, Literal["verbose", "info", "warning", "error"]] = {
    "V": "verbose", "I": "info", "W": "warning", "E": "error", "F": "error",
}  # fmt: skip
_COLOUR = re.compile(r"\x1b?\[[0-9;]*m")
_EXPECTED = ("Serializing optimized model with Graph Optimization level",)
"""Warnings about what trt-lab itself asked for, and which mean nothing to the user."""


_taken_over = False


def taken_over() -> bool:
    """Whether the output of this process goes to a file, so that libraries may print what they like."""
    return _taken_over


@contextlib.contextmanager
def printed_to(path: Path) -> Iterator[Path]:
    """Sends what this process prints, C++ libraries included, to a file.

    Only for the worker process, whose output belongs to nobody else.
    """
    global _taken_over
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(path.open("ab"))
        for stream, number in ((sys.stdout, 1), (sys.stderr, 2)):
            stream.flush()
            saved = os.dup(number)
            stack.callback(_restore, saved, number)
            os.dup2(file.fileno(), number)
        _taken_over = True
        try:
            yield path
        finally:
            _taken_over = False


def without_colour(line: str) -> str:
    """A line without the codes that colour it in a terminal, and without blanks round it."""
    return _COLOUR.sub("", line).strip()


def _restore(saved: int, number: int) -> None:
    (sys.stdout if number == 1 else sys.stderr).flush()
    os.dup2(saved, number)
    os.close(saved)


def log_lines(path: Path, started: datetime) -> tuple[LogLine, ...]:
    """Lines that the job printed. Those of ONNX Runtime bring a severity and a time."""
    lines: list[LogLine] = []
    for raw in path.read_text(encoding="utf-8", errors="replace").splitlines():
        text = without_colour(raw)
        if not text:
            continue
        match = _ORT_LINE.match(text)
        if match is None:
            lines.append(LogLine("info", text, "output"))
        elif not any(expected in text for expected in _EXPECTED):
            moment = datetime.fromisoformat(match["time"][:26])
            seconds = round((moment - started).total_seconds(), 6)
            lines.append(LogLine(_SEVERITIES[match["severity"]], match["message"], match["source"], seconds))
    return tuple(lines)
