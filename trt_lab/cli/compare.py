"""`trt-lab compare`: any two of record, golden, .npz, .safetensors, Polygraphy JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trt_lab.cli.arguments import AtolOption, JsonOption, RtolOption
from trt_lab.cli.output import FINDING, FINE, print_json, print_line, print_table
from trt_lab.compare.sides import compare_sides, comparison_json, open_side
from trt_lab.compare.words import summarize
from trt_lab.types import Tolerance

NAME = "compare"


def run(
    a: Annotated[
        Path, typer.Argument(help="The side in question: record, golden, .npz, .safetensors, JSON.", metavar="A")
    ],
    b: Annotated[Path, typer.Argument(help="The reference.", metavar="B")],
    atol: AtolOption = None,
    rtol: RtolOption = None,
    json: JsonOption = False,
) -> int:
    """Compare two sides, tensor by tensor. Exit 1 when they differ."""
    default = Tolerance()
    tolerance = Tolerance(default.atol if atol is None else atol, default.rtol if rtol is None else rtol)
    comparison = compare_sides(open_side(a), open_side(b), tolerance=tolerance)
    if json:
        print_json(comparison_json(comparison))
    else:
        rows = [(s.name, s.verdict, s.max_abs, s.max_rel, s.cosine, summarize(s)) for s in comparison.tensors]
        print_table(
            ("tensor", "verdict", "max abs", "max rel", "cosine", "why"), rows, numbers=("max abs", "max rel", "cosine")
        )
        for note in comparison.notes:
            print_line(f"note: {note}")
        first = f", first at {comparison.first_divergent}" if comparison.first_divergent else ""
        print_line(f"{comparison.verdict}{first} (atol {tolerance.atol:g}, rtol {tolerance.rtol:g})")
    return FINE if comparison.verdict == "same" else FINDING
