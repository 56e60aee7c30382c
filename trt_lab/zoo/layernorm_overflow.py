"""A small MLP block with a LayerNorm written out as seven nodes: Pow overflows FP16, without any NaN (case C24)."""

from __future__ import annotations

import numpy as np

from trt_lab.types import NodeId
from trt_lab.zoo.base import Entry, GraphBuilder, ZooModel, make_feeds

_WIDTH = 64
_LEVEL = np.array([400.0, -400.0, 400.0, -400.0, 400.0, -400.0, 100.0, -100.0])
"""Offsets of the channels before the norm: they fit FP16, their squares (160000) do not, nor does their mean (121000)."""


_REGION = tuple(NodeId(f"/norm/{name}") for name in ("Pow", "ReduceMean_1", "Add", "Sqrt"))

LAYERNORM_OVERFLOW = Entry(
    name="layernorm_overflow",
    fault="/norm/Pow squares values near 400: 160000 leaves the range of FP16 (65504)",
    truth=_REGION[:1],
    keep=_REGION,
    note="No LayerNormalization node is to be seen, yet the seven nodes under /norm are one. Variance becomes Inf, the "
    "normalised value 0, and the output looks calm.",
)


def make_layernorm_overflow() -> ZooModel:
    """Makes the model: tokens → embedding → LayerNorm → MLP with residual → head → y."""
    graph = GraphBuilder("layernorm_overflow", seed=20240524)

    def linear(
        scope: str,
        source: str,
        sizes: tuple[int, int],
        bias: np.ndarray | None = None,
        gain: float = 1.0,
        output: str = "",
    ) -> str:
        bound = 1 / np.sqrt(sizes[0])
        path = scope.strip("/").replace("/", ".")
        weight = graph.weight(f"{path}.weight", graph.random.uniform(-bound, bound, sizes) * gain)
        offset = graph.random.uniform(-bound, bound, sizes[1]) if bias is None else bias
        product = graph.node(f"{scope}/MatMul", [source, weight])
        return graph.node(f"{scope}/Add", [product, graph.weight(f"{path}.bias", offset)], output)

    tensor = linear("/embed", "tokens", (32, _WIDTH), np.tile(_LEVEL, _WIDTH // len(_LEVEL)))
    mean = graph.node("/norm/ReduceMean", [tensor], axes=[-1], keepdims=1)
    centred = graph.node("/norm/Sub", [tensor, mean])
    square = graph.node("/norm/Pow", [centred, graph.weight("norm.two", np.array(2.0))])
    variance = graph.node("/norm/ReduceMean_1", [square], axes=[-1], keepdims=1)
    safe = graph.node("/norm/Add", [variance, graph.weight("norm.epsilon", np.array(1e-5))])
    deviation = graph.node("/norm/Sqrt", [safe])
    normal = graph.node("/norm/Div", [centred, deviation])
    inner = graph.node("/mlp/act/Relu", [linear("/mlp/fc1", normal, (_WIDTH, 2 * _WIDTH))])
    added = graph.node("/mlp/Add", [linear("/mlp/fc2", inner, (2 * _WIDTH, _WIDTH)), normal])
    linear("/head", added, (_WIDTH, 8), gain=0.4, output="y")
    model = graph.finish({"tokens": ("N", 16, 32)}, {"y": ("N", 16, 8)})
    return ZooModel.of(LAYERNORM_OVERFLOW, model, make_feeds("tokens", (1, 16, 32), seed=2))
