"""From a layout to what the canvas is sent: boxes with their texts, edges, the way to the graph shown."""

from __future__ import annotations

import re

import numpy as np

from trt_lab.graph.layout import KINDS, Layout
from trt_lab.graph.tree import ancestors, tree_of
from trt_lab.graph.view import GraphView
from trt_lab.types import NodeId, Shape, TensorId, TensorInfo
from trt_lab.wire import Crumb, Place, Scene

OPERATORS: dict[str, str] = {
    "tensor": """
        Cast Concat Constant ConstantOfShape DepthToSpace Expand Flatten Gather GatherElements GatherND Identity
        OneHot Pad Reshape Resize ScatterElements ScatterND Shape Size Slice SpaceToDepth Split Squeeze Tile
        Transpose Unsqueeze Upsample QuantizeLinear DequantizeLinear DynamicQuantizeLinear Reformat NoOp Shuffle
        Padding copy memset""",
    "convolution": """
        Conv ConvTranspose ConvInteger QLinearConv DeformConv CaskConvolution CaskGemmConvolution CaskDeconvolutionV2
        CublasConvolution CudaDepthwiseConvolution ConvActPool""",
    "matmul": """
        Attention Einsum Gemm MatMul MatMulInteger QLinearMatMul LSTM GRU RNN FusedMatMul MultiHeadAttention
        gemm""",
    "normalisation": """
        BatchNormalization GroupNormalization InstanceNormalization LayerNormalization LpNormalization LRN
        MeanVarianceNormalization RMSNormalization SkipLayerNormalization SimplifiedLayerNormalization""",
    "activation": """
        Celu Clip Elu Gelu HardSigmoid HardSwish LeakyRelu LogSoftmax Mish PRelu Relu Selu Sigmoid Softmax Softplus
        Softsign Swish Tanh ThresholdedRelu FastGelu CudaSoftMax""",
    "elementwise": """
        Abs Add And Ceil Cos Div Equal Erf Exp Floor Greater GreaterOrEqual IsInf IsNaN Less LessOrEqual Log Max Mean
        Min Mod Mul Neg Not Or Pow Reciprocal Round Sign Sin Sqrt Sub Sum Where Xor PointWiseV2 Scale""",
    "reduction": """
        ArgMax ArgMin AveragePool CumSum GlobalAveragePool GlobalMaxPool MaxPool ReduceL1 ReduceL2 ReduceLogSum
        ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare TopK
        Reduce CaskPooling TiledPooling CudaPooling""",
    "control": "If Loop Scan SequenceMap jmp cjmp shape_call",
}
"""Operators of ONNX, and layer types of TensorRT engines, by what they do; all others are `other`."""

OP_CLASSES: tuple[str, ...] = (*OPERATORS, "other")
_CLASS_OF = {op: index for index, names in enumerate(OPERATORS.values()) for op in names.split()}

_SHORT = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c"}


def op_class(op_type: str) -> int:
    """Index into `OP_CLASSES`."""
    return _CLASS_OF.get(op_type, len(OPERATORS))


def shape_text(shape: Shape | None) -> str:
    """`1×3×H×?`; "scalar" for rank 0, "rank unknown" for None."""
    if shape is None:
        return "rank unknown"
    return "×".join("?" if size is None else str(size) for size in shape) or "scalar"


def type_text(tensor: TensorInfo) -> str:
    """`float32 · 1×3×H×W`."""
    return f"{tensor.dtype or 'type unknown'} · {shape_text(tensor.shape)}"


def edge_text(tensor: TensorInfo) -> str:
    """`f32 1×3×H×W`: what fits beside an edge, long symbolic sizes cut. Empty when nothing is known."""
    short = re.sub(r"^(bfloat|float|uint|int|complex)(?=\d)", lambda found: _SHORT[found[1]], tensor.dtype or "")
    if tensor.shape is None:
        return short
    sizes = [f"{size[:3]}…{size[-3:]}" if isinstance(size, str) and len(size) > 9 else size for size in tensor.shape]
    return f"{short} {shape_text(tuple(sizes))}".strip()


def make_scene(view: GraphView, layout: Layout) -> tuple[Scene, dict[str, np.ndarray]]:
    """The message and its arrays; see `wire.Scene`."""
    labels, details = _texts(view, layout)
    nested = {
        node: list(view.nodes[NodeId(node)].subgraphs)
        for node in layout.ids
        if node in view.nodes and view.nodes[NodeId(node)].subgraphs
    }
    scene = Scene(
        graph=layout.graph,
        title=view.model.name,
        expanded=sorted(layout.expanded),
        crumbs=crumbs_to(view, layout.graph),
        kinds=list(KINDS),
        op_classes=list(OP_CLASSES),
        ids=list(layout.ids),
        labels=labels,
        details=details,
        tensors=list(layout.tensors),
        tensor_labels=[edge_text(view.tensors[tensor]) for tensor in layout.tensors],
        nested=nested,
        notes=list(view.notes),
        nodes=len(view.graphs[layout.graph].nodes),
    )
    x, y, w, h = np.ascontiguousarray(layout.boxes.T)
    arrays = {
        "x": x,
        "y": y,
        "w": w,
        "h": h,
        "kind": layout.kinds,
        "parent": layout.parents,
        "peer": layout.peers,
        "count": layout.counts,
        "op_class": np.array([op_class(op) for op in layout.op_types], np.uint8),
        "edge_from": layout.edge_sources,
        "edge_to": layout.edge_targets,
        "edge_tensor": layout.edge_tensors,
        "edge_start": layout.route_starts,
        "point_x": np.ascontiguousarray(layout.route_points[:, 0]),
        "point_y": np.ascontiguousarray(layout.route_points[:, 1]),
    }
    return scene, arrays


def _texts(view: GraphView, layout: Layout) -> tuple[list[str], list[str]]:
    """First and second line of each box: a node's operator and name, a scope's name and size, a tensor's name."""
    labels, details = [], []
    rows = zip(layout.ids, layout.labels, layout.op_types, layout.kinds.tolist(), layout.counts.tolist(), strict=True)
    for name, label, op_type, kind, count in rows:
        what = KINDS[kind]
        if what == "node":
            labels.append(op_type)
            details.append(label if view.nodes[NodeId(name)].name and label != op_type else "")
        elif what in ("scope", "frame"):
            labels.append(label)
            details.append(f"{count} nodes")
        else:
            labels.append(label)
            details.append("" if what == "portal" else type_text(view.tensors[TensorId(name)]))
    return labels, details


def crumbs_to(view: GraphView, graph: str) -> list[Crumb]:
    """The graphs from the main one to `graph`."""
    steps: list[Crumb] = []
    path = graph
    while path:
        info = view.graphs[path]
        node = view.nodes[info.node] if info.node is not None else None
        steps.append(Crumb(graph=path, label=f"{node.id} · {info.attribute}" if node else info.attribute))
        path = node.graph if node else ""
    return [Crumb(graph="", label=view.model.name), *reversed(steps)]


def place_of(view: GraphView, item: str) -> Place:
    """Where a node, tensor or scope is drawn.

    Raises:
        ModelError: There is no such thing; the message names close ones.
    """
    if item in view.nodes:
        return _place_node(view, NodeId(item))
    if item in view.tensors:
        return _place_tensor(view, view.tensors[TensorId(item)])
    for graph in view.graphs:
        branches = tree_of(view, graph).branches
        found = next((branch for branch in branches[1:] if not branch.is_node and branch.id == item), None)
        if found is not None:
            opened = []
            above = found.parent
            while above > 0:
                opened.append(branches[above].id)
                above = branches[above].parent
            return Place(graph=graph, open=opened[::-1], item=item)
    inside = next((node.id for node in view.nodes.values() if f"{node.scope}/".startswith(f"{item}/")), None)
    return _place_node(view, inside if item and inside is not None else view.node(item).id)


def _place_node(view: GraphView, node: NodeId) -> Place:
    graph = view.nodes[node].graph
    hidden = tree_of(view, graph).hidden
    shown = node
    while shown in hidden:
        shown = hidden[shown]
    return Place(graph=graph, open=list(ancestors(view, shown)), item=shown)


def _place_tensor(view: GraphView, tensor: TensorInfo) -> Place:
    if tensor.role == "input":
        return Place(graph=tensor.graph, open=[], item=tensor.id)
    if tensor.producer is not None:
        return _place_node(view, tensor.producer)
    if tensor.consumers:
        return _place_node(view, tensor.consumers[0])
    return Place(graph=tensor.graph, open=[], item=tensor.id)
