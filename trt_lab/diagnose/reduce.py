"""The smallest part of a model that still fails, with the golden numbers it is fed. Runs in the worker, like the search.

First the outputs: the earliest tensor whose error does harm. Then the inputs: only nodes right above it, fed golden
values of the very sample that shows the fault; random inputs would show it rarely. Each try runs these nodes alone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trt_lab.compare.metrics import compare_arrays
from trt_lab.diagnose.evaluate import Evaluator
from trt_lab.diagnose.locate import Source, is_large, shrink
from trt_lab.diagnose.task import Search, SearchTask
from trt_lab.edit.extract import boundary, extract
from trt_lab.errors import EditError, UsageError
from trt_lab.model import Model
from trt_lab.tensors import write_npz
from trt_lab.types import NodeId, OnProgress, Progress, TensorId, TensorStats, Tolerance


@dataclass(frozen=True)
class ReduceTask:
    """A search, and where the smallest part goes.

    Attributes:
        out: ONNX file; its inputs and golden outputs are written beside it.
    """

    search: SearchTask
    out: str


@dataclass(frozen=True)
class Reduced:
    """The smallest part that still fails.

    Attributes:
        source: Node where the error starts; None when nothing fails.
        nodes: Those of the part, in graph order, in ids of the model given.
        sample: Sample that shows the fault, and that the inputs were taken from.
        tensor: Output of the part.
        stats: Its error in the written model, run anew in the low type.
        model, inputs, golden: Files.
        tried: Sets of nodes tried.
    """

    nodes_before: int
    nodes_after: int
    source: Source | None
    nodes: tuple[NodeId, ...] = ()
    sample: int = 0
    tensor: TensorId | None = None
    stats: TensorStats | None = None
    model: str | None = None
    inputs: str | None = None
    golden: str | None = None
    tried: int = 0
    notes: tuple[str, ...] = ()


def reduce(task: ReduceTask, on_progress: OnProgress) -> Reduced:
    """Searches, cuts, writes, and checks what was written.

    Raises:
        UsageError: The fault is not one of precision; the check is bad.
        EditError: The part cannot be cut out.
    """
    search = Search(task.search, on_progress)
    found = search.run()
    count = len(search.view.graphs[""].nodes)
    if found.passes:
        return Reduced(count, count, None, notes=("nothing fails, so there is nothing to reduce", *found.notes))
    if not found.fp32_passes or not found.sources:
        raise UsageError(f"nothing to reduce: {'; '.join(found.notes) or 'no node stands out'}")
    source = found.sources[0]
    row = next(row for row in found.errors if row.tensor == source.tensor)
    sample = row.local.sample if row.local is not None and row.local_large else row.stats.sample
    cut = _Cut(search.evaluator, source.tensor, sample, on_progress)
    nodes = cut.smallest()
    return _written(task, search, source, cut, nodes, count)


class _Cut:
    """Tries sets of nodes above one tensor on one sample."""

    def __init__(self, run: Evaluator, tensor: TensorId, sample: int, on_progress: OnProgress) -> None:
        self._run, self._tensor, self.sample, self._tell = run, tensor, sample, on_progress
        self._above = run.ancestors(tensor)
        read = boundary_of_all(run, self._above)
        self.golden = run.golden(sample, [*read, tensor])
        self.tried = 0

    def fails(self, nodes: Collection[NodeId]) -> bool:
        """Whether `nodes`, fed golden values, make a large error in the tensor."""
        self.tried += 1
        self._tell(Progress("reduce", None, f"try {self.tried}: {len(nodes)} nodes"))
        made = self._run.cut(nodes, self.sample, [self._tensor], self.golden)
        return is_large(compare_arrays(made[self._tensor], self.golden[self._tensor], Tolerance()))

    def smallest(self) -> tuple[NodeId, ...]:
        """Nearest nodes first, twice as many each time until it fails; then without all that is not needed."""
        nearest = list(reversed(self._above))
        size = 1
        while not self.fails(nearest[:size]):
            if size >= len(nearest):
                raise UsageError(
                    f"'{self._tensor}' is good when all above it is low and fed golden inputs of sample {self.sample}; "
                    "the fault needs more than one sample"
                )
            size = min(2 * size, len(nearest))
        last = nearest[0]
        if size == 1:
            return (last,)
        kept = shrink(nearest[1:size], lambda nodes: self.fails([last, *nodes]))
        if len(kept) == 1 and self.fails([last]):
            kept = []
        chosen = {last, *kept}
        return tuple(node for node in self._above if node in chosen)


def boundary_of_all(run: Evaluator, nodes: Sequence[NodeId]) -> list[TensorId]:
    """All that any subset of `nodes` may have to be fed."""
    return sorted({t for node in nodes for t in boundary(run.view, [node])}, key=run.view.order)


def _written(
    task: ReduceTask, search: Search, source: Source, cut: _Cut, nodes: tuple[NodeId, ...], count: int
) -> Reduced:
    run, tensor = search.evaluator, source.tensor
    read = boundary(run.view, nodes)
    feeds = {run.view.tensors[t].name: cut.golden[t] for t in read}
    lists = [name for name, value in feeds.items() if not isinstance(value, np.ndarray)]
    if lists:
        raise EditError(f"'{lists[0]}' is a sequence, which cannot be an input of the part; reduce another model")
    part = extract(run.view.model, nodes, outputs=[tensor], shapes={t: cut.golden[t].shape for t in read})
    out = Path(task.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    model = part.model.save(out)
    inputs = write_npz(out.with_suffix(".inputs.npz"), feeds)
    golden = write_npz(out.with_suffix(".golden.npz"), {run.view.tensors[tensor].name: cut.golden[tensor]})
    again = Evaluator(Model.load(model), task.search.low, [feeds])
    low, exact = again.outputs((), 0, [tensor])[tensor], again.golden(0, [tensor])[tensor]
    stats = compare_arrays(low, exact, task.search.tolerance, name=tensor, sample=cut.sample)
    if not is_large(stats):
        raise EditError(f"{out.name}: cut out by itself the part does not fail any more; please report it")
    return Reduced(
        nodes_before=count,
        nodes_after=len(part.model.ir.graph),
        source=source,
        nodes=tuple(search.name(node) for node in nodes),
        sample=cut.sample,
        tensor=tensor,
        stats=stats,
        model=str(model),
        inputs=str(inputs),
        golden=str(golden),
        tried=cut.tried,
        notes=part.notes,
    )
