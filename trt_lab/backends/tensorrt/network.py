"""ONNX → TensorRT network: every parser error in order, the first one first, in words that say what to do."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trt_lab.backends.tensorrt.log import BuildLog, logger
from trt_lab.backends.tensorrt.versions import Library
from trt_lab.errors import BuildError, ModelError
from trt_lab.graph import GraphView
from trt_lab.model import Model
from trt_lab.types import TensorId

_PLUGIN = re.compile(
    r"(?:pluginName|plugin name|plugin): ?(?P<name>[\w:.]+), ?plugin_?[vV]ersion: ?(?P<version>\w*), ?"
    r"plugin_?[nN]amespace: ?(?P<space>[\w.]*)"
)
_ONNX_TYPES = {
    "string": "strings never reach TensorRT: cut the model behind these nodes and prepare the data outside",
    "complex64": "split it into real and imaginary part",
    "complex128": "split it into real and imaginary part",
    "int16": "cast it to int32 in the model",
    "uint16": "cast it to int32 in the model",
    "uint32": "cast it to int64 in the model",
    "uint64": "cast it to int64 in the model",
}
"""Types that the parser refuses, and what can be done."""

_FUSED_DOMAINS = ("com.microsoft", "com.microsoft.nchwc")


@dataclass
class Network:
    """A parsed network and what keeps it alive.

    Attributes:
        notes: Said to the user, one line each.
    """

    builder: Any
    network: Any
    parser: Any
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ParserFault:
    """One error of the parser; `node` is "" for an error of an input, whose name is then in `place`."""

    index: int
    node: str
    operator: str
    place: str
    description: str

    def text(self) -> str:
        """One line."""
        where = f"node {self.index} '{self.node}'" if self.index >= 0 else f"'{self.node or self.place}'"
        operator = f" ({self.operator})" if self.operator else ""
        return f"{where}{operator}: {self.description} [{self.place}]"


def parse(library: Library, model: Model, log: BuildLog, *, name: str, strongly_typed: bool, builder: Any) -> Network:
    """Parses `model`, whose main nodes are called by their ids; messages call it `name`.

    Raises:
        BuildError: The model cannot be parsed; the message starts with the first error.
    """
    module = library.module
    network = builder.create_network(library.creation_flags(strongly_typed=strongly_typed))
    parser = module.OnnxParser(network, logger(library))
    if not _feed(parser, model):
        faults = [_fault(parser.get_error(i)) for i in range(parser.num_errors)]
        raise BuildError(explain_faults(name, GraphView.of(model), faults, log))
    return Network(builder, network, parser)


def explain_faults(name: str, view: GraphView, faults: Sequence[ParserFault], log: BuildLog) -> str:
    """The message for a model that the parser refuses: the first fault and its way out, then the others."""
    if not faults:
        first = (log.errors() or ["the parser gave no reason"])[0]
        return f"{name}: TensorRT's parser refuses the model: {first}"
    first = faults[0]
    lines = [f"{name}: TensorRT's parser refuses {first.text()}"]
    lines += _way_out(view, first, log)
    others = faults[1:]
    if others:
        lines.append(f"{len(others)} more, in order:")
        lines += [f"  {fault.text()}" for fault in others[:20]]
    return "\n".join(lines)


def refuse_early(model: Model) -> None:
    """Refuses what is known to fail, with a better message than the builder's.

    Raises:
        BuildError: A type that no TensorRT takes, or an If whose branches give tensors of different ranks.
    """
    view = GraphView.of(model)
    faults = [*_type_faults(view), *_branch_faults(view)]
    if faults:
        more = f"\n{len(faults) - 1} more:\n  " + "\n  ".join(faults[1:20]) if len(faults) > 1 else ""
        raise BuildError(f"{model.name}: {faults[0]}{more}")


def double_note(model: Model) -> str:
    """Says that DOUBLE tensors become FLOAT, which TensorRT does in silence, and which weights change much; "" if none are."""
    view = GraphView.of(model)
    doubles = [tensor for tensor in view.tensors.values() if tensor.dtype == "float64"]
    if not doubles:
        return ""
    changed = []
    for value in model.ir.graph.initializers.values():
        if value.dtype is None or value.dtype.name != "DOUBLE" or value.const_value is None:
            continue
        before = value.const_value.numpy()
        with np.errstate(over="ignore", under="ignore"):
            after = before.astype(np.float32)
        zeros, infinite = int(((after == 0) & (before != 0)).sum()), int((np.isinf(after) & np.isfinite(before)).sum())
        if zeros or infinite:
            changed.append(f"'{value.name}': {zeros} values become 0, {infinite} become infinite")
    more = f" ({'; '.join(changed[:5])})" if changed else ""
    return f"TensorRT computes DOUBLE in FLOAT: {len(doubles)} tensors, the first is '{doubles[0].id}'{more}"


def first_error(log: BuildLog) -> str:
    """The first error in the log, in one line; the last ones often only say that something failed."""
    errors = log.errors()
    return (
        " ".join(errors[0].split())[:600]
        if errors
        else "TensorRT gave no reason; build again with log_severity='verbose'"
    )


def nodes_of_layer(layer: Any) -> tuple[str, ...]:
    """ONNX node names in a network layer's metadata."""
    return tuple(
        re.findall(r"\[ONNX Layer: (.*?)\](?=[\x1e\x1f]|\[ONNX Layer: |$)", getattr(layer, "metadata", "") or "")
    )


def _feed(parser: Any, model: Model) -> bool:
    try:
        data = model.proto().SerializeToString()
    except ModelError:  # over 2 GB: only as a file
        data = None
    if data is not None:
        return bool(parser.parse(data))
    with tempfile.TemporaryDirectory(prefix="trt-lab-") as folder:
        return bool(parser.parse_from_file(str(model.save(Path(folder) / "model.onnx"))))


def _fault(error: Any) -> ParserFault:
    description = " ".join(str(error.desc()).removeprefix("Assertion failed: ").split())
    node_name = error.node_name() if hasattr(error, "node_name") else ""
    operator = error.node_operator() if hasattr(error, "node_operator") else ""
    index = int(error.node())
    name = node_name or (str(error.file()) if index < 0 else "")
    return ParserFault(index, name, operator, f"{error.file()}:{error.line()} {error.func()}", description)


def _way_out(view: GraphView, fault: ParserFault, log: BuildLog) -> list[str]:
    if "Plugin not found" in fault.description or "plugin registry" in fault.description:
        return _plugin_help(view, fault, log)
    if "convertDtype" in fault.description or "data type" in fault.description.lower():
        kinds = {t.name: t.dtype for t in view.tensors.values()}
        kind = kinds.get(fault.node)
        if kind:
            return [f"'{fault.node}' is {kind}: {_ONNX_TYPES.get(kind, 'cast it to a type that TensorRT takes')}"]
    if "does not support UINT8" in fault.description:
        return ["TensorRT takes UINT8 as input and output alone: cast it to INT32 or FLOAT right behind the input"]
    if "Scale coefficients must all be positive" in fault.description:
        return [
            "a quantise scale is 0 or negative; a channel whose weights are all 0 is the usual cause: quantise again"
        ]
    return []


def _plugin_help(view: GraphView, fault: ParserFault, log: BuildLog) -> list[str]:
    counts: dict[tuple[str, str], list[str]] = {}
    for node in view.nodes.values():
        if node.domain not in ("", "ai.onnx"):
            counts.setdefault((node.domain, node.op_type), []).append(str(node.id))
    lines = [f"  {domain}::{op} × {len(ids)}, first at '{ids[0]}'" for (domain, op), ids in counts.items()]
    domain = next((d for d, op in counts if op == fault.operator), "")
    if domain in _FUSED_DOMAINS:
        advice = f"'{fault.operator}' was made by ONNX Runtime's optimiser: export the model before optimising it"
    else:
        advice = f"'{fault.operator}' needs a plugin: {_searched(log, fault.operator, domain)}"
    return [advice, *(["operators outside the standard:", *lines] if lines else [])]


def _searched(log: BuildLog, operator: str, domain: str) -> str:
    found = [m for text in log.plugin_searches if operator in text and (m := _PLUGIN.search(text))]
    if not found:
        return f"none is registered under name {operator}, version 1, namespace '{domain}'"
    tried = "; ".join(f"name {m['name']}, version {m['version']}, namespace '{m['space']}'" for m in found)
    return f"looked for {tried}. Load the plugin's library before building, or register it under one of these"


def _type_faults(view: GraphView) -> Iterable[str]:
    for tensor in view.tensors.values():
        advice = _ONNX_TYPES.get(tensor.dtype or "")
        if advice:
            where = f"made by '{tensor.producer}'" if tensor.producer else tensor.role
            yield f"tensor '{tensor.id}' ({where}) is {tensor.dtype}, which TensorRT cannot take: {advice}"


def _branch_faults(view: GraphView) -> Iterable[str]:
    for node in view.nodes.values():
        if node.op_type != "If" or len(node.subgraphs) != 2 or not _reads_data(view, node.inputs[0]):
            continue
        one, two = (view.graphs[path] for path in node.subgraphs)
        for index, (a, b) in enumerate(zip(one.outputs, two.outputs, strict=False)):
            left, right = view.tensors[a].shape, view.tensors[b].shape
            if left is not None and right is not None and len(left) != len(right):
                yield (
                    f"If node '{node.id}', output {index}: the branches give tensors of different ranks, {left} in "
                    f"{one.path} and {right} in {two.path}. TensorRT needs equal ranks: reshape one of them"
                )


def _reads_data(view: GraphView, tensor: TensorId | None) -> bool:
    """Whether a tensor depends on the values (not only the sizes) of an input; what does not, TensorRT may fold."""
    waiting, seen = [tensor], set()
    while waiting:
        current = waiting.pop()
        if current is None or current in seen:
            continue
        seen.add(current)
        info = view.tensors[current]
        if info.role == "input":
            return True
        node = None if info.producer is None else view.nodes[info.producer]
        if node is not None and node.op_type not in ("Shape", "Size"):
            waiting.extend((*node.inputs, *node.captures))
    return False
