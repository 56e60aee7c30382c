"""A small CNN without a fault: every precision gives the same answer, and a tool must say so."""

from __future__ import annotations

import numpy as np

from trt_lab.zoo.base import Entry, GraphBuilder, ZooModel, make_feeds

CLEAN_CNN = Entry(
    name="clean_cnn",
    fault="",
    truth=(),
    keep=(),
    note="Nothing is wrong here: FP16 stays within 1e-3.",
)


def make_clean_cnn() -> ZooModel:
    """Makes the model: three stages of convolution, Relu and pooling, one of them residual, then a classifier."""
    graph = GraphBuilder("clean_cnn", seed=20240101)
    tensor = graph.conv("/stem/stem.0", "image", (3, 16))
    tensor = graph.node("/stem/stem.1/Relu", [tensor])
    tensor = graph.node("/stem/MaxPool", [tensor], kernel_shape=[2, 2], strides=[2, 2])
    inner = graph.conv("/block/conv1", tensor, (16, 16))
    inner = graph.node("/block/act1/Relu", [inner])
    inner = graph.conv("/block/conv2", inner, (16, 16))
    tensor = graph.node("/block/Add", [inner, tensor])
    tensor = graph.node("/block/act2/Relu", [tensor])
    tensor = graph.conv("/top/top.0", tensor, (16, 32))
    tensor = graph.node("/top/top.1/Relu", [tensor])
    tensor = graph.node("/pool/GlobalAveragePool", [tensor])
    tensor = graph.node("/Flatten", [tensor], axis=1)
    bound = 1 / np.sqrt(32)
    weight = graph.weight("fc.weight", graph.random.uniform(-bound, bound, (10, 32)))
    bias = graph.weight("fc.bias", graph.random.uniform(-bound, bound, 10))
    graph.node("/fc/Gemm", [tensor, weight, bias], "logits", alpha=1.0, beta=1.0, transB=1)
    return ZooModel.of(
        CLEAN_CNN,
        graph.finish({"image": ("N", 3, 32, 32)}, {"logits": ("N", 10)}),
        make_feeds("image", (1, 3, 32, 32), seed=3),
    )
