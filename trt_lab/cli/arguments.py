"""Options that mean the same in every command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ModelArgument = Annotated[str, typer.Argument(help="ONNX file, or zoo:NAME for a built-in model.", metavar="MODEL")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, logs on stderr.")]
InputsOption = Annotated[
    Path | None,
    typer.Option("--inputs", help="Samples: .npz, .safetensors, Polygraphy JSON, or a folder of samples."),
]
SamplesOption = Annotated[int, typer.Option("--samples", min=1, help="Number of random samples, without --inputs.")]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Seed of the random samples.")]
AtolOption = Annotated[float | None, typer.Option("--atol", min=0, help="Absolute tolerance.")]
RtolOption = Annotated[float | None, typer.Option("--rtol", min=0, help="Relative tolerance.")]
ShapesOption = Annotated[
    list[str] | None,
    typer.Option("--shapes", help="NAME:1x3x64x64, or NAME:MIN:OPT:MAX; may be repeated."),
]
BackendOption = Annotated[str, typer.Option("--backend", help="See trt-lab doctor.")]
PrecisionOption = Annotated[str, typer.Option("--precision", help="fp32, fp16 or bf16.")]
CheckOption = Annotated[
    str | None,
    typer.Option(
        "--check",
        help="Decides instead of the tolerance: cosine>=0.999 (or max_abs, max_rel, rmse, snr_db), or a command that exits 0 when "
        "the outputs are good. It is run without a shell; {outputs} and {golden} stand for folders of .npz files.",
    ),
]
CheckSecondsOption = Annotated[float, typer.Option("--check-seconds", min=0.1, help="Limit of one run of the command.")]
DeviceOption = Annotated[int, typer.Option("--device", min=0, help="Number of the GPU.")]
