from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from trt_lab.backends.base import Profile
from trt_lab.errors import UsageError
from trt_lab.profiling import triton
from trt_lab.profiling.exporter import MAX_LAYERS, METRICS, OTHERS, Exporter
from trt_lab.profiling.sampler import Sampler
from trt_lab.record import Record
from trt_lab.types import LayerTime

DATA = Path(__file__).resolve().parents[2] / "data" / "gpu"
ENDS = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
SAMPLES = {name + end for name, (kind, _, _) in METRICS.items() for end in ENDS[kind]}


class Runner:
    def __init__(self, layers: int) -> None:
        self.layers = layers

    def run(self, feeds: Any) -> Any:
        return feeds

    def profile(self, feeds: Any, repeats: int) -> Profile:
        times = [LayerTime(i, f'layer "{i}"\n\ud800', 1.0 + i, None, (1.0 + i,)) for i in range(self.layers)]
        return Profile(tuple(times), ())

    def close(self) -> None: ...


def values(exporter: Exporter) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Samples as an independent reader of the format sees them."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(exporter.text())
        for sample in family.samples
    }


def sampled(layers: int = 2, label: str = "m", runs: int = 4) -> Sampler[Any, Any]:
    sampler: Sampler[Any, Any] = Sampler(Runner(layers), every=1, profile_every=2, label=label, max_overhead=1.0)
    sampler._max_overhead = 1e9  # runs of no length: any profile is too dear
    for _ in range(runs):
        sampler({})
    return sampler


def test_a_scrape_tells_what_the_sampler_saw() -> None:
    exporter = Exporter(CollectorRegistry())
    exporter.watch(sampled())
    found = values(exporter)
    assert found["trt_lab_runs_total", (("model", "m"),)] == 4
    assert found["trt_lab_latency_seconds_count", (("model", "m"),)] == 4
    layer = (("layer", 'layer "1"\n?'), ("model", "m"))
    assert found["trt_lab_layer_seconds_count", layer] == 2
    assert found["trt_lab_layer_seconds_sum", layer] == pytest.approx(0.004)
    buckets = {
        dict(key[1])["le"]: v
        for key, v in found.items()
        if key[0] == "trt_lab_layer_seconds_bucket" and layer[0] in key[1]
    }
    assert list(buckets.values()) == sorted(buckets.values()) and buckets["+Inf"] == 2
    assert {float(end): v for end, v in buckets.items() if 0.002 < float(end) < 0.02} == {0.004096: 2, 0.016384: 2}
    assert 0 < found["trt_lab_sampler_overhead_ratio", (("model", "m"),)] < 1


def test_names_are_exactly_those_declared() -> None:
    exporter = Exporter(CollectorRegistry())
    exporter.watch(sampled())
    exporter.add_build(Record.open(DATA / "encoder4-fp16.trtlab"))
    assert {name for name, _ in values(exporter)} == SAMPLES


def test_many_layers_share_one_series() -> None:
    exporter = Exporter(CollectorRegistry())
    exporter.watch(sampled(layers=MAX_LAYERS + 7, runs=2))
    found = values(exporter)
    counts = {dict(key[1])["layer"]: v for key, v in found.items() if key[0] == "trt_lab_layer_seconds_count"}
    assert len(counts) == MAX_LAYERS + 1
    assert counts[OTHERS] == 7
    assert found["trt_lab_layer_seconds_sum", (("layer", OTHERS), ("model", "m"))] == pytest.approx(
        sum(range(1, 8)) / 1e3
    )


def test_builds_of_a_session_are_counted_once() -> None:
    good = Record.open(DATA / "encoder4-fp16.trtlab")
    callbacks: list[Callable[[Any], None]] = []
    session = SimpleNamespace(records=[good], observe=lambda callback: (callbacks.append(callback), callbacks.clear)[1])
    exporter = Exporter(CollectorRegistry())
    stop = exporter.follow(session)  # type: ignore[arg-type]
    session.records = [good, good]
    for change in ("status", "record", "record"):
        callbacks[0](change)
    labels = {"model": good.meta.model.name, "backend": "tensorrt", "precision": "fp16"}
    found = values(exporter)
    assert found["trt_lab_builds_total", tuple(sorted({**labels, "outcome": "ok"}.items()))] == 1
    assert found["trt_lab_build_seconds_sum", tuple(sorted(labels.items()))] == pytest.approx(good.meta.build_s)
    stop()
    assert not callbacks


def test_two_samplers_of_one_name_are_refused() -> None:
    exporter = Exporter(CollectorRegistry())
    one = sampled()
    exporter.watch(one)
    exporter.watch(one)
    with pytest.raises(UsageError, match="called 'm' is watched already"):
        exporter.watch(sampled())


def test_served_over_http_and_closed() -> None:
    registry = CollectorRegistry()
    exporter = Exporter(registry)
    exporter.watch(sampled())
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.listen()
        with pytest.raises(UsageError, match="choose another port"):
            exporter.serve(port)
    stop = exporter.serve(port)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        assert b'trt_lab_runs_total{model="m"} 4.0' in answer.read()
    stop()
    exporter.close()
    Exporter(registry).close()  # the names are free again


# --- dashboard -----------------------------------------------------------------------------


def expressions(dashboard: dict[str, Any]) -> list[str]:
    targets = [t["expr"] for panel in dashboard["panels"] for t in panel.get("targets", ())]
    return targets + [v["definition"] for v in dashboard["templating"]["list"] if v["type"] == "query"]


def test_dashboard_asks_only_for_metrics_that_are_there(tmp_path: Path) -> None:
    dashboard = json.loads(Exporter.write_dashboard(tmp_path / "g.json").read_text(encoding="utf-8"))
    asked = {name for text in expressions(dashboard) for name in re.findall(r"\b(?:trt_lab|nv)_\w+", text)}
    ours = {name for name in asked if name.startswith("trt_lab_")}
    assert ours <= SAMPLES
    assert {name for name in SAMPLES if not name.endswith(("_sum", "_count", "_bucket"))} <= ours, "shown on no panel"
    assert asked - ours <= {*triton.COUNTS.values(), *triton.DURATIONS.values()}
    labels = {label for text in expressions(dashboard) for label in re.findall(r"\{\{(\w+)\}\}", json.dumps(text))}
    assert labels <= {label for _, _, names in METRICS.values() for label in names} | {"version"}


def test_dashboard_is_one_that_grafana_imports() -> None:
    dashboard = json.loads((Path(triton.__file__).parent / "grafana.json").read_text(encoding="utf-8"))
    assert dashboard["schemaVersion"] >= 36 and dashboard["title"] and dashboard["uid"]
    assert dashboard.get("id") is None
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    cells: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        mine = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24 and not cells & mine, f"{panel['title']} lies on another panel"
        cells |= mine
        if panel["type"] != "row":
            assert panel["datasource"]["uid"] == "${datasource}"
            refs = [target["refId"] for target in panel["targets"]]
            assert len(set(refs)) == len(refs) > 0
    for text in expressions(dashboard):
        assert text.count("(") == text.count(")") and text.count("{") == text.count("}")


def test_without_the_extra_one_line_says_how_to_get_it() -> None:
    code = (
        "import sys; sys.modules['prometheus_client'] = None\n"
        "import trt_lab\n"
        "try: trt_lab.Exporter\n"
        "except trt_lab.UsageError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "metrics need prometheus_client: pip install 'trt-lab[prometheus]'"
