"""The cause found by a session: emulated, then proved on engines. The engines are fakes that run on the CPU."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tests.integration.engines import FakeEngine, install
from trt_lab import Session
from trt_lab.cli import main
from trt_lab.errors import UsageError
from trt_lab.model import Model

REGION = ("/norm/Pow", "/norm/ReduceMean_1", "/norm/Add", "/norm/Sqrt")


def session_on(engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    install(engine, monkeypatch)
    lab = Session("zoo:layernorm_overflow", records=tmp_path, executor=ThreadPoolExecutor(1))
    lab.use(backend="fake", precision="fp16")
    return lab


def test_two_builds_prove_what_was_emulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = FakeEngine()
    finding = session_on(engine, tmp_path, monkeypatch).locate()
    assert engine.built == [(), REGION]
    assert finding.keep_fp32 == REGION
    assert finding.engine_builds == 2 and finding.proved and not finding.emulated
    assert finding.before.verdict == "differs"
    assert finding.after is not None and finding.after.verdict == "same"
    assert finding.before.engine.meta.backend == "fake"
    cost = finding.cost_ms
    assert cost is not None and abs(cost) < 1000


def test_an_engine_that_keeps_fp32_by_itself_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = FakeEngine(obeys=lambda kept: None)
    finding = session_on(engine, tmp_path, monkeypatch).locate()
    assert engine.built == [()]
    assert finding.verdict == "same" and finding.keep_fp32 == ()
    assert "the engine passes with nothing kept" in finding.notes[0]


def test_where_they_disagree_the_engine_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = FakeEngine(obeys=lambda kept: kept if "/norm/Div" in kept else ())
    finding = session_on(engine, tmp_path, monkeypatch).locate()
    assert set(finding.keep_fp32) == {*REGION, "/norm/Div"}
    assert finding.proved and finding.engine_builds == len(engine.built) <= 24
    assert len(set(engine.built)) == len(engine.built), "no engine is built twice"
    assert "the engine was searched" in finding.notes[-1]
    assert finding.as_json()["engine_builds"] == len(engine.built)


def test_an_engine_that_cannot_run_here_proves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = FakeEngine(can_run=False)
    finding = session_on(engine, tmp_path, monkeypatch).locate()
    assert engine.built == [] and finding.engine_builds == 0
    assert finding.keep_fp32 == REGION and finding.emulated and not finding.proved
    assert "'fake' cannot run here (no GPU)" in finding.notes[0]


def test_engines_are_not_built_again_when_a_search_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = FakeEngine()
    first = session_on(engine, tmp_path / "r", monkeypatch).locate(artifacts=tmp_path / "steps")
    built = list(engine.built)
    again = session_on(engine, tmp_path / "r", monkeypatch).locate(artifacts=tmp_path / "steps", resume=True)
    assert engine.built == built
    assert (again.keep_fp32, again.engine_builds, again.proved) == (first.keep_fp32, 2, True)
    written = json.loads((tmp_path / "steps" / "finding.json").read_text())
    assert written["keep_fp32"] == list(REGION)


@pytest.fixture
def lab(tmp_path: Path) -> Session:
    session = Session("zoo:layernorm_overflow", records=tmp_path / "records")
    session.use(precision="fp16")
    return session


def test_the_search_runs_in_the_worker_and_leaves_no_record_of_its_tries(lab: Session, tmp_path: Path) -> None:
    finding = lab.locate()
    assert finding.keep_fp32 == REGION and finding.engine_builds == 0 and finding.emulated
    assert finding.region is not None and len(finding.region.trials) > 5
    kept = sorted(path.name.rsplit("-", 1)[0] for path in (tmp_path / "records").rglob("*.trtlab"))
    # before and after; the reference, and the same with its optimiser on, since the error is big (C28)
    assert kept == ["onnxruntime-fp16", "onnxruntime-fp16", "reference", "reference"]
    assert list(finding.frame[finding.frame["source"]]["node"]) == ["/norm/Pow"]
    assert finding.frame.set_index("node").loc["/norm/Pow", "kind"] == "overflow"
    assert "4 nodes repair it: /norm/Pow … /norm/Sqrt" in finding.headline


def test_a_function_of_the_notebook_is_the_check(lab: Session) -> None:
    limit = 0.01

    def close(outputs: list[Mapping[str, np.ndarray]], golden: list[Mapping[str, np.ndarray]]) -> bool:
        return all(float(np.abs(a["y"] - b["y"]).max()) < limit for a, b in zip(outputs, golden, strict=True))

    finding = lab.locate(check=close)
    assert finding.keep_fp32 == REGION
    assert finding.check == "close()"
    assert lab.locate(check="max_abs<=100").verdict == "same"
    assert lab.code.splitlines()[-2:] == ["lab.locate(check=my_check)", "lab.locate(check='max_abs <= 100')"]


def test_going_on_with_other_options_is_refused_by_name(lab: Session, tmp_path: Path) -> None:
    lab.locate(artifacts=tmp_path / "steps")
    lab.use(atol=0.5)
    with pytest.raises(UsageError, match="'tolerance' was"):
        lab.locate(artifacts=tmp_path / "steps", resume=True)
    lab.use(atol=1e-3, precision="bf16")
    with pytest.raises(UsageError, match=r"'options\.plan' was"):
        lab.locate(artifacts=tmp_path / "steps", resume=True)
    with pytest.raises(UsageError, match="name the folder"):
        lab.locate(resume=True)


def test_the_smallest_part_is_written_and_the_line_that_repeats_it_is_kept(lab: Session, tmp_path: Path) -> None:
    found = lab.reduce(tmp_path / "min.onnx")
    assert found.nodes == ("/norm/Pow",)
    assert Model.load(tmp_path / "min.onnx").name == "min"
    assert lab.code.splitlines()[-1].startswith("lab.reduce(")


def test_the_command_writes_the_repaired_model_recipes_and_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "found"
    arguments = ["locate", "zoo:layernorm_overflow", "-o", str(out), "--json"]
    with pytest.raises(SystemExit, match="1"):
        main.run(arguments)
    told = json.loads(capsys.readouterr().out)
    assert {
        "verdict",
        "keep_fp32",
        "source",
        "engine_builds",
        "seconds",
        "before",
        "after",
        "observer",
        "steps",
    } <= set(told)
    assert told["keep_fp32"] == list(REGION) and told["source"] == "/norm/Pow" and told["kind"] == "overflow"
    assert Model.load(told["fixed_model"]).ir.graph
    assert "--nodes_to_exclude" in (out / "recipes.txt").read_text()
    assert (out / "steps.jsonl").is_file() and (out / "finding.json").is_file()
    with pytest.raises(SystemExit, match="2"):
        main.run([*arguments, "--resume", "--atol", "0.5"])
    assert "'tolerance' was" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main.run([*arguments, "--check", "no-such-program"])
    assert "'no-such-program' cannot be run" in capsys.readouterr().err


def test_the_command_reduces(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="1"):
        main.run(["reduce", "zoo:square_norm_rare", "-o", str(tmp_path / "min.onnx"), "--json"])
    told = json.loads(capsys.readouterr().out)
    assert (told["nodes_after"], told["source"], told["sample"]) == (1, "/square_norm_rare/Mul_1", 2)
    assert Path(told["model"]).is_file() and told["nodes_before"] > 30
    with pytest.raises(SystemExit, match="0"):
        main.run(["reduce", "zoo:clean_saturated", "-o", str(tmp_path / "clean.onnx")])
    assert "nothing to reduce" in capsys.readouterr().out
