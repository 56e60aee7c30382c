"""Runs the nodes of a model one by one, each in a small session of its own; equal nodes share one.

For searches that try thousands of precision plans: nothing is edited or built again between two of them, and
whoever calls decides what is rounded between the nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnxruntime as ort

from trt_lab.backends.onnxruntime.values import PACKED, Caller
from trt_lab.edit.extract import Kind, one_node, read_tensors
from trt_lab.errors import RunError
from trt_lab.graph import GraphView
from trt_lab.types import NodeId, TensorId

Value = Any
"""An array, or a list of arrays for a sequence; None for an empty optional."""


class NodeRunner:
    """Runs nodes of the main graph of `view` in FP32, as the reference does: unfused.

    Sessions are made when a node first runs. Not for several threads.
    """

    def __init__(self, view: GraphView) -> None:
        self._view = view
        self._known: dict[tuple[NodeId, tuple[Kind, ...]], _OneNode] = {}
        self._shared: dict[bytes, _OneNode] = {}

    def run(self, node: NodeId, values: Mapping[TensorId, Value]) -> list[Value]:
        """Values of the outputs that the node has, in its order; omitted ones are left out.

        Args:
            values: At least all that the node reads.

        Raises:
            RunError: ONNX Runtime refuses the node, or it fails.
        """
        reads = read_tensors(self._view.nodes[node])
        kinds = tuple(_kind(values[t]) for t in reads)
        held = self._known.get((node, kinds))
        try:
            if held is None:
                held = self._known[node, kinds] = self._open(node, dict(zip(reads, kinds, strict=True)))
            return held.run([values[t] for t, kind in zip(reads, kinds, strict=True) if kind[1] not in PACKED])
        except Exception as error:  # ONNX Runtime's errors have no common base
            text = " ".join(str(error).split())[:300]
            raise RunError(f"{self._view.model.name}: node '{node}' cannot be run by itself: {text}") from error

    def _open(self, node: NodeId, kinds: Mapping[TensorId, Kind]) -> _OneNode:
        fixed = [tensor for tensor, kind in kinds.items() if kind[1] in PACKED]
        serialized = one_node(self._view, node, kinds, fixed=fixed).SerializeToString(deterministic=True)
        if serialized not in self._shared:
            self._shared[serialized] = _OneNode(serialized)
        return self._shared[serialized]


class _OneNode:
    def __init__(self, serialized: bytes) -> None:
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = options.inter_op_num_threads = 1  # hundreds of sessions, so no pools of threads
        options.use_deterministic_compute = True
        options.enable_mem_pattern = False
        options.log_severity_level = 4
        self._session = ort.InferenceSession(serialized, options, providers=["CPUExecutionProvider"])
        self._names = [value.name for value in self._session.get_inputs()]
        kinds = [value.type for value in (*self._session.get_inputs(), *self._session.get_outputs())]
        self._caller = Caller(self._session) if all(kind.startswith("tensor(") for kind in kinds) else None

    def run(self, values: list[Value]) -> list[Value]:
        feeds = dict(zip(self._names, values, strict=True))
        if self._caller is None:
            return list(self._session.run(None, feeds))
        return list(self._caller.read(self._caller.call(self._caller.prepare(feeds))).values())


def _kind(value: Value) -> Kind:
    if isinstance(value, list):
        return "sequence", value[0].dtype if value else np.dtype(np.float32)
    return "tensor", np.asarray(value).dtype
