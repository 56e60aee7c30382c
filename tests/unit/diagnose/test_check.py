"""What decides: metrics, functions and commands, and what is told of bad ones."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from trt_lab.diagnose.check import Check, judge
from trt_lab.errors import UsageError
from trt_lab.types import Tolerance

GOLDEN = [{"y": np.float32([1.0, 2.0, 3.0])}]
NEAR = [{"y": np.float32([1.0, 2.0, 3.001])}]
FAR = [{"y": np.float32([1.0, np.inf, -3.0])}]


@pytest.mark.parametrize(
    ("metric", "near", "far"),
    [
        ("max_abs<=0.01", True, False),
        ("max_abs <= 1e-4", False, False),
        ("cosine>=0.999", True, False),
        ("snr_db > 40", True, False),
        ("rmse<1e-9", False, False),
    ],
)
def test_a_metric_with_a_threshold(metric: str, near: bool, far: bool) -> None:
    check = Check.of(metric)
    assert check.metric is not None
    assert check.passes(GOLDEN, GOLDEN)
    assert (check.passes(NEAR, GOLDEN), check.passes(FAR, GOLDEN)) == (near, far)


def test_a_function_gives_a_bool_or_a_number_with_a_threshold() -> None:
    assert Check.of(lambda outputs, golden: bool(outputs[0]["y"][0] == golden[0]["y"][0])).passes(FAR, GOLDEN)
    accuracy = Check.of(lambda outputs, golden: float(np.mean(outputs[0]["y"] == golden[0]["y"])), at_least=0.5)
    assert accuracy.passes(NEAR, GOLDEN)
    assert not accuracy.passes(FAR, GOLDEN)
    assert not Check.of(lambda outputs, golden: float("nan"), at_least=0.5).passes(NEAR, GOLDEN)


def test_a_function_that_fails_or_gives_no_answer_is_told() -> None:
    def broken(outputs: object, golden: object) -> bool:
        raise KeyError("boxes")

    with pytest.raises(UsageError, match=r"broken\(\) failed by itself \(KeyError: 'boxes'\)"):
        Check.of(broken).passes(NEAR, GOLDEN)
    with pytest.raises(UsageError, match="gave 0.7; it must give True or False, or a number together with at_least"):
        Check.of(lambda outputs, golden: 0.7).passes(NEAR, GOLDEN)


def script(folder: Path, text: str) -> str:
    file = folder / "a check.py"
    file.write_text(text)
    return f"{sys.executable} '{file}'"


def test_a_command_gets_both_folders_and_its_status_decides(tmp_path: Path) -> None:
    command = script(
        tmp_path,
        "import sys, numpy as np\n"
        "outputs, golden = (np.load(f'{folder}/000.npz')['y'] for folder in sys.argv[1:3])\n"
        "sys.exit(0 if np.allclose(outputs, golden, atol=0.01) else 3)\n",
    )
    check = Check.of(command)
    assert check.command[1].endswith("a check.py"), "quotes hold a word together"
    assert check.passes(NEAR, GOLDEN)
    assert not check.passes(FAR, GOLDEN)


def test_places_in_a_command_are_filled_in_and_no_shell_runs(tmp_path: Path) -> None:
    said = tmp_path / "said"
    text = f"import sys, pathlib\npathlib.Path({str(said)!r}).write_text(repr(sys.argv[1:]))\n"
    assert Check.of(script(tmp_path, text) + " --run={outputs} '; touch x' $HOME").passes(NEAR, GOLDEN)
    words = eval(said.read_text())
    assert words[0].startswith("--run=/") and words[0].endswith("/outputs")
    assert words[1:] == ["; touch x", "$HOME"]


def test_bad_commands_are_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'no-such-program' cannot be run .*give its full path"):
        Check.of("no-such-program").passes(NEAR, GOLDEN)
    with pytest.raises(UsageError, match=r"hangs: it did not end within 0\.3 s"):
        Check.of(script(tmp_path, "import threading\nthreading.Event().wait(60)\n"), seconds=0.3).passes(NEAR, GOLDEN)
    with pytest.raises(UsageError, match="killed by signal 9"):
        Check.of(script(tmp_path, "import os\nos.kill(os.getpid(), 9)\n")).passes(NEAR, GOLDEN)
    with pytest.raises(UsageError, match="empty"):
        Check.of("  ")
    with pytest.raises(UsageError, match="cannot be split into words"):
        Check.of("python 'half")


def test_the_default_judge() -> None:
    assert judge(NEAR, GOLDEN, Tolerance(1e-3, 1e-3))[0]
    good, error = judge(FAR, GOLDEN, Tolerance())
    assert not good and error is None
    assert judge(NEAR, GOLDEN, Tolerance(0, 0)) == (False, pytest.approx(0.001, rel=1e-3))


METRIC = """
import numpy as np

def top1(outputs, golden):
    return float(np.mean([np.argmax(a["y"]) == np.argmax(b["y"]) for a, b in zip(outputs, golden)]))

def largest(outputs):
    return max(float(sample["y"].max()) for sample in outputs)

def good(outputs, golden):
    return len(outputs) == len(golden)

number = 3
"""


@pytest.fixture
def metric_file(tmp_path: Path) -> Path:
    file = tmp_path / "my metric.py"
    file.write_text(METRIC)
    return file


def test_a_function_of_a_file_with_a_threshold(metric_file: Path) -> None:
    golden = [{"y": np.array([0.0, 1.0])}, {"y": np.array([1.0, 0.0])}]
    half = [{"y": np.array([0.0, 2.0])}, {"y": np.array([0.0, 2.0])}]
    assert Check.of(f"{metric_file}:top1 >= 0.5").passes(half, golden)
    assert not Check.of(f"{metric_file}:top1>=0.6").passes(half, golden)
    assert Check.of(f"{metric_file}:largest <= 2").passes(half, golden)
    assert not Check.of(f"{metric_file}:largest <= 1.9").passes(half, golden)
    assert Check.of(f"{metric_file}:good").passes(half, golden)
    assert str(Check.of(f"{metric_file}:top1>=0.50")) == "top1() >= 0.5"
    assert not Check.of(lambda outputs: float("nan"), at_most=1.0).passes(half, golden), "NaN is never good"


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("FILE:nothing", "has no function 'nothing'"),
        ("FILE:number", "has no function 'number'"),
        ("FILE:top1 >= 1e", "is no number"),
        ("missing.py:top1", "missing.py: no such file"),
        ("cosine>=.", "is no number"),
    ],
)
def test_a_function_that_cannot_be_had(metric_file: Path, what: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Check.of(what.replace("FILE", str(metric_file)))


def test_a_file_that_fails_and_an_answer_that_is_no_verdict(metric_file: Path) -> None:
    with pytest.raises(UsageError, match="a number together with at_least or at_most"):
        Check.of(f"{metric_file}:largest").passes([{"y": np.ones(1)}], [{"y": np.ones(1)}])
    with pytest.raises(UsageError, match="no number to hold against"):
        Check.of(lambda outputs: "high", at_least=1.0).passes([{}], [{}])
    metric_file.write_text("import nosuchmodule\ndef top1(outputs): return 1.0")
    with pytest.raises(UsageError, match="failed by itself .*nosuchmodule"):
        Check.of(f"{metric_file}:top1 >= 1")
