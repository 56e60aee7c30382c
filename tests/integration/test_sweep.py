"""A sweep, a sampler and their metrics through the session and the process of the jobs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from prometheus_client import CollectorRegistry

import trt_lab
from trt_lab.errors import CancelledError, UsageError
from trt_lab.types import Progress


@pytest.fixture
def lab(tmp_path: Path) -> trt_lab.Session:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, "H", "W"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    weights = helper.make_tensor("w", TensorProto.FLOAT, [4, 3, 3, 3], np.full(108, 0.1, np.float32))
    node = helper.make_node("Conv", ["x", "w"], ["y"], "/conv/Conv")
    graph = helper.make_graph([node], "g", [x], [y], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    return trt_lab.Session(model, records=tmp_path)


def test_sweep_of_a_session(lab: trt_lab.Session) -> None:
    found = lab.sweep(["1x3x64x64", "1x3x63x63", "1x3x2x2"], repeats=6)
    assert found.frame["size"].tolist() == ["1x3x64x64", "1x3x63x63", "1x3x2x2"]
    assert found.frame["median_ms"].isna().tolist() == [False, False, True]
    assert found.flagged[-1].flags[0].startswith("did not run: ")
    assert found.headline.startswith(f"{lab.model.name} on onnxruntime: 3 sizes, ")
    assert "lab.sweep(['1x3x64x64', '1x3x63x63', '1x3x2x2'])" in lab.code
    assert not lab.building and lab.records == ()
    html = found._repr_html_()
    assert "<script" not in html and "1x3x64x64" in html and "did not run" in repr(found)


def test_proposed_profiles_are_taken_by_the_line_that_is_given(lab: trt_lab.Session) -> None:
    found = lab.sweep(["1x3x16x16", "8x3x128x128"], repeats=3)
    assert len(found.proposal) == 2
    exec(found.code, {"lab": lab})  # noqa: S102 (our own line is what is tested)
    assert (lab.options.shapes, *lab.options.more_profiles) == found.proposal


def test_sweep_can_be_cancelled_and_refuses_wrong_sizes(lab: trt_lab.Session) -> None:
    def stop(step: Progress) -> None:
        if step.phase == "run":
            lab.cancel()

    with pytest.raises(CancelledError):
        lab.sweep([f"1x3x{size}x512" for size in range(500, 560)], stop, repeats=3000)
    with pytest.raises(UsageError, match="does not fit"):
        lab.sweep(["1x1x8x8"])


def test_builds_are_counted(lab: trt_lab.Session) -> None:
    exporter = trt_lab.Exporter(CollectorRegistry())
    stop = exporter.follow(lab)
    lab.use(shapes={"x": "1x3x8x8"})
    lab.build()
    stop()
    lab.build()
    assert 'backend="onnxruntime"' in exporter.text()
    counted = [line for line in exporter.text().splitlines() if line.startswith("trt_lab_builds_total{")]
    assert len(counted) == 1 and counted[0].endswith(" 1.0")
