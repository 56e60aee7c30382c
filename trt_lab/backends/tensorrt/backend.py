"""Backend `tensorrt`: full TensorRT 10.x and 11.x on this machine's GPU."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from trt_lab.backends.base import Built
from trt_lab.backends.tensorrt import device
from trt_lab.backends.tensorrt.build import Serialized, describe, prepare, require_layers, serialize
from trt_lab.backends.tensorrt.cache import TimingCache
from trt_lab.backends.tensorrt.config import set_workspace
from trt_lab.backends.tensorrt.engines import EngineCache, take_or_build
from trt_lab.backends.tensorrt.faults import no_kernels
from trt_lab.backends.tensorrt.inspect import read_layers
from trt_lab.backends.tensorrt.log import collect, logger, summarize
from trt_lab.backends.tensorrt.run import EngineRunner, open_runner
from trt_lab.backends.tensorrt.trust import check_engine, load_engine
from trt_lab.backends.tensorrt.versions import (
    describe_version,
    installed_version,
    load,
    missing_kernels,
    missing_reason,
)
from trt_lab.errors import BackendUnavailableError, RunError
from trt_lab.model import Model
from trt_lab.types import BackendInfo, BuildOptions, JsonValue, LayerInfo, OnProgress


class TensorRt:
    """Backend `tensorrt`."""

    name = "tensorrt"

    def info(self) -> BackendInfo:
        """What the installed version can do here. The library itself is not loaded: that takes 10 s."""
        version = installed_version("tensorrt")
        found = device.machine()
        details: dict[str, JsonValue] = {
            "gpus": [gpu.facts() for gpu in found.gpus],
            "cuda_driver": found.cuda_driver,
            "gpu_memory": device.MEMORY_PROVIDER,
        }
        if version is None:
            return BackendInfo(self.name, None, False, False, missing_reason("tensorrt"), details)
        details |= describe_version(version)
        if not found.gpus:
            return BackendInfo(self.name, version, False, False, f"needs an NVIDIA GPU, {found.reason}", details)
        gpu = found.gpus[0]
        missing = missing_kernels(version, gpu.sm)
        reason = no_kernels(f"TensorRT {version}", missing, f"{gpu.name} ({gpu.sm})") if missing else ""
        return BackendInfo(self.name, version, not missing, True, reason, details)

    def build(self, model: Model, options: BuildOptions, on_progress: OnProgress) -> Built:
        """Builds on the GPU `options.device`.

        Raises:
            UsageError, InputError, EditError: Options, shapes or plan do not fit; see `prepare`.
            BuildError, BackendUnavailableError, CancelledError: See `serialize`.
        """
        library = load("tensorrt")
        gpu = _gpu(options)
        cache = TimingCache.of(library, options, gpu.name)
        prepared = prepare(library, model, options)
        flags = library.module.BuilderFlag

        def configure(config: Any, facts: dict[str, JsonValue]) -> None:
            facts |= set_workspace(library, config, options.workspace_bytes, gpu.memory_bytes)
            cache.attach(config, flags)

        def build() -> Serialized:
            title = f"{gpu.name} ({gpu.sm})"
            return serialize(
                library, prepared, options, on_progress, log, configure=configure, after=cache.store, gpu=title
            )

        def read(engine: bytes) -> tuple[LayerInfo, ...]:
            runtime = library.module.Runtime(logger(library))
            loaded = load_engine(library, runtime, engine, log, name=prepared.name, gpu=gpu.name)
            return require_layers(read_layers(library, loaded, prepared.index).layers, library.title)

        kept = EngineCache.of(library, prepared, options, f"{gpu.name} {gpu.sm}")
        place = device.Device(options.device)
        try:
            with collect(library, options.log_severity) as log:
                made, layers = take_or_build(kept, log, on_progress, build, read)
        finally:
            place.close()
        if kept.state == "hit":
            cache.note = "not needed: the engine was taken from the engine cache"
        precision, _ = describe(prepared, options, layers)
        facts = {
            **made.facts,
            **precision,
            "gpu": gpu.facts(),
            "cuda_driver": device.machine().cuda_driver,
            "timing_cache": cache.facts(),
            "engine_cache": kept.facts(),
            "log": summarize(log.lines),
        }
        return Built(layers, tuple(log.lines), made.seconds, facts, made.engine, handle=options)

    def open(self, built: Built) -> EngineRunner:
        """Loads what `build` made. Raises RunError, BackendUnavailableError."""
        return open_runner(load("tensorrt"), built)


def open_engine(
    path: str | os.PathLike[str], *, trust: bool = False, options: BuildOptions | None = None
) -> EngineRunner:
    """Loads an engine file: one that this machine built, or any one with `trust`. An engine is code.

    Raises:
        RunError: The file cannot be read, is no engine, is of another version or GPU, or is not trusted.
        BackendUnavailableError: No library or no GPU.
    """
    file = Path(path)
    try:
        data = file.read_bytes()
    except OSError as error:
        raise RunError(f"{file} cannot be read: {error.strerror or error}") from error
    check_engine(data, name=str(file), trust=trust)
    chosen = options if options is not None else BuildOptions(backend="tensorrt")
    return EngineRunner(load("tensorrt"), data, chosen, name=str(file), trust=trust)


def _gpu(options: BuildOptions) -> device.Gpu:
    found = device.machine()
    if not 0 <= options.device < len(found.gpus):
        there = ", ".join(f"{g.index}: {g.name}" for g in found.gpus) or found.reason
        raise BackendUnavailableError(f"tensorrt cannot build: no GPU {options.device} on this machine ({there})")
    return found.gpus[options.device]
