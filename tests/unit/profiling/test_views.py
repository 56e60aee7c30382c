"""Shares, memory, reformats, fusion and shapes of recorded engines, against sums taken from their files."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trt_lab.engine_json import EngineTensor
from trt_lab.errors import RecordError, UsageError
from trt_lab.frames import engine_frame, reformats_frame, shapes_frame, shares_frame, splits_frame
from trt_lab.frames.engine import ENGINE_COLUMNS, REFORMAT_COLUMNS, SHAPE_COLUMNS, SHARE_COLUMNS, SPLIT_COLUMNS
from trt_lab.profiling.fusion import fusion
from trt_lab.profiling.shapes import graph_shapes, ranges_of
from trt_lab.profiling.shares import BITS, is_pure_reformat, memory, reformats, shares, tensor_bytes
from trt_lab.profiling.source import Engine, open_engine
from trt_lab.types import LayerInfo, LayerTensor, LayerTime, NodeId, ShapeRange, TensorId

GPU = Path(__file__).resolve().parents[2] / "data" / "gpu"


@pytest.fixture(scope="module")
def l2norm(shared: Path) -> Engine:
    folder = shared / "trt_records"
    return open_engine(folder / "l2norm_overflow.fp16.layers.json", model=folder / "l2norm_overflow.onnx")


@pytest.fixture(scope="module")
def qat(shared: Path) -> Engine:
    folder = shared / "real_inputs" / "trex" / "examples" / "pytorch" / "resnet" / "A100"
    return open_engine(folder / "qat" / "resnet-qat.onnx.engine.graph.json")


def test_shares_add_up_to_all_layers_and_all_time(l2norm: Engine, qat: Engine) -> None:
    for engine in (l2norm, qat):
        for by in ("precision", "type"):
            found = shares(engine, by)
            assert sum(share.layers for share in found) == len(engine.layers)
            assert math.fsum(share.time_ms or 0 for share in found) == pytest.approx(engine.layer_sum_ms)
            assert math.fsum(share.share or 0 for share in found) == pytest.approx(1)
            assert [s.time_ms for s in found] == sorted((s.time_ms for s in found), reverse=True)
    assert {s.key: s.layers for s in shares(qat, "precision")} == {"int8": 32, "float32": 2, "float16": 3}


def test_shares_of_what_was_not_timed_are_missing() -> None:
    engine = Engine("e", None, "layers", "trt10", (LayerInfo(0, "a", "k"), LayerInfo(1, "b", "m")))
    assert [(s.time_ms, s.share, s.timed) for s in shares(engine, "type")] == [(None, None, 0)] * 2
    foreign = Engine("e", None, "layers", "trt10", (LayerInfo(0, "a", "k"),), (LayerTime(1, "z", 2.0, None),))
    assert {s.key: (s.layers, s.time_ms) for s in shares(foreign, "type")} == {"k": (1, None), "unknown": (0, 2.0)}
    assert shares_frame(shares(foreign, "type"))["time_ms"].isna().sum() == 1


def test_weights_are_those_that_the_file_counts(shared: Path, qat: Engine) -> None:
    file = qat.origin
    assert file is not None
    size = {"Int8": 1, "Float": 4, "Half": 2}
    right = [
        sum(size[layer[key]["Type"]] * layer[key]["Count"] for key in ("Weights", "Bias") if key in layer) or None
        for layer in json.loads(file.read_text())["Layers"]
    ]
    assert [m.weights_bytes for m in memory(qat)] == right and sum(filter(None, right)) == 11_702_112
    first = memory(qat)[1]
    assert (first.input_bytes, first.output_bytes) == (32 * 3 * 224 * 224, 32 * 64 * 112 * 112 * 4)


def test_unknown_sizes_leave_bytes_missing_and_give_a_least(l2norm: Engine) -> None:
    found = memory(l2norm)[1]
    assert found.input_bytes is None and found.output_bytes is None
    assert found.least_bytes == (3 + 32) * 64 * 64 * 2
    frame = engine_frame(l2norm)
    assert frame["output_bytes"].isna().all() and list(frame.columns) == list(ENGINE_COLUMNS)


@given(st.sampled_from(sorted(BITS)), st.lists(st.none() | st.integers(0, 50), max_size=4))
def test_bytes_of_a_tensor(dtype: str, shape: list[int | None]) -> None:
    known = None not in shape
    count = math.prod(size for size in shape if size is not None)
    assert tensor_bytes(dtype, shape) == (math.ceil(count * BITS[dtype] / 8) if known else None)
    assert tensor_bytes(dtype, shape, unknown=1) == math.ceil(count * BITS[dtype] / 8)
    assert tensor_bytes(None, shape) is None and tensor_bytes(dtype, None) is None


def test_weights_of_a_myelin_kernel_are_inputs_from_nowhere() -> None:
    gemm = LayerInfo(
        0, "g", "gemm", (LayerTensor("x", "float16", (1, 64)), LayerTensor("w", "float16", (64, 32))),
        (LayerTensor("y", "float16", (1, 32)),),
    )  # fmt: skip
    engine = Engine("e", None, "layers", "trt10", (gemm,), bindings=(EngineTensor("x", True), EngineTensor("y", False)))
    assert (memory(engine)[0].weights_bytes, memory(engine)[0].input_bytes) == (64 * 32 * 2, 128)
    blind = Engine("e", None, "layers", "trt10", (gemm,))
    assert memory(blind)[0].weights_bytes is None


def test_reformats_and_what_they_serve(l2norm: Engine, qat: Engine) -> None:
    found = reformats(l2norm)
    assert sorted(r.index for r in found) == [0, 7, 9, 18]
    assert {r.index: r.serves for r in found}[7] == ("/Mul_1", "/ReduceSum")
    assert {r.index: r.change for r in found} == dict.fromkeys((0, 7, 9, 18), "type")
    assert math.fsum(r.share or 0 for r in found) == pytest.approx(0.1507, abs=1e-3)
    assert all("QuantizeLinear" not in r.name.split(" to ")[0] for r in reformats(qat))
    slowest = reformats(qat)[0]
    assert slowest.change == "type and layout" and slowest.moved_bytes == 32 * 64 * 56 * 56 * 6
    assert slowest.before == "float32, Row major linear"
    assert list(reformats_frame(found).columns) == list(REFORMAT_COLUMNS)


def test_what_fused_and_why_neighbours_did_not(l2norm: Engine) -> None:
    found = fusion(l2norm)
    assert {g.layer: g.nodes for g in found.groups}[6] == ("/a/a.10/Conv", "/a/a.11/Relu", "/Mul")
    assert found.fused_nodes == 30
    reasons = {(s.node, s.reader): (s.reason, s.layer, s.reader_layer, s.reformat) for s in found.splits}
    assert reasons[NodeId("/Mul"), NodeId("/Mul_1")] == ("type_change", 6, 8, 7)
    assert reasons[NodeId("/ReduceSum"), NodeId("/Add")] == ("type_change", 8, 10, 9)
    assert reasons[NodeId("/Mul"), NodeId("/Div")] == ("extra_reader", 6, 10, None)
    assert reasons[NodeId("/c/c.11/Relu"), NodeId("/Add_1")] == ("join", 16, 17, None)
    assert reasons[NodeId("/a/a.1/Relu"), NodeId("/a/a.2/Conv")] == ("pattern", 1, 2, None)
    assert not any((a, b) in reasons for g in found.groups for a in g.nodes for b in g.nodes)
    assert list(splits_frame(found.splits).columns) == list(SPLIT_COLUMNS)


def test_the_last_layer_of_a_node_is_the_one_that_hands_on(shared: Path) -> None:
    folder = shared / "trt_records"
    found = fusion(open_engine(folder / "encoder4.fp16.layers.json", model=folder / "encoder4.onnx"))
    handed = {(s.node, s.reader): s.layer for s in found.splits}
    assert handed[NodeId("/b.0/norm2/LayerNormalization"), NodeId("/b.1/Add")] == 12


@pytest.mark.parametrize(("origin", "pure"), [("REFORMAT", True), ("QDQ", False), ("CAST", False), ("CONCAT", False)])
def test_a_reformat_layer_that_does_a_nodes_work_is_no_reformat(origin: str, pure: bool) -> None:
    assert is_pure_reformat(LayerInfo(0, "k", "Reformat", attributes={"Origin": origin})) is pure


def test_a_probe_is_named_as_the_reason() -> None:
    found = fusion(open_engine(GPU / "l2norm_overflow-fp16-probe.trtlab"))
    probes = [s for s in found.splits if s.reason == "probe"]
    assert [(s.node, s.reader, s.tensor) for s in probes] == [("/a/a.11/Relu", "/Mul", "/a/a.11/Relu_output_0")]


def test_layouts_are_told_apart_from_types(real_model: Callable[[str], Path]) -> None:
    found = fusion(open_engine(GPU / "ppocr_det-fp16.trtlab", model=real_model("ppocr_det")))
    counts = Counter(split.reason for split in found.splits)
    assert counts["reformat"] > 20 and counts["backend"] > 5 and "type_change" not in counts
    layers = {group.layer for group in found.groups}
    assert all(split.reformat not in layers for split in found.splits if split.reason == "reformat")


def test_fusion_needs_a_graph(qat: Engine) -> None:
    with pytest.raises(RecordError, match="give the model"):
        fusion(qat)


def test_shapes_along_the_graph_at_three_points() -> None:
    engine = open_engine(GPU / "l2norm_overflow-fp16.trtlab")
    assert engine.view is not None
    ranges = ranges_of(engine)
    assert [r.name for r in ranges] == ["x"]
    found = {shape.tensor: shape for shape in graph_shapes(engine.view, ranges, engine)}
    batch = (ranges[0].min[0], ranges[0].opt[0], ranges[0].max[0])
    inner = found[TensorId("/Mul_output_0")]
    assert (inner.smallest, inner.usual, inner.largest) == tuple((n, 32, 64, 64) for n in batch)
    assert inner.layers and inner.usual_bytes == batch[1] * 32 * 64 * 64 * 4
    assert list(shapes_frame(found.values()).columns) == list(SHAPE_COLUMNS)
    zero = graph_shapes(engine.view, [ShapeRange("x", (0, 3, 64, 64), (1, 3, 64, 64), (2, 3, 64, 64))])
    assert all(
        shape.note == "empty at the smallest shape" for shape in zero if shape.symbolic and "N" in shape.symbolic
    )
    unknown = {shape.tensor: shape for shape in graph_shapes(engine.view, ())}
    assert unknown[TensorId("/Mul_output_0")].usual == (None, 32, 64, 64)


def test_frames_without_rows_keep_their_columns() -> None:
    assert list(shares_frame(()).columns) == list(SHARE_COLUMNS)
    empty = engine_frame(Engine("e", None, "layers", "empty", ()))
    assert empty.empty and str(empty["stream"].dtype) == "Int64"


def test_sizes_that_no_memory_has_are_not_known() -> None:
    assert tensor_bytes("float32", [10**18] * 40) is None
    assert tensor_bytes("float32", [-3]) is None
    assert tensor_bytes("float16", [2**40]) == 2**41


def test_shares_by_something_else_are_refused() -> None:
    with pytest.raises(UsageError, match="take one of precision, type"):
        shares(Engine("e", None, "layers", None, ()), "stream")  # pyright: ignore[reportArgumentType]
