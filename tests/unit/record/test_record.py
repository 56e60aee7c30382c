"""Records: whole or not at all, read back equal, damage and foreign hashes named."""

from __future__ import annotations

import json
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from trt_lab.backends.jobs import Outcome
from trt_lab.engine_json import read_engine_json
from trt_lab.errors import RecordError
from trt_lab.model import Model
from trt_lab.record import Record, is_record, write_record
from trt_lab.tensors import write_samples
from trt_lab.types import (
    BuildOptions,
    LayerInfo,
    LayerTensor,
    LayerTime,
    LogLine,
    NodeId,
    PrecisionPlan,
    ShapeRange,
    TensorId,
)
from trt_lab.zoo import get

OPTIONS = BuildOptions(
    plan=PrecisionPlan("fp16", (NodeId("/Mul"),)), shapes=(ShapeRange("x", (1, 3), (2, 3), (4, 3)),), profile_runs=2
)
LAYERS = (
    LayerInfo(
        0, "a + <b>", "Conv", (LayerTensor("x", "float32", ("N", 3, None), "NCHW", "Device"),),
        (LayerTensor("y", "uint16", (1, 2)),), "float16", "kernel_7", 0, (NodeId("a"), NodeId("b")), "metadata",
        {"Metadata": "[ONNX Layer: a]\u001e[ONNX Layer: b]", "TacticValue": "0x1"},
    ),
    LayerInfo(1, "copy", "Reformat"),
)  # fmt: skip
OUTCOME = Outcome(
    layers=LAYERS,
    times=(LayerTime(0, "a + <b>", 1.5, 1.5, (1.4, 1.6), 0.25), LayerTime(1, "copy", 0.0, None)),
    latency_ms=(1.0, 2.0),
    log=(LogLine("warning", "hi <script>", "builder", 0.5),),
    build_s=0.5,
    run_s=0.1,
    facts={"version": "1.2", "odd": float("nan"), "gpu": {"name": "H200"}, "timing_cache": {"used": True}},
    output_names=("y", "probe_0"),
    samples=2,
)


class Probes:
    """Stands for `edit.probe.Probed`."""

    def __init__(self, model: Model, **outputs: str) -> None:
        self.model = model
        self.outputs = {TensorId(tensor): name for tensor, name in outputs.items()}


@pytest.fixture(scope="module")
def model() -> Model:
    return get("clean_cnn").model


@pytest.fixture
def record(tmp_path: Path, model: Model) -> Record:
    outputs = [{"y": np.arange(4, dtype=np.float32) + i, "probe_0": np.full(3, i, np.float16)} for i in range(2)]
    return write_record(
        tmp_path / "r.trtlab", model=model, probed=Probes(model, t="probe_0"), options=OPTIONS, outcome=OUTCOME,
        samples=get("clean_cnn").feeds[:2], outputs=outputs, seed=7,
    )  # fmt: skip


def test_all_comes_back(record: Record, model: Model) -> None:
    assert (record.layers, record.times, record.latency_ms) == (LAYERS, OUTCOME.times, OUTCOME.latency_ms)
    assert list(record.log()) == list(OUTCOME.log)
    assert record.meta.build_options == OPTIONS and record.meta.plan == OPTIONS.plan
    assert (record.samples, record.name, record.ok, record.meta.seed) == (2, "r", True, 7)
    assert (record.meta.device, record.meta.backend_version, record.meta.timing_cache) == ("H200", "1.2", True)
    assert record.meta.facts["odd"] is None
    assert list(record.outputs(1)) == ["y", "t"] and record.outputs(1)["t"].tolist() == [1, 1, 1]
    assert record.outputs(0)["t"].dtype == np.float16
    assert record.model().hash == model.hash
    record.verify()


def test_other_tools_read_the_engine_files(record: Record) -> None:
    layers = read_engine_json(record.path / "layers.json").layers
    assert layers[0].nodes == ("a", "b") and layers[0].inputs[0].shape == (None, 3, None)
    rows = json.loads((record.path / "profile.json").read_text())
    assert rows[0] == {"count": 2} and rows[1]["averageMs"] == 1.5 and rows[1]["timeMs"] == 3.0
    assert sum(row["percentage"] for row in rows[1:]) == pytest.approx(100)
    for file in ("record.json", "layers.json", "profile.json"):
        json.loads((record.path / file).read_text(), parse_constant=lambda word: pytest.fail(word))


def test_a_failed_build_leaves_a_record(tmp_path: Path, model: Model) -> None:
    log = [LogLine("error", "no kernel")]
    failed = write_record(
        tmp_path / "f.trtlab", model=model, options=OPTIONS, outcome=None, failure="no <kernel>", log=log
    )
    assert not failed.ok and failed.meta.outcome.message == "no <kernel>" and failed.meta.build_s is None
    assert failed.layers == () and list(failed.log()) == log
    assert "no &lt;kernel&gt;" in failed._repr_html_() and "no <kernel>" in repr(failed)
    with pytest.raises(RecordError, match="the build failed"):
        failed.outputs(0)


def test_files_of_a_job_are_taken_in(tmp_path: Path, model: Model) -> None:
    write_samples(tmp_path / "in", get("clean_cnn").feeds[:1], which="inputs")
    write_samples(tmp_path / "out" / "samples", [{"y": np.zeros(2)}], which="outputs")
    (tmp_path / "out" / "engine.plan").write_bytes(b"engine")
    outcome = replace(OUTCOME, engine_file="engine.plan")
    made = write_record(
        tmp_path / "r.trtlab", model=model, options=OPTIONS, outcome=outcome,
        samples_dir=tmp_path / "in", outputs_dir=tmp_path / "out", role="reference",
    )  # fmt: skip
    shutil.rmtree(tmp_path / "in")
    shutil.rmtree(tmp_path / "out")
    made.verify()
    assert made.samples == 1 and made.outputs(0)["y"].shape == (2,) and "engine.plan" in made.meta.files
    assert made.meta.role == "reference" and list(made.inputs(0)) == list(get("clean_cnn").feeds[0])


def test_nothing_is_overwritten_and_nothing_half_is_left(tmp_path: Path, model: Model, record: Record) -> None:
    before = (record.path / "record.json").read_bytes()
    with pytest.raises(RecordError, match="exists already"):
        write_record(record.path, model=model, options=OPTIONS, outcome=OUTCOME)
    assert (record.path / "record.json").read_bytes() == before
    with pytest.raises(RecordError, match="cannot be written"):
        write_record(record.path / "record.json" / "x", model=model, options=OPTIONS, outcome=OUTCOME)
    assert [item.name for item in tmp_path.iterdir()] == ["r.trtlab"]


def test_zipped_is_the_same(record: Record, tmp_path: Path) -> None:
    zipped = record.copy_to(tmp_path / "z.trtlab.zip")
    assert (zipped.name, zipped.layers, zipped.outputs(0)["y"].tolist()) == ("z", LAYERS, [0, 1, 2, 3])
    zipped.verify()
    copied = zipped.copy_to(tmp_path / "again.trtlab")
    assert copied.meta == record.meta and is_record(copied.path) and is_record(zipped.path)
    with pytest.raises(RecordError, match="exists already"):
        record.copy_to(copied.path)
    outside = shutil.make_archive(str(tmp_path / "outer"), "zip", tmp_path, "r.trtlab")
    assert Record.open(outside).meta == record.meta


def test_a_zip_that_leads_outside_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as archive:
        archive.writestr("../evil", "x")
    with pytest.raises(RecordError, match="leads outside"):
        Record.open(tmp_path / "bad.zip")
    assert not (tmp_path.parent / "evil").exists()


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("layers.json", "is missing"),
        ("samples/001/outputs.safetensors", "is missing"),
        ("record.json", "no record.json"),
    ],
)
def test_missing_pieces_are_named(record: Record, file: str, message: str) -> None:
    (record.path / file).unlink()
    with pytest.raises(RecordError, match=message):
        Record.open(record.path)


def test_a_truncated_piece_is_named(record: Record) -> None:
    file = record.path / "samples" / "000" / "outputs.safetensors"
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.raises(RecordError, match=r"000/outputs\.safetensors: cut short"):
        Record.open(record.path)


@pytest.mark.parametrize("file", ["layers.json", "samples/000/outputs.safetensors", "model.onnx", "build.log.jsonl"])
def test_a_changed_piece_is_named(record: Record, file: str) -> None:
    data = bytearray((record.path / file).read_bytes())
    data[len(data) // 2] ^= 1
    (record.path / file).write_bytes(data)
    again = Record.open(record.path)
    with pytest.raises(RecordError, match="hash is not files") as caught:
        again.verify()
    assert file in str(caught.value)
    reads = {"l": lambda: again.layers, "s": lambda: again.outputs(0), "m": again.model, "b": lambda: list(again.log())}
    with pytest.raises(RecordError, match="hash is not files"):
        reads[file[0]]()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema_version": 99}, "schema_version is 99, this trt-lab reads up to 1"),
        ({"schema_version": None}, "'schema_version' is missing"),
        ({"samples": "many"}, "key 'samples'"),
        ({"backend": None}, "key 'backend'"),
        ({"files": {"../x": {"bytes": 1, "sha256": ""}}}, "points outside"),
    ],
)
def test_a_key_that_is_wrong_is_named(record: Record, change: dict, message: str) -> None:
    file = record.path / "record.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(RecordError, match=message):
        Record.open(record.path)


def test_broken_json_tells_the_byte(record: Record) -> None:
    (record.path / "record.json").write_text('{"schema_version": 1,')
    with pytest.raises(RecordError, match="byte 21"):
        Record.open(record.path)


def test_a_model_of_another_hash_is_named(record: Record) -> None:
    file = record.path / "record.json"
    data = json.loads(file.read_text())
    data["model"]["weights_hash"] = "0" * 64
    file.write_text(json.dumps(data))
    with pytest.raises(RecordError, match=r"model\.weights_hash differs"):
        Record.open(record.path).model()


def test_still_picture_is_small_and_escaped(record: Record) -> None:
    html = record._repr_html_()
    assert len(html) < 5000 and "<script" not in html and "H200" in html and "1.5 ms, median of 2" in html
    assert "2 layers" not in repr(record) and "layers 2: 1 float16, 1 unknown" in repr(record)


def test_no_such_record(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="no such record"):
        Record.open(tmp_path / "nowhere")
    (tmp_path / "text.zip").write_text("x")
    with pytest.raises(RecordError, match="neither a record folder"):
        Record.open(tmp_path / "text.zip")
    assert not is_record(tmp_path / "text.zip") and not is_record(tmp_path)


def test_what_may_not_be_read_is_told(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(RecordError, match="Permission denied"):
        Record.open(record.path)


def test_a_record_nested_too_deeply_is_refused(record: Record) -> None:
    (record.path / "record.json").write_bytes(b"[" * 100_000)
    with pytest.raises(RecordError, match="broken JSON"):
        Record.open(record.path)
