"""Whether the probed engine is still the engine in question: finds the clean one and holds it against it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from trt_lab.compare.observer import Observation, observe_records, safe_to_probe
from trt_lab.graph.view import GraphView
from trt_lab.record import Record
from trt_lab.types import BuildOptions, TensorId, Tolerance

_HOW = "build the clean engine for it: lab.observer(build=True)"


def is_clean(view: GraphView, record: Record) -> bool:
    """Whether nothing but the model's own outputs is read from an engine."""
    own = {str(tensor) for tensor in view.outputs}
    return all(tensor in own for tensor in record.meta.probes)


def find_clean(view: GraphView, engine: Record, records: Iterable[Record]) -> Record | None:
    """The newest record without probes of the same model and options; one on the same samples is preferred."""
    wanted = _key(engine)
    fit = [r for r in records if r.ok and is_clean(view, r) and _key(r) == wanted]
    same = [r for r in fit if _inputs(r) == _inputs(engine)]
    return (same or fit or [None])[-1]


def has_clean(view: GraphView, engine: Record, records: Iterable[Record]) -> bool:
    """Whether an engine can be held against a clean one: there is one, or it is clean itself."""
    return is_clean(view, engine) or find_clean(view, engine, records) is not None


def clean_options(engine: Record) -> BuildOptions:
    """Options of the clean engine: those of the probed one, not profiled."""
    return replace(engine.meta.build_options, profile_runs=0)


def is_cheap(options: BuildOptions) -> bool:
    """Whether a second build may be made unasked: on the CPU, or with a timing cache."""
    return options.backend == "onnxruntime" or options.timing_cache is not None


def observe_engine(view: GraphView, engine: Record, records: Iterable[Record], tolerance: Tolerance) -> Observation:
    """What the probes did to an engine, held against the clean one among `records`.

    Raises:
        RecordError: A record is damaged. CompareError: The two have no output in common.
    """
    if is_clean(view, engine):
        count = len(engine.layers)
        return Observation("neutral", {}, count, count, reason="no probe is in the engine")
    clean = find_clean(view, engine, records)
    if clean is None:
        probes = [p for p in engine.meta.probes if p not in view.outputs]
        reason = f"the same engine without probes was not built; {_HOW}"
        return Observation("unknown", dict.fromkeys(probes, "unknown"), 0, len(engine.layers), reason=reason)
    found = observe_records(clean, engine, view=view, tolerance=tolerance, outputs=_inputs(clean) == _inputs(engine))
    own = {str(t) for t in view.outputs}
    return replace(
        found,
        by_probe={p: effect for p, effect in found.by_probe.items() if p not in own},
        instead={p: near for p, near in found.instead.items() if p not in own},
    )


def safe_tensors(view: GraphView, engines: Sequence[Record], more: Sequence[Record]) -> tuple[TensorId, ...]:
    """Tensors between the layers of the last engine when it is clean, in graph order: seeing them splits none.

    Where only a probed engine is known, its own probes prove nothing and are left out.

    Args:
        more: Further clean engines.
    """
    if not engines:
        return ()
    engine = engines[-1]
    clean = engine if is_clean(view, engine) else find_clean(view, engine, (*engines, *more))
    probes = set() if clean is not None else set(engine.meta.probes)
    return tuple(t for t in safe_to_probe((clean or engine).layers, view) if str(t) not in probes)


def _key(record: Record) -> tuple[object, ...]:
    options = {k: v for k, v in record.meta.options.items() if k not in ("profile_runs", "log_severity")}
    return record.meta.model.hash, record.meta.backend, record.meta.backend_version, repr(sorted(options.items()))


def _inputs(record: Record) -> list[str]:
    """Hashes of the inputs."""
    files = record.meta.files
    return [files[name].sha256 for name in sorted(files) if name.endswith("/inputs.safetensors")]
