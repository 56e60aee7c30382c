"""Tolerances from text, and checks that decide in their place."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from trt_lab.compare.tolerance import parse_tolerances
from trt_lab.diagnose.check import Check
from trt_lab.errors import UsageError
from trt_lab.types import Tolerance


def test_for_all_for_a_type_and_for_a_tensor() -> None:
    found = parse_tolerances(None, ["a:b:0.5", "float16:1e-2", "1e-4"], ["1e-5"])
    assert found.of("x", "float32") == Tolerance(1e-4, 1e-5)
    assert found.of("x", "float16") == Tolerance(1e-2, 1e-5)
    assert found.of("a:b", "float16") == Tolerance(0.5, 1e-5)
    assert found.source.endswith("; changed")


def test_a_preset_is_where_one_starts() -> None:
    found = parse_tolerances("torch", [], ["0"])
    assert found.of("x", "bfloat16") == Tolerance(1e-5, 0.0) and parse_tolerances("numpy").source == (
        "defaults of numpy.allclose"
    )


@pytest.mark.parametrize("text", ["x", "y:", "-1", "y:nan", "y:-2"])
def test_what_is_no_tolerance(text: str) -> None:
    with pytest.raises(UsageError, match="--atol"):
        parse_tolerances(None, [text])


def test_a_metric_of_the_outputs_alone() -> None:
    golden = [{"y": np.zeros(2)}]

    def top(outputs) -> float:
        return float(np.mean([sample["y"].max() for sample in outputs]))

    assert Check.of(top, at_least=0.5).passes([{"y": np.array([0.0, 0.5])}], golden)
    assert not Check.of(top, at_least=0.6).passes([{"y": np.array([0.0, 0.5])}], golden)
    assert Check.of(lambda outputs, golden: outputs is golden).passes(golden, golden)


def test_a_command_is_given_what_it_asks_for() -> None:
    script = "import sys,numpy,pathlib;p,=pathlib.Path(sys.argv[1]).iterdir();sys.exit(int(numpy.load(p)['y'].sum()))"
    check = Check.of([sys.executable, "-c", script, "{outputs}"])
    assert check.passes([{"y": np.zeros(2)}], [{"y": np.ones(2)}])
    assert not check.passes([{"y": np.ones(2)}], [{"y": np.zeros(2)}])
