"""Precision plans tried on the CPU without building anything: node by node, rounding where an engine would hold low numbers.

The rules are those of `edit.precision.emulate`: a low node rounds what it reads and what it makes, a kept node
neither. Values are remembered by what they were computed from, so a plan that differs from one tried before costs
only the part of the graph below the nodes that changed, and no more than that part down to where the numbers are equal again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from trt_lab.backends.onnxruntime.nodes import NodeRunner, Value
from trt_lab.edit.extract import read_tensors
from trt_lab.edit.inline import inline_functions
from trt_lab.edit.lowering import Candidate, candidates, constant_tensor, is_weight
from trt_lab.edit.opset import raise_for_bfloat16
from trt_lab.edit.schema import LowPrecision
from trt_lab.graph import GraphView
from trt_lab.model import Model
from trt_lab.types import NodeId, TensorId

REMEMBERED_BYTES = 1 << 30
"""Values of activations that are remembered; the oldest are dropped, and computed again when they are needed."""

LOW: dict[LowPrecision, np.dtype] = {"fp16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """A value with a number of its own: two values of one number are equal."""

    number: int
    value: Value

    @property
    def nbytes(self) -> int:
        """Size of an array; lists and nothing count as 0."""
        return self.value.nbytes if isinstance(self.value, np.ndarray) else 0


@dataclass(frozen=True, slots=True)
class NodeValues:
    """What one node read and made on one sample.

    Attributes:
        golden_inputs: What it reads, in FP32, by tensor; weights included.
        golden, low: What it makes when all is FP32, and when all is low.
        alone: What it makes in the low type from golden inputs; `golden` itself for a node that is never low.
    """

    node: NodeId
    golden_inputs: Mapping[TensorId, Value]
    golden: Mapping[TensorId, Value]
    low: Mapping[TensorId, Value]
    alone: Mapping[TensorId, Value]


class Evaluator:
    """Runs one model under any plan.

    Args:
        model: Local functions are inlined; `names` maps the nodes to those of the model given.
        low: The low type.
        samples: Inputs by name.

    Raises:
        EditError: Functions cannot be inlined. RunError: Weights are missing.
    """

    def __init__(
        self,
        model: Model,
        low: LowPrecision,
        samples: Sequence[Mapping[str, np.ndarray]],
        *,
        budget: int = REMEMBERED_BYTES,
    ) -> None:
        inlined = inline_functions(model)
        raised = raise_for_bfloat16(inlined.model).model if low == "bf16" else inlined.model
        self.view = GraphView.of(inlined.model)
        self.names: Mapping[NodeId, NodeId] = inlined.origin
        self.samples = samples
        self.nodes: tuple[NodeId, ...] = self.view.graphs[""].nodes
        self._low = LOW[low]
        found = candidates(raised, low)
        self.candidates: dict[NodeId, Candidate] = {n: found[n] for n in self.nodes if not found[n].reason}
        self.lowerable: tuple[NodeId, ...] = tuple(n for n in self.nodes if n in self.candidates)
        self._runner = NodeRunner(self.view)
        self._budget, self._used, self._next = budget, 0, 0
        self._known: OrderedDict[tuple[NodeId, bool, tuple[int, ...]], tuple[Held, ...]] = OrderedDict()
        self._newest: dict[NodeId, list[tuple[Held, ...]]] = {}
        self._rounded: dict[int, Held] = {}
        self._weights: dict[TensorId, Held] = {}
        self._weight_numbers: set[int] = set()
        self._fed: dict[tuple[int, TensorId], Held] = {}
        self.runs = 0
        """Nodes run so far."""
        for tensor in self.view.tensors:
            if is_weight(self.view, tensor) or self.view.tensors[tensor].role == "initializer":
                source = constant_tensor(self.view.ir_value(tensor)) if not self.view.tensors[tensor].graph else None
                if source is not None:
                    self._weights[tensor] = self._hold(source.numpy())
        self._weight_numbers = {held.number for held in self._weights.values()}

    # --- plans -----------------------------------------------------------------------------

    def outputs(
        self, keep: Collection[NodeId], sample: int, wanted: Sequence[TensorId] | None = None
    ) -> dict[TensorId, np.ndarray]:
        """Outputs of the model (or tensors `wanted`) on one sample, with `keep` in FP32 and the others low.

        Raises:
            RunError: A node fails.
        """
        kept = set(keep)
        low = {node for node in self.candidates if node not in kept}
        names = tuple(wanted) if wanted is not None else self.view.outputs
        values = self._start(sample)
        for node in self._needed(names):
            self._step(node, node in low, values)
        return {name: values[name].value for name in names}

    def cut(
        self, nodes: Collection[NodeId], sample: int, wanted: Sequence[TensorId], golden: Mapping[TensorId, Value]
    ) -> dict[TensorId, np.ndarray]:
        """Tensors made by low `nodes` alone, all else that they read being `golden`."""
        values = dict(self._weights)
        for tensor, value in golden.items():
            values[tensor] = self._feed(sample, tensor, value)
        for node in self.nodes:
            if node in nodes:
                self._step(node, node in self.candidates, values)
        return {name: values[name].value for name in wanted}

    def sweep(self, sample: int) -> Iterator[NodeValues]:
        """All nodes in graph order: golden, accumulated and alone."""
        golden, low = self._start(sample), self._start(sample)
        last = self._last_readers()
        for node in self.nodes:
            info = self.view.nodes[node]
            is_low = node in self.candidates
            exact = self._step(node, False, golden)
            wrong = self._step(node, is_low, low)
            alone = exact
            if is_low:
                alone = self._made(node, True, golden)
            made = [t for t in info.outputs if t]
            yield NodeValues(
                node,
                {t: golden[t].value for t in read_tensors(info)},
                {t: h.value for t, h in zip(made, exact, strict=True)},
                {t: h.value for t, h in zip(made, wrong, strict=True)},
                {t: h.value for t, h in zip(made, alone, strict=True)},
            )
            for tensor in last.get(node, ()):
                golden.pop(tensor, None)
                low.pop(tensor, None)

    def golden(self, sample: int, wanted: Sequence[TensorId]) -> dict[TensorId, np.ndarray]:
        """Tensors of the reference; inputs and weights too."""
        return self.outputs(self.nodes, sample, wanted)

    def ancestors(self, tensor: TensorId) -> tuple[NodeId, ...]:
        """Nodes that `tensor` depends on, the one that makes it last."""
        return self._needed((tensor,))

    # --- inside ----------------------------------------------------------------------------

    def _start(self, sample: int) -> dict[TensorId, Held]:
        values = dict(self._weights)
        feeds = self.samples[sample]
        for tensor in self.view.inputs:
            values[tensor] = self._feed(sample, tensor, feeds[self.view.tensors[tensor].name])
        return values

    def _feed(self, sample: int, tensor: TensorId, value: Value) -> Held:
        held = self._fed.get((sample, tensor))
        if held is None or not same_bits(held.value, value):
            held = self._fed[sample, tensor] = self._hold(value)
        return held

    def _hold(self, value: Value) -> Held:
        self._next += 1
        return Held(self._next, value)

    def _needed(self, wanted: Sequence[TensorId]) -> tuple[NodeId, ...]:
        reached: set[NodeId] = set()
        waiting = [p for t in wanted if (p := self.view.tensors[t].producer) is not None]
        while waiting:
            node = waiting.pop()
            if node in reached:
                continue
            reached.add(node)
            for tensor in read_tensors(self.view.nodes[node]):
                producer = self.view.tensors[tensor].producer
                if producer is not None and tensor not in self._weights:
                    waiting.append(producer)
        return tuple(node for node in self.nodes if node in reached)

    def _last_readers(self) -> dict[NodeId, list[TensorId]]:
        last: dict[TensorId, NodeId] = {}
        for node in self.nodes:
            for tensor in read_tensors(self.view.nodes[node]):
                last[tensor] = node
        found: dict[NodeId, list[TensorId]] = {}
        for tensor, node in last.items():
            if tensor not in self._weights:
                found.setdefault(node, []).append(tensor)
        return found

    def _step(self, node: NodeId, low: bool, values: dict[TensorId, Held]) -> tuple[Held, ...]:
        made = self._made(node, low, values)
        values.update(zip((t for t in self.view.nodes[node].outputs if t), made, strict=True))
        return made

    def _made(self, node: NodeId, low: bool, values: Mapping[TensorId, Held]) -> tuple[Held, ...]:
        info = self.view.nodes[node]
        reads = read_tensors(info)
        key = (node, low, tuple(values[t].number for t in reads))
        known = self._known.get(key)
        if known is not None:
            self._known.move_to_end(key)
            return known
        only = info.outputs[0] if len(info.outputs) == 1 and not reads else None
        if only is not None and only in self._weights:
            made: tuple[Held, ...] = (self._weights[only],)
        else:
            made = self._same_as_before(node, self._run(node, low, values))
        self._known[key] = made
        self._used += sum(held.nbytes for held in made)
        while self._used > self._budget and len(self._known) > 1:
            oldest, dropped = self._known.popitem(last=False)
            self._newest.pop(oldest[0], None)
            self._used -= sum(held.nbytes for held in dropped)
            for held in dropped:
                self._rounded.pop(held.number, None)
        return made

    def _run(self, node: NodeId, low: bool, values: Mapping[TensorId, Held]) -> list[Value]:
        self.runs += 1
        info = self.view.nodes[node]
        reads = read_tensors(info)
        if not low:
            return self._runner.run(node, {t: values[t].value for t in reads})
        candidate = self.candidates[node]
        if info.op_type == "Cast" and not info.domain and not candidate.reads and info.inputs[0] is not None:
            source = values[info.inputs[0]].value
            if isinstance(source, np.ndarray) and source.dtype.kind in "biuf":
                return [self._round(source)]  # once, as the engine does: integer → FP16, and not integer → FP32 → FP16
        fed = {t: values[t].value for t in reads}
        for index in candidate.reads:
            tensor = info.inputs[index]
            if tensor is not None:
                fed[tensor] = self._round_held(values[tensor]).value
        results = self._runner.run(node, fed)
        written = [i for i, t in enumerate(info.outputs) if t]
        return [
            self._round(result) if place in candidate.writes else result
            for place, result in zip(written, results, strict=True)
        ]

    def _same_as_before(self, node: NodeId, results: list[Value]) -> tuple[Held, ...]:
        """The values held already where this node made the same bits before, so that all below it is known."""
        newest = self._newest.setdefault(node, [])
        for held in newest:
            if len(held) == len(results) and all(same_bits(h.value, r) for h, r in zip(held, results, strict=True)):
                return held
        made = tuple(self._hold(result) for result in results)
        newest.append(made)
        del newest[: -2 * max(1, len(self.samples))]
        return made

    def _round(self, value: Value) -> Value:
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "biuf":
            return value
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # infinity is the faithful answer
            return value.astype(self._low).astype(np.float32)

    def _round_held(self, held: Held) -> Held:
        known = self._rounded.get(held.number)
        if known is None:
            rounded = self._round(held.value)
            known = held if same_bits(rounded, held.value) else self._hold(rounded)
            if held.number in self._weight_numbers or known is held:
                self._rounded[held.number] = known
        return known


def same_bits(a: Value, b: Value) -> bool:
    """Whether two values are equal bit by bit, so that NaN equals itself and −0 is not 0."""
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        return False
    if a is b:
        return True
    if a.dtype != b.dtype or a.shape != b.shape or a.dtype.hasobject:
        return False
    if not (a.flags.c_contiguous and b.flags.c_contiguous) or a.size == 0:
        return bool(a.size == 0 or a.tobytes() == b.tobytes())
    width = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}.get(a.dtype.itemsize)
    if width is None:
        return a.tobytes() == b.tobytes()
    return bool(np.array_equal(a.reshape(-1).view(width), b.reshape(-1).view(width)))
