"""Types and attributes as short text."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import onnx_ir as ir

_LONGEST = 80


def dtype_name(value: ir.Value) -> str | None:
    """numpy or ml_dtypes name of a tensor's type; None when unknown or no tensor (a sequence)."""
    if not isinstance(value.type, ir.TensorType):
        return None
    return _name(value.type.dtype)


@lru_cache(maxsize=64)
def _name(dtype: ir.DataType) -> str | None:
    if dtype == ir.DataType.UNDEFINED:
        return None
    if dtype == ir.DataType.STRING:
        return "string"
    return dtype.numpy().name


def printable(node: ir.Node) -> Mapping[str, str]:
    """Attributes as text of at most 80 characters each."""
    if not node.attributes:
        return _NONE
    return {name: _text(attribute) for name, attribute in node.attributes.items()}


_NONE: Mapping[str, str] = {}


def _text(attribute: ir.Attr) -> str:
    if attribute.is_ref():
        return f"@{attribute.ref_attr_name}"
    value: Any = attribute.value
    kind = attribute.type
    if kind == ir.AttributeType.TENSOR:
        text = _tensor_text(value)
    elif kind in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
        graphs = [value] if kind == ir.AttributeType.GRAPH else value
        text = f"graph of {sum(len(graph) for graph in graphs)} nodes"
    elif kind == ir.AttributeType.FLOAT:
        text = f"{value:.7g}"
    elif kind == ir.AttributeType.FLOATS:
        text = _listed([f"{number:.7g}" for number in value[:_LONGEST]])
    elif kind == ir.AttributeType.INTS:
        text = _listed([str(number) for number in value[:_LONGEST]])
    elif kind in (ir.AttributeType.TENSORS, ir.AttributeType.TYPE_PROTOS):
        text = f"{len(value)} values"
    else:
        text = str(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _listed(items: list[str]) -> str:
    return f"[{', '.join(items)}]"


def _tensor_text(tensor: ir.TensorProtocol) -> str:
    sizes = "×".join(str(size) for size in tensor.shape.numpy()) or "scalar"
    head = f"{_name(tensor.dtype)} {sizes}"
    if tensor.size > 8:
        return head
    if tensor.dtype == ir.DataType.STRING:
        return f"{head}: {[text.decode(errors='replace') for text in tensor.numpy().reshape(-1)]}"
    return f"{head}: {tensor.numpy().tolist()}"
