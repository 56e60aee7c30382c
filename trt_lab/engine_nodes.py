"""Which ONNX nodes went into an engine layer: metadata first, then names, then tensors.

Works on strings alone. Given a `NodeIndex` of the model, names are checked against it, mangled
names are recognised, and layers that name no node are found by walking from their output tensors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from trt_lab.types import LayerInfo, NodeId, NodeInfo

NodesFrom = Literal["metadata", "name", "tensors", "none"]

_METADATA = re.compile(r"\[ONNX Layer: (.*?)\](?=\s*(?:[\x1e\x1f]|\[ONNX Layer: |$))", re.DOTALL)
_REFORMAT = re.compile(r"^Reformatting CopyNode for (?:Input|Output) Tensor \d+ to (.*)$", re.DOTALL)
_FOREIGN = re.compile(r"^\{ForeignNode\[(.*)\.\.\.(.*)\]\}$", re.DOTALL)
_MYELIN_SUFFIX = re.compile(r"_myl\d+_\d+$")
_MYELIN_NUMBER = re.compile(r"(?<=__mye)\d+_\d+$")
_PROFILE_SUFFIX = re.compile(r" \[profile ([0-9]{1,6})\]$")
_MADE_UP = re.compile(
    r"^(?:\(Unnamed Layer\* \d+\)|ONNXTRT_|unsqueeze_node_after_|copied_squeeze_after_|squeeze_after_|__my[el]|"
    r"Reformatted (?:Input|Output) Tensor)"
)
_DEEPEST = 20
"""Names in names that are taken apart; what is nested deeper was not written by a builder."""
_FOLDED_SUFFIX = re.compile(r"\.\.\.$|_clone_\d+$")
_TYPED_SUFFIX = re.compile(r" \[[A-Z]\w+\]$")


@dataclass(frozen=True)
class NodeIndex:
    """What is known of the model's nodes when layers are mapped to them.

    Attributes:
        by_name: Name as the engine may write it → node.
        producers: Tensor name → the node that makes it.
        inputs: Node → names of the tensors it reads.
        mangled: Name with all but letters, digits, `_` and `/` replaced by `_` → node, where unique.
    """

    by_name: Mapping[str, NodeId]
    producers: Mapping[str, NodeId]
    inputs: Mapping[NodeId, tuple[str, ...]]
    mangled: Mapping[str, NodeId] = field(default_factory=dict)

    @classmethod
    def of(cls, nodes: Iterable[NodeInfo], aliases: Mapping[str, NodeId] | None = None) -> NodeIndex:
        """Makes the index of `nodes`.

        Args:
            nodes: Nodes of the model, subgraphs included.
            aliases: Further names the engine's model uses → node (inserted casts → their origin). They win.

        The parser calls a nameless node `node_of_<first output>`; that name is known as well.
        """
        by_name: dict[str, NodeId] = {}
        producers: dict[str, NodeId] = {}
        inputs: dict[NodeId, tuple[str, ...]] = {}
        for node in nodes:
            outputs = [str(t) for t in node.outputs if t]
            for name in (str(node.id), node.name, *(f"node_of_{t}" for t in outputs[:1])):
                if name:
                    by_name.setdefault(name, node.id)
            for tensor in outputs:
                producers.setdefault(tensor, node.id)
            inputs[node.id] = tuple(str(t) for t in (*node.inputs, *node.captures) if t)
        by_name.update(aliases or {})
        mangled: dict[str, NodeId] = {}
        clashes = set()
        for name, node_id in by_name.items():
            key = _mangle(name)
            if mangled.setdefault(key, node_id) != node_id:
                clashes.add(key)
        return cls(by_name, producers, inputs, {k: v for k, v in mangled.items() if k not in clashes})

    @cached_property
    def rank(self) -> dict[NodeId, int]:
        """Place of each node in graph order."""
        return {node: place for place, node in enumerate(self.inputs)}


def metadata_nodes(metadata: str) -> tuple[str, ...]:
    """Names in a Metadata text: `[ONNX Layer: a]` joined by \\x1e, \\x1f or nothing; each once, in order."""
    return tuple(dict.fromkeys(_METADATA.findall(metadata)))


def split_profile(name: str) -> tuple[str, int | None]:
    """Takes ` [profile N]` off a layer name; None where there is none."""
    found = _PROFILE_SUFFIX.search(name)
    return (name[: found.start()], int(found.group(1))) if found else (name, None)


def plain_name(name: str) -> str:
    """A layer's name without ` [profile N]` and without Myelin's numbers, which change from build to build."""
    return _MYELIN_NUMBER.sub("", _MYELIN_SUFFIX.sub("", split_profile(name)[0]))


def name_parts(name: str) -> tuple[str, ...]:
    """Parts of a fused layer's name in order: `A + B`, `PWN(PWN(a, b), c)`, `{ForeignNode[a...b]}`.

    Parts that the builder made up (`(Unnamed Layer* 3) [Shuffle]`, `ONNXTRT_…`) are left out. Of a
    ForeignNode only its two ends are in the name. A reformat gives the parts of the layer it serves.
    """
    return _parts(name, 0)


def _parts(name: str, depth: int) -> tuple[str, ...]:
    name = split_profile(name)[0]
    if depth > _DEEPEST:
        return (name,)
    reformat = _REFORMAT.match(name)
    if reformat:
        return _parts(reformat.group(1), depth + 1)
    foreign = _FOREIGN.match(name)
    if foreign:
        return tuple(dict.fromkeys(p for p in foreign.groups() if p and not _MADE_UP.match(p)))
    found: list[str] = []
    for part in _split_top(name, " + "):
        if part.startswith("PWN(") and part.endswith(")"):
            for argument in _split_top(part[4:-1], ", "):
                found.extend(_parts(argument, depth + 1))
        elif part.startswith("{ForeignNode[") and part != name:
            found.extend(_parts(part, depth + 1))
        elif part and not _MADE_UP.match(part):
            found.append(part)
    return tuple(dict.fromkeys(found))


def is_whole_name(name: str) -> bool:
    """Whether a layer's name tells all its nodes as the model calls them: no range of a ForeignNode, no Myelin number."""
    return "ForeignNode[" not in name and not _MYELIN_SUFFIX.search(split_profile(name)[0])


def is_reformat(layer: LayerInfo) -> bool:
    """Whether the layer only changes type or layout of another layer's tensor."""
    return layer.type in ("Reformat", "NoOp", "ReorderInput", "ReorderOutput") or bool(_REFORMAT.match(layer.name))


def is_copy(layer: LayerInfo) -> bool:
    """Whether the layer is a copy that the builder put before or behind another, and computes no node of its own."""
    return bool(_REFORMAT.match(layer.name))


def map_layers(layers: Sequence[LayerInfo], index: NodeIndex | None = None) -> tuple[LayerInfo, ...]:
    """Fills `nodes` and `nodes_from` of each layer.

    Without `index` nothing can be checked: metadata and name parts are taken as they stand, tensors are not used.
    """
    edges = {t.name for layer in layers for t in (*layer.inputs, *layer.outputs)}
    return tuple(_map_layer(layer, index, edges) for layer in layers)


def _map_layer(layer: LayerInfo, index: NodeIndex | None, edges: set[str]) -> LayerInfo:
    metadata = layer.attributes.get("Metadata")
    if isinstance(metadata, str) and metadata:
        names = metadata_nodes(metadata)
        nodes = _known(names, index)
        if nodes:
            return _with_nodes(layer, nodes, "metadata")
    if layer.type == "Constant":  # named after the tensors it holds, which nodes may have made
        parts = (layer.name, *name_parts(layer.name)) if index is not None else ()
        made = [index.producers.get(_FOLDED_SUFFIX.sub("", part)) for part in parts] if index is not None else []
        nodes = tuple(dict.fromkeys(node for node in made if node is not None))
        return _with_nodes(layer, nodes, "tensors") if nodes else layer
    nodes = _known(name_parts(layer.name), index)
    whole_range = not _FOREIGN.match(split_profile(layer.name)[0])
    if nodes and (whole_range or index is None):
        return _with_nodes(layer, nodes, "name")
    if index is not None and not is_reformat(layer):
        walked = _between(layer, index, edges)
        if walked:
            return _with_nodes(layer, walked, "tensors")
    return _with_nodes(layer, nodes, "name" if nodes else "none")


def _with_nodes(layer: LayerInfo, nodes: tuple[NodeId, ...], source: NodesFrom) -> LayerInfo:
    """The same layer with its nodes; written out because `dataclasses.replace` takes ten times as long."""
    return LayerInfo(
        layer.index, layer.name, layer.type, layer.inputs, layer.outputs, layer.precision, layer.tactic, layer.stream,
        nodes, source, layer.attributes,
    )  # fmt: skip


def _known(names: Iterable[str], index: NodeIndex | None) -> tuple[NodeId, ...]:
    if index is None:
        bare = (_MYELIN_SUFFIX.sub("", n) if "_myl" in n else n for n in names if not n.startswith("__my"))
        return tuple(dict.fromkeys(NodeId(n) for n in bare))
    return tuple(dict.fromkeys(node for node in (_lookup(name, index) for name in names) if node is not None))


def _lookup(name: str, index: NodeIndex) -> NodeId | None:
    """A node by a name the engine wrote: as it is, without a kind suffix, without Myelin's number, mangled."""
    plain = _MYELIN_SUFFIX.sub("", name)
    for candidate in (name, plain, _FOLDED_SUFFIX.sub("", plain), _TYPED_SUFFIX.sub("", plain)):
        if candidate in index.by_name:
            return index.by_name[candidate]
    return index.mangled.get(_mangle(plain)) if plain != name else None


def _between(layer: LayerInfo, index: NodeIndex, edges: set[str]) -> tuple[NodeId, ...]:
    """Nodes met walking back from the layer's outputs to its inputs.

    None when the walk does not end at the layer's inputs, or meets a tensor that another layer makes: then the
    engine's names are not those of the ONNX tensors.
    """
    own = {t.name for t in layer.inputs}
    found: dict[NodeId, None] = {}
    met = False
    waiting = [t.name for t in layer.outputs]
    while waiting:
        node = index.producers.get(waiting.pop())
        if node is None or node in found:
            continue
        found[node] = None
        for tensor in index.inputs[node]:
            if tensor in own:
                met = True
            elif tensor in edges:
                return ()
            else:
                waiting.append(tensor)
    if not met:
        return ()
    return tuple(sorted(found, key=index.rank.__getitem__))


def _mangle(name: str) -> str:
    return re.sub(r"[^\w/]", "_", name)


def _split_top(text: str, separator: str) -> list[str]:
    """Splits where no bracket is open; names with unbalanced brackets are split everywhere."""
    parts, depth, start, i = [], 0, 0, 0
    while i < len(text):
        char = text[i]
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth = max(0, depth - 1)
        elif depth == 0 and text.startswith(separator, i):
            parts.append(text[start:i])
            start = i = i + len(separator)
            continue
        i += 1
    parts.append(text[start:])
    return [p.strip() for p in parts]
