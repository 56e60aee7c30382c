"""`trt-lab demo`: the main job in the terminal, on a built-in model that fails in FP16."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trt_lab.cli.arguments import JsonOption
from trt_lab.cli.locate import print_finding, write_finding
from trt_lab.cli.output import print_json, print_line, show_progress
from trt_lab.session import Session

NAME = "demo"
MODEL = "zoo:l2norm_overflow"


def run(
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder for all that it writes.")] = Path("trt-lab-demo"),
    json: JsonOption = False,
) -> int:
    """Golden, FP16 engine, cause found, repaired, report.html: all on a built-in model, no GPU, no browser."""
    session = Session(MODEL, records=out / "records")
    session.use(precision="fp16")
    say = _nothing if json else print_line
    with show_progress(quiet=json) as tell:
        session.golden(tell)
        say(f"golden: {session.samples.count} samples on ONNX Runtime in FP32, optimiser off")
        session.build(tell)
        say(f"FP16 engine (emulated): {session.compare().headline}")
        finding = session.locate(tell)
    files = write_finding(session, finding, out)
    if json:
        print_json(finding.as_json() | files)
    else:
        print_finding(finding, files)
    return 0


def _nothing(text: str) -> None:
    """Nothing but JSON on stdout."""
