"""`trt-lab inspect` as a user meets it: the contract's keys, tables that fit, one line for an error."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from tests.unit.cli.calling import call, strict

GPU = Path(__file__).resolve().parents[2] / "data" / "gpu"


def inspect(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    return call(capsys, "inspect", *arguments)


def test_json_of_layer_json_with_its_model(capsys: pytest.CaptureFixture[str], shared: Path) -> None:
    folder = shared / "trt_records"
    model = folder / "encoder4.onnx"
    code, out, err = inspect(capsys, folder / "encoder4.fp16.layers.json", "--model", model, "--json")
    assert (code, err) == (0, "")
    told = strict(out)
    assert told["layers"] == 43 and told["dialect"] == "trt10"
    assert told["by_type"] == {"kgen": 22, "gemm": 14, "fusion": 4, "Reformat": 2, "shape_call": 1}
    assert told["by_precision"] == {"float16": 33, "unknown": 8, "float32": 1, "none": 1}
    assert told["unmapped"] == ["__mye15755_0_myl1_0"]
    assert told["nodes"]["total"] == 676 and told["nodes"]["coverage"] == 1.0
    assert (
        told["times"]["layer_sum_ms"] == pytest.approx(0.24285, abs=1e-4) and told["times"]["median_latency_ms"] is None
    )
    assert told["fusion"]["layers_with_nodes"] == 40 and told["memory"]["activation_bytes"] is None
    assert {lint["rule"] for lint in told["lints"]} == {"alignment", "norm_pieces"}


def test_json_of_a_record_and_of_every_explorer_file(capsys: pytest.CaptureFixture[str], shared: Path) -> None:
    code, out, _ = inspect(capsys, GPU / "l2norm_overflow-fp16.trtlab", "--json")
    told = strict(out)
    assert code == 0 and told["kind"] == "record" and told["nodes"]["mapped"] == 32
    assert told["times"]["median_latency_ms"] > 0 and told["facts"]["gpu"] == "NVIDIA H200"
    files = sorted((shared / "real_inputs" / "trex").rglob("*.graph.json"))
    for file in files:
        code, out, _ = inspect(capsys, file, "--json")
        told = strict(out)
        layers = json.loads(file.read_text())["Layers"]
        assert told["layers"] == len(layers) == sum(told["by_type"].values()) == sum(told["by_precision"].values())
        assert told["dialect"] == "trt8" and told["nodes"] is None and code == 0


def test_c36_plain_strings_and_no_layers(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "l.json"
    file.write_text('{"Layers":["a + b","c"],"Bindings":["x","y"]}')
    code, out, _ = inspect(capsys, file, "--json")
    told = strict(out)
    assert code == 0 and told["dialect"] == "names" and told["layers"] == 2 and told["unmapped"] == []
    assert any("not recorded: build with detailed verbosity" in note for note in told["notes"])
    file.write_text('{"Layers":[]}')
    code, out, _ = inspect(capsys, file)
    assert code == 0 and "no layers" in out and "0 layers" in out


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{}", "'Layers'"),
        ("[]", "a list at top level"),
        ('{"Layers":["a', "byte 11"),
        ("", "empty"),
    ],
)
def test_c36_c41_errors_are_one_line_and_exit_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: str, words: str
) -> None:
    file = tmp_path / "l.json"
    file.write_text(content)
    code, out, err = inspect(capsys, file, "--json")
    assert code == 2 and out == "" and err.startswith("trt-lab: ") and err.count("\n") == 1 and words in err


def test_c33_an_asked_precision_that_is_not_there_is_exit_1(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    names = [f"t{i}" for i in range(12)]
    layers = [
        {"Name": f"k{i}", "LayerType": "gemm", "Inputs": [{"Name": a, "Datatype": "Float", "Format": "Linear"}],
         "Outputs": [{"Name": b, "Datatype": "Float", "Format": "Linear"}]}
        for i, (a, b) in enumerate(pairwise(names))
    ]  # fmt: skip
    file = tmp_path / "l.json"
    file.write_text(json.dumps({"Layers": layers, "I/O Tensors": []}))
    code, out, _ = inspect(capsys, file, "--precision", "fp16")
    assert code == 1 and "requested FP16; 0 of 12 layer tensors are half" in " ".join(out.split())
    assert inspect(capsys, file)[0] == 0
    assert strict(inspect(capsys, file, "--json")[1])["dialect"] == "trt11"


@pytest.mark.parametrize("record", ["encoder4-fp16", "ppocr_det-fp16", "qdq_conv-int8", "magika-reference"])
def test_what_people_see_fits_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, record: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = inspect(capsys, GPU / f"{record}.trtlab")
    assert code == 0 and max(map(len, out.splitlines())) <= 80
    assert "layers" in out and "Traceback" not in out


def test_names_with_control_characters_do_not_reach_the_terminal(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "l.json"
    kind = {"Name": "a\x1b[31mred\x07", "LayerType": "k\x1b]0;title", "Inputs": [], "Outputs": []}
    file.write_text(json.dumps({"Layers": [kind], "I/O Tensors": []}))
    code, out, err = inspect(capsys, file)
    assert code == 0 and "red" in out
    assert not any(ord(char) < 32 and char != "\n" for char in out + err)
