"""`trt-lab profile`: layer times, the latency beside their sum, and regressions against a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from trt_lab.cli.arguments import LARGEST, JsonOption
from trt_lab.cli.output import FINDING, FINE, print_json, print_line, print_note, print_table, shorten
from trt_lab.cli.targets import check_targets
from trt_lab.errors import UsageError
from trt_lab.profiling.baseline import (
    TOLERANCE,
    BaselineCheck,
    baseline_of,
    compare_baseline,
    read_baseline,
    write_baseline,
)
from trt_lab.profiling.latency import account_latency
from trt_lab.profiling.node_time import node_times, pieces_of
from trt_lab.profiling.opening import open_engines
from trt_lab.profiling.reports import in_words, junit_xml, markdown, write_text
from trt_lab.profiling.source import Engine
from trt_lab.profiling.traces.chrome import write_chrome_trace
from trt_lab.types import JsonValue

NAME = "profile"
_NAME_WIDTH, _TYPE_WIDTH = 36, 14


def run(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Records, layer JSON followed by its profile, a profile alone, or the explorer's folder; one or more engines.",
            metavar="FILE",
        ),
    ],
    baseline: Annotated[Path | None, typer.Option("--baseline", help="Compare with this; exit 1 when slower.")] = None,
    tolerance: Annotated[
        float, typer.Option("--tolerance", min=0, max=LARGEST, help="Change that does not count: 0.15 is 15 %.")
    ] = TOLERANCE,
    write: Annotated[
        Path | None, typer.Option("--write-baseline", help="Keep the times of the one engine given here.")
    ] = None,
    junit: Annotated[Path | None, typer.Option("--junit", help="JUnit XML of the comparison.")] = None,
    markdown_file: Annotated[Path | None, typer.Option("--markdown", help="The comparison as Markdown.")] = None,
    chrome_trace: Annotated[
        Path | None, typer.Option("--chrome-trace", help="Trace for Perfetto and chrome://tracing.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option("--model", help="ONNX model it was built from; names are checked.")
    ] = None,
    top: Annotated[int, typer.Option("--top", min=1, help="Layers shown in the table; JSON has all.")] = 15,
    json: JsonOption = False,
) -> int:
    """Show where an engine's time goes, by layer and ONNX node. Exit 1 when something is slower than the baseline."""
    if baseline is None and (junit is not None or markdown_file is not None):
        raise UsageError("--junit and --markdown tell about a comparison; give --baseline too")
    check_targets(
        (
            ("--junit", junit, b"<?xml"),
            ("--markdown", markdown_file, b"## "),
            ("--chrome-trace", chrome_trace, b'{"traceEvents"'),
            ("--write-baseline", write, b'{\n "baseline_version"'),
        ),
        # a new baseline may take the place of the one that was compared with
        (*files, model, baseline if baseline != write else None),
    )
    engines = open_engines(files, model=model)
    if write is not None and len(engines) > 1:
        raise UsageError(f"--write-baseline keeps one engine, {len(engines)} were given; give one")
    checks = _checks(engines, baseline, tolerance)
    slower = any(check is not None and check.only("slower") for check in checks)
    if slower and write is not None and write == baseline:
        print_note(f"{write} is kept: what is slower would be the measure from now on; write another file to accept it")
        write = None
    written = _write(engines, checks, write, junit, markdown_file, chrome_trace)
    if json:
        first, *others = [_json(engine, check) for engine, check in zip(engines, checks, strict=True)]
        print_json({**first, "more": [*others], "written": [str(path) for path in written]})
    else:
        for engine, check in zip(engines, checks, strict=True):
            _print(engine, check, top)
        for path in written:
            print_line(f"wrote {path}")
    return FINDING if slower else FINE


def _checks(engines: Sequence[Engine], baseline: Path | None, tolerance: float) -> list[BaselineCheck | None]:
    if baseline is None:
        return [None] * len(engines)
    known = read_baseline(baseline)
    return [compare_baseline(engine, known, tolerance) for engine in engines]


def _write(
    engines: Sequence[Engine],
    checks: Sequence[BaselineCheck | None],
    baseline: Path | None,
    junit: Path | None,
    markdown_file: Path | None,
    chrome_trace: Path | None,
) -> list[Path]:
    done = [check for check in checks if check is not None]
    found = []
    if junit is not None:
        found.append(write_text(junit_xml(done), junit))
    if markdown_file is not None:
        found.append(write_text(markdown(done), markdown_file))
    if chrome_trace is not None:
        found.append(write_chrome_trace(engines, chrome_trace))
    if baseline is not None:
        found.append(write_baseline(baseline_of(engines[0]), baseline))
    return found


def _json(engine: Engine, check: BaselineCheck | None) -> dict[str, JsonValue]:
    medians = [time.median_ms for time in engine.times]
    known = [ms for ms in medians if ms is not None]
    nodes = node_times(engine)
    return {
        "label": engine.label,
        "kind": engine.kind,
        "dialect": engine.dialect,
        "rows": _layer_rows(engine),
        "layer_sum_ms": engine.layer_sum_ms,
        "layer_sum_median_ms": sum(known) if known and len(known) == len(medians) else None,
        "latency_ms": engine.median_latency_ms,
        "latency": account_latency(engine).as_json(),
        "nodes": [
            {
                "node": row.label,
                "is_node": row.is_node,
                "scope": row.scope,
                "ms": row.ms,
                "share": row.time_fs / nodes.total_fs if nodes.total_fs else None,
                "measured": row.exact,
            }
            for row in nodes.rows
        ],
        "nodes_statistic": nodes.statistic,
        "regressions": [row.as_json() for row in check.only("slower")] if check else [],
        "improvements": [row.as_json() for row in check.only("faster")] if check else [],
        "baseline": _check_json(check) if check else None,
        "notes": [*engine.notes],
    }


def _layer_rows(engine: Engine) -> list[JsonValue]:
    rows: list[JsonValue] = []
    for piece in pieces_of(engine):
        if piece.time is None:
            continue
        layer = piece.layer
        rows.append(
            {
                "layer": piece.name,
                "index": piece.time.index if layer is not None else None,
                "type": (layer.type or None) if layer is not None else None,
                "precision": layer.precision if layer is not None else None,
                "average_ms": piece.time.average_ms,
                "median_ms": piece.time.median_ms,
                "share": engine.share(piece.time.average_ms),
                "nodes": [*piece.nodes],
                "runs": len(piece.time.runs_ms) or None,
            }
        )
    return rows


def _check_json(check: BaselineCheck) -> dict[str, JsonValue]:
    return {
        "label": check.baseline.label,
        "created": check.baseline.created,
        "tolerance": check.tolerance,
        "statistic": check.statistic,
        "rows": [row.as_json() for row in check.rows],
        "notes": [*check.notes],
    }


def _print(engine: Engine, check: BaselineCheck | None, top: int) -> None:
    pieces = sorted(
        (piece for piece in pieces_of(engine) if piece.time is not None),
        key=lambda piece: -(piece.time.average_ms if piece.time else 0.0),
    )
    print_line(f"{engine.label}: {len(pieces)} timed layers of {len(engine.layers)}")
    rows = [
        (
            shorten(piece.name, _NAME_WIDTH),
            piece.time.average_ms,
            piece.time.median_ms,
            _percent(engine.share(piece.time.average_ms)),
            shorten(piece.layer.precision.replace("(emulated)", "emul."), _TYPE_WIDTH)
            if piece.layer is not None and piece.layer.precision
            else None,
        )
        for piece in pieces[:top]
        if piece.time is not None
    ]
    if rows:
        print_table(("layer", "avg ms", "median", "share", "type"), rows, numbers=("avg ms", "median", "share"))
    if len(pieces) > top:
        print_line(f"and {len(pieces) - top} more (--top {len(pieces)}, or --json)")
    for line in account_latency(engine).words:
        print_line(line)
    for note in (*engine.notes, *(check.notes if check else ())):
        print_line(f"note: {note}")
    if check is not None:
        _print_check(check)


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{100 * share:.1f} %"


def _print_check(check: BaselineCheck) -> None:
    for verdict in ("slower", "faster", "new", "gone"):
        for row in check.only(verdict):
            print_line(f"{verdict}: {shorten(row.label, 200)}: {in_words(row)}")
    slower, faster = len(check.only("slower")), len(check.only("faster"))
    print_line(
        f"against {shorten(check.baseline.label, 200)}, tolerance {check.tolerance:.0%}: "
        + (f"{slower} slower, {faster} faster" if slower or faster else "no change beyond tolerance and noise")
    )
