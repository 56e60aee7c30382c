"""`trt-lab build` where the engine has nothing of the type asked for (C33)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trt_lab.cli.build import _tell
from trt_lab.compare.observer import Observation
from trt_lab.record import Record

GPU = Path(__file__).resolve().parents[2] / "data" / "gpu"
SEEN = Observation("neutral", {}, 1, 1)
LINE = "requested FP16; 0 of 12 layer tensors are half"


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        ({"precision_met": False, "precision_line": LINE}, 1),
        ({"precision_met": True, "precision_line": "requested FP16; 3 of 12 layer tensors are half"}, 0),
        ({"precision_met": None, "precision_line": None}, 0),
    ],
)
def test_c33_fp16_asked_and_fp32_built_is_a_finding(
    capsys: pytest.CaptureFixture[str], facts: dict[str, object], code: int
) -> None:
    record = Record.open(GPU / "encoder4-fp32.trtlab")
    record.meta.facts.update(facts)
    assert _tell(record, SEEN, [], (), json=False) == code
    said = capsys.readouterr().out
    assert (f"✗ {LINE}" in said) is (code == 1)
    assert _tell(record, SEEN, [], (), json=True) == code
    told = json.loads(capsys.readouterr().out)
    assert (told["precision_met"], told["precision_line"]) == (facts["precision_met"], facts["precision_line"])


def test_an_engine_of_the_cache_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    record = Record.open(GPU / "encoder4-fp32.trtlab")
    record.meta.facts["engine_cache"] = {"state": "hit", "built_s": 57.8}
    _tell(record, SEEN, [], (), json=False)
    assert "taken from the engine cache, built before in 57.80 s" in capsys.readouterr().out
    _tell(record, SEEN, [], (), json=True)
    assert json.loads(capsys.readouterr().out)["engine_cache"] == "hit"
