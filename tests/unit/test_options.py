from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trt_lab.errors import UsageError
from trt_lab.options import parse_precision, parse_shape, parse_shape_options, parse_shapes
from trt_lab.types import ShapeRange

sizes = st.lists(st.integers(0, 9999), min_size=1, max_size=6).map(tuple)


@given(sizes)
def test_shape_survives_being_written(shape: tuple[int, ...]) -> None:
    assert parse_shape("x".join(map(str, shape)), "x") == shape
    assert parse_shape(str(list(shape)), "x") == shape
    assert parse_shape(shape, "x") == shape


def test_scalar_shape() -> None:
    assert parse_shape("", "sr") == ()
    assert parse_shapes({"sr": ()}) == (ShapeRange("sr", (), (), ()),)


@pytest.mark.parametrize("text", ["1xax3", "1.5x2", "-1x3", "1x-3"])
def test_bad_shape_names_the_input(text: str) -> None:
    with pytest.raises(UsageError, match="'images'"):
        parse_shape(text, "images")


def test_one_shape_or_three() -> None:
    assert parse_shapes({"x": "1x3"}) == (ShapeRange("x", (1, 3), (1, 3), (1, 3)),)
    assert parse_shapes({"x": ("1x3", "4x3", "8x3")}) == (ShapeRange("x", (1, 3), (4, 3), (8, 3)),)
    assert parse_shapes({"x": (1, 3)}) == (ShapeRange("x", (1, 3), (1, 3), (1, 3)),)
    with pytest.raises(UsageError, match="one shape, or three"):
        parse_shapes({"x": ("1x3", "2x3")})


@given(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\n"), min_size=1), sizes, sizes, sizes)
def test_shapes_option_with_any_name(name: str, low: tuple, usual: tuple, high: tuple) -> None:
    # a name that itself ends in ":1x2" cannot be told from a shape; Polygraphy has the same limit
    if name.rsplit(":", 1)[-1].replace("x", "").replace(",", "").strip("[]×").isdigit():
        return
    written = ["x".join(map(str, shape)) for shape in (low, usual, high)]
    assert parse_shape_options([f"{name}:{written[0]}"]) == (ShapeRange(name, low, low, low),)
    assert parse_shape_options([f"{name}:{':'.join(written)}"]) == (ShapeRange(name, low, usual, high),)


def test_shapes_option_of_another_form() -> None:
    with pytest.raises(UsageError, match="NAME:1x3x64x64"):
        parse_shape_options(["x=1x3"])


def test_precision() -> None:
    assert parse_precision("FP16") == "fp16"
    with pytest.raises(UsageError, match="fp32, fp16, bf16"):
        parse_precision("half")
