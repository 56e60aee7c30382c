"""Builds with ONNX Runtime and runs what was built.

As the reference: FP32 with the optimiser off. As an engine: the optimiser on, its fused graph read back as
layers, low precision emulated (`edit.precision`). Emulation rounds after each node, so it predicts an engine;
layers that it rounds say `float16 (emulated)`, and the facts say `emulated`.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from trt_lab.backends.base import Built, Feeds, Profile, describe_profiler
from trt_lab.backends.onnxruntime.errors import explain
from trt_lab.backends.onnxruntime.layers import Given, Layers, read_layers
from trt_lab.backends.onnxruntime.profile import read_profile
from trt_lab.backends.onnxruntime.values import Caller
from trt_lab.backends.output import taken_over
from trt_lab.edit.precision import Realised, emulate
from trt_lab.edit.tf32 import emulate_tf32
from trt_lab.errors import BuildError, RunError, UsageError
from trt_lab.graph import GraphView
from trt_lab.model import Model
from trt_lab.model.model import EXTERNAL_ABOVE_BYTES
from trt_lab.samples import check_feeds
from trt_lab.types import BackendInfo, BuildOptions, JsonValue, OnProgress, Progress

WARM_UP_RUNS = 1
"""Before the profiled runs with the same inputs; those warm the timed ones up in turn."""

_PROVIDERS = ["CPUExecutionProvider"]
_WARNINGS, _NOTHING = 2, 4
_KEPT_BYTES = "1024"


@dataclass(frozen=True)
class _Handle:
    """What `open` needs: the session, and the folder that holds its files as long as this object lives."""

    model: Model
    session: ort.InferenceSession
    layers: Layers
    given: Given
    source: bytes | str
    optimizer: bool
    folder: tempfile.TemporaryDirectory[str]


class OnnxRuntime:
    """ONNX Runtime on the CPU."""

    name = "onnxruntime"

    def info(self) -> BackendInfo:
        """Always able to build and run."""
        return BackendInfo(
            self.name, ort.__version__, can_build=True, can_run=True,
            details={"provider": _PROVIDERS[0], "threads": _threads(), "low_precision": "emulated"},
        )  # fmt: skip

    def build(self, model: Model, options: BuildOptions, on_progress: OnProgress) -> Built:
        """Makes a session and reads its layers back.

        Raises:
            BuildError: ONNX Runtime refused the model; the message names the node or tensor.
            UsageError: An option that ONNX Runtime cannot honour.
            EditError: The plan names no node of the model, or its weights are missing.
        """
        _refuse(options)
        _check_shapes(model, options)
        on_progress(Progress("build", 0.05, "placing casts" if options.plan.default != "fp32" else "preparing"))
        realised = emulate(model, options.plan)
        if options.tf32:
            realised = _with_tf32(realised)
        given = _given(realised, options)
        folder = tempfile.TemporaryDirectory(prefix="trt-lab-ort-")
        source = _source(given.view.model, Path(folder.name))
        on_progress(Progress("build", 0.3, "optimising" if options.optimizer else "loading"))
        started = time.perf_counter()
        session = _session(source, Path(folder.name), options.optimizer, model, given, options.profile_runs > 0)
        build_s = time.perf_counter() - started
        on_progress(Progress("build", 0.9, "reading the layers"))
        layers = read_layers((Path(folder.name) / "optimised.onnx").read_bytes(), given)
        handle = _Handle(given.view.model, session, layers, given, source, options.optimizer, folder)
        facts = _facts(options, realised, layers, (*given.view.model.notes,))
        on_progress(Progress("build", 1.0, f"{len(layers.layers)} layers"))
        return Built(layers.layers, (), build_s, facts, handle=handle)

    def open(self, built: Built) -> OrtRunner:
        """A runner on the session that was built."""
        return OrtRunner(built.handle)


class OrtRunner:
    """Runs a session of ONNX Runtime."""

    def __init__(self, handle: _Handle) -> None:
        """Raises RunError when inputs or outputs are no tensors."""
        self._handle: _Handle | None = handle
        self._caller = Caller(handle.session)
        self._profiling = handle.session.get_session_options().enable_profiling

    def run(self, feeds: Feeds) -> dict[str, np.ndarray]:
        """Outputs by name, in the model's order.

        Raises:
            InputError: The feeds do not fit the model.
            RunError: A node failed; the message names it.
        """
        handle = self._open()
        prepared = self._caller.prepare(check_feeds(handle.model, feeds))
        return self._caller.read(self._call(self._caller, prepared))

    def profile(self, feeds: Feeds, repeats: int) -> Profile:
        """Layer times with the profiler on, then end-to-end times with it off; both after a warm-up.

        Raises:
            InputError, RunError: See `run`.
        """
        handle = self._open()
        checked = check_feeds(handle.model, feeds)
        session, caller = handle.session, self._caller
        if not self._profiling:  # a session profiles once: another one, built alike, does it from then on
            session = _session(
                handle.source, Path(handle.folder.name), handle.optimizer, handle.model, handle.given, profiling=True
            )
            caller = Caller(session)
        self._profiling = False
        prepared = caller.prepare(checked)
        profiled = self._time_runs(caller, prepared, WARM_UP_RUNS + repeats)[WARM_UP_RUNS:]
        file = Path(session.end_profiling())
        times = read_profile(file, handle.layers.layers, handle.layers.spellings, repeats)
        file.unlink(missing_ok=True)
        latency = self._time_runs(self._caller, prepared, repeats)
        return Profile(times, latency, describe_profiler(latency, profiled, times))

    def close(self) -> None:
        """Frees the session and its files."""
        handle, self._handle = self._handle, None
        if handle is not None:
            if self._profiling:
                handle.session.end_profiling()
            handle.folder.cleanup()

    def _time_runs(self, caller: Caller, prepared: Mapping[str, Any], repeats: int) -> tuple[float, ...]:
        """End-to-end times in ms."""
        found: list[float] = []
        for _ in range(repeats):
            started = time.perf_counter_ns()
            self._call(caller, prepared)
            found.append(round((time.perf_counter_ns() - started) / 1e6, 6))
        return tuple(found)

    def _call(self, caller: Caller, prepared: Mapping[str, Any]) -> Sequence[Any]:
        try:
            return caller.call(prepared)
        except Exception as error:  # ONNX Runtime's errors have no common base
            handle = self._open()
            raise RunError(f"{handle.model.name}: {explain(error, handle.given)}") from error

    def _open(self) -> _Handle:
        if self._handle is None:
            raise RunError("the engine was closed; build it again")
        return self._handle


def _with_tf32(realised: Realised) -> Realised:
    """The same, its products reading TF32; what low precision has rounded stays as it is."""
    found = emulate_tf32(realised.model)
    inside = f"; {len(found.left)} inside subgraphs are left in FP32" if found.left else ""
    note = f"TF32 is emulated: {len(found.products)} products read inputs rounded to 10 bits{inside}"
    origin = {**realised.origin, **{n: realised.origin.get(str(owner), owner) for n, owner in found.origin.items()}}
    return replace(realised, model=found.model, origin=origin, notes=(*realised.notes, note))


def _given(realised: Realised, options: BuildOptions) -> Given:
    """The graph as ONNX Runtime gets it: every node called by its id, nested ones too."""
    # A realised plan is a copy already, made just now and known to nobody else.
    view = GraphView.of(realised.model if options.plan.default != "fp32" else realised.model.for_runtime())
    wrong = [node_id for node_id in view.nodes if view.ir_node(node_id).name != node_id]
    if wrong and options.plan.default == "fp32":
        view = GraphView.of(realised.model.for_runtime(own=True))
    for node_id in wrong:
        view.ir_node(node_id).name = str(node_id)
    return Given(view, {**realised.origin}, frozenset(realised.lowered), options.plan.default)


def _source(model: Model, folder: Path) -> bytes | str:
    """The model as bytes, or in a file when it is too large for that."""
    weights = sum(v.const_value.nbytes for v in model.ir.graph.initializers.values() if v.const_value is not None)
    if weights > EXTERNAL_ABOVE_BYTES:
        return str(model.save(folder / "model.onnx"))
    return model.proto().SerializeToString()


def _session(
    source: bytes | str, folder: Path, optimizer: bool, model: Model, given: Given, profiling: bool
) -> ort.InferenceSession:
    options = ort.SessionOptions()
    levels = ort.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimizer else levels.ORT_DISABLE_ALL
    options.optimized_model_filepath = str(folder / "optimised.onnx")
    # Weights are not read back, so they need not stand in that file.
    options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "weights.bin")
    options.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes", _KEPT_BYTES)
    options.intra_op_num_threads = _threads()
    options.inter_op_num_threads = 1
    # Threads that wait by spinning take the processor from the kernel and the browser beside them.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.use_deterministic_compute = True
    options.enable_profiling = profiling
    options.profile_file_prefix = str(folder / "profile")
    # ONNX Runtime writes to the process's error stream, which is the user's unless a worker took it over. Errors
    # are raised as well.
    options.log_severity_level = _WARNINGS if taken_over() else _NOTHING
    try:
        return ort.InferenceSession(source, options, providers=_PROVIDERS)
    except Exception as error:  # ONNX Runtime's errors have no common base
        raise BuildError(f"{model.name}: {explain(error, given)}") from error


def _facts(options: BuildOptions, realised: Realised, layers: Layers, notes: tuple[str, ...]) -> dict[str, JsonValue]:
    lengths = [len(layer.nodes) for layer in layers.layers if layer.nodes]
    return {
        "version": ort.__version__,
        "provider": _PROVIDERS[0],
        "threads": _threads(),
        "optimizer": options.optimizer,
        "emulated": options.plan.default if options.plan.default != "fp32" else "tf32" if options.tf32 else None,
        "tf32": options.tf32,
        "forced_fp32": {str(node): reason for node, reason in realised.forced_fp32.items()},
        "folded": [str(node) for node in layers.folded],
        "removed": [str(node) for node in layers.removed],
        "nodes_a_layer": round(statistics.fmean(lengths), 2) if lengths else None,
        "notes": [*notes, *realised.notes, *layers.notes],
    }


def _threads() -> int:
    """Processors that this process may use; set, not left to chance, so that runs can be repeated."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _refuse(options: BuildOptions) -> None:
    """Raises UsageError for what ONNX Runtime on the CPU cannot do, rather than leave it out in silence."""
    refused = (
        (
            options.timing_cache is not None or options.editable_timing_cache,
            "there is no timing cache: nothing is timed while building; leave it out",
        ),
        (
            options.calibration_cache is not None,
            "calibration caches are TensorRT's; make Q/DQ of it: trt-lab quantize MODEL -o OUT --read-cache FILE",
        ),
        (options.sparse_weights, "sparse kernels are TensorRT's; leave sparse_weights off"),
        (options.builder_level is not None, "there is no builder level; use optimizer=False to build without fusions"),
        (options.workspace_bytes is not None, "there is no workspace: memory is taken as it is needed; leave it out"),
        (options.compute_capability is not None, "it runs on the CPU; use backend='tensorrt_rtx' to build for a GPU"),
        (not options.strongly_typed, "weakly typed engines are TensorRT's; use backend='tensorrt' for them"),
        (options.device != 0, f"there is one CPU, device 0, no device {options.device}; leave it out"),
        (options.profile_runs < 0, f"{options.profile_runs} profile runs: give 0 or more"),
    )
    for wrong, why in refused:
        if wrong:
            raise UsageError(f"backend 'onnxruntime': {why}")


def _check_shapes(model: Model, options: BuildOptions) -> None:
    """Any shape can be run, so ranges need only belong to inputs of the right rank."""
    view = GraphView.of(model)
    inputs = {view.tensors[tensor].name: view.tensors[tensor] for tensor in view.inputs}
    for wanted in options.shapes:
        info = inputs.get(wanted.name)
        if info is None:
            raise UsageError(
                f"{model.name}: shapes for '{wanted.name}', which is no input; there are {', '.join(inputs)}"
            )
        if info.shape is not None and len(info.shape) != len(wanted.opt):
            raise UsageError(
                f"{model.name}: input '{wanted.name}' has {len(info.shape)} dimensions, the shape given {len(wanted.opt)}"
            )
