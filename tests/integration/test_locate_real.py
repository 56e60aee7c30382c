"""A fault planted in a real model: PP-OCRv4 rec, with the weights of one convolution scaled up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from trt_lab.graph import GraphView
from trt_lab.model import Model
from trt_lab.session import Session

FACTOR = np.float32(2**20)
SHAPE = (1, 3, 48, 160)


def plant(path: Path) -> tuple[onnx.ModelProto, tuple[str, str]]:
    """Scales weights and bias of the middle one of the convolutions before a BatchNormalization by 2²⁰.

    Mean and variance of the normalisation are scaled along (by 2²⁰ and 2⁴⁰), so in FP32 the model is as it was; in
    FP16 the convolution overflows. Returns the ids of both nodes.
    """
    model = Model.load(path)
    view = GraphView.of(model)
    pairs = [
        (node, after)
        for node in view.nodes.values()
        if node.op_type == "Conv" and len(view.successors(node.id)) == 1
        for after in [view.nodes[view.successors(node.id)[0]]]
        if after.op_type == "BatchNormalization"
    ]
    conv, norm = pairs[len(pairs) // 2]
    factors = {name: FACTOR for name in conv.inputs[1:] if name} | {norm.inputs[3]: FACTOR, norm.inputs[4]: FACTOR**2}
    assert all(view.tensors[name].consumers in ((conv.id,), (norm.id,)) for name in factors if name)
    proto = model.proto()
    scaled = 0
    for tensor in proto.graph.initializer:
        if tensor.name in factors:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * factors[tensor.name], tensor.name))
            scaled += 1
    for node in proto.graph.node:
        if node.op_type == "Constant" and node.output[0] in factors:
            value = numpy_helper.to_array(node.attribute[0].t) * factors[node.output[0]]
            node.attribute[0].t.CopyFrom(numpy_helper.from_array(value))
            scaled += 1
    assert scaled == len(factors)
    return proto, (conv.id, norm.id)


@pytest.mark.slow
def test_a_planted_overflow_is_found_in_a_real_model(real_model: Callable[[str], Path], tmp_path: Path) -> None:
    path = real_model("ppocr_rec")
    clean = Session(path, records=tmp_path / "clean")
    clean.use(precision="fp16", shapes={"x": SHAPE}, atol=1e-2, rtol=1e-2)
    clean.feed(2)
    assert clean.locate().verdict == "same"

    proto, (conv, norm) = plant(path)
    lab = Session(proto, records=tmp_path / "planted")
    lab.use(precision="fp16", shapes={"x": SHAPE}, atol=1e-2, rtol=1e-2)
    lab.feed(2)
    golden, before = lab.golden().outputs(0), clean.golden().outputs(0)
    for name, array in golden.items():
        np.testing.assert_allclose(array, before[name], atol=1e-4)
    finding = lab.locate()
    assert finding.verdict == "differs"
    assert finding.source is not None and finding.source.node == conv
    assert finding.keep_fp32 == (conv, norm)
    assert finding.after is not None and finding.after.verdict == "same"
