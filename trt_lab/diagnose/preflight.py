"""What a model's file alone tells about trouble to come: nothing is built and nothing is run.

Rules, each a function of the graph: constants that FP16 cannot hold, 64-bit integers, types and operators that
TensorRT has no place for, random operators, branches whose shapes differ, empty tensors, normalisations written
out, scales of Q/DQ pairs, sizes that are not known, and what had to be mended on opening.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from trt_lab.compare.selfcheck import random_nodes
from trt_lab.diagnose.evidence import TO_INFINITY, TO_ZERO
from trt_lab.diagnose.quantization.scales import check_scales
from trt_lab.graph.patterns import norm_chains
from trt_lab.graph.view import GraphView
from trt_lab.types import JsonValue, NodeId, NodeInfo, Shape, TensorId, TensorInfo

Severity: TypeAlias = Literal["error", "warning", "info"]

_INT32 = np.iinfo(np.int32)
_HARMLESS_INFINITY = frozenset({"Min", "Max", "Clip"})
_SENTINELS: dict[str, tuple[int, ...]] = {"Slice": (1, 2), "Loop": (0,)}
"""Inputs where a number beyond 32 bits means "to the end" or "without end", whatever it is cut to."""
_QUANTISERS = ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear")
_SHOWN = 3

_TYPE_FIXES = {
    "string": "TensorRT has no text: cut the model behind the text part, and feed numbers",
    "float64": "TensorRT computes in float32 at most: cast to float32 (what is below 1.2e-38 becomes 0), or export in it",
    "uint8": "TensorRT takes it as an input or output only: keep the Cast that follows, or feed float32",
    "complex64": "TensorRT has no complex numbers: export real and imaginary part apart",
    "complex128": "TensorRT has no complex numbers: export real and imaginary part apart",
    "uint16": "TensorRT has no 16-bit integers: cast to int32",
    "int16": "TensorRT has no 16-bit integers: cast to int32",
    "uint32": "TensorRT has no unsigned 32-bit integers: cast to int64",
    "uint64": "TensorRT has no unsigned 64-bit integers: cast to int64",
}
_STANDARD = ("", "ai.onnx")
_RUNTIME_DOMAINS = ("com.microsoft", "com.microsoft.nchwc", "com.ms.internal.nhwc")


@dataclass(frozen=True, slots=True)
class Concern:
    """One thing to know before building.

    Attributes:
        rule: Which rule found it.
        severity: `error`: no engine, or a wrong one; `warning`: low precision, or numbers, may suffer; `info`: to know.
        node, tensor: Where; None where it is the whole model's.
        message: What is there. fix: What to do, "" where nothing has to be done.
    """

    rule: str
    severity: Severity
    message: str
    node: NodeId | None = None
    tensor: TensorId | None = None
    fix: str = ""

    def as_json(self) -> dict[str, JsonValue]:
        """A finding as `trt-lab check --json` gives it."""
        return {
            "rule": self.rule,
            "severity": self.severity,
            "node": self.node,
            "tensor": self.tensor,
            "message": self.message,
            "fix": self.fix,
        }


def check_model(view: GraphView) -> tuple[Concern, ...]:
    """All that the rules find, the gravest first, else in the order of the rules and of the graph."""
    found = [concern for rule in RULES for concern in rule(view)]
    return tuple(sorted(found, key=lambda concern: ("error", "warning", "info").index(concern.severity)))


def _constants(view: GraphView) -> Iterator[tuple[TensorInfo, np.ndarray]]:
    """Constants that some node reads, with their values."""
    for tensor in view.tensors.values():
        if tensor.consumers and (values := view.constant(tensor.id)) is not None:
            yield tensor, values


def _about(tensor: TensorInfo, rule: str, severity: Severity, says: str, fix: str = "", *, so: str = "") -> Concern:
    """A finding on a constant: what it holds, who reads it, and `so` what follows."""
    message = f"constant '{tensor.id}' holds {says}; read by {_names(tensor.consumers)}{so}"
    return Concern(rule, severity, message, tensor.consumers[0], tensor.id, fix)


def _fp16_range(view: GraphView) -> Iterator[Concern]:
    for tensor, values in _constants(view):
        if tensor.dtype not in ("float32", "float64", "bfloat16") or not values.size:
            continue
        magnitude = np.abs(values.astype(np.float64))
        infinite = np.isinf(magnitude)
        if infinite.any():
            yield _infinity(view, tensor, int(infinite.sum()))
        over = (magnitude >= TO_INFINITY["fp16"]) & ~infinite
        lost = (magnitude > 0) & (magnitude <= TO_ZERO["fp16"])
        if over.any():
            worst = values[over].astype(np.float64)[np.argmax(magnitude[over])]
            says = f"{worst:.12g}{_more(over)}, which is {'-' if worst < 0 else ''}Inf in FP16"
            fix = "keep its readers in FP32, or clip it to ±65504 where that means the same"
            yield _about(tensor, "fp16-overflow", "warning", says, fix)
        if lost.any() and bool((lost | (magnitude == 0)).all()):
            says = f"{float(values[lost].reshape(-1)[0]):.6g}{_more(lost)}, which is 0 in FP16"
            yield _about(tensor, "fp16-underflow", "warning", says, "keep its readers in FP32")


def _infinity(view: GraphView, tensor: TensorInfo, count: int) -> Concern:
    says = _counted(count, "infinity", "infinities")
    if {view.nodes[node].op_type for node in tensor.consumers} <= _HARMLESS_INFINITY:
        return _about(tensor, "infinity", "info", says, so=", where it means no limit: harmless")
    fix = "check that it is meant: arithmetic on it gives NaN (Inf − Inf, Inf · 0); a large finite number masks as well"
    return _about(tensor, "infinity", "warning", says, fix)


def _int64_range(view: GraphView) -> Iterator[Concern]:
    harmless: list[TensorInfo] = []
    for tensor, values in _constants(view):
        if tensor.dtype not in ("int64", "uint64") or not values.size:
            continue
        beyond = values[(values < _INT32.min) | (values > _INT32.max)].reshape(-1)
        if not beyond.size:
            continue
        if all(_is_sentinel(view.nodes[node], tensor.id) for node in tensor.consumers):
            harmless.append(tensor)
            continue
        first = int(beyond[0])
        cut = min(max(first, _INT32.min), _INT32.max)
        says = f"{first}, which builders that cut to 32 bits take as {cut}: the value changes"
        yield _about(
            tensor, "int64-cut", "warning", says, "use numbers of 32 bits, or TensorRT 10 or newer, which has INT64"
        )
    if harmless:
        yield Concern(
            "int64-sentinel", "info",
            f"{_counted(len(harmless), 'constant', 'constants')} beyond 32 bits that only mean \"to the end\" "
            f"({_names([t.id for t in harmless])}): sentinel, harmless",
            None, harmless[0].id,
        )  # fmt: skip


def _is_sentinel(node: NodeInfo, tensor: TensorId) -> bool:
    return any(i < len(node.inputs) and node.inputs[i] == tensor for i in _SENTINELS.get(node.op_type, ()))


def _types(view: GraphView) -> Iterator[Concern]:
    found: dict[str, list[TensorInfo]] = defaultdict(list)
    for tensor in view.tensors.values():
        if tensor.dtype in _TYPE_FIXES and not (tensor.dtype == "uint8" and _is_taken(view, tensor)):
            found[tensor.dtype].append(tensor)
    for dtype, tensors in found.items():
        first = tensors[0]
        node = first.producer or (first.consumers[0] if first.consumers else None)
        yield Concern(
            "type", "error",
            f"{_counted(len(tensors), 'tensor', 'tensors')} of type {dtype} ({_names([t.id for t in tensors])}), "
            "which TensorRT does not compute with",
            node, first.id, _TYPE_FIXES[dtype],
        )  # fmt: skip


def _is_taken(view: GraphView, tensor: TensorInfo) -> bool:
    """Whether a uint8 tensor is an input, an output, or the matter of Q/DQ, which has rules of its own."""
    around = [*tensor.consumers, *([tensor.producer] if tensor.producer else [])]
    return tensor.role == "input" or tensor.is_output or any(view.nodes[n].op_type in _QUANTISERS for n in around)


def _operators(view: GraphView) -> Iterator[Concern]:
    found: dict[tuple[str, str], list[NodeInfo]] = defaultdict(list)
    for node in view.nodes.values():
        if node.domain not in _STANDARD and not any(node.id == graph.node for graph in view.graphs.values()):
            found[(node.domain, node.op_type)].append(node)
    for (domain, op), nodes in found.items():
        if domain in _RUNTIME_DOMAINS:
            fix = "it was made by ONNX Runtime's optimiser: export the model as it was before that optimisation"
        else:
            fix = (
                f"TensorRT needs a plugin named '{op}', version '1', namespace '' (attributes plugin_version and "
                "plugin_namespace of the node say otherwise): load its library before building"
            )
        yield Concern(
            "operator", "error", f"{domain}::{op}, {_counted(len(nodes), 'node', 'nodes')}, first '{nodes[0].id}'",
            nodes[0].id, nodes[0].outputs[0] if nodes[0].outputs else None, fix,
        )  # fmt: skip


def _random(view: GraphView) -> Iterator[Concern]:
    for node in random_nodes(view):
        yield Concern(
            "random", "warning", f"'{node.id}' ({node.op_type}) makes other numbers in every run and every engine",
            node.id, node.outputs[0], "what lies behind it is not comparable; feed its numbers as an input to compare",
        )  # fmt: skip


def _branches(view: GraphView) -> Iterator[Concern]:
    for node in view.nodes.values():
        if node.op_type != "If" or node.domain not in _STANDARD or len(node.subgraphs) != 2:
            continue
        one, other = (view.graphs[path].outputs for path in node.subgraphs)
        for index, (a, b) in enumerate(zip(one, other, strict=False)):
            left, right = view.tensors[a].shape, view.tensors[b].shape
            if left is None or right is None or left == right:
                continue
            ranks = len(left) != len(right)
            yield Concern(
                "branches", "error" if ranks else "warning",
                f"output {index} of '{node.id}': its branches give shapes {_shape(left)} and {_shape(right)}",
                node.id, node.outputs[index], "TensorRT wants equal ranks and shapes in both: reshape in one of them",
            )  # fmt: skip


def _empty(view: GraphView) -> Iterator[Concern]:
    for tensor in view.tensors.values():
        if tensor.producer is not None and tensor.shape and 0 in tensor.shape and tensor.consumers:
            yield Concern(
                "empty", "warning",
                f"'{tensor.id}' made by '{tensor.producer}' has no elements, shape {_shape(tensor.shape)}; "
                f"read by {_names(tensor.consumers)}",
                tensor.producer, tensor.id, "some builders refuse empty tensors: fold the node away (onnxslim, onnxsim)",
            )  # fmt: skip


def _norms(view: GraphView) -> Iterator[Concern]:
    for chain in norm_chains(view):
        squared = next((node for node in chain if view.nodes[node].op_type in ("Pow", "Mul")), chain[0])
        yield Concern(
            "norm-written-out", "info",
            f"{len(chain)} nodes from '{chain[0]}' to '{chain[-1]}' are a LayerNorm written out; in FP16 the square at "
            f"'{squared}' overflows from magnitude 256 on",
            squared, view.nodes[squared].outputs[0],
            "export with opset 17 or newer (LayerNormalization), or keep these nodes in FP32",
        )  # fmt: skip


def _scales(view: GraphView) -> Iterator[Concern]:
    for bad in check_scales(view):
        yield Concern(bad.rule, bad.severity, bad.message, bad.node, bad.tensor, bad.fix)


def _sizes(view: GraphView) -> Iterator[Concern]:
    for name in view.inputs:
        shape = view.tensors[name].shape
        if shape is None or all(isinstance(size, int) for size in shape):
            continue
        usual = "x".join(str(size) if isinstance(size, int) else "1" for size in shape)
        yield Concern(
            "dynamic", "info", f"input '{name}' has sizes that are not known: {_shape(shape)}", None, name,
            f"TensorRT needs smallest, usual and largest: --shapes {name}:{usual}:OPT:MAX",
        )  # fmt: skip


def _opening(view: GraphView) -> Iterator[Concern]:
    for note in dict.fromkeys((*view.model.notes, *view.notes)):
        yield Concern("opened", "info", note)


RULES: tuple[Callable[[GraphView], Iterator[Concern]], ...] = (
    _types, _operators, _branches, _scales, _fp16_range, _int64_range, _random, _empty, _norms, _sizes, _opening,
)  # fmt: skip


def _more(mask: np.ndarray) -> str:
    count = int(mask.sum())
    return f" (and {count - 1} more like it)" if count > 1 else ""


def _names(names: Iterable[str]) -> str:
    listed = [f"'{name}'" for name in names]
    rest = len(listed) - _SHOWN
    return ", ".join(listed[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def _counted(count: int, one: str, many: str) -> str:
    return f"1 {one}" if count == 1 else f"{count} {many}"


def _shape(shape: Shape) -> str:
    return "(" + ", ".join("?" if size is None else str(size) for size in shape) + ")"
