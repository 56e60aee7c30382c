"""External data: contained in the model's folder, complete, and small tensors taken in."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path, PureWindowsPath

import onnx
import onnx_ir as ir

from trt_lab.errors import ModelError

TAKE_IN_BYTES = 64 * 1024
"""External tensors up to this size are read when the model is loaded: shapes, axes and scales must be known to infer."""


def iter_graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yields `graph` and every graph nested in it."""
    waiting = [graph]
    while waiting:
        current = waiting.pop()
        yield current
        for node in current.node:
            waiting.extend(subgraphs_of(node))


def subgraphs_of(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """Graphs in the attributes of `node`, in attribute order."""
    found: list[onnx.GraphProto] = []
    for attribute in node.attribute:
        if attribute.HasField("g"):
            found.append(attribute.g)
        found.extend(attribute.graphs)
    return found


def iter_tensors(proto: onnx.ModelProto) -> Iterator[tuple[str, onnx.TensorProto]]:
    """Yields every tensor with a name for messages: initializers and attributes, subgraphs and functions included."""
    for graph in iter_graphs(proto.graph):
        for tensor in graph.initializer:
            yield tensor.name, tensor
        yield from _attribute_tensors(graph.node)
    for function in proto.functions:
        yield from _attribute_tensors(function.node)
        for node in function.node:
            for subgraph in subgraphs_of(node):
                for graph in iter_graphs(subgraph):
                    for tensor in graph.initializer:
                        yield tensor.name, tensor
                    yield from _attribute_tensors(graph.node)


def _attribute_tensors(nodes: Iterable[onnx.NodeProto]) -> Iterator[tuple[str, onnx.TensorProto]]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t.name or f"{node.name or node.op_type}.{attribute.name}", attribute.t
            for tensor in attribute.tensors:
                yield tensor.name or f"{node.name or node.op_type}.{attribute.name}", tensor


def tensor_bytes(data_type: int, dims: Iterable[int]) -> int:
    """Bytes of a tensor as stored; types below 8 bits are packed."""
    count = 1
    for dim in dims:
        count *= dim
    return -(-count * int(ir.DataType(data_type).bitwidth) // 8)


def take_in(proto: onnx.ModelProto, label: str, folder: Path | None) -> list[str]:
    """Checks that all tensors of `proto` have their data, and reads the small external ones into it.

    Args:
        proto: Changed in place.
        label: Names the model in errors.
        folder: Folder of the model file; None when the model came without one.

    Returns:
        Notes, one line each.

    Raises:
        ModelError: Data outside the folder, missing or short. The message names tensor and full path.
    """
    stripped: list[str] = []
    for name, tensor in iter_tensors(proto):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            if not _has_data(name, tensor, label):
                stripped.append(name)
            continue
        if folder is None:
            raise ModelError(
                f"{label}: tensor '{name}' lies in an external file, which bytes alone do not have; give the path of the model"
            )
        path, offset, needed = _check(name, tensor, label, folder)
        if needed > TAKE_IN_BYTES:
            continue
        with path.open("rb") as file:
            file.seek(offset)
            tensor.raw_data = file.read(needed)
        del tensor.external_data[:]
        tensor.data_location = onnx.TensorProto.DEFAULT
    if not stripped:
        return []
    return [
        f"weights are not in the file for {len(stripped)} tensors ('{stripped[0]}', …): it can be looked at, not run"
    ]


def _has_data(name: str, tensor: onnx.TensorProto, label: str) -> bool:
    """Whether a tensor stored in the file has values; False for one that was stripped of them on purpose."""
    if tensor.data_type in (onnx.TensorProto.STRING, onnx.TensorProto.UNDEFINED):
        return True
    try:
        needed = tensor_bytes(tensor.data_type, tensor.dims)
    except (ValueError, TypeError) as error:
        raise ModelError(
            f"{label}: tensor '{name}' has an unknown type ({error}); update onnx or export again"
        ) from error
    if tensor.HasField("raw_data"):
        if tensor.raw_data and len(tensor.raw_data) != needed:
            raise ModelError(
                f"{label}: tensor '{name}' is damaged: {needed} needed, {len(tensor.raw_data)} there (bytes); export again"
            )
        return bool(tensor.raw_data) or needed == 0
    typed = (tensor.float_data, tensor.int32_data, tensor.int64_data, tensor.double_data, tensor.uint64_data)
    return needed == 0 or any(len(values) for values in typed)


def _check(name: str, tensor: onnx.TensorProto, label: str, folder: Path) -> tuple[Path, int, int]:
    """Returns data file, offset and bytes needed of one external tensor, or raises ModelError."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    where = f"{label}: tensor '{name}'"
    path = contained_path(entries.get("location", ""), folder, where)
    try:
        offset, length = int(entries.get("offset") or 0), int(entries.get("length") or 0)
        needed = tensor_bytes(tensor.data_type, tensor.dims)
    except (ValueError, TypeError) as error:
        raise ModelError(f"{where} has an unreadable external entry ({error}); export the model again") from error
    if offset < 0 or length < 0 or needed < 0:
        raise ModelError(f"{where} has a negative offset, length or size; export the model again")
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise ModelError(f"{where}: its data file {path} is missing; put it beside the model") from None
    except OSError as error:
        raise ModelError(f"{where}: its data file {path} cannot be read: {error.strerror}") from error
    there = max(size - offset, 0)
    if length:
        there = min(there, length)
    if there < needed:
        raise ModelError(
            f"{where}: its data in {path} is short: {needed} needed, {there} there (bytes); copy the file again"
        )
    return path, offset, needed


def contained_path(location: str, folder: Path, where: str) -> Path:
    """Full path of an external data file that lies in `folder`.

    Raises:
        ModelError: Absolute, with '..', or leading out by a symbolic or hard link.
    """
    advice = "external data must lie in the model's folder: copy it there and save the model again"
    if not location:
        raise ModelError(f"{where} is external but names no file; export the model again")
    windows = PureWindowsPath(location)
    if os.path.isabs(location) or windows.drive or windows.root:
        raise ModelError(f"{where} wants the absolute path '{location}'; {advice}")
    if ".." in windows.parts or ".." in Path(location).parts:
        raise ModelError(f"{where} wants '{location}', which leads out of {folder}; {advice}")
    base = Path(os.path.abspath(folder))
    path = base / location
    try:
        real = path.resolve()
        links = real.stat().st_nlink if real.is_file() else 1
    except (OSError, RuntimeError, ValueError) as error:
        raise ModelError(f"{where}: its data file {path} cannot be read: {error}") from error
    if not real.is_relative_to(base.resolve()):
        raise ModelError(f"{where}: {path} is a link to {real}, out of the folder; {advice}")
    if real.is_dir():
        raise ModelError(f"{where}: {path} is a folder, not a data file; export the model again")
    if links > 1:
        raise ModelError(f"{where}: {path} is a hard link ({links} names of one file); {advice}")
    return path
