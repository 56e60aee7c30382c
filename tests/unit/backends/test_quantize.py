"""INT8 models made by ONNX Runtime's quantiser, by a calibration cache, and by ModelOpt's command."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.unit.edit.qdq_models import float_convs, run, samples, two_convs
from trt_lab.backends import modelopt
from trt_lab.backends.modelopt import quantize_with_modelopt, stacked
from trt_lab.backends.onnxruntime.quantize import QuantizeTask, quantize
from trt_lab.backends.tensorrt.calibration import CalibrationCache, read_cache, write_cache
from trt_lab.diagnose.quantization.scales import check_scales
from trt_lab.edit.qdq import dequantise, find_qdq
from trt_lab.errors import BackendUnavailableError, BuildError, CancelledError, ModelError, UsageError
from trt_lab.graph import GraphView
from trt_lab.model import Model
from trt_lab.tensors import write_samples
from trt_lab.types import NodeId, Progress


def silent(progress: Progress) -> None:
    """Drops progress."""


def task(folder: Path, model: Model | None = None, **more: Any) -> QuantizeTask:
    path = (model or float_convs()).save(folder / "float.onnx")
    write_samples(folder / "in", samples(6), which="inputs")
    return QuantizeTask(str(path), str(folder / "in"), str(folder / "int8.onnx"), **more)


@pytest.mark.parametrize("method", ["minmax", "entropy", "percentile"])
@pytest.mark.parametrize("per_channel", [True, False])
def test_it_is_symmetric_int8_with_float_weights_and_close(tmp_path: Path, method: Any, per_channel: bool) -> None:
    made = quantize(task(tmp_path, method=method, per_channel=per_channel), silent)
    model = Model.load(made.model)
    onnx.checker.check_model(model.proto(), full_check=True)
    found = find_qdq(GraphView.of(model))
    assert {(p.tensor, p.kind, p.dtype) for p in found.pairs} == {
        ("x", "activation", "int8"), ("w0", "weight", "int8"), ("r", "activation", "int8"), ("w1", "weight", "int8")
    }  # fmt: skip
    assert {p.tensor: p.axis for p in found.pairs if p.kind == "weight"} == dict.fromkeys(
        ("w0", "w1"), 0 if per_channel else None
    )
    # Whoever reads a quantised tensor reads it quantised, Neg as well.
    assert {layer.node for layer in found.layers} == {"a", "b", "neg"}
    assert (made.pairs, made.layers, made.samples) == (4, 3, 6)
    assert check_scales(GraphView.of(model)) == ()
    for feeds in samples(2):
        exact = run(float_convs(), feeds)[0]
        gap = run(model, feeds)[0] - exact
        assert 10 * np.log10((exact**2).sum() / (gap**2).sum()) > (25 if method != "entropy" else 5)
        np.testing.assert_array_equal(run(dequantise(model).model, feeds)[0], exact)


def test_minmax_takes_the_largest_magnitude_of_all_samples(tmp_path: Path) -> None:
    made = quantize(task(tmp_path, method="minmax", write_cache=str(tmp_path / "model.cache")), silent)
    scales = {
        p.tensor: float(np.max(p.scale))
        for p in find_qdq(GraphView.of(Model.load(made.model))).pairs
        if p.scale is not None
    }
    largest = max(float(np.abs(feeds["x"]).max()) for feeds in samples(6))
    top_r = max(float(_relu(feeds).max()) for feeds in samples(6))
    assert scales["x"] == pytest.approx(largest / 127, rel=0.01) and scales["r"] == pytest.approx(top_r / 127, rel=0.01)
    cache = read_cache(tmp_path / "model.cache")
    assert cache.scales["x"] == pytest.approx(largest / 127) and cache.scales["r"] == pytest.approx(top_r / 127)
    assert {"x", "a_out", "r", "b_out", "n_out", "y"} == set(cache.scales)


def _relu(feeds: dict[str, np.ndarray]) -> np.ndarray:
    proto = float_convs().proto()
    proto.graph.output.append(onnx.ValueInfoProto(name="r"))
    return run(proto, feeds, ["r"])[0]


def test_scales_of_a_calibration_cache(tmp_path: Path) -> None:
    cache = write_cache(tmp_path / "given.cache", CalibrationCache({"x": 0.0625, "r": 0.25}, version="8401"))
    made = quantize(task(tmp_path, read_cache=str(cache)), silent)
    scales = {p.tensor: p.scale for p in find_qdq(GraphView.of(Model.load(made.model))).pairs if p.kind == "activation"}
    assert {name: float(np.max(scale)) for name, scale in scales.items() if scale is not None} == pytest.approx(
        {"x": 0.0625, "r": 0.25}, rel=0.01
    )
    assert made.samples == 0 and made.notes == ("scales are those of a calibration cache of TensorRT 8.4.1",)


def test_what_has_no_scale_in_the_cache_stays_float(tmp_path: Path) -> None:
    cache = write_cache(tmp_path / "given.cache", CalibrationCache({"x": 0.0625}))
    made = quantize(task(tmp_path, read_cache=str(cache)), silent)
    assert [layer.node for layer in find_qdq(GraphView.of(Model.load(made.model))).layers] == ["a"]
    assert any("1 tensors have no scale in the cache ('r')" in note for note in made.notes)
    empty = write_cache(tmp_path / "empty.cache", CalibrationCache({"other": 0.5}))
    with pytest.raises(BuildError, match="no Q/DQ pair could be placed"):
        quantize(task(tmp_path, read_cache=str(empty)), silent)


def test_excluded_nodes_and_chosen_operators(tmp_path: Path) -> None:
    made = quantize(task(tmp_path, exclude=(NodeId("a"),)), silent)
    assert {layer.node for layer in find_qdq(GraphView.of(Model.load(made.model))).layers} == {"b", "neg"}
    with pytest.raises(ModelError, match="no node 'conv'"):
        quantize(task(tmp_path, exclude=(NodeId("conv"),)), silent)
    with pytest.raises(UsageError, match="has no LSTM"):
        quantize(task(tmp_path, operators=("LSTM",)), silent)


def test_quantised_and_old_models_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has Q/DQ already"):
        quantize(task(tmp_path, two_convs()), silent)
    old = float_convs().proto()
    old.opset_import[0].version = 11
    with pytest.raises(UsageError, match="opset 11 has no scales by channel"):
        quantize(task(tmp_path, Model.load(old)), silent)
    assert quantize(task(tmp_path, Model.load(old), per_channel=False), silent).pairs == 4
    with pytest.raises(UsageError, match="makes INT8; for fp8 take ModelOpt"):
        quantize(task(tmp_path, type="fp8"), silent)


def test_progress_and_cancel(tmp_path: Path) -> None:
    steps: list[Progress] = []

    def stop(progress: Progress) -> None:
        steps.append(progress)
        if progress.message == "sample 3 of 6":
            raise CancelledError("enough")

    with pytest.raises(CancelledError):
        quantize(task(tmp_path), stop)
    assert [step.message for step in steps if step.phase == "calibrate"] == [
        "sample 1 of 6",
        "sample 2 of 6",
        "sample 3 of 6",
    ]
    assert not (tmp_path / "int8.onnx").exists()


# --- ModelOpt --------------------------------------------------------------------------------


FAKE = """
import json, sys
import numpy as np
words = sys.argv[1:]
if "fail" in open(words[words.index("--onnx_path") + 1], "rb").read().decode("latin-1"):
    print("something before")
    sys.exit("RuntimeError: no kernel")
data = np.load(words[words.index("--calibration_data_path") + 1])
json.dump([words, {name: data[name].shape for name in data}], open(PLACE, "w"))
open(words[words.index("--output_path") + 1], "wb").write(open(MODEL, "rb").read())
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module `modelopt.onnx.quantization` that writes down how it was called, and gives `two_convs`."""
    folder = tmp_path / "site" / "modelopt" / "onnx" / "quantization"
    folder.mkdir(parents=True)
    for package in (folder, folder.parent, folder.parent.parent):
        (package / "__init__.py").write_text("")
    model = two_convs().save(tmp_path / "made.onnx")
    text = FAKE.replace("PLACE", repr(str(tmp_path / "call.json"))).replace("MODEL", repr(str(model)))
    (folder / "__main__.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    monkeypatch.setattr(modelopt, "is_installed", lambda: True)
    return tmp_path / "call.json"


def test_modelopt_is_called_with_all_samples(tmp_path: Path, fake: Path) -> None:
    made = quantize_with_modelopt(task(tmp_path, type="fp8", exclude=(NodeId("a"),)), silent)
    words, shapes = json.loads(fake.read_text())
    given = {words[i]: words[i + 1] for i in range(len(words) - 1) if words[i].startswith("--")}
    assert given["--quantize_mode"] == "fp8" and given["--calibration_method"] == "entropy"
    assert given["--high_precision_dtype"] == "fp32" and given["--nodes_to_exclude"] == "a"
    assert shapes == {"x": [6, 3, 6, 6]} and made.tool == "modelopt" and (made.pairs, made.samples) == (4, 6)
    assert made.notes[0].startswith("6 samples: at least 500")


def test_modelopt_that_fails_says_its_last_line(tmp_path: Path, fake: Path) -> None:
    proto = float_convs().proto()
    proto.graph.doc_string = "fail"
    with pytest.raises(BuildError, match="ModelOpt failed: RuntimeError: no kernel"):
        quantize_with_modelopt(task(tmp_path, Model.load(proto)), silent)
    assert not fake.exists()


def test_modelopt_is_killed_when_cancelled(tmp_path: Path, fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (fake.parent / "site/modelopt/onnx/quantization/__main__.py").write_text(
        "import threading; threading.Event().wait()"
    )
    monkeypatch.setattr(modelopt, "_ASK_EVERY_S", 0.05)
    calls: list[str] = []

    def stop(progress: Progress) -> None:
        calls.append(progress.message)
        if calls.count("ModelOpt") == 3:
            raise CancelledError("enough")

    with pytest.raises(CancelledError):
        quantize_with_modelopt(task(tmp_path), stop)


def test_modelopt_that_is_missing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modelopt, "is_installed", lambda: False)
    with pytest.raises(BackendUnavailableError, match=r"pip install 'trt-lab\[modelopt\]'"):
        quantize_with_modelopt(task(tmp_path), silent)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"method": "percentile"}, "no method 'percentile'"),
        ({"write_cache": "c"}, "tool 'ort'"),
        ({"per_channel": False}, "per-tensor"),
    ],
)
def test_what_modelopt_cannot_do_is_refused(tmp_path: Path, fake: Path, more: dict[str, Any], words: str) -> None:
    del fake
    with pytest.raises(UsageError, match=words):
        quantize_with_modelopt(task(tmp_path, **more), silent)


def test_samples_of_several_sizes_cannot_be_stacked() -> None:
    a, b = np.zeros((2, 3), np.float32), np.ones((1, 3), np.float32)
    assert stacked([{"x": a}, {"x": b}])["x"].shape == (3, 3)
    with pytest.raises(UsageError, match="input 'x' differs in size"):
        stacked([{"x": a}, {"x": np.zeros((2, 4), np.float32)}])
    assert modelopt.MODULE not in sys.modules
