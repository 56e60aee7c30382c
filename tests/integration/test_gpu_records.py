"""Records that trt-lab made with TensorRT 10.6 on an H200 (`tests/gpu/make_records.py`), opened with no GPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trt_lab import zoo
from trt_lab.compare.observer import observe_records
from trt_lab.compare.sides import compare_sides, open_side
from trt_lab.engine_json import read_engine_json
from trt_lab.frames import layers_frame, log_frame, times_frame
from trt_lab.record import Record
from trt_lab.session import Session
from trt_lab.views.timeline import timeline_figure

DATA = Path(__file__).parents[1] / "data" / "gpu"
ENGINES = sorted(path.name.removesuffix(".trtlab") for path in DATA.iterdir() if "reference" not in path.name)

MEASURED = {
    # what was printed on the H200 when the records were made: layers, largest |engine − reference|, verdict
    "l2norm_overflow-fp32": (19, 6.71e-8, "same"),
    "l2norm_overflow-fp16": (22, 0.157, "differs"),
    "encoder4-fp32": (61, 1.12e-7, "same"),
    "encoder4-fp16": (43, 2.50e-4, "same"),
    "ppocr_det-fp32": (192, 1.36e-7, "same"),
    "ppocr_det-fp16": (182, 2.49e-3, "differs"),
    "magika-fp32": (15, 2.91e-8, "same"),
    "magika-fp16": (17, 0.986, "differs"),
    "qdq_conv-int8": (3, 1.91e-6, "same"),
}


def record(name: str) -> Record:
    return Record.open(DATA / f"{name}.trtlab")


@pytest.mark.parametrize("name", sorted(MEASURED))
def test_numbers_are_those_of_the_gpu(name: str) -> None:
    layers, worst, verdict = MEASURED[name]
    engine = record(name)
    reference = record(f"{name.rsplit('-', 1)[0]}-reference")
    comparison = compare_sides(open_side(engine), open_side(reference))
    assert len(engine.layers) == layers
    assert comparison.verdict == verdict
    figures = [stats.max_abs for stats in comparison.tensors if stats.max_abs is not None]
    assert max(figures) == pytest.approx(worst, rel=0.01)


@pytest.mark.parametrize("name", ENGINES)
def test_a_record_is_whole_and_can_be_looked_at(name: str) -> None:
    engine = record(name)
    engine.verify()
    assert engine.meta.device == "NVIDIA H200"
    assert engine.meta.backend == "tensorrt"
    assert str(engine.meta.backend_version).startswith("10.6")
    assert [time.name for time in engine.times] == [layer.name for layer in engine.layers]
    assert len(layers_frame(engine)) == len(engine.layers)
    assert times_frame(engine)["share"].sum() == pytest.approx(1.0)
    assert len(log_frame(engine)) == len(list(engine.log())) > 0
    assert engine.latency_ms
    timeline_figure(engine)


@pytest.mark.parametrize("name", ENGINES)
def test_layers_that_compute_are_mapped_to_nodes(name: str) -> None:
    layers = record(name).layers
    # a shape_call has no output, and a Reformat or NoOp moves data that belongs to no node
    computing = [layer for layer in layers if layer.outputs and layer.type not in ("Reformat", "NoOp")]
    mapped = [layer for layer in computing if layer.nodes]
    assert len(mapped) >= 0.95 * len(computing), [layer.name for layer in computing if not layer.nodes]
    assert {layer.nodes_from for layer in mapped} <= {"metadata", "name", "tensors"}


def test_layer_files_are_in_the_form_that_other_tools_read() -> None:
    for name in ENGINES:
        again = read_engine_json(DATA / f"{name}.trtlab" / "layers.json")
        assert [layer.name for layer in again.layers] == [layer.name for layer in record(name).layers]


def test_the_probe_that_hides_the_fault_is_perturbing() -> None:
    seen = observe_records(record("l2norm_overflow-fp16"), record("l2norm_overflow-fp16-probe"))
    assert seen.effect == "perturbing"
    (split,) = [change for change in seen.changes if change.kind == "split"]
    assert split.layer.startswith("/a/a.10/Conv + ")
    assert split.layer.endswith(" + /Mul")
    assert split.nodes == ("/a/a.10/Conv", "/a/a.11/Relu", "/Mul")
    assert ("/Mul_output_0", "float16", "float32") in {(t.tensor, t.clean, t.probed) for t in seen.types}


def test_a_session_begins_with_a_gpu_record() -> None:
    lab = Session.open_any(DATA / "l2norm_overflow-fp16.trtlab")
    assert lab.model.name == "l2norm_overflow"
    assert lab.options.backend == "tensorrt"
    lab.golden()
    diff = lab.compare()
    assert diff.verdict == "differs"
    assert diff.stats("y", 0).max_abs == pytest.approx(0.157, rel=0.01)
    assert lab.code.splitlines()[1].startswith("lab = trt_lab.Session.open_any(")


@pytest.mark.parametrize("row", json.loads((DATA.parent / "gpu_zoo.json").read_text()), ids=lambda row: row["name"])
def test_what_the_gpu_proved_is_what_was_planted(row: dict[str, Any]) -> None:
    """Rows of `tests/gpu/score_zoo.py`: strongly typed FP16 engines of TensorRT 10.6 on the H200."""
    subject = zoo.get(row["name"])
    assert row["verdict"] == ("differs" if subject.truth else "same")
    assert row["keep_fp32"] == list(subject.keep)
    assert row["engine_builds"] == (2 if subject.truth else 1)
    if subject.truth:
        assert row["source"] in subject.truth
        assert row["after"]["verdict"] == "same"


NOT_AS_PLANTED = {
    "hyperbolic": "a fused kernel keeps FP32 inside, so the engine is right with nothing kept",
    "mask_where": "the engine wanted one node more, found with five engines",
    "l2norm_overflow": "wrong in FP32 too, with a builder that used all threads; right with one, see the other file",
    "fault_among_harmless": "the parser refused an infinite bound of a Clip; bounds stay finite since",
}


def test_a_second_run_on_a_gpu_that_did_much_else() -> None:
    """33 models on the H200 beside eight other processes, cut by its time limit, everything it gave."""
    rows = {row["name"]: row for row in json.loads((DATA.parent / "gpu_zoo_loaded.json").read_text())}
    assert {name for name, row in rows.items() if not row.get("as_planted")} == NOT_AS_PLANTED.keys()
    for name in rows.keys() - NOT_AS_PLANTED.keys():
        row, subject = rows[name], zoo.get(name)
        assert row["keep_fp32"] == list(subject.keep) and row["engine_builds"] == (2 if subject.truth else 1)
        assert not subject.truth or (row["source"] in subject.truth and row["after"]["verdict"] == "same")
