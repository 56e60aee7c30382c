"""The examination of a quantised model as one job of the worker: figures of all pairs, then layer by layer."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trt_lab.diagnose.check import Check
from trt_lab.diagnose.evaluate import Evaluator
from trt_lab.diagnose.locate import shrink
from trt_lab.diagnose.quantization.evaluate import QdqEvaluator
from trt_lab.diagnose.quantization.measure import Error, ErrorSum, PairFigures, PairSum, pair_by_badness
from trt_lab.diagnose.quantization.scales import ScaleFinding, check_scales, judge_figures
from trt_lab.edit.inline import inline_functions
from trt_lab.edit.qdq import QdqPair, dequantise, find_qdq
from trt_lab.graph import GraphView
from trt_lab.model import Model
from trt_lab.tensors import open_samples
from trt_lab.types import NodeId, OnProgress, Progress, TensorId

AGREES_DB = 60.0
"""The FP32 model, and the quantised one without its Q/DQ, are called the same network from this ratio on: about 0.1 %."""

TRIED_SAMPLES = 8
"""A layer is tried twice on each of them, so hundreds of samples would take hundreds of times as long."""

_STORED_SUFFIXES = ("_quantized", "_DequantizeLinear_Output", "_DequantizeLinear")
"""What ONNX Runtime's quantiser adds to the name of a weight."""


@dataclass(frozen=True)
class ExamineTask:
    """What an examination needs; paths are readable where it runs.

    Attributes:
        float_path: The FP32 model that was quantised; weights that are stored as integers are compared with its own.
        layers: Also try the layers one by one.
        tried_samples: Samples that layers are tried on, the first ones; figures of pairs are over all.
        check: Then also look for the fewest layers that must be left in float for it to pass.
        fixed: ONNX file for the model with these layers in float.
    """

    model_path: str
    samples_dir: str
    float_path: str | None = None
    layers: bool = True
    tried_samples: int = TRIED_SAMPLES
    check: Check | None = None
    fixed: str | None = None


@dataclass(frozen=True, slots=True)
class LayerSensitivity:
    """One layer, quantised by itself and left out.

    Attributes:
        tensors: What it reads quantised, by the names of the pairs.
        only: Error of the outputs with this layer quantised and all others in float.
        without: Error of the outputs with all quantised but this one.
        gain_db: What leaving it in float gains: ratio `without` it less that of all quantised.
    """

    node: NodeId
    op_type: str
    tensors: tuple[TensorId, ...]
    only: Error
    without: Error
    gain_db: float | None


@dataclass(frozen=True)
class Examined:
    """What was found. Ids are those of the model, local functions inlined.

    Attributes:
        pairs: Worst local error first.
        layers: Most sensitive first, by the error that each makes alone; empty when they were not tried.
        quantised: Error of the outputs with all quantised, against the same model in float.
        findings: Bad scales, those of the file first.
        keep_float: Fewest layers that must stay in float for the check to pass; None when no check was given, or when
            it fails with all in float too.
        passes: Whether the check passes with all quantised; None without a check.
        fixed: ONNX file with `keep_float` in float.
        trials: Sets of layers that were tried for it.
    """

    pairs: tuple[PairFigures, ...]
    layers: tuple[LayerSensitivity, ...]
    quantised: Error
    findings: tuple[ScaleFinding, ...]
    samples: int
    keep_float: tuple[NodeId, ...] | None = None
    passes: bool | None = None
    fixed: str | None = None
    trials: int = 0
    notes: tuple[str, ...] = ()


def examine(task: ExamineTask, on_progress: OnProgress) -> Examined:
    """Runs the examination.

    Raises:
        UsageError: The model has no Q/DQ; the check is bad. ModelError: A model cannot be opened.
        CancelledError: From `on_progress`.
    """
    return _Examination(task, on_progress).run()


def float_weights(view: GraphView, original: Model) -> dict[TensorId, np.ndarray]:
    """Float values of the weights that a quantised model stores as integers, from the model that it was made of.

    Looked for by name (what the quantiser added taken off), then as the same input of a node of the same name.
    """
    other = GraphView.of(original)
    found: dict[TensorId, np.ndarray] = {}
    for pair in find_qdq(view).pairs:
        if pair.source is None:
            values = _float_weight(view, other, pair)
            if values is not None:
                found |= {tensor: values for tensor in pair.restored}
    return found


def _float_weight(view: GraphView, other: GraphView, pair: QdqPair) -> np.ndarray | None:
    shape = view.tensors[pair.codes].shape
    names = [name.removesuffix(end) for name in (pair.codes, pair.restored[0]) for end in _STORED_SUFFIXES]
    for tensor in pair.restored:
        for reader in view.tensors[tensor].consumers:
            same = other.nodes.get(reader)
            for index, read in enumerate(view.nodes[reader].inputs):
                if same is not None and read == tensor and index < len(same.inputs) and same.inputs[index]:
                    names.append(str(same.inputs[index]))
    for name in names:
        values = other.constant(name) if name in other.tensors else None
        if values is not None and values.dtype.kind == "f" and values.shape == shape:
            return values
    return None


class _Examination:
    def __init__(self, task: ExamineTask, on_progress: OnProgress) -> None:
        on_progress(Progress("quantisation", 0.0, "reading the model"))
        self._task, self._tell = task, on_progress
        model = inline_functions(Model.load(task.model_path)).model
        samples = open_samples(task.samples_dir)
        self._tried = range(min(len(samples), max(1, task.tried_samples)))
        self._original = Model.load(task.float_path) if task.float_path is not None else None
        self._weights = float_weights(GraphView.of(model), self._original) if self._original is not None else {}
        self._run = QdqEvaluator(model, samples, self._weights)
        self._outputs = tuple(self._run.view.outputs)
        self._golden: list[dict[str, np.ndarray]] = []
        self._notes = list(self._run.found.notes)
        self._trials = 0

    def run(self) -> Examined:
        figures = self._figures()
        every = self._run.layers
        self._golden = [self._arrays((), sample) for sample in self._tried]
        if len(self._tried) < len(self._run.samples):
            self._notes.append(f"layers were tried on the first {len(self._tried)} of {len(self._run.samples)} samples")
        self._compare_with_original()
        quantised = self._error(every)
        layers = self._try_layers(quantised) if self._task.layers else ()
        keep, passes = self._search(layers) if self._task.check is not None else (None, None)
        self._say_what_is_unknown(figures)
        stored = check_scales(self._run.view)
        bad = {finding.node for finding in stored if finding.is_bad_scale}
        return Examined(
            pairs=pair_by_badness(figures),
            layers=layers,
            quantised=quantised,
            findings=(*stored, *judge_figures(f for f in figures if f.node not in bad)),
            samples=len(self._run.samples),
            keep_float=keep,
            passes=passes,
            fixed=self._write(keep),
            trials=self._trials,
            notes=tuple(self._notes),
        )

    def _figures(self) -> tuple[PairFigures, ...]:
        sums = [PairSum(pair) for pair in self._run.found.pairs]
        count = len(self._run.samples) * len(self._run.nodes)
        done = 0
        for sample in range(len(self._run.samples)):
            for node in self._run.measure(sums, sample):
                done += 1
                self._tell(Progress("quantisation", 0.4 * done / count, f"figures of {node}"))
        return tuple(pair_sum.figures() for pair_sum in sums)

    def _arrays(self, active: Collection[NodeId], sample: int) -> dict[str, np.ndarray]:
        made = self._run.run(active, sample, self._outputs)
        return {str(t): value for t, value in made.items() if isinstance(value, np.ndarray)}

    def _error(self, active: Collection[NodeId]) -> Error:
        """The worst output, its error summed over all samples."""
        sums = {name: ErrorSum() for name in self._golden[0]}
        for sample, golden in enumerate(self._golden):
            made = self._arrays(active, sample)
            for name, exact in golden.items():
                sums[name].add(exact, made.get(name))
        return max((s.error() for s in sums.values()), key=lambda error: error.badness, default=Error())

    def _try_layers(self, quantised: Error) -> tuple[LayerSensitivity, ...]:
        run, found = self._run, []
        for index, layer in enumerate(run.found.layers):
            self._tell(Progress("quantisation", 0.4 + 0.5 * index / len(run.layers), f"layer {layer.node}"))
            only = self._error((layer.node,))
            without = self._error([node for node in run.layers if node != layer.node])
            tensors = tuple(run.found.pairs[place].tensor for place in layer.pairs)
            gain = (
                without.snr_db - quantised.snr_db
                if without.snr_db is not None and quantised.snr_db is not None
                else None
            )
            op_type = run.view.nodes[layer.node].op_type
            found.append(LayerSensitivity(layer.node, op_type, tensors, only, without, gain))
        return tuple(sorted(found, key=lambda layer: layer.only.badness, reverse=True))

    def _search(self, layers: Sequence[LayerSensitivity]) -> tuple[tuple[NodeId, ...] | None, bool]:
        """The most sensitive layers in float, twice as many each time until the check passes; then without what is not needed."""
        order = [layer.node for layer in layers] or list(self._run.layers)
        tried: dict[frozenset[NodeId], bool] = {}

        def passes(kept: Collection[NodeId]) -> bool:
            key = frozenset(kept)
            if key not in tried:
                self._trials += 1
                self._tell(Progress("quantisation", None, f"try {self._trials}: {len(key)} layers in float"))
                tried[key] = self._passes([node for node in self._run.layers if node not in key])
            return tried[key]

        if passes(()):
            return (), True
        if not passes(order):
            self._notes.append(
                f"the check {self._task.check} fails with all layers in float too: quantisation is not its cause"
            )
            return None, False
        size = 1
        while not passes(order[:size]):
            size = min(2 * size, len(order))
        kept = set(shrink(order[:size], lambda nodes: passes(tuple(nodes))))
        return tuple(node for node in self._run.layers if node in kept), False

    def _passes(self, active: Collection[NodeId]) -> bool:
        assert self._task.check is not None
        made = [self._arrays(active, sample) for sample in range(len(self._golden))]
        return self._task.check.passes(made, self._golden)

    def _write(self, keep: tuple[NodeId, ...] | None) -> str | None:
        if not keep or self._task.fixed is None:
            return None
        done = dequantise(self._run.view.model, keep, weights=self._weights)
        self._notes += done.notes
        return str(done.model.save(Path(self._task.fixed)))

    def _compare_with_original(self) -> None:
        """Says so when the FP32 model is another network than the quantised one without its Q/DQ."""
        if self._original is None:
            return
        view = GraphView.of(self._original)
        shared = [t for t in self._golden[0] if t in view.outputs]
        if not shared or set(view.inputs) != set(self._run.view.inputs):
            self._notes.append(f"{self._original.name} has other inputs or outputs: only its weights were used")
            return
        exact = Evaluator(self._original, "fp16", self._run.samples)
        total = ErrorSum()
        for sample, golden in enumerate(self._golden):
            for tensor, value in exact.golden(sample, [TensorId(t) for t in shared]).items():
                total.add(value, golden[tensor])
        error = total.error()
        if error.broken or (error.snr_db is not None and error.snr_db < AGREES_DB):
            shown = f"{error.snr_db:.1f} dB" if error.snr_db is not None else f"{error.broken} values not finite"
            self._notes.append(
                f"without its Q/DQ this model is not {self._original.name} ({shown}): it was changed in other ways as well, "
                "which the figures do not show"
            )

    def _say_what_is_unknown(self, figures: Sequence[PairFigures]) -> None:
        unknown = [f for f in figures if f.kind != "activation" and f.local is None]
        if unknown:
            which = (
                "the FP32 model has no weights of these names" if self._original is not None else "give the FP32 model"
            )
            self._notes.append(
                f"{len(unknown)} weights and biases are stored as integers only ('{unknown[0].tensor}'): their own error is not "
                f"known, and stays in all figures; {which}"
            )
