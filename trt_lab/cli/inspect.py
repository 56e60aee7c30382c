"""`trt-lab inspect`: what is inside an engine, from any file it left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from trt_lab.cli.arguments import JsonOption
from trt_lab.cli.output import FINDING, FINE, print_json, print_line, print_table, print_wrapped, shorten
from trt_lab.compare.unmapped import constant_names, explain_layer
from trt_lab.engine_nodes import is_reformat
from trt_lab.errors import UsageError
from trt_lab.profiling.fusion import Split, fusion
from trt_lab.profiling.lints import REQUESTS, Lint, lints
from trt_lab.profiling.shares import Share, memory, precision_key, reformats, shares
from trt_lab.profiling.source import Engine, open_engine
from trt_lab.record.schema import to_json
from trt_lab.types import JsonValue

NAME = "inspect"
_WIDTH = 80


def run(
    file: Annotated[
        Path,
        typer.Argument(
            help="A record; engine layer JSON of any TensorRT version; a profile; the engine explorer's folder; ONNX "
            "Runtime's profile; a verbose build log of TensorRT for RTX.",
            metavar="FILE",
        ),
    ],
    model: Annotated[
        Path | None, typer.Option("--model", help="ONNX model it was built from: maps nodes and layers.")
    ] = None,
    profile: Annotated[
        Path | None, typer.Option("--profile", help="Layer times of FILE (trtexec --exportProfile).")
    ] = None,
    times: Annotated[Path | None, typer.Option("--times", help="Run times of FILE (trtexec --exportTimes).")] = None,
    precision: Annotated[
        str | None, typer.Option("--precision", help="What was asked for; exit 1 when no layer tensor has it.")
    ] = None,
    top: Annotated[int, typer.Option("--top", min=1, help="Layers shown in the table; JSON has the shares.")] = 10,
    json: JsonOption = False,
) -> int:
    """Show what is inside an engine: layers, precisions, memory, fusion, findings. Exit 1 on an error finding."""
    if precision is not None and precision.lower() not in ("fp32", *REQUESTS):
        raise UsageError(f"--precision {precision!r} is not known; take {', '.join(REQUESTS)} or fp32")
    engine = open_engine(file, model=model, profile=profile, times=times)
    found = lints(engine, precision=precision)
    if json:
        print_json(_json(engine, found))
    else:
        _print(engine, found, top)
    return FINDING if any(lint.severity == "error" for lint in found) else FINE


def _json(engine: Engine, found: Sequence[Lint]) -> dict[str, JsonValue]:
    by_type, by_precision = shares(engine, "type"), shares(engine, "precision")
    unmapped = _unmapped(engine)
    return {
        "label": engine.label,
        "kind": engine.kind,
        "dialect": engine.dialect,
        "layers": len(engine.layers),
        "by_type": _counts(by_type),
        "by_precision": _counts(by_precision),
        "unmapped": [engine.layers[index].name for index in unmapped],
        "unmapped_layers": [
            {"index": index, "name": engine.layers[index].name, "reason": reason} for index, reason in unmapped.items()
        ],
        "nodes": _nodes(engine),
        "times": _times(engine),
        "shares": {"by_type": to_json(by_type), "by_precision": to_json(by_precision)},
        "memory": _memory(engine),
        "reformats": _reformats(engine),
        "fusion": _fusion(engine),
        "bindings": to_json(engine.bindings),
        "lints": to_json(found),
        "facts": to_json(engine.facts),
        "notes": list(engine.notes),
    }


def _counts(found: Sequence[Share]) -> dict[str, JsonValue]:
    return {share.key: share.layers for share in sorted(found, key=lambda s: -s.layers) if share.layers}


def _unmapped(engine: Engine) -> dict[int, str]:
    """Layers of which no node is known → why; reformats, which serve others, are left out."""
    if engine.map is not None:
        return {index: engine.map.layer_reasons[index].text for index in engine.map.unmapped_layers}
    constants = constant_names(engine.layers, ())
    detailed = any(layer.type for layer in engine.layers)
    return {
        layer.index: explain_layer(layer, constants, detailed=detailed, known=False).text
        for layer in engine.layers
        if not layer.nodes and not is_reformat(layer)
    }


def _nodes(engine: Engine) -> JsonValue:
    found = engine.map
    if found is None:
        return None
    reasons = {node: found.node_reasons[node] for node in found.unmapped_nodes}
    return {
        "total": found.nodes_total,
        "mapped": found.nodes_total - len(reasons),
        "folded": sum(reason.folded for reason in reasons.values()),
        "coverage": found.coverage,
        "folded_by_reason": dict(Counter(reason.kind for reason in reasons.values() if reason.folded)),
        "unmapped": [node for node, reason in reasons.items() if not reason.folded],
        "unknown": list(found.unknown_nodes),
    }


def _times(engine: Engine) -> JsonValue:
    """The layer sum and the latency are two figures, never one."""
    if not engine.times and not engine.latency_ms:
        return None
    return {
        "timed": len(engine.times),
        "layer_sum_ms": engine.layer_sum_ms,
        "median_latency_ms": engine.median_latency_ms,
        "runs": len(engine.latency_ms),
    }


def _memory(engine: Engine) -> JsonValue:
    found = memory(engine)
    weights = [m.weights_bytes for m in found if m.weights_bytes is not None]
    moved = [(m.input_bytes, m.output_bytes) for m in found]
    known = [a + b for a, b in moved if a is not None and b is not None]
    least = [m.least_bytes for m in found if m.least_bytes is not None]
    return {
        "weights_bytes": sum(weights) if weights else None,
        "activation_bytes": sum(known) if known and len(known) == len(found) else None,
        "activation_bytes_at_least": sum(least) if least else None,
        "layers_without_sizes": len(found) - len(known),
    }


def _reformats(engine: Engine) -> JsonValue:
    found = reformats(engine)
    timed = [r.time_ms for r in found if r.time_ms is not None]
    cost = sum(timed) if timed else None
    return {"layers": len(found), "time_ms": cost, "share": engine.share(cost)}


def _fusion(engine: Engine) -> JsonValue:
    if engine.map is None:
        return None
    found = fusion(engine)
    slowest = sorted(found.splits, key=lambda split: -_cost(engine, split))[:10]
    return {
        "layers_with_nodes": len(found.groups),
        "fused_nodes": found.fused_nodes,
        "splits": len(found.splits),
        "splits_by_reason": dict(Counter(split.reason for split in found.splits)),
        "slowest_splits": to_json(slowest),
    }


def _cost(engine: Engine, split: Split) -> float:
    """Time of the two layers, in ms; 0 where neither was timed, so that the order of the graph stays."""
    times = (engine.time_of.get(index) for index in (split.layer, split.reader_layer))
    return sum(time.average_ms for time in times if time is not None)


# --- for people -----------------------------------------------------------------------------------


def _print(engine: Engine, found: Sequence[Lint], top: int) -> None:
    print_wrapped(f"{engine.label}: {len(engine.layers)} layers, {_origin(engine)}", _WIDTH)
    if engine.times:
        middle = engine.median_latency_ms
        latency = f"{middle:.4g} ms (median), measured apart" if middle is not None else "not told"
        print_wrapped(f"layer sum {engine.layer_sum_ms:.4g} ms; latency of a run {latency}", _WIDTH)
    _print_nodes(engine)
    for title, shown in (("precision", shares(engine, "precision")), ("type", shares(engine, "type"))):
        print_line()
        rows = [(shorten(s.key, 30), s.layers, s.time_ms, _percent(s.share)) for s in shown[:12]]
        print_table((title, "layers", "ms", "share"), rows, numbers=("layers", "ms", "share"))
    _print_layers(engine, top)
    if found:
        print_line()
    for lint in found:
        gain = f" Gain at most {lint.gain_ms:.3g} ms: {lint.basis}." if lint.gain_ms else ""
        print_wrapped(f"{lint.severity} {lint.rule}: {lint.message}.{gain}", _WIDTH, indent="  ")
    for note in engine.notes:
        print_wrapped(f"note: {note}", _WIDTH, indent="  ")


def _print_nodes(engine: Engine) -> None:
    unmapped = _unmapped(engine)
    if engine.map is not None and engine.map.coverage is not None:
        left = [n for n in engine.map.unmapped_nodes if not engine.map.node_reasons[n].folded]
        mapped = engine.map.nodes_total - len(engine.map.unmapped_nodes)
        folded = len(engine.map.unmapped_nodes) - len(left)
        print_wrapped(
            f"{engine.map.nodes_total} nodes: {mapped} in layers, {folded} need none, {len(left)} not found"
            + (f", first {left[0]}" if left else ""),
            _WIDTH,
        )
    if unmapped:
        index, reason = next(iter(unmapped.items()))
        print_wrapped(f"{len(unmapped)} layers without a node, first {engine.layers[index].name}: {reason}", _WIDTH)


def _print_layers(engine: Engine, top: int) -> None:
    if not engine.layers:
        return
    print_line()
    if engine.times:
        order = sorted(engine.times, key=lambda t: -t.average_ms)[:top]
        indices = [time.index for time in order if time.index < len(engine.layers)]
    else:
        indices = [layer.index for layer in engine.layers[:top]]
    kinds = {index: precision_key(engine.layers[index]) for index in indices}
    width = max(16, _WIDTH - 43 - max(map(len, kinds.values()), default=0))
    rows = []
    for index, kind in kinds.items():
        layer, time = engine.layers[index], engine.time_of.get(index)
        told = time.average_ms if time is not None else None
        share = _percent(engine.share(told))
        rows.append((index, shorten(layer.name, width), shorten(layer.type, 14), kind, told, share))
    columns = ("#", "slowest layers" if engine.times else "first layers", "type", "precision", "ms", "share")
    print_table(columns, rows, numbers=("#", "ms", "share"))


def _origin(engine: Engine) -> str:
    told = [f"dialect {engine.dialect}" if engine.dialect else f"a file of {engine.kind}"]
    told += [str(engine.facts[key]) for key in ("backend", "version", "gpu") if engine.facts.get(key)]
    return ", ".join(told)


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{share:.1%}"
