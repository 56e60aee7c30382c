"""`trt-lab golden`: outputs of the reference, as a record and as Polygraphy's JSON; or all of its tensors."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from trt_lab import zoo
from trt_lab.backends.onnxruntime.stream import Plan
from trt_lab.backends.worker import default_worker
from trt_lab.cli.arguments import JsonOption, ModelArgument
from trt_lab.cli.output import print_json, print_line, print_note, show_progress
from trt_lab.cli.sampling import SampleOptions, spread
from trt_lab.edit.probe import add_probes
from trt_lab.errors import UsageError
from trt_lab.model import Model
from trt_lab.options import parse_shape_options
from trt_lab.runs import RunUnderWay
from trt_lab.samples.sets import Samples
from trt_lab.saving import CHUNK_BYTES, Saved, save_all
from trt_lab.tensors import write_polygraphy, write_polygraphy_inputs
from trt_lab.types import BuildOptions, JsonValue, OnProgress, ShapeRange

NAME = "golden"


@spread
def run(
    model: ModelArgument,
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder for the golden.")],
    *,
    given: SampleOptions,
    probe: Annotated[list[str] | None, typer.Option("--probe", help="Tensor to keep as well; may be repeated.")] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Keep every tensor, written part by part: memory stays small.")
    ] = False,
    chunk_mb: Annotated[
        int, typer.Option("--chunk-mb", min=1, help="With --all: megabytes of tensors in memory at once.")
    ] = CHUNK_BYTES >> 20,
    json: JsonOption = False,
) -> int:
    """Run the reference (ONNX Runtime, FP32, optimiser off) and keep its outputs."""
    if everything and probe:
        raise UsageError("--all keeps every tensor, so --probe says nothing; leave one of them out")
    opened, feeds, ranges = _open(model, given)
    with show_progress(quiet=json) as tell:
        if everything:
            saved = save_all(
                opened, feeds, out, on_progress=tell, on_estimate=_tell_estimate, limit_bytes=chunk_mb << 20
            )
            report, line = _saved(saved)
        else:
            report, line = _record(opened, feeds, ranges, probe or [], out, tell)
    if json:
        print_json(report)
        return 0
    print_line(line)
    print_line(f"wrote {out}")
    return 0


def _open(model: str, given: SampleOptions) -> tuple[Model, Samples, tuple[ShapeRange, ...]]:
    """Model and samples, without a session; a zoo model keeps its own samples unless told otherwise."""
    images = given.check()
    ranges = tuple(parse_shape_options(given.shapes or []))
    known = zoo.get(model.removeprefix("zoo:")) if model.startswith("zoo:") else None
    opened = known.model if known is not None else Model.load(model)
    if given.inputs is not None:
        return opened, Samples.of(opened, given.inputs if images is None else images.read(opened, given.inputs)), ranges
    if known is not None and known.feeds and given.is_default and not ranges:
        return opened, Samples.given(opened, known.feeds), ranges
    return opened, Samples.of(opened, given.samples, seed=given.seed, shapes=ranges, edges=given.edges), ranges


def _tell_estimate(plan: Plan, samples: int) -> None:
    unknown = f", and {plan.unknown} whose size only the run tells" if plan.unknown else ""
    print_note(
        f"{len(plan.tensors)} tensors, {plan.total_bytes / 1e6:.1f} MB a sample{unknown}; "
        f"{samples} samples, {plan.total_bytes * samples / 1e6:.1f} MB, in {len(plan.parts)} parts each"
    )


def _saved(saved: Saved) -> tuple[dict[str, JsonValue], str]:
    report: dict[str, JsonValue] = {
        "golden": str(saved.folder),
        "samples": saved.samples,
        "tensors": [{"name": name, "shape": list(shape)} for name, shape in saved.tensors.items()],
        "bytes": saved.bytes,
        "parts": saved.parts,
        "notes": list(saved.notes),
    }
    return report, f"{saved.samples} samples, {len(saved.tensors)} tensors, {saved.bytes / 1e6:.1f} MB"


def _record(
    model: Model, samples: Samples, ranges: tuple[ShapeRange, ...], probes: list[str], out: Path, tell: OnProgress
) -> tuple[dict[str, JsonValue], str]:
    options = BuildOptions(backend="onnxruntime", optimizer=False, profile_runs=0, shapes=ranges)
    probed = add_probes(model, probes)
    with TemporaryDirectory(prefix="trt-lab-") as scratch:
        made = RunUnderWay(
            default_worker(), model, probed, options, samples,
            role="reference", folder=Path(scratch), on_progress=tell, on_submit=lambda _job: None,
        ).record()  # fmt: skip
        record = made.copy_to(out)
    runs = [record.outputs(i) for i in range(record.samples)]
    write_polygraphy(out / "outputs.polygraphy.json", {"onnxruntime reference": runs})
    write_polygraphy_inputs(out / "inputs.polygraphy.json", [record.inputs(i) for i in range(record.samples)])
    shapes = {name: list(array.shape) for name, array in runs[0].items()} if runs else {}
    report: dict[str, JsonValue] = {
        "golden": str(out),
        "samples": record.samples,
        "tensors": [{"name": name, "shape": list(shape)} for name, shape in shapes.items()],
    }
    return report, f"{record.samples} samples, {len(shapes)} tensors: {', '.join(shapes)}"
