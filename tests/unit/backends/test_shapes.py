"""Optimisation profiles are checked before anything is built."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from trt_lab.backends.shapes import input_shapes, name_axes, propose, resolve_profiles
from trt_lab.errors import InputError, UsageError
from trt_lab.model import Model
from trt_lab.types import BuildOptions, ShapeRange


def conv_model(shape: Sequence[int | str | None]) -> Model:
    weights = numpy_helper.from_array(np.ones((1, 1, 3), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], name="conv", kernel_shape=[3])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, None, None])],
        [weights],
    )
    return Model.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9))


def relu_model(shape: Sequence[int | str | None]) -> Model:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"], name="relu")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    )
    return Model.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9))


def refusal(model: Model, *ranges: ShapeRange, more: Sequence[tuple[ShapeRange, ...]] = ()) -> str:
    with pytest.raises((UsageError, InputError)) as caught:
        resolve_profiles(model, BuildOptions(shapes=ranges, more_profiles=tuple(more)))
    return str(caught.value)


# --- C42 -------------------------------------------------------------------------------


def test_c42_unknown_axes_are_named_with_a_proposal() -> None:
    said = refusal(relu_model(["N", 3, "H", "W"]))
    assert "input x: axes 0,2,3 unknown of (N×3×H×W); give min/opt/max" in said
    assert "--shapes x:1x3x224x224:1x3x224x224:8x3x224x224" in said


def test_c42_the_proposal_is_accepted() -> None:
    model = relu_model(["N", 3, "H", "W"])
    proposal = propose(model)
    assert proposal == (ShapeRange("x", (1, 3, 224, 224), (1, 3, 224, 224), (8, 3, 224, 224)),)
    found = resolve_profiles(model, BuildOptions(shapes=proposal))
    assert found.ranges == ({"x": proposal[0]},)
    assert found.model is model


def test_c42_question_marks_and_axes_without_any_name() -> None:
    assert "axes 0,2 unknown" in refusal(relu_model(["?", 3, "?"]))
    assert "axis 1 unknown of (2×?)" in refusal(relu_model([2, None]))


def test_c42_a_literal_zero_is_asked_about() -> None:
    said = refusal(relu_model([0, 0, 80]))
    assert "input 'x': axis 0 has size 0" in said
    assert "--shapes x:1x64x80:1x64x80:8x64x80" in said


def test_c42_zero_with_a_range_means_any_size() -> None:
    ranges = ShapeRange("x", (1, 1, 80), (1, 16, 80), (2, 32, 80))
    found = resolve_profiles(relu_model([0, 0, 80]), BuildOptions(shapes=(ranges,)))
    assert found.ranges == ({"x": ranges},)
    assert input_shapes(found.model)["x"] == ("x_axis0", "x_axis1", 80)
    assert "x axis 0, x axis 1" in found.notes[0]


def test_static_models_need_no_profile() -> None:
    assert resolve_profiles(conv_model([1, 1, 8]), BuildOptions()).ranges == ()


# --- C43 -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ((8, 13, 10), "input 'x': axis 2 is min 8, opt 13, max 10; opt must lie between, for example 10"),
        ((4, 2, 10), "input 'x': axis 2 is min 4, opt 2, max 10; opt must lie between, for example 4"),
        ((9, 9, 5), "min must not exceed max"),
        ((0, 4, 5), "min 0, opt 4, max 5; every size must be at least 1"),
        (
            (1, 8, 9),
            "node 'conv' (Conv) has a window of 3 on axis 2 of size 1 (padding counted): min is too small for it; raise min",
        ),
    ],
)
def test_c43_min_opt_max(sizes: tuple[int, int, int], words: str) -> None:
    low, usual, high = ((1, 1, size) for size in sizes)
    assert words in refusal(conv_model(["N", 1, "T"]), ShapeRange("x", low, usual, high))


def test_c43_smallest_size_that_fits_is_accepted() -> None:
    ranges = ShapeRange("x", (1, 1, 3), (1, 1, 8), (1, 1, 9))
    assert resolve_profiles(conv_model(["N", 1, "T"]), BuildOptions(shapes=(ranges,))).ranges == ({"x": ranges},)


def test_c43_rank_and_static_axis() -> None:
    model = conv_model(["N", 1, "T"])
    four = ShapeRange("x", (1, 1, 8, 8), (1, 1, 8, 8), (1, 1, 8, 8))
    assert "min 1x1x8x8 has 4 axes, the input has 3 (N×1×T)" in refusal(model, four)
    static = ShapeRange("x", (1, 2, 8), (1, 2, 8), (1, 2, 8))
    assert "axis 1 is fixed at 1 in the model, not min 2, opt 2, max 2" in refusal(model, static)


def test_unknown_input_and_one_name_with_two_ranges() -> None:
    assert "no input 'q' in the model (inputs: x)" in refusal(relu_model(["N"]), ShapeRange("q", (1,), (1,), (1,)))
    said = refusal(relu_model(["N", "N"]), ShapeRange("x", (1, 2), (1, 2), (4, 2)))
    assert "axis 'N' is 1x1x4 (min, opt, max) at input 'x' axis 0, but 2x2x2 at input 'x' axis 1" in said


def test_several_profiles_are_told_apart() -> None:
    good = ShapeRange("x", (1,), (2,), (4,))
    bad = ShapeRange("x", (8,), (7,), (9,))
    assert refusal(relu_model(["N"]), good, more=[(bad,)]).startswith("profile 1: ")
    found = resolve_profiles(relu_model(["N"]), BuildOptions(shapes=(good,), more_profiles=((good,),)))
    assert len(found.ranges) == 2


# --- axes called `?` -------------------------------------------------------------------


def test_axes_of_no_name_are_named_apart_on_a_copy() -> None:
    model = relu_model(["N", "?", "?"])
    named, notes = name_axes(model)
    assert input_shapes(model)["x"] == ("N", None, None)
    assert input_shapes(named)["x"] == ("N", "x_axis1", "x_axis2")
    assert notes == ("axes without a name of their own named apart on a copy: x axis 1, x axis 2",)
    onnx.checker.check_model(named.proto())


def test_axes_with_names_are_left_alone() -> None:
    model = relu_model(["N", "?", "H"])
    assert name_axes(model) == (model, ())


@pytest.mark.slow
def test_real_classifier_with_two_question_marks(real_model: Callable[[str], Path]) -> None:
    model = Model.load(real_model("ppocr_cls"))
    shape = (1, 3, 48, 192)
    found = resolve_profiles(model, BuildOptions(shapes=(ShapeRange("x", shape, shape, shape),)))
    assert (input_shapes(model)["x"] or ())[2:] == (None, None)
    assert (input_shapes(found.model)["x"] or ())[2:] == ("x_axis2", "x_axis3")
