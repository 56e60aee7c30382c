"""Timing cache, entry by entry: which kernel was chosen for what, and how another one is put in its place.

TensorRT 10.8 and later, 11 as well, and not TensorRT for RTX (`versions` tells). An entry is a key, which stands for
an operation with its shapes and types, and the tactic that was fastest for it. A build that finds the entry times
nothing and takes that tactic. So a kernel that gives wrong numbers, or another one in each build, is got rid of thus:

1. build with `editable_timing_cache=True`, `log_severity="verbose"` and a timing cache of your own: the log then holds
   every tactic that was timed (`read_autotuning`);
2. `edit_timing_cache(path, forbid=[hash or name of the kernel], timed=...)`;
3. build again with the same options: the next best kernel is taken.

Needs a GPU, since full TensorRT makes no builder without one; call it in the worker (`TimingCacheEdit`, `edit_in_worker`).
Held against the names of the bindings of 10.8, 10.9, 10.13 and 11.4; not yet run on a GPU that has one of these.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trt_lab.backends.tensorrt.cache import default_folder, lock_cache, write_cache
from trt_lab.backends.tensorrt.engines import clear_engines
from trt_lab.backends.tensorrt.log import collect, logger
from trt_lab.backends.tensorrt.versions import Library, load
from trt_lab.errors import BackendUnavailableError, BuildError, UsageError
from trt_lab.types import LogLine, OnProgress, Progress

_INVALID_HASH = 2**64 - 1
"""Tactic of an entry that is not there."""

_OPERATION = re.compile(r"Autotuning op (?P<name>.*?) ?\(key: (?P<key>0x[0-9a-fA-F]{32})\)")
_ROW = re.compile(
    r"^\s*\d+, *(?P<ms>\d+(?:\.\d*)?(?:[eE][-+]?\d+)?), *[^,\n]*, *[^,\n]*, *(?P<kernel>.+?), *(?P<hash>0x[0-9a-fA-F]+)(?:,.*)?$",
    re.MULTILINE | re.ASCII,
)
_CHOSEN = re.compile(r"The selected tactic is [^:]*: *(?P<hash>0x[0-9a-fA-F]+)")
_KEY = re.compile(r"^0x[0-9a-f]{32}$")


@dataclass(frozen=True)
class Entry:
    """One entry of a timing cache: `key` and the `tactic` (a hash) taken for it, with the time it had."""

    key: str
    tactic: int
    timing_ms: float


@dataclass(frozen=True)
class Tactic:
    """One kernel that was timed."""

    tactic: int
    kernel: str
    timing_ms: float


@dataclass(frozen=True)
class Autotuned:
    """An operation that was timed.

    Attributes:
        name: TensorRT's name of the operation.
        key: Of its entry in the timing cache.
        tactics: As the log lists them, the fastest first.
        chosen: Hash of the tactic taken; None where the log does not tell.
    """

    name: str
    key: str
    tactics: tuple[Tactic, ...]
    chosen: int | None = None


@dataclass(frozen=True)
class Changed:
    """An entry that an edit changed."""

    key: str
    before: int | None
    after: int


@dataclass(frozen=True)
class TimingCacheEdit:
    """An edit as the argument of a `jobs.Task`; the fields are the arguments of `edit_timing_cache`."""

    path: str
    lock: Mapping[str, int | str] = field(default_factory=dict)
    forbid: tuple[int | str, ...] = ()
    timed: tuple[Autotuned, ...] = ()
    out: str | None = None


def edit_in_worker(edit: TimingCacheEdit, on_progress: OnProgress) -> tuple[Changed, ...]:
    """`edit_timing_cache` for `Task(edit_in_worker, TimingCacheEdit(...), model_path, out_dir, "tensorrt")`."""
    on_progress(Progress("edit", None, f"editing {Path(edit.path).name}"))
    return edit_timing_cache(edit.path, lock=edit.lock, forbid=edit.forbid, timed=edit.timed, out=edit.out)


def read_timing_cache(path: str | Path, library: Library | None = None) -> tuple[Entry, ...]:
    """All entries of a timing cache.

    Raises:
        UsageError: This version cannot read single entries, or there is no such file.
        BuildError: Not a timing cache of this version and GPU.
        BackendUnavailableError: No library or no GPU.
    """
    chosen = _library(library)
    data = _read(Path(path))
    with collect(chosen, "warning"):
        cache = _open(chosen, data, Path(path))
        return tuple(_entries(cache).values())


def edit_timing_cache(
    path: str | Path,
    *,
    lock: Mapping[str, int | str] | None = None,
    forbid: Collection[int | str] = (),
    timed: Sequence[Autotuned] = (),
    out: str | Path | None = None,
    library: Library | None = None,
) -> tuple[Changed, ...]:
    """Puts other tactics into a timing cache. Not yet run on a GPU; see the head of this module.

    Args:
        lock: Key → the tactic to take, as a number or in hex.
        forbid: Tactics (numbers or hex) or kernels (names, as in `timed`) that no entry may have: the fastest other
            one of `timed` is taken instead.
        timed: What `read_autotuning` found; needed for `forbid`.
        out: Where to write; by default `path` is replaced.

    Returns:
        What was changed, in the order of the keys; nothing is written when that is nothing and `out` is not given.

    Raises:
        UsageError: No such file, key or tactic; nothing left to take; a version that cannot do it.
        BuildError: Not a timing cache of this version and GPU, or TensorRT refuses an entry.
        BackendUnavailableError: No library or no GPU.
    """
    chosen, source = _library(library), Path(path)
    target = Path(out) if out is not None else source
    with lock_cache(target), collect(chosen, "warning"):
        cache = _open(chosen, _read(source), source)
        entries = _entries(cache)
        wanted = _forbidden(entries, forbid, timed) | _locked(entries, lock or {}, timed)
        changed = []
        for key, tactic in sorted(wanted.items()):
            before = entries.get(key)
            if before is None or before.tactic != tactic:
                _update(chosen, cache, key, tactic, _time_of(key, tactic, timed, before))
                changed.append(Changed(key, None if before is None else before.tactic, tactic))
        if changed or out is not None:
            write_cache(target, bytes(cache.serialize()))
    if changed and target.parent == default_folder():
        clear_engines()  # they hold the tactics of before
    return tuple(changed)


def read_autotuning(lines: Iterable[LogLine]) -> tuple[Autotuned, ...]:
    """The tables of timed tactics in a build's log (`editable_timing_cache` on, severity `verbose`), in its order."""
    text = "\n".join(line.message for line in lines)
    starts = list(_OPERATION.finditer(text))
    found = []
    ends = [*(start.start() for start in starts), len(text)][1:]
    for start, end in zip(starts, ends, strict=True):
        part = text[start.end() : end]
        tactics = tuple(Tactic(int(m["hash"], 16), m["kernel"].strip(), float(m["ms"])) for m in _ROW.finditer(part))
        taken = _CHOSEN.search(part)
        found.append(
            Autotuned(start["name"], start["key"].lower(), tactics, None if taken is None else int(taken["hash"], 16))
        )
    return tuple(found)


def _library(library: Library | None) -> Library:
    chosen = library if library is not None else load("tensorrt")
    if not chosen.editable_timing_cache:
        raise UsageError(f"{chosen.title} cannot edit a timing cache: TensorRT 10.8 and later can")
    return chosen


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"timing cache {path} cannot be read: {error.strerror or error}") from error


def _open(library: Library, data: bytes, path: Path) -> Any:
    try:
        config = library.module.Builder(logger(library)).create_builder_config()
    except (TypeError, RuntimeError, ValueError) as error:
        raise BackendUnavailableError(
            f"{library.title} cannot open a timing cache: it needs an NVIDIA driver and GPU"
        ) from error
    config.set_flag(library.module.BuilderFlag.EDITABLE_TIMING_CACHE)
    cache = config.create_timing_cache(data)
    if cache is None or not config.set_timing_cache(cache, False):
        raise BuildError(f"{path}: no timing cache of {library.title} and this GPU; build again to make one")
    return cache


def _entries(cache: Any) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    for key in cache.queryKeys():
        value = cache.query(key)
        if int(value.tacticHash) != _INVALID_HASH:
            text = str(key).lower()
            found[text] = Entry(text, int(value.tacticHash), float(value.timingMSec))
    return found


def _forbidden(
    entries: Mapping[str, Entry], forbid: Collection[int | str], timed: Sequence[Autotuned]
) -> dict[str, int]:
    """Key → tactic for entries that have a forbidden one."""
    kernels = {item for item in forbid if isinstance(item, str) and not item.lower().startswith("0x")}
    hashes = {_hash(item) for item in forbid if item not in kernels}
    known = {t.kernel for operation in timed for t in operation.tactics}
    unknown = sorted(kernels - known)
    if unknown:
        raise UsageError(f"no timed kernel is called '{unknown[0]}'; take a name or hash of the log of the build")
    hashes |= {t.tactic for operation in timed for t in operation.tactics if t.kernel in kernels}
    tables = {operation.key: operation for operation in timed}
    wanted: dict[str, int] = {}
    for key, entry in entries.items():
        if entry.tactic not in hashes:
            continue
        table = tables.get(key)
        if table is None:
            raise UsageError(
                f"entry {key} has the forbidden tactic {entry.tactic:#x}, and no other is known for it: build once with "
                "editable_timing_cache=True, log_severity='verbose' and an empty timing cache, and give its log as `timed`"
            )
        left = [t for t in table.tactics if t.tactic not in hashes]
        if not left:
            raise UsageError(f"'{table.name}' ({key}) has no tactic left: all {len(table.tactics)} timed are forbidden")
        wanted[key] = min(left, key=lambda t: t.timing_ms).tactic
    return wanted


def _locked(entries: Mapping[str, Entry], lock: Mapping[str, int | str], timed: Sequence[Autotuned]) -> dict[str, int]:
    """Key → tactic as asked for, checked as far as it can be."""
    tables = {operation.key: operation for operation in timed}
    wanted: dict[str, int] = {}
    for given, item in lock.items():
        key = given.lower()
        if not _KEY.match(key) or (key not in entries and key not in tables):
            raise UsageError(f"the timing cache has no key '{given}'; its {len(entries)} keys are 0x and 32 hex digits")
        tactic = _hash(item)
        table = tables.get(key)
        if table is not None and tactic not in {t.tactic for t in table.tactics}:
            raise UsageError(f"tactic {tactic:#x} was not timed for '{table.name}' ({key}); take one of its table")
        wanted[key] = tactic
    return wanted


def _hash(item: int | str) -> int:
    try:
        value = int(item, 16) if isinstance(item, str) else int(item)
    except ValueError:
        value = -1
    if not 0 <= value < _INVALID_HASH:
        raise UsageError(f"'{item}' is no tactic; give its hash, such as 0x665ded9abbf88")
    return value


def _time_of(key: str, tactic: int, timed: Sequence[Autotuned], before: Entry | None) -> float:
    """The time that was measured; else that of the entry before, since TensorRT wants one."""
    for operation in timed:
        if operation.key == key:
            for item in operation.tactics:
                if item.tactic == tactic:
                    return item.timing_ms
    return before.timing_ms if before is not None else 1.0


def _update(library: Library, cache: Any, key: str, tactic: int, timing_ms: float) -> None:
    module = library.module
    if not cache.update(module.TimingCacheKey.parse(key), module.TimingCacheValue(tactic, timing_ms)):
        raise BuildError(f"{library.title} refuses tactic {tactic:#x} for entry {key} of the timing cache")
