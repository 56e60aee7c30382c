"""Whether looking changed the engine: the clean engine against the one with probes in it.

A probe breaks fusion, and fusion decides precision. A probe is *perturbing* when a layer of the clean engine is split or
merged, a tensor has another type, or the final outputs moved beyond tolerance; else it is *neutral*. Layers that only
change type or layout (reformats) and layers of the probes themselves do not count. Kernels that were
chosen anew without any of this are listed, and do not count either: the outputs tell whether they matter.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from trt_lab.compare.sides import Comparison, compare_sides, open_side
from trt_lab.engine_nodes import is_reformat
from trt_lab.graph.view import GraphView
from trt_lab.record import Record
from trt_lab.types import JsonValue, LayerInfo, NodeId, TensorId, Tolerance

Effect: TypeAlias = Literal["neutral", "perturbing", "unknown"]

_MYELIN = re.compile(r"_myl\d+_\d+$")
_MYELIN_TENSOR = re.compile(r"(?:\.\d+)?(?:_\d+)?_myl\d+$")


@dataclass(frozen=True, slots=True)
class LayerChange:
    """A clean layer that is not in the probed engine as it was.

    Attributes:
        kind: `split` into several; `merged` with more nodes; `gone` where nothing is known of its nodes.
        layer: Its name in the clean engine.
        into: Names of the probed engine's layers that hold its nodes.
    """

    kind: Literal["split", "merged", "gone"]
    layer: str
    into: tuple[str, ...] = ()
    nodes: tuple[NodeId, ...] = ()


@dataclass(frozen=True, slots=True)
class TypeChange:
    """A tensor between layers that both engines have, or what a layer reads, in another type.

    Attributes:
        tensor: Name of the tensor, or of the layer that reads other types than it did.
    """

    tensor: str
    clean: str
    probed: str


@dataclass(frozen=True)
class Observation:
    """What the probes did to the engine.

    Attributes:
        effect: `perturbing` when the probed engine is not the engine in question any more.
        by_probe: Effect of each probe, as far as a change can be traced to one; else all share it.
        layers_clean, layers_probed: Numbers of layers, reformats included.
        changes, types, tactics: What is different; tactics by layer name.
        outputs: Final outputs of the probed engine against the clean one; None when they were not recorded.
        neutral_tensors: Proposal: tensors that can be seen without splitting a layer.
        hidden: Tensors that cannot be seen without changing the engine; told where it is perturbing.
        instead: Perturbing probe → the closest neutral tensors before and behind it, in graph order.
        reason: Why nothing is known, or nothing is to be known.
    """

    effect: Effect
    by_probe: Mapping[str, Effect]
    layers_clean: int
    layers_probed: int
    changes: tuple[LayerChange, ...] = ()
    types: tuple[TypeChange, ...] = ()
    tactics: tuple[str, ...] = ()
    outputs: Comparison | None = None
    neutral_tensors: tuple[TensorId, ...] = ()
    hidden: tuple[TensorId, ...] = ()
    instead: Mapping[str, tuple[TensorId, ...]] = field(default_factory=dict)
    reason: str = ""

    @property
    def moved(self) -> float | None:
        """Largest difference of the final outputs; None when it is not known or not finite."""
        if self.outputs is None:
            return None
        broken = any(s.nan_only_a or s.nan_only_b or s.inf_mismatch for s in self.outputs.tensors)
        figures = [s.max_abs for s in self.outputs.tensors if s.max_abs is not None]
        return None if broken or not figures else max(figures)

    @property
    def sentence(self) -> str:
        """One line for a report."""
        if self.reason:
            return f"{self.effect}: {self.reason}"
        parts = [f"{self.layers_clean} layers without probes, {self.layers_probed} with"]
        parts += [f"{c.layer} {c.kind}" + (f" into {' | '.join(c.into)}" if c.into else "") for c in self.changes[:3]]
        if len(self.changes) > 3:
            parts.append(f"{len(self.changes) - 3} more layers changed")
        parts += [f"{t.tensor} {t.clean} → {t.probed}" for t in self.types[:3]]
        if len(self.types) > 3:
            parts.append(f"{len(self.types) - 3} more types changed")
        if self.outputs is not None:
            exact = all(stats.exact for stats in self.outputs.tensors)
            moved = "by more than numbers can say" if self.moved is None else f"by at most {self.moved:.3g}"
            parts.append("outputs bit-identical" if exact else f"outputs moved {moved}")
        return f"{self.effect}: " + "; ".join(parts)

    def as_json(self) -> dict[str, JsonValue]:
        """For `--json`; undefined is null."""
        return {
            "verdict": self.effect,
            "split": [c.layer for c in self.changes],
            "types_changed": [f"{t.tensor}: {t.clean} → {t.probed}" for t in self.types],
            "moved": self.moved,
            "reason": self.reason,
            "sentence": self.sentence,
            "effect": self.effect,
            "by_probe": dict(self.by_probe),
            "layers_clean": self.layers_clean,
            "layers_probed": self.layers_probed,
            "changes": [
                {"kind": c.kind, "layer": c.layer, "into": list(c.into), "nodes": [str(n) for n in c.nodes]}
                for c in self.changes
            ],
            "types": [{"tensor": t.tensor, "clean": t.clean, "probed": t.probed} for t in self.types],
            "tactics_changed": list(self.tactics),
            "outputs_verdict": self.outputs.verdict if self.outputs is not None else None,
            "outputs_max_abs": self.moved,
            "neutral_tensors": [str(tensor) for tensor in self.neutral_tensors],
            "hidden_tensors": [str(tensor) for tensor in self.hidden],
            "instead": {probe: [str(tensor) for tensor in tensors] for probe, tensors in self.instead.items()},
        }


def observe_records(
    clean: Record,
    probed: Record,
    *,
    view: GraphView | None = None,
    tolerance: Tolerance | None = None,
    outputs: bool = True,
) -> Observation:
    """Compares a record without probes with one with probes, outputs included.

    Args:
        clean, probed: Of the same model and options, on the same samples.
        view: The model's graph, to trace changes to probes and to propose neutral tensors.
        tolerance: How far the outputs may move; default `Tolerance()`.
        outputs: Whether both ran on the same samples, so that their outputs can be compared.

    Raises:
        RecordError: A record is damaged. CompareError: They have no output in common.
    """
    moved = None
    if outputs and clean.samples and probed.samples and clean.ok and probed.ok:
        compared = compare_sides(open_side(probed), open_side(clean), tolerance=tolerance)
        own = {str(t) for t in view.outputs} if view is not None else set()
        moved = compared.restricted({name for name in clean.outputs(0) if name in own or name not in clean.meta.probes})
    return observe(clean.layers, probed.layers, probes=probed.meta.probes, view=view, outputs=moved)


def observe(
    clean: Sequence[LayerInfo],
    probed: Sequence[LayerInfo],
    *,
    probes: Iterable[str] = (),
    view: GraphView | None = None,
    outputs: Comparison | None = None,
) -> Observation:
    """Compares the layers of two engines, and the outputs where they are given (a: probed, b: clean)."""
    changes = _layer_changes(clean, probed)
    types = _type_changes(clean, probed)
    moved = outputs is not None and outputs.verdict == "differs"
    effect: Effect = "perturbing" if changes or types or moved else "neutral"
    by_probe = _by_probe(list(probes), changes, effect, view)
    return Observation(
        effect=effect,
        by_probe=by_probe,
        layers_clean=len(clean),
        layers_probed=len(probed),
        changes=changes,
        types=types,
        tactics=_tactic_changes(clean, probed),
        outputs=outputs,
        neutral_tensors=safe_to_probe(clean, view) if view is not None and effect == "perturbing" else (),
        hidden=hidden_tensors(clean, view) if view is not None and effect == "perturbing" else (),
        instead=_instead(by_probe, clean, view) if view is not None else {},
    )


def safe_to_probe(layers: Sequence[LayerInfo], view: GraphView) -> tuple[TensorId, ...]:
    """Tensors of the main graph that exist between layers of an engine, in graph order: seeing them splits none.

    A prediction: only a build with the probe in it proves it (`observe`).
    """
    made = {tensor.name for layer in layers for tensor in layer.outputs}
    mangled = {_mangled(_MYELIN_TENSOR.sub("", name)) for name in made if _MYELIN_TENSOR.search(name)}
    found = [
        tensor
        for tensor, info in view.tensors.items()
        if not info.graph and info.producer is not None and (str(tensor) in made or _mangled(tensor) in mangled)
    ]
    return tuple(sorted(found, key=view.order))


def hidden_tensors(layers: Sequence[LayerInfo], view: GraphView) -> tuple[TensorId, ...]:
    """Tensors of the main graph that live inside a layer: they cannot be seen without changing the engine."""
    safe = set(safe_to_probe(layers, view))
    found = [
        t for t, info in view.tensors.items()
        if not info.graph and info.producer is not None and t not in safe and view.nodes[info.producer].op_type != "Constant"
    ]  # fmt: skip
    return tuple(sorted(found, key=view.order))


def nearest_safe(
    tensor: TensorId, layers: Sequence[LayerInfo], view: GraphView
) -> tuple[tuple[TensorId, ...], tuple[TensorId, ...]]:
    """The closest neutral tensors before and behind a tensor: what to probe in its place."""
    safe = set(safe_to_probe(layers, view))
    return _walk(tensor, safe, view, back=True), _walk(tensor, safe, view, back=False)


def _instead(
    by_probe: Mapping[str, Effect], layers: Sequence[LayerInfo], view: GraphView
) -> dict[str, tuple[TensorId, ...]]:
    """What to probe in place of the perturbing probes that do not lie between layers."""
    safe = set(safe_to_probe(layers, view))
    found = {}
    for probe, effect in by_probe.items():
        tensor = TensorId(probe)
        if effect == "perturbing" and tensor in view.tensors and tensor not in safe:
            before, behind = nearest_safe(tensor, layers, view)
            found[probe] = (*before, *(near for near in behind if near not in before))
    return found


def _mangled(name: str) -> str:
    """A tensor name as Myelin writes it."""
    return re.sub(r"[^\w/]", "_", name)


def _walk(start: TensorId, safe: set[TensorId], view: GraphView, *, back: bool) -> tuple[TensorId, ...]:
    found: dict[TensorId, None] = {}
    seen, queue = {start}, [start]
    while queue:
        info = view.tensors[queue.pop(0)]
        if back:
            near = view.nodes[info.producer].inputs if info.producer is not None else ()
        else:
            near = tuple(t for node in info.consumers for t in view.nodes[node].outputs)
        for tensor in near:
            if tensor is None or tensor in seen or tensor not in view.tensors:
                continue
            seen.add(tensor)
            if tensor in safe:
                found[tensor] = None
            elif view.tensors[tensor].role == "intermediate":
                queue.append(tensor)
    return tuple(sorted(found, key=view.order))


def _is_core(layer: LayerInfo) -> bool:
    """A layer that computes: no reformat, no constant, no rounding of the emulation."""
    rounding = layer.type == "Cast" and "(emulated)" in (layer.precision or "")
    return not is_reformat(layer) and layer.type != "Constant" and not rounding


def _signature(layer: LayerInfo, known: set[NodeId]) -> tuple[str, frozenset[str]]:
    """Equal for the same layer in both engines: its nodes and, where several layers share them, its name without Myelin's number."""
    return _MYELIN.sub("", layer.name) if layer.nodes_from != "metadata" else "", frozenset(
        n for n in layer.nodes if n in known
    )


def _layer_changes(clean: Sequence[LayerInfo], probed: Sequence[LayerInfo]) -> tuple[LayerChange, ...]:
    known = {node for layer in clean for node in layer.nodes}
    there = [layer for layer in probed if _is_core(layer)]
    left = Counter(_signature(layer, known) for layer in there)
    names = Counter(_MYELIN.sub("", layer.name) for layer in there)
    changes = []
    for layer in clean:
        if not _is_core(layer):
            continue
        signature, name = _signature(layer, known), _MYELIN.sub("", layer.name)
        if left[signature] or (not layer.nodes and names[name]):
            left[signature] -= 1
            names[name] -= 1
            continue
        nodes = set(layer.nodes)
        holders = [other for other in there if nodes & set(other.nodes)]
        if not holders:
            kind: Literal["split", "merged", "gone"] = "gone"
        else:
            kind = "merged" if any(nodes <= set(other.nodes) for other in holders) else "split"
        changes.append(LayerChange(kind, layer.name, tuple(other.name for other in holders), layer.nodes))
    return tuple(changes)


def _type_changes(clean: Sequence[LayerInfo], probed: Sequence[LayerInfo]) -> tuple[TypeChange, ...]:
    changes = []
    for before, after in ((_types(clean), _types(probed)), (_read_types(clean), _read_types(probed))):
        changes += [
            TypeChange(name, kind, after[name]) for name, kind in before.items() if after.get(name, kind) != kind
        ]
    return tuple(changes)


def _types(layers: Sequence[LayerInfo]) -> dict[str, str]:
    """Type of each tensor as its layer makes it; names that the builder made up are left out."""
    return {
        tensor.name: tensor.dtype
        for layer in layers
        for tensor in layer.outputs
        if tensor.dtype is not None and not tensor.name.startswith(("Reformatted ", "__myl", "(Unnamed"))
    }


def _read_types(layers: Sequence[LayerInfo]) -> dict[str, str]:
    """Types that each computing layer reads, by its name."""
    return {
        layer.name: ", ".join(tensor.dtype or "?" for tensor in layer.inputs) for layer in layers if _is_core(layer)
    }


def _tactic_changes(clean: Sequence[LayerInfo], probed: Sequence[LayerInfo]) -> tuple[str, ...]:
    before = {layer.name: layer.tactic for layer in clean if _is_core(layer)}
    return tuple(
        layer.name
        for layer in probed
        if layer.tactic is not None and before.get(layer.name) not in (None, layer.tactic)
    )


def _by_probe(
    probes: Sequence[str], changes: Sequence[LayerChange], effect: Effect, view: GraphView | None
) -> dict[str, Effect]:
    """A probe is to blame for a layer that held the tensor's producer and a reader of it."""
    if effect == "neutral" or view is None or not changes:
        return dict.fromkeys(probes, effect)
    blamed: set[str] = set()
    traced = 0
    for change in changes:
        nodes = set(change.nodes)
        guilty = {probe for probe in probes if _inside(probe, nodes, view)}
        traced += bool(guilty)
        blamed |= guilty
    if traced < len(changes):
        return dict.fromkeys(probes, effect)
    return {probe: "perturbing" if probe in blamed else "neutral" for probe in probes}


def _inside(tensor: str, nodes: set[NodeId], view: GraphView) -> bool:
    info = view.tensors.get(TensorId(tensor))
    return info is not None and info.producer in nodes and any(node in nodes for node in info.consumers)
