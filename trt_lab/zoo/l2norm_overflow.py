"""A CNN with an L2 normalisation over channels, written out: the square overflows FP16."""

from __future__ import annotations

import numpy as np

from trt_lab.types import NodeId
from trt_lab.zoo.base import Entry, GraphBuilder, ZooModel, make_feeds

_CHANNELS = 24
_LEVEL = 20_000.0
"""Level of the activations before the norm: they fit FP16 (65504), their squares and their norm do not."""


_REGION = tuple(NodeId(name) for name in ("/Mul", "/ReduceSum", "/Add", "/Sqrt", "/Div"))

L2NORM_OVERFLOW = Entry(
    name="l2norm_overflow",
    fault="/Mul squares activations near 20000: 4e8 leaves the range of FP16 (65504)",
    truth=_REGION[:1],
    keep=_REGION,
    note="The infinity spreads to /Sqrt and divides everything to 0; no output is NaN. Keeping /Mul alone does not "
    "help: the value must stay in FP32 until /Div brings it back into range.",
)


def make_l2norm_overflow() -> ZooModel:
    """Makes the model: x → 4 convolutions → x / sqrt(Σ x²) → 4 convolutions, residual, head → y."""
    graph = GraphBuilder("l2norm_overflow", seed=20240607)
    tensor, channels = "x", 3
    for index in (0, 2, 4):
        tensor = graph.conv(f"/a/a.{index}", tensor, (channels, _CHANNELS))
        tensor = graph.node(f"/a/a.{index + 1}/Relu", [tensor])
        channels = _CHANNELS
    weight = graph.random.normal(0, 1500, (_CHANNELS, _CHANNELS, 3, 3))
    tensor = graph.conv("/a/a.6", tensor, (_CHANNELS, _CHANNELS), weight=weight, bias=np.full(_CHANNELS, _LEVEL))
    tensor = graph.node("/a/a.7/Relu", [tensor])

    square = graph.node("/Mul", [tensor, tensor])
    axes = graph.weight("reduce_axes", np.array([1]), np.int64)
    total = graph.node("/ReduceSum", [square, axes], keepdims=1)
    safe = graph.node("/Add", [total, graph.weight("epsilon", np.array(1e-6))])
    norm = graph.node("/Sqrt", [safe])
    unit = graph.node("/Div", [tensor, norm])

    tensor = unit
    for index in (0, 2, 4, 6):
        tensor = graph.conv(f"/c/c.{index}", tensor, (_CHANNELS, _CHANNELS))
        tensor = graph.node(f"/c/c.{index + 1}/Relu", [tensor])
    tensor = graph.node("/Add_1", [tensor, unit])
    bound = 1 / np.sqrt(_CHANNELS)
    head = graph.weight("o.weight", graph.random.uniform(-bound, bound, (4, _CHANNELS, 1, 1)))
    bias = graph.weight("o.bias", graph.random.uniform(-bound, bound, 4))
    graph.node("/o/Conv", [tensor, head, bias], "y", kernel_shape=[1, 1], pads=[0] * 4, strides=[1, 1])
    model = graph.finish({"x": ("N", 3, 64, 64)}, {"y": ("N", 4, 64, 64)})
    return ZooModel.of(L2NORM_OVERFLOW, model, make_feeds("x", (1, 3, 64, 64), seed=1))
