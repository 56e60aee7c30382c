"""What a record says of itself in a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trt_lab.record import Record
from trt_lab.record.html import facts_of

GPU = Path(__file__).resolve().parents[2] / "data" / "gpu"


@pytest.mark.parametrize(
    ("engine_cache", "said"),
    [
        ({"state": "hit", "built_s": 57.8}, "hit, built before in 57.8 s"),
        ({"state": "miss", "built_s": None}, "miss: built anew"),
        ({"state": "off"}, None),
        (None, None),
    ],
)
def test_whether_the_engine_was_taken_from_the_cache(engine_cache: Any, said: str | None) -> None:
    record = Record.open(GPU / "encoder4-fp16.trtlab")
    record.meta.facts["engine_cache"] = engine_cache
    assert dict(facts_of(record)).get("engine cache") == said


def test_what_the_profiler_costs() -> None:
    record = Record.open(GPU / "encoder4-fp16.trtlab")
    assert "profiler" not in dict(facts_of(record))
    record.meta.facts["profiler"] = {"line": "layers sum to 0.3 ms"}
    assert dict(facts_of(record))["profiler"] == "layers sum to 0.3 ms"
