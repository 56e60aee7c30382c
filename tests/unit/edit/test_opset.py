"""The opset raised for bfloat16: every operator still means what it meant."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import parser

from trt_lab.edit.opset import raise_for_bfloat16
from trt_lab.graph import GraphView
from trt_lab.model import Model
from trt_lab.samples import make_samples


def _model(text: str, opset: int) -> Model:
    return Model.from_proto(parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]>\n{text}'))


def _run(model: Model, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    proto = model.proto().SerializeToString()
    session = ort.InferenceSession(proto, options, providers=["CPUExecutionProvider"])
    return [np.asarray(value) for value in session.run(None, feeds)]


REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")


def _changed(opset: int) -> Model:
    """A model of all operators that changed between `opset` and 22 and that ONNX Runtime has at both."""
    outputs = [f"float[a{i},b{i}] r{i}" for i in range(len(REDUCTIONS))]
    outputs += ["float[2,2,6,6] p", "float[2,2,6,6] q", "float[2,4,6] i", "float[2,4,6,6] s"]
    nodes = [f"r{i} = Reduce{kind} <axes = [1, -1], keepdims = 0> (t)" for i, kind in enumerate(REDUCTIONS)]
    nodes += ["p, q = Split <axis = 1> (t)", "s = Softplus(t)"]
    if opset >= 16:
        outputs.append("float[2,4,3,3] g")
        nodes.append('g = GridSample <mode = "bilinear"> (t, grid)')
    branches = (
        "i = If (c) <then_branch = g1 () => (float[2,4,6] m) { m = ReduceMax <axes = [2], keepdims = 0> (t) },"
        " else_branch = g2 () => (float[2,4,6] n) { n = ReduceMean <axes = [3], keepdims = 0> (t) }>"
    )
    return _model(
        f"agraph (float[2,4,6,6] x, float[2,3,3,2] grid, bool c) => ({', '.join(outputs)})"
        f"{{ t = Abs(x) {' '.join(nodes)} {branches} }}",
        opset,
    )


@pytest.mark.parametrize("opset", [13, 16, 17])
def test_changed_operators_give_the_same_bits(opset: int) -> None:
    model = _changed(opset)
    onnx.checker.check_model(model.proto(), full_check=True)
    raised = raise_for_bfloat16(model)
    assert raised.model.opset == {"": 22}
    assert raised.notes[0].startswith(f"opset raised from {opset} to 22, where")
    assert list(GraphView.of(raised.model).nodes) == list(GraphView.of(model).nodes)
    onnx.checker.check_model(raised.model.proto(), full_check=True)
    feeds = make_samples(model, 1)[0]
    for condition in (True, False):
        feeds["c"] = np.array(condition)
        for before, after in zip(_run(model, feeds), _run(raised.model, feeds), strict=True):
            assert before.tobytes() == after.tobytes()


def test_roi_align_keeps_its_old_default() -> None:
    """ONNX Runtime has no kernel of opset 22 for it, so the attribute is looked at."""
    text = (
        "agraph (float[1,1,6,6] x, float[1,4] rois, int64[1] batch) => (float[1,1,2,2] y)"
        "{ y = RoiAlign <output_height = 2, output_width = 2> (x, rois, batch) }"
    )
    for opset, wanted in ((13, ["output_half_pixel"]), (17, [])):
        node = raise_for_bfloat16(_model(text, opset)).model.proto().graph.node[0]
        modes = [a.s.decode() for a in node.attribute if a.name == "coordinate_transformation_mode"]
        assert modes == wanted


def test_nothing_to_gain_or_too_old_stays() -> None:
    for text, opset in (
        ("agraph (float[2,2] x) => (float[2,2] y) { y = MatMul(x, x) }", 17),
        ("agraph (float[2,2] x) => (float[2,2] y) { y = Softplus(x) }", 12),
        ("agraph (float[2,2] x) => (float[2,2] y) { y = Softplus(x) }", 22),
    ):
        model = _model(text, opset)
        assert raise_for_bfloat16(model).model is model
        assert raise_for_bfloat16(model).notes == ()


def test_what_cannot_be_raised_is_said() -> None:
    model = _model(
        "agraph (float[1,4,2,2] x, float[2] a, float[2] b) => (float[1,4,2,2] y)"
        "{ [norm] n = GroupNormalization <num_groups = 2> (x, a, b) y = Softplus(n) }",
        18,
    )
    raised = raise_for_bfloat16(model)
    assert raised.model is model
    assert "GroupNormalization 'norm' means something else from opset 21 on" in raised.notes[0]
