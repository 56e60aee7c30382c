"""What is known of one engine, from whatever file it left: the one door of `inspect`, `profile` and `diff-engines`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from statistics import median
from typing import Literal

from trt_lab.compare.align import LayerMap
from trt_lab.engine_json import EngineTensor
from trt_lab.errors import RecordError, TrtLabError
from trt_lab.graph.view import GraphView
from trt_lab.model import Model
from trt_lab.model.collection import hold_collection
from trt_lab.profiling.forms import Parts, index_of, read_folder, read_parts
from trt_lab.record import Record, RecordMeta, is_record
from trt_lab.types import JsonValue, LayerInfo, LayerTime

Kind = Literal["record", "layers", "profile", "times", "explorer", "ort", "rtx_log"]

ModelLike = Model | GraphView | str | os.PathLike[str]


@dataclass(frozen=True, repr=False)
class Engine:
    """One engine, as far as its files tell.

    Attributes:
        label: Short name for tables and legends.
        origin: The file or folder it was read from.
        kind: What that is.
        dialect: `names`, `trt8`, `trt10`, `trt11`, `empty`, or the backend (`onnxruntime`); None where no layers are told.
        layers: In the engine's order.
        times: By layer; `index` points into `layers`, beyond the last stand names that are no layer. Empty: not profiled.
        latency_ms: End-to-end latency of each run, measured apart from the layers. Never their sum.
        bindings: Inputs and outputs of the engine.
        facts: `gpu`, `version`, `driver`, `model_hash`, `precision`, … where known; a key that is missing is not known.
        view: Graph of the model it was built from, where a record or the caller gives it.
        notes: One line each: what is missing, ambiguous or contradictory.
    """

    label: str
    origin: Path | None
    kind: Kind
    dialect: str | None
    layers: tuple[LayerInfo, ...]
    times: tuple[LayerTime, ...] = ()
    latency_ms: tuple[float, ...] = ()
    bindings: tuple[EngineTensor, ...] = ()
    facts: Mapping[str, JsonValue] = field(default_factory=dict)
    view: GraphView | None = None
    notes: tuple[str, ...] = ()

    @cached_property
    def map(self) -> LayerMap | None:
        """Which nodes went into which layers; None where no graph is known."""
        return None if self.view is None else LayerMap.of(self.layers, self.view)

    @cached_property
    def time_of(self) -> dict[int, LayerTime]:
        """Layer index → its time; layers without one are not in it."""
        return {time.index: time for time in self.times}

    @cached_property
    def layer_sum_ms(self) -> float | None:
        """Sum of the layers' average times; None when nothing was timed. Not the latency."""
        return sum(time.average_ms for time in self.times) if self.times else None

    @property
    def median_latency_ms(self) -> float | None:
        """Median of `latency_ms`; None where it was not measured."""
        return median(self.latency_ms) if self.latency_ms else None

    def share(self, ms: float | None) -> float | None:
        """What part of the layer sum that is, 0 to 1; None where either is not known, or no layer took any time."""
        return ms / self.layer_sum_ms if ms is not None and self.layer_sum_ms else None

    @property
    def summary(self) -> dict[str, str]:
        """A few facts for people: what it is, how many layers, their sum, the median latency, GPU and version."""
        told = {"kind": self.kind, "dialect": self.dialect, "layers": str(len(self.layers))}
        if self.layer_sum_ms is not None:
            told["layer sum"] = f"{self.layer_sum_ms:.4g} ms"
        if self.median_latency_ms is not None:
            told["latency"] = f"{self.median_latency_ms:.4g} ms (median of {len(self.latency_ms)} runs)"
        told.update((key, str(self.facts[key])) for key in ("gpu", "version", "precision") if self.facts.get(key))
        return {key: value for key, value in told.items() if value is not None}

    def __repr__(self) -> str:
        return f"<Engine {self.label}: {', '.join(f'{key} {value}' for key, value in self.summary.items())}>"

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><td>{escape(k)}</td><td>{escape(v)}</td></tr>" for k, v in self.summary.items())
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes[:10])
        return f"<p><b>Engine {escape(self.label)}</b></p><table><tbody>{rows}</tbody></table>{notes}"


def open_engine(
    path: str | os.PathLike[str],
    *,
    model: ModelLike | None = None,
    profile: str | os.PathLike[str] | None = None,
    times: str | os.PathLike[str] | None = None,
) -> Engine:
    """Opens what an engine left, whatever form it has.

    Args:
        path: A record (folder or .zip); layer JSON of any TensorRT version; a profile (`trtexec --exportProfile`) or
            run times (`--exportTimes`) alone; a folder or file of the engine explorer; a profile of ONNX Runtime; a
            verbose build log of TensorRT for RTX. The files that an explorer keeps beside each other are read together.
        model: The ONNX model that it was built from; names are then checked against it. A record knows its own.
        profile: Layer times that belong to `path`, in trtexec's form.
        times: Run times that belong to `path`, in trtexec's form.

    Raises:
        RecordError: It is none of these, broken, or the profile is of another engine; names the file and the key.
        ModelError: `model` cannot be read.
    """
    source = Path(path).expanduser()
    view = _view(model)
    try:
        if not source.exists():
            raise RecordError(f"{source}: no such file or folder; check the path")
    except OSError as error:  # a folder above may not be read, or the name is too long
        raise RecordError(f"{source}: cannot be read ({error.strerror or error}); check the path") from error
    extra = {
        key: Path(value).expanduser() for key, value in (("profile", profile), ("times", times)) if value is not None
    }
    if is_record(source):
        if extra:
            raise RecordError(
                f"{source}: a record has its own times; give layer JSON with a profile, or the record alone"
            )
        return engine_of(Record.open(source), view=view)
    index = index_of(view) if view is not None else None
    with hold_collection():
        parts = read_folder(source, index, extra) if source.is_dir() else read_parts(source, index, extra)
    return _engine(parts, source, view)


def engine_of(record: Record, *, view: GraphView | None = None) -> Engine:
    """The engine of an open record. Its own model is read unless `view` is given; a missing one is a note.

    Raises:
        RecordError: A file of the record is damaged.
    """
    meta = record.meta
    notes: list[str] = []
    if view is None:
        try:
            view = GraphView.of(record.model())
        except TrtLabError as error:
            notes.append(f"no graph: {error}")
    version = meta.backend_version
    major = version.split(".")[0] if version else ""
    facts: dict[str, JsonValue] = {
        "backend": meta.backend,
        "version": version,
        "gpu": meta.device,
        "driver": meta.driver,
        "model_hash": meta.model.hash,
        "weights_hash": meta.model.weights_hash,
        "precision": meta.plan.default,
        "tf32": meta.tf32,
        "timing_cache": meta.timing_cache,
        "build_s": meta.build_s,
        "role": meta.role,
        "created": meta.created,
        "engine_hash": meta.facts.get("sha256"),
        "profiler": meta.facts.get("profiler"),
        "probes": dict(meta.probes) or None,
        "shapes": _shape_facts(meta),
    }
    return Engine(
        label=record.name,
        origin=record.path,
        kind="record",
        dialect=f"trt{major}" if meta.backend == "tensorrt" and major else meta.backend,
        layers=record.layers,
        times=record.times,
        latency_ms=tuple(record.latency_ms),
        bindings=_bindings(record, view),
        facts={key: value for key, value in facts.items() if value is not None},
        view=view,
        notes=tuple(notes),
    )


def _engine(parts: Parts, source: Path, view: GraphView | None) -> Engine:
    return Engine(
        label=parts.label,
        origin=source,
        kind=parts.kind,
        dialect=parts.dialect,
        layers=parts.layers,
        times=parts.times,
        latency_ms=parts.latency_ms,
        bindings=parts.bindings,
        facts=parts.facts,
        view=view,
        notes=parts.notes,
    )


def _view(model: ModelLike | None) -> GraphView | None:
    if model is None or isinstance(model, GraphView):
        return model
    return GraphView.of(model if isinstance(model, Model) else Model.load(model))


def _shape_facts(meta: RecordMeta) -> JsonValue:
    """The optimisation profile it was built for, None without one: `[{name, min, opt, max}]`."""
    told = meta.options.get("shapes")
    return [dict(item) for item in told if isinstance(item, dict)] if told else None


def _bindings(record: Record, view: GraphView | None) -> tuple[EngineTensor, ...]:
    if view is None:
        return tuple(EngineTensor(name, False) for name in record.meta.output_names)
    found = [EngineTensor(t, True, view.tensors[t].dtype, view.tensors[t].shape) for t in view.inputs]
    return tuple(found + [EngineTensor(t, False, view.tensors[t].dtype, view.tensors[t].shape) for t in view.outputs])
