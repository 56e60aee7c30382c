"""Builder configuration of TensorRT and of TensorRT for RTX, from `BuildOptions`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trt_lab.backends.tensorrt.cache import OFF
from trt_lab.backends.tensorrt.progress import BuildProgress
from trt_lab.backends.tensorrt.versions import Library
from trt_lab.errors import InputError, UsageError
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
    if options.sparse_weights:
        config.set_flag(flags.SPARSE_WEIGHTS)
        facts["sparse_weights"] = True
    if options.refit:
        config.set_flag(flags.REFIT)
    if options.version_compatible:
        config.set_flag(flags.VERSION_COMPATIBLE)
        facts["version_compatible"] = True
    if options.editable_timing_cache:
        _make_editable(library, config, options)
        facts["editable_timing_cache"] = True
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


def add_profiles(
    builder: Any, config: Any, network: Any, ranges: Sequence[Mapping[str, ShapeRange]], values: Sequence[ShapeRange]
) -> None:
    """Adds one optimisation profile for each mapping; one as well where inputs hold shapes.

    Args:
        ranges: Of the sizes, input → range.
        values: Of the values of inputs that hold shapes.

    Raises:
        InputError: An input holds a shape and `values` does not tell which.
        UsageError: TensorRT does not take a range, or `values` names another input.
    """
    inputs = [network.get_input(i) for i in range(network.num_inputs)]
    holders = [tensor for tensor in inputs if tensor.is_shape_tensor]
    by_name = {r.name: r for r in values}
    _check_values([t.name for t in holders], [t.name for t in inputs], by_name)
    for number, profile_ranges in enumerate(ranges or ([{}] if holders else [])):
        profile = builder.create_optimization_profile()
        for tensor in inputs:
            found = profile_ranges.get(tensor.name)
            try:
                if found is not None and -1 in tuple(tensor.shape):
                    profile.set_shape(tensor.name, found.min, found.opt, found.max)
                if tensor.name in by_name:
                    held = by_name[tensor.name]
                    profile.set_shape_input(tensor.name, held.min, held.opt, held.max)
            except (TypeError, ValueError, RuntimeError) as error:
                raise UsageError(
                    f"profile {number}, input '{tensor.name}': TensorRT refuses the range: {error}"
                ) from error
        config.add_optimization_profile(profile)


def _check_values(holders: Sequence[str], inputs: Sequence[str], given: Mapping[str, ShapeRange]) -> None:
    missing = [name for name in holders if name not in given]
    if missing:
        raise InputError(
            f"input '{missing[0]}' holds a shape: TensorRT must know its smallest, usual and largest values. "
            f"Give shape_values=(ShapeRange('{missing[0]}', min, opt, max),)"
        )
    wrong = [name for name in given if name not in holders]
    if wrong:
        why = "holds no shape" if wrong[0] in inputs else "is no input"
        raise UsageError(f"shape_values: '{wrong[0]}' {why}; take it out")


def _make_editable(library: Library, config: Any, options: BuildOptions) -> None:
    if not library.editable_timing_cache:
        raise UsageError(f"{library.title} has no editable timing cache (TensorRT 10.8 and later have); leave it out")
    if options.timing_cache == OFF:
        raise UsageError("editable_timing_cache needs a timing cache; name one instead of 'off'")
    config.set_flag(library.module.BuilderFlag.EDITABLE_TIMING_CACHE)


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
