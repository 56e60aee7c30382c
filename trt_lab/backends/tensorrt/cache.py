"""Timing cache: times of kernels measured once, so that a rebuild is 4 to 39 times faster and picks the same ones."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from trt_lab.backends.tensorrt.versions import Library
from trt_lab.errors import BuildError
from trt_lab.storage import cache_folder, measure_folder
from trt_lab.types import BuildOptions, JsonValue

OFF = "off"
"""Value of `BuildOptions.timing_cache` that asks for none."""


@dataclass
class TimingCache:
    """The cache of one build. Use: `attach` before, `store` after.

    Attributes:
        path: The file; None when no cache is used.
        found_bytes: Size of the file before the build, 0 when it was not there.
        note: Why an existing file was not used.
    """

    path: Path | None
    found_bytes: int = 0
    note: str = ""

    @classmethod
    def of(cls, library: Library, options: BuildOptions, gpu: str) -> TimingCache:
        """The file asked for, or one a GPU, version and set of flags in the user's cache folder."""
        asked = options.timing_cache
        if asked == OFF:
            return cls(None)
        name = cache_name(library.version, gpu, options)
        if asked is None:
            return cls(default_folder() / name)
        path = Path(asked).expanduser()
        return cls(path / name if path.is_dir() else path)

    def attach(self, config: Any, flags: Any) -> None:
        """Puts the cache into the builder config. An unreadable one is left out and said in `note`."""
        if self.path is None:
            config.set_flag(flags.DISABLE_TIMING_CACHE)
            return
        with lock_cache(self.path):
            data = self.path.read_bytes() if self.path.is_file() else b""
        cache = config.create_timing_cache(data)
        if (cache is None or not config.set_timing_cache(cache, False)) and data:
            self.note = f"the timing cache {self.path.name} is of another version or GPU: not used, written anew"
            data = b""
            config.set_timing_cache(config.create_timing_cache(b""), False)
        self.found_bytes = len(data)

    def store(self, config: Any) -> None:
        """Writes what the build measured, together with what others wrote meanwhile. Raises BuildError."""
        if self.path is None:
            return
        cache = config.get_timing_cache()
        if cache is None:
            return
        with lock_cache(self.path):
            if self.path.is_file() and not self.note:
                other = config.create_timing_cache(self.path.read_bytes())
                if other is not None:
                    cache.combine(other, False)
            write_cache(self.path, bytes(cache.serialize()))

    def facts(self) -> dict[str, JsonValue]:
        """For the record."""
        return {
            "file": None if self.path is None else self.path.name,
            "used": self.found_bytes > 0,
            "found_bytes": self.found_bytes,
            "note": self.note,
        }


def default_folder() -> Path:
    """Where timing caches are kept when nobody names one."""
    return cache_folder() / "timing"


def describe_timing_caches() -> dict[str, JsonValue]:
    """Place, number and size of the timing caches that nobody named, for `doctor`."""
    files, size = measure_folder(default_folder(), "*.cache")
    return {"folder": str(default_folder()), "files": files, "bytes": size}


def lock_cache(path: Path) -> FileLock:
    """The lock of a timing cache, its folder made. Raises BuildError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BuildError(f"timing cache {path}: its folder cannot be made: {error.strerror}") from error
    return FileLock(f"{path}.lock")


def write_cache(path: Path, data: bytes) -> None:
    """Writes a timing cache in one step, its lock held. Raises BuildError."""
    handle, partial = tempfile.mkstemp(prefix=".timing-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(partial).replace(path)
    except OSError as error:
        Path(partial).unlink(missing_ok=True)
        raise BuildError(f"timing cache {path} cannot be written: {error.strerror}") from error


def cache_name(version: str, gpu: str, options: BuildOptions) -> str:
    """File name by GPU, version and the flags that change which kernels are tried."""
    flags = f"{options.strongly_typed}|{options.tf32}|{options.builder_level}|{options.hardware_compatibility}"
    if options.editable_timing_cache:
        flags += "|editable"
    digest = hashlib.sha256(flags.encode()).hexdigest()[:8]
    return f"{re.sub(r'[^A-Za-z0-9]+', '-', gpu)}-{version}-{digest}.cache"
