"""Each rule on an engine made for it, with its gain; and on the same engine without the fault: nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from trt_lab import zoo
from trt_lab.engine_json import EngineTensor
from trt_lab.frames import lints_frame
from trt_lab.frames.engine import LINT_COLUMNS
from trt_lab.graph.view import GraphView
from trt_lab.profiling.kernels import on_tensor_cores
from trt_lab.profiling.lints import Lint, lints
from trt_lab.profiling.source import Engine, open_engine
from trt_lab.types import LayerInfo, LayerTensor, LayerTime, NodeId

GPU = Path(__file__).resolve().parents[2] / "data" / "gpu"
HALF = "sm80_xmma_fprop_implicit_gemm_f16f16_f16f16_f16_tensor16x8x16"


def tensor(name: str, dtype: str = "float16", channels: int = 64) -> LayerTensor:
    return LayerTensor(name, dtype, (1, channels, 8, 8))


def conv(
    index: int, reads: LayerTensor, makes: LayerTensor, *, precision: str = "float16", tactic: str = HALF, **more: int
) -> LayerInfo:
    outer = makes.shape[1] if makes.shape else None
    return LayerInfo(
        index, f"conv{index}", "CaskConvolution", (reads,), (makes,), precision, tactic,
        nodes=(NodeId(f"conv{index}"),), nodes_from="name",
        attributes={"ParameterType": "Convolution", "OutMaps": outer, "Groups": 1, **more},
    )  # fmt: skip


def other(
    index: int, kind: str, reads: LayerTensor, makes: LayerTensor, name: str = "", **attributes: str
) -> LayerInfo:
    nodes = (NodeId(name),) if name and not name.startswith("Reformatting") else ()
    return LayerInfo(
        index, name or f"{kind}{index}", kind, (reads,), (makes,), makes.dtype, nodes=nodes,
        nodes_from="name" if nodes else "none", attributes=dict(attributes),
    )  # fmt: skip


def engine(*layers: LayerInfo, ms: tuple[float, ...] = (), latency: float | None = None, **facts: str) -> Engine:
    times = tuple(LayerTime(i, layers[i].name, value, value) for i, value in enumerate(ms))
    bindings = (EngineTensor("x", True), EngineTensor("y", False))
    return Engine(
        "e", None, "layers", "trt10", layers, times, () if latency is None else (latency,), bindings, dict(facts)
    )


def only(found: tuple[Lint, ...], rule: str) -> Lint:
    (lint,) = [lint for lint in found if lint.rule == rule]
    return lint


def rules(given: Engine) -> set[str]:
    return {lint.rule for lint in lints(given)}


def test_a_hot_layer_off_the_tensor_cores() -> None:
    slow = engine(
        conv(0, tensor("x", "float32"), tensor("y", "float32"), precision="float32", tactic="ampere_scudnn"), ms=(2.0,)
    )
    lint = only(lints(slow), "tensor_cores")
    assert lint.layers == (0,) and lint.nodes == ("conv0",) and lint.gain_ms == 1.0 and lint.gain_share == 0.5
    assert lint.evidence["tactic"] == "ampere_scudnn" and "half its time" in lint.basis
    assert "tensor_cores" not in rules(engine(conv(0, tensor("x"), tensor("y")), ms=(2.0,)))
    cold = engine(
        conv(0, tensor("x"), tensor("t")),
        conv(1, tensor("t", "float32"), tensor("y", "float32"), precision="float32", tactic="ampere_scudnn"),
        ms=(100.0, 1.0),
    )
    assert "tensor_cores" not in rules(cold)


@pytest.mark.parametrize(
    ("tactic", "right"),
    [
        ("ampere_h16816cudnn_128x128_ldg8_relu_exp_stages_64x3_large_nhwc_tn_v1", True),
        ("sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize32x32x64_stage6_warpsize2x2x1_tensor16x8x16", True),
        ("sm90_xmma_gemm_f16f16_f16f16_f16_nn_n_tilesize64x64x64_cgasize1x1x1_warpgroupsize1x1x1_beta0", True),
        ("ampere_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1", False),
        ("ampere_int8x4_icudnn_int8x4_128x32_relu_interior_c32_nn_v1", False),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna4_alignc4", False),
        ("sm50_xmma_cublas_gemvx_f16f16_f32_f32_nn_n_int32_unit_n_launch_param4x32x1_strided", False),
        ("__myl_AddMax_0x0cf70bcc8b0b8ade749ea9e7e3d6fd05", None),
        (None, None),
    ],
)
def test_what_a_kernels_name_tells_of_tensor_cores(tactic: str | None, right: bool | None) -> None:
    assert on_tensor_cores(LayerInfo(0, "k", "gemm", tactic=tactic)) is right


def test_channels_that_are_no_multiple() -> None:
    odd = engine(conv(0, tensor("x", channels=12), tensor("y", channels=64)), ms=(4.0,))
    lint = only(lints(odd), "alignment")
    assert lint.evidence["in"] == 12 and lint.evidence["multiple"] == 8
    assert lint.gain_ms == pytest.approx(4.0 * (1 - 12 / 16))
    assert "alignment" not in rules(engine(conv(0, tensor("x", channels=16), tensor("y")), ms=(4.0,)))
    assert "alignment" not in rules(engine(conv(0, tensor("x", channels=3), tensor("y")), ms=(4.0,)))
    assert "alignment" not in rules(engine(conv(0, tensor("x", channels=12), tensor("y"), Groups=12), ms=(4.0,)))


def test_two_reformats_that_undo_each_other() -> None:
    there = other(0, "Reformat", tensor("x"), tensor("a", "float32"), "Reformatting CopyNode for Input Tensor 0 to mid")
    mid = other(1, "Reduce", tensor("a", "float32"), tensor("b", "float32"), "mid")
    back = other(2, "Reformat", tensor("b", "float32"), tensor("y"), "Reformatting CopyNode for Output Tensor 0 to mid")
    lint = only(lints(engine(there, mid, back, ms=(0.25, 5.0, 0.5))), "reformat_pair")
    assert lint.layers == (0, 2) and lint.gain_ms == 0.75 and lint.evidence["between"] == "mid"
    on = other(
        2, "Reformat", tensor("b", "float32"), tensor("y", "int8"), "Reformatting CopyNode for Output Tensor 0 to mid"
    )
    assert "reformat_pair" not in rules(engine(there, mid, on, ms=(0.25, 5.0, 0.5)))
    assert "reformat_pair" not in rules(engine(there, mid, back, ms=(0.0, 5.0, 0.0)))


def test_reformats_that_take_a_share() -> None:
    there = other(
        0, "Reformat", tensor("x", "float32"), tensor("a"), "Reformatting CopyNode for Input Tensor 0 to conv1"
    )
    lint = only(lints(engine(there, conv(1, tensor("a"), tensor("y")), ms=(1.0, 3.0))), "reformat_cost")
    assert lint.gain_ms == 1.0 and lint.gain_share == 0.25
    assert "reformat_cost" not in rules(engine(there, conv(1, tensor("a"), tensor("y")), ms=(0.1, 30.0)))


def test_quantisation_that_stayed_a_kernel() -> None:
    inner = other(1, "Reformat", tensor("a"), tensor("y", "int8"), "QuantizeLinear_5", Origin="QDQ")
    lint = only(lints(engine(conv(0, tensor("x"), tensor("a")), inner, ms=(3.0, 1.0))), "qdq_unfused")
    assert lint.layers == (1,) and lint.gain_ms == 1.0
    first = other(0, "Reformat", tensor("x"), tensor("a", "int8"), "QuantizeLinear_5", Origin="QDQ")
    assert "qdq_unfused" not in rules(
        engine(first, conv(1, tensor("a", "int8"), tensor("y"), precision="int8"), ms=(1.0, 3.0))
    )


def test_an_int8_layer_that_writes_floats() -> None:
    wide = conv(0, tensor("x", "int8"), tensor("a", "float32"), precision="int8")
    after = other(1, "Reformat", tensor("a", "float32"), tensor("b", "int8"), "QuantizeLinear_5", Origin="QDQ")
    last = conv(2, tensor("b", "int8"), tensor("y"), precision="int8")
    lint = only(lints(engine(wide, after, last, ms=(3.0, 1.0, 3.0))), "int8_float_output")
    assert lint.layers == (0,) and lint.gain_ms == 1.0 and lint.evidence["extra_bytes"] == 64 * 64 * 3
    alone = engine(conv(0, tensor("x", "int8"), tensor("y", "float32"), precision="int8"), ms=(3.0,))
    assert "int8_float_output" not in rules(alone)


def test_many_tiny_kernels() -> None:
    chain = [conv(i, tensor(f"t{i}"), tensor(f"t{i + 1}")) for i in range(20)]
    lint = only(lints(engine(*chain, ms=(0.002,) * 20, latency=0.1)), "tiny_kernels")
    assert lint.evidence["kernels"] == 20 and lint.gain_ms == pytest.approx(0.06)
    assert only(lints(engine(*chain, ms=(0.002,) * 20)), "tiny_kernels").gain_ms is None
    assert "tiny_kernels" not in rules(engine(*chain, ms=(0.2,) * 20))


def test_shapes_on_the_host() -> None:
    call = LayerInfo(0, "__mye1_0_myl1_0", "shape_call")
    lint = only(lints(engine(call, conv(1, tensor("x"), tensor("y")), ms=(0.5, 1.0))), "host_shapes")
    assert lint.layers == (0,) and lint.gain_ms == 0.5
    assert "host_shapes" not in rules(engine(conv(0, tensor("x"), tensor("y")), ms=(1.0,)))


def test_a_layer_norm_in_pieces(shared: Path) -> None:
    folder = shared / "trt_records"
    found = open_engine(folder / "encoder4.fp16.layers.json", model=folder / "encoder4.onnx")
    pieces = [lint for lint in lints(found) if lint.rule == "norm_pieces"]
    assert {lint.evidence["nodes"][0] for lint in pieces} == {f"/b.{i}/norm2/LayerNormalization" for i in range(4)}  # type: ignore[index]
    first = next(lint for lint in pieces if lint.layers == (11, 12))
    both = [found.time_of[index].average_ms for index in (11, 12)]
    assert first.gain_ms == pytest.approx(min(both))


def test_a_layer_norm_that_exporters_took_apart() -> None:
    view = GraphView.of(zoo.get("layernorm_overflow").model)
    whole = (LayerInfo(0, "all", "kgen", nodes=tuple(view.nodes), nodes_from="metadata"),)
    pieces = tuple(
        LayerInfo(i, node, "kgen", nodes=(node,), nodes_from="metadata") for i, node in enumerate(view.nodes)
    )
    times = tuple(LayerTime(layer.index, layer.name, 1.0, None) for layer in pieces)
    found = only(lints(Engine("e", None, "layers", "trt10", pieces, times, view=view)), "norm_pieces")
    chain = ("ReduceMean", "Sub", "Pow", "ReduceMean_1", "Add", "Sqrt", "Div")
    assert found.nodes == tuple(f"/norm/{name}" for name in chain)
    assert len(found.layers) == 7 and found.gain_ms == 6.0
    assert "norm_pieces" not in rules(Engine("e", None, "layers", "trt10", whole, times[:1], view=view))


def test_c33_fp16_was_asked_and_nothing_is_half() -> None:
    plain = engine(
        *(conv(i, tensor(f"t{i}", "float32"), tensor(f"t{i + 1}", "float32"), precision="float32") for i in range(11))
    )
    lint = lints(plain, precision="fp16")[0]
    assert lint.severity == "error" and lint.message.startswith("requested FP16; 0 of 12 layer tensors are half")
    assert not lints(plain) and not lints(plain, precision="fp32")
    told = engine(*plain.layers, precision="fp32+fp16")
    assert lints(told)[0].rule == "precision_missing"
    half = conv(0, tensor("x"), tensor("y"))
    assert "precision_missing" not in rules(engine(half, precision="fp32+fp16+int8")), "allowed is not asked"
    assert not [x for x in lints(engine(conv(0, tensor("x"), tensor("y"))), precision="fp16") if x.severity == "error"]


def test_findings_of_a_real_int8_engine(shared: Path) -> None:
    folder = shared / "real_inputs" / "trex" / "examples" / "pytorch" / "resnet" / "A100"
    before = open_engine(folder / "qat" / "resnet-qat.onnx.engine.graph.json")
    after = open_engine(folder / "qat-residual" / "resnet-qat-residual.onnx.engine.graph.json")
    unfused = [only(lints(found), "qdq_unfused") for found in (before, after)]
    assert [len(lint.layers) for lint in unfused] == [9, 2], "Q/DQ on the residual branches removes most"
    saved = (before.layer_sum_ms or 0) - (after.layer_sum_ms or 0)
    assert 0 < (unfused[0].gain_ms or 0) < saved, "the estimate is a lower bound of what the better placement gave"
    frame = lints_frame(lints(before))
    assert list(frame.columns) == list(LINT_COLUMNS) and frame["gain_ms"].is_monotonic_decreasing


@pytest.mark.parametrize("record", sorted(GPU.glob("*.trtlab")), ids=lambda path: path.stem)
def test_gains_are_within_the_layer_sum_or_the_latency(record: Path) -> None:
    found = open_engine(record)
    limit = max([found.layer_sum_ms or 0.0, *found.latency_ms])
    for lint in lints(found):
        assert lint.gain_ms is None or 0 <= lint.gain_ms <= limit
        assert lint.message and all(0 <= index < len(found.layers) for index in lint.layers)
