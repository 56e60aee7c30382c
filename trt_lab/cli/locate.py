"""`trt-lab locate`: which nodes must stay in FP32, and the repaired model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trt_lab.cli.arguments import (
    AtolOption,
    BackendOption,
    CheckOption,
    CheckSecondsOption,
    JsonOption,
    ModelArgument,
    RtolOption,
)
from trt_lab.cli.opening import open_given
from trt_lab.cli.output import FINDING, FINE, print_json, print_line, print_table, show_progress
from trt_lab.cli.sampling import SampleOptions, spread
from trt_lab.diagnose.check import COMMAND_SECONDS, Check
from trt_lab.diagnose.recipes import recipes
from trt_lab.options import parse_precision
from trt_lab.results import TABLE_HEADS, Finding
from trt_lab.session import Session
from trt_lab.types import JsonValue
from trt_lab.views.report import report_data, write_report

NAME = "locate"


@spread
def run(
    model: ModelArgument,
    out: Annotated[
        Path,
        typer.Option("-o", "--out", "--artifacts", help="Folder for the repaired model, report.html and every step."),
    ],
    precision: Annotated[str, typer.Option("--precision", help="fp16 or bf16.")] = "fp16",
    backend: BackendOption = "onnxruntime",
    check: CheckOption = None,
    check_seconds: CheckSecondsOption = COMMAND_SECONDS,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the steps in the folder.")] = False,
    fp32: Annotated[
        bool, typer.Option("--fp32", help="Also build the engine in FP32, for the table of metrics and times.")
    ] = False,
    weakly_typed: Annotated[bool, typer.Option("--weakly-typed", help="Let TensorRT 10 choose the types.")] = False,
    timing_cache: Annotated[Path | None, typer.Option("--timing-cache", help="Timing cache (TensorRT).")] = None,
    *,
    given: SampleOptions,
    atol: AtolOption = None,
    rtol: RtolOption = None,
    json: JsonOption = False,
) -> int:
    """Find the nodes that must stay in FP32 and write the repaired model. Exit 1 when there are any."""
    session = open_given(model, given)
    session.use(
        backend=backend, precision=precision, atol=atol, rtol=rtol, strongly_typed=not weakly_typed,
        timing_cache=str(timing_cache) if timing_cache is not None else None,
    )  # fmt: skip
    wanted = Check.of(check, seconds=check_seconds) if check is not None else None
    with show_progress(quiet=json) as tell:
        finding = session.locate(tell, check=wanted, artifacts=out, resume=resume, fp32=fp32)
    files = write_finding(session, finding, out)
    if json:
        print_json(finding.as_json() | files)
    else:
        print_finding(finding, files)
    return FINE if finding.verdict == "same" else FINDING


def write_finding(session: Session, finding: Finding, out: Path) -> dict[str, JsonValue]:
    """Writes the repaired model and recipes (where something must be kept) and the report; returns paths by JSON key."""
    out.mkdir(parents=True, exist_ok=True)
    named = out / f"{session.model.name}.{finding.precision}.onnx"
    fixed = session.export_repaired(named) if finding.keep_fp32 else None
    source = str(session.model.path or f"{session.model.name}.onnx")
    told = recipes(source, parse_precision(finding.precision), finding.keep_fp32)
    listed = out / "recipes.txt" if told else None
    if listed is not None:
        listed.write_text("".join(f"# {tool}\n{line}\n\n" for tool, line in told.items()), encoding="utf-8")
    report = write_report(out / "report.html", report_data(session, finding))
    return {
        "fixed_model": str(fixed) if fixed is not None else None,
        "report": str(report),
        "recipes": str(listed) if listed else None,
    }


def print_finding(finding: Finding, files: dict[str, JsonValue]) -> None:
    """The finding in words, for a terminal."""
    print_line(f"{finding.verdict}: {finding.headline}")
    print_line(f"before: {finding.before.headline}")
    if finding.after is not None:
        print_line(f"after:  {finding.after.headline}")
    for node in finding.keep_fp32:
        print_line(f"  keep FP32: {node}")
    if finding.emulated:
        print_line(
            f"{finding.precision} is emulated on the CPU: a prediction of what a strongly typed engine gives. Its times "
            "measure nothing and are left out."
        )
    if finding.fp32 is not None or not finding.emulated:
        print_table(TABLE_HEADS, finding.shown_table, numbers=TABLE_HEADS[2:])
    costs = ((finding.cost_ms, "a run"), (finding.layer_cost_ms, "by the times of the layers"))
    for cost, what in costs:
        if cost is not None:
            print_line(f"keeping them costs {cost:+.3f} ms {what}")
    for note in finding.notes:
        print_line(f"note: {note}")
    for path in files.values():
        if path is not None:
            print_line(f"wrote {path}")
