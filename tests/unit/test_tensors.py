"""Tensor files: what is written is read back, other tools read it, and damage is named."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from polygraphy.comparator import RunResults
from polygraphy.json import load_json, save_json
from safetensors.numpy import load_file, save_file

from trt_lab.errors import RecordError
from trt_lab.tensors import (
    open_samples,
    read_npz,
    read_runs,
    read_safetensors,
    read_samples,
    write_npz,
    write_polygraphy,
    write_polygraphy_inputs,
    write_safetensors,
    write_samples,
)
from trt_lab.tensors.dtypes import ML_DTYPES

PLAIN = {
    "z": np.arange(6, dtype=np.float32).reshape(2, 3),
    "scalar": np.float64(3),
    "none": np.zeros((0, 3), np.int64),
    "flags": np.array([True, False]),
    "a": np.arange(4, dtype=np.int64)[::2],
}


def test_every_type_comes_back_in_order(tmp_path: Path) -> None:
    arrays: dict[str, np.ndarray] = {name: np.arange(4).astype(dtype) for name, dtype in ML_DTYPES.items()}
    arrays |= {"text": np.array([["a", "ü"]], object), "c": np.array([1 + 2j], np.complex128), **PLAIN}
    found = read_safetensors(write_safetensors(tmp_path / "t.safetensors", arrays))
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        assert found[name].shape == np.shape(array), name
        if name != "text":
            assert found[name].dtype == np.asarray(array).dtype, name
            assert found[name].tobytes() == np.asarray(array).tobytes(), name
    assert found["text"].tolist() == [["a", "ü"]]


@settings(max_examples=100, deadline=None)
@given(
    array=hnp.arrays(st.sampled_from([">f4", "<i2", "u1", "f8"]), hnp.array_shapes(min_dims=0, min_side=0, max_dims=4))
)
def test_any_array_comes_back(tmp_path_factory: pytest.TempPathFactory, array: np.ndarray) -> None:
    path = tmp_path_factory.mktemp("t") / "a.safetensors"
    found = read_safetensors(write_safetensors(path, {"a": array}))["a"]
    assert found.shape == array.shape and np.array_equal(found, array, equal_nan=array.dtype.kind == "f")


def test_the_safetensors_package_agrees(tmp_path: Path) -> None:
    ours = load_file(write_safetensors(tmp_path / "ours.safetensors", PLAIN))
    assert ours["z"].tolist() == PLAIN["z"].tolist() and ours["none"].shape == (0, 3)
    save_file({"x": PLAIN["z"]}, tmp_path / "theirs.safetensors")
    assert read_safetensors(tmp_path / "theirs.safetensors")["x"].tolist() == PLAIN["z"].tolist()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[:-5], "cut short"),
        (lambda data: data[:12], "cut short"),
        (lambda data: b"", "not a safetensors file"),
        (lambda data: b"\xff" * 40, "not a safetensors file"),
        (lambda data: data.replace(b'"F32"', b'"F64"'), "needs 48 bytes, 24 are there"),
        (lambda data: data.replace(b'"F32"', b'"Q32"'), "element type Q32"),
        (lambda data: data.replace(b"[2,3]", b"[2,x]"), "header is no JSON"),
    ],
)
def test_damaged_safetensors_are_named(tmp_path: Path, damage, message: str) -> None:
    path = write_safetensors(tmp_path / "t.safetensors", {"z": PLAIN["z"]})
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(RecordError, match=message) as caught:
        read_safetensors(path)
    assert str(path) in str(caught.value)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = write_safetensors(tmp_path / "t.safetensors", {"z": PLAIN["z"]})
    with pytest.raises(RecordError, match="dict"):
        write_safetensors(path, {"z": np.array([{}], object)})
    assert list(read_safetensors(path)) == ["z"] and [f.name for f in tmp_path.iterdir()] == ["t.safetensors"]
    with pytest.raises(RecordError, match="cannot be written"):
        write_safetensors(tmp_path / "no" / "t.safetensors", PLAIN)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_of_numpy(tmp_path: Path, save) -> None:
    save(tmp_path / "a.npz", **PLAIN, fortran=np.asfortranarray(PLAIN["z"]), text=np.array(["ü"]))
    found = read_npz(tmp_path / "a.npz")
    assert found["fortran"].tolist() == PLAIN["z"].tolist() and found["text"].tolist() == ["ü"]
    assert found["none"].shape == (0, 3) and found["scalar"] == 3


def test_npz_widens_types_that_numpy_lacks(tmp_path: Path) -> None:
    given_arrays = {"b": np.array([1.5], ml_dtypes.bfloat16), "i": np.array([-8], ml_dtypes.int4)}
    found = np.load(write_npz(tmp_path / "a.npz", given_arrays))
    assert found["b"].dtype == np.float32 and found["i"].dtype == np.int8 and found["i"].tolist() == [-8]


def test_pickles_are_never_loaded(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.array([{"a": 1}], object))
    with pytest.raises(RecordError, match="array 'x'"):
        read_npz(tmp_path / "a.npz")


def test_polygraphy_reads_ours_and_we_read_theirs(tmp_path: Path) -> None:
    runs = {"ort": [PLAIN, PLAIN]}
    theirs = load_json(str(write_polygraphy(tmp_path / "r.json", runs)))
    assert isinstance(theirs, RunResults)
    assert theirs["ort"][1]["z"].tolist() == PLAIN["z"].tolist() and list(theirs["ort"][0]) == list(PLAIN)
    save_json(theirs, str(tmp_path / "again.json"))
    found = open_samples(tmp_path / "again.json", which="outputs")
    assert len(found) == 2 and found[1]["flags"].tolist() == [True, False] and list(found[0]) == list(PLAIN)
    inputs = load_json(str(write_polygraphy_inputs(tmp_path / "i.json", [PLAIN])))
    assert inputs[0]["a"].tolist() == [0, 2]
    save_json([{"x": PLAIN["z"]}], str(tmp_path / "j.json"))
    assert read_samples(tmp_path / "j.json")[0]["x"].tolist() == PLAIN["z"].tolist()


def test_several_runners_must_be_told_apart(tmp_path: Path) -> None:
    write_polygraphy(tmp_path / "r.json", {"ort": [PLAIN], "trt": [{"z": PLAIN["z"] + 1}]})
    with pytest.raises(RecordError, match="ort, trt"):
        open_samples(tmp_path / "r.json")
    assert open_samples(tmp_path / "r.json", runner="trt")[0]["z"][0, 0] == 1
    with pytest.raises(RecordError, match="no runner 'x'"):
        open_samples(tmp_path / "r.json", runner="x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"x": NaN}]', "NaN"),
        ("[{", "not JSON"),
        ("", "empty"),
        ("[1]", "not a mapping"),
        ('{"a": 1}', "neither inputs nor RunResults"),
        ('[{"x": {"array": "k05', "cut short"),
        ('[{"x": {"array": "????", "polygraphy_class": "ndarray"}}]', "damaged"),
        ('[{"x": {"tensor": "AAAA", "polygraphy_class": "Tensor"}}]', "torch"),
    ],
)
def test_bad_json_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(RecordError, match=message) as caught:
        read_samples(tmp_path / "a.json")
    assert "a.json" in str(caught.value)


def test_folders_of_samples(tmp_path: Path) -> None:
    for number in (2, 10, 1):
        write_npz(tmp_path / f"s{number}.npz", {"x": np.array([number])})
    assert [int(sample["x"][0]) for sample in read_samples(tmp_path)] == [1, 2, 10]
    numbered = tmp_path / "golden"
    write_samples(numbered / "samples", [PLAIN, PLAIN], which="outputs")
    assert len(read_samples(numbered, which="outputs")) == 2
    (numbered / "samples" / "001" / "outputs.safetensors").unlink()
    with pytest.raises(RecordError, match="is missing"):
        read_samples(numbered, which="outputs")


@pytest.mark.parametrize("name", ["no.npz", "a.txt"])
def test_files_that_are_no_samples(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(RecordError, match=name):
        read_samples(tmp_path / name)
    with pytest.raises(RecordError, match="holds no samples"):
        read_samples(tmp_path)


def test_the_skeleton_leaves_other_text_alone(tmp_path: Path) -> None:
    name = 'odd "array": "name'
    write_polygraphy_inputs(tmp_path / "i.json", [{name: PLAIN["z"]}])
    assert json.loads((tmp_path / "i.json").read_text())[0].keys() == {name}
    assert read_runs(tmp_path / "i.json")[""][0][name]().tolist() == PLAIN["z"].tolist()
