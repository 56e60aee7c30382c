"""Bytes of a file to a ModelProto, with a clear word when they are none."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError

from trt_lab.errors import ModelError

_MAX_PROTO_BYTES = 2**31 - 1
_LENGTH_DELIMITED = (FieldDescriptor.CPPTYPE_STRING, FieldDescriptor.CPPTYPE_MESSAGE)
_KNOWN_STARTS = (
    (b"version https://git-lfs", "is a Git LFS pointer, not the model: run `git lfs pull`"),
    (b"PK\x03\x04", "is a zip archive, not an ONNX file: unpack it, or export the PyTorch model to ONNX"),
    (b"ftrt", "is a TensorRT engine, not an ONNX file: give the model that it was built from"),
    (b"<", "is a text or web page, not an ONNX file: download it again"),
)


def read_path(source: str | os.PathLike[str]) -> tuple[onnx.ModelProto, Path]:
    """Reads a model file.

    Raises:
        ModelError: It is not there, cannot be read, or is not a whole ONNX file.
    """
    path = Path(source).expanduser()
    if path.is_dir():
        found = sorted(child.name for child in path.glob("*.onnx"))
        hint = f"give one of its files: {', '.join(found[:5])}" if found else "give an .onnx file"
        raise ModelError(f"{path} is a folder; {hint}")
    try:
        size = path.stat().st_size
        if size > _MAX_PROTO_BYTES:
            raise ModelError(
                f"{path} has {size} bytes; ONNX holds at most 2 GB in one file: save it with external data"
            )
        data = path.read_bytes()
    except FileNotFoundError:
        raise ModelError(f"{path}: no such file; check the path") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ModelError(f"{path} cannot be read: {reason}") from error
    return parse(data, str(path)), path


def parse(data: bytes, label: str) -> onnx.ModelProto:
    """Parses a serialized model. `label` names it in errors.

    Raises:
        ModelError: Not ONNX, truncated, or without a graph.
    """
    if not data:
        raise ModelError(f"{label} is empty (0 bytes): export or copy the model again")
    for start, meaning in _KNOWN_STARTS:
        if data.startswith(start):
            raise ModelError(f"{label} {meaning}")
    try:
        proto = onnx.ModelProto.FromString(data)
    except DecodeError as error:
        raise ModelError(f"{label} {_describe_damage(data)}") from error
    if not proto.HasField("graph"):
        raise ModelError(f"{label} is not an ONNX model (no graph in it): give the .onnx file that was exported")
    odd = next((text for text in _texts(proto) if isinstance(text, bytes)), None)
    if odd is not None:
        raise ModelError(
            f"{label} is a damaged ONNX file (a name in it is no UTF-8 text: {odd[:40]!r}): export it again"
        )
    return proto


def _texts(proto: onnx.ModelProto) -> Iterator[str | bytes]:
    """Names of a model; protobuf gives those that are no UTF-8 as bytes, which nothing behind expects."""
    yield from (proto.producer_name, proto.producer_version, proto.domain)
    yield from (opset.domain for opset in proto.opset_import)
    yield from (text for entry in proto.metadata_props for text in (entry.key, entry.value))
    for function in proto.functions:
        yield from (function.name, function.domain, *function.input, *function.output)
        yield from _node_texts(function.node)
    yield from _graph_texts(proto.graph)


def _graph_texts(graph: onnx.GraphProto) -> Iterator[str | bytes]:
    yield graph.name
    yield from _node_texts(graph.node)
    for value in (*graph.input, *graph.output, *graph.value_info):
        yield value.name
        yield from (dim.dim_param for dim in value.type.tensor_type.shape.dim)
    for tensor in graph.initializer:
        yield tensor.name
        yield from (text for entry in tensor.external_data for text in (entry.key, entry.value))


def _node_texts(nodes: Iterable[onnx.NodeProto]) -> Iterator[str | bytes]:
    for node in nodes:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        for attribute in node.attribute:
            yield attribute.name
            for graph in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
                yield from _graph_texts(graph)


def _describe_damage(data: bytes) -> str:
    """Says whether `data` is a cut ONNX file or no ONNX file at all, by walking its outermost fields."""
    fields = onnx.ModelProto.DESCRIPTOR.fields_by_number
    position = seen = 0
    while position < len(data):
        tag, after = _varint(data, position)
        field = fields.get(tag >> 3) if tag is not None else None
        wire_type = (tag or 0) & 7
        if field is None or wire_type != (2 if field.cpp_type in _LENGTH_DELIMITED else 0):
            break
        number, after = _varint(data, after)
        if number is None:
            return _truncated(data, field.name)
        position = after + number if wire_type == 2 else after
        if position > len(data):
            return _truncated(data, field.name, position - len(data))
        seen += 1
    if seen:
        return f"is a damaged ONNX file (unreadable after byte {position}): copy or export it again"
    return "is not an ONNX file: give the .onnx file that was exported"


def _truncated(data: bytes, field: str, missing: int | None = None) -> str:
    lacking = f"{missing} bytes of its {field} are missing" if missing else f"it ends within its {field}"
    return f"is truncated: {len(data)} bytes are there, {lacking}; copy or download it again"


def _varint(data: bytes, position: int) -> tuple[int | None, int]:
    """Reads a protobuf varint; (None, position) at the end of the data."""
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            return None, position
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, position
    return None, position
