"""Engines compared by ONNX node: time won and lost adds up, and what changed is named; the order of rows has no say."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trt_lab.errors import CompareError
from trt_lab.frames import engine_diff_frame
from trt_lab.profiling.engines import EngineDiff, diff_engines
from trt_lab.profiling.node_time import FS_PER_MS, node_times
from trt_lab.profiling.source import Engine, open_engine
from trt_lab.types import LayerInfo, LayerTime

DATA = Path(__file__).resolve().parents[2] / "data"


def recorded(name: str) -> Engine:
    return open_engine(DATA / "gpu" / f"{name}.trtlab")


def written(folder: Path, name: str, layers: list[dict[str, Any]], times: dict[str, float], **more: Any) -> Engine:
    """An engine from files as trtexec writes them."""
    (folder / f"{name}.layers.json").write_text(json.dumps({"Layers": layers, "Bindings": [], **more}))
    rows = [{"name": key, "timeMs": ms, "averageMs": ms, "percentage": 0.0} for key, ms in times.items()]
    (folder / f"{name}.profile.json").write_text(json.dumps([{"count": 1}, *rows]))
    return open_engine(folder / f"{name}.layers.json")


def layer(name: str, nodes: str = "", *, tactic: str = "t", kind: str = "Half", **more: Any) -> dict[str, Any]:
    names = nodes.split() or name.split(" + ")
    tensor = {"Name": f"{name}_out", "Dimensions": [1], "Format/Datatype": kind}
    return {
        "Name": name,
        "LayerType": "kgen",
        "Inputs": [],
        "Outputs": [tensor],
        "TacticName": tactic,
        "StreamId": 0,
        "Metadata": "\x1e".join(f"[ONNX Layer: {node}]" for node in names),
        **more,
    }


def assert_adds_up(diff: EngineDiff) -> None:
    assert diff.total_a_ms is not None
    assert diff.total_b_ms is not None
    for rows in (diff.rows, diff.groups, diff.scopes(), diff.scopes(1)):
        assert math.fsum(row.a_ms or 0.0 for row in rows) == pytest.approx(diff.total_a_ms, rel=1e-12)
        assert math.fsum(row.b_ms or 0.0 for row in rows) == pytest.approx(diff.total_b_ms, rel=1e-12)
        assert math.fsum(row.delta_ms or 0.0 for row in rows) == pytest.approx(diff.delta_ms, rel=1e-9)


@pytest.mark.parametrize("model", ["encoder4", "l2norm_overflow", "magika", "ppocr_det"])
def test_fp32_against_fp16_adds_up_to_both_totals(model: str) -> None:
    a, b = recorded(f"{model}-fp32"), recorded(f"{model}-fp16")
    diff = diff_engines(a, b)
    assert_adds_up(diff)
    for engine, total in ((a, diff.total_a_ms), (b, diff.total_b_ms)):
        assert total == pytest.approx(math.fsum(time.median_ms or 0.0 for time in engine.times), abs=1e-10)
        assert sum(row.time_fs for row in node_times(engine).rows) / FS_PER_MS == total
    assert diff.facts_changed["precision"] == ("fp32", "fp16")
    assert diff.statistic == "median"


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_layer_json_of_trtexec_adds_up_too(shared: Path, precision: str) -> None:
    files = shared / "trt_records"
    a, b = (
        open_engine(files / f"encoder4.{p}.layers.json", profile=files / f"encoder4.{p}.profile.json")
        for p in ("fp32", precision)
    )
    diff = diff_engines(a, b)
    assert_adds_up(diff)
    assert any("what is noise cannot be told" in note for note in diff.notes)
    assert {row.change for row in diff.rows} <= {"unknown", "only_a", "only_b"}


def test_encoder4_the_attention_is_what_fp16_fused() -> None:
    """By hand: FP32 runs softmax and both products apart, FP16 has one `_gemm_mha_v2` a block."""
    diff = diff_engines(recorded("encoder4-fp32"), recorded("encoder4-fp16"))
    attention = [change for change in diff.fusions_changed if "/b.0/self_attn/Softmax" in change.nodes]
    assert [(change.kind, len(change.layers_a), len(change.layers_b)) for change in attention] == [("fused", 6, 2)]
    assert "_gemm_mha_v2_myl1_5" in attention[0].layers_b
    best = {row.node for row in diff.rows[:4]}
    assert best == {f"/b.{block}/self_attn/MatMul_2" for block in range(4)}
    assert all(row.change == "faster" and not row.measured for row in diff.rows[:4])
    assert diff.interval_ms is not None
    assert diff.delta_ms is not None
    assert diff.interval_ms[0] < diff.delta_ms < diff.interval_ms[1] < 0
    changed = {change.node: (change.type_a, change.type_b) for change in diff.types_changed}
    assert changed["/emb/MatMul"] == ("float32", "float16")


def test_the_order_of_rows_has_no_say() -> None:
    a, b = recorded("encoder4-fp32"), recorded("encoder4-fp16")
    order = list(range(len(b.layers)))
    random.Random(7).shuffle(order)
    layers = tuple(replace(b.layers[old], index=new) for new, old in enumerate(order))
    times = tuple(replace(b.time_of[old], index=new) for new, old in enumerate(order))
    shuffled = diff_engines(a, replace(b, layers=layers, times=times))
    straight = diff_engines(a, b)
    assert {(row.node, row.a_ms, row.b_ms, row.change) for row in shuffled.rows} == {
        (row.node, row.a_ms, row.b_ms, row.change) for row in straight.rows
    }

    def tactics(diff: EngineDiff) -> set[tuple[str, str]]:
        return {(change.layer_a, change.layer_b) for change in diff.tactics_changed}

    assert tactics(shuffled) == tactics(straight)
    assert len(shuffled.fusions_changed) == len(straight.fusions_changed)


def test_an_engine_against_itself_is_the_same() -> None:
    a = recorded("ppocr_det-fp16")
    diff = diff_engines(a, a)
    assert diff.fusions_changed == diff.tactics_changed == diff.types_changed == ()
    assert {row.change for row in diff.rows} == {"noise"}
    assert diff.delta_ms == 0
    assert diff.facts_changed == {}


def test_halves_of_one_recording_are_noise() -> None:
    a = recorded("encoder4-fp16")

    def part(start: int, end: int) -> Engine:
        times = (replace(time, runs_ms=time.runs_ms[start:end]) for time in a.times)
        return replace(a, times=tuple(times))

    assert {row.change for row in diff_engines(part(0, 10), part(10, 20)).rows} == {"noise"}


def test_c35_two_builds_of_one_model(tmp_path: Path) -> None:
    """Another tactic and two layers fused: told apart, each with its nodes."""
    a = written(tmp_path, "a", [layer("a"), layer("b"), layer("c", tactic="old")], {"a": 1.0, "b": 2.0, "c": 3.0})
    b = written(tmp_path, "b", [layer("c", tactic="new"), layer("a + b")], {"a + b": 2.0, "c": 3.5})
    diff = diff_engines(a, b)
    assert [(change.kind, change.nodes, change.layers_a, change.layers_b) for change in diff.fusions_changed] == [
        ("fused", ("a", "b"), ("a", "b"), ("a + b",))
    ]
    assert [(t.nodes, t.tactic_a, t.tactic_b) for t in diff.tactics_changed] == [(("c",), "old", "new")]
    assert {row.node: (row.a_ms, row.b_ms, row.delta_ms, row.measured) for row in diff.rows} == {
        "a": (1.0, 1.0, 0.0, False),
        "b": (2.0, 1.0, -1.0, False),
        "c": (3.0, 3.5, 0.5, True),
    }
    assert [(group.nodes, group.a_ms, group.b_ms) for group in diff.groups] == [
        (("a", "b"), 3.0, 2.0),
        (("c",), 3.0, 3.5),
    ]
    assert_adds_up(diff)


def test_trt10_against_trt11(tmp_path: Path) -> None:
    """The same layers in TensorRT 11's form, with other Myelin numbers and order, are the same layers."""
    old = json.loads((DATA / "trt_records" / "encoder4.fp16.layers.json").read_text())
    new = {
        "Layers": [],
        "I/O Tensors": [{"Name": "x", "IOMode": "Input", "DataType": "Float", "Dimensions": [4, 128, 64]}],
    }
    for item in reversed(old["Layers"]):
        made = {**item, "Name": item["Name"].replace("_myl1_", "_myl7_1")}
        for side in ("Inputs", "Outputs"):
            made[side] = [
                {
                    "Name": t["Name"],
                    "Dimensions": t["Dimensions"],
                    "Format": "Row major",
                    "Datatype": t["Format/Datatype"],
                }
                for t in item[side]
            ]
        new["Layers"].append(made)
    (tmp_path / "a.json").write_text(json.dumps(old))
    (tmp_path / "b.json").write_text(json.dumps(new))
    a, b = open_engine(tmp_path / "a.json"), open_engine(tmp_path / "b.json")
    assert (a.dialect, b.dialect) == ("trt10", "trt11")
    diff = diff_engines(a, b)
    assert diff.fusions_changed == diff.tactics_changed == diff.types_changed == ()
    assert {row.change for row in diff.rows} == {"untimed"}
    assert (diff.total_a_ms, diff.total_b_ms, diff.delta_ms) == (None, None, None)
    assert any(note.startswith("not timed") for note in diff.notes)


def test_int8_against_fp32(tmp_path: Path) -> None:
    a = written(tmp_path, "a", [layer("c1", kind="Float"), layer("c2", kind="Float")], {"c1": 2.0, "c2": 2.0})
    b = written(
        tmp_path,
        "b",
        [
            layer("q + c1", kind="Int8"),
            layer("Reformatting CopyNode for Input Tensor 0 to c2", "c2"),
            layer("c2", kind="Float"),
        ],
        {"q + c1": 0.5, "Reformatting CopyNode for Input Tensor 0 to c2": 0.25, "c2": 2.0},
    )
    diff = diff_engines(a, b)
    assert [(t.node, t.type_a, t.type_b) for t in diff.types_changed] == [("c1", "float32", "int8")]
    assert (diff.reformats.a_count, diff.reformats.b_count, diff.reformats.b_ms) == (0, 1, 0.25)
    rows = {row.node: row for row in diff.rows}
    assert (rows["c2"].a_ms, rows["c2"].b_ms) == (2.0, 2.25)  # the reformat serves c2, and is part of its price
    assert (rows["q"].a_ms, rows["q"].change, rows["q"].delta_ms) == (None, "only_b", 0.25)
    assert_adds_up(diff)


def test_two_gpus_and_other_sizes_are_said() -> None:
    a = recorded("encoder4-fp16")
    shapes = [replace(tensor, shape=(8, 128, 64)) for tensor in a.bindings]
    b = replace(a, label="other", facts={**a.facts, "gpu": "NVIDIA L4", "model_hash": "0" * 64}, bindings=tuple(shapes))
    a = replace(a, bindings=tuple(replace(tensor, shape=(4, 128, 64)) for tensor in a.bindings))
    diff = diff_engines(a, b)
    assert diff.facts_changed["gpu"] == ("NVIDIA H200", "NVIDIA L4")
    assert any("the models differ (model_hash)" in note for note in diff.notes)
    assert any("4x128x64 in a, 8x128x64 in b" in note for note in diff.notes)


def test_engines_of_different_models_are_refused() -> None:
    with pytest.raises(CompareError, match="no ONNX node in common"):
        diff_engines(recorded("encoder4-fp32"), recorded("magika-fp32"))
    empty = Engine("none", None, "layers", "empty", ())
    with pytest.raises(CompareError, match="none: no layers"):
        diff_engines(empty, recorded("magika-fp32"))


def test_a_median_on_one_side_only_is_not_mixed_with_averages() -> None:
    made = (LayerInfo(0, "a", "kgen", nodes=()),)
    a = Engine("a", None, "layers", "trt10", made, (LayerTime(0, "a", 2.0, 1.0),))
    b = Engine("b", None, "layers", "trt8", made, (LayerTime(0, "a", 2.0, None),))
    diff = diff_engines(a, b)
    assert (diff.statistic, diff.total_a_ms, diff.total_b_ms) == ("average", 2.0, 2.0)


def test_frame_has_one_row_a_node() -> None:
    diff = diff_engines(recorded("l2norm_overflow-fp32"), recorded("l2norm_overflow-fp16"))
    frame = engine_diff_frame(diff)
    assert len(frame) == len(diff.rows)
    assert frame["delta_ms"].sum() == pytest.approx(diff.delta_ms)
    assert frame.loc[frame["change"] == "only_a", "b_ms"].isna().all()
