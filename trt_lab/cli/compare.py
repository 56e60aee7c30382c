"""`trt-lab compare`: any two of record, golden, .npz, .safetensors, Polygraphy JSON; and the two builds behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trt_lab.cli.arguments import CheckOption, CheckSecondsOption, JsonOption
from trt_lab.cli.output import FINDING, FINE, print_json, print_line, print_table
from trt_lab.compare.in_graph import compare_in_graph
from trt_lab.compare.opened import OpenedTensor, open_tensor
from trt_lab.compare.selfcheck import largest
from trt_lab.compare.sides import (
    Comparison,
    RecordSide,
    Side,
    compare_sides,
    comparison_json,
    matched_samples,
    open_side,
)
from trt_lab.compare.tolerance import PRESETS, Tolerances, parse_tolerances
from trt_lab.compare.words import format_figure, format_snr, summarize
from trt_lab.diagnose.check import COMMAND_SECONDS, Check
from trt_lab.errors import TrtLabError, UsageError
from trt_lab.graph.view import GraphView
from trt_lab.record.schema import to_json
from trt_lab.types import JsonValue, Tolerance

if TYPE_CHECKING:
    from trt_lab.cli.builds import Builds

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
    check: CheckOption = None,
    check_seconds: CheckSecondsOption = COMMAND_SECONDS,
    tensor: Annotated[
        str | None, typer.Option("--tensor", help="Also open this one: quantiles, ULP distance, ties, errors by size.")
    ] = None,
    sample: Annotated[
        int | None, typer.Option("--sample", min=0, help="Sample of --tensor; default the worst.")
    ] = None,
    reference: Annotated[
        Path | None, typer.Option("--reference", help="A third side: A and B are two builds, each is held against it.")
    ] = None,
    layers: Annotated[
        list[Path] | None,
        typer.Option("--layers", help="Layer JSON of A, then of B, where they are no records: fusions and tactics."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Leave out RMSE, cosine and SNR: two to three times quicker.")
    ] = False,
    json: JsonOption = False,
) -> int:
    """Compare two sides, tensor by tensor. Exit 1 when they differ."""
    tolerances = parse_tolerances(preset, atol or (), rtol or ())
    wanted = Check.of(check, seconds=check_seconds) if check is not None else None
    _refuse(tensor, sample, layers)
    left, right = open_side(a), open_side(b)
    third = open_side(reference) if reference is not None else None
    view = _view(left, right, *([third] if third is not None else []))
    comparison = _compare(view, left, right, tolerances, quick)
    engines = layers or ([a, b] if _is_engine(left) and _is_engine(right) else None)
    found = _Found(
        comparison,
        tolerances,
        open_tensor(left, right, tensor, sample=sample, tolerance=tolerances, view=view) if tensor else None,
        _builds(engines, left, right, comparison, medians=not quick) if engines is not None else None,
        third,
        [_compare(view, side, third, tolerances, quick) for side in (left, right)] if third is not None else [],
        wanted,
        wanted.passes(*matched_samples(left, right)) if wanted is not None else None,
    )
    if json:
        print_json(_json(found))
    else:
        _print(found)
    differs = any(each.verdict == "differs" for each in (comparison, *found.against))  # random tensors are no failure
    return FINDING if (differs if found.passes is None else not found.passes) else FINE


def _refuse(tensor: str | None, sample: int | None, layers: list[Path] | None) -> None:
    """Raises UsageError for options that do not go together."""
    if sample is not None and tensor is None:
        raise UsageError("--sample says which sample of --tensor is opened; name the tensor too")
    if layers is not None and len(layers) != 2:
        raise UsageError(f"--layers: {len(layers)} given; give it twice, for A and then for B")


@dataclass(frozen=True)
class _Found:
    """All that was asked for; what was not is None."""

    comparison: Comparison
    tolerances: Tolerances
    opened: OpenedTensor | None
    builds: Builds | None
    third: Side | None
    against: Sequence[Comparison]
    wanted: Check | None
    passes: bool | None


def _builds(layers: Sequence[Path], a: Side, b: Side, comparison: Comparison, *, medians: bool) -> Builds:
    from trt_lab.cli.builds import pair_builds  # it loads the profiling

    return pair_builds(layers, a, b, comparison, medians=medians)


def _view(*sides: Side) -> GraphView | None:
    """The graph, as far as a side is a record that holds its model."""
    for side in sides:
        if isinstance(side, RecordSide):
            with suppress(TrtLabError):
                return GraphView.of(side.record.model())
    return None


def _is_engine(side: Side) -> bool:
    return isinstance(side, RecordSide) and side.record.meta.role == "engine" and bool(side.record.layers)


def _compare(view: GraphView | None, a: Side, b: Side, tolerances: Tolerances, quick: bool) -> Comparison:
    if view is None:
        return compare_sides(a, b, tolerance=tolerances, sums=not quick)
    return compare_in_graph(view, a, b, tolerance=tolerances, sums=not quick)


def _tolerance_json(tolerances: Tolerances) -> dict[str, JsonValue]:
    def pairs(limits: Mapping[str, Tolerance]) -> dict[str, JsonValue]:
        return {name: {"atol": limit.atol, "rtol": limit.rtol} for name, limit in limits.items()}

    limit = tolerances.default
    return {
        "atol": limit.atol,
        "rtol": limit.rtol,
        "by_dtype": pairs(tolerances.by_dtype),
        "by_tensor": pairs(tolerances.by_tensor),
        "source": tolerances.source,
    }


def _json(found: _Found) -> dict[str, JsonValue]:
    data = comparison_json(found.comparison)
    data["tolerance"] = _tolerance_json(found.tolerances)
    data["check"] = None if found.wanted is None else {"check": str(found.wanted), "passes": found.passes}
    data["opened"] = found.opened.as_json() if found.opened is not None else None
    data["builds"] = found.builds.as_json() if found.builds is not None else None
    data["against_reference"] = _against_json(found.third, found.against) if found.third is not None else None
    return data


def _print(found: _Found) -> None:
    _print_comparison(found.comparison, found.tolerances)
    for line in found.opened.lines if found.opened is not None else ():
        print_line(line)
    if found.builds is not None:
        found.builds.print()
    if found.third is not None:
        _print_against(found.third, found.against)
    if found.wanted is not None:
        print_line(f"check {found.wanted}: {'passes' if found.passes else 'fails'}")


def _print_comparison(comparison: Comparison, tolerances: Tolerances) -> None:
    several = comparison.samples > 1
    rows = [
        (
            s.name,
            s.verdict,
            *([s.sample] if several else []),
            s.max_abs,
            s.max_rel,
            s.cosine,
            format_snr(s),
            summarize(s),
        )
        for s in comparison.tensors
    ]
    columns = (
        "tensor",
        "verdict",
        *(["sample"] if several else []),
        "max abs",
        "max rel",
        "cosine",
        "SNR dB",
        "why",
    )
    print_table(columns, rows, numbers=("sample", "max abs", "max rel", "cosine", "SNR dB"))
    for note in comparison.notes:
        print_line(f"note: {note}")
    first = f", first at {comparison.first_divergent}" if comparison.first_divergent else ""
    limit = tolerances.default
    print_line(f"{comparison.verdict}{first} (atol {limit.atol:g}, rtol {limit.rtol:g}; {tolerances.source})")


def _against_json(reference: Side, comparisons: Sequence[Comparison]) -> dict[str, JsonValue]:
    """Each side against the reference, for `--json`."""
    a, b = (
        {"verdict": found.verdict, "first_divergent": found.first_divergent, "max_abs": largest(found),
         "tensors": to_json(found.tensors), "notes": list(found.notes)}
        for found in comparisons
    )  # fmt: skip
    return {"label": reference.label, "a": a, "b": b}


def _print_against(reference: Side, comparisons: Sequence[Comparison]) -> None:
    """Each side against the reference, a line each."""
    for found in comparisons:
        first = f", first at {found.first_divergent}" if found.first_divergent else ""
        figure = format_figure(largest(found))
        print_line(f"{found.label_a} against {reference.label}: {found.verdict}{first}, max abs {figure}")
