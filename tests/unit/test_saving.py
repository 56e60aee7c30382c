"""All tensors saved part by part: the same numbers as of one run, in less memory, and polite refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from trt_lab import saving
from trt_lab.backends.onnxruntime import OnnxRuntime
from trt_lab.backends.onnxruntime.stream import Plan, plan_stream
from trt_lab.edit.mark import mark_all
from trt_lab.errors import RecordError
from trt_lab.graph import GraphView
from trt_lab.model import Model
from trt_lab.samples.sets import Samples
from trt_lab.saving import Saved, save_all
from trt_lab.tensors import open_samples, read_safetensors, streaming
from trt_lab.types import BuildOptions
from trt_lab.zoo import get


def save(model: Model, samples: Samples, folder: Path, limit: int) -> tuple[Saved, list[tuple[Plan, int]]]:
    told: list[tuple[Plan, int]] = []
    saved = save_all(
        model, samples, folder,
        on_progress=lambda _step: None, on_estimate=lambda *plan: told.append(plan), limit_bytes=limit,
    )  # fmt: skip
    return saved, told


@pytest.mark.parametrize("name", ["l2norm_overflow", "clean_cnn"])
def test_parts_give_the_numbers_of_one_run(name: str, tmp_path: Path) -> None:
    case = get(name)
    samples = Samples.given(case.model, case.feeds[:2])
    saved, told = save(case.model, samples, tmp_path / "g", 4096)
    assert saved.parts > 3 and saved.samples == 2 and told[0][1] == 2
    marked = mark_all(case.model)
    backend = OnnxRuntime()
    runner = backend.open(backend.build(marked.model, BuildOptions(optimizer=False, profile_runs=0), lambda _s: None))
    view = GraphView.of(case.model)
    for feed, got in zip(samples.feeds, open_samples(tmp_path / "g", which="outputs"), strict=True):
        whole = runner.run(feed)
        wanted = [t for t in whole if view.nodes[view.tensors[t].producer].op_type != "Constant"]
        assert sorted(got) == sorted(wanted)
        for tensor in wanted:
            np.testing.assert_array_equal(got[tensor], whole[tensor], strict=True)
    assert saved.bytes == 2 * sum(a.nbytes for a in open_samples(tmp_path / "g", which="outputs")[0].values())


def test_the_estimate_is_told_before_and_is_right(tmp_path: Path) -> None:
    case = get("clean_cnn")
    saved, told = save(case.model, Samples.given(case.model, case.feeds[:1]), tmp_path / "g", 1 << 20)
    assert told[0][0].total_bytes == saved.bytes and told[0][0].unknown == 0


def test_no_room_on_the_disk_is_told_before_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "SPARE_BYTES", 1 << 62)
    case = get("clean_cnn")
    with pytest.raises(RecordError, match=r"all tensors take \d+ MB and the disk has \d+ MB free"):
        save(case.model, Samples.given(case.model, case.feeds[:1]), tmp_path / "g", 1 << 20)
    assert not (tmp_path / "g").exists()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    case = get("clean_cnn")
    with pytest.raises(RecordError, match="not empty"):
        save(case.model, Samples.given(case.model, case.feeds[:1]), tmp_path, 1 << 20)


def branching() -> Model:
    """An If that reads an outer tensor, a sequence that no cut may cross, and sizes that only a run tells."""
    then = helper.make_graph(
        [helper.make_node("Add", ["a", "w"], ["t"])], "then", [], [helper.make_tensor_value_info("t", 1, None)]
    )
    other = helper.make_graph(
        [helper.make_node("Neg", ["a"], ["e"])], "else", [], [helper.make_tensor_value_info("e", 1, None)]
    )
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="relu"),
        helper.make_node("If", ["c"], ["i"], name="if", then_branch=then, else_branch=other),
        helper.make_node("SplitToSequence", ["i"], ["s"], name="split", axis=0),
        helper.make_node("Exp", ["i"], ["z"], name="exp"),
        helper.make_node("ConcatFromSequence", ["s"], ["j"], name="join", axis=0),
        helper.make_node("NonZero", ["j"], ["n"], name="nonzero"),
    ]
    inputs = [helper.make_tensor_value_info("x", 1, [2, 3]), helper.make_tensor_value_info("c", TensorProto.BOOL, [])]
    weight = onnx.numpy_helper.from_array(np.ones(3, np.float32), "w")
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("n", 7, None)], [weight])
    return Model.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))


def test_no_cut_crosses_a_sequence_and_branches_read_what_is_outside(tmp_path: Path) -> None:
    model = branching()
    feed = {"x": np.array([[1, -1, 2], [0, 3, -4]], np.float32), "c": np.array(True)}
    plan = plan_stream(model.for_runtime(), feed, 1)
    assert any({"split", "exp", "join"} <= set(part) for part in plan.parts) and plan.unknown > 0
    saved, _ = save(model, Samples.given(model, [feed]), tmp_path / "g", 1)
    (got,) = open_samples(tmp_path / "g", which="outputs")
    assert got["i"].tolist() == [[2, 1, 3], [1, 4, 1]] and got["n"].shape == (2, 6) and "s" not in got
    assert saved.notes == ("'s' left out: no tensor of a known type",)


def test_a_stream_is_an_ordinary_file_whatever_the_sizes(tmp_path: Path) -> None:
    arrays = {"b": np.array([True, False, True]), "f": np.arange(5, dtype=np.float32), "h": np.float16([[1.5]])}
    arrays |= {"d": np.array([1e-300]), "e": np.zeros((0, 2), np.int64), "s": np.array(["ü"], object)}
    with streaming(tmp_path / "t.safetensors", arrays) as out:
        for name, array in arrays.items():
            out.add(name, array)
    again = read_safetensors(tmp_path / "t.safetensors")
    assert list(again) == list(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(again[name], array, strict=True)
    with pytest.raises(ZeroDivisionError), streaming(tmp_path / "u.safetensors", ["a"]):
        raise ZeroDivisionError
    assert [path.name for path in tmp_path.iterdir()] == ["t.safetensors"]
