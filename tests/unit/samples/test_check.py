"""Checks of given inputs: one clear line each, and casts that lose nothing."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from onnx import numpy_helper, parser

from trt_lab.errors import InputError
from trt_lab.model import Model
from trt_lab.samples import check_feeds


def _model(text: str, ir_version: int = 8) -> Model:
    return Model.from_proto(parser.parse_model(f'<ir_version: {ir_version}, opset_import: ["" : 17]>\n{text}'))


TWO = "agraph (float[N,3] image, int32[2] ids) => (float[N,3] y, int32[2] z) { y = Relu(image) z = Identity(ids) }"
IMAGE, IDS = np.zeros((2, 3), np.float32), np.zeros(2, np.int32)


def test_what_fits_is_given_back_in_the_models_order() -> None:
    checked = check_feeds(_model(TWO), {"ids": IDS, "image": IMAGE})
    assert list(checked) == ["image", "ids"]
    assert checked["image"] is IMAGE
    assert checked.notes == ()


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ({"image": IMAGE}, r"input 'ids' \(int32 \[2\]\) is not fed; given: 'image'"),
        ({}, "given: nothing"),
        ({"image": IMAGE, "ids": IDS, "imag": IMAGE}, r"'imag' is no input of the model; did you mean 'image'\? inputs: 'image' \(float32 \[N, 3\]\)"),
        ({"image": IMAGE[0], "ids": IDS}, r"'image' wants float32 \[N, 3\], got float32 \[3\]; the number of axes differs \(2 wanted, 1 given\)"),
        ({"image": np.zeros((2, 4), np.float32), "ids": IDS}, r"axis 1 must be 3, it is 4"),
        ({"image": IMAGE, "ids": np.array([0.5, 1])}, r"do not fit int32, a cast would change 1 of 2 numbers, the furthest 0.5 → 0: convert"),
        ({"image": IMAGE, "ids": np.array([1, 2**40])}, r"a cast would change 1 of 2 numbers, the furthest 1099511627776 → 0"),
        ({"image": IMAGE, "ids": np.array([-1, 2**31 + 5], np.int64)}, r"1 of 2 numbers, the furthest 2147483653 → -2147483643"),
        ({"image": IMAGE, "ids": np.array([np.nan, 1])}, r"1 of 2 numbers, the furthest nan → "),
        ({"image": np.array([[1, 2j, 3]]), "ids": IDS}, r"1 of 3 numbers, the furthest .*2j.* → 0"),
        ({"image": IMAGE, "ids": np.array(["a", "b"])}, "give numbers"),
        ({"image": np.full((1, 3), 1e300), "ids": IDS}, "3 of its numbers are too large for float32, a cast would change 3 of 3 numbers, the furthest 1e[+]300 → inf"),
        ({"image": [[1, 2, 3], [4]], "ids": IDS}, "is no array"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said_in_one_line(feeds: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(InputError, match=message) as refused:
        check_feeds(_model(TWO), feeds)
    assert "\n" not in str(refused.value)


def test_not_a_mapping() -> None:
    with pytest.raises(InputError, match="arrays by name, list given"):
        check_feeds(_model(TWO), [IMAGE])  # pyright: ignore[reportArgumentType] (the wrong type is the point)


@pytest.mark.parametrize(
    ("given", "dtype"),
    [
        (np.array([1, -2], np.int64), "int32"),
        (np.array([1, 255], np.uint8), "int32"),
        (np.array([True, False]), "int32"),
        (np.array([3, -4], np.float64), "int32"),
        ([7, 8], "int32"),
    ],
)
def test_casts_that_lose_nothing_are_silent(given: np.ndarray, dtype: str) -> None:
    checked = check_feeds(_model(TWO), {"image": IMAGE, "ids": given})
    assert checked["ids"].dtype == dtype
    assert checked["ids"].tolist() == np.asarray(given).astype(int).tolist()
    assert checked.notes == ()


def test_floats_that_round_are_said() -> None:
    exact = check_feeds(_model(TWO), {"image": np.array([[0.5, np.nan, np.inf]], np.float64), "ids": IDS})
    assert exact["image"].dtype == np.float32
    assert exact.notes == ()
    rounded = check_feeds(_model(TWO), {"image": np.array([[0.1, 1, 2]], np.float64), "ids": IDS})
    assert rounded["image"].dtype == np.float32
    (note,) = rounded.notes
    assert note == "input 'image' was rounded from float64 to float32: 1 of 3 numbers, the furthest 0.1 → 0.10000000149"
    half = _model("agraph (bfloat16[2] x) => (bfloat16[2] y) { y = Identity(x) }")
    assert check_feeds(half, {"x": np.array([0.1, 2], np.float32)})["x"].dtype == ml_dtypes.bfloat16


def test_integers_that_float_cannot_hold_are_refused() -> None:
    assert check_feeds(_model(TWO), {"image": np.array([[1, 2, 3]], np.int64), "ids": IDS})["image"].tolist() == [
        [1, 2, 3]
    ]
    with pytest.raises(InputError, match="do not fit float32"):
        check_feeds(_model(TWO), {"image": np.array([[1, 2, 2**24 + 1]], np.int64), "ids": IDS})


def test_c06_overridable_initializers_may_be_fed_or_left_out() -> None:
    proto = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]>\nagraph (float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }'
    )
    proto.graph.initializer.append(numpy_helper.from_array(np.array([3, 4], np.float32), "w"))
    model = Model.load(proto)
    x = np.zeros(2, np.float32)
    assert list(check_feeds(model, {"x": x})) == ["x"]
    assert list(check_feeds(model, {"w": x, "x": x})) == ["x", "w"]
    proto.ir_version = 3
    del proto.opset_import[:]
    proto.opset_import.add(domain="", version=9)
    with pytest.raises(InputError, match="'w' is no input"):
        check_feeds(Model.load(proto), {"w": x, "x": x})


def test_strings_and_scalars() -> None:
    model = _model("agraph (string[2] s, float f) => (string[2] t, float g) { t = Identity(s) g = Identity(f) }")
    checked = check_feeds(model, {"s": np.array(["a", "ü"]), "f": 0.5})  # pyright: ignore[reportArgumentType] (a plain number is taken too)
    assert checked["s"].tolist() == ["a", "ü"]
    assert checked["f"].shape == ()
    with pytest.raises(InputError, match="give an array of strings"):
        check_feeds(model, {"s": np.zeros(2), "f": np.zeros((), np.float32)})
