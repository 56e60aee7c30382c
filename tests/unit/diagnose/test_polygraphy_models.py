"""The models that Polygraphy's own debugging examples are about, searched and reduced by emulation on the CPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.unit.diagnose.searching import run_search, search_task, silent
from trt_lab.diagnose.reduce import ReduceTask, reduce
from trt_lab.model import Model
from trt_lab.types import Tolerance

FOLDER = Path("real_inputs/onnx/Polygraphy")


@pytest.mark.parametrize(
    "name",
    ["examples/cli/run/08_adding_precision_constraints/needs_constraints.onnx", "tests/models/needs_constraints.onnx"],
)
def test_needs_constraints_keeps_the_addition_and_the_subtraction(name: str, shared: Path, tmp_path: Path) -> None:
    """Adding 65504, the largest number of FP16, and taking it off again loses every digit.

    In FP32 it leaves steps of 1/256, so a tolerance below that would ask for the node before as well.
    """
    model = Model.load(shared / FOLDER / name)
    feeds = [{"x": np.random.default_rng(0).random((1, 1, 256, 256), np.float32)}]
    found = run_search(search_task(tmp_path, model, feeds, tolerance=Tolerance(5e-3, 1e-3)))
    assert not found.passes and found.region is not None
    assert found.region.keep_fp32 == ("Add", "Sub") and found.region.minimal
    assert [source.node for source in found.sources] == ["Sub"], "where the digits that are gone are missed"
    evidence = found.sources[0].evidence
    assert evidence is not None and evidence.kind == "cancellation"
    assert evidence.text.endswith("11 of 11 bits are lost"), "no more than there are"
    assert evidence.largest == pytest.approx(65504, abs=2)


def test_needs_constraints_is_reduced_to_what_is_needed(shared: Path, tmp_path: Path) -> None:
    model = Model.load(shared / FOLDER / "tests/models/needs_constraints.onnx")
    feeds = [{"x": np.random.default_rng(0).random((1, 1, 256, 256), np.float32)}]
    found = reduce(ReduceTask(search_task(tmp_path, model, feeds), str(tmp_path / "min.onnx")), silent)
    assert found.nodes_before == 4 and found.nodes == ("Sub",)
    onnx.checker.check_model(str(found.model), full_check=True)


def test_reducable_is_cut_to_the_node_that_overflows(shared: Path, tmp_path: Path) -> None:
    model = Model.load(shared / FOLDER / "tests/models/reducable.onnx")
    feeds = [{"X0": np.float32([1]), "Y0": np.float32([2])}, {"X0": np.float32([4e4]), "Y0": np.float32([4e4])}]
    found = reduce(ReduceTask(search_task(tmp_path, model, feeds), str(tmp_path / "min.onnx")), silent)
    assert (found.nodes_before, found.nodes_after) == (5, 1)
    assert found.nodes == ("onnx_graphsurgeon_node_5",)
    assert found.sample == 1, "only the second sample shows it"


def test_reducable_with_small_numbers_is_clean(shared: Path, tmp_path: Path) -> None:
    model = Model.load(shared / FOLDER / "tests/models/reducable.onnx")
    found = run_search(search_task(tmp_path, model, [{"X0": np.float32([1]), "Y0": np.float32([2])}]))
    assert found.passes and found.sources == ()
