"""What a graph does with an input: which numbers it takes as an index, a size or a choice, and how long an axis must be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from trt_lab.graph import GraphView
from trt_lab.types import NodeInfo, TensorId

_SAME_NUMBERS = frozenset(
    [
        "Cast",
        "Identity",
        "Reshape",
        "Unsqueeze",
        "Squeeze",
        "Flatten",
        "Transpose",
        "Slice",
        "Concat",
        "Expand",
        "Tile",
        "Split",
        "Gather",
    ]
)
"""Operators behind which the numbers of their first input are still the same numbers."""

_SAME_AXES = frozenset(
    [
        "Cast",
        "Identity",
        "Relu",
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Clip",
        "Pad",
        "BatchNormalization",
        "LeakyRelu",
        "Sigmoid",
        "Tanh",
    ]
)
"""Operators whose output has the axes of their first input (Pad makes them longer, which is safe)."""

_STEPS = 64  # nodes looked at behind one input
_MOST_CHOICES = 4096


@dataclass(frozen=True, slots=True)
class Use:
    """One place where the numbers of an input end: input `index` of `node`, read as tensor `tensor`."""

    node: NodeInfo
    index: int
    tensor: TensorId


def find_uses(view: GraphView, tensor: TensorId) -> list[Use]:
    """Where the numbers of `tensor` are used, looking through casts and reshapes, subgraphs included."""
    found: list[Use] = []
    seen: set[TensorId] = {tensor}
    waiting = [tensor]
    steps = 0
    while waiting and steps < _STEPS:
        current = waiting.pop(0)
        for node, index in _readers(view, current):
            steps += 1
            passes = node.op_type in _SAME_NUMBERS and not node.domain and (index == 0 or node.op_type == "Concat")
            if not passes:
                found.append(Use(node, index, current))
                continue
            for output in node.outputs:
                if output is not None and output not in seen:
                    seen.add(output)
                    waiting.append(output)
    return found


def _readers(view: GraphView, tensor: TensorId) -> Iterator[tuple[NodeInfo, int]]:
    for node_id in view.tensors[tensor].consumers:
        node = view.nodes[node_id]
        if node.domain:
            continue
        for index, read in enumerate(node.inputs):
            if read == tensor:
                yield node, index


def index_bound(view: GraphView, use: Use, sizes: dict[TensorId, tuple[int, ...]]) -> int | None:
    """How many values an index may take at this use: 0 … bound − 1. None when it is no index."""
    node = use.node
    op = node.op_type
    if op in ("Gather", "GatherElements", "ScatterElements", "Scatter") and use.index == 1:
        axis = _int_attribute(view, node, "axis", 0)
        return _size(view, node.inputs[0], axis, sizes) or 1
    if op == "RoiAlign" and use.index == 2:
        return _size(view, node.inputs[0], 0, sizes) or 1
    if op in ("GatherND", "ScatterND") and use.index == 1:
        shape = view.tensors[node.inputs[0]].shape if node.inputs[0] else None
        known = [size for size in shape or () if isinstance(size, int) and size > 0]
        return min(known) if shape is not None and len(known) == len(shape) and known else 1
    if op == "OneHot" and use.index == 0:
        depth = view.constant(node.inputs[1]) if node.inputs[1] else None
        return int(depth.reshape(-1)[0]) if depth is not None and depth.size else 1
    return None


def _size(view: GraphView, tensor: TensorId | None, axis: int, sizes: dict[TensorId, tuple[int, ...]]) -> int | None:
    if tensor is None:
        return None
    shape = sizes.get(tensor) or view.tensors[tensor].shape
    if shape is None or not -len(shape) <= axis < len(shape):
        return None
    size = shape[axis]
    return size if isinstance(size, int) and size > 0 else None


def choices(view: GraphView, use: Use) -> np.ndarray | None:
    """Constants that the numbers are compared with (Equal), so that a fitting one can be chosen; None when they are not."""
    if use.node.op_type != "Equal":
        return None
    other = use.node.inputs[1 - use.index] if len(use.node.inputs) == 2 else None
    return _constant_behind(view, other)


def _constant_behind(view: GraphView, tensor: TensorId | None) -> np.ndarray | None:
    """Values of a constant, looking back through casts and reshapes."""
    for _ in range(8):
        if tensor is None:
            return None
        values = view.constant(tensor)
        if values is not None:
            return np.unique(values) if 0 < values.size <= _MOST_CHOICES else None
        producer = view.tensors[tensor].producer
        if producer is None or view.nodes[producer].op_type not in _SAME_NUMBERS:
            return None
        tensor = view.nodes[producer].inputs[0]
    return None


SIZE_USES: dict[tuple[str, int], str] = {
    ("Reshape", 1): "shape",
    ("Expand", 1): "ones",
    ("ConstantOfShape", 0): "small",
    ("Tile", 1): "ones",
    ("TopK", 1): "ones",
    ("Resize", 3): "sizes",
    ("Slice", 1): "zeros",
    ("Slice", 2): "far",
    ("Slice", 4): "ones",
    ("Pad", 1): "zeros",
    ("Loop", 0): "small",
    ("Range", 0): "zeros",
    ("Range", 1): "small",
    ("Range", 2): "ones",
    ("OneHot", 1): "small",
    ("NonMaxSuppression", 2): "small",
    ("Split", 1): "split",
    ("Squeeze", 1): "zeros",
    ("Unsqueeze", 1): "zeros",
    ("CumSum", 1): "zeros",
}
"""Inputs of operators that are sizes, axes or counts → what to feed."""


def needs_positive(use: Use) -> bool:
    """Whether negative numbers would give NaN here."""
    return use.index == 0 and use.node.op_type in ("Sqrt", "Log")


def needs_unit_range(use: Use) -> bool:
    """Whether numbers outside −1 … 1 would give NaN here."""
    return use.index == 0 and use.node.op_type in ("Acos", "Asin", "Atanh")


def axis_need(view: GraphView, tensor: TensorId, axis: int) -> tuple[int, int]:
    """What convolutions and matrix products behind an axis need of it.

    Returns:
        The exact size (0 when free), and the smallest size (1 when free): the extent of the kernel there.
    """
    exact, smallest = 0, 1
    waiting = [(tensor, axis)]
    seen = {tensor}
    steps = 0
    while waiting and steps < _STEPS:
        current, at = waiting.pop(0)
        for node, index in _readers(view, current):
            steps += 1
            if index == 0 and node.op_type in ("Conv", "ConvTranspose"):
                need, kernel = _conv_need(view, node, at)
                exact, smallest = need or exact, max(smallest, kernel)
                continue
            if node.op_type in ("MatMul", "Gemm"):
                exact = _matmul_need(view, node, index, at) or exact
                continue
            moved = _moved_axis(view, node, index, at)
            output = node.outputs[0] if node.outputs else None
            if moved is not None and output is not None and output not in seen:
                seen.add(output)
                waiting.append((output, moved))
    return exact, smallest


def _conv_need(view: GraphView, node: NodeInfo, axis: int) -> tuple[int, int]:
    weights = view.tensors[node.inputs[1]].shape if len(node.inputs) > 1 and node.inputs[1] else None
    if weights is None or axis == 0:
        return 0, 1
    if axis == 1:
        channels = weights[0] if node.op_type == "ConvTranspose" else weights[1]
        group = _int_attribute(view, node, "group", 1)
        if not isinstance(channels, int):
            return 0, 1
        return (channels if node.op_type == "ConvTranspose" else channels * group), 1
    kernel = weights[axis] if axis < len(weights) else None
    dilations = view.ir_node(node.id).attributes.get("dilations")
    dilation = int(dilations.as_ints()[axis - 2]) if dilations is not None and not dilations.is_ref() else 1
    return 0, (kernel - 1) * dilation + 1 if isinstance(kernel, int) else 1


def _matmul_need(view: GraphView, node: NodeInfo, index: int, axis: int) -> int | None:
    """Inner size that the other operand asks for."""
    if index > 1 or len(node.inputs) < 2:
        return None
    mine, other = (view.tensors[t].shape if t else None for t in (node.inputs[index], node.inputs[1 - index]))
    if mine is None or other is None or len(other) < 2:
        return None
    turned = [False, False]  # whether each operand is transposed
    if node.op_type == "Gemm":
        turned = [bool(_int_attribute(view, node, "transA", 0)), bool(_int_attribute(view, node, "transB", 0))]
    inner = [len(mine) - 1, len(mine) - 2] if index == 0 else [len(mine) - 2, len(mine) - 1]
    if axis != inner[turned[index]]:
        return None
    wanted = other[(-2 if not turned[1] else -1) if index == 0 else (-1 if not turned[0] else -2)]
    return wanted if isinstance(wanted, int) and wanted > 0 else None


def _moved_axis(view: GraphView, node: NodeInfo, index: int, axis: int) -> int | None:
    """Where axis `axis` of input `index` is in the node's first output; None when it is lost."""
    op = node.op_type
    if op in _SAME_AXES:
        mine, out = view.tensors[node.inputs[index] or TensorId("")].shape, None
        if node.outputs and node.outputs[0] is not None:
            out = view.tensors[node.outputs[0]].shape
        if mine is None:
            return None
        return axis + (len(out) - len(mine) if out is not None else 0)
    if index != 0:
        return None
    if op == "Transpose":
        order = view.ir_node(node.id).attributes.get("perm")
        return list(order.as_ints()).index(axis) if order is not None and not order.is_ref() else None
    if op in ("Unsqueeze", "Squeeze"):
        return _unsqueezed(view, node, axis, insert=op == "Unsqueeze")
    return None


def _unsqueezed(view: GraphView, node: NodeInfo, axis: int, *, insert: bool) -> int | None:
    attribute = view.ir_node(node.id).attributes.get("axes")
    if attribute is not None and not attribute.is_ref():
        axes = [int(a) for a in attribute.as_ints()]
    else:
        values = view.constant(node.inputs[1]) if len(node.inputs) > 1 and node.inputs[1] else None
        if values is None:
            return None
        axes = [int(a) for a in values.reshape(-1)]
    source = next(iter(node.inputs), None)
    known = view.tensors[source].shape if source else None
    if known is None:
        return None
    rank = len(known) + (len(axes) if insert else 0)
    places = sorted(a % rank for a in axes) if rank else []
    if not insert:
        return None if axis in places else axis - sum(a < axis for a in places)
    for place in places:
        axis += place <= axis
    return axis


def _int_attribute(view: GraphView, node: NodeInfo, name: str, default: int) -> int:
    found = view.ir_node(node.id).attributes.get(name)
    return int(found.as_int()) if found is not None and not found.is_ref() else default
