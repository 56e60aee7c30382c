"""What the node card says of a node, tensor or scope."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from trt_lab.edit.probe import find_tensor
from trt_lab.errors import EditError
from trt_lab.graph.view import GraphView
from trt_lab.types import NodeId, NodeInfo, TensorId, TensorInfo, TensorStats
from trt_lab.widgets.graph_scene import crumbs_to, shape_text, type_text
from trt_lab.widgets.graph_sight import Sight
from trt_lab.wire import Card, CardFact, CardTensor, Mark

PREVIEW_ELEMENTS = 1_000_000
"""Constants larger than this are not summarised: it would take time and tell little."""


@dataclass(frozen=True)
class Known:
    """What is known besides the graph.

    Attributes:
        stats: Newest diff, by tensor.
        layers: Lines about the engine layers that each node went into.
        sight: What a probe does to the engine, by tensor.
        locked: Why nothing can be probed or kept here; "" where it can.
    """

    probes: Collection[str] = ()
    kept: Collection[str] = ()
    stats: Mapping[str, TensorStats] = field(default_factory=dict)
    layers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    sight: Mapping[str, Sight] = field(default_factory=dict)
    locked: str = ""


def make_card(view: GraphView, item: str, known: Known) -> Card:
    """The card of a node, tensor or scope.

    Raises:
        ModelError: There is no such thing.
    """
    if item in view.nodes:
        return _node_card(view, view.nodes[NodeId(item)], known)
    if item in view.tensors:
        return _tensor_card(view, view.tensors[TensorId(item)], known)
    inside = [node for node in view.nodes.values() if f"{node.scope}/".startswith(f"{item}/")]
    if not inside and "/[" in item:
        return Card(id=item, what="scope", title=item.rpartition("/")[2], subtitle="neighbours in graph order")
    if not item or not inside:
        view.node(item)  # raises, naming close ones
    return _scope_card(item, inside, known)


def figure_of(stats: TensorStats) -> str:
    """The one figure that says most: NaN and infinities first, then the largest difference."""
    if stats.nan_only_a:
        return f"{stats.nan_only_a} NaN"
    if stats.inf_mismatch:
        return f"{stats.inf_mismatch} Inf"
    if stats.note:
        return stats.note
    return "" if stats.max_abs is None else f"max abs {stats.max_abs:.3g}"


def _node_card(view: GraphView, node: NodeInfo, known: Known) -> Card:
    facts = [CardFact(name=name, value=value) for name, value in node.attributes.items()]
    if node.domain:
        facts.insert(0, CardFact(name="domain", value=node.domain))
    if node.scope:
        facts.append(CardFact(name="scope", value=node.scope))
    outputs = [_tensor(view, tensor, known, ends="consumers") for tensor in node.outputs if tensor is not None]
    read = dict.fromkeys(tensor for tensor in (*node.inputs, *node.captures) if tensor is not None)
    inputs = [_tensor(view, tensor, known, ends="producer") for tensor in read]
    return Card(
        id=node.id,
        what="node",
        title=node.op_type,
        subtitle=node.id,
        made_up=not node.name,
        facts=facts,
        inputs=inputs,
        outputs=outputs,
        layers=list(known.layers.get(node.id, ())),
        nested=[crumbs_to(view, path)[-1] for path in node.subgraphs],
        can_keep=node.graph == "" and not known.locked,
        kept=node.id in known.kept,
    )


def _tensor_card(view: GraphView, tensor: TensorInfo, known: Known) -> Card:
    kinds = {"input": "model input", "initializer": "constant", "intermediate": "tensor"}
    title = "model output" if tensor.is_output and tensor.role == "intermediate" else kinds[tensor.role]
    ends = "consumers" if tensor.producer is None else "both"
    return Card(
        id=tensor.id,
        what="tensor",
        title=title.capitalize(),
        subtitle=tensor.id,
        outputs=[_tensor(view, tensor.id, known, ends=ends)],
    )


def _scope_card(path: str, inside: Sequence[NodeInfo], known: Known) -> Card:
    counts: dict[str, int] = {}
    for node in inside:
        counts[node.op_type] = counts.get(node.op_type, 0) + 1
    listed = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    facts = [CardFact(name="nodes", value=str(len(inside)))]
    facts += [CardFact(name=op, value=str(count)) for op, count in listed[:12]]
    made = [tensor for node in inside for tensor in node.outputs if tensor is not None]
    seen = [known.sight[tensor].safe for tensor in made if tensor in known.sight]
    if seen:
        facts.append(CardFact(name="safe to probe", value=f"{sum(seen)} of {len(seen)} tensors"))
    probed = sum(tensor in known.probes for tensor in made)
    if probed:
        facts.append(CardFact(name="probed tensors", value=str(probed)))
    return Card(id=path, what="scope", title=path.rpartition("/")[2], subtitle=path, facts=facts)


def _tensor(view: GraphView, tensor_id: TensorId, known: Known, *, ends: str) -> CardTensor:
    tensor = view.tensors[tensor_id]
    stats = known.stats.get(tensor_id)
    verdict: Mark = stats.verdict if stats is not None else "none"
    others: list[NodeId] = []
    if ends in ("producer", "both") and tensor.producer is not None:
        others.append(tensor.producer)
    if ends in ("consumers", "both"):
        others += tensor.consumers[:8]
    refusal = _refusal(view, tensor)
    seen = None if refusal else known.sight.get(tensor_id)
    constant = _constant(view, tensor_id) if tensor.role == "initializer" else ""
    return CardTensor(
        id=tensor.id,
        name=tensor.name,
        type=f"{type_text(tensor)}{constant}",
        declared=shape_text(tensor.declared_shape) if tensor.declared_shape is not None else None,
        role="output" if tensor.is_output else tensor.role,
        other_ends=[str(node) for node in others],
        probed=tensor_id in known.probes,
        refusal=refusal,
        can_probe=not known.locked,
        safe=seen.safe if seen is not None else None,
        sight=seen.text if seen is not None else "",
        verdict=verdict,
        figure=figure_of(stats) if stats is not None else "",
    )


def _refusal(view: GraphView, tensor: TensorInfo) -> str:
    if tensor.role == "initializer":
        return ""
    try:
        find_tensor(view, tensor.id)
    except EditError as error:
        return str(error)
    return ""


def _constant(view: GraphView, tensor: TensorId) -> str:
    """Values of a small constant, range of a larger one."""
    shape = view.tensors[tensor].shape
    if shape is None or not all(isinstance(size, int) for size in shape):
        return ""
    if int(np.prod([size for size in shape if isinstance(size, int)], dtype=np.int64)) > PREVIEW_ELEMENTS:
        return ""
    stats = view.initializer_stats(tensor)
    if stats is None:
        return ""
    if stats.count <= len(stats.preview):
        return f" · {', '.join(stats.preview)}" if stats.preview else ""
    if stats.minimum is None or stats.maximum is None:
        return ""
    return f" · {stats.minimum:.3g} to {stats.maximum:.3g}"
