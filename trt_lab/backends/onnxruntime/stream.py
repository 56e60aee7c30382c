"""All tensors of a model that are larger together than memory: the reference, run part by part.

The model is cut along its order into parts whose tensors fit the limit. Each node runs once; what later parts
read is kept, all else is handed over and forgotten. The optimiser is off, so the numbers are those of one run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import onnxruntime as ort

from trt_lab.backends.onnxruntime.values import Caller
from trt_lab.edit.extract import read_tensors
from trt_lab.edit.lowering import is_weight
from trt_lab.edit.slices import Slicer, with_input_shapes
from trt_lab.errors import BuildError, RunError
from trt_lab.graph import GraphView
from trt_lab.model import Model
from trt_lab.types import NodeId, OnProgress, Progress, TensorId

CHUNK_BYTES = 32 << 20
"""Tensors of one part, unless another limit is given."""

_NOTHING = 4
"""Nothing is written to the error stream: errors are raised."""

_CANNOT_BE_FED = (None, "string", "int4", "uint4", "float4_e2m1fn")


@dataclass(frozen=True)
class Plan:
    """What a run of all tensors gives.

    Attributes:
        tensors: Those that nodes of the main graph make, in graph order; constants are left out.
        bytes: Size of each by inference; None where it cannot be told before the run.
        parts: Nodes of each part.
        notes: Tensors that are left out, and why.
    """

    tensors: tuple[TensorId, ...]
    bytes: Mapping[TensorId, int | None]
    parts: tuple[tuple[NodeId, ...], ...]
    notes: tuple[str, ...] = ()

    @property
    def total_bytes(self) -> int:
        """Sum of the sizes that are known."""
        return sum(size or 0 for size in self.bytes.values())

    @property
    def unknown(self) -> int:
        """Number of tensors whose size is not known."""
        return sum(size is None for size in self.bytes.values())


def plan_stream(model: Model, feeds: Mapping[str, np.ndarray], limit_bytes: int = CHUNK_BYTES) -> Plan:
    """Cuts the model into parts, with the sizes that inference finds for these inputs."""
    view = GraphView.of(model)
    sized = GraphView.of(with_input_shapes(model, {name: array.shape for name, array in feeds.items()}))
    nodes = [n for n in view.graphs[""].nodes if not any(t and is_weight(view, t) for t in view.nodes[n].outputs)]
    made = [t for node in nodes for t in view.nodes[node].outputs if t]
    typed = tuple(t for t in made if view.tensors[t].dtype is not None)
    sizes = {t: _bytes(sized, t) for t in typed}
    place = {node: index for index, node in enumerate(nodes)}
    uncut = _uncuttable(view, nodes, place)
    parts: list[tuple[NodeId, ...]] = []
    part: list[NodeId] = []
    held = 0
    for index, node in enumerate(nodes):
        size = sum(_guess(sizes, view, t) for t in view.nodes[node].outputs if t)
        if part and held + size > limit_bytes and index not in uncut:
            parts.append(tuple(part))
            part, held = [], 0
        part.append(node)
        held += size
    parts += [tuple(part)] if part else []
    notes = tuple(f"'{t}' left out: no tensor of a known type" for t in made if t not in sizes)
    return Plan(typed, sizes, tuple(parts), notes)


def stream(
    model: Model, feeds: Mapping[str, np.ndarray], plan: Plan, on_progress: OnProgress
) -> Iterator[tuple[TensorId, np.ndarray]]:
    """Runs the parts one after the other and gives every tensor of the plan, in graph order.

    Raises:
        BuildError, RunError: ONNX Runtime refused or failed; the message names the node.
        InputError: The inputs do not fit.
    """
    view, slicer = GraphView.of(model), Slicer(model)
    last = {t: index for index, part in enumerate(plan.parts) for node in part for t in read_tensors(view.nodes[node])}
    live: dict[TensorId, np.ndarray] = {t: feeds[view.tensors[t].name] for t in last if view.tensors[t].name in feeds}
    for index, part in enumerate(plan.parts):
        on_progress(Progress("run", index / len(plan.parts), f"part {index + 1} of {len(plan.parts)}"))
        wanted = [t for node in part for t in view.nodes[node].outputs if t and t in plan.bytes]
        outputs = _run_part(slicer, view, part, wanted, live)
        for tensor in wanted:
            array = outputs.pop(view.tensors[tensor].name)
            if last.get(tensor, -1) > index:
                live[tensor] = array
            yield tensor, array
            del array
        live = {t: array for t, array in live.items() if last[t] > index}
    on_progress(Progress("done", 1.0))


def _run_part(
    slicer: Slicer,
    view: GraphView,
    part: Sequence[NodeId],
    wanted: Sequence[TensorId],
    live: Mapping[TensorId, np.ndarray],
) -> dict[str, np.ndarray]:
    if not wanted:
        return {}
    feeds = {t: live[t] for t in slicer.inputs(part)}
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.enable_cpu_mem_arena = False  # the arena keeps what a part needed, and grows by doubling
    # Threads that wait by spinning take the processor from the one that writes.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = _NOTHING
    options.use_deterministic_compute = True
    try:
        session = ort.InferenceSession(slicer.cut(part, feeds, wanted), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's errors have no common base
        raise BuildError(f"{view.model.name}: {' '.join(str(error).split())[:400]}") from error
    caller = Caller(session)
    prepared = caller.prepare({view.tensors[t].name: array for t, array in feeds.items()})
    try:
        return caller.read(caller.call(prepared))
    except Exception as error:
        raise RunError(f"{view.model.name}: {' '.join(str(error).split())[:400]}") from error


def _bytes(sized: GraphView, tensor: TensorId) -> int | None:
    info = sized.tensors[tensor]
    if info.shape is None or info.dtype is None or info.dtype == "string":
        return None
    if not all(isinstance(size, int) and size >= 0 for size in info.shape):
        return None
    dtype = np.dtype(getattr(ml_dtypes, info.dtype)) if hasattr(ml_dtypes, info.dtype) else np.dtype(info.dtype)
    return math.prod(int(size) for size in info.shape if isinstance(size, int)) * dtype.itemsize


def _guess(sizes: Mapping[TensorId, int | None], view: GraphView, tensor: TensorId) -> int:
    """A tensor of unknown size is taken to be as large as the largest that its node reads."""
    known = sizes.get(tensor)
    producer = view.tensors[tensor].producer
    if known is not None or producer is None:
        return known or 0
    return max((sizes.get(t) or 0 for t in view.nodes[producer].inputs if t), default=0)


def _uncuttable(view: GraphView, nodes: Sequence[NodeId], place: Mapping[NodeId, int]) -> set[int]:
    """Places before which no cut may lie: what lives across and cannot be fed (a sequence, text among numbers, 4-bit types)."""
    made = {t: place[node] for node in nodes for t in view.nodes[node].outputs if t}
    blocked: set[int] = set()
    for node in nodes:
        for tensor in read_tensors(view.nodes[node]):
            if tensor in made and view.tensors[tensor].dtype in _CANNOT_BE_FED:
                blocked.update(range(made[tensor] + 1, place[node] + 1))
    return blocked
