"""From a model and options to a serialized engine; shared by TensorRT and TensorRT for RTX."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from trt_lab.backends.shapes import Profiles, resolve_profiles
from trt_lab.backends.tensorrt.calibrator import check_calibration, set_calibrator
from trt_lab.backends.tensorrt.config import add_profiles, make_config
from trt_lab.backends.tensorrt.constraints import check_precision, constrain, report_constraints
from trt_lab.backends.tensorrt.faults import RESOURCE_WORD, explain_build
from trt_lab.backends.tensorrt.log import BuildLog, logger
from trt_lab.backends.tensorrt.network import Network, double_note, parse, refuse_early
from trt_lab.backends.tensorrt.progress import BuildProgress
from trt_lab.backends.tensorrt.versions import Library
from trt_lab.edit.precision import Realised, typed
from trt_lab.engine_json import count_precisions, count_tensor_types
from trt_lab.engine_nodes import NodeIndex
from trt_lab.errors import BackendUnavailableError, BuildError, UsageError
from trt_lab.graph import GraphView
from trt_lab.model import Model
from trt_lab.types import BuildOptions, JsonValue, LayerInfo, OnProgress, Progress

Configure = Callable[[Any, dict[str, JsonValue]], None]
"""Sets what one backend alone needs in a builder config; may add facts."""


@dataclass(frozen=True)
class Prepared:
    """A model ready for the parser.

    Attributes:
        name: Of the model, for messages.
        source: The model given, with unique node names; its ids are the ones reported.
        realised: What is parsed: typed where a lower type is asked of a strongly typed network.
        strongly_typed: Types are taken from the ONNX.
    """

    name: str
    source: Model
    realised: Realised
    profiles: Profiles
    strongly_typed: bool

    @property
    def index(self) -> NodeIndex:
        """To map layers back to nodes of `source`."""
        return NodeIndex.of(GraphView.of(self.source).nodes.values(), self.realised.origin)


@dataclass
class Serialized:
    """A built engine, not loaded.

    Attributes:
        facts: For the record, as far as known before the layers are.
    """

    engine: bytes
    seconds: float
    facts: dict[str, JsonValue] = field(default_factory=dict)


def prepare(library: Library, model: Model, options: BuildOptions) -> Prepared:
    """Checks options and model, and realises the precision plan.

    Raises:
        UsageError: An option that this library does not have, or shapes that do not fit.
        InputError: Dynamic inputs without a range.
        BuildError: Known not to build.
        EditError: The plan does not fit the model.
    """
    _check_options(library, options)
    source = model.for_runtime()
    refuse_early(model)
    check_calibration(library, source, options)
    profiles = resolve_profiles(source, options)
    strongly = options.strongly_typed or not library.weakly_typed
    realised = typed(profiles.model, options.plan) if strongly else Realised(profiles.model)
    return Prepared(model.name, source, realised, profiles, strongly)


def serialize(
    library: Library,
    prepared: Prepared,
    options: BuildOptions,
    on_progress: OnProgress,
    log: BuildLog,
    *,
    configure: Configure,
    after: Callable[[Any], None] | None = None,
    gpu: str = "",
) -> Serialized:
    """Builds. `configure` sets what is particular, `after` sees the config when the build has succeeded.

    Raises:
        BuildError: Parser or builder refuse; the first error stands first.
        CancelledError: `on_progress` said so.
    """
    progress = BuildProgress(library, on_progress)
    opened = time.perf_counter()
    builder = _make_builder(library, log, gpu)
    started = time.perf_counter()
    on_progress(Progress("parse", 0.0, "parsing the model"))
    network = parse(
        library,
        prepared.realised.model,
        log,
        name=prepared.name,
        strongly_typed=prepared.strongly_typed,
        builder=builder,
    )
    config, facts = make_config(library, builder, options, progress)
    _set_precision(library, network, config, prepared, options, facts)
    add_profiles(builder, config, network.network, prepared.profiles.ranges, options.shape_values)
    configure(config, facts)
    data = builder.build_serialized_network(network.network, config)
    if progress.stopped is not None:
        raise progress.stopped
    if data is None:
        raise BuildError(explain_build(prepared.name, library.title, log, gpu))
    if after is not None:
        after(config)
    seconds = time.perf_counter() - started
    facts |= {
        "version": library.version,
        "builder_s": round(started - opened, 3),
        "strongly_typed": prepared.strongly_typed,
        "network_layers": int(network.network.num_layers),
        "engine_bytes": int(data.nbytes),
    }
    return Serialized(bytes(data), seconds, facts)


def describe(
    prepared: Prepared, options: BuildOptions, layers: tuple[LayerInfo, ...]
) -> tuple[dict[str, JsonValue], tuple[str, ...]]:
    """What the layers tell about precision, for the record, and notes for the user."""
    plan = options.plan
    line, met = check_precision(plan, layers)
    notes = [*prepared.profiles.notes, *prepared.realised.notes]
    notes += filter(None, [double_note(prepared.source)])
    facts: dict[str, JsonValue] = {
        "precision_line": line,
        "precision_met": met,
        "by_precision": dict(count_precisions(layers)),
        "tensor_types": dict(count_tensor_types(layers)),
    }
    if plan.default != "fp32":
        notes.append(line)
    if prepared.strongly_typed and plan.default != "fp32":
        lowered = len(prepared.realised.lowered)
        notes.append(f"the ONNX was rewritten to {plan.default} for a strongly typed build: {lowered} nodes lowered")
        facts["lowered_nodes"] = lowered
        facts["forced_fp32"] = {str(k): v for k, v in prepared.realised.forced_fp32.items()}
    elif plan.keep_fp32:
        known = GraphView.of(prepared.source).nodes
        reports = report_constraints(dict.fromkeys(plan.keep_fp32, "fp32"), layers, known)
        facts["constraints"] = [report.facts() for report in reports]
        notes += [_constraint_note(report.facts()) for report in reports if report.state != "honoured"]
    facts["notes"] = list(notes)
    return facts, tuple(notes)


def require_layers(layers: tuple[LayerInfo, ...], title: str) -> tuple[LayerInfo, ...]:
    """The layers, refused when there are none.

    Raises:
        BuildError: The engine has no layer to show.
    """
    if not layers:
        raise BuildError(
            f"{title} built an engine but told no layers; build again with log_severity='verbose' and report it"
        )
    return layers


def _check_options(library: Library, options: BuildOptions) -> None:
    if not options.optimizer:
        raise UsageError(f"{library.title} always optimises; leave `optimizer` on")
    if not options.strongly_typed and not library.weakly_typed:
        raise UsageError(
            f"{library.title} has no {options.plan.default} switch: its networks are strongly typed. "
            "Leave strongly_typed on: the ONNX is then rewritten to the types asked for"
        )
    if options.compute_capability and not library.named_capability:
        raise UsageError(
            f"{library.title} builds for the GPU of this machine; a compute capability can be named for tensorrt_rtx"
        )


def _make_builder(library: Library, log: BuildLog, gpu: str) -> Any:
    try:
        builder = library.module.Builder(logger(library))
    except (TypeError, RuntimeError, ValueError) as error:
        if RESOURCE_WORD in " ".join(log.errors()):
            raise BuildError(explain_build("", library.title, log, gpu)) from error
        said = " ".join((log.errors() or [str(error)])[0].split())[:300]
        raise BackendUnavailableError(
            f"{library.title} cannot make a builder: {said}. It needs an NVIDIA driver and GPU."
        ) from error
    if library.kind == "tensorrt":
        library.module.init_libnvinfer_plugins(logger(library), "")
    # max_threads stays at one: FP32 engines of 10.6 built with all threads were off by 0.03 on a busy H200.
    return builder


def _set_precision(
    library: Library,
    network: Network,
    config: Any,
    prepared: Prepared,
    options: BuildOptions,
    facts: dict[str, JsonValue],
) -> None:
    """Flags and constraints of a weakly typed network; a strongly typed one has its types in the ONNX."""
    if prepared.strongly_typed:
        return
    flags, plan = library.module.BuilderFlag, options.plan
    set_flags = []
    if plan.default == "fp16":
        set_flags.append("FP16")
    elif plan.default == "bf16":
        set_flags.append("BF16")
    if any(
        node.op_type in ("QuantizeLinear", "DequantizeLinear") for node in GraphView.of(prepared.source).nodes.values()
    ):
        set_flags.append("INT8")
    if options.calibration_cache is not None:
        set_flags.append("INT8")
        facts["calibration_cache"] = set_calibrator(library, config, options.calibration_cache)
    for name in set_flags:
        config.set_flag(getattr(flags, name))
    facts["builder_flags"] = list(set_flags)
    constrain(library, network.network, config, plan)


def _constraint_note(report: Mapping[str, JsonValue]) -> str:
    where = f" in layer '{report['layer']}' ({report['found']})" if report["layer"] else ""
    why = f": {report['note']}" if report["note"] else ""
    return f"FP32 asked for '{report['node']}': {report['state']}{where}{why}"
