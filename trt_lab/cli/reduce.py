"""`trt-lab reduce`: the smallest part of a model that still fails."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trt_lab.cli.arguments import (
    AtolOption,
    CheckOption,
    CheckSecondsOption,
    JsonOption,
    ModelArgument,
    RtolOption,
)
from trt_lab.cli.opening import open_given
from trt_lab.cli.output import FINDING, FINE, print_json, print_line, show_progress
from trt_lab.cli.sampling import SampleOptions, spread
from trt_lab.cli.targets import check_targets
from trt_lab.diagnose.check import COMMAND_SECONDS, Check
from trt_lab.diagnose.reduce import Reduced
from trt_lab.types import JsonValue

NAME = "reduce"


@spread
def run(
    model: ModelArgument,
    out: Annotated[Path, typer.Option("-o", "--out", help="ONNX file; golden inputs and outputs go beside it.")],
    precision: Annotated[str, typer.Option("--precision", help="fp16 or bf16.")] = "fp16",
    check: CheckOption = None,
    check_seconds: CheckSecondsOption = COMMAND_SECONDS,
    *,
    given: SampleOptions,
    atol: AtolOption = None,
    rtol: RtolOption = None,
    json: JsonOption = False,
) -> int:
    """Write the smallest part of the model that still fails, fed golden values. Exit 1 when there is one."""
    check_targets([("-o", out, b"")], [model, given.inputs])
    check_targets([("-o", out.with_suffix(f".{part}.npz"), b"") for part in ("inputs", "golden")], [given.inputs])
    session = open_given(model, given)
    session.use(precision=precision, atol=atol, rtol=rtol)
    wanted = Check.of(check, seconds=check_seconds) if check is not None else None
    with show_progress(quiet=json) as tell:
        found = session.reduce(out, tell, check=wanted)
    if json:
        print_json(_as_json(found))
    else:
        _print(found)
    return FINE if found.model is None else FINDING


def _as_json(found: Reduced) -> dict[str, JsonValue]:
    return {
        "nodes_before": found.nodes_before,
        "nodes_after": found.nodes_after,
        "source": found.source.node if found.source is not None else None,
        "why": found.source.why if found.source is not None else None,
        "model": found.model,
        "inputs": found.inputs,
        "golden": found.golden,
        "nodes": list(found.nodes),
        "sample": found.sample if found.model is not None else None,
        "tensor": found.tensor,
        "max_abs": found.stats.max_abs if found.stats is not None else None,
        "notes": list(found.notes),
    }


def _print(found: Reduced) -> None:
    if found.model is None or found.source is None:
        print_line("; ".join(found.notes))
        return
    print_line(f"{found.nodes_before} nodes → {found.nodes_after}: {', '.join(found.nodes)}")
    print_line(found.source.why)
    print_line(f"inputs are golden values of sample {found.sample}; the part was run anew and still fails")
    for note in found.notes:
        print_line(f"note: {note}")
    for path in (found.model, found.inputs, found.golden):
        print_line(f"wrote {path}")
