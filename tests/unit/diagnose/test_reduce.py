"""The smallest part that still fails."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from tests.unit.diagnose.searching import golden_outputs, search_task, silent
from trt_lab import zoo
from trt_lab.diagnose.reduce import Reduced, ReduceTask, reduce
from trt_lab.errors import UsageError
from trt_lab.model import Model


def reduced(name: str, folder: Path) -> Reduced:
    made = zoo.get(name)
    return reduce(ReduceTask(search_task(folder, made.model, made.feeds), str(folder / "min.onnx")), silent)


def replay(found: Reduced) -> tuple[np.ndarray, np.ndarray]:
    """What the written model makes of the written inputs, and the written golden output."""
    assert found.model is not None and found.inputs is not None and found.golden is not None
    onnx.checker.check_model(found.model, full_check=True)
    session = onnxruntime.InferenceSession(found.model, providers=["CPUExecutionProvider"])
    (made,) = session.run(None, dict(np.load(found.inputs)))
    return np.asarray(made), next(iter(np.load(found.golden).values()))


@pytest.mark.parametrize("name", ["l2norm_overflow", "layernorm_overflow", "running_sum", "mask_where", "counter"])
def test_one_node_fed_golden_values_is_enough(name: str, tmp_path: Path) -> None:
    found = reduced(name, tmp_path)
    assert found.nodes == zoo.get(name).truth[:1]
    assert (found.nodes_before, found.nodes_after) == (len(zoo.get(name).model.ir.graph), 1)
    made, golden = replay(found)
    np.testing.assert_allclose(made, golden, rtol=1e-5)
    assert found.stats is not None and found.stats.verdict == "differs"


def test_a_fault_that_only_sample_2_shows_is_reduced_on_sample_2(tmp_path: Path) -> None:
    found = reduced("square_norm_rare", tmp_path)
    assert found.sample == 2
    assert found.inputs is not None
    squared = max(float(np.abs(array).max()) for array in np.load(found.inputs).values()) ** 2
    assert squared > 65504, "the inputs are those of the sample that overflows"


def test_c05_no_input_without_a_name(tmp_path: Path) -> None:
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node("Mul", ["x", "large"], ["a"], name="large"),
            helper.make_node("Clip", ["a", "", "mx"], ["b"], name="clip"),
            helper.make_node("Mul", ["b", "small"], ["y"], name="small"),
        ],
        "c05",
        [info("x", 1, [4])],
        [info("y", 1, [4])],
        [numpy_helper.from_array(np.float32(v), n) for n, v in (("large", 3e4), ("mx", 1.5e5), ("small", 1e-5))],
    )
    model = Model.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    feeds = [{"x": np.float32([-9, 3, 4, 7])}]
    assert golden_outputs(model, feeds)[0]["y"].max() == pytest.approx(1.5)
    found = reduce(ReduceTask(search_task(tmp_path, model, feeds), str(tmp_path / "min.onnx")), silent)
    assert found.model is not None
    written = onnx.load(found.model)
    assert all(value.name for value in written.graph.input)
    replay(found)


def test_nothing_to_reduce(tmp_path: Path) -> None:
    found = reduced("clean_saturated", tmp_path)
    assert found.model is None and found.nodes_before == found.nodes_after
    assert "nothing to reduce" in found.notes[0]
    assert not (tmp_path / "min.onnx").exists()


def test_a_fault_that_is_not_of_precision_is_not_reduced(tmp_path: Path) -> None:
    made = zoo.get("clean_layers")
    other = [{"y": output["y"] + 1} for output in golden_outputs(made.model, made.feeds)]
    task = search_task(tmp_path, made.model, made.feeds, golden=other)
    with pytest.raises(UsageError, match="nothing to reduce: FP32 has the fault too"):
        reduce(ReduceTask(task, str(tmp_path / "min.onnx")), silent)
