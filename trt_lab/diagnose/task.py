"""The search as one job: runs in the worker, holds the model and all values, tries hundreds of plans without a record."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from trt_lab.diagnose.check import Check, judge
from trt_lab.diagnose.evaluate import Evaluator, NodeValues
from trt_lab.diagnose.evidence import Evidence, gather
from trt_lab.diagnose.journal import Journal
from trt_lab.diagnose.locate import Region, Source, TensorError, Trial, find_region, find_sources, tensor_errors
from trt_lab.diagnose.measuring import Worst, add_errors, errors_json, lines_of, plain_json, stats_of
from trt_lab.diagnose.quantization.scales import explain_node, search_notes
from trt_lab.edit.lowering import is_weight
from trt_lab.edit.schema import LowPrecision
from trt_lab.graph import GraphView
from trt_lab.model import Model
from trt_lab.tensors import open_samples
from trt_lab.types import JsonValue, NodeId, OnProgress, Progress, Tolerance

_SOFTMAX_WITHIN = 4
"""A mask is told as such when a Softmax follows within this many nodes."""


@dataclass(frozen=True)
class SearchTask:
    """What a search needs; paths are readable where it runs.

    Attributes:
        golden_dir: Folder of samples with the golden outputs.
        check: Decides instead of the tolerance.
        artifacts: Folder for the steps; None for a search that leaves nothing.
        key: What the search is about, for going on later.
        measured: Errors of each sample, as `measure` gives them, where they were measured side by side already.
    """

    model_path: str
    samples_dir: str
    golden_dir: str
    low: LowPrecision
    tolerance: Tolerance
    check: Check | None = None
    artifacts: str | None = None
    resume: bool = False
    key: Mapping[str, JsonValue] = field(default_factory=dict)
    measured: tuple[JsonValue, ...] = ()


@dataclass(frozen=True)
class SearchFound:
    """What the search found, in ids of the model given.

    Attributes:
        passes: Nothing needs to be kept.
        fp32_passes: All in FP32 passes; if not, the fault is not one of precision.
        source_pair: Golden array of the first source's tensor, and what its node makes of it.
        notes: For the user, one line each.
        reused: Steps taken over from a search that was stopped.
    """

    passes: bool
    fp32_passes: bool
    errors: tuple[TensorError, ...]
    sources: tuple[Source, ...]
    region: Region | None
    source_pair: tuple[np.ndarray, np.ndarray] | None
    notes: tuple[str, ...]
    reused: int = 0


def search(task: SearchTask, on_progress: OnProgress) -> SearchFound:
    """Runs the search. Raises what `Evaluator`, `Check` and `Journal` raise, and CancelledError from `on_progress`."""
    return Search(task, on_progress).run()


class Search:
    """One search; `run` does it."""

    def __init__(self, task: SearchTask, on_progress: OnProgress) -> None:
        on_progress(Progress("locate", 0.0, "reading the model"))
        self._task = task
        self._tell = on_progress
        self._journal = Journal(Path(task.artifacts) if task.artifacts else None, task.key, resume=task.resume)
        samples = open_samples(task.samples_dir)
        self._golden = [dict(sample) for sample in open_samples(task.golden_dir, which="outputs")]
        self.evaluator = Evaluator(Model.load(task.model_path), task.low, [dict(sample) for sample in samples])
        self._order = list(range(len(samples)))
        self._notes: list[str] = []
        self._tried = 0

    @property
    def view(self) -> GraphView:
        """Graph of the model that is run: local functions are inlined."""
        return self.evaluator.view

    def run(self) -> SearchFound:
        """The whole search."""
        self._notes += search_notes(self.view)
        nothing = self._trial(())
        if nothing.passes:
            self._notes += self._blind()
            return SearchFound(True, True, (), (), None, None, tuple(self._notes), self._journal.reused)
        errors = self._sweep()
        suspects = list(dict.fromkeys(row.node for row in errors if row.local_large and row.node is not None))
        region = find_region(self.view, None, self._trial, suspects=suspects, able=self.evaluator.lowerable)
        region = replace(region, trials=(nothing, *region.trials))
        fp32 = bool(region.keep_fp32)
        if not fp32:
            self._notes.append(self._not_precision())
        if not region.monotone:
            self._notes.append(
                "some sets fail although they hold one that passes: keeping more is not always better here"
            )
        errors = self._with_evidence(errors, {*suspects, *region.keep_fp32})
        sources = find_sources(self.view, errors, region.keep_fp32 if fp32 else None)
        if fp32 and not sources:
            sources = self._first_kept(errors, region.keep_fp32)
        pair = self._pair(sources[0], errors) if sources else None
        return SearchFound(
            False,
            fp32,
            tuple(self._named(row) for row in errors),
            tuple(self._named_source(source) for source in sources),
            self._named_region(region),
            pair,
            tuple(self._notes),
            self._journal.reused,
        )

    # --- trials ----------------------------------------------------------------------------

    def _trial(self, keep: tuple[NodeId, ...]) -> Trial:
        self._tried += 1
        self._tell(Progress("locate", None, f"try {self._tried}: {_count(len(keep))} in FP32"))
        names = [self.name(node) for node in keep]

        def do() -> JsonValue:
            passes, error = self._judged(keep)
            return {"passes": passes, "max_abs": error}

        result = self._journal.step(f"try {json.dumps(names)}", do)
        assert isinstance(result, dict)
        error = result["max_abs"]
        return Trial(keep, bool(result["passes"]), float(error) if isinstance(error, (int, float)) else None)

    def _judged(self, keep: tuple[NodeId, ...]) -> tuple[bool, float | None]:
        if self._task.check is not None:
            outputs = [self._outputs(keep, sample) for sample in range(len(self._golden))]
            _, error = judge(outputs, self._golden, self._task.tolerance)
            return self._task.check.passes(outputs, self._golden), error
        worst: float | None = 0.0
        for sample in tuple(self._order):
            good, error = judge([self._outputs(keep, sample)], [self._golden[sample]], self._task.tolerance)
            worst = None if worst is None or error is None else max(worst, error)
            if not good:  # the sample that fails is asked first from now on
                self._order.remove(sample)
                self._order.insert(0, sample)
                return False, worst
        return True, worst

    def _outputs(self, keep: Collection[NodeId], sample: int) -> dict[str, np.ndarray]:
        wanted = [t for t in self.view.outputs if t in self._golden[sample]]
        return {str(tensor): value for tensor, value in self.evaluator.outputs(keep, sample, wanted).items()}

    def _blind(self) -> list[str]:
        """What to say when nothing fails: the check may not look."""
        check = self._task.check
        if check is None:
            return []
        ruined = [{name: np.full_like(array, np.nan if array.dtype.kind == "f" else 0) for name, array in s.items()}
                  for s in self._golden]  # fmt: skip
        if check.passes(ruined, self._golden):
            return [f"the check {check} passes on outputs of NaN too: it passes on everything, so it finds nothing"]
        if not judge([self._outputs((), s) for s in range(len(self._golden))], self._golden, self._task.tolerance)[0]:
            return [f"the outputs differ by more than the tolerance, but the check {check} passes"]
        return []

    def _not_precision(self) -> str:
        check = self._task.check
        if check is not None and not check.passes(self._golden, self._golden):
            return (
                f"the check {check} fails on the golden outputs themselves: FP32 has the fault too, or the check passes on "
                "nothing; look at the inputs, the model and the check"
            )
        return f"FP32 has the fault too: this is not a fault of precision; look at {self._where_to_look()}"

    def _where_to_look(self) -> str:
        """Inputs that are no numbers, and operators that are not ONNX's, by name where there are some."""
        broken = next((
            f"the inputs: '{name}' of sample {index} holds {'NaN' if np.isnan(array).any() else 'infinities'}"
            for index, sample in enumerate(self.evaluator.samples)
            for name, array in sample.items()
            if array.dtype.kind == "f" and not np.isfinite(array).all()
        ), "the inputs")  # fmt: skip
        custom = [info.id for info in self.view.nodes.values() if info.domain not in ("", "ai.onnx")]
        named = f"at the plugins and custom operators ({', '.join(custom[:3])}{', …' if len(custom) > 3 else ''})"
        places = [broken, named if custom else "", "at what the parser made of the model"]
        return ", ".join(place for place in places if place)

    # --- the two error columns -------------------------------------------------------------

    def _sweep(self) -> tuple[TensorError, ...]:
        """Both errors of every tensor; one step."""
        result = self._journal.step("errors", self._measure)
        assert isinstance(result, dict)
        accumulated, alone = ([stats_of(line) for line in lines_of(result[name])] for name in ("accumulated", "local"))
        return tensor_errors(self.view, accumulated, {stats.name: stats for stats in alone})

    def _measure(self) -> JsonValue:
        accumulated, alone = Worst(), Worst()
        for lines in self._task.measured:
            assert isinstance(lines, dict)
            for found, name in ((accumulated, "accumulated"), (alone, "local")):
                for line in lines_of(lines[name]):
                    found.add(stats_of(line))
        nodes, samples = len(self.evaluator.nodes), len(self.evaluator.samples)
        for sample in () if self._task.measured else range(samples):

            def tell(done: int, values: NodeValues, first: int = sample * nodes) -> None:
                fraction = 0.05 + 0.45 * (first + done) / (samples * nodes)
                self._tell(Progress("locate", fraction, f"errors of {self.name(values.node)}"))

            add_errors(self.evaluator, sample, sample, self._task.tolerance, tell, accumulated, alone)
        return errors_json(accumulated, alone)

    def _with_evidence(self, errors: Sequence[TensorError], nodes: Collection[NodeId]) -> tuple[TensorError, ...]:
        """Evidence of `nodes`, each on the sample where its local error is worst; one step."""
        wanted: dict[int, dict[NodeId, int]] = {}
        for index, row in enumerate(errors):
            if row.node is not None and row.node in nodes and row.local is not None:
                wanted.setdefault(row.local.sample, {}).setdefault(row.node, index)

        def do() -> JsonValue:
            seen: dict[str, JsonValue] = {}
            for sample, places in wanted.items():
                self._tell(Progress("locate", 0.9, f"evidence on sample {sample}"))
                for values in self.evaluator.sweep(sample):
                    if values.node in places:
                        seen[str(places[values.node])] = plain_json(asdict(self._evidence(values, sample)))
            return seen

        result = self._journal.step("evidence", do)
        assert isinstance(result, dict)
        found = list(errors)
        for place, line in result.items():
            found[int(place)] = replace(found[int(place)], evidence=Evidence(**cast("dict[str, Any]", line)))
        return tuple(found)

    def _evidence(self, values: NodeValues, sample: int) -> Evidence:
        info = self.view.nodes[values.node]
        fixed = [t for t in values.golden_inputs if is_weight(self.view, t)]
        inputs: dict[str, np.ndarray] = {
            str(t): v for t, v in values.golden_inputs.items() if isinstance(v, np.ndarray)
        }
        outputs: dict[str, np.ndarray] = {str(t): v for t, v in values.golden.items() if isinstance(v, np.ndarray)}
        alone: dict[str, np.ndarray] = {str(t): v for t, v in values.alone.items() if isinstance(v, np.ndarray)}
        found = gather(
            info,
            inputs,
            outputs,
            alone,
            self._task.low,
            weights=fixed,
            before_softmax=self._softmax_follows(values.node),
            sample=sample,
        )
        told = explain_node(self.view, values.node)
        if told is not None and (told[1] or found.kind == "rounding"):
            return replace(found, kind="quantisation", text=told[0])
        return found

    def _softmax_follows(self, node: NodeId) -> bool:
        edge = [node]
        for _ in range(_SOFTMAX_WITHIN):
            edge = [n for e in edge for n in self.view.successors(e)]
            if any(self.view.nodes[n].op_type in ("Softmax", "LogSoftmax") for n in edge):
                return True
        return False

    def _first_kept(self, errors: Sequence[TensorError], kept: Sequence[NodeId]) -> tuple[Source, ...]:
        """Where no single node of the region has a large error of its own: its first node, with its evidence."""
        for row in errors:
            if row.node is not None and row.node == kept[0]:
                text = f", and {len(kept)} nodes add to it" if len(kept) > 1 else ""
                because = f" ({row.evidence.kind}: {row.evidence.text})" if row.evidence is not None else ""
                op = self.view.nodes[row.node].op_type
                why = f"{row.node} ({op}): its rounding grows into the error{text}{because}"
                return (Source(row.node, row.tensor, why, row.evidence),)
        return ()

    def _pair(self, source: Source, errors: Sequence[TensorError]) -> tuple[np.ndarray, np.ndarray] | None:
        row = next(row for row in errors if row.tensor == source.tensor)
        sample = row.local.sample if row.local is not None else row.stats.sample
        for values in self.evaluator.sweep(sample):
            if values.node == source.node:
                golden, low = values.golden[source.tensor], values.alone[source.tensor]
                return (np.array(golden), np.array(low)) if isinstance(golden, np.ndarray) else None
        return None

    # --- names of the model given ------------------------------------------------------------

    def name(self, node: NodeId) -> NodeId:
        """Id of a node in the model given."""
        return self.evaluator.names.get(node, node)

    def _named(self, row: TensorError) -> TensorError:
        return replace(row, node=self.name(row.node) if row.node is not None else None)

    def _named_source(self, source: Source) -> Source:
        name = self.name(source.node)
        return replace(source, node=name, why=f"{name}{source.why.removeprefix(source.node)}")

    def _named_region(self, region: Region) -> Region:
        trials = tuple(replace(t, keep_fp32=tuple(self.name(n) for n in t.keep_fp32)) for t in region.trials)
        return replace(region, keep_fp32=tuple(self.name(n) for n in region.keep_fp32), trials=trials)


def _count(number: int) -> str:
    return "1 node" if number == 1 else f"{number} nodes"
