"""`trt-lab report`: one self-contained HTML file of one or more records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trt_lab.cli.arguments import JsonOption
from trt_lab.cli.output import print_json, print_line
from trt_lab.cli.targets import check_targets
from trt_lab.record import Record
from trt_lab.views.report import records_report, write_report

NAME = "report"


def run(
    records: Annotated[
        list[Path], typer.Argument(help="Records; a reference among them is compared against.", metavar="RECORD...")
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="HTML file to write.")],
    json: JsonOption = False,
) -> int:
    """Write one self-contained HTML file: verdict, tensors, figures, timeline, layers, log."""
    check_targets([("-o", out, b"")], records)
    path = write_report(out, records_report([Record.open(record) for record in records]))
    if json:
        print_json({"report": str(path), "records": [str(record) for record in records]})
    else:
        print_line(f"wrote {path}")
    return 0
