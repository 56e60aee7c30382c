"""ONNX Runtime on the CPU: the reference, and the engine that every machine has."""

from trt_lab.backends.onnxruntime.backend import OnnxRuntime

__all__ = ["OnnxRuntime"]
