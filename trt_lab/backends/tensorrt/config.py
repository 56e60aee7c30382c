"""Builder configuration of TensorRT and of TensorRT for RTX, from `BuildOptions`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trt_lab.backends.tensorrt.progress import BuildProgress
from trt_lab.backends.tensorrt.versions import Library
from trt_lab.errors import UsageError
from trt_lab.types import BuildOptions, JsonValue, ShapeRange

WORKSPACE_SHARE = 0.5
"""Part of the GPU's memory that kernels may use for scratch space while building, unless asked otherwise."""


def make_config(
    library: Library, builder: Any, options: BuildOptions, progress: BuildProgress
) -> tuple[Any, dict[str, JsonValue]]:
    """A builder config with all but precision, profiles and timing cache set; and what was set, for the record.

    Raises:
        UsageError: An option that this version does not have.
    """
    config = builder.create_builder_config()
    flags = library.module.BuilderFlag
    facts: dict[str, JsonValue] = {"tf32": options.tf32, "refit": options.refit}
    config.profiling_verbosity = library.module.ProfilingVerbosity.DETAILED
    config.progress_monitor = progress.monitor
    if options.tf32:
        config.set_flag(flags.TF32)
    else:
        config.clear_flag(flags.TF32)
    if options.refit:
        config.set_flag(flags.REFIT)
    if options.version_compatible:
        config.set_flag(flags.VERSION_COMPATIBLE)
        facts["version_compatible"] = True
    if options.builder_level is not None:
        _set_level(config, options.builder_level)
        facts["builder_level"] = options.builder_level
    if options.hardware_compatibility is not None:
        _set_compatibility(library, config, options.hardware_compatibility)
        facts["hardware_compatibility"] = options.hardware_compatibility
    return config, facts


def set_workspace(library: Library, config: Any, asked: int | None, memory_bytes: int) -> dict[str, JsonValue]:
    """Limits the scratch memory: what was asked, else half of the GPU's memory."""
    limit = asked if asked is not None else int(memory_bytes * WORKSPACE_SHARE)
    if limit <= 0:
        raise UsageError(f"workspace of {limit} bytes; give a positive size, or none for half of the GPU's memory")
    config.set_memory_pool_limit(library.module.MemoryPoolType.WORKSPACE, limit)
    return {"workspace_bytes": limit, "workspace_share": round(limit / memory_bytes, 4) if memory_bytes else None}


def add_profiles(builder: Any, config: Any, network: Any, ranges: Sequence[Mapping[str, ShapeRange]]) -> None:
    """Adds one optimisation profile for each mapping.

    Raises:
        UsageError: TensorRT does not take a range.
    """
    for number, profile_ranges in enumerate(ranges):
        profile = builder.create_optimization_profile()
        for i in range(network.num_inputs):
            tensor = network.get_input(i)
            found = profile_ranges.get(tensor.name)
            if found is None or -1 not in tuple(tensor.shape):
                continue
            try:
                profile.set_shape(tensor.name, found.min, found.opt, found.max)
            except (TypeError, ValueError, RuntimeError) as error:
                raise UsageError(
                    f"profile {number}, input '{tensor.name}': TensorRT refuses the range: {error}"
                ) from error
        config.add_optimization_profile(profile)


def _set_level(config: Any, level: int) -> None:
    if not 0 <= level <= 5:
        raise UsageError(f"builder level {level}: take 0 (fastest build) to 5 (fastest engine)")
    config.builder_optimization_level = level


def _set_compatibility(library: Library, config: Any, asked: str) -> None:
    levels = library.module.HardwareCompatibilityLevel
    known = {name.lower(): value for name, value in levels.__members__.items()}
    if asked.lower() not in known:
        raise UsageError(
            f"hardware compatibility '{asked}' is not known to {library.title}; take one of {', '.join(known)}"
        )
    config.hardware_compatibility_level = known[asked.lower()]
