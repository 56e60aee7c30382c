"""Latency, layer times and builds as Prometheus metrics, read when Prometheus asks.

Nothing is pushed: a scrape reads the reports of the samplers that are watched. Times are in seconds, as Prometheus
wants them. Needs the extra `prometheus`.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Protocol

from trt_lab.errors import UsageError
from trt_lab.profiling.histogram import Collecting, Histogram
from trt_lab.profiling.sampler import Sampled
from trt_lab.profiling.text import whole_text
from trt_lab.record import Record
from trt_lab.tensors.atomic import replacing

try:
    from prometheus_client import REGISTRY, CollectorRegistry, generate_latest, start_http_server
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
except ImportError as error:
    raise UsageError("metrics need prometheus_client: pip install 'trt-lab[prometheus]'") from error

MAX_LAYERS = 50
"""Layers that get a series of their own, the slowest; the others share one."""

OTHERS = "(all others)"

_COUNTER, _GAUGE, _HISTOGRAM = "counter", "gauge", "histogram"

METRICS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "trt_lab_runs": (_COUNTER, "Runs of the engine, sampled or not", ("model",)),
    "trt_lab_failed_runs": (_COUNTER, "Runs that raised an error", ("model",)),
    "trt_lab_latency_seconds": (_HISTOGRAM, "End-to-end time of the sampled runs", ("model",)),
    "trt_lab_layer_seconds": (_HISTOGRAM, "Time of a layer in the profiled runs; the sum is no latency", ("model", "layer")),
    "trt_lab_sampler_overhead_ratio": (_GAUGE, "Share of all time that sampling takes", ("model",)),
    "trt_lab_builds": (_COUNTER, "Engines built", ("model", "backend", "precision", "outcome")),
    "trt_lab_build_seconds": (_HISTOGRAM, "Time of a build", ("model", "backend", "precision")),
}  # fmt: skip
"""Name → kind, help, labels. A counter's samples end in `_total`, a histogram's in `_bucket`, `_sum` and `_count`."""

_FAMILIES: dict[str, type[Metric]] = {
    _COUNTER: CounterMetricFamily,
    _GAUGE: GaugeMetricFamily,
    _HISTOGRAM: HistogramMetricFamily,
}
_LATENCY_STEP, _LAYER_STEP, _BUILD_STEP = 1, 2, 1
"""Octaves a bucket."""


class Reporting(Protocol):
    """What is watched: a `Sampler`."""

    label: str

    def report(self) -> Sampled: ...


class Observed(Protocol):
    """What of a session is used."""

    @property
    def records(self) -> Sequence[Record]: ...
    def observe(self, callback: Callable[[Any], None]) -> Callable[[], None]: ...


class Exporter:
    """Metrics of samplers and builds.

    Args:
        registry: Where they are registered; by default the one of the process.

    Example:
        >>> from prometheus_client import CollectorRegistry
        >>> exporter = Exporter(CollectorRegistry())
        >>> "trt_lab_runs" in exporter.text()
        True
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self._registry = REGISTRY if registry is None else registry
        self._lock = threading.Lock()
        self._samplers: dict[str, Reporting] = {}
        self._builds: dict[tuple[str, str, str, str], int] = defaultdict(int)
        self._build_ms: dict[tuple[str, str, str], Collecting] = defaultdict(Collecting)
        self._registry.register(self)  # pyright: ignore[reportArgumentType] (has `collect`, which is all it needs)

    def watch(self, sampler: Reporting) -> None:
        """Adds a sampler; its label becomes the label `model`.

        Raises:
            UsageError: Another one has the same label.
        """
        with self._lock:
            if self._samplers.setdefault(sampler.label, sampler) is not sampler:
                raise UsageError(f"a sampler called '{sampler.label}' is watched already; give each a label of its own")

    def add_build(self, record: Record) -> None:
        """Counts a build by its record, one that failed as well."""
        meta = record.meta
        model, backend, precision = whole_text(meta.model.name), meta.backend, meta.plan.default
        with self._lock:
            self._builds[model, backend, precision, "ok" if record.ok else "failed"] += 1
            if meta.build_s is not None:
                self._build_ms[model, backend, precision].add(meta.build_s * 1e3)

    def follow(self, session: Observed) -> Callable[[], None]:
        """Counts each engine that a session builds from now on. Returns a function that ends it."""
        seen = len(session.records)

        def changed(change: object) -> None:
            nonlocal seen
            if change == "record":
                new = session.records[seen:]
                seen += len(new)
                for record in new:
                    self.add_build(record)

        return session.observe(changed)

    def serve(self, port: int = 9464, address: str = "127.0.0.1") -> Callable[[], None]:
        """Answers `GET /metrics` in a thread. Returns a function that ends it.

        Raises:
            UsageError: The port is taken, or not allowed.
        """
        try:
            server, thread = start_http_server(port, addr=address, registry=self._registry)
        except (OSError, OverflowError) as error:
            raise UsageError(f"{address}:{port} cannot be served ({error}); choose another port") from error

        def stop() -> None:
            server.shutdown()
            server.server_close()
            thread.join()

        return stop

    def text(self) -> str:
        """All metrics of the registry in Prometheus' text format."""
        return generate_latest(self._registry).decode("utf-8")

    def close(self) -> None:
        """Takes the metrics out of the registry."""
        self._registry.unregister(self)  # pyright: ignore[reportArgumentType] (as above)

    @staticmethod
    def write_dashboard(path: str | Path) -> Path:
        """Writes the dashboard for Grafana, to be imported there. Returns its path.

        Raises:
            RecordError: It cannot be written.
        """
        target = Path(path).expanduser()
        with replacing(target) as file:
            file.write(resources.files("trt_lab.profiling").joinpath("grafana.json").read_bytes())
        return target

    # --- for prometheus_client ---------------------------------------------------------------

    def describe(self) -> Iterator[Metric]:
        """Names and kinds, so that a clash is found when it is registered."""
        yield from (_family(name) for name in METRICS)

    def collect(self) -> Iterator[Metric]:
        """Called at each scrape."""
        with self._lock:
            reports = [sampler.report() for sampler in self._samplers.values()]
            builds = dict(self._builds)
            build_ms = {key: found.snapshot() for key, found in self._build_ms.items()}
        families = {name: _family(name) for name in METRICS}
        for report in reports:
            _add_report(families, report)
        for labels, count in builds.items():
            families["trt_lab_builds"].add_metric(list(labels), count)
        for labels, histogram in build_ms.items():
            _add_histogram(families["trt_lab_build_seconds"], labels, histogram, _BUILD_STEP)
        yield from families.values()


def _family(name: str) -> Any:
    kind, text, labels = METRICS[name]
    return _FAMILIES[kind](name, text, labels=labels)  # type: ignore[call-arg]  # all three take them


def _add_report(families: Mapping[str, Any], report: Sampled) -> None:
    model = whole_text(report.label)
    families["trt_lab_runs"].add_metric([model], report.runs)
    families["trt_lab_failed_runs"].add_metric([model], report.failed)
    _add_histogram(families["trt_lab_latency_seconds"], (model,), report.latency, _LATENCY_STEP)
    if report.overhead_share is not None:
        families["trt_lab_sampler_overhead_ratio"].add_metric([model], report.overhead_share)
    slowest = sorted(report.layers, key=lambda name: -report.layers[name].sum_ms)
    shown = slowest if len(slowest) <= MAX_LAYERS else slowest[:MAX_LAYERS]
    for layer in shown:
        _add_histogram(families["trt_lab_layer_seconds"], (model, whole_text(layer)), report.layers[layer], _LAYER_STEP)
    if rest := slowest[len(shown) :]:
        together = _together([report.layers[layer] for layer in rest])
        _add_histogram(families["trt_lab_layer_seconds"], (model, OTHERS), together, _LAYER_STEP)


def _together(histograms: Sequence[Histogram]) -> Histogram:
    counts: dict[int, int] = defaultdict(int)
    for histogram in histograms:
        for bucket, count in histogram.counts.items():
            counts[bucket] += count
    return Histogram(dict(counts), sum(h.count for h in histograms), sum(h.sum_ms for h in histograms))


def _add_histogram(family: Any, labels: Sequence[str], histogram: Histogram, octaves: int) -> None:
    steps = histogram.up_to(octaves)
    buckets = [(f"{end / 1e3:.6g}", count) for end, count in steps[:-1]] + [("+Inf", histogram.count)]
    family.add_metric(list(labels), buckets=buckets, sum_value=histogram.sum_ms / 1e3)
