"""Makes the recorded GPU runs that tests, notebooks and Binder open, through trt-lab itself.

    python -m tests.gpu.make_records FOLDER --models DIR [--only NAME]

DIR holds `l2norm_overflow.onnx`, `encoder4.onnx`, `ppocr_det.onnx` and `magika.onnx`; models that are not there are
left out. Each engine gets a record, and so does the reference. Records are kept small: no engine file, the outputs
and probes alone, one or two samples, and models over `--model-limit` bytes named by hash only.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tests.gpu import models
from trt_lab.backends.jobs import Request
from trt_lab.backends.worker import Worker
from trt_lab.edit.probe import add_probes
from trt_lab.model import Model
from trt_lab.record import Record, write, write_record
from trt_lab.tensors import write_samples
from trt_lab.types import BuildOptions, PrecisionPlan, ShapeRange, TensorId

FP16 = PrecisionPlan("fp16")
HIDING = ("/a/a.11/Relu_output_0", "/Mul_output_0", "/Mul_1_output_0", "/ReduceSum_output_0")
"""Tensors of l2norm_overflow; the first whose probe makes the wrong engine right is recorded."""
RIGHT = 0.01


@dataclass(frozen=True)
class Subject:
    """One model and how it is run. `weak` is the FP16 of a weakly typed network."""

    model: Model
    shapes: tuple[ShapeRange, ...]
    feeds: Sequence[Mapping[str, np.ndarray]]
    weak: bool = False


class Recorder:
    """Makes records in one folder with one worker."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self.folder = folder
        self.cache = cache
        self.worker = Worker(limit_s=500)
        folder.mkdir(parents=True, exist_ok=True)

    def record(self, name: str, subject: Subject, options: BuildOptions, probes: Sequence[str] = ()) -> Record:
        """Builds, runs and writes `name.trtlab`; says what it took."""
        started = time.perf_counter()
        probed = add_probes(subject.model, [TensorId(p) for p in probes])
        role = "reference" if options.backend == "onnxruntime" else "engine"
        with tempfile.TemporaryDirectory() as scratch:
            work = Path(scratch)
            path = probed.model.save(work / "model.onnx")
            write_samples(work / "in", subject.feeds, which="inputs")
            request = Request(options.backend, str(path), options, str(work / "in"), str(work / "out"))
            outcome = replace(self.worker.submit(request).result(), engine_file=None)
            record = write_record(
                self.folder / f"{name}.trtlab",
                model=subject.model,
                probed=probed,
                options=options,
                outcome=outcome,
                role=role,
                samples_dir=work / "in",
                outputs_dir=work / "out",
            )
        size = sum(file.stat().st_size for file in record.path.rglob("*") if file.is_file())
        print(
            f"{name}: {len(record.layers)} layers, built in {outcome.build_s:.1f} s, "
            f"{time.perf_counter() - started:.1f} s in all, {size:,} bytes, {outcome.facts.get('precision_line', '')}",
            flush=True,
        )
        return record

    def reference(self, name: str, subject: Subject, probes: Sequence[str] = ()) -> Record:
        """Record of ONNX Runtime, optimiser off."""
        options = BuildOptions(backend="onnxruntime", optimizer=False, profile_runs=0)
        return self.record(f"{name}-reference", subject, options, probes)

    def options(self, name: str, subject: Subject, plan: PrecisionPlan, level: int | None) -> BuildOptions:
        """Options of a TensorRT build with a timing cache of its own."""
        return BuildOptions(
            backend="tensorrt",
            plan=plan,
            shapes=subject.shapes,
            strongly_typed=not (subject.weak and plan.default != "fp32"),
            builder_level=level,
            timing_cache=str(self.cache / f"{name}.cache"),
            profile_runs=20,
        )


def make_l2norm(recorder: Recorder, subject: Subject) -> None:
    """FP32, FP16 that overflows, and FP16 with the probe that hides the fault."""
    name = "l2norm_overflow"
    reference = recorder.reference(name, subject)
    recorder.record(f"{name}-fp32", subject, recorder.options(name, subject, PrecisionPlan(), 1))
    fp16 = recorder.options(f"{name}-fp16", subject, FP16, None)
    clean = recorder.record(f"{name}-fp16", subject, fp16)
    print(f"  max abs {_worst(clean, reference):.3g}")
    for tensor in HIDING:
        label = f"{name}-fp16-probe"
        probed = recorder.record(label, subject, fp16, [tensor])
        worst = _worst(probed, reference)
        print(f"  probe at {tensor}: max abs {worst:.3g}")
        if worst < RIGHT:
            recorder.reference(f"{name}-probe", subject, [tensor])
            return
        _remove(probed.path)


def make_pair(recorder: Recorder, name: str, subject: Subject, level: int | None = 1) -> None:
    """Reference, FP32 and FP16."""
    reference = recorder.reference(name, subject)
    for plan in (PrecisionPlan(), FP16):
        label = f"{name}-{plan.default}"
        record = recorder.record(label, subject, recorder.options(label, subject, plan, level))
        print(f"  max abs {_worst(record, reference):.3g}")


def make_quantised(recorder: Recorder, subject: Subject) -> None:
    """INT8 by Q/DQ."""
    reference = recorder.reference("qdq_conv", subject)
    record = recorder.record("qdq_conv-int8", subject, recorder.options("qdq", subject, PrecisionPlan(), 1))
    print(f"  max abs {_worst(record, reference):.3g}")


def subjects(folder: Path) -> dict[str, Subject]:
    """The models that are there."""
    encoder = ShapeRange("x", (1, 128, 64), (4, 128, 64), (8, 128, 64))
    l2norm = ShapeRange("x", (1, 3, 64, 64), (32, 3, 64, 64), (64, 3, 64, 64))
    det = ShapeRange("x", (1, 3, 160, 160), (1, 3, 160, 160), (1, 3, 224, 224))
    text = ShapeRange("bytes", (1, 2048), (1, 2048), (1, 2048))
    bytes_ = np.random.default_rng(0).integers(0, 256, (1, 2048), dtype=np.int32)
    plans: dict[str, tuple[tuple[ShapeRange, ...], list[dict[str, np.ndarray]], bool]] = {
        "l2norm_overflow": ((l2norm,), [_normal(1, 3, 64, 64)], True),
        "encoder4": ((encoder,), [_normal(1, 128, 64)], True),
        "ppocr_det": ((det,), [_normal(1, 3, 160, 160), _normal(1, 3, 224, 160)], False),
        "magika": ((text,), [{"bytes": bytes_}], False),
    }
    found = {
        name: Subject(Model.load(folder / f"{name}.onnx"), shapes, feeds, weak)
        for name, (shapes, feeds, weak) in plans.items()
        if (folder / f"{name}.onnx").is_file()
    }
    return {**found, "qdq_conv": Subject(models.qdq(), (), [_normal(1, 3, 32, 32)])}


def main() -> None:
    """Makes all records that can be made."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--only", action="append", help="name of a model; may be given several times")
    parser.add_argument("--model-limit", type=int, default=1_000_000)
    chosen = parser.parse_args()
    write.COPY_MODEL_BELOW = chosen.model_limit
    with tempfile.TemporaryDirectory() as cache:
        recorder = Recorder(chosen.folder, Path(cache))
        for name, subject in subjects(chosen.models).items():
            if chosen.only and name not in chosen.only:
                continue
            if name == "l2norm_overflow":
                make_l2norm(recorder, subject)
            elif name == "qdq_conv":
                make_quantised(recorder, subject)
            else:
                make_pair(recorder, name, subject, None if subject.weak else 1)
        recorder.worker.close()


def _normal(*sizes: int) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(0).standard_normal(sizes).astype(np.float32)}


def _worst(record: Record, reference: Record) -> float:
    """Largest difference over the outputs that both have."""
    worst = 0.0
    for sample in range(record.samples):
        mine, theirs = record.outputs(sample), reference.outputs(sample)
        for name in mine.keys() & theirs.keys():
            difference = np.abs(mine[name].astype(np.float64) - theirs[name].astype(np.float64))
            worst = max(worst, float(difference.max(initial=0.0)) if np.isfinite(difference).all() else float("inf"))
    return worst


def _remove(path: Path) -> None:
    for file in sorted(path.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    path.rmdir()


if __name__ == "__main__":
    main()
