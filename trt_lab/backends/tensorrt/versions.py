"""The TensorRT library of this Python: which version, and what that version can do.

The only place that asks the version. Everything else asks a `Library` what it can do.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from trt_lab.errors import BackendUnavailableError
from trt_lab.types import JsonValue

Kind = Literal["tensorrt", "tensorrt_rtx"]

_MODULES: dict[Kind, tuple[str, ...]] = {
    "tensorrt": ("tensorrt", "tensorrt_bindings"),
    "tensorrt_rtx": ("tensorrt_rtx", "tensorrt_rtx_bindings"),
}
_DISTRIBUTIONS: dict[Kind, tuple[str, ...]] = {
    "tensorrt": ("tensorrt_cu13_bindings", "tensorrt_cu12_bindings", "tensorrt-cu13", "tensorrt-cu12", "tensorrt"),
    "tensorrt_rtx": ("tensorrt_rtx_cu13_bindings", "tensorrt_rtx_cu12_bindings", "tensorrt_rtx"),
}
_EXTRAS: dict[Kind, str] = {"tensorrt": "tensorrt", "tensorrt_rtx": "rtx"}
_LOADED = re.compile(r"/((?:libnvinfer|libnvonnxparser|libtensorrt)[^/\n]*\.so[^/\n]*)$", re.MULTILINE)
_TITLES: dict[Kind, str] = {"tensorrt": "TensorRT", "tensorrt_rtx": "TensorRT for RTX"}


@dataclass(frozen=True)
class Library:
    """A loaded TensorRT.

    Attributes:
        kind: Full TensorRT or TensorRT for RTX.
        module: The Python module of the bindings.
        version: As the library writes it.
    """

    kind: Kind
    module: Any
    version: str

    @property
    def title(self) -> str:
        """Name and version for people."""
        return f"{_TITLES[self.kind]} {self.version}"

    @property
    def numbers(self) -> tuple[int, ...]:
        """The version as numbers, to compare."""
        return _numbers(self.version)

    @property
    def weakly_typed(self) -> bool:
        """Whether the builder may be asked for FP16, BF16 and INT8 (10.x). 11 and RTX take types from the ONNX only."""
        return hasattr(self.module.BuilderFlag, "FP16")

    @property
    def named_capability(self) -> bool:
        """Whether an engine can be built for a GPU that is not there, by its compute capability (RTX)."""
        return self.kind == "tensorrt_rtx"

    @property
    def unfused_debug_tensors(self) -> bool:
        """Whether debug tensors can be had without breaking fusion (10.11 and later)."""
        return hasattr(self.module.INetworkDefinition, "mark_unfused_tensors_as_debug_tensors")

    @property
    def editable_timing_cache(self) -> bool:
        """Whether single entries of the timing cache can be read and changed (10.8 and later; in RTX they do nothing)."""
        return self.kind == "tensorrt" and hasattr(self.module.BuilderFlag, "EDITABLE_TIMING_CACHE")

    def creation_flags(self, *, strongly_typed: bool) -> int:
        """Flags for `create_network`. Version 11 accepts STRONGLY_TYPED and ignores it."""
        flags = self.module.NetworkDefinitionCreationFlag
        if strongly_typed and hasattr(flags, "STRONGLY_TYPED"):
            return 1 << int(flags.STRONGLY_TYPED)
        return 0


def installed_version(kind: Kind) -> str | None:
    """Version of the installed library, without loading it; None if it is not installed."""
    if not any(_can_find(name) for name in _MODULES[kind]):
        return None
    for name in _DISTRIBUTIONS[kind]:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "unknown"


def describe_version(version: str) -> dict[str, JsonValue]:
    """What `doctor` says of an installed full TensorRT, which is not loaded for it: networks, and tensors inside."""
    numbers = _numbers(version)
    debug = "probes"
    if (10, 0) <= numbers[:2] < (10, 11):
        debug = "probes; debug tensors are not used, since mark_debug ends the process on this version"
    return {
        "networks": "strongly typed" if numbers[:1] >= (11,) else "weakly and strongly typed",
        "tensors_inside": debug,
        "editable_timing_cache": numbers[:2] >= (10, 8),
    }


def missing_reason(kind: Kind) -> str:
    """What to say when the library is not installed."""
    return f"{_TITLES[kind]} is not installed: pip install trt-lab[{_EXTRAS[kind]}]"


def missing_kernels(version: str, sm: str) -> str | None:
    """Name of the library with the builder's kernels for a GPU, where full TensorRT's others are there without it.

    Some packages hold a part of the libraries only: they load, parse, and cannot build. Nothing is loaded to see that.
    None as well where no libraries are found in the usual places: then nothing can be said before they are loaded.

    Args:
        sm: Such as `SM90`.
    """
    for folder in _library_folders():
        names = [file.name for file in folder.glob("libnvinfer*")] if folder.is_dir() else []
        if not any(name.startswith("libnvinfer.so") for name in names):
            continue
        own = f"libnvinfer_builder_resource_{sm.lower()}.so"
        if any(name.startswith(("libnvinfer_builder_resource.so", own)) for name in names):
            return None
        return f"{own}.{'.'.join(map(str, _numbers(version)))}"
    return None


def _library_folders() -> list[Path]:
    """Where the system would look first, then the package of NVIDIA's wheels."""
    named = [Path(entry) for entry in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if entry]
    package = importlib.util.find_spec("tensorrt_libs") if _can_find("tensorrt_libs") else None
    places = package.submodule_search_locations if package is not None else None
    return [*named, *map(Path, places or ())]


@lru_cache(maxsize=2)
def load(kind: Kind) -> Library:
    """Loads the library; 10 s the first time for full TensorRT.

    Raises:
        BackendUnavailableError: Not installed, or installed but a shared library cannot be loaded.
    """
    names = [name for name in _MODULES[kind] if _can_find(name)]
    if not names:
        raise BackendUnavailableError(missing_reason(kind) + ".")
    failure: BaseException | None = None
    for name in names:
        try:
            module = importlib.import_module(name)
        except (ImportError, OSError) as error:
            failure = error
            continue
        return Library(kind, module, str(module.__version__))
    raise BackendUnavailableError(
        f"{_TITLES[kind]} is installed but cannot be loaded: {failure}. "
        "Install bindings and libraries of the same version and CUDA."
    ) from failure


def loaded_libraries() -> list[str]:
    """File names of TensorRT's libraries in this process, where the system tells (Linux); for clashes of versions."""
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return sorted({found.group(1) for found in _LOADED.finditer(maps)})


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _can_find(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False
