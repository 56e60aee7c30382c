"""Made samples: seeded, modest, in bounds, and of sizes that the model takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from trt_lab.errors import InputError, ModelError
from trt_lab.model import Model
from trt_lab.samples import make_samples


def _model(text: str, opset: int = 17, ir_version: int = 8, **weights: np.ndarray) -> Model:
    proto = parser.parse_model(f'<ir_version: {ir_version}, opset_import: ["" : {opset}]>\n{text}')
    for name, values in weights.items():
        proto.graph.initializer.append(numpy_helper.from_array(values, name))
    return Model.load(proto)


def _run(model: Model, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    proto = model.for_runtime().proto().SerializeToString()
    session = ort.InferenceSession(proto, options, providers=["CPUExecutionProvider"])
    return [np.asarray(value) for value in session.run(None, feeds)]


RELU = "agraph (float[N,3] x) => (float[N,3] y) { y = Relu(x) }"


def test_the_same_seed_gives_the_same_numbers_whatever_the_count() -> None:
    few, many = make_samples(_model(RELU), 2, seed=5), make_samples(_model(RELU), 6, seed=5)
    assert [s["x"].tobytes() for s in few] == [s["x"].tobytes() for s in many[:2]]
    assert few[0]["x"].tobytes() != few[1]["x"].tobytes()
    assert make_samples(_model(RELU), 1, seed=6)[0]["x"].tobytes() != few[0]["x"].tobytes()
    assert make_samples(_model(RELU), 1, seed=-5)[0]["x"].tobytes() != few[0]["x"].tobytes()


def test_defaults_are_modest_and_said() -> None:
    made = make_samples(_model("agraph (float[N,3,H,W] x) => (float[N,3,H,W] y) { y = Relu(x) }"))
    assert made[0]["x"].shape == (1, 3, 64, 64)
    assert made[0]["x"].dtype == np.float32
    assert np.abs(made[0]["x"]).max() < 6
    assert abs(made[0]["x"].std() - 1) < 0.05
    assert made.notes == (
        "'x' [N, 3, H, W] is fed as [1, 3, 64, 64]; give a shape to change that",
        "'x': normal, mean 0, deviation 1",
    )


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("agraph (float[batch,seq_len,8] x) => (float[a,b,8] y) { y = Relu(x) }", (1, 16, 8)),
        ("agraph (float[T,batch,8] x) => (float[a,b,8] y) { y = Relu(x) }", (1, 1, 8)),
        ("agraph (float[n,h,w,3] x) => (float[n,h,w,3] y) { y = Relu(x) }", (1, 64, 64, 3)),
        ("agraph (float[?,?] x) => (float[?,?] y) { y = Relu(x) }", (1, 16)),
        ("agraph (float x) => (float y) { y = Relu(x) }", ()),
    ],
)
def test_default_shapes(text: str, wanted: tuple[int, ...]) -> None:
    assert make_samples(_model(text), 1)[0]["x"].shape == wanted


def test_equal_names_get_equal_sizes_and_given_shapes_win() -> None:
    model = _model("agraph (float[N,L] a, float[L,N] b) => (float[N,N] y) { y = MatMul(a, b) }")
    assert {k: v.shape for k, v in make_samples(model, 1)[0].items()} == {"a": (1, 16), "b": (16, 1)}
    made = make_samples(model, 1, shapes={"b": (5, 2)})
    assert {k: v.shape for k, v in made[0].items()} == {"a": (2, 5), "b": (5, 2)}


def test_convolutions_and_products_say_what_they_need() -> None:
    image = _model(
        "agraph (float[n,c,h,w] x) => (float[n,8,h2,w2] y) { y = Conv(x, k) }", k=np.zeros((8, 4, 3, 3), np.float32)
    )
    assert make_samples(image, 1)[0]["x"].shape == (1, 4, 64, 64)
    sound = _model(
        "agraph (float[batch,samples] x) => (float[a,b,c] y) <int64[1] one = {1}> { u = Unsqueeze(x, one) y = Conv(u, k) }",
        k=np.zeros((2, 1, 400), np.float32),
    )
    assert make_samples(sound, 1)[0]["x"].shape == (1, 800)
    dense = _model("agraph (float[b,f] x) => (float[b,5] y) { y = Gemm(x, k) }", k=np.zeros((12, 5), np.float32))
    assert make_samples(dense, 1)[0]["x"].shape == (1, 12)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"z": (1, 3)}, "a shape is given for 'z', which is no input; inputs: 'x'"),
        ({"x": (1, 3, 1)}, "has 2 axes"),
        ({"x": (1, 4)}, "axis 1 is fixed at 3 in the model, 4 given"),
        ({"x": (-1, 3)}, "whole numbers"),
        ({"x": (1.5, 3)}, "whole numbers"),
        ({"x": (2**62, 3)}, "larger than any memory"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(shapes: dict[str, tuple[int, ...]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_samples(_model(RELU), shapes=shapes)


def test_c06_initializers_are_not_fed() -> None:
    for ir_version in (3, 8):
        model = _model(
            "agraph (float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }",
            9,
            ir_version,
            w=np.array([3, 4], np.float32),
        )
        made = make_samples(model, 1)
        assert list(made[0]) == ["x"]
        assert "1 inputs ('w', …) have default values in the model and are not fed" in made.notes
        assert _run(model, made[0])[0].tolist() == (made[0]["x"] + np.array([3, 4], np.float32)).tolist()


def test_c27_indices_are_in_bounds() -> None:
    model = _model(
        "agraph (int64[b,seq] ids, int32[b,seq] kinds) => (float[b,seq,2] y)"
        "{ a = Gather(words, ids) k = Cast <to = 7> (kinds) c = Gather(sorts, k) y = Add(a, c) }",
        words=np.zeros((50, 2), np.float32),
        sorts=np.zeros((2, 2), np.float32),
    )
    made = make_samples(model, 20)
    ids, kinds = (np.concatenate([s[name].ravel() for s in made]) for name in ("ids", "kinds"))
    assert (ids.min(), ids.max()) == (0, 49)
    assert set(kinds.tolist()) == {0, 1}
    assert ids.dtype == np.int64
    assert kinds.dtype == np.int32
    assert "'ids': an index: 0 … 49" in made.notes
    for sample in made:
        _run(model, sample)


def test_c27_sizes_are_small_and_work() -> None:
    model = _model(
        "agraph (float[2,6] x, int64[2] shape, int64[1] k, int64[2] start, int64[2] stop) =>"
        " (float[a,b] r, float[2,c] t, int64[2,c] p, float[d,e] s)"
        "{ r = Reshape(x, shape) t, p = TopK(x, k) s = Slice(x, start, stop) }"
    )
    made = make_samples(model, 2)
    outputs = _run(model, made[0])
    assert outputs[0].size == 12
    assert outputs[1].shape == (2, 1)
    assert outputs[3].shape == (2, 6)
    assert made[0]["shape"].tolist() == made[1]["shape"].tolist() == [-1, 1]


def test_choices_masks_bools_and_small_types() -> None:
    model = _model(
        "agraph (int64 sr, int64[1,4] attention_mask, bool[64] flag, uint8[1,64] image, int8[64] q) =>"
        " (bool e, int64[1,4] m, bool[64] n, uint8[1,64] i, int8[64] o) <int64 rate = {16000}> {"
        "e = Equal(sr, rate) m = Identity(attention_mask) n = Not(flag) i = Identity(image) o = Identity(q) }"
    )
    sample = make_samples(model, 1)[0]
    assert sample["sr"].shape == ()
    assert sample["sr"].item() == 16000
    assert sample["attention_mask"].tolist() == [[1, 1, 1, 1]]
    assert set(sample["flag"].tolist()) == {True, False}
    assert sample["image"].max() > 200
    assert sample["q"].min() >= -8
    assert sample["q"].max() <= 7


def test_numbers_stay_where_they_are_defined() -> None:
    model = _model("agraph (float[200] a, float[200] b) => (float[200] y, float[200] z) { y = Log(a) z = Acos(b) }")
    assert all(np.isfinite(output).all() for output in _run(model, make_samples(model, 1)[0]))


@pytest.mark.parametrize(
    ("element", "opset"), [("float16", 17), ("bfloat16", 17), ("double", 17), ("float8e4m3fn", 19), ("int4", 21)]
)
def test_types(element: str, opset: int) -> None:
    model = _model(f"agraph ({element}[4] x) => ({element}[4] y) {{ y = Identity(x) }}", opset, 10)
    assert make_samples(model, 1)[0]["x"].dtype.name == {"double": "float64", "float8e4m3fn": "float8_e4m3fn"}.get(
        element, element
    )


def test_what_cannot_be_made_up_is_refused() -> None:
    with pytest.raises(InputError, match="input 'x' takes strings, which cannot be made up; give samples"):
        make_samples(_model("agraph (string[2] x) => (string[2] y) { y = Identity(x) }"))
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", value[:1], value[1:])
    model = Model.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
    with pytest.raises(InputError, match="the rank of input 'x' is not known; give its shape"):
        make_samples(model)
    assert make_samples(model, 1, shapes={"x": (2, 2)})[0]["x"].shape == (2, 2)
    with pytest.raises(InputError, match="0 samples asked for"):
        make_samples(model, 0)


def test_real_inputs_run(shared: Path) -> None:
    """Every small model that ONNX Runtime loads also runs on made samples; the exceptions are listed with their reason."""
    unfit = {
        "attention_head.onnx": "reshapes to a fixed size: needs a shape from the user",
        "bad_graph_conditionally_invalid.onnx": "invalid for one value of its condition",
    }
    seen = 0
    for path in sorted((shared / "real_inputs" / "onnx").rglob("*.onnx")):
        try:
            model = Model.load(path)
            sample = make_samples(model, 1)[0]
            ort.InferenceSession(model.for_runtime().proto().SerializeToString(), providers=["CPUExecutionProvider"])
        except (ModelError, InputError):
            continue
        except Exception:  # noqa: BLE001, S112 (ONNX Runtime refuses the model itself: nothing to run)
            continue
        if path.name in unfit:
            continue
        _run(model, sample)
        seen += 1
    assert seen >= 30


@pytest.mark.parametrize(
    "name", ["magika", "ppocr_det", "ppocr_rec", "ppocr_cls", "silero_16k", "silero", "silero_half"]
)
def test_real_models_run(real_model, name: str) -> None:
    model = Model.load(real_model(name))
    for sample in make_samples(model, 2):
        outputs = _run(model, sample)
        assert all(np.isfinite(output).all() for output in outputs)


def test_edge_cases_come_behind_the_random_ones() -> None:
    model = Model.from_proto(
        parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[2,3] x, float[2] p, uint8[2] u, int64[2] i) => (float[2,3] y, float[2] q, float[2] v, float[2,3] w)
        <float[5,3] table = {0,1,2,3,4,5,6,7,8,9,10,11,12,13,14}>
        { y = Neg(x)  q = Log(p)  v = Cast<to=1>(u)  w = Gather<axis=0>(table, i) }
        """)
    )
    plain, made = make_samples(model, 3, 1), make_samples(model, 3, 1, edges=True)
    assert len(made) == 7
    for one, other in zip(plain, made, strict=False):
        assert all(np.array_equal(one[name], other[name]) for name in one)
    ends = {name: [sample[name].reshape(-1)[0].item() for sample in made[3:]] for name in made[0]}
    assert ends["x"] == [0, 1, -4, 4] and ends["u"] == [0, 1, 0, 255] and ends["i"] == [0, 1, 0, 4]
    assert ends["p"] == pytest.approx([0.1, 1, 0.1, 4])
    assert all(sample["x"].dtype == np.float32 and np.ptp(sample["x"]) == 0 for sample in made[3:])
    assert "sample 3: all zeros" in made.notes
