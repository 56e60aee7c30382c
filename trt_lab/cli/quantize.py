"""`trt-lab quantize`: what each Q/DQ of a model costs; or an INT8 model made of an FP32 one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import typer

from trt_lab.cli.arguments import CheckOption, CheckSecondsOption, JsonOption, ModelArgument
from trt_lab.cli.opening import open_given
from trt_lab.cli.output import FINDING, FINE, print_json, print_line, print_table, show_progress
from trt_lab.cli.sampling import SampleOptions, spread
from trt_lab.cli.targets import check_targets
from trt_lab.diagnose.check import COMMAND_SECONDS, Check
from trt_lab.errors import UsageError
from trt_lab.quantizing import Quantization, Quantized, made_json, refuse_unchecked
from trt_lab.session import Session
from trt_lab.types import JsonValue, OnProgress

NAME = "quantize"

_ROWS = 20


@spread
def run(
    model: ModelArgument,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="ONNX file to make: MODEL is FP32. Without it MODEL has Q/DQ.")
    ] = None,
    method: Annotated[str, typer.Option("--method", help="minmax, entropy or percentile.")] = "entropy",
    tool: Annotated[str, typer.Option("--tool", help="ort (ONNX Runtime), or modelopt where it is installed.")] = "ort",
    number: Annotated[str, typer.Option("--type", help="int8, or fp8 (ModelOpt).")] = "int8",
    per_tensor: Annotated[bool, typer.Option("--per-tensor", help="One scale for each weight.")] = False,
    operators: Annotated[
        list[str] | None, typer.Option("--operator", help="Type of nodes to quantise; may be repeated.")
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option("--exclude", help="Node that stays float; may be repeated.")
    ] = None,
    read_cache: Annotated[
        Path | None, typer.Option("--read-cache", help="Calibration cache of TensorRT: its scales, no samples.")
    ] = None,
    write_cache: Annotated[
        Path | None, typer.Option("--write-cache", help="Calibration cache of TensorRT to write.")
    ] = None,
    float_model: Annotated[
        Path | None,
        typer.Option("--float-model", help="FP32 model that MODEL was made of, for the errors of its weights."),
    ] = None,
    layers: Annotated[bool, typer.Option("--layers/--no-layers", help="Try the layers one by one.")] = True,
    check: CheckOption = None,
    check_seconds: CheckSecondsOption = COMMAND_SECONDS,
    fixed: Annotated[
        Path | None, typer.Option("--fixed", help="ONNX file: the fewest layers in float that let --check pass.")
    ] = None,
    *,
    given: SampleOptions,
    json: JsonOption = False,
) -> int:
    """Examine the Q/DQ of a model; with -o make an INT8 model first. Exit 1: a bad scale, or the check fails."""
    check_targets(
        (("-o", out, b""), ("--write-cache", write_cache, b"TRT-"), ("--fixed", fixed, b"")),
        (model, read_cache, float_model, given.inputs),
    )
    making = {
        "--method": method != "entropy", "--tool": tool != "ort", "--type": number != "int8", "--per-tensor": per_tensor,
        "--operator": operators, "--exclude": exclude, "--read-cache": read_cache, "--write-cache": write_cache,
    }  # fmt: skip
    _check_use({"--float-model": float_model} if out is not None else making, made=out is not None)
    wanted = Check.of(check, seconds=check_seconds) if check is not None else None
    refuse_unchecked(fixed, wanted)
    session = open_given(model, given)
    with show_progress(quiet=json) as tell:
        made = None
        if out is not None:
            made = session.quantize(
                out, tell, method=method, tool=tool, type=_type(number), per_channel=not per_tensor, exclude=exclude or [],
                read_cache=read_cache, write_cache=write_cache, **({"operators": operators} if operators else {}),
            )  # fmt: skip
        found = _examine(session, out, tell, float_model, layers, wanted, fixed)
    if json:
        print_json({"made": made_json(made) if made is not None else None, **found.as_json()})
    else:
        _print(made, found)
    return FINE if found.is_fine else FINDING


def _check_use(elsewhere: Mapping[str, object], *, made: bool) -> None:
    """Refuses options that would have no effect: those that make a model without -o, those of a given one with it."""
    for option, value in elsewhere.items():
        if value:
            raise UsageError(
                f"{option} belongs to a MODEL that has Q/DQ; leave it out, or -o"
                if made
                else f"{option} says how a model is made; give -o OUT.onnx too"
            )


def _type(text: str) -> Literal["int8", "fp8"]:
    for known in ("int8", "fp8"):
        if text.lower() == known:
            return known
    raise UsageError(f"--type {text!r} is not known; take int8 or fp8")


def _examine(
    session: Session,
    out: Path | None,
    tell: OnProgress,
    float_model: Path | None,
    layers: bool,
    check: Check | None,
    fixed: Path | None,
) -> Quantization:
    """Examines the model, or the one just made, on the same samples."""
    if out is None:
        return session.quantization(tell, float_model=float_model, layers=layers, check=check, fixed=fixed)
    made = Session(out)
    made.feed([dict(sample) for sample in session.samples.feeds])
    return made.quantization(tell, float_model=session.model, layers=layers, check=check, fixed=fixed)


def _print(made: Quantized | None, found: Quantization) -> None:
    if made is not None:
        print_line(f"{made.pairs} Q/DQ pairs before {made.layers} layers, by {made.tool} from {made.samples} samples")
        for note in made.notes:
            print_line(f"note: {note}")
        for path in (made.model, made.cache):
            if path is not None:
                print_line(f"wrote {path}")
        print_line()
    print_line(found.headline)
    for finding in found.findings:
        print_line(f"{finding.severity}: {finding.message}; {finding.fix}")
    pairs: list[list[JsonValue]] = found.frame.head(_ROWS)[
        ["tensor", "kind", "dtype", "saturated", "range_used", "local_snr_db", "before_snr_db", "after_snr_db"]
    ].astype(object).where(lambda frame: frame.notna(), None).to_numpy().tolist()  # fmt: skip
    columns = ("pair", "kind", "type", "cut", "used", "alone dB", "in dB", "out dB")
    print_table(columns, pairs, numbers=columns[3:])  # pyright: ignore[reportArgumentType]  # texts and numbers
    if found.layers:
        rows = [(s.node, s.op_type, s.only.snr_db, s.without.snr_db, s.gain_db) for s in found.layers[:_ROWS]]
        print_line()
        print_table(
            ("layer", "operator", "only it dB", "all but it dB", "gain dB"),
            rows,
            numbers=("only it dB", "all but it dB", "gain dB"),
        )
    for node in found.keep_float:
        print_line(f"  keep in float: {node}")
    for note in found.notes:
        print_line(f"note: {note}")
    if found.found.fixed is not None:
        print_line(f"wrote {found.found.fixed}")
