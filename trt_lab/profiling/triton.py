"""Metrics of a Triton Inference Server, from the text that it serves at `/metrics`.

Sources: "Metrics" in Triton's user guide (names, units, what is counted), and Prometheus' text exposition format. The
text is given, not fetched: `curl localhost:8002/metrics > triton.txt`. Durations are sums over requests, in µs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trt_lab.errors import RecordError
from trt_lab.profiling.source import Engine

COUNTS = {
    "requests": "nv_inference_request_success",
    "failures": "nv_inference_request_failure",
    "inferences": "nv_inference_count",
    "executions": "nv_inference_exec_count",
}
"""Figure of a model → its metric."""

DURATIONS = {
    "request_ms": "nv_inference_request_duration_us",
    "queue_ms": "nv_inference_queue_duration_us",
    "compute_input_ms": "nv_inference_compute_input_duration_us",
    "compute_infer_ms": "nv_inference_compute_infer_duration_us",
    "compute_output_ms": "nv_inference_compute_output_duration_us",
}
"""Average of a request → the metric with its sum."""

_LINE = re.compile(
    r"(?P<name>[A-Za-z_:][\w:]*)\s*(?:\{(?P<labels>.*)\})?\s+(?P<value>[^\s{}]+)(?:\s+(?P<time>-?\d+))?\s*", re.ASCII
)
_LABEL = re.compile(r'\s*(?P<name>[A-Za-z_]\w*)\s*=\s*"(?P<value>(?:[^"\\]|\\.)*)"\s*(?:,|$)', re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|[iI]nf(?:inity)?|[nN]a[nN])", re.ASCII)
_ESCAPED = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}
_SHOWN_BAD = 5
_LARGEST = 2.0**63
"""Counters have 64 bits; what is negative, larger or no number is none."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One line: a metric, its labels, its value. `kind` is that of its TYPE line, None without one."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float
    kind: str | None = None


@dataclass(frozen=True)
class ModelMetrics:
    """What a server tells of one version of a model.

    Attributes:
        requests, failures, inferences, executions: Since the server started, or since the earlier scrape. None: not told.
        request_ms, queue_ms, compute_input_ms, compute_infer_ms, compute_output_ms: Average of a request that was
            answered; None where there was none.
    """

    model: str
    version: str
    requests: int | None
    failures: int | None
    inferences: int | None
    executions: int | None
    request_ms: float | None
    queue_ms: float | None
    compute_input_ms: float | None
    compute_infer_ms: float | None
    compute_output_ms: float | None

    @property
    def batch(self) -> float | None:
        """Average batch: inferences of an execution."""
        return self.inferences / self.executions if self.inferences is not None and self.executions else None


@dataclass(frozen=True)
class TritonMetrics:
    """A read text. `notes` tell the lines that are none, with their numbers."""

    samples: tuple[Sample, ...]
    notes: tuple[str, ...] = ()

    def rows(self) -> list[dict[str, Any]]:
        """One row a sample, for a DataFrame; labels as a mapping."""
        return [{"name": s.name, "kind": s.kind, "labels": dict(s.labels), "value": s.value} for s in self.samples]

    def models(self) -> tuple[ModelMetrics, ...]:
        """Each version of each model, by name."""
        sums: dict[tuple[str, str], dict[str, float]] = {}
        wanted = {*COUNTS.values(), *DURATIONS.values()}
        for sample in self.samples:
            labels = dict(sample.labels)
            if sample.name in wanted and "model" in labels and 0 <= sample.value < _LARGEST:
                found = sums.setdefault((labels["model"], labels.get("version", "")), {})
                found[sample.name] = found.get(sample.name, 0.0) + sample.value  # failures are told by reason
        return tuple(_model(model, version, found) for (model, version), found in sorted(sums.items()))

    def since(self, earlier: TritonMetrics) -> TritonMetrics:
        """What was counted between two scrapes. A counter that went down began anew, as its server did."""
        before = {(s.name, s.labels): s.value for s in earlier.samples}
        samples, anew = [], []
        for s in self.samples:
            old = before.get((s.name, s.labels), 0.0)
            if s.kind == "gauge":
                samples.append(s)
            elif s.value < old:
                anew.append(s.name)
                samples.append(s)
            else:
                samples.append(Sample(s.name, s.labels, s.value - old, s.kind))
        notes = (
            (f"'{anew[0]}' went down: the server was started anew in between, and its count begins there",)
            if anew
            else ()
        )
        return TritonMetrics(tuple(samples), (*self.notes, *notes))


def read_triton_metrics(path: str | os.PathLike[str]) -> TritonMetrics:
    """Reads a saved answer of `/metrics`. Raises RecordError when it cannot be read, or holds no metric at all."""
    try:
        data = Path(path).expanduser().read_bytes()
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror or error}; check the path") from error
    return parse_triton_metrics(data.decode("utf-8-sig", "replace"), str(path))


def parse_triton_metrics(text: str, name: str = "metrics") -> TritonMetrics:
    """Parses Prometheus' text format; lines that are none are left out and told.

    Raises:
        RecordError: No line is a metric; names the first bad line.
    """
    samples: list[Sample] = []
    kinds: dict[str, str] = {}
    bad: list[tuple[int, str]] = []
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip(" \t\r")
        if not line:
            continue
        if line.startswith("#"):
            words = line.split(None, 3)
            if len(words) == 4 and words[1] == "TYPE":
                kinds[words[2]] = words[3].strip()
            continue
        sample = _sample(line, kinds)
        if sample is None:
            bad.append((number, line))
        else:
            samples.append(sample)
    if not samples:
        place = f"line {bad[0][0]} is {bad[0][1][:60]!r}" if bad else "there is none"
        raise RecordError(f"{name}: no line is a metric ({place}); save the answer of Triton's /metrics")
    notes = [f"line {number} is no metric: {line[:60]!r}" for number, line in bad[:_SHOWN_BAD]]
    if len(bad) > _SHOWN_BAD:
        notes.append(f"{len(bad) - _SHOWN_BAD} more lines are no metrics")
    if not any(sample.name.startswith("nv_") for sample in samples):
        notes.append("no metric is Triton's (nv_…): is it the text of another server?")
    return TritonMetrics(tuple(samples), tuple(notes))


def beside(metrics: TritonMetrics, engines: Iterable[Engine]) -> list[dict[str, Any]]:
    """One row a served model, the engine of the same name (its label) beside it.

    `compute_infer_ms` is the server's average of a request; `latency_ms` and `layer_sum_ms` are the engine's own, measured
    apart. `outside_ms` is what a request spends outside of the engine's latency: queue, copies, the server itself.
    """
    known = {engine.label: engine for engine in engines}
    rows = []
    for model in metrics.models():
        engine = known.get(model.model)
        latency = engine.median_latency_ms if engine is not None else None
        outside = None if latency is None or model.request_ms is None else model.request_ms - latency
        rows.append(
            {**{key: getattr(model, key) for key in ("model", "version", *COUNTS, *DURATIONS, "batch")}}
            | {"latency_ms": latency, "layer_sum_ms": engine.layer_sum_ms if engine else None, "outside_ms": outside}
        )
    return rows


def _model(model: str, version: str, found: Mapping[str, float]) -> ModelMetrics:
    counts = [int(found[name]) if name in found else None for name in COUNTS.values()]
    requests = counts[0]
    averages = [found[name] / 1e3 / requests if name in found and requests else None for name in DURATIONS.values()]
    return ModelMetrics(model, version, *counts, *averages)


def _sample(line: str, kinds: Mapping[str, str]) -> Sample | None:
    match = _LINE.fullmatch(line)
    if match is None or not _NUMBER.fullmatch(match["value"]):
        return None
    labels = _labels(match["labels"] or "")
    if labels is None:
        return None
    return Sample(match["name"], labels, float(match["value"]), _kind(match["name"], kinds))


def _kind(name: str, kinds: Mapping[str, str]) -> str | None:
    if name in kinds:
        return kinds[name]
    return next(
        (kinds[name.removesuffix(end)] for end in ("_sum", "_count", "_bucket") if name.removesuffix(end) in kinds),
        None,
    )


def _labels(text: str) -> tuple[tuple[str, str], ...] | None:
    """Labels by name; None where the text is not a list of them."""
    found, at = {}, 0
    while at < len(text):
        match = _LABEL.match(text, at)
        if match is None:
            return None if text[at:].strip() else tuple(sorted(found.items()))
        found[match["name"]] = re.sub(r"\\.", lambda m: _ESCAPED.get(m[0], m[0]), match["value"])
        at = match.end()
    return tuple(sorted(found.items()))
