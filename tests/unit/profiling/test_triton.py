from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, generate_latest

from trt_lab.errors import RecordError
from trt_lab.profiling.source import Engine
from trt_lab.profiling.triton import beside, parse_triton_metrics, read_triton_metrics
from trt_lab.types import LayerTime

TEXT = """\
# HELP nv_inference_request_success Number of successful inference requests, all batch sizes
# TYPE nv_inference_request_success counter
nv_inference_request_success{model="resnet",version="1"} 200
nv_inference_request_success{model="resnet",version="2"} 0
# TYPE nv_inference_request_failure counter
nv_inference_request_failure{model="resnet",version="1",reason="REJECTED"} 2
nv_inference_request_failure{model="resnet",version="1",reason="OTHER"} 1
# TYPE nv_inference_count counter
nv_inference_count{model="resnet",version="1"} 800
# TYPE nv_inference_exec_count counter
nv_inference_exec_count{model="resnet",version="1"} 100
# TYPE nv_inference_request_duration_us counter
nv_inference_request_duration_us{model="resnet",version="1"} 1.2e+06
nv_inference_queue_duration_us{model="resnet",version="1"} 300000
nv_inference_compute_infer_duration_us{model="resnet",version="1"} 700000
# TYPE nv_gpu_utilization gauge
nv_gpu_utilization{gpu_uuid="GPU-1"} 0.37 1395066363000
# TYPE nv_inference_first_response_histogram_ms histogram
nv_inference_first_response_histogram_ms_bucket{model="resnet",version="1",le="+Inf"} 3
"""


def test_figures_of_each_model_and_what_is_not_told_is_missing() -> None:
    one, two = parse_triton_metrics(TEXT).models()
    assert (one.model, one.version, one.requests, one.failures, one.inferences, one.executions) == (
        "resnet", "1", 200, 3, 800, 100,
    )  # fmt: skip
    assert (one.request_ms, one.queue_ms, one.compute_infer_ms, one.compute_input_ms) == (6.0, 1.5, 3.5, None)
    assert one.batch == 8.0
    assert (two.requests, two.failures, two.request_ms, two.batch) == (0, None, None, None)


def test_rows_hold_every_line() -> None:
    rows = parse_triton_metrics(TEXT).rows()
    assert len(rows) == 11
    assert rows[-2] == {"name": "nv_gpu_utilization", "kind": "gauge", "labels": {"gpu_uuid": "GPU-1"}, "value": 0.37}
    assert rows[-1]["kind"] == "histogram"


def test_bad_lines_are_told_by_number_and_the_rest_is_read(tmp_path: Path) -> None:
    path = tmp_path / "m.txt"
    path.write_text(TEXT + 'nv_bad{model="x" 3\nnv_bad two\n<html>\n' + 'nv_good{model="a\\"}\\n",} NaN\n')
    found = read_triton_metrics(path)
    assert found.notes == (
        "line 20 is no metric: 'nv_bad{model=\"x\" 3'",
        "line 21 is no metric: 'nv_bad two'",
        "line 22 is no metric: '<html>'",
    )
    assert found.samples[-1].labels == (("model", 'a"}\n'),) and math.isnan(found.samples[-1].value)
    many = parse_triton_metrics(TEXT + "junk!\n" * 9)
    assert len(many.notes) == 6 and many.notes[-1] == "4 more lines are no metrics"


@pytest.mark.parametrize("text", ["", "# HELP only\n", "<html>not found</html>", "\x00\xff"])
def test_text_without_a_metric_is_refused(text: str) -> None:
    with pytest.raises(RecordError, match="save the answer of Triton's /metrics"):
        parse_triton_metrics(text)


def test_another_server_is_told() -> None:
    found = parse_triton_metrics("process_cpu_seconds_total 3\n")
    assert found.models() == () and "is it the text of another server?" in found.notes[0]
    with pytest.raises(RecordError, match="cannot be read"):
        read_triton_metrics("no/such/file")


def test_difference_of_two_scrapes() -> None:
    first = parse_triton_metrics(TEXT)
    later = TEXT.replace("} 200\n", "} 300\n").replace("1.2e+06", "2.2e+06").replace(" 800\n", " 50\n")
    between = parse_triton_metrics(later).since(first)
    one = between.models()[0]
    assert (one.requests, one.request_ms, one.inferences, one.executions) == (100, 10.0, 50, 0)
    assert one.batch is None
    assert between.notes[0].startswith("'nv_inference_count' went down: the server was started anew")
    gauge = next(s for s in between.samples if s.name == "nv_gpu_utilization")
    assert gauge.value == 0.37


def test_engine_of_the_same_name_stands_beside() -> None:
    engine = Engine("resnet", None, "record", None, (), (LayerTime(0, "a", 2.0, None),), (1.0, 3.0, 2.0))
    one, two = beside(parse_triton_metrics(TEXT), [engine])
    assert (one["latency_ms"], one["layer_sum_ms"], one["outside_ms"], one["compute_infer_ms"]) == (2.0, 2.0, 4.0, 3.5)
    assert two["outside_ms"] is None
    assert beside(parse_triton_metrics(TEXT), [])[0]["latency_ms"] is None


@given(st.dictionaries(st.text(max_size=12), st.floats(0, 1e12), min_size=1, max_size=5))
def test_what_another_writer_escapes_is_read_back(labels: dict[str, float]) -> None:
    registry = CollectorRegistry()
    counter = Counter("nv_inference_count", "text", ["model"], registry=registry)
    for label, value in labels.items():
        counter.labels(label.encode("utf-8", "replace").decode()).inc(value)
    found = parse_triton_metrics(generate_latest(registry).decode())
    read = {dict(s.labels)["model"]: s.value for s in found.samples if s.name == "nv_inference_count_total"}
    assert read == {label.encode("utf-8", "replace").decode(): value for label, value in labels.items()}
    assert not [note for note in found.notes if "no metric:" in note]


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_triton_metrics(text)
    except RecordError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize("value", ["-5", "1e308", "NaN", "+Inf"])
def test_counters_that_cannot_be_are_not_told(value: str) -> None:
    text = "\n".join(f'{name}{{model="m"}} {value}' for name in ("nv_inference_count", "nv_inference_exec_count"))
    read = parse_triton_metrics(text + '\nnv_inference_request_success{model="m"} 4')
    (model,) = read.models()
    assert (model.requests, model.inferences, model.executions, model.batch) == (4, None, None, None)
