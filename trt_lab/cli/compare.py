"""`trt-lab compare`: any two of record, golden, .npz, .safetensors, Polygraphy JSON."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from trt_lab.cli.arguments import JsonOption
from trt_lab.cli.output import FINDING, FINE, print_json, print_line, print_table
from trt_lab.compare.selfcheck import random_tensors
from trt_lab.compare.sides import Comparison, RecordSide, Side, compare_sides, comparison_json, open_side, side_samples
from trt_lab.compare.tolerance import PRESETS, Tolerances, parse_tolerances
from trt_lab.compare.words import summarize
from trt_lab.diagnose.check import Check
from trt_lab.errors import TrtLabError
from trt_lab.graph.view import GraphView

NAME = "compare"


def run(
    a: Annotated[
        Path, typer.Argument(help="The side in question: record, golden, .npz, .safetensors, JSON.", metavar="A")
    ],
    b: Annotated[Path, typer.Argument(help="The reference.", metavar="B")],
    atol: Annotated[
        list[str] | None,
        typer.Option("--atol", help="Absolute tolerance: 1e-3, float16:1e-2, or TENSOR:1e-4; may be repeated."),
    ] = None,
    rtol: Annotated[
        list[str] | None, typer.Option("--rtol", help="Relative tolerance, in the same forms; may be repeated.")
    ] = None,
    preset: Annotated[
        str | None, typer.Option("--preset", help=f"Tolerances to start from: {', '.join(PRESETS)}.")
    ] = None,
    check: Annotated[
        str | None,
        typer.Option(
            "--check",
            help="Decides instead of the tolerance: a figure such as 'cosine>=0.999', or a command, run without a shell, "
            "that exits 0 when the outputs are good ({outputs} and {golden} are folders of .npz).",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Leave out RMSE, cosine and SNR: two to three times quicker.")
    ] = False,
    json: JsonOption = False,
) -> int:
    """Compare two sides, tensor by tensor. Exit 1 when they differ."""
    tolerances = parse_tolerances(preset, atol or (), rtol or ())
    left, right = open_side(a), open_side(b)
    comparison = compare_sides(left, right, tolerance=tolerances, sums=not quick, not_comparable=_random(left, right))
    passes: bool | None = None
    if check is not None:
        passes = Check.of(check).passes(side_samples(left), side_samples(right))
    if json:
        data = comparison_json(comparison)
        data["tolerance"] = {
            "atol": tolerances.default.atol,
            "rtol": tolerances.default.rtol,
            "source": tolerances.source,
        }
        data["check"] = None if check is None else {"check": check, "passes": passes}
        print_json(data)
    else:
        _print(comparison, tolerances, check, passes)
    good = comparison.verdict == "same" if passes is None else passes
    return FINE if good else FINDING


def _random(*sides: Side) -> dict[str, str]:
    """Tensors that every run makes anew, as far as a side is a record that holds its model."""
    for side in sides:
        if isinstance(side, RecordSide):
            with suppress(TrtLabError):
                return random_tensors(GraphView.of(side.record.model()))
    return {}


def _print(comparison: Comparison, tolerances: Tolerances, check: str | None, passes: bool | None) -> None:
    rows = [(s.name, s.verdict, s.max_abs, s.max_rel, s.cosine, summarize(s)) for s in comparison.tensors]
    columns = ("tensor", "verdict", "max abs", "max rel", "cosine", "why")
    print_table(columns, rows, numbers=("max abs", "max rel", "cosine"))
    for note in comparison.notes:
        print_line(f"note: {note}")
    first = f", first at {comparison.first_divergent}" if comparison.first_divergent else ""
    limit = tolerances.default
    print_line(f"{comparison.verdict}{first} (atol {limit.atol:g}, rtol {limit.rtol:g}; {tolerances.source})")
    if check is not None:
        print_line(f"check {check}: {'passes' if passes else 'fails'}")
