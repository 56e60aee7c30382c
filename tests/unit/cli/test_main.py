"""The command line as a user meets it: JSON on stdout, one line on stderr, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.unit.cli.calling import call, one_line
from trt_lab import __version__
from trt_lab.cli.main import COMMANDS


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["build"], "MODEL"),
        (["nosuch"], "nosuch"),
        (["build", "zoo:clean_cnn", "-o", "r.trtlab", "--precision", "half"], "fp32, fp16, bf16"),
        (["build", "zoo:clean_cnn", "-o", "r.trtlab", "--backend", "abacus"], "onnxruntime"),
        (["build", "zoo:clean_cnn", "-o", "r.trtlab", "--probe", "nothing"], "nothing"),
        (["build", "zoo:nosuch", "-o", "r.trtlab"], "l2norm_overflow"),
        (["build", "missing.onnx", "-o", "r.trtlab"], "missing.onnx"),
        (["build", "text.onnx", "-o", "r.trtlab"], "text.onnx"),
        (["build", "zoo:clean_cnn", "-o", "r.trtlab", "--shapes", "x=1"], "NAME:1x3x64x64"),
        (["compare", "a.npz", "b.npz"], "a.npz"),
        (["report", "nothing.trtlab", "-o", "r.html"], "nothing.trtlab"),
    ],
)
def test_wrong_use_is_one_line_and_exit_2(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.onnx").write_text("no model at all")
    code, out, err = call(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert words in one_line(err)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text.onnx"]


def test_an_error_of_our_own_is_one_line_and_keeps_the_trace(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trt_lab.storage.data_folder", lambda: tmp_path)
    monkeypatch.setattr("trt_lab.cli.doctor.run", lambda: 1 / 0)
    code, _, err = call(capsys, "doctor")
    assert code == 2
    assert "ZeroDivisionError" in one_line(err)
    assert "Traceback" in (tmp_path / "last-error.txt").read_text()


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "--version")[:2] == (0, f"trt-lab {__version__}\n")
    code, out, _ = call(capsys, "--help")
    assert code == 0
    assert all(command in out for command in COMMANDS)


def test_doctor_says_why_not(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "doctor", "--json")
    told = {entry["name"]: entry for entry in json.loads(out)["backends"]}
    assert code == 0
    assert set(told) >= {"onnxruntime", "tensorrt", "tensorrt_rtx"}
    assert all({"name", "version", "can_build", "can_run", "reason"} <= set(entry) for entry in told.values())
    assert told["onnxruntime"]["can_run"] is True
    assert all(entry["reason"] for entry in told.values() if not entry["can_run"])


def test_zoo_lists_and_writes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = call(capsys, "zoo", "--json")
    models = {entry["name"]: entry for entry in json.loads(out)["models"]}
    assert code == 0
    assert models["l2norm_overflow"]["truth"] == ["/Mul"]
    assert models["clean_cnn"]["truth"] == []
    code, out, _ = call(capsys, "zoo", "clean_cnn", "-o", tmp_path)
    assert code == 0
    assert (tmp_path / "clean_cnn.onnx").is_file()


def test_build_compare_report(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    golden, record, report = tmp_path / "golden", tmp_path / "fp16.trtlab", tmp_path / "report.html"
    code, out, _ = call(capsys, "golden", "zoo:l2norm_overflow", "-o", golden, "--json")
    assert (code, json.loads(out)["samples"]) == (0, 4)
    assert [tensor["name"] for tensor in json.loads(out)["tensors"]] == ["y"]
    arguments = ["build", "zoo:l2norm_overflow", "-o", record, "--precision", "fp16", "--probe", "/Mul_output_0"]
    code, out, _ = call(capsys, *arguments, "--json")
    built = json.loads(out)
    assert code == 0
    assert {"record", "layers", "by_precision", "build_s", "latency_ms", "observer"} <= set(built)
    assert built["layers"] == sum(built["by_precision"].values()) > 0
    code, out, _ = call(capsys, "compare", record, golden, "--json")
    compared = json.loads(out)
    assert code == 1
    assert compared["verdict"] == "differs"
    (y,) = [tensor for tensor in compared["tensors"] if tensor["name"] == "y"]
    assert 0.1 < y["max_abs"] < 0.2
    code, out, _ = call(capsys, "report", record, golden, "-o", report)
    assert code == 0
    assert report.read_text(encoding="utf-8").count("l2norm_overflow") > 0


def test_compare_same_files_is_exit_0(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", y=np.arange(4.0))
    code, out, _ = call(capsys, "compare", tmp_path / "a.npz", tmp_path / "a.npz", "--json")
    assert code == 0
    assert json.loads(out)["verdict"] == "same"


def test_demo_does_the_whole_job(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = call(capsys, "demo", "--out", tmp_path / "demo", "--json")
    told = json.loads(out)
    assert code == 0
    assert told["verdict"] == "differs"
    assert told["source"] == "/Mul"
    assert told["keep_fp32"] == ["/Mul", "/ReduceSum", "/Add", "/Sqrt", "/Div"]
    assert told["engine_builds"] == 0
    assert told["after"]["verdict"] == "same"
    assert Path(told["fixed_model"]).is_file()
    assert (tmp_path / "demo" / "report.html").is_file()
