"""`trt-lab diff-engines`: two or more engines of one model, by ONNX node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from trt_lab.cli.arguments import JsonOption
from trt_lab.cli.output import FINE, print_json, print_line, print_table, shorten
from trt_lab.errors import UsageError
from trt_lab.profiling.engines import EngineDiff, NodeRow, diff_engines
from trt_lab.profiling.opening import open_engines
from trt_lab.profiling.source import Engine
from trt_lab.record.schema import to_json
from trt_lab.types import JsonValue

NAME = "diff-engines"
_NAME_WIDTH = 36


def run(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Engines, the first is what the others are compared with: records, layer JSON (with its profile after "
            "it), or the explorer's folders.",
            metavar="ENGINE",
        ),
    ],
    model: Annotated[
        Path | None, typer.Option("--model", help="ONNX model they were built from; names are checked.")
    ] = None,
    scope_depth: Annotated[int, typer.Option("--scope-depth", min=1, help="Levels of scopes that are told apart.")] = 2,
    top: Annotated[int, typer.Option("--top", min=1, help="Rows shown of each table; JSON has all.")] = 8,
    json: JsonOption = False,
) -> int:
    """Compare engines by ONNX node: time won and lost, fusions, kernels and types that changed."""
    engines = open_engines(files, model=model)
    if len(engines) < 2:
        raise UsageError(f"{files[0]}: one engine alone; give two, such as A.trtlab B.trtlab")
    diffs = [diff_engines(engines[0], other) for other in engines[1:]]
    if json:
        first, *others = [_json(diff, scope_depth) for diff in diffs]
        print_json({**first, "more": [*others]})
    else:
        if len(diffs) > 1:
            _print_engines(engines)
        for diff in diffs:
            _print(diff, scope_depth, top)
    return FINE


def _json(diff: EngineDiff, depth: int) -> dict[str, JsonValue]:
    return {
        "a": _engine_json(diff.a),
        "b": _engine_json(diff.b),
        "rows": to_json(diff.rows),
        "groups": to_json(diff.groups),
        "scopes": to_json(diff.scopes(depth)),
        "fusions_changed": to_json(diff.fusions_changed),
        "tactics_changed": to_json(diff.tactics_changed),
        "types_changed": to_json(diff.types_changed),
        "totals": {
            "statistic": diff.statistic,
            "a_ms": diff.total_a_ms,
            "b_ms": diff.total_b_ms,
            "delta_ms": diff.delta_ms,
            "interval_ms": to_json(diff.interval_ms),
            "latency_a_ms": diff.a.median_latency_ms,
            "latency_b_ms": diff.b.median_latency_ms,
        },
        "reformats": to_json(diff.reformats),
        "facts_changed": {key: {"a": a, "b": b} for key, (a, b) in diff.facts_changed.items()},
        "notes": [*diff.notes],
    }


def _engine_json(engine: Engine) -> dict[str, JsonValue]:
    told = ("backend", "version", "gpu", "precision", "model_hash", "engine_hash", "timing_cache")
    return {
        "label": engine.label,
        "kind": engine.kind,
        "dialect": engine.dialect,
        "layers": len(engine.layers),
        **{key: engine.facts.get(key) for key in told},
    }


def _print_engines(engines: Sequence[Engine]) -> None:
    rows = [
        (shorten(engine.label, _NAME_WIDTH), len(engine.layers), engine.layer_sum_ms, engine.median_latency_ms)
        for engine in engines
    ]
    columns = ("engine", "layers", "layer sum ms", "end to end ms")
    print_table(columns, rows, numbers=columns[1:])
    print_line()


def _print(diff: EngineDiff, depth: int, top: int) -> None:
    print_line(f"a: {diff.a.label}   b: {diff.b.label}")
    for key, (a, b) in diff.facts_changed.items():
        print_line(f"  {key}: {shorten(str(a), 28)} → {shorten(str(b), 28)}")
    _print_totals(diff)
    _print_rows("won", [row for row in diff.rows if (row.delta_ms or 0.0) < 0], top)
    _print_rows("lost", [row for row in diff.rows if (row.delta_ms or 0.0) > 0], top)
    scopes = [row for row in diff.scopes(depth) if row.delta_ms is not None]
    if len(scopes) > 1:
        rows = [(shorten(row.scope or "(top)", _NAME_WIDTH), row.a_ms, row.b_ms, row.delta_ms) for row in scopes[:top]]
        print_table(("scope", "a ms", "b ms", "change ms"), rows, numbers=("a ms", "b ms", "change ms"))
        print_line()
    _print_changes(diff, top)
    for note in diff.notes:
        print_line(f"note: {note}")


def _print_totals(diff: EngineDiff) -> None:
    if diff.total_a_ms is not None and diff.total_b_ms is not None and diff.delta_ms is not None:
        share = f", {100 * diff.delta_ms / diff.total_a_ms:+.1f} %" if diff.total_a_ms else ""
        low_high = "" if diff.interval_ms is None else " (95 %: {:+.4g} … {:+.4g})".format(*diff.interval_ms)
        print_line(
            f"  layer sum: {diff.total_a_ms:.4g} → {diff.total_b_ms:.4g} ms: {diff.delta_ms:+.4g} ms{share}{low_high}"
        )
    a, b = diff.a.median_latency_ms, diff.b.median_latency_ms
    if a is not None and b is not None:
        print_line(f"  end to end: {a:.4g} → {b:.4g} ms: {b - a:+.4g} ms")
    cost = diff.reformats
    if cost.a_count or cost.b_count:
        figures = "" if cost.a_ms is None or cost.b_ms is None else f", {cost.a_ms:.4g} → {cost.b_ms:.4g} ms"
        print_line(f"  reformats: {cost.a_count} → {cost.b_count}{figures}")
    print_line()


def _print_rows(title: str, rows: Sequence[NodeRow], top: int) -> None:
    if not rows:
        return
    shown = [
        (
            shorten(row.node, _NAME_WIDTH),
            row.a_ms,
            row.b_ms,
            row.delta_ms,
            f"{row.change}{'' if row.measured else ' ~'}",
        )
        for row in rows[:top]
    ]
    columns = (f"node, time {title}", "a ms", "b ms", "change", "")
    print_table(columns, shown, numbers=columns[1:4])
    more = f"and {len(rows) - top} more; " if len(rows) > top else ""
    print_line(f"{more}~ its part of a fused layer")
    print_line()


def _print_changes(diff: EngineDiff, top: int) -> None:
    kinds = Counter(change.kind for change in diff.fusions_changed)
    told = ", ".join(f"{count} {kind}" for kind, count in kinds.items()) or "none"
    print_line(f"fusions changed: {told}")
    for change in diff.fusions_changed[: top // 2]:
        nodes = shorten(", ".join(change.nodes), 52)
        print_line(f"  {len(change.layers_a)} → {len(change.layers_b)} layers: {nodes}")
    print_line(f"tactics changed: {len(diff.tactics_changed)}")
    for tactic in diff.tactics_changed[: top // 2]:
        print_line(f"  {shorten(', '.join(tactic.nodes), 70)}")
        print_line(f"    {shorten(tactic.tactic_a, 74)}")
        print_line(f"    {shorten(tactic.tactic_b, 74)}")
    types = Counter((change.type_a, change.type_b) for change in diff.types_changed)
    told = ", ".join(f"{count} nodes {a} → {b}" for (a, b), count in types.most_common(top))
    print_line(f"types changed: {told or 'none'}")
