"""Marks: existing tensors made outputs."""

from __future__ import annotations

import onnx
import pytest
from onnx import parser

from trt_lab.edit.mark import mark, mark_all
from trt_lab.errors import EditError
from trt_lab.model import Model

TEXT = (
    '<ir_version: 8, opset_import: ["" : 17]>\n'
    "agraph (float[N,4] x) => (float[N,2] y) <int64[1] k = {2}>"
    "{ a = Neg(x) values, places = TopK(a, k) s = SequenceConstruct(values) y = Relu(values) }"
)


def _model() -> Model:
    return Model.from_proto(parser.parse_model(TEXT))


def test_all_tensors_become_outputs_behind_the_existing_ones() -> None:
    model = _model()
    marked = mark_all(model)
    proto = marked.model.proto()
    onnx.checker.check_model(proto, full_check=True)
    assert [output.name for output in proto.graph.output] == ["y", "a", "values", "places"]
    assert [node.op_type for node in proto.graph.node] == [node.op_type for node in model.proto().graph.node]
    assert marked.outputs == {name: name for name in ("a", "values", "places", "y")}
    assert marked.notes == ("'s' left out: no tensor of a known type",)
    assert [output.name for output in model.proto().graph.output] == ["y"]


def test_some_tensors() -> None:
    marked = mark(_model(), ["places", "y", "x", "places"])
    assert [output.name for output in marked.model.proto().graph.output] == ["y", "places"]
    assert marked.outputs == {"places": "places", "y": "y"}
    assert marked.notes == ("'x' is an input: it is known without a run",)


def test_nothing_to_do_gives_the_model_back() -> None:
    model = _model()
    assert mark(model, ["y"]).model is model


@pytest.mark.parametrize("name", ["", "nope", "s"])
def test_what_cannot_be_marked_is_refused(name: str) -> None:
    with pytest.raises(EditError):
        mark(_model(), [name])
