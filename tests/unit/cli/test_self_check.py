"""`trt-lab build --self-check`: what an engine tells of itself with no reference."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.calling import call
from trt_lab.compare.selfcheck import SelfCheck
from trt_lab.session import Session


def test_an_engine_that_agrees_with_itself(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = call(capsys, "build", "zoo:clean_cnn", "-o", tmp_path / "a.trtlab", "--self-check", "--json")
    checks = {check["name"]: check for check in json.loads(out)["self_checks"]}
    assert code == 0 and len(checks) == 4 and {check["verdict"] for check in checks.values()} == {"same"}
    assert checks["same input twice"]["note"] == "bit-identical"
    assert checks["reference with its optimiser off and on"]["max_abs"] < 1e-5


def test_one_that_does_not_is_a_finding(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = SelfCheck("same input twice", "differs", "moved by at most 2")
    monkeypatch.setattr(Session, "self_check", lambda _self, _tell: (wrong,))
    code, out, _ = call(capsys, "build", "zoo:clean_cnn", "-o", tmp_path / "a.trtlab", "--self-check")
    assert code == 1 and "same input twice: differs, moved by at most 2" in out


def test_it_is_not_made_unasked(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = call(capsys, "build", "zoo:clean_cnn", "-o", tmp_path / "a.trtlab", "--json")
    assert code == 0 and json.loads(out)["self_checks"] == []
