"""`trt-lab switches`: which switch of a build makes the error go."""

from __future__ import annotations

from typing import Annotated

import typer

from trt_lab.cli.arguments import AtolOption, BackendOption, JsonOption, ModelArgument, PrecisionOption, RtolOption
from trt_lab.cli.opening import open_given
from trt_lab.cli.output import FINDING, FINE, print_json, print_line, print_table, show_progress
from trt_lab.cli.sampling import SampleOptions, spread
from trt_lab.diagnose.switches import SWITCH_HEADS, Switches
from trt_lab.errors import UsageError

NAME = "switches"


@spread
def run(
    model: ModelArgument,
    backend: BackendOption = "onnxruntime",
    precision: PrecisionOption = "fp32",
    fusion: Annotated[
        list[str] | None,
        typer.Option("--fusion", help="A,B: neighbouring nodes whose fusion is to be cut; may be repeated."),
    ] = None,
    tf32: Annotated[bool, typer.Option("--tf32", help="The engine in question has TF32 on.")] = False,
    sparse_weights: Annotated[
        bool, typer.Option("--sparse-weights", help="The engine in question may take kernels for sparse weights.")
    ] = False,
    builder_level: Annotated[
        int | None, typer.Option("--builder-level", min=0, max=5, help="Builder level of the engine in question.")
    ] = None,
    weakly_typed: Annotated[bool, typer.Option("--weakly-typed", help="Let TensorRT 10 choose the types.")] = False,
    *,
    given: SampleOptions,
    atol: AtolOption = None,
    rtol: RtolOption = None,
    json: JsonOption = False,
) -> int:
    """Build the engine as it is, then with one switch turned at a time. Exit 1 when the engine as it is is wrong."""
    pairs = [_pair(text) for text in fusion or ()]
    session = open_given(model, given)
    session.use(
        backend=backend,
        precision=precision,
        atol=atol,
        rtol=rtol,
        tf32=tf32 or None,
        sparse_weights=sparse_weights or None,
        builder_level=builder_level,
        strongly_typed=not weakly_typed,
    )
    with show_progress(quiet=json) as tell:
        found = session.switches(pairs, tell)
    if json:
        print_json(found.as_json())
    else:
        _print(found)
    return FINE if found.base.passes else FINDING


def _pair(text: str) -> tuple[str, str]:
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or not all(parts):
        raise UsageError(f"--fusion {text!r}: give two nodes, such as /conv,/relu (names with a comma: lab.switches())")
    return parts[0], parts[1]


def _print(found: Switches) -> None:
    print_line(found.headline)
    rows = [
        (row.switch.name, row.switch.how, "not built" if row.passes is None else "right" if row.passes else "wrong",
         row.error, row.layers, row.changed, row.latency_ms, row.note)
        for row in (found.base, *found.tried)
    ]  # fmt: skip
    print_table(SWITCH_HEADS, rows, numbers=SWITCH_HEADS[3:7])
