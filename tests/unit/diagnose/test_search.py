"""The whole search, in this process: clean models, bad checks, faults that are not of precision, going on after a kill."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.unit.diagnose.searching import golden_outputs, run_search, search_task, silent
from trt_lab import zoo
from trt_lab.diagnose.check import Check
from trt_lab.diagnose.journal import STEPS_FILE
from trt_lab.diagnose.task import search
from trt_lab.errors import CancelledError, UsageError
from trt_lab.model import Model
from trt_lab.types import Progress, TensorId, Tolerance


def test_both_error_columns_and_the_evidence(tmp_path: Path) -> None:
    made = zoo.get("l2norm_overflow")
    found = run_search(search_task(tmp_path, made.model, made.feeds))
    rows = {row.tensor: row for row in found.errors}
    late = rows[TensorId("/c/c.0/Conv_output_0")]
    assert late.large and not late.local_large and late.inputs_large
    source = found.sources[0]
    assert source.node == "/Mul" and source.evidence is not None
    assert source.evidence.kind == "overflow" and source.evidence.largest > 65504 == source.evidence.limit
    assert "limit of fp16 65504" in source.why
    assert found.source_pair is not None
    golden, low = found.source_pair
    assert np.isfinite(golden).all() and np.isinf(low).all()


@pytest.mark.parametrize("name", ["clean_saturated", "clean_causal", "clean_clipped"])
def test_an_infinity_that_does_no_harm_accuses_nobody(name: str, tmp_path: Path) -> None:
    made = zoo.get(name)
    found = run_search(search_task(tmp_path, made.model, made.feeds))
    assert found.passes and found.sources == () and found.region is None


def test_c31_both_faults_of_a_long_chain_are_named_and_each_is_needed(tmp_path: Path) -> None:
    made = zoo.get("two_norms")
    found = run_search(search_task(tmp_path, made.model, made.feeds))
    assert found.region is not None
    kept = found.region.keep_fp32
    assert [source.node for source in found.sources] == ["/square_norm.0/Mul_1", "/square_norm.1/Mul_1"]
    tried = {frozenset(t.keep_fp32): t.passes for t in found.region.trials}
    assert tried[frozenset(kept)]
    assert not any(tried[frozenset(kept) - {node}] for node in kept), "each was shown to be needed"


def c24_model() -> Model:
    initial = [numpy_helper.from_array(np.array(v, np.float32), n) for n, v in (("two", 2), ("eps", 1e-5))]
    steps = [
        ("ReduceMean", ["x"], "m"), ("Sub", ["x", "m"], "d"), ("Pow", ["d", "two"], "p"), ("ReduceMean", ["p"], "v"),
        ("Add", ["v", "eps"], "a"), ("Sqrt", ["a"], "s"), ("Div", ["d", "s"], "y"),
    ]  # fmt: skip
    nodes = [
        helper.make_node(op, reads, [made], name=f"{op}_{made}", **({"axes": [-1]} if op == "ReduceMean" else {}))
        for op, reads, made in steps
    ]
    info = [helper.make_tensor_value_info(n, 1, [1, 4]) for n in "xy"]
    graph = helper.make_graph(nodes, "c24", info[:1], info[1:], initial)
    return Model.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))


def test_c24_starts_at_pow_and_keeps_only_what_overflows(tmp_path: Path) -> None:
    feeds = [{"x": np.float32([[400, -400, 100, -100]])}]
    found = run_search(search_task(tmp_path, c24_model(), feeds))
    assert found.region is not None
    assert found.sources[0].tensor == "p"
    assert found.region.keep_fp32 == ("Pow_p", "ReduceMean_v", "Add_a", "Sqrt_s")
    assert found.region.trials[0].error == pytest.approx(1.37199, abs=1e-5)


def test_bfloat16_has_the_range_but_not_the_digits(tmp_path: Path) -> None:
    made = zoo.get("positions")
    found = run_search(search_task(tmp_path, made.model, made.feeds, low="bf16", tolerance=Tolerance(0.05, 0.05)))
    assert found.region is not None and found.region.keep_fp32 == made.keep


def squared_and_back(square: list, between: list, more: dict | None = None) -> Model:
    """x → square → root → times 0.001, with other nodes between."""
    info = helper.make_tensor_value_info
    weights = [("k", np.float32(0.001)), ("one", np.int64(1)), ("two", np.int64(2))]
    last = helper.make_node("Mul", ["c", "k"], ["y"], name="out")
    graph = helper.make_graph(
        [*square, *between, last], "g", [info("x", 1, [4])], [info("y", 1, None)],
        [numpy_helper.from_array(np.array(v), n) for n, v in weights],
    )  # fmt: skip
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1), helper.make_opsetid("com.microsoft", 1)]
    return Model.load(helper.make_model(graph, opset_imports=imports, ir_version=8, **(more or {})))


def test_nodes_in_a_local_function_are_named_as_the_user_knows_them(tmp_path: Path) -> None:
    inner = [
        helper.make_node("Mul", ["a", "a"], ["s"], name="square"),
        helper.make_node("Sqrt", ["s"], ["b"], name="root"),
    ]
    function = helper.make_function("my", "Norm", ["a"], ["b"], inner, [helper.make_opsetid("", 17)])
    call = helper.make_node("Norm", ["x"], ["c"], domain="my", name="norm")
    model = squared_and_back([], [call], {"functions": [function]})
    found = run_search(search_task(tmp_path, model, [{"x": np.float32([1, 500, 1000, 3000])}]))
    assert found.region is not None
    assert found.region.keep_fp32 == ("norm/Norm/square", "norm/Norm/root")
    assert found.sources[0].node == "norm/Norm/square"
    assert found.sources[0].why.startswith("norm/Norm/square (Mul): ")


def test_sequences_in_the_model_do_not_stop_the_search(tmp_path: Path) -> None:
    node = helper.make_node
    between = [
        node("SplitToSequence", ["x", "two"], ["s"], name="split", axis=0),
        node("SequenceAt", ["s", "one"], ["e"], name="at"),
        node("Concat", ["r", "e"], ["c"], name="cat", axis=0),
    ]
    square = [node("Mul", ["x", "x"], ["q"], name="square"), node("Sqrt", ["q"], ["r"], name="root")]
    model = squared_and_back(square, between)
    found = run_search(search_task(tmp_path, model, [{"x": np.float32([1, 500, 1000, 3000])}]))
    assert found.region is not None and found.region.keep_fp32 == ("square", "root")


def test_weights_of_four_bits_are_taken_from_the_model(tmp_path: Path) -> None:
    four = helper.make_tensor("w", TensorProto.INT4, [4], np.array([1, -2, 3, 7]))
    weights = [four, *(numpy_helper.from_array(np.float32(v), n) for n, v in (("scale", 1.0), ("k", 0.001)))]
    steps = [
        ("DequantizeLinear", ["w", "scale"], "d"), ("Mul", ["x", "d"], "m"), ("Mul", ["m", "m"], "q"), ("Sqrt", ["q"], "r"),
        ("Mul", ["r", "k"], "y"),
    ]  # fmt: skip
    nodes = [helper.make_node(op, reads, [made], name=f"{op}_{made}") for op, reads, made in steps]
    info = [helper.make_tensor_value_info(n, 1, [4]) for n in "xy"]
    graph = helper.make_graph(nodes, "int4", info[:1], info[1:], weights)
    model = Model.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))
    found = run_search(search_task(tmp_path, model, [{"x": np.float32([1, 500, 1000, 3000])}]))
    assert found.region is not None and found.region.keep_fp32 == ("Mul_q", "Sqrt_r")


# --- checks ------------------------------------------------------------------------------


def test_a_check_that_passes_on_everything_is_told(tmp_path: Path) -> None:
    made = zoo.get("square_norm")
    found = run_search(search_task(tmp_path, made.model, made.feeds, check=Check.of(lambda outputs, golden: True)))
    assert found.passes
    assert "passes on everything" in found.notes[0]


def test_a_check_that_passes_on_nothing_is_told(tmp_path: Path) -> None:
    made = zoo.get("square_norm")
    found = run_search(search_task(tmp_path, made.model, made.feeds, check=Check.of(lambda outputs, golden: False)))
    assert not found.passes and not found.fp32_passes
    assert found.region is not None and found.region.keep_fp32 == ()
    assert "FP32 has the fault too, or the check passes on nothing" in found.notes[0]


def test_a_fault_that_fp32_has_too_is_no_fault_of_precision(tmp_path: Path) -> None:
    made = zoo.get("clean_layers")
    other = [{"y": output["y"] + 1} for output in golden_outputs(made.model, made.feeds)]
    found = run_search(search_task(tmp_path, made.model, made.feeds, golden=other))
    assert not found.fp32_passes
    assert "this is not a fault of precision; look at the inputs, at what the parser made" in found.notes[0]


def test_a_fault_that_fp32_has_too_names_what_to_look_at(tmp_path: Path) -> None:
    node = helper.make_node
    square = [node("Gelu", ["x"], ["c"], name="plugin", domain="com.microsoft")]
    feeds = [{"x": np.float32([1, 2, 3, 4])}, {"x": np.float32([1, np.inf, 3, 4])}]
    model = squared_and_back(square, [])
    other = [{"y": output["y"] + 1} for output in golden_outputs(model, feeds)]
    found = run_search(search_task(tmp_path, model, feeds, golden=other))
    assert (
        "look at the inputs: 'x' of sample 1 holds infinities, at the plugins and custom operators (plugin)"
        in found.notes[0]
    )


def test_a_looser_check_decides_instead_of_the_tolerance(tmp_path: Path) -> None:
    made = zoo.get("square_norm")

    def same_winner(outputs: Sequence, golden: Sequence) -> bool:
        return all(
            bool((a["y"].argmax(-1) == b["y"].argmax(-1)).mean() > 0.2) for a, b in zip(outputs, golden, strict=True)
        )

    found = run_search(search_task(tmp_path, made.model, made.feeds, check=Check.of(same_winner)))
    assert found.passes
    assert "differ by more than the tolerance" in found.notes[0]


def test_a_missing_command_stops_the_search(tmp_path: Path) -> None:
    made = zoo.get("square_norm")
    with pytest.raises(UsageError, match="no-such-check"):
        run_search(search_task(tmp_path, made.model, made.feeds, check=Check.of("no-such-check")))


def test_progress_can_cancel(tmp_path: Path) -> None:
    made = zoo.get("square_norm")

    def stop(progress: Progress) -> None:
        if progress.message.startswith("errors of"):
            raise CancelledError("cancelled")

    with pytest.raises(CancelledError):
        search(search_task(tmp_path, made.model, made.feeds), stop)


# --- going on ----------------------------------------------------------------------------

KILLED = """
import os, pickle, sys
from trt_lab.diagnose import journal, task
wanted, left = pickle.load(open(sys.argv[1], "rb")), [int(sys.argv[2])]
write = journal.Journal._write
def count(self, line):
    if not left[0]:
        os._exit(9)
    left[0] -= 1
    write(self, line)
journal.Journal._write = count
task.search(wanted, lambda progress: None)
"""


MORE = [pytest.param(lines, marks=pytest.mark.slow) for lines in (4, 6, 7, 9, 11, 14, 17, 19, 23, 26, 29, 31)]


@pytest.mark.parametrize("lines", [0, 1, 2, 3, 5, 8, 13, 20, *MORE])
def test_killed_at_any_point_it_goes_on_with_no_step_done_again(lines: int, tmp_path: Path) -> None:
    made = zoo.get("two_norms")
    whole = run_search(search_task(tmp_path / "whole", made.model, made.feeds))
    task = search_task(tmp_path / "m", made.model, made.feeds, artifacts=str(tmp_path / "steps"), key={"model": "m"})
    (tmp_path / "task").write_bytes(pickle.dumps(task))
    command = [sys.executable, "-c", KILLED, str(tmp_path / "task"), str(lines)]
    assert subprocess.run(command, check=False).returncode == 9
    found = search(replace(task, resume=True), silent)
    assert found.region is not None and whole.region is not None
    assert found.region == whole.region
    assert found.errors == whole.errors and found.sources == whole.sources
    written = [json.loads(line) for line in (tmp_path / "steps" / STEPS_FILE).read_text().splitlines()[1:]]
    ended = [line["step"] for line in written if line["state"] == "ended"]
    assert len(ended) == len(set(ended))
    assert found.reused == lines // 2


def test_steps_of_another_model_are_refused(tmp_path: Path) -> None:
    made = zoo.get("square_norm")
    task = search_task(tmp_path, made.model, made.feeds, artifacts=str(tmp_path / "steps"), key={"model": "a"})
    run_search(task)
    with pytest.raises(UsageError, match='\'model\' was "a" and is now "b"'):
        run_search(replace(task, resume=True, key={"model": "b"}))
