"""Loads, checks, saves and hashes models. The only home of `onnx` and, with graph, edit and zoo, of `onnx_ir`."""

from trt_lab.model.collection import hold_collection
from trt_lab.model.infer import shape_of
from trt_lab.model.model import Model, ModelSource
from trt_lab.model.naming import assign_names

__all__ = ["Model", "ModelSource", "assign_names", "hold_collection", "shape_of"]
