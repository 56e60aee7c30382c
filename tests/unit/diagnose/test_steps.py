"""The steps of a search, read while they are written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trt_lab.diagnose.journal import STEPS_FILE, Journal
from trt_lab.diagnose.locate import Trial
from trt_lab.diagnose.steps import Search
from trt_lab.errors import UsageError
from trt_lab.graph import GraphView
from trt_lab.model import Model
from trt_lab.session import Session
from trt_lab.types import NodeId, TensorId

A, B = NodeId("/a, [1]"), NodeId('/"b"')


def told(search: Search) -> list[tuple[str, str, int]]:
    return [(step.what, step.state, step.builds) for step in search.steps()]


def test_steps_are_told_as_they_begin_and_end(tmp_path: Path) -> None:
    search = Search(tmp_path, "fp16")
    assert search.steps() == ()
    journal = Journal(tmp_path, {"model": "m"})

    def watched() -> dict:
        assert told(search)[-1][1] == "running"
        return {"passes": False, "max_abs": 2.5}

    journal.step(f"try {json.dumps([A, B])}", watched)
    journal.step("errors", lambda: {"local": []})
    journal.step("build onnxruntime []", lambda: "/records/1")
    journal.step("build tensorrt fp32 []", lambda: "/records/2")
    journal.step(f"build tensorrt {json.dumps([A])}", lambda: "/records/3")
    assert told(search) == [
        ("try", "fails", 0), ("errors of every tensor", "done", 0),
        ("run emulated", "done", 0), ("build tensorrt fp32", "done", 1), ("build tensorrt", "done", 1),
    ]  # fmt: skip
    first = search.steps()[0]
    assert (first.keep_fp32, first.error) == ((A, B), 2.5)
    engine = search.steps([Trial((A,), True, 0.1, builds=1)])[-1]
    assert (engine.state, engine.error, engine.keep_fp32) == ("passes", 0.1, (A,))


def test_a_line_that_is_half_written_is_left_for_the_next_time(tmp_path: Path) -> None:
    search = Search(tmp_path, "fp16")
    line = json.dumps({"step": "try []", "state": "ended", "result": {"passes": True, "max_abs": 0.0}})
    (tmp_path / STEPS_FILE).write_text(line[:20])
    assert search.steps() == ()
    (tmp_path / STEPS_FILE).write_text(
        line + "\nno json\n[1]\n" + json.dumps({"step": "try [", "state": "begun"}) + "\n"
    )
    assert told(search) == [("try", "passes", 0), ("try [", "running", 0)]
    search.state = "stopped"
    assert told(search) == [("try", "passes", 0), ("try [", "none", 0)]


def test_a_session_tells_its_search_and_exports_the_repaired_model(tmp_path: Path) -> None:
    lab = Session("zoo:l2norm_overflow", records=tmp_path)
    with pytest.raises(UsageError, match="no repaired model"):
        lab.export_repaired(tmp_path / "fixed.onnx")
    lab.use(precision="fp16")
    with pytest.raises(UsageError, match="no search was stopped"):
        lab.start_locate(resume=True)
    finding = lab.locate(artifacts=tmp_path / "steps")
    assert lab.search is not None and lab.search.state == "ended"
    tried = [step for step in lab.search.steps() if step.what == "try"]
    assert {step.state for step in tried} == {"passes", "fails"}
    assert finding.keep_fp32 in [step.keep_fp32 for step in tried if step.state == "passes"]
    assert sum(step.builds for step in lab.search.steps()) == 0
    fixed = lab.export_repaired(tmp_path / "fixed.onnx")
    tensors = GraphView.of(Model.load(fixed)).tensors
    assert tensors[TensorId("/Mul_output_0")].dtype == "float32"
    assert "float16" in {tensor.dtype for tensor in tensors.values()}
    assert f"lab.export_repaired({str(fixed)!r})" in lab.code
