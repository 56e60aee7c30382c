"""TensorRT for RTX: builds on any CPU for a named compute capability, and so shows real fusion without a GPU.

Engines are strongly typed. They cannot be loaded without an RTX GPU, so layers are read from the
`Layers:` message of the build log. Kernels are chosen when the engine first runs: no times, no timing cache.
"""

from __future__ import annotations

from typing import Any

from trt_lab.backends.base import Built, Runner
from trt_lab.backends.tensorrt import device
from trt_lab.backends.tensorrt.build import Serialized, describe, prepare, require_layers, serialize
from trt_lab.backends.tensorrt.cache import OFF
from trt_lab.backends.tensorrt.dump import parse_dump
from trt_lab.backends.tensorrt.engines import EngineCache, take_or_build
from trt_lab.backends.tensorrt.log import collect, summarize
from trt_lab.backends.tensorrt.run import open_runner
from trt_lab.backends.tensorrt.versions import Library, installed_version, load, missing_reason
from trt_lab.engine_json import layers_from
from trt_lab.errors import BackendUnavailableError, UsageError
from trt_lab.model import Model
from trt_lab.types import BackendInfo, BuildOptions, JsonValue, LayerInfo, OnProgress

DEFAULT_CAPABILITY = "SM86"
_NOT_NAMES = ("NONE", "CURRENT")
_LOWEST_RTX = (7, 5)
_NO_RTX = ((8, 0), (9, 0), (10, 0), (10, 3))
"""Compute capabilities of data-centre GPUs, which TensorRT for RTX does not run on."""


class TensorRtRtx:
    """Backend `tensorrt_rtx`."""

    name = "tensorrt_rtx"

    def info(self) -> BackendInfo:
        """Builds wherever the library is installed; runs only on an RTX GPU."""
        version = installed_version("tensorrt_rtx")
        if version is None:
            return BackendInfo(self.name, None, False, False, missing_reason("tensorrt_rtx"))
        reason = _cannot_run()
        details: dict[str, JsonValue] = {"compute_capability": DEFAULT_CAPABILITY, "strongly_typed": True}
        return BackendInfo(self.name, version, True, not reason, reason, details)

    def build(self, model: Model, options: BuildOptions, on_progress: OnProgress) -> Built:
        """Builds for `options.compute_capability` (default SM86).

        Raises:
            UsageError, InputError, EditError: Options, shapes or plan do not fit; see `prepare`.
            BuildError, BackendUnavailableError, CancelledError: See `serialize`.
        """
        library = load("tensorrt_rtx")
        _refuse(options)
        capability = _capability(library, options.compute_capability or DEFAULT_CAPABILITY)
        prepared = prepare(library, model, options)

        def configure(config: Any, facts: dict[str, JsonValue]) -> None:
            config.num_compute_capabilities = 1
            config.set_compute_capability(capability, 0)
            facts["compute_capability"] = capability.name
            if options.workspace_bytes is not None:
                config.set_memory_pool_limit(library.module.MemoryPoolType.WORKSPACE, options.workspace_bytes)

        def build() -> Serialized:
            return serialize(library, prepared, options, on_progress, log, configure=configure)

        def read(_: bytes) -> tuple[LayerInfo, ...]:
            found = layers_from(parse_dump(log.layer_dump), name="build log", index=prepared.index)
            return require_layers(found.layers, library.title)

        kept = EngineCache.of(library, prepared, options, capability.name)
        with collect(library, options.log_severity) as log:
            made, layers = take_or_build(kept, log, on_progress, build, read)
        precision, _ = describe(prepared, options, layers)
        facts = {**made.facts, **precision, "engine_cache": kept.facts(), "log": summarize(log.lines)}
        return Built(layers, tuple(log.lines), made.seconds, facts, made.engine, handle=options)

    def open(self, built: Built) -> Runner:
        """Loads the engine on an RTX GPU. Raises BackendUnavailableError with the reason where there is none."""
        reason = _cannot_run()
        if reason:
            raise BackendUnavailableError(f"{self.name} built the engine but cannot run it here: {reason}")
        return open_runner(load("tensorrt_rtx"), built)


def _cannot_run() -> str:
    found = device.machine()
    if not found.gpus:
        return f"an RTX GPU is needed to run, {found.reason}"
    fit = [g for g in found.gpus if g.capability >= _LOWEST_RTX and g.capability not in _NO_RTX]
    if not fit:
        names = ", ".join(f"{g.name} ({g.sm})" for g in found.gpus)
        return f"an RTX GPU is needed to run, here is {names}"
    return ""


def _refuse(options: BuildOptions) -> None:
    """Refuses what TensorRT for RTX does not have. Raises UsageError."""
    if options.timing_cache not in (None, OFF):
        raise UsageError("tensorrt_rtx has no timing cache: it chooses kernels when the engine first runs")
    if options.hardware_compatibility is not None:
        raise UsageError("tensorrt_rtx builds for one compute capability; leave hardware_compatibility out")


def _capability(library: Library, name: str) -> Any:
    known = {k: v for k, v in library.module.ComputeCapability.__members__.items() if k not in _NOT_NAMES}
    asked = name.upper().replace(".", "")
    asked = asked if asked.startswith("SM") else f"SM{asked}"
    if asked not in known:
        raise UsageError(f"compute capability '{name}' is not known to {library.title}; take one of {', '.join(known)}")
    return known[asked]
