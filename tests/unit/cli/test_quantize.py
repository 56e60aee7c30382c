"""`trt-lab quantize` and the session's part of it, through the worker."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.unit.cli.calling import call, one_line
from tests.unit.edit.qdq_models import float_convs, one_pair, samples, two_convs
from trt_lab import Model, Session
from trt_lab.backends.tensorrt.calibration import read_cache
from trt_lab.tensors import write_samples


def test_examine_as_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model = two_convs(x_scale=0.5).save(tmp_path / "q.onnx")
    write_samples(tmp_path / "in", samples(2), which="inputs")
    arguments = [
        "quantize",
        model,
        "--inputs",
        tmp_path / "in",
        "--check",
        "snr_db>=25",
        "--fixed",
        tmp_path / "f.onnx",
    ]
    code, out, err = call(capsys, *arguments, "--json")
    told = json.loads(out)
    assert code == 1 and err == "" and told["made"] is None
    assert told["passes"] is False and told["keep_float"] == ["a"] and told["check"] == "snr_db >= 25"
    assert {pair["tensor"] for pair in told["pairs"]} == {"x", "w0", "r", "w1"}
    assert told["layers"][0]["node"] == "a" and told["layers"][0]["only"]["snr_db"] < 25
    assert Path(told["fixed_model"]).is_file() and told["samples"] == 2


def test_make_examine_and_keep_the_ranges(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model = float_convs().save(tmp_path / "float.onnx")
    cache = tmp_path / "model.cache"
    code, out, _ = call(
        capsys, "quantize", model, "-o", tmp_path / "int8.onnx", "--method", "minmax", "--write-cache", cache, "--json"
    )
    told = json.loads(out)
    assert code == 0 and told["findings"] == [] and told["made"]["pairs"] == 4 and told["made"]["tool"] == "onnxruntime"
    assert any("at least 500" in note for note in told["made"]["notes"])
    assert any("random numbers" in note for note in told["made"]["notes"])
    assert told["quantised"]["snr_db"] > 25 and len(told["layers"]) == 3
    assert "x" in read_cache(cache).scales
    code, out, _ = call(capsys, "quantize", model, "-o", tmp_path / "again.onnx", "--read-cache", cache, "--no-layers")
    assert code == 0 and "scales are those of a calibration cache of TensorRT 10.6.0" in out
    assert "wrote" in out and "layer " not in out


def test_c46_a_bad_scale_is_exit_1(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model = one_pair([0.5, 0.0, -1.0], np.zeros(3, np.int8), (1, 3)).save(tmp_path / "bad.onnx")
    code, out, _ = call(capsys, "quantize", model)
    assert code == 1
    assert "error: node 'q': the scale of 'x' is 0 at channel 1 (0) of axis 1" in out
    assert "error: node 'q': the scale of 'x' is negative at channel 2 (-1) of axis 1" in out


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ([], "no Q/DQ pairs"),
        (["-o", "o.onnx", "--method", "best"], "minmax, entropy, percentile"),
        (["-o", "o.onnx", "--tool", "magic"], "ort, modelopt"),
        (["-o", "o.onnx", "--type", "int3"], "int8 or fp8"),
        (["-o", "o.onnx", "--exclude", "nothing"], "no node 'nothing'"),
        (["-o", "o.onnx", "--read-cache", "missing.cache"], "missing.cache"),
        (["--fixed", "f.onnx"], "a check such as"),
        (["-o", "o.onnx", "--fixed", "f.onnx"], "a check such as"),
    ],
)
def test_wrong_use_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    float_convs().save(tmp_path / "float.onnx")
    code, out, err = call(capsys, "quantize", "float.onnx", *more)
    assert code == 2 and out == "" and words in one_line(err)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["float.onnx"]


def test_a_session_makes_and_examines(tmp_path: Path) -> None:
    lab = Session(float_convs().save(tmp_path / "float.onnx"), records=tmp_path / "records")
    lab.feed(samples(4))
    made = lab.quantize(tmp_path / "int8.onnx", method="minmax")
    other = Session(made.model, records=tmp_path / "records")
    other.feed(samples(4))
    found = other.quantization(float_model=lab.model)
    assert list(found.frame["tensor"]) == [pair.tensor for pair in found.pairs] and len(found.layers_frame) == 3
    assert found.is_fine and found.frame["local_snr_db"].is_monotonic_increasing
    assert (
        "<table>" in found._repr_html_() and len(found._repr_html_()) < 300_000 and "<script" not in found._repr_html_()
    )
    assert repr(found).startswith("<Quantization of int8: 4 Q/DQ pairs, outputs at ")
    assert other.code.splitlines()[-1] == "lab.quantization(float_model=my_float_model)"
    other.quantization(layers=False, check="snr_db>=5", fixed=tmp_path / "f.onnx")
    fixed = str(tmp_path / "f.onnx")
    assert other.code.splitlines()[-1] == f"lab.quantization(layers=False, check='snr_db>=5', fixed={fixed!r})"
    assert lab.code.splitlines()[-1] == f"lab.quantize({str(tmp_path / 'int8.onnx')!r}, method='minmax')"
    assert Model.load(made.model).name == "int8"


def test_names_are_escaped(tmp_path: Path) -> None:
    proto = one_pair(0.0, np.int8(0), (1, 3)).proto()
    for node in proto.graph.node:
        node.name = f"<b>{node.name}"
    lab = Session(Model.load(proto), records=tmp_path)
    page = lab.quantization()._repr_html_()
    assert "&lt;b&gt;q" in page and "<b>q" not in page
