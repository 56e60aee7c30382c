"""What results say of engines that were recorded on an H200."""

from __future__ import annotations

from pathlib import Path

import pytest

from trt_lab.record import Record
from trt_lab.results import count_low, sum_of_medians_ms, types_line

GPU = Path(__file__).resolve().parents[1] / "data" / "gpu"


def record(name: str) -> Record:
    return Record.open(GPU / f"{name}.trtlab")


def test_asked_for_half_the_true_types_are_said() -> None:
    half, full = record("encoder4-fp16").layers, record("encoder4-fp32").layers
    line, low = types_line(half, "fp16")
    told = count_low(half, "fp16")[1]
    assert low is not None and 0 < low <= told and line == f"asked FP16, {low} of {told} layers are half"
    line, low = types_line(full, "fp16")
    assert low == 0 and line.startswith("asked FP16, 0 of ") and line.endswith("layers are half")
    assert types_line((), "bf16") == ("asked BF16; the engine does not tell the types of its layers", None)


def test_the_layer_sum_is_the_sum_of_the_medians() -> None:
    engine = record("l2norm_overflow-fp16")
    total = sum_of_medians_ms(engine)
    assert total == pytest.approx(sum(time.median_ms or time.average_ms for time in engine.times))
    assert total != pytest.approx(sorted(engine.latency_ms)[len(engine.latency_ms) // 2]), "two numbers, not one"
    assert sum_of_medians_ms(record("l2norm_overflow-reference")) is None
