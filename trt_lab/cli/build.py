"""`trt-lab build`: builds, runs and profiles one engine, and keeps the record."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated

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
from trt_lab.cli.repeating import build_repeatedly
from trt_lab.cli.sampling import SampleOptions, spread
from trt_lab.errors import UsageError

if TYPE_CHECKING:
    from trt_lab.compare.observer import Observation
    from trt_lab.compare.selfcheck import SelfCheck
    from trt_lab.record import Record

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
    calibration_cache: Annotated[
        Path | None, typer.Option("--calibration-cache", help="INT8 with these scales (TensorRT 10, --weakly-typed).")
    ] = None,
    weakly_typed: Annotated[bool, typer.Option("--weakly-typed", help="Let TensorRT 10 choose the types.")] = False,
    device: DeviceOption = 0,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Build anew, though this machine may have kept the very engine (TensorRT).")
    ] = False,
    clean: Annotated[
        bool, typer.Option("--clean", help="Also build it without probes, to tell whether they changed it.")
    ] = False,
    self_check: Annotated[
        bool, typer.Option("--self-check", help="Also same input twice, rows of a batch, the reference's optimiser.")
    ] = False,
    repeat: Annotated[
        int,
        typer.Option("--repeat", min=1, help="Build so often, and tell if the builds agree; -o is the best right one."),
    ] = 1,
    lock: Annotated[
        Path | None, typer.Option("--lock", help="With --repeat: timing cache with the kernels of that one (TensorRT).")
    ] = None,
    json: JsonOption = False,
) -> int:
    """Build an engine with its probes, run all samples, profile it, and keep the record."""
    _refuse(repeat, lock, alone=probe or timing_cache or self_check)
    session = open_given(model, given)
    session.use(
        backend=backend,
        precision=precision,
        keep_fp32=keep_fp32 or None,
        timing_cache=str(timing_cache) if timing_cache is not None else None,
        calibration_cache=str(calibration_cache.absolute()) if calibration_cache is not None else None,
        compute_capability=compute_capability,
        strongly_typed=not weakly_typed,
        device=device,
        engine_cache="fresh" if fresh else None,
    )
    if repeat > 1:
        return build_repeatedly(session, repeat, out, lock, json=json)
    for tensor in probe or ():
        session.probe(tensor)
    with show_progress(quiet=json) as tell:
        record = session.build(tell).copy_to(out)
        seen = session.observer(build=clean)
        checks = session.self_check(tell) if self_check else ()
    return _tell(record, seen, list(session.probes), checks, json=json)


def _refuse(repeat: int, lock: Path | None, *, alone: object) -> None:
    """Raises UsageError for options that do not go together; `alone` are those that a repeated build has no use for."""
    if repeat > 1 and alone:
        raise UsageError(
            "--repeat builds the clean engine, each time without a timing cache, and runs each twice; leave --probe, "
            "--timing-cache and --self-check out"
        )
    if lock is not None and repeat == 1:
        raise UsageError("--lock keeps the kernels of the best of several builds; add --repeat 3")


def _tell(record: Record, seen: Observation, probes: list[str], checks: tuple[SelfCheck, ...], *, json: bool) -> int:
    """Prints what was built; 1 where a self-check fails, or the engine has nothing of the type asked for, which must not
    be measured unawares."""
    types = Counter(layer.precision or "unknown" for layer in record.layers)
    latency = median(record.latency_ms) if record.latency_ms else None
    facts = record.meta.facts
    met, line = facts.get("precision_met"), facts.get("precision_line")
    cache = facts.get("engine_cache")
    state = cache.get("state") if isinstance(cache, dict) else None
    found = 1 if met is False or any(check.verdict == "differs" for check in checks) else 0
    if json:
        print_json(
            {
                "record": str(record.path),
                "layers": len(record.layers),
                "by_precision": dict(types),
                "precision_met": met,
                "precision_line": line,
                "engine_cache": state,
                "build_s": record.meta.build_s,
                "latency_ms": latency,
                "self_checks": [check.as_json() for check in checks],
                "observer": {**seen.as_json(), "probes": [*probes], "emulated": facts.get("emulated")},
            }
        )
        return found
    print_line(f"{len(record.layers)} layers: " + ", ".join(f"{n} {name}" for name, n in types.most_common()))
    took = f"built in {record.meta.build_s:.2f} s"
    if state == "hit" and isinstance(cache, dict):
        took = f"taken from the engine cache, built before in {cache['built_s']:.2f} s"
    print_line(took if latency is None else f"{took}; end-to-end latency {latency:.3f} ms (median)")
    if probes:
        print_line(f"probes {seen.sentence}")
        for probe, near in seen.instead.items():
            print_line(f"  in place of {probe}: {', '.join(near) or 'nothing near it is neutral'}")
    for check in checks:
        print_line(f"{check.name}: {check.verdict.replace('_', ' ')}, {check.note}")
    print_line(f"wrote {record.path}")
    if met is False:
        print_line(f"✗ {line}: the type asked for is nowhere in the engine")
    return found
