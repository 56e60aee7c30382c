"""Tensors of a graph that lie in external files: where they are, and how they come in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import onnx_ir as ir


def set_folder(model: ir.Model, folder: Path) -> None:
    """Tells all external tensors the folder of the model."""
    base = os.path.abspath(folder)
    for value in _initialized(model):
        if isinstance(value.const_value, ir.ExternalTensor):
            value.const_value.base_dir = base
    for _, attribute in _tensor_attributes(model):
        for tensor in _tensors_of(attribute):
            if isinstance(tensor, ir.ExternalTensor):
                tensor.base_dir = base


def take_all_in(model: ir.Model) -> ir.Model:
    """The model itself when nothing of it is external, else a copy with all data in memory."""
    values = [v for v in _initialized(model) if isinstance(v.const_value, ir.ExternalTensor)]
    attributes = [
        a for _, a in _tensor_attributes(model) if any(isinstance(t, ir.ExternalTensor) for t in _tensors_of(a))
    ]
    if not values and not attributes:
        return model
    model = model.clone()
    for value in _initialized(model):
        if isinstance(value.const_value, ir.ExternalTensor):
            value.const_value = _loaded(value.const_value)
    for node, attribute in list(_tensor_attributes(model)):
        tensors = [_loaded(t) if isinstance(t, ir.ExternalTensor) else t for t in _tensors_of(attribute)]
        is_single = attribute.type == ir.AttributeType.TENSOR
        node.attributes[attribute.name] = ir.Attr(attribute.name, attribute.type, tensors[0] if is_single else tensors)
    return model


def _loaded(tensor: ir.ExternalTensor) -> ir.Tensor:
    return ir.Tensor(tensor.numpy(), dtype=tensor.dtype, name=tensor.name)


def _initialized(model: ir.Model) -> Iterator[ir.Value]:
    for graph in model.graphs():
        yield from graph.initializers.values()


def _tensor_attributes(model: ir.Model) -> Iterator[tuple[ir.Node, ir.Attr]]:
    for body in (*model.graphs(), *model.functions.values()):
        for node in body:
            for attribute in node.attributes.values():
                if not attribute.is_ref() and attribute.type in (ir.AttributeType.TENSOR, ir.AttributeType.TENSORS):
                    yield node, attribute


def _tensors_of(attribute: ir.Attr) -> list[ir.TensorProtocol]:
    return [attribute.as_tensor()] if attribute.type == ir.AttributeType.TENSOR else list(attribute.as_tensors())
