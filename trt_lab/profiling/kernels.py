"""What a layer's kernel tells by its name and its figures: tensor cores, channels, quantisation."""

from __future__ import annotations

import re

from trt_lab.graph.view import GraphView
from trt_lab.types import LayerInfo, LayerTensor

_TENSOR_CORES = re.compile(
    r"tensor\d+x\d+|[hs_](?:884|1688|16816)|i(?:8816|8832|16832|16864|88128)|[hibqg]mma(?!\w*simt)|warpgroup|tensorop",
    re.IGNORECASE,
)
"""Shapes of the matrix instruction (h884, s1688, i8816, tensor16x8x16), or its name."""
_NO_TENSOR_CORES = re.compile(
    r"ffma|simt|scudnn|hcudnn|icudnn|int8x4|sgemm|dgemm|gemv|smallN|winograd|threadsize|fused_conv_act|dp4a",
    re.IGNORECASE,
)
"""Kernels of the ordinary cores: FP32 and FP16 fused multiply-add, the four-way INT8 dot product, Winograd."""
_MATRIX_TYPES = ("gemm", "fusion", "MatrixMultiply", "FullyConnected", "CaskGemmMatrixMultiply", "CaskFullyConnected")
_MATRIX_OPS = ("Conv", "ConvTranspose", "Gemm", "MatMul", "QLinearConv", "QLinearMatMul", "MatMulInteger")
_QUANTIZE_OPS = ("QuantizeLinear", "DequantizeLinear")
_QUANTIZE_NAME = re.compile(r"(?:De)?[Qq]uantizeLinear|QuantLinearNode")
_MULTIPLES = {"float16": 8, "bfloat16": 8, "int8": 16, "float8_e4m3fn": 16, "tf32": 4}
"""Channels that tensor cores take at once, by type: 16 bytes of them.

Source: Tensor Core requirements in NVIDIA's Deep Learning Performance guide (Matrix Multiplication Background).
"""


def on_tensor_cores(layer: LayerInfo) -> bool | None:
    """Whether the kernel uses tensor cores, by its name; None where the name does not tell."""
    if layer.tactic is None:
        return None
    if _TENSOR_CORES.search(layer.tactic):
        return True
    return False if _NO_TENSOR_CORES.search(layer.tactic) else None


def is_matrix_layer(layer: LayerInfo, view: GraphView | None) -> bool:
    """Whether the layer is a convolution or matrix product that is not depthwise."""
    groups = layer.attributes.get("Groups")
    if isinstance(groups, int) and groups > 1:
        return False
    if layer.attributes.get("ParameterType") == "Convolution" or layer.type in _MATRIX_TYPES:
        return "Depthwise" not in layer.type
    return view is not None and any(n in view.nodes and view.nodes[n].op_type in _MATRIX_OPS for n in layer.nodes)


def aligned_to(layer: LayerInfo) -> tuple[int, int, int] | None:
    """Inner and outer channels of a layer and the multiple its tensor cores take; None where one is not told.

    Channels in and out of a convolution; K and N of a matrix product.
    """
    multiple = _MULTIPLES.get(layer.precision or "")
    if multiple is None or not layer.inputs or not layer.outputs:
        return None
    outer = layer.attributes.get("OutMaps")
    if layer.attributes.get("ParameterType") == "Convolution":
        inner = _size(layer.inputs[0], 1)
    else:
        inner, outer = _size(layer.inputs[0], -1), _size(layer.outputs[0], -1)
    if not isinstance(inner, int) or not isinstance(outer, int) or inner < 1 or outer < 1:
        return None
    return inner, outer, multiple


def quantizes(layer: LayerInfo, view: GraphView | None) -> bool:
    """Whether quantising, or taking it back, is all that the layer does."""
    if layer.attributes.get("Origin") == "QDQ":
        return True
    if not layer.nodes:
        return False
    if view is not None:
        return all(n in view.nodes and view.nodes[n].op_type in _QUANTIZE_OPS for n in layer.nodes)
    return all(_QUANTIZE_NAME.search(node) for node in layer.nodes)


def _size(tensor: LayerTensor, axis: int) -> int | None:
    if tensor.shape is None or len(tensor.shape) < 2:
        return None
    size = tensor.shape[axis]
    return size if isinstance(size, int) else None
