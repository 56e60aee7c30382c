"""The forms in which engines leave their layers and times on disk, each recognised by its content, not by its name.

Layer JSON of the engine inspector or `trtexec --exportLayerInfo`, `--exportProfile`, `--exportTimes`; the folders of
the engine explorer, which keep these beside each other; ONNX Runtime's profile; TensorRT for RTX's verbose log.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from trt_lab.backends.tensorrt.dump import parse_dump
from trt_lab.engine_json import EngineTensor, layers_from, load_json
from trt_lab.engine_nodes import NodeIndex, map_layers, split_profile
from trt_lab.engine_profile import duration, parse_profile, place_rows
from trt_lab.errors import RecordError
from trt_lab.graph.view import GraphView
from trt_lab.profiling.ort_trace import is_ort_profile, read_ort_profile
from trt_lab.types import JsonValue, LayerInfo, LayerTime

PartKind = Literal["layers", "profile", "times", "explorer", "ort", "rtx_log"]

_ENDS = {
    "layers": (".graph.json", ".layers.json", "layers.json"),
    "profile": (".profile.json", "profile.json"),
    "times": (".timing.json", ".times.json"),
    "profile_facts": (".profile.metadata.json",),
    "build_facts": (".build.metadata.json",),
    "device_facts": (".metadata.json",),
}
"""What the explorer and trtexec's users call the files of one engine: one stem, these ends."""

_DUMP = re.compile(r"(?:^|\n|\] )Layers:\n(?=Name: )")
_LOOKED_THROUGH = 200
_PLAN = (b"ptrt", b"ftrt")
"""First bytes of serialized engines."""


@dataclass(frozen=True)
class Parts:
    """What was found of one engine; see `profiling.source.Engine` for the fields."""

    label: str
    kind: PartKind
    dialect: str | None = None
    layers: tuple[LayerInfo, ...] = ()
    times: tuple[LayerTime, ...] = ()
    latency_ms: tuple[float, ...] = ()
    bindings: tuple[EngineTensor, ...] = ()
    facts: Mapping[str, JsonValue] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def index_of(view: GraphView) -> NodeIndex:
    """The nodes of a graph as layers may name them."""
    return NodeIndex.of(view.nodes.values())


def read_folder(folder: Path, index: NodeIndex | None, extra: Mapping[str, Path]) -> Parts:
    """The one engine of which the folder holds files.

    Raises:
        RecordError: There is none, or there are several; they are listed.
    """
    stems: dict[str, Path] = {}
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise RecordError(f"{folder}: cannot be read ({error.strerror or error}); check the permissions.") from error
    for file in (folder / name for name in names if name.endswith(".json")):
        part, stem = _split_name(file.name)
        if part in ("layers", "profile"):
            stems.setdefault(stem, file)
            if part == "layers":
                stems[stem] = file
    if not stems:
        inner = _folder_below(folder)
        hint = f"; there are engines in {inner}" if inner is not None else ""
        raise RecordError(f"{folder}: neither a record nor a folder with NAME.graph.json or NAME.layers.json{hint}.")
    if len(stems) > 1:
        names = ", ".join(file.name for file in list(stems.values())[:5])
        raise RecordError(f"{folder}: {len(stems)} engines in it ({names}); give one of these files.")
    return replace(read_parts(next(iter(stems.values())), index, extra), kind="explorer")


def _folder_below(folder: Path) -> Path | None:
    """The first folder below that holds an engine; only some folders are looked through, however many there are."""
    for number, (place, inner, files) in enumerate(os.walk(folder)):
        if any(_split_name(name)[0] == "layers" for name in files):
            return Path(place)
        if number >= _LOOKED_THROUGH:
            break
        inner.sort()
    return None


def read_parts(path: Path, index: NodeIndex | None, extra: Mapping[str, Path]) -> Parts:
    """One file, with the files of the same engine beside it, and those given as `extra` (`profile`, `times`).

    Raises:
        RecordError: See `open_engine`.
    """
    found = _read_one(path, index)
    if found.kind in ("ort", "rtx_log"):
        beside: dict[str, Path] = {}
    else:
        beside = _beside(path)
    if found.kind == "times" and "profile" in extra:
        return read_parts(extra["profile"], index, {"times": path})
    if found.kind == "ort" and extra:
        raise RecordError(f"{path}: a profile of ONNX Runtime has its own times; give it alone.")
    for part, what in (("profile", "layer times"), ("times", "run times")):
        if found.kind == part and part in extra:
            raise RecordError(f"{path}: holds {what} itself, as does {extra[part]}; give one of them.")
    if found.kind == "times":
        return found
    if found.kind == "profile" and "layers" in beside:
        return read_parts(beside["layers"], index, {"profile": path, **extra})
    files = {**beside, **extra}
    notes = [f"times read from {files['profile'].name} beside it"] if "profile" in beside and not extra else []
    if "profile" in files:
        found = _with_profile(found, files["profile"], strict="profile" in extra)
    if "times" in files:
        latency, facts = _run_times(load_json(_bytes(files["times"]), str(files["times"])), str(files["times"]))
        found = replace(found, latency_ms=latency, facts={**found.facts, **facts})
    facts = {**found.facts, **_explorer_facts(beside)}
    is_explorer = path.name.endswith(".graph.json")
    return replace(found, facts=facts, kind="explorer" if is_explorer else found.kind, notes=(*found.notes, *notes))


def _read_one(path: Path, index: NodeIndex | None) -> Parts:
    data = _bytes(path)
    label = _label(path)
    if data[:4] in _PLAN:
        raise RecordError(
            f"{path}: a serialized engine. An engine is code and is not loaded to look at it; give its layer JSON "
            "(trtexec --exportLayerInfo) or a record."
        )
    if path.suffix.lower() == ".onnx":
        raise RecordError(f"{path}: an ONNX model, no engine; build it with trt-lab build and give the record.")
    if not data.strip():
        raise RecordError(f"{path}: the file is empty.")
    if b"Layers:" in data and b"\nName: " in data:
        dump = _DUMP.search(data.decode("utf-8", "replace").replace("\r\n", "\n"))
        if dump is not None:
            return _rtx_log(dump.string[dump.end() :], path, label, index)
    notes: list[str] = []
    found = _from_json(load_json(data, str(path), notes), path, label, index)
    return replace(found, notes=(*found.notes, *notes)) if notes else found


def _from_json(content: Any, path: Path, label: str, index: NodeIndex | None) -> Parts:
    if is_ort_profile(content):
        layers, times, facts = read_ort_profile(content, str(path))
        return Parts(label, "ort", "onnxruntime", map_layers(layers, index), times, facts=facts)
    if isinstance(content, list) and any(isinstance(row, Mapping) for row in content):
        return _rows(content, path, label, index)
    read = layers_from(content, name=str(path), index=index)
    profiles = {str(layer.attributes.get("profile", 0)) for layer in read.layers}
    several = len(profiles) > 1
    facts: dict[str, JsonValue] = {"profiles": len(profiles)} if several else {}
    notes = (f"{len(profiles)} optimisation profiles, each with layers of its own; a run uses one",) if several else ()
    return Parts(
        label, "layers", read.dialect, read.layers, bindings=read.bindings, facts=facts, notes=(*read.notes, *notes)
    )


def _rows(content: list[Any], path: Path, label: str, index: NodeIndex | None) -> Parts:
    """A list of rows: layer times, or times of whole runs."""
    keys = {key for row in content[:3] if isinstance(row, Mapping) for key in row}
    if "latencyMs" in keys or "computeMs" in keys:
        latency, facts = _run_times(content, str(path))
        return Parts(label, "times", latency_ms=latency, facts=facts)
    profile = parse_profile(content, str(path))
    layers = []
    for place, row in enumerate(profile.rows):
        bare, chosen = split_profile(row.name)
        layers.append(LayerInfo(place, bare, "", attributes={} if chosen is None else {"profile": chosen}))
    times = tuple(LayerTime(i, layers[i].name, r.average_ms, r.median_ms) for i, r in enumerate(profile.rows))
    notes = ("a profile alone: layers are known by name only; give the layer JSON too", *profile.notes)
    return Parts(
        label, "profile", "names" if layers else "empty", map_layers(layers, index), times, notes=notes,
        facts=_profile_facts(profile.count, profile.percentage_sum),
    )  # fmt: skip


def _with_profile(found: Parts, file: Path, *, strict: bool) -> Parts:
    """Hangs the times of a profile file on the layers. Raises RecordError when no name fits and `strict` is set."""
    flags: list[str] = []
    profile = parse_profile(load_json(_bytes(file), str(file), flags), str(file))
    times, notes = place_rows(found.layers, profile.rows)
    known = [time for time in times if time.index < len(found.layers)]
    if times and found.layers and not known:
        first = times[0].name
        message = (
            f"{file}: the profile of another engine: 'name' {first!r} and all others are no layers of {found.label}"
        )
        if strict:
            raise RecordError(f"{message}; give the profile that was made with this engine.")
        return replace(found, notes=(*found.notes, f"{message}; it is left out"))
    if len(known) * 2 < len(times):
        notes = (f"only {len(known)} of {len(times)} timed names are layers: is {file.name} of this engine?", *notes)
    return replace(
        found, times=times, notes=(*found.notes, *flags, *profile.notes, *notes),
        facts={**found.facts, **_profile_facts(profile.count, profile.percentage_sum)},
    )  # fmt: skip


def _rtx_log(text: str, path: Path, label: str, index: NodeIndex | None) -> Parts:
    read = layers_from(parse_dump("Layers:\n" + text), name=str(path), index=index)
    if not read.layers:
        raise RecordError(f"{path}: the log has a 'Layers:' message, but no layer in it can be read.")
    notes = (
        "read from a build log; TensorRT for RTX chooses kernels when the engine first runs: no times",
        *read.notes,
    )
    return Parts(label, "rtx_log", "tensorrt_rtx", read.layers, bindings=read.bindings, notes=notes)


def _run_times(content: Any, name: str) -> tuple[tuple[float, ...], dict[str, JsonValue]]:
    """`latencyMs` of each run, and the mean GPU time. Raises RecordError naming the key that is missing."""
    rows = [row for row in content if isinstance(row, Mapping)] if isinstance(content, list) else []
    latency = tuple(ms for row in rows if (ms := duration(row.get("latencyMs"))) is not None)
    if not latency:
        raise RecordError(f"{name}: the key 'latencyMs' is missing; this is no file of trtexec --exportTimes.")
    compute = [ms for row in rows if (ms := duration(row.get("computeMs"))) is not None]
    return latency, {"compute_ms": fmean(compute)} if compute else {}


def _profile_facts(count: int | None, percentage_sum: float | None) -> dict[str, JsonValue]:
    facts: dict[str, JsonValue] = {}
    if count is not None:
        facts["profiled_runs"] = count
    if percentage_sum is not None:
        facts["file_percentage_sum"] = round(percentage_sum, 6)
    return facts


def _explorer_facts(files: Mapping[str, Path]) -> dict[str, JsonValue]:
    """What the explorer's metadata files tell. A broken one raises RecordError with the byte place."""
    facts: dict[str, JsonValue] = {}
    told = {key: load_json(_bytes(files[key]), str(files[key])) for key in files if key.endswith("_facts")}
    device = told.get("device_facts")
    if isinstance(device, list) and device and isinstance(device[0], Mapping) and "Name" in device[0]:
        facts["gpu"] = str(device[0]["Name"])
    measured = told.get("profile_facts")
    if isinstance(measured, Mapping):
        chosen = measured.get("device_information")
        if isinstance(chosen, Mapping) and chosen.get("Selected Device"):
            facts["gpu"] = str(chosen["Selected Device"])
        summary, options = measured.get("performance_summary"), measured.get("inference_options")
        if isinstance(summary, Mapping):
            facts["performance_summary"] = dict(summary)
        if isinstance(options, Mapping):
            facts["inference_options"] = dict(options)
    built = told.get("build_facts")
    options = built.get("build_options") if isinstance(built, Mapping) else None
    if isinstance(options, Mapping):
        facts["build_options"] = dict(options)
        if options.get("Precision"):
            facts["precision"] = str(options["Precision"]).lower()
    return facts


def _split_name(name: str) -> tuple[str, str]:
    """(which part of an engine a file name says it is, the stem the parts share); ("", name) for any other."""
    for part in ("profile_facts", "build_facts", "device_facts", "layers", "profile", "times"):
        for end in _ENDS[part]:
            if name.endswith(end) and (end.startswith(".") or name == end):
                return part, name.removesuffix(end)
    return "", name


def _beside(path: Path) -> dict[str, Path]:
    """Files of the same engine in the same folder, by part, the file itself left out."""
    part, stem = _split_name(path.name)
    if not part:
        return {}
    found: dict[str, Path] = {}
    for other, ends in _ENDS.items():
        for end in ends:
            file = path.with_name(stem + end if end.startswith(".") else end)
            if other != part and bool(stem) == end.startswith(".") and file.is_file():
                found.setdefault(other, file)
    return found


def _label(path: Path) -> str:
    stem = _split_name(path.name)[1] or path.parent.name
    return stem.removesuffix(".json").removesuffix(".engine")


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror or error}.") from error
