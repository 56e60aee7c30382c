"""All tensors of the reference on disk, part by part, so that memory stays small however large they are together."""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trt_lab.backends.onnxruntime.stream import CHUNK_BYTES, Plan, plan_stream, stream
from trt_lab.errors import RecordError
from trt_lab.graph.view import GraphView
from trt_lab.model import Model
from trt_lab.samples.sets import Samples
from trt_lab.tensors import TensorStream, streaming, write_safetensors
from trt_lab.types import OnProgress, Progress, TensorId

SPARE_BYTES = 64 << 20
"""Room that is left on the disk."""


@dataclass(frozen=True)
class Saved:
    """What was written: `folder/samples/NNN/{inputs,outputs}.safetensors`, a golden that every command opens.

    Attributes:
        tensors: Shape of each tensor in the first sample, in graph order.
        bytes: Of all outputs together.
        parts: In how many parts each sample was run.
        notes: Tensors that were left out, and why.
    """

    folder: Path
    samples: int
    tensors: dict[str, tuple[int, ...]]
    bytes: int
    parts: int
    notes: tuple[str, ...] = ()


def save_all(
    model: Model,
    samples: Samples,
    folder: Path,
    *,
    on_progress: OnProgress,
    on_estimate: Callable[[Plan, int], None],
    limit_bytes: int = CHUNK_BYTES,
) -> Saved:
    """Runs the reference and writes every tensor that a node of the main graph makes.

    Args:
        on_estimate: Told the plan and the number of samples before anything is run.
        limit_bytes: Tensors held in memory at once, about.

    Raises:
        RecordError: There is something in `folder` already; the disk has no room; it cannot be written.
        BuildError, RunError: ONNX Runtime refused or failed.
    """
    runnable = model.for_runtime()
    if folder.exists() and any(folder.iterdir()):
        raise RecordError(f"{folder}: is not empty, and nothing is overwritten; choose another folder")
    plans = [plan_stream(runnable, feed, limit_bytes) for feed in samples.feeds]
    on_estimate(plans[0], samples.count)
    _check_room(folder, sum(plan.total_bytes for plan in plans))
    names = [GraphView.of(runnable).tensors[t].name for t in plans[0].tensors]
    shapes: dict[str, tuple[int, ...]] = {}
    written = 0
    for index, (feed, plan) in enumerate(zip(samples.feeds, plans, strict=True)):
        place = folder / "samples" / f"{index:03d}"
        place.mkdir(parents=True, exist_ok=True)
        write_safetensors(place / "inputs.safetensors", feed)
        with streaming(place / "outputs.safetensors", names, metadata={"model": model.name}) as out:
            for name, shape in _written(
                stream(runnable, feed, plan, _share(on_progress, index, samples.count)), out, limit_bytes
            ):
                shapes.setdefault(name, shape)
        written += out.bytes
    return Saved(folder, samples.count, shapes, written, max(len(plan.parts) for plan in plans), plans[0].notes)


def _written(
    tensors: Iterable[tuple[TensorId, np.ndarray]], out: TensorStream, limit_bytes: int
) -> Iterator[tuple[TensorId, tuple[int, ...]]]:
    """Writes in a thread while the next part runs, at most `limit_bytes` behind. Gives names and shapes."""
    waiting: deque[tuple[Future[None], int]] = deque()
    behind = 0
    with ThreadPoolExecutor(1) as writer:
        for name, array in tensors:
            waiting.append((writer.submit(out.add, name, array), array.nbytes))
            behind += array.nbytes
            while behind > limit_bytes or (waiting and waiting[0][0].done()):
                done, size = waiting.popleft()
                done.result()
                behind -= size
            yield name, array.shape
            del array
        for done, _ in waiting:
            done.result()


def _check_room(folder: Path, needed: int) -> None:
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    free = shutil.disk_usage(there).free
    if needed + SPARE_BYTES > free:
        raise RecordError(
            f"{folder}: all tensors take {needed / 1e6:.0f} MB and the disk has {free / 1e6:.0f} MB free; "
            "take fewer samples or smaller shapes, or write to another disk"
        )


def _share(on_progress: OnProgress, index: int, count: int) -> OnProgress:
    def tell(step: Progress) -> None:
        on_progress(Progress(step.phase, (index + (step.fraction or 0.0)) / count, step.message))

    return tell
