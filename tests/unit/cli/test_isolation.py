"""`trt-lab build --repeat` and `trt-lab switches`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.calling import call
from trt_lab.record import Record


def test_builds_that_agree_are_exit_0_and_leave_a_record(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ["build", "zoo:clean_layers", "-o", tmp_path / "r.trtlab", "--repeat", "2"]
    code, out, _ = call(capsys, *arguments, "--json")
    told = json.loads(out)
    assert (code, told["kind"], len(told["builds"]), told["lock"]) == (0, "identical", 2, None)
    assert Record.open(tmp_path / "r.trtlab").ok
    assert all(build["right"] and build["same_bits"] and build["repeats"] for build in told["builds"])


def test_builds_that_are_all_wrong_are_exit_1(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ["build", "zoo:square_norm", "-o", tmp_path / "r.trtlab", "--repeat", "2", "--precision", "fp16"]
    code, out, _ = call(capsys, *arguments)
    assert code == 1
    assert out.startswith("all wrong: all 2 builds are wrong") and "which is wrong: no build is right" in out


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--repeat", "2", "--probe", "x"], "leave --probe, --timing-cache and --self-check out"),
        (["--lock", "x.cache"], "add --repeat 3"),
    ],
)
def test_options_that_do_not_go_together(
    more: list[str], words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, _, err = call(capsys, "build", "zoo:clean_layers", "-o", tmp_path / "r.trtlab", *more)
    assert code == 2 and words in err


def test_the_switch_that_helps_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["switches", "zoo:square_norm", "--precision", "fp16", "--json"]
    code, out, _ = call(capsys, *arguments)
    told = json.loads(out)
    assert code == 1 and told["helping"] == ["precision"]
    assert [row["switch"] for row in told["rows"]] == ["none", "optimizer", "precision"]
    assert [row["passes"] for row in told["rows"]] == [False, False, True]


def test_a_pair_that_is_none_is_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "switches", "zoo:square_norm", "--fusion", "only_one")
    assert code == 2 and "give two nodes" in err


def test_the_table_of_locate_stands_in_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = call(capsys, "locate", "zoo:square_norm", "-o", tmp_path / "steps", "--fp32", "--json")
    table = json.loads(out)["table"]
    assert code == 1
    assert [row["verdict"] for row in table] == ["same", "differs", "same"]
    assert all(row["latency_ms"] is None for row in table), "emulation's times measure nothing"
