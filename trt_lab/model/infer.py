"""Types and shapes of all tensors, found without touching large weights (so that models over 2 GB work)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

import onnx
import onnx_ir as ir

from trt_lab.model.external import subgraphs_of, tensor_bytes
from trt_lab.types import Shape

LARGE_BYTES = 64 * 1024
"""Tensors above this are shown to shape inference as a type and a shape only. No shape tensor is that large."""

_MADE_UP_SYMBOL = re.compile(r"unk__\d+")


def infer_into(model: ir.Model, light: onnx.ModelProto) -> tuple[dict[ir.Value, Shape], str]:
    """Infers types and shapes and writes them into `model`.

    What is inferred wins over what the file declares; where nothing is inferred, the declaration stays.

    Args:
        model: Changed in place (types and shapes of values only).
        light: The same model as made by `lighten`; changed.

    Returns:
        Shapes declared in the file that contradict the inferred ones, by value; and, when inference failed, why.
    """
    declared = {key: value for graph in model.graphs() for key, value in _declarations(graph)}
    try:
        inferred = onnx.shape_inference.infer_shapes(light, check_type=False, strict_mode=False, data_prop=True)
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError) as error:
        return {}, " ".join(str(error).split())[:200]
    stale: dict[ir.Value, Shape] = {}
    waiting: list[tuple[ir.Graph, onnx.GraphProto]] = [(model.graph, inferred.graph)]
    while waiting:
        graph, proto = waiting.pop()
        types = {info.name: info.type for info in (*proto.value_info, *proto.output)}
        for node, node_proto in zip(graph, proto.node, strict=True):
            for value in node.outputs:
                if value.name and value.name in types:
                    _merge(value, types[value.name], declared.get(value), stale)
            if subgraphs := list(graphs_of(node)):
                waiting.extend(zip(subgraphs, subgraphs_of(node_proto), strict=True))
    return stale, ""


def graphs_of(node: ir.Node) -> Iterator[ir.Graph]:
    """Graphs in the attributes of `node`, in attribute order."""
    for attribute in node.attributes.values():
        if attribute.is_ref():
            continue
        if attribute.type == ir.AttributeType.GRAPH:
            yield attribute.as_graph()
        elif attribute.type == ir.AttributeType.GRAPHS:
            yield from attribute.as_graphs()


def shape_of(value: ir.Value) -> Shape | None:
    """Shape of a value as numbers, names and None; None when the rank is unknown.

    `?` and negative sizes, which exporters write for "unknown", are None: equal names mean equal sizes.
    """
    if value.shape is None:
        return None
    dims = [dim if isinstance(dim, int) else dim.value for dim in value.shape]
    return tuple([None if dim == "?" or (isinstance(dim, int) and dim < 0) else dim for dim in dims])


def _declarations(graph: ir.Graph) -> Iterator[tuple[ir.Value, Shape]]:
    for node in graph:
        for value in node.outputs:
            if value.shape is not None:
                yield value, shape_of(value) or ()


def _merge(value: ir.Value, found: onnx.TypeProto, declared: Shape | None, stale: dict[ir.Value, Shape]) -> None:
    """Writes an inferred type into `value`; notes a contradicting declaration in `stale`."""
    if found.WhichOneof("value") != "tensor_type":
        return
    tensor = found.tensor_type
    if tensor.elem_type and (value.dtype is None or value.dtype.value != tensor.elem_type):
        value.dtype = ir.DataType(tensor.elem_type)
    if not tensor.HasField("shape"):
        return
    dims: list[int | str | None] = []
    for dim in tensor.shape.dim:
        kind = dim.WhichOneof("value")
        if kind == "dim_value":
            dims.append(dim.dim_value)
        elif kind == "dim_param" and not _MADE_UP_SYMBOL.fullmatch(dim.dim_param):
            dims.append(dim.dim_param)
        else:
            dims.append(None)
    if declared is not None:
        if len(declared) != len(dims) or any(
            isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(declared, dims, strict=True)
        ):
            stale[value] = declared
        else:
            dims = [old if new is None else new for old, new in zip(declared, dims, strict=True)]
        if tuple(dims) == declared:
            return
    value.shape = ir.Shape(dims)


def lighten(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Copies a model for inference: no large weights, and no declared shape that inference can find itself."""
    light = onnx.ModelProto(ir_version=proto.ir_version)
    light.opset_import.extend(proto.opset_import)
    light.functions.extend(proto.functions)
    _lighten_graph(proto.graph, light.graph)
    known = {entry.domain for entry in light.opset_import}
    for node in light.graph.node:
        if node.domain not in known:
            known.add(node.domain)
            light.opset_import.add(domain=node.domain, version=1)
    return light


def _lighten_graph(source: onnx.GraphProto, target: onnx.GraphProto) -> None:
    target.name = source.name or "graph"
    target.input.extend(source.input)
    target.node.extend(source.node)
    for tensor in source.initializer:
        copy = target.initializer.add()
        if not _is_large(tensor):
            copy.CopyFrom(tensor)
        else:
            copy.name, copy.data_type = tensor.name, tensor.data_type
            copy.dims.extend(tensor.dims)
            copy.data_location = onnx.TensorProto.EXTERNAL
    inferable: set[str] = set()
    for node in target.node:
        if _has_inference(node.op_type, node.domain):
            inferable.update(node.output)
        _lighten_attributes(node)
    target.value_info.extend(info for info in source.value_info if info.name not in inferable)
    for info in source.output:
        copy = target.output.add(name=info.name)
        if info.name not in inferable:
            copy.CopyFrom(info)


def _lighten_attributes(node: onnx.NodeProto) -> None:
    for attribute in node.attribute:
        if attribute.HasField("t") and _is_large(attribute.t):
            for field in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
                attribute.t.ClearField(field)
            attribute.t.data_location = onnx.TensorProto.EXTERNAL
        for graph in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
            copy = onnx.GraphProto()
            _lighten_graph(graph, copy)
            graph.CopyFrom(copy)


def _is_large(tensor: onnx.TensorProto) -> bool:
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return True
    if tensor.data_type in (onnx.TensorProto.STRING, onnx.TensorProto.UNDEFINED):
        return False
    return tensor_bytes(tensor.data_type, tensor.dims) > LARGE_BYTES


@lru_cache(maxsize=4096)
def _has_inference(op_type: str, domain: str) -> bool:
    if not onnx.defs.has(op_type, domain=domain):
        return False
    return onnx.defs.get_schema(op_type, domain=domain).has_type_and_shape_inference_function


def light_proto(model: ir.Model) -> onnx.ModelProto:
    """Serializes `model` without its large weights (see `lighten`); `model` is equal before and after."""
    return lighten(skeleton(model, LARGE_BYTES))


def skeleton(model: ir.Model, keep_bytes: int) -> onnx.ModelProto:
    """Serializes `model` with every initializer above `keep_bytes` as a type and a shape only."""
    if any(tensor.nbytes > keep_bytes for _, tensor in initializers(model)):
        model = model.clone()  # shares the tensors; others may be reading `model` now
        for value, tensor in initializers(model):
            if tensor.nbytes > keep_bytes:
                shape = ir.Shape(tensor.shape.numpy())
                value.const_value = ir.ExternalTensor("", None, None, tensor.dtype, shape=shape, name=value.name or "")
    return ir.to_proto(model)


def initializers(model: ir.Model) -> Iterable[tuple[ir.Value, ir.TensorProtocol]]:
    """Yields all initializers that have data, those of subgraphs included."""
    for graph in model.graphs():
        for value in graph.initializers.values():
            if value.const_value is not None:
                yield value, value.const_value
