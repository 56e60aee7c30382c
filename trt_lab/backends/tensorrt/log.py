"""What TensorRT says, as `LogLine`s.

TensorRT keeps one logger for a whole process: the first one given stays, later ones are ignored. So
there is one for each library, which passes each message to the log that is being collected.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from trt_lab.backends.tensorrt.versions import Library
from trt_lab.errors import BackendError
from trt_lab.types import JsonValue, LogLine

_LEVELS = ("verbose", "info", "warning", "error")
_LAYERS = "Layers:\n"
_VARIABLE = re.compile(r"0x[0-9a-fA-F]+|\"[^\"]*\"|'[^']*'|\{[^}]*\}|\[[^\]]*\]|/[\w./\[\]-]+|\d+(?:\.\d+)?")
_FORCED = re.compile(r"(?i)forc\w+ .*\bFP32\b|run(?:ning)? .*in FP32|fallback to FP32|Missing scale")
_FUSION = re.compile(r"^(?:\w+: )?(?:Fusing|Fused|Merging) ", re.IGNORECASE)
_KERNEL = re.compile(r"^(?:Set Tactic Name: |Fastest Tactic: |>>>>>>>>>>>>>>> Chose Runner Type: )(.*)$")
_SOURCE = re.compile(r"^(?:\[?(\w+\.(?:cpp|h))(?:::|:)|(I\w+)::\w+: )")


class BuildLog:
    """Messages of one build or run.

    Attributes:
        lines: Those of at least the asked severity, in order.
        layer_dump: The text of the `Layers:` message, whatever the severity; "" if there was none.
    """

    def __init__(self, severity: str = "info") -> None:
        self.lines: list[LogLine] = []
        self.layer_dump = ""
        self.plugin_searches: list[str] = []
        self._least = _LEVELS.index(severity)
        self._start = time.monotonic()

    def add(self, level: str, message: str) -> None:
        """Takes a message. Called from TensorRT's own threads."""
        if message.startswith(_LAYERS):
            self.layer_dump = message
        if "pluginName:" in message or "plugin_version:" in message:
            self.plugin_searches.append(message)
        if _LEVELS.index(level) >= self._least:
            found = _SOURCE.match(message)
            source = next((g for g in found.groups() if g), "") if found else ""
            self.lines.append(LogLine(level, message, source, round(time.monotonic() - self._start, 4)))  # pyright: ignore[reportArgumentType] (one of _LEVELS)

    def errors(self) -> list[str]:
        """Messages of severity error, in order."""
        return [line.message for line in self.lines if line.severity == "error"]


@contextmanager
def collect(library: Library, severity: str = "info") -> Iterator[BuildLog]:
    """Collects what `library` says while the block runs; blocks of one process run one after the other.

    A BackendError that leaves the block takes the log along.
    """
    sink = _sink(library)
    log = BuildLog(severity)
    with sink.busy:
        sink.log = log
        try:
            yield log
        except BackendError as error:
            error.log = (*error.log, *log.lines)
            raise
        finally:
            sink.log = None


def logger(library: Library) -> Any:
    """The ILogger to hand to the library's objects."""
    return _sink(library).logger


def group_warnings(lines: Iterable[LogLine]) -> list[dict[str, JsonValue]]:
    """Warnings and errors that differ only in names and numbers as one, most frequent first.

    Each has: severity, kind, count, first (the first message in full).
    """
    counts: Counter[tuple[str, str]] = Counter()
    first: dict[tuple[str, str], str] = {}
    for line in lines:
        if line.severity in ("warning", "error"):
            key = (line.severity, " ".join(_VARIABLE.sub("…", line.message).split())[:200])
            counts[key] += 1
            first.setdefault(key, line.message[:500])
    return [
        {"severity": key[0], "kind": key[1], "count": count, "first": first[key]} for key, count in counts.most_common()
    ]


def summarize(lines: Iterable[LogLine]) -> dict[str, JsonValue]:
    """What a log tells, for the record: counts by severity, fusions, kernels chosen, types forced, warnings grouped.

    Fusions and kernels are only said at severity `verbose`.
    """
    lines = list(lines)
    forced = [line.message[:300] for line in lines if _FORCED.search(line.message) and line.severity != "verbose"]
    return {
        "by_severity": dict(Counter(line.severity for line in lines)),
        "fusions": [line.message[:300] for line in lines if _FUSION.match(line.message)],
        "kernels": [m.group(1)[:200] for line in lines if (m := _KERNEL.match(line.message))],
        "forced_fp32": list(dict.fromkeys(forced)),
        "warnings": group_warnings(lines),  # pyright: ignore[reportReturnType] (dicts of JSON values)
    }


class _Sink:
    """The process-wide logger of one library, and the log that it feeds."""

    def __init__(self, library: Library) -> None:
        self.busy = threading.Lock()
        self.log: BuildLog | None = None
        base = library.module.ILogger
        severity = base.Severity if hasattr(base, "Severity") else library.module.Logger.Severity
        levels = {
            severity.INTERNAL_ERROR: "error",
            severity.ERROR: "error",
            severity.WARNING: "warning",
            severity.INFO: "info",
            severity.VERBOSE: "verbose",
        }
        sink = self

        class Forward(base):  # a class of the loaded library, so it can only be made here
            def __init__(self) -> None:
                base.__init__(self)

            def log(self, level: Any, message: str) -> None:
                current = sink.log
                if current is not None:
                    current.add(levels.get(level, "info"), message)

        self.logger = Forward()


_sinks: dict[str, _Sink] = {}
_sinks_lock = threading.Lock()


def _sink(library: Library) -> _Sink:
    with _sinks_lock:
        if library.kind not in _sinks:
            _sinks[library.kind] = _Sink(library)
        return _sinks[library.kind]
