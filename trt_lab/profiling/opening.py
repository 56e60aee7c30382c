"""Several engines from the files of a command line: layer JSON followed by its profile or run times is one engine."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from trt_lab.engine_json import load_json
from trt_lab.errors import TrtLabError
from trt_lab.profiling.source import Engine, ModelLike, open_engine

_TIMES_KEYS = ("latencyMs", "computeMs")


def open_engines(paths: Sequence[Path], *, model: ModelLike | None = None) -> tuple[Engine, ...]:
    """Opens engines in order.

    A file of layers takes the profile and the run times that follow it, so that `a.layers.json a.profile.json
    b.layers.json b.profile.json` are two engines. Records, folders and all else stand alone. Engines with the same
    label are told apart by their folders, or numbered.

    Raises:
        RecordError, ModelError: See `open_engine`.
    """
    found: list[Engine] = []
    place = 0
    parts = [_part(path) for path in paths] if len(paths) > 1 else [""]  # one file has none to go with
    while place < len(paths):
        extra: dict[str, Path] = {}
        after = place + 1
        while parts[place] == "layers" and after < len(paths) and parts[after] not in ("", "layers", *extra):
            extra[parts[after]] = paths[after]
            after += 1
        found.append(open_engine(paths[place], model=model, profile=extra.get("profile"), times=extra.get("times")))
        place = after
    return _told_apart(found)


def _part(path: Path) -> str:
    """`layers`, `profile` or `times`; "" for what stands alone or cannot be read, of which `open_engine` tells."""
    if path.suffix.lower() != ".json" or not path.is_file():
        return ""
    content = None
    with suppress(OSError, TrtLabError):
        content = load_json(path.read_bytes(), str(path))
    if isinstance(content, dict):
        return "layers" if "Layers" in content else ""
    rows = [row for row in content if isinstance(row, dict)] if isinstance(content, list) else []
    if any(key in row for row in rows[:3] for key in _TIMES_KEYS):
        return "times"
    return "profile" if any("name" in row and "averageMs" in row for row in rows[:3]) else ""


def _told_apart(engines: Sequence[Engine]) -> tuple[Engine, ...]:
    """Engines with the same label get their folder's name before it, or a number after it."""
    labels = [engine.label for engine in engines]
    found = []
    for place, engine in enumerate(engines):
        alike = [other for other in engines if other.label == engine.label]
        folders = [_folder(other) for other in alike]
        if len(alike) > 1 and len(set(folders)) == len(folders):
            engine = replace(engine, label=f"{_folder(engine)}/{engine.label}")
        elif len(alike) > 1:
            engine = replace(engine, label=f"{engine.label} ({labels[: place + 1].count(engine.label)})")
        found.append(engine)
    return tuple(found)


def _folder(engine: Engine) -> str:
    """Name of the folder that an engine's files lie in."""
    origin = (engine.origin or Path()).resolve()
    return origin.name if origin.is_dir() and engine.kind != "record" else origin.parent.name
