"""Hashes of graph and weights that do not depend on how a model is stored."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import onnx
import onnx_ir as ir

from trt_lab.model.infer import initializers, skeleton

_CHUNK_BYTES = 16 * 1024 * 1024


def hash_graph(model: ir.Model) -> str:
    """SHA-256 in hex over nodes, inputs, outputs and the types of the weights; declared shapes and texts are left out."""
    proto = skeleton(model, -1)
    bare = onnx.ModelProto(ir_version=proto.ir_version)
    bare.opset_import.extend(sorted(proto.opset_import, key=lambda entry: entry.domain))
    bare.functions.extend(proto.functions)
    bare.graph.CopyFrom(proto.graph)
    bare.graph.doc_string = ""
    del bare.graph.value_info[:]
    for output in bare.graph.output:
        output.ClearField("type")
    return hashlib.sha256(bare.SerializeToString(deterministic=True)).hexdigest()


def hash_weights(model: ir.Model) -> str:
    """SHA-256 in hex over all initializers: name, type, shape and bytes."""
    digest = hashlib.sha256()
    for value, tensor in initializers(model):
        digest.update(f"{value.name}\0{tensor.dtype.name}\0{tuple(tensor.shape.numpy())}\0".encode())
        for part in _parts(tensor):
            digest.update(part)
    return digest.hexdigest()


def _parts(tensor: ir.TensorProtocol) -> Iterator[bytes]:
    """Bytes of a tensor, large external files in chunks."""
    if tensor.dtype == ir.DataType.STRING:
        for text in tensor.string_data():  # pyright: ignore[reportAttributeAccessIssue] (string tensors have it)
            yield len(text).to_bytes(8, "little") + text
    elif isinstance(tensor, ir.ExternalTensor):
        with open(tensor.path, "rb") as file:
            file.seek(tensor.offset or 0)
            left = tensor.nbytes
            while left and (part := file.read(min(left, _CHUNK_BYTES))):
                left -= len(part)
                yield part
    else:
        yield tensor.tobytes()
