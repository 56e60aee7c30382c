"""Options that mean the same in every command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

LARGEST = 1e30
"""Of a number on the command line: what is larger, infinity among it, would come back in JSON that has no place for it."""

ModelArgument = Annotated[str, typer.Argument(help="ONNX file, or zoo:NAME for a built-in model.", metavar="MODEL")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, logs on stderr.")]
InputsOption = Annotated[
    Path | None,
    typer.Option(
        "--inputs", help="Samples: .npz, .safetensors, Polygraphy JSON, a folder of samples, or images (--image-size)."
    ),
]
EdgesOption = Annotated[
    bool, typer.Option("--edges", help="Add edge cases to random samples: all zeros, all ones, both ends of the range.")
]
ImageSizeOption = Annotated[
    str | None, typer.Option("--image-size", help="HxW: --inputs is an image or a folder of images, resized to this.")
]
ImageMeanOption = Annotated[
    str | None, typer.Option("--image-mean", help="R,G,B (one number: grey), taken off pixels of 0 … 1; default 0,0,0.")
]
ImageStdOption = Annotated[
    str | None, typer.Option("--image-std", help="R,G,B, what is left is divided by; default 1,1,1.")
]
ImageLayoutOption = Annotated[str | None, typer.Option("--image-layout", help="NCHW (default) or NHWC.")]

SamplesOption = Annotated[int, typer.Option("--samples", min=1, help="Number of random samples, without --inputs.")]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Seed of the random samples.")]
AtolOption = Annotated[float | None, typer.Option("--atol", min=0, max=LARGEST, help="Absolute tolerance.")]
RtolOption = Annotated[float | None, typer.Option("--rtol", min=0, max=LARGEST, help="Relative tolerance.")]
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
        help="Decides instead of the tolerance: cosine>=0.999 (or max_abs, max_rel, rmse, snr_db), a function of yours as "
        "'FILE.py:FUNCTION >= 0.7', or a command that exits 0 when the outputs are good. It is run without a shell; {outputs} "
        "and {golden} stand for folders of .npz files.",
    ),
]
CheckSecondsOption = Annotated[
    float, typer.Option("--check-seconds", min=0.1, max=1e6, help="Limit of one run of the command.")
]
DeviceOption = Annotated[int, typer.Option("--device", min=0, help="Number of the GPU.")]
