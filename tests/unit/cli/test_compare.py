"""`trt-lab compare` as a user meets it: planted pairs, builds, checks, opened tensors, files that are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.unit.cli.calling import call, one_line
from trt_lab.record import Record
from trt_lab.tensors import write_polygraphy, write_safetensors
from trt_lab.views.report.collect import records_report

GPU = Path(__file__).parents[2] / "data" / "gpu"
Capsys = pytest.CaptureFixture[str]


def save(folder: Path, **sides: dict[str, np.ndarray]) -> None:
    for name, arrays in sides.items():
        np.savez(folder / f"{name}.npz", **arrays)


def told(capsys: Capsys, *arguments: object) -> tuple[int, dict[str, Any]]:
    code, out, err = call(capsys, "compare", *arguments, "--json")
    assert err == ""
    return code, json.loads(out)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_c21_and_c22_and_c13_and_c30_on_planted_pairs(capsys: Capsys, here: Path) -> None:
    nan, inf = np.nan, np.inf
    golden = {
        "zeros": np.float32([0, 0, 1e-9, 1, 100]), "special": np.float32([nan, inf, -inf, inf, 1]),
        "empty": np.zeros((1, 5, 0, 3), np.float32), "found": np.zeros((2, 3), np.int64), "bits": np.array([True, False]),
    }  # fmt: skip
    ours = {
        "zeros": np.float32([0, 1e-6, 1.001e-6, 1.01, 99]), "special": np.float32([nan, inf, -inf, -inf, nan]),
        "empty": golden["empty"], "found": np.zeros((2, 4), np.int64), "bits": np.array([True, True]),
    }  # fmt: skip
    save(here, a=ours, b=golden)
    code, data = told(capsys, "a.npz", "b.npz")
    by_name = {tensor["name"]: tensor for tensor in data["tensors"]}
    assert code == 1 and data["verdict"] == "differs"
    zeros = by_name["zeros"]
    assert (zeros["max_abs"], zeros["max_abs_at"], zeros["zero_reference"]) == (1.0, [4], 1)
    assert zeros["max_rel"] == pytest.approx(1000, rel=1e-3) and zeros["max_rel_at"] == [2]
    special = by_name["special"]
    assert (special["nan_both"] + special["inf_both"], special["inf_mismatch"], special["nan_only_a"]) == (3, 1, 1)
    assert (special["cosine"], special["snr_db"], special["over_tolerance"]) == (None, None, 2)
    assert (by_name["empty"]["verdict"], by_name["empty"]["note"]) == ("same", "0 elements, shapes equal")
    assert by_name["found"]["note"] == "shapes differ: (2, 4) against (2, 3)"
    assert (by_name["bits"]["differing"], by_name["bits"]["verdict"]) == (1, "differs")


def layer(*nodes: str, tactic: str) -> dict[str, Any]:
    made = {"Name": nodes[-1] + "_out", "Dimensions": [1], "Format/Datatype": "Half"}
    return {
        "Name": " + ".join(nodes), "LayerType": "Kernel", "Inputs": [], "Outputs": [made], "TacticName": tactic,
        "Metadata": "".join(f"[ONNX Layer: {node}]" for node in nodes),
    }  # fmt: skip


def test_c35_layer_json_and_outputs_of_two_builds(capsys: Capsys, here: Path) -> None:
    y = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    far = y.copy()
    far[7] += 0.57
    save(here, ref={"y": y}, a={"y": y + np.float32(7e-5)}, b={"y": far})
    first = [layer("p", tactic="t"), layer("q", tactic="t"), layer("r", tactic="one")]
    second = [layer("p", "q", tactic="t"), layer("r", tactic="two")]
    Path("a.json").write_text(json.dumps({"Layers": first, "Bindings": ["x", "y"]}))
    Path("b.json").write_text(json.dumps({"Layers": second, "Bindings": ["x", "y"]}))
    arguments = ("a.npz", "b.npz", "--layers", "a.json", "--layers", "b.json", "--reference", "ref.npz")
    code, data = told(capsys, *arguments)
    builds, against = data["builds"], data["against_reference"]
    assert code == 1
    assert [(c["kind"], c["layers_a"], c["layers_b"]) for c in builds["fusions_changed"]] == [
        ("fused", ["p", "q"], ["p + q"])
    ]
    assert [(c["nodes"], c["tactic_a"], c["tactic_b"]) for c in builds["tactics_changed"]] == [(["r"], "one", "two")]
    assert builds["timing_cache"] == {"a": None, "b": None}
    assert builds["median_abs"]["y"] == pytest.approx(7e-5, rel=1e-2)
    assert data["tensors"][0]["max_abs"] == pytest.approx(0.57, abs=2e-4)
    assert (against["a"]["verdict"], against["b"]["verdict"], against["b"]["first_divergent"]) == (
        "same",
        "differs",
        "y",
    )
    _, out, _ = call(capsys, "compare", *arguments)
    assert "fusions changed: 1" in out and "tactics changed: 1" in out and "one → two" in out
    assert "timing cache: not told for a, not told for b" in out and "a.npz against ref.npz: same" in out


def test_c35_two_records_of_a_gpu_tell_it_themselves(capsys: Capsys) -> None:
    a, b, ref = (GPU / f"l2norm_overflow-{name}.trtlab" for name in ("fp16", "fp32", "reference"))
    code, data = told(capsys, a, b, "--reference", ref)
    builds, against = data["builds"], data["against_reference"]
    assert code == 1 and builds["timing_cache"] == {"a": False, "b": False}
    assert builds["engine_hash"]["a"] != builds["engine_hash"]["b"]
    assert builds["tactics_changed"] and all(c["tactic_a"] != c["tactic_b"] for c in builds["tactics_changed"])
    assert set(builds["median_abs"]) == {"y"} and 0 < builds["median_abs"]["y"] <= data["tensors"][0]["max_abs"]
    assert (against["a"]["verdict"], against["b"]["verdict"]) == ("differs", "same")
    assert told(capsys, a, b, "--quick")[1]["builds"]["median_abs"] == {}
    assert told(capsys, a, ref)[1]["builds"] is None, "a reference is no build"
    _, out, _ = call(capsys, "compare", a, b)
    assert "timing cache: not used for a, not used for b" in out


def test_c26_random_outputs_are_no_failure(capsys: Capsys, here: Path) -> None:
    noise = helper.make_node("RandomNormal", [], ["r"], name="noise", shape=[1, 2], seed=7.0)
    sides = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2]) for name in ("x", "y")]
    graph = helper.make_graph(
        [noise, helper.make_node("Add", ["x", "r"], ["y"], name="add")], "g", sides[:1], sides[1:]
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "m.onnx")
    assert call(capsys, "golden", "m.onnx", "-o", "ref")[0] == 0
    assert call(capsys, "build", "m.onnx", "-o", "a.trtlab")[0] == 0
    a, b = Record.open("a.trtlab"), Record.open("ref")
    assert a.outputs(0)["y"].tolist() != a.outputs(1)["y"].tolist(), "one session goes on with its numbers"
    code, data = told(capsys, "a.trtlab", "ref")
    (y,) = data["tensors"]
    assert (code, data["verdict"], y["note"]) == (0, "not_comparable", "random: RandomNormal 'noise'")
    assert records_report([a, b]).verdict == "not_comparable"


def test_a_tensor_is_opened(capsys: Capsys, here: Path) -> None:
    save(here, a={"y": np.float32([1, 2, 4])}, b={"y": np.float32([1, 2, 3])})
    code, data = told(capsys, "a.npz", "b.npz", "--tensor", "y", "--sample", 0)
    assert code == 1 and data["opened"]["quantiles"]["1.0"] == 1.0 and data["opened"]["ulp"]["max"] == 2**22
    _, out, _ = call(capsys, "compare", "a.npz", "b.npz", "--tensor", "y")
    assert "|a − b|: 50 % ≤ 0" in out and "ULP distance: 0 median, 4194304 largest" in out


def test_a_metric_of_the_users_decides(capsys: Capsys, here: Path) -> None:
    save(here, a={"y": np.float32([0, 2])}, b={"y": np.float32([0, 1])})
    Path("mine.py").write_text(
        "def top(outputs, golden):\n    return float(outputs[0]['y'].argmax() == golden[0]['y'].argmax())\n"
    )
    code, data = told(capsys, "a.npz", "b.npz", "--check", "mine.py:top >= 1")
    assert code == 0 and data["verdict"] == "differs" and data["check"] == {"check": "top() >= 1", "passes": True}
    assert told(capsys, "a.npz", "b.npz", "--check", "max_abs<0.5")[0] == 1
    code, data = told(capsys, "a.npz", "b.npz", "--atol", "y:1")
    assert code == 0 and data["tolerance"]["by_tensor"] == {"y": {"atol": 1.0, "rtol": 0.001}}


def test_a_check_is_given_what_was_matched(capsys: Capsys, here: Path) -> None:
    """Other names, a tensor more, a sample more: what is compared is checked, by the names of a."""
    one, two = {"p": np.ones(2, np.float32)}, {"y": np.ones(2, np.float32)}
    write_polygraphy("a.json", {"trt": [one, one, one]})
    write_polygraphy("b.json", {"ort": [two, two]})
    code, data = told(capsys, "a.json", "b.json", "--check", "cosine>=0.999")
    assert code == 0 and data["check"]["passes"] and data["samples"] == 2
    write_polygraphy("c.json", {"ort": [{**one, "more": np.zeros(1)}]})
    assert told(capsys, "a.json", "c.json", "--check", "cosine>=0.999")[0] == 0


def test_the_worst_sample_is_told(capsys: Capsys, here: Path) -> None:
    y = {"y": np.ones(2, np.float32)}
    write_polygraphy("a.json", {"trt": [y, {"y": y["y"] * 3}, y]})
    write_polygraphy("b.json", {"ort": [y, y, y]})
    code, out, _ = call(capsys, "compare", "a.json", "b.json")
    (row,) = [line for line in out.splitlines() if line.startswith("y ")]
    assert code == 1 and row.split()[:4] == ["y", "differs", "1", "2"]


@pytest.mark.parametrize(
    ("a", "words"),
    [
        ("text.txt", "unknown kind of file"),
        ("junk.npz", "not an .npz file"),
        ("junk.trtlab", "junk.trtlab"),
        ("junk.json", "neither inputs nor RunResults"),
        ("nan.json", "holds NaN, which is no JSON"),
        ("cut.safetensors", "'y': cut short"),
        ("head.safetensors", "cut short, the header"),
        ("empty", "holds no samples"),
        ("other.npz", "other.npz has: p, q; b.npz has: y"),
        ("two.json", "two.json#ort"),
        ("missing.npz", "no such file"),
    ],
)
def test_what_is_no_side_is_one_line(capsys: Capsys, here: Path, a: str, words: str) -> None:
    y = {"y": np.arange(8, dtype=np.float32)}
    save(here, b=y, other={"p": y["y"], "q": y["y"]})
    for name in ("text.txt", "junk.npz", "junk.trtlab"):
        Path(name).write_text("hello")
    Path("junk.json").write_text('{"a": 1}')
    Path("nan.json").write_text('[{"y": [1, NaN]}]')
    whole = write_safetensors("whole.safetensors", y).read_bytes()
    Path("cut.safetensors").write_bytes(whole[:-5])
    Path("head.safetensors").write_bytes(whole[:20])
    Path("empty").mkdir()
    write_polygraphy("two.json", {"ort": [y], "trt": [y]})
    for pair in ((a, "b.npz"), ("b.npz", a)):
        if a == "other.npz" and pair[0] != a:
            continue
        code, out, err = call(capsys, "compare", *pair)
        assert (code, out) == (2, "") and words in one_line(err)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--sample", "0"], "name the tensor too"),
        (["--layers", "b.npz"], "give it twice"),
        (["--tensor", "x"], "no tensor 'x' on both sides; there are: y"),
        (["--layers", "b.npz", "--layers", "b.npz"], "b.npz"),
        (["--check", "gone.py:metric >= 1"], "gone.py: no such file"),
        (["--reference", "gone.npz"], "gone.npz: no such file"),
    ],
)
def test_options_that_make_no_sense_are_one_line(capsys: Capsys, here: Path, arguments: list[str], words: str) -> None:
    save(here, b={"y": np.ones(2, np.float32)})
    code, out, err = call(capsys, "compare", "b.npz", "b.npz", *arguments)
    assert (code, out) == (2, "") and words in one_line(err)
