"""`trt-lab golden`: outputs of the reference, kept as a record and as Polygraphy's JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trt_lab.cli.arguments import (
    InputsOption,
    JsonOption,
    ModelArgument,
    SamplesOption,
    SeedOption,
    ShapesOption,
    open_session,
)
from trt_lab.cli.output import print_json, print_line, show_progress
from trt_lab.tensors import write_polygraphy, write_polygraphy_inputs

NAME = "golden"


def run(
    model: ModelArgument,
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder for the golden.")],
    samples: SamplesOption = 4,
    inputs: InputsOption = None,
    seed: SeedOption = 0,
    shapes: ShapesOption = None,
    probe: Annotated[list[str] | None, typer.Option("--probe", help="Tensor to keep as well; may be repeated.")] = None,
    json: JsonOption = False,
) -> int:
    """Run the reference (ONNX Runtime, FP32, optimiser off) and keep its outputs."""
    session = open_session(model, inputs=inputs, samples=samples, seed=seed, shapes=shapes)
    for tensor in probe or ():
        session.probe(tensor)
    with show_progress(quiet=json) as tell:
        record = session.golden(tell).copy_to(out)
    runs = [record.outputs(i) for i in range(record.samples)]
    write_polygraphy(out / "outputs.polygraphy.json", {"onnxruntime reference": runs})
    write_polygraphy_inputs(out / "inputs.polygraphy.json", [record.inputs(i) for i in range(record.samples)])
    tensors = {name: list(array.shape) for name, array in runs[0].items()} if runs else {}
    if json:
        names = [{"name": name, "shape": shape} for name, shape in tensors.items()]
        print_json({"golden": str(out), "samples": record.samples, "tensors": names})
        return 0
    print_line(f"{record.samples} samples, {len(tensors)} tensors: {', '.join(tensors)}")
    print_line(f"wrote {out}")
    return 0
