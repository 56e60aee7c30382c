"""`trt-lab build`: builds, runs and profiles one engine, and keeps the record."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from statistics import median
from typing import Annotated

import typer

from trt_lab.cli.arguments import (
    BackendOption,
    DeviceOption,
    JsonOption,
    ModelArgument,
    PrecisionOption,
)
from trt_lab.cli.opening import open_given
from trt_lab.cli.output import print_json, print_line, show_progress
from trt_lab.cli.sampling import SampleOptions, spread

NAME = "build"


@spread
def run(
    model: ModelArgument,
    out: Annotated[Path, typer.Option("-o", "--out", help="Record to write: a folder NAME.trtlab.")],
    backend: BackendOption = "onnxruntime",
    precision: PrecisionOption = "fp32",
    keep_fp32: Annotated[
        list[str] | None, typer.Option("--keep-fp32", help="Node kept in FP32; may be repeated.")
    ] = None,
    probe: Annotated[list[str] | None, typer.Option("--probe", help="Tensor to probe; may be repeated.")] = None,
    *,
    given: SampleOptions,
    timing_cache: Annotated[Path | None, typer.Option("--timing-cache", help="Timing cache (TensorRT).")] = None,
    compute_capability: Annotated[
        str | None, typer.Option("--compute-capability", help="SM86 and the like (RTX).")
    ] = None,
    weakly_typed: Annotated[bool, typer.Option("--weakly-typed", help="Let TensorRT 10 choose the types.")] = False,
    device: DeviceOption = 0,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Build anew, though this machine may have kept the very engine (TensorRT).")
    ] = False,
    clean: Annotated[
        bool, typer.Option("--clean", help="Also build it without probes, to tell whether they changed it.")
    ] = False,
    json: JsonOption = False,
) -> int:
    """Build an engine with its probes, run all samples, profile it, and keep the record."""
    session = open_given(model, given)
    session.use(
        backend=backend,
        precision=precision,
        keep_fp32=keep_fp32 or None,
        timing_cache=str(timing_cache) if timing_cache is not None else None,
        compute_capability=compute_capability,
        strongly_typed=not weakly_typed,
        device=device,
        engine_cache="fresh" if fresh else None,
    )
    for tensor in probe or ():
        session.probe(tensor)
    with show_progress(quiet=json) as tell:
        record = session.build(tell).copy_to(out)
        seen = session.observer(build=clean)
    types = Counter(layer.precision or "unknown" for layer in record.layers)
    latency = median(record.latency_ms) if record.latency_ms else None
    if json:
        print_json(
            {
                "record": str(record.path),
                "layers": len(record.layers),
                "by_precision": dict(types),
                "build_s": record.meta.build_s,
                "latency_ms": latency,
                "observer": {
                    **seen.as_json(),
                    "probes": list(session.probes),
                    "emulated": record.meta.facts.get("emulated"),
                },
            }
        )
        return 0
    print_line(f"{len(record.layers)} layers: " + ", ".join(f"{n} {name}" for name, n in types.most_common()))
    took = f"built in {record.meta.build_s:.2f} s"
    print_line(took if latency is None else f"{took}; end-to-end latency {latency:.3f} ms (median)")
    if session.probes:
        print_line(f"probes {seen.sentence}")
    print_line(f"wrote {record.path}")
    return 0
