"""Small parts of the TensorRT backends that need no library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trt_lab.backends.tensorrt.cache import OFF, TimingCache, cache_name
from trt_lab.backends.tensorrt.constraints import check_precision, report_constraints
from trt_lab.backends.tensorrt.dump import parse_dump
from trt_lab.backends.tensorrt.faults import explain_build
from trt_lab.backends.tensorrt.log import BuildLog, collect, group_warnings, logger, summarize
from trt_lab.backends.tensorrt.progress import BuildProgress
from trt_lab.backends.tensorrt.tensors import byte_count, from_bytes, to_bytes
from trt_lab.backends.tensorrt.versions import Library, describe_version, installed_version
from trt_lab.engine_json import layers_from, parse_engine_json
from trt_lab.errors import CancelledError
from trt_lab.types import BuildOptions, LayerInfo, LayerTensor, LogLine, NodeId, PrecisionPlan, Progress

FP16 = PrecisionPlan("fp16")


class Kind:
    """A DataType by its name."""

    def __init__(self, name: str) -> None:
        self.name = name


# --- C32, C33 --------------------------------------------------------------------------


def fused(name: str, nodes: tuple[str, ...], kind: str, precision: str | None = None) -> LayerInfo:
    tensors = (LayerTensor(f"{name}_t", kind),)
    return LayerInfo(
        0, name, "kgen", tensors, tensors, precision, nodes=tuple(map(NodeId, nodes)), nodes_from="metadata"
    )


def test_c32_what_became_of_each_request() -> None:
    layers = [
        fused("{ForeignNode[a...b]}", ("/a/LayerNorm", "/a/Add"), "float16"),
        fused("shape_call", ("Shape_1",), "int64"),
        fused("pool", ("/p",), "float32", "float32"),
        fused("conv", ("/c",), "float32", "tf32"),
    ]
    asked = {NodeId(n): "fp32" for n in ("/a/LayerNorm", "__myl_Foo_0", "Shape_1", "/p", "/folded", "/c")}
    known = [NodeId(n) for n in ("/a/LayerNorm", "/a/Add", "Shape_1", "/p", "/folded", "/c")]
    found = {r.node: r for r in report_constraints(asked, layers, known)}  # type: ignore[arg-type]  # literals
    assert {n: r.state for n, r in found.items()} == {
        "/a/LayerNorm": "not honoured",
        "__myl_Foo_0": "matched nothing",
        "Shape_1": "not applicable",
        "/p": "honoured",
        "/folded": "matched nothing",
        "/c": "not honoured",
    }
    half = found[NodeId("/a/LayerNorm")]
    assert (half.layer, half.found) == ("{ForeignNode[a...b]}", "float16")
    assert found[NodeId("__myl_Foo_0")].note == "no such node in the model"
    assert found[NodeId("/folded")].note == "no engine layer holds it"
    assert found[NodeId("Shape_1")].found == "int64"
    assert found[NodeId("/c")].found == "tf32"


def test_c32_on_the_recorded_engine(shared: Path) -> None:
    text = (shared / "trt_records" / "l2norm_overflow.fp16.layers.json").read_bytes()
    layers = parse_engine_json(text).layers
    asked = {NodeId("/Mul"): "fp32", NodeId("/ReduceSum"): "fp32"}
    states = [r.state for r in report_constraints(asked, layers)]  # type: ignore[arg-type]  # literals
    assert states == ["not honoured", "honoured"]


def test_c33_fp16_asked_and_fp32_built() -> None:
    tensors = [{"Name": f"t{i}", "Dimensions": [1], "Datatype": "Float", "Format": "(Linear)"} for i in range(12)]
    layers = [
        {"Name": f"l{i}", "LayerType": "kgen", "Inputs": [tensors[2 * i]], "Outputs": [tensors[2 * i + 1]]}
        for i in range(6)
    ]
    read = layers_from({"Layers": layers, "I/O Tensors": []})
    assert check_precision(FP16, read.layers) == ("requested FP16; 0 of 12 layer tensors are half", False)
    assert check_precision(PrecisionPlan(), read.layers)[1]


def test_c33_the_recorded_fp16_engine_has_half_tensors(shared: Path) -> None:
    text = (shared / "trt_records" / "l2norm_overflow.fp16.layers.json").read_bytes()
    assert check_precision(FP16, parse_engine_json(text).layers) == (
        "requested FP16; 16 of 20 layer tensors are half",
        True,
    )


# --- the Layers: message ---------------------------------------------------------------

DUMP = (
    "Layers:\n"
    "Name: PWN(a, b), LayerType: kgen, Inputs: [ { Name: x, Dimensions: [1,3], Strides: [3,1], StrideOrder: [1,0], "
    "Datatype: Float, Format: (Linear) Row major linear format }, { Name: odd, name, Dimensions: [], Strides: [], "
    "StrideOrder: [], Datatype: Half, Format: (NHWC) Channel major format }], Constants: [], Outputs: [ { Name: y, "
    "Dimensions: [1,-1], Strides: [4,1], StrideOrder: [1,0], Datatype: BFloat16, Format: (Linear) Row major linear format }], "
    "TacticName: __myl_0x12, StreamId: 1, Metadata: [ONNX Layer: a]\x1f[ONNX Layer: b]\n"
    "Name: entry^bb^signal^2, LayerType: signal, Inputs: [], Outputs: [], TacticName: , StreamId: 0, Metadata: \n"
    "\nI/O Tensors:\n Name: x, IOMode: Input, DataType: Float, Dimensions: [1,3], Location: Device, IsShapeInferenceIO: false\n"
)


def test_layers_of_the_build_log() -> None:
    read = layers_from(parse_dump(DUMP))
    assert read.dialect == "trt11"
    first, second = read.layers
    assert (first.name, first.nodes, first.stream, first.tactic) == ("PWN(a, b)", ("a", "b"), 1, "__myl_0x12")
    assert [(t.name, t.dtype, t.shape, t.format) for t in first.inputs] == [
        ("x", "float32", (1, 3), "(Linear) Row major linear format"),
        ("odd, name", "float16", (), "(NHWC) Channel major format"),
    ]
    assert first.outputs[0].shape == (1, None)
    assert (second.name, second.type, second.inputs, second.precision) == ("entry^bb^signal^2", "signal", (), None)
    assert [(b.name, b.is_input, b.shape) for b in read.bindings] == [("x", True, (1, 3))]


def test_a_message_of_another_form_has_no_layers() -> None:
    assert parse_dump("Layers:\nsomething else\n") == {"Layers": [], "I/O Tensors": []}


# --- log -------------------------------------------------------------------------------


def lines(*messages: str, severity: str = "warning") -> list[LogLine]:
    return [LogLine(severity, message) for message in messages]  # type: ignore[arg-type]  # a severity


def test_c29_equal_warnings_are_one() -> None:
    many = [f"onnx2trt: weights of '/l{i}/w' are INT64 [{i}, 3] cast to INT32" for i in range(1000)]
    grouped = group_warnings(lines(*many, "another thing"))
    assert [(g["count"], g["severity"]) for g in grouped] == [(1000, "warning"), (1, "warning")]
    assert grouped[0]["first"] == many[0]


def test_what_a_log_tells() -> None:
    found = summarize(
        [
            *lines(
                "Running layernorm after self-attention in FP16 may overflow. Forcing layernorm layers to run in FP32."
            ),
            *lines("ConvReluFusion: Fusing /c with /r", "Set Tactic Name: sm80_x Tactic: 0x1", severity="verbose"),
        ]
    )
    assert found["by_severity"] == {"warning": 1, "verbose": 2}
    assert len(found["forced_fp32"]) == 1  # type: ignore[arg-type]  # a list
    assert found["fusions"] == ["ConvReluFusion: Fusing /c with /r"]
    assert found["kernels"] == ["sm80_x Tactic: 0x1"]
    json.dumps(found, allow_nan=False)


def test_one_logger_a_process_feeds_the_log_that_is_open(fake_library: Library) -> None:
    module = fake_library.module
    with collect(fake_library, "warning") as first:
        logger(fake_library).log(module.ILogger.Severity.INFO, "Layers:\nName: a")
        logger(fake_library).log(module.ILogger.Severity.ERROR, "one")
    logger(fake_library).log(module.ILogger.Severity.ERROR, "nobody listens")
    with collect(fake_library) as second:
        logger(fake_library).log(module.ILogger.Severity.INFO, "two")
    assert first.errors() == ["one"]
    assert first.layer_dump == "Layers:\nName: a"
    assert [line.message for line in second.lines] == ["two"]


# --- failed builds ---------------------------------------------------------------------


def failed(*messages: str) -> str:
    log = BuildLog()
    for message in messages:
        log.add("error", message)
    return explain_build("m", "TensorRT 10.15.1", log, "Stub GPU (SM90)")


def test_missing_kernels_are_one_clear_line() -> None:
    said = failed(
        "Error Code 6: API Usage Error (Unable to load library: libnvinfer_builder_resource_sm90.so.10.15.1: no such file)"
    )
    assert said == (
        "TensorRT 10.15.1 has no kernels for Stub GPU (SM90): the library libnvinfer_builder_resource_sm90.so.10.15.1 is "
        "missing. Install the complete libraries of this version, or a version that has them"
    )


def test_c45_the_first_error_is_shown() -> None:
    said = failed(
        "Error Code 10: Internal Error (Could not find any implementation for node {ForeignNode[a...b]}.)", "last"
    )
    assert said.startswith("m: TensorRT 10.15.1 could not build the engine: Error Code 10")
    assert "No kernel for {ForeignNode[a...b]}" in said
    assert "probes" in said
    assert "last" not in said


def test_workspace_too_small_says_how_much() -> None:
    said = failed(
        "Tactic 1 requested size of 300 bytes", "Requested amount of GPU memory (5000 bytes) could not be allocated"
    )
    assert "the largest scratch memory asked for was 5,000 bytes" in said.lower()


# --- progress --------------------------------------------------------------------------


def test_progress_is_nested_and_never_goes_back(fake_library: Library) -> None:
    seen: list[Progress] = []
    progress = BuildProgress(fake_library, seen.append)
    monitor = progress.monitor
    monitor.phase_start("build", None, 4)
    assert monitor.step_complete("build", 0)
    monitor.phase_start("timing", "build", 2)
    assert monitor.step_complete("timing", 0)
    monitor.phase_finish("timing")
    monitor.step_complete("build", 3)
    monitor.phase_finish("build")
    fractions = [p.fraction for p in seen]
    assert fractions == [0.0, 0.25, 0.25, 0.375, 1.0]
    assert {p.phase for p in seen} == {"build"}


def test_cancelling_ends_the_build_at_the_next_step(fake_library: Library) -> None:
    def stop(progress: Progress) -> None:
        if progress.fraction:
            raise CancelledError("stop")

    progress = BuildProgress(fake_library, stop)
    progress.monitor.phase_start("build", None, 4)
    assert progress.monitor.step_complete("build", 0) is False
    assert isinstance(progress.stopped, CancelledError)
    assert progress.monitor.step_complete("build", 1) is False


# --- types -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["INT4", "FP4"])
@given(data=st.data())
def test_two_elements_a_byte(name: str, data: st.DataObject) -> None:
    dtype = {"INT4": ml_dtypes.int4, "FP4": ml_dtypes.float4_e2m1fn}[name]
    values = data.draw(
        st.lists(st.integers(-8, 7) if name == "INT4" else st.sampled_from([0.0, 0.5, -1.5, 6.0, -3.0]), max_size=9)
    )
    array = np.array(values, np.float32).astype(dtype)
    packed = to_bytes(Kind(name), array).view(np.uint8).reshape(-1)
    assert packed.nbytes == byte_count(Kind(name), len(values))
    back = from_bytes(Kind(name), packed, array.shape)
    np.testing.assert_array_equal(back.astype(np.float32), array.astype(np.float32))


def test_int4_low_half_first() -> None:
    assert to_bytes(Kind("INT4"), np.array([1, -1, 2], ml_dtypes.int4)).tolist() == [0xF1, 0x02]


@pytest.mark.parametrize(("name", "size"), [("BF16", 6), ("BOOL", 3), ("INT64", 24), ("FP8", 3), ("HALF", 6)])
def test_bytes_of_types(name: str, size: int) -> None:
    assert byte_count(Kind(name), 3) == size


# --- timing cache ----------------------------------------------------------------------


class FakeCache:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def combine(self, other: FakeCache, ignore: bool) -> bool:
        self.data += other.data
        return True

    def serialize(self) -> bytes:
        return self.data


class FakeConfig:
    """Refuses caches that hold `foreign`."""

    def __init__(self) -> None:
        self.cache: FakeCache | None = None
        self.flags: list[Any] = []

    def create_timing_cache(self, data: bytes) -> FakeCache:
        return FakeCache(data)

    def set_timing_cache(self, cache: FakeCache, ignore: bool) -> bool:
        if b"foreign" in cache.data:
            return False
        self.cache = cache
        return True

    def get_timing_cache(self) -> FakeCache | None:
        return self.cache

    def set_flag(self, flag: Any) -> None:
        self.flags.append(flag)


def test_timing_cache_is_kept_and_merged(fake_library: Library, tmp_path: Path) -> None:
    options = BuildOptions(timing_cache=str(tmp_path / "t.cache"))
    first = TimingCache.of(fake_library, options, "GPU")
    config = FakeConfig()
    first.attach(config, fake_library.module.BuilderFlag)
    assert first.facts()["used"] is False
    assert config.cache is not None
    config.cache.data = b"mine"
    (tmp_path / "t.cache").write_bytes(b"other's")
    first.store(config)
    assert (tmp_path / "t.cache").read_bytes() == b"mineother's"
    second = TimingCache.of(fake_library, options, "GPU")
    second.attach(FakeConfig(), fake_library.module.BuilderFlag)
    assert second.facts() == {"file": "t.cache", "used": True, "found_bytes": 11, "note": ""}


def test_timing_cache_of_another_gpu_is_said_and_replaced(fake_library: Library, tmp_path: Path) -> None:
    (tmp_path / "t.cache").write_bytes(b"foreign")
    cache = TimingCache.of(fake_library, BuildOptions(timing_cache=str(tmp_path / "t.cache")), "GPU")
    config = FakeConfig()
    cache.attach(config, fake_library.module.BuilderFlag)
    assert "another version or GPU" in cache.note
    assert cache.facts()["used"] is False
    cache.store(config)
    assert (tmp_path / "t.cache").read_bytes() == b""


def test_timing_cache_off_and_by_default(fake_library: Library, tmp_path: Path) -> None:
    off = TimingCache.of(fake_library, BuildOptions(timing_cache=OFF), "GPU")
    config = FakeConfig()
    off.attach(config, fake_library.module.BuilderFlag)
    off.store(config)
    assert config.flags == [fake_library.module.BuilderFlag.DISABLE_TIMING_CACHE]
    assert off.facts()["file"] is None
    kept = TimingCache.of(fake_library, BuildOptions(), "NVIDIA H200")
    assert kept.path is not None
    assert kept.path.is_relative_to(tmp_path / "cache")
    assert kept.path.name.startswith("NVIDIA-H200-10.6.0-")
    assert cache_name("10.6.0", "G", BuildOptions()) != cache_name("10.6.0", "G", BuildOptions(tf32=True))


# --- versions --------------------------------------------------------------------------


def test_versions(fake_library: Library) -> None:
    assert fake_library.numbers == (10, 6, 0)
    assert fake_library.weakly_typed
    assert fake_library.title == "TensorRT 10.6.0"
    assert "mark_debug ends the process" in str(describe_version("10.6.0.post2")["tensors_inside"])
    assert describe_version("10.15.1")["tensors_inside"] == "probes"
    assert describe_version("11.2.0")["networks"] == "strongly typed"
    assert installed_version("tensorrt") is None or installed_version("tensorrt")
