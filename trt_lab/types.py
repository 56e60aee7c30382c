"""Frozen dataclasses that cross layers.

Ids are strings so that they survive JSON, the wire and the command line. They are made by
`graph.view`, the only place that knows how nameless and duplicate nodes are told apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NewType, TypeAlias

NodeId = NewType("NodeId", str)
"""Stable id of a node: its name, or `OpType_i` when nameless, `name#2` when taken, and
`outer/branch/inner` inside a subgraph."""

TensorId = NewType("TensorId", str)
"""Stable id of a tensor: its name; inside a subgraph prefixed by the path of the subgraph."""

Dim: TypeAlias = int | str | None
"""A size: a number, a symbolic name, or unknown."""

Shape: TypeAlias = tuple[Dim, ...]

JsonValue: TypeAlias = "None | bool | int | float | str | list[JsonValue] | dict[str, JsonValue]"

Precision: TypeAlias = Literal["fp32", "fp16", "bf16"]
PRECISIONS: tuple[Precision, ...] = ("fp32", "fp16", "bf16")

Verdict: TypeAlias = Literal["same", "differs", "not_comparable"]


# --- graph -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor of a model.

    Attributes:
        id: See `TensorId`.
        name: The name in the file (never empty).
        dtype: numpy / ml_dtypes name such as `float32`, `bfloat16`, `int4`; `string`; None if unknown.
        shape: None when the rank is unknown.
        role: What the tensor is to its graph. An initializer that is also listed as an input
            is an `initializer` with `overridable` set.
        producer: The node that makes it, or None for inputs and initializers.
        consumers: Nodes that read it, in graph order, each once, nodes inside subgraphs included.
        overridable: An initializer that the file also lists as an input.
        is_output: It is a graph output.
        declared_shape: The shape stored in the file, when it contradicts the inferred `shape`.
        graph: Path of the (sub)graph it belongs to; "" for the main graph.
    """

    id: TensorId
    name: str
    dtype: str | None
    shape: Shape | None
    role: Literal["input", "initializer", "intermediate"]
    producer: NodeId | None = None
    consumers: tuple[NodeId, ...] = ()
    overridable: bool = False
    is_output: bool = False
    declared_shape: Shape | None = None
    graph: str = ""


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """One node of a model.

    Attributes:
        id: See `NodeId`.
        name: The name stored in the file, "" if nameless; `id` is then made up and never stored.
        op_type, domain: The operator; domain "" is ai.onnx.
        scope: The `/a/b` part of the name, "" at the top.
        inputs: Ids of the tensors read; None where an optional input is omitted.
        outputs: Ids of the tensors made; None where an optional output is omitted.
        attributes: Short printable values, at most 80 characters each.
        graph: Path of the (sub)graph it belongs to; "" for the main graph.
        subgraphs: Paths of the graphs nested in it (If branches, Loop and Scan bodies, local function).
        captures: Tensors of outer graphs that its subgraphs read.
    """

    id: NodeId
    name: str
    op_type: str
    domain: str
    scope: str
    inputs: tuple[TensorId | None, ...]
    outputs: tuple[TensorId | None, ...]
    attributes: Mapping[str, str] = field(default_factory=dict)
    graph: str = ""
    subgraphs: tuple[str, ...] = ()
    captures: tuple[TensorId, ...] = ()


# --- what is asked of a backend ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PrecisionPlan:
    """Default type of all nodes, and the nodes kept in FP32.

    Keep FP32 is a region: a kept node reads and writes FP32, and casts stand only where the
    type changes. `edit.precision` realises a plan, as Cast pairs (emulation) or as a typed ONNX.
    """

    default: Precision = "fp32"
    keep_fp32: tuple[NodeId, ...] = ()


@dataclass(frozen=True, slots=True)
class ShapeRange:
    """Optimisation profile of one input: the smallest, the usual and the largest shape."""

    name: str
    min: tuple[int, ...]
    opt: tuple[int, ...]
    max: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """How to build and run an engine. Backends refuse what they cannot honour; none ignores it."""

    backend: str = "onnxruntime"
    plan: PrecisionPlan = field(default_factory=PrecisionPlan)
    shapes: tuple[ShapeRange, ...] = ()
    tf32: bool = False
    optimizer: bool = True
    """Whether the backend may optimise the graph. Off for the reference."""
    profile_runs: int = 10
    """Timed runs after warm-up; 0 leaves the profiler off."""
    timing_cache: str | None = None
    sparse_weights: bool = False
    """TensorRT: kernels for weights of 2:4 structured sparsity may be used."""
    builder_level: int | None = None
    workspace_bytes: int | None = None
    strongly_typed: bool = True
    compute_capability: str | None = None
    device: int = 0
    more_profiles: tuple[tuple[ShapeRange, ...], ...] = ()
    """Further optimisation profiles, beside the one in `shapes`."""
    shape_values: tuple[ShapeRange, ...] = ()
    """Smallest, usual and largest values (not sizes) of inputs that hold shapes, such as that of a Reshape."""
    hardware_compatibility: str | None = None
    """TensorRT: `ampere_plus` or `same_compute_capability`; None for this GPU only."""
    version_compatible: bool = False
    refit: bool = False
    log_severity: Literal["verbose", "info", "warning", "error"] = "info"
    """Least severity of the log lines that are kept."""
    engine_cache: Literal["on", "fresh", "off"] = "on"
    """TensorRT: whether an engine that this machine built of the very same thing is taken (`on`). `fresh` builds a new
    one and keeps it; `off` takes none and keeps none. See `backends.tensorrt.engines`."""
    calibration_cache: str | None = None
    """TensorRT up to 10, weakly typed: INT8 with the scales of this file. See `backends.tensorrt.calibration`."""
    editable_timing_cache: bool = False
    """TensorRT 10.8 and later: the log tells all tactics that were timed, and a timing cache that was edited is obeyed.
    See `backends.tensorrt.tactics`."""


@dataclass(frozen=True, slots=True)
class Progress:
    """One step of a long call. `fraction` is None while the length is unknown."""

    phase: str
    fraction: float | None = None
    message: str = ""


OnProgress: TypeAlias = Callable[[Progress], None]
"""Called from the job's own thread or process; raises `CancelledError` to stop the job."""


@dataclass(frozen=True, slots=True)
class BackendInfo:
    """What a backend can do on this machine. "Cannot" is a value with a reason, no exception."""

    name: str
    version: str | None
    can_build: bool
    can_run: bool
    reason: str = ""
    details: Mapping[str, JsonValue] = field(default_factory=dict)


# --- what an engine is ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LayerTensor:
    """An input or output of an engine layer. `dtype` uses the names of `TensorInfo.dtype`."""

    name: str
    dtype: str | None = None
    shape: Shape | None = None
    format: str | None = None
    location: str | None = None


@dataclass(frozen=True, slots=True)
class LayerInfo:
    """One layer of an engine.

    Attributes:
        index: Position in the engine's own order, from 0.
        precision: Type in which it computes, as far as the engine tells; None if it does not.
        nodes: ONNX nodes that went into it.
        nodes_from: How `nodes` was found, best first: metadata, name, tensors; `none` if it was not.
        attributes: All else the engine tells about the layer.
    """

    index: int
    name: str
    type: str
    inputs: tuple[LayerTensor, ...] = ()
    outputs: tuple[LayerTensor, ...] = ()
    precision: str | None = None
    tactic: str | None = None
    stream: int | None = None
    nodes: tuple[NodeId, ...] = ()
    nodes_from: Literal["metadata", "name", "tensors", "none"] = "none"
    attributes: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LayerTime:
    """Times of one layer in ms. `runs_ms` holds one value a profiled run, in order."""

    index: int
    name: str
    average_ms: float
    median_ms: float | None
    runs_ms: tuple[float, ...] = ()
    start_ms: float | None = None
    """Start within the run, where the profiler tells it (median over runs)."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a build or run log."""

    severity: Literal["verbose", "info", "warning", "error"]
    message: str
    source: str = ""
    time_s: float | None = None


@dataclass(frozen=True)
class Outcome:
    """What a job found. The outputs lie in `out_dir/samples/NNN/outputs.safetensors`.

    Attributes:
        layers, facts, log: See `backends.base.Built`; the log holds the lines of build and run.
        times, latency_ms: See `backends.base.Profile`; empty when no profile was asked for.
        build_s: Seconds of the build alone. run_s: of running all samples once.
        output_names: In the engine's order, those that were saved.
        samples: How many samples were run.
        engine_file: Name of the serialized engine in `out_dir`, None when the backend has none.
    """

    layers: tuple[LayerInfo, ...]
    times: tuple[LayerTime, ...]
    latency_ms: tuple[float, ...]
    log: tuple[LogLine, ...]
    build_s: float
    run_s: float
    facts: Mapping[str, JsonValue] = field(default_factory=dict)
    output_names: tuple[str, ...] = ()
    samples: int = 0
    engine_file: str | None = None


# --- numbers ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tolerance:
    """An element is fine when |a − b| ≤ atol + rtol · |b|, b the reference (numpy.allclose)."""

    atol: float = 1e-3
    rtol: float = 1e-3


@dataclass(frozen=True, slots=True)
class TensorStats:
    """How one tensor differs between two sides; a is the engine, b the reference.

    Figures that are not defined (no finite pair, zero vector, …) are None, never NaN or infinity.

    Attributes:
        name: Tensor id.
        verdict: See `compare.metrics`.
        note: Why, in a few words, where the figures alone do not say it ("shapes differ", "0 elements").
        count: Number of elements compared.
        max_abs, max_abs_at: Largest |a − b| over finite pairs and its index in the tensor.
        max_rel, max_rel_at: Largest |a − b| / |b| over finite pairs with b ≠ 0, and its index.
        zero_reference: Elements where b is 0 and a is not; left out of `max_rel`.
        rmse, cosine, snr_db: Over finite pairs. `exact` is set when all elements are equal.
        nan_only_a, nan_only_b: NaN on one side only, whatever the other side has.
        inf_both: The same infinity on both sides. inf_mismatch: An infinity against a number or the other infinity.
        over_tolerance: Elements outside the tolerance, non-finite disagreements included.
        differing: Elements that are not equal; NaN equals NaN.
        finite: Elements that are finite on both sides.
        pos_inf_a, neg_inf_a, pos_inf_b, neg_inf_b: Infinities of each side.
    """

    name: str
    verdict: Verdict
    dtype_a: str | None
    dtype_b: str | None
    shape_a: tuple[int, ...] | None
    shape_b: tuple[int, ...] | None
    count: int = 0
    max_abs: float | None = None
    max_abs_at: tuple[int, ...] | None = None
    max_rel: float | None = None
    zero_reference: int = 0
    rmse: float | None = None
    cosine: float | None = None
    snr_db: float | None = None
    exact: bool = False
    nan_both: int = 0
    nan_only_a: int = 0
    nan_only_b: int = 0
    inf_both: int = 0
    inf_mismatch: int = 0
    over_tolerance: int = 0
    sample: int = 0
    note: str = ""
    max_rel_at: tuple[int, ...] | None = None
    differing: int = 0
    finite: int = 0
    pos_inf_a: int = 0
    neg_inf_a: int = 0
    pos_inf_b: int = 0
    neg_inf_b: int = 0
