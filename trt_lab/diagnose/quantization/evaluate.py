"""A quantised model run layer by layer on the CPU, with any of its layers reading float numbers instead.

QuantizeLinear and DequantizeLinear are run as they are, each node by itself in ONNX Runtime. Nothing is edited between
two tries: a layer that is not quantised is handed the float tensor in place of the dequantised one.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from trt_lab.backends.onnxruntime.nodes import Value
from trt_lab.diagnose.evaluate import Evaluator, Held
from trt_lab.diagnose.quantization.measure import PairSum
from trt_lab.edit.extract import read_tensors
from trt_lab.edit.lowering import is_weight
from trt_lab.edit.qdq import find_qdq
from trt_lab.errors import UsageError
from trt_lab.model import Model
from trt_lab.types import NodeId, TensorId


class QdqEvaluator(Evaluator):
    """Runs one quantised model.

    Args:
        samples: Inputs by name.
        weights: Dequantised tensor → float values, where they are known though the file stores integers.

    Raises:
        UsageError: The model has no Q/DQ.
    """

    def __init__(
        self,
        model: Model,
        samples: Sequence[Mapping[str, np.ndarray]],
        weights: Mapping[TensorId, np.ndarray] | None = None,
    ) -> None:
        super().__init__(model, "fp16", samples)  # the low type is never used: no node is lowered here
        self.candidates, self.lowerable = {}, ()
        self.found = find_qdq(self.view)
        if not self.found.layers:
            raise UsageError(
                f"{model.name} has no Q/DQ pairs, so there is nothing to measure; make some with trt-lab quantize MODEL -o OUT"
            )
        self.layers: tuple[NodeId, ...] = tuple(layer.node for layer in self.found.layers)
        self._dequantizes = {node for pair in self.found.pairs for node in pair.dequantizes}
        self._reads = {layer.node: layer.reads for layer in self.found.layers}
        self._known_weights = {t: self._hold(np.ascontiguousarray(a)) for t, a in (weights or {}).items()}

    def run(
        self, active: Collection[NodeId], sample: int, wanted: Sequence[TensorId] | None = None
    ) -> dict[TensorId, Value]:
        """Outputs of the model (or `wanted`) on one sample, with `active` layers quantised and the others in float."""
        chosen = set(active)
        names = tuple(wanted) if wanted is not None else self.view.outputs
        values = self._start(sample)
        for node in self._needed(names):
            self._step(node, node in chosen, values)
        return {t: self._given_out(t, chosen, values).value for t in names}

    def measure(self, sums: Sequence[PairSum], sample: int) -> Iterator[NodeId]:
        """Adds one sample to the figures of all pairs; gives the nodes as they are done."""
        exact, wrong = self._start(sample), self._start(sample)
        due: dict[NodeId, list[PairSum]] = {}
        for pair_sum in sums:
            due.setdefault(pair_sum.pair.dequantizes[0], []).append(pair_sum)
        last = self._last_uses()
        every = set(self.layers)
        for node in self.nodes:
            self._step_both(node, node in every, exact, wrong)
            for pair_sum in due.get(node, ()):
                self._add(pair_sum, sample, exact, wrong)
            for tensor in last.get(node, ()):
                exact.pop(tensor, None)
                wrong.pop(tensor, None)
            yield node
        self._fed.clear()  # there may be hundreds of samples, each looked at once

    # --- inside ----------------------------------------------------------------------------

    def _step(self, node: NodeId, low: bool, values: dict[TensorId, Held]) -> tuple[Held, ...]:
        """Runs a node; `low` says whether it reads its quantised tensors."""
        made = self._made(node, False, self._reading(node, low, values))
        values.update(zip((t for t in self.view.nodes[node].outputs if t), made, strict=True))
        return made

    def _step_both(
        self, node: NodeId, quantised: bool, exact: dict[TensorId, Held], wrong: dict[TensorId, Held]
    ) -> None:
        """Runs a node in float and quantised without remembering the values, once where it reads the same."""
        outputs = [t for t in self.view.nodes[node].outputs if t]
        reads = read_tensors(self.view.nodes[node])
        if all(t in self._weights for t in reads):
            self._step(node, False, exact)
            wrong.update((t, exact[t]) for t in outputs)
            return
        given = self._reading(node, False, exact), self._reading(node, quantised, wrong)
        made = [self._hold(result) for result in self._run(node, False, given[0])]
        exact.update(zip(outputs, made, strict=True))
        if any(given[0][t].number != given[1][t].number for t in reads):
            made = [self._hold(result) for result in self._run(node, False, given[1])]
        wrong.update(zip(outputs, made, strict=True))

    def _reading(self, node: NodeId, quantised: bool, values: dict[TensorId, Held]) -> Mapping[TensorId, Held]:
        """What a node is handed."""
        if quantised or node not in self._reads or node in self._dequantizes:
            return values
        floats = {t: held for t in self._reads[node] if (held := self._float(t, values)) is not None}
        return ChainMap(floats, values)

    def _float(self, tensor: TensorId, values: Mapping[TensorId, Held]) -> Held | None:
        """What a dequantised tensor stands for; None where only the integers are known."""
        source = self.found.floats.get(tensor)
        return values[source] if source is not None else self._known_weights.get(tensor)

    def _given_out(self, tensor: TensorId, active: set[NodeId], values: Mapping[TensorId, Held]) -> Held:
        """An output: a DequantizeLinear that makes one is a layer of its own."""
        maker = self.view.tensors[tensor].producer
        if maker is not None and maker in self._reads and maker in self._dequantizes and maker not in active:
            return self._float(tensor, values) or values[tensor]
        return values[tensor]

    def _last_uses(self) -> dict[NodeId, list[TensorId]]:
        """Where each tensor is used last, float tensors behind Q/DQ included."""
        last: dict[TensorId, NodeId] = {}
        place = {node: index for index, node in enumerate(self.nodes)}
        for node in self.nodes:
            for tensor in read_tensors(self.view.nodes[node]):
                for used in (tensor, self.found.floats.get(tensor)):
                    if used is not None:
                        last[used] = node
        for pair in self.found.pairs:
            source = self.found.floats.get(pair.restored[0])
            if source is not None:
                last[source] = max(last[source], pair.dequantizes[0], key=place.__getitem__)
        found: dict[NodeId, list[TensorId]] = {}
        for tensor, node in last.items():
            if not is_weight(self.view, tensor):
                found.setdefault(node, []).append(tensor)
        return found

    def _add(
        self, pair_sum: PairSum, sample: int, exact: Mapping[TensorId, Held], wrong: Mapping[TensorId, Held]
    ) -> None:
        pair = pair_sum.pair
        restored = pair.restored[0]
        held = self._float(restored, exact)
        if pair.kind != "activation":
            if sample:
                return  # a weight is the same on all samples
            if held is None:
                pair_sum.add_restored(exact[restored].value)
            else:
                pair_sum.add_values(held.value)
                pair_sum.local.add(held.value, exact[restored].value)
            pair_sum.add_codes(exact[pair.codes].value)
            return
        assert held is not None and pair.source is not None
        pair_sum.add_values(held.value)
        pair_sum.add_codes(wrong[pair.codes].value)
        reached = wrong[self.found.floats[restored]]
        pair_sum.add_errors(held.value, exact[restored].value, reached.value, wrong[restored].value)
