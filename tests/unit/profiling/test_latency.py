"""Layer sum and latency: two numbers, and a difference that is explained exactly where all was measured."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest

from trt_lab.profiling.latency import account_latency
from trt_lab.profiling.source import Engine, open_engine
from trt_lab.types import JsonValue, LayerInfo, LayerTime

DATA = Path(__file__).resolve().parents[2] / "data" / "gpu"


def engine(
    times: list[tuple[float, float | None]],
    *,
    latency: tuple[float, ...] = (),
    profiled: float | None = None,
    streams: tuple[int | None, ...] = (),
) -> Engine:
    """An engine of (ms, start)."""
    facts: dict[str, JsonValue] = {} if profiled is None else {"profiler": {"profiled_ms": profiled}}
    layers = tuple(LayerInfo(i, f"l{i}", "kgen", stream=streams[i] if streams else None) for i, _ in enumerate(times))
    made = tuple(LayerTime(i, f"l{i}", ms, ms, start_ms=start) for i, (ms, start) in enumerate(times))
    return Engine("made", None, "record", "trt10", layers, made, latency, facts=facts)


def test_the_parts_explain_the_difference_exactly() -> None:
    """Two layers overlap for 1 ms, none runs for 2 ms, the profiler costs 3 ms."""
    account = account_latency(engine([(4.0, 0.0), (3.0, 3.0), (2.0, 8.0)], latency=(7.0, 7.0, 9.0), profiled=10.0))
    assert (account.layers_ms, account.end_to_end_ms, account.difference_ms) == (9.0, 7.0, 2.0)
    assert (account.overhead_ms, account.overlap_ms, account.gaps_ms) == (3.0, 1.0, 2.0)
    assert account.overhead_ms is not None
    assert account.overlap_ms is not None
    assert account.gaps_ms is not None
    assert account.overhead_ms + account.overlap_ms - account.gaps_ms == account.difference_ms


def test_on_one_stream_nothing_overlaps() -> None:
    account = account_latency(engine([(1.0, None), (2.0, None)], latency=(2.5,), profiled=3.5, streams=(0, 0)))
    assert (account.overlap_ms, account.gaps_ms, account.overhead_ms) == (0.0, 0.5, 1.0)


def test_what_was_not_measured_is_none_and_said() -> None:
    account = account_latency(engine([(1.0, None), (2.0, None)], latency=(2.5,), streams=(0, 1)))
    assert (account.overlap_ms, account.gaps_ms, account.overhead_ms) == (None, None, None)
    assert account.difference_ms == 0.5
    assert any("not measured" in line for line in account.words)
    below = account_latency(engine([(1.0, None)], latency=(2.5,)))
    assert any("gaps: at least 1.5 ms" in line for line in below.words)


def test_c39_a_sum_of_layers_is_never_called_latency() -> None:
    account = account_latency(engine([(1.0, None)]))
    assert (account.layers_ms, account.end_to_end_ms, account.difference_ms) == (1.0, None, None)
    assert account.words == ("layers sum to 1 ms; the end-to-end latency was not measured, and the sum is not it",)
    assert account_latency(Engine("x", None, "layers", "trt10", ())).layers_ms is None


@pytest.mark.parametrize("name", ["encoder4-fp32", "encoder4-fp16", "ppocr_det-fp16"])
def test_recorded_engines(name: str) -> None:
    opened = open_engine(DATA / f"{name}.trtlab")
    account = account_latency(opened)
    assert account.end_to_end_ms == median(opened.latency_ms)
    runs = [sum(time.runs_ms[i] for time in opened.times) for i in range(20)]
    assert account.layers_ms == pytest.approx(median(runs))
    assert account.difference_ms == pytest.approx(median(runs) - median(opened.latency_ms))
    assert account.as_json()["words"] == list(account.words)
