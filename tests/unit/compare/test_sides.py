"""Two sides: matching, worst samples, order, and the JSON that others rely on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from trt_lab.compare.sides import compare_sides, comparison_json, open_side
from trt_lab.compare.tolerance import PRESETS, Tolerances, preset
from trt_lab.errors import CompareError, UsageError
from trt_lab.frames import diff_frame
from trt_lab.tensors import write_npz, write_polygraphy, write_safetensors
from trt_lab.types import Tolerance

KEYS = {
    "name",
    "verdict",
    "shape_a",
    "shape_b",
    "count",
    "max_abs",
    "max_abs_at",
    "max_rel",
    "rmse",
    "cosine",
    "snr_db",
}
KEYS |= {"nan_only_a", "nan_only_b", "inf_mismatch", "over_tolerance"}
GOOD = {"x": np.zeros(3, np.float32), "y": np.ones(2, np.float32)}


def bad(**changed: np.ndarray) -> dict[str, np.ndarray]:
    return {**GOOD, **changed}


def test_one_bad_sample_is_not_averaged_away() -> None:
    a = [GOOD, bad(y=np.array([1, 3], np.float32)), bad(y=np.array([1, 2], np.float32)), GOOD]
    found = compare_sides(open_side(a), open_side([GOOD] * 4))
    assert found.verdict == "differs" and found.first_divergent == "y"
    assert (found.stats("y").sample, found.stats("y").max_abs) == (1, 2.0)
    assert [found.stats("y", i).verdict for i in range(4)] == ["same", "differs", "differs", "same"]
    assert len(found.per_sample) == 8 and found.samples == 4


def test_nan_is_worse_than_any_number() -> None:
    a = [bad(x=np.full(3, 1e30, np.float32)), bad(x=np.array([0, np.nan, 0], np.float32))]
    found = compare_sides(open_side(a), open_side([GOOD] * 2))
    assert found.stats("x").sample == 1
    assert found.notes == ("first NaN or infinity that only side a has: x, sample 1",)


def test_order_is_the_graphs() -> None:
    a = open_side(bad(x=np.ones(3, np.float32), y=np.zeros(2, np.float32)))
    found = compare_sides(a, open_side(GOOD), order=["y", "x"])
    assert [s.name for s in found.tensors] == ["y", "x"] and found.first_divergent == "y"
    assert found.restricted(["x"]).first_divergent == "x"


def test_matched_by_name_and_the_rest_is_listed() -> None:
    found = compare_sides(
        open_side({"y": GOOD["y"], "p": GOOD["x"]}, label="A"), open_side({"q": GOOD["x"], "y": GOOD["y"]}, label="B")
    )
    assert found.verdict == "same" and (found.only_a, found.only_b) == (("p",), ("q",))
    assert found.notes == ("only in A, not compared: p", "only in B, not compared: q")


def test_matched_by_position_with_a_note() -> None:
    found = compare_sides(open_side({"out": GOOD["y"]}), open_side({"y": GOOD["y"]}))
    assert found.verdict == "same" and found.notes == ("no name is on both sides, matched by position: out = y",)


def test_other_names_list_both_sides() -> None:
    with pytest.raises(CompareError, match="A has: p; B has: x, y"):
        compare_sides(open_side({"p": GOOD["x"]}, label="A"), open_side(GOOD, label="B"))


def test_samples_that_are_missing() -> None:
    found = compare_sides(open_side([GOOD] * 3, label="A"), open_side([GOOD] * 2, label="B"))
    assert found.samples == 2 and found.notes == ("A has 3 samples, B 2: the first 2 were compared",)
    with pytest.raises(CompareError, match="no samples|no tensor"):
        compare_sides(open_side([]), open_side([GOOD]))
    with pytest.raises(CompareError, match="sample 1 has no tensor 'y'"):
        compare_sides(open_side([GOOD, {"x": GOOD["x"]}]), open_side([GOOD] * 2))


def test_files_of_every_kind_are_the_same_side(tmp_path: Path) -> None:
    write_npz(tmp_path / "a.npz", GOOD)
    write_safetensors(tmp_path / "a.safetensors", GOOD)
    write_polygraphy(tmp_path / "a.json", {"ort": [GOOD], "trt": [bad(y=GOOD["y"] + 1)]})
    paths = [tmp_path / "a.npz", tmp_path / "a.safetensors", str(tmp_path / "a.json#ort")]
    for path in paths:
        for other in paths:
            assert compare_sides(open_side(path), open_side(other)).verdict == "same"
    found = compare_sides(open_side(tmp_path / "a.json#trt"), open_side(paths[0]))
    assert found.verdict == "differs" and found.label_a == "a.json"


def test_a_function_is_a_side() -> None:
    live = open_side(lambda feeds: [feeds["x"] + 1], inputs=[{"x": np.zeros(2)}, {"x": np.ones(2)}])
    assert live.names() == ("output_0",) and live.get(1, "output_0").tolist() == [2, 2]
    with pytest.raises(CompareError, match="give them"):
        open_side(lambda feeds: feeds)
    with pytest.raises(CompareError, match="is no side"):
        open_side(3)  # type: ignore[arg-type]  # what the test is about


def test_a_live_side_runs_each_sample_once() -> None:
    ran: list[float] = []

    class Engine:
        """A live engine, by its `run`."""

        def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            ran.append(float(feeds["x"]))
            return {"y": feeds["x"] * 2, "z": feeds["x"]}

    inputs = [{"x": np.array(value)} for value in (1.0, 2.0, 3.0)]
    live = open_side(Engine(), inputs=inputs)  # type: ignore[arg-type]  # stands for a Runner
    golden = [{"y": feed["x"] * 2, "z": feed["x"]} for feed in inputs]
    assert compare_sides(live, open_side(golden)).verdict == "same"
    assert live.label == "Engine" and live.names() == ("y", "z") and ran == [1.0, 2.0, 3.0]


def test_c26_random_tensors_give_no_failure() -> None:
    a = bad(x=np.ones(3, np.float32))
    found = compare_sides(open_side(a), open_side(GOOD), not_comparable={"x": "random: RandomNormal upstream"})
    assert found.verdict == "same" and found.stats("x").verdict == "not_comparable"
    assert found.restricted(["x"]).verdict == "not_comparable"


def test_tolerances_by_type_and_by_tensor() -> None:
    limits = Tolerances(Tolerance(0, 0), {"float32": Tolerance(1, 0)}, {"y": Tolerance(5, 0)}, "test")
    a = {"x": np.ones(3, np.float32), "y": GOOD["y"] + 4, "z": np.array([1], np.float16)}
    found = compare_sides(open_side(a), open_side({**GOOD, "z": np.array([2], np.float16)}), tolerance=limits)
    assert [s.verdict for s in found.tensors] == ["same", "same", "differs"]
    assert preset("torch").of("x", "bfloat16") == Tolerance(1e-5, 1.6e-2) and all(p.source for p in PRESETS.values())
    with pytest.raises(UsageError, match="there are: "):
        preset("x")


def test_json_has_the_keys_and_is_strict() -> None:
    a = {"x": np.array([np.nan, 1, 2], np.float32), "y": np.zeros((2, 3), np.float32), "e": np.zeros((0,))}
    b = {"x": np.array([0, 1, 2], np.float32), "y": np.zeros(2, np.float32), "e": np.zeros((0,))}
    data = comparison_json(compare_sides(open_side(a), open_side(b)))
    again = json.loads(json.dumps(data, allow_nan=False))
    assert set(again) >= {"verdict", "first_divergent", "tensors"} and again["first_divergent"] == "x"
    assert all(set(tensor) >= KEYS for tensor in again["tensors"])
    by_name = {tensor["name"]: tensor for tensor in again["tensors"]}
    assert by_name["x"]["nan_only_a"] == 1 and by_name["y"]["max_abs"] is None and by_name["e"]["verdict"] == "same"
    assert by_name["y"]["shape_a"] == [2, 3]


def test_missing_figures_are_missing_in_the_frame() -> None:
    found = compare_sides(open_side({"x": np.zeros((2, 3))}), open_side({"x": np.zeros(2)}))
    frame = diff_frame(found)
    assert frame["max_abs"].isna().tolist() == [True] and frame["count"].tolist() == [0]
    assert len(diff_frame(found, per_sample=True)) == 1
