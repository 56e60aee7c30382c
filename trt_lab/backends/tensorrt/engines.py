"""Engine cache: a rebuild of the very same thing takes the engine that this machine built before.

The very same thing: the model that is parsed (its probes and the types written into it are part of it), the options
that a build looks at, the version of the library, and the GPU (or the compute capability named). Only an engine whose
hash this machine recorded is taken, since an engine is code (see `trust`). Every other one is built.

Where the point of a build is to be a new one, `BuildOptions.engine_cache` says so: `fresh` builds and keeps, `off`
does neither. A timing cache named by the user, or none, turns it off as well: the tactics are then what is asked about.

An engine is two files, `KEY.plan` and `KEY.json`; the second is written last and names the hash of the first.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from filelock import FileLock

from trt_lab.backends.tensorrt.build import Prepared, Serialized
from trt_lab.backends.tensorrt.calibration import read_cache
from trt_lab.backends.tensorrt.log import BuildLog
from trt_lab.backends.tensorrt.trust import is_known, remember
from trt_lab.backends.tensorrt.versions import Library
from trt_lab.errors import BuildError, RunError, UsageError
from trt_lab.storage import cache_folder, measure_folder
from trt_lab.types import BuildOptions, JsonValue, LogLine, OnProgress, Progress

LIMIT_VARIABLE = "TRT_LAB_ENGINE_CACHE_MB"
"""Environment variable: the most that the cache may hold, in MB; 0 for no cache."""

DEFAULT_LIMIT_MB = 2048
_MB = 1_000_000
_FORMAT = 1
_MODES = ("on", "fresh", "off")
_NOT_BUILT_IN = ("profile_runs", "timing_cache", "device", "engine_cache", "optimizer", "backend", "calibration_cache")
"""Options that the engine does not depend on; what else there is, it may."""

Read = TypeVar("Read")


@dataclass
class EngineCache:
    """The cache as one build sees it.

    Attributes:
        key: What the engine depends on, as a SHA-256 in hex.
        state: `hit`, `miss` or `off`.
        note: Why, where that is not plain.
    """

    key: str
    state: str = "miss"
    note: str = ""
    fresh: bool = False
    built_s: float | None = None

    @classmethod
    def of(cls, library: Library, prepared: Prepared, options: BuildOptions, gpu: str) -> EngineCache:
        """The cache for a build of `prepared`.

        Args:
            gpu: Name and compute capability of the GPU, or the capability that is built for.

        Raises:
            UsageError: `options.engine_cache` or the variable of the limit has no meaning.
        """
        if options.engine_cache not in _MODES:
            raise UsageError(f"engine_cache '{options.engine_cache}' is not known; take one of {', '.join(_MODES)}")
        reason = _why_off(library, options)
        if reason:
            return cls("", "off", reason)
        note = "a fresh build was asked for" if options.engine_cache == "fresh" else ""
        return cls(cache_key(library, prepared, options, gpu), note=note, fresh=options.engine_cache == "fresh")

    def facts(self) -> dict[str, JsonValue]:
        """For the record. `built_s`: what the build took that made the engine, where it was taken from the cache."""
        return {"state": self.state, "key": self.key[:16], "built_s": self.built_s, "note": self.note}

    def find(self, log: BuildLog) -> Serialized | None:
        """The engine of an earlier build, its log put into `log`; None when there is none that may be loaded."""
        if self.state == "off" or self.fresh:
            return None
        try:
            return self._find(log)
        except OSError as error:  # a folder that cannot be made or locked
            self.state, self.note = "off", f"{engines_folder()} cannot be used: {error.strerror or error}"
            return None

    def _find(self, log: BuildLog) -> Serialized | None:
        started = time.perf_counter()
        plan, about = _files(self.key)
        with _lock():
            try:
                kept = json.loads(about.read_text(encoding="utf-8"))
                engine = plan.read_bytes()
                lines = [LogLine(**line) for line in kept["log"]]
                facts, built_s, digest = dict(kept["facts"]), float(kept["seconds"]), str(kept["sha256"])
                dump, created = str(kept["layer_dump"]), str(kept["created"])
            except FileNotFoundError:
                return None
            except (OSError, ValueError, KeyError, TypeError):
                self._drop("what was kept cannot be read")
                return None
            if hashlib.sha256(engine).hexdigest() != digest or not is_known(engine):
                self._drop("this machine did not record the hash of the engine that was kept")
                return None
            os.utime(about)
        self.state, self.built_s = "hit", built_s
        log.add("info", f"engine_cache: hit: built {created} in {built_s:.2f} s; what follows was said by that build")
        log.lines.extend(lines)
        log.layer_dump = dump
        return Serialized(engine, time.perf_counter() - started, facts)

    def keep(self, made: Serialized, log: BuildLog) -> None:
        """Keeps a new engine, and removes those used longest ago beyond the limit. A full disk is a note, no error."""
        if self.state == "off":
            return
        limit = _limit_bytes()
        if len(made.engine) > limit:
            self.note = f"not kept: {len(made.engine):,} bytes are more than the limit ({LIMIT_VARIABLE})"
            return
        about: dict[str, JsonValue] = {
            "sha256": made.facts["sha256"],
            "seconds": made.seconds,
            "created": time.strftime("%Y-%m-%d %H:%M:%S"),
            "facts": made.facts,
            "layer_dump": log.layer_dump,
            "log": [asdict(line) for line in log.lines],
        }
        plan, description = _files(self.key)
        try:
            with _lock():
                _write(plan, made.engine)
                _write(description, json.dumps(about).encode())
                _shrink(limit, spare=self.key)
        except OSError as error:
            self.note = f"not kept: {error.strerror or error}"

    def forget(self, reason: str) -> None:
        """Drops an engine that was found but cannot be loaded; it is then built."""
        with _lock():
            self._drop(reason)
        self.state, self.built_s = "miss", None

    def _drop(self, reason: str) -> None:
        self.note = f"{reason}: built anew"
        for file in _files(self.key):
            file.unlink(missing_ok=True)


def take_or_build(
    cache: EngineCache,
    log: BuildLog,
    on_progress: OnProgress,
    build: Callable[[], Serialized],
    read: Callable[[bytes], Read],
) -> tuple[Serialized, Read]:
    """The engine from the cache, else a new one; and what `read` (layers, say) finds in it.

    Raises:
        BuildError, RunError, CancelledError: From `build`, `read` of a new engine, and `on_progress`.
    """
    found = cache.find(log)
    if found is not None:
        on_progress(Progress("build", 1.0, "the engine was built before: taken from the engine cache"))
        try:
            return found, read(found.engine)
        except (BuildError, RunError) as error:
            log.lines.clear()
            log.layer_dump = ""
            cache.forget(f"the engine that was kept cannot be loaded ({' '.join(str(error).split())[:200]})")
    log.add("info", f"engine_cache: {cache.state}{f': {cache.note}' if cache.note else ''}")
    said = len(log.lines)
    made = build()
    made.facts["sha256"] = remember(made.engine)
    result = read(made.engine)
    kept = BuildLog()
    kept.lines, kept.layer_dump = log.lines[said:], log.layer_dump
    cache.keep(made, kept)
    return made, result


def cache_key(library: Library, prepared: Prepared, options: BuildOptions, gpu: str) -> str:
    """SHA-256 in hex over all that an engine depends on."""
    about = {
        "format": _FORMAT,
        "library": [library.kind, library.version],
        "gpu": gpu,
        "model": prepared.realised.model.hash,
        "options": {name: value for name, value in asdict(options).items() if name not in _NOT_BUILT_IN},
    }
    if options.calibration_cache is not None:  # what it holds, not where it lies
        about["scales"] = dict(read_cache(options.calibration_cache).scales)
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


def engines_folder() -> Path:
    """Where engines are kept."""
    return cache_folder() / "engines"


def describe_engines() -> dict[str, JsonValue]:
    """Place, number and size of what is kept, for `doctor`; never raises."""
    files, size = measure_folder(engines_folder(), "*.plan", "*.json")
    limit, note = None, ""
    try:
        limit = _limit_bytes()
    except UsageError as error:
        note = str(error)
    folder = str(engines_folder())
    return {"folder": folder, "engines": files // 2, "bytes": size, "limit_bytes": limit, "note": note}


def clear_engines() -> int:
    """Removes all that is kept (the hashes of engines stay known); how many engines that were.

    Raises:
        BuildError: The folder does not let go of them.
    """
    folder = engines_folder()
    if not folder.is_dir():
        return 0
    try:
        with _lock():
            plans = list(folder.glob("*.plan"))
            for file in (*folder.glob("*.json"), *plans):
                file.unlink(missing_ok=True)
    except OSError as error:
        raise BuildError(f"engine cache {folder} cannot be cleared: {error.strerror or error}; remove it") from error
    return len(plans)


def _why_off(library: Library, options: BuildOptions) -> str:
    if options.engine_cache == "off":
        return "by the option engine_cache"
    if _limit_bytes() == 0:
        return f"by {LIMIT_VARIABLE}"
    if library.kind == "tensorrt" and options.timing_cache is not None:
        return "a timing cache was named, or none asked for: the build itself is what is looked at"
    return ""


def _limit_bytes() -> int:
    text = os.environ.get(LIMIT_VARIABLE, "").strip()
    if not text:
        return DEFAULT_LIMIT_MB * _MB
    try:
        limit = int(text)
    except ValueError:
        limit = -1
    if limit < 0:
        raise UsageError(f"{LIMIT_VARIABLE}={text}: give a number of MB, or 0 for no engine cache")
    return limit * _MB


def _files(key: str) -> tuple[Path, Path]:
    folder = engines_folder()
    return folder / f"{key[:32]}.plan", folder / f"{key[:32]}.json"


def _lock() -> FileLock:
    """The lock of the cache, its folder made. Raises OSError."""
    folder = engines_folder()
    folder.mkdir(parents=True, exist_ok=True)
    return FileLock(folder / "lock")


def _write(path: Path, data: bytes) -> None:
    handle, partial = tempfile.mkstemp(prefix=".engine-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(partial).replace(path)
    except OSError:
        Path(partial).unlink(missing_ok=True)
        raise


def _shrink(limit: int, *, spare: str) -> None:
    """Removes the engines used longest ago until the rest fits; parts of engines that were not finished as well."""
    folder = engines_folder()
    descriptions = {file.stem: file for file in folder.glob("*.json")}
    for plan in folder.glob("*.plan"):
        if plan.stem not in descriptions:
            plan.unlink(missing_ok=True)
    _, total = measure_folder(folder, "*.plan", "*.json")
    for file in sorted(descriptions.values(), key=lambda item: item.stat().st_mtime):
        if total <= limit:
            return
        if file.stem != spare[:32]:
            plan = file.with_suffix(".plan")
            total -= file.stat().st_size + (plan.stat().st_size if plan.exists() else 0)
            file.unlink(missing_ok=True)
            plan.unlink(missing_ok=True)
