"""Whether looking changed the engine: from a session, its JSON, and the report."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from trt_lab.errors import UsageError
from trt_lab.observing import find_clean, observe_engine
from trt_lab.session import Session
from trt_lab.types import Tolerance
from trt_lab.views.report.collect import records_report

INSIDE, BETWEEN = "/a/a.0/Conv_output_0", "/Mul_output_0"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Session:
    session = Session("zoo:l2norm_overflow", records=tmp_path_factory.mktemp("records"))
    session.use(precision="fp32", profile_runs=0)
    session.probe(INSIDE)
    session.build()
    session.unprobe(INSIDE)
    session.probe(BETWEEN)
    session.build()
    return session


def test_a_probe_inside_a_fused_layer_is_perturbing(lab: Session) -> None:
    seen = lab.observer(lab.records[0])
    data = seen.as_json()
    assert data["verdict"] == "perturbing" and seen.by_probe == {INSIDE: "perturbing"}
    assert len(seen.changes) == 1 and seen.changes[0].kind == "split" and data["split"] == [seen.changes[0].layer]
    assert set(seen.changes[0].nodes) == {"/a/a.0/Conv", "/a/a.1/Relu"}
    assert seen.moved is not None and seen.moved <= 1e-3
    assert (
        INSIDE in seen.hidden and BETWEEN in seen.neutral_tensors and not set(seen.hidden) & set(seen.neutral_tensors)
    )


def test_a_probe_between_layers_is_neutral(lab: Session) -> None:
    seen = lab.observer()
    assert seen.effect == "neutral" and seen.by_probe == {BETWEEN: "neutral"} and seen.moved == 0.0
    assert BETWEEN in lab.safe_to_probe and INSIDE not in lab.safe_to_probe


def test_the_clean_engine_is_built_once_and_is_no_record_of_the_user(lab: Session) -> None:
    assert len(lab.records) == 2


def test_without_the_clean_engine_nothing_is_claimed(lab: Session) -> None:
    seen = observe_engine(lab.view, lab.records[0], lab.records, Tolerance())
    assert (
        seen.effect == "unknown" and seen.by_probe == {INSIDE: "unknown"} and "lab.observer(build=True)" in seen.reason
    )
    assert seen.as_json()["moved"] is None and seen.as_json()["split"] == []


def test_other_options_are_another_engine(lab: Session, tmp_path: Path) -> None:
    other = Session("zoo:l2norm_overflow", records=tmp_path)
    other.use(precision="fp16", profile_runs=0)
    clean = other.build()
    assert find_clean(lab.view, lab.records[0], [clean]) is None
    assert other.observer().reason == "no probe is in the engine" and other.observer().effect == "neutral"


def test_before_a_build_there_is_nothing_to_observe(tmp_path: Path) -> None:
    fresh = Session("zoo:l2norm_overflow", records=tmp_path)
    assert fresh.safe_to_probe == ()
    with pytest.raises(UsageError, match="build one first"):
        fresh.observer()


def test_the_report_of_records_says_it(lab: Session, tmp_path: Path) -> None:
    fresh = Session("zoo:l2norm_overflow", records=tmp_path)
    fresh.use(profile_runs=0)
    data = records_report([lab.records[0], fresh.build()])
    assert any(name == "Probes and the engine" and text.startswith("perturbing") for name, text in data.facts)
    assert any("probes changed the engine" in note for note in data.notes)
    assert any(note.startswith(f"In place of {INSIDE} probe /") for note in data.notes)


def test_the_command_tells_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "trt_lab.cli.main", "build", "zoo:l2norm_overflow", "--probe", INSIDE, "--json"]
    done = subprocess.run([*command, "-o", str(tmp_path / "r.trtlab")], capture_output=True, text=True, check=True)
    observer = json.loads(done.stdout)["observer"]
    assert observer["verdict"] == "perturbing" and len(observer["split"]) == 1 and observer["types_changed"] == []
    assert observer["probes"] == [INSIDE]
    assert observer["instead"][INSIDE] and INSIDE not in observer["instead"][INSIDE]
    assert set(observer["instead"][INSIDE]) <= set(observer["neutral_tensors"])


def test_self_checks_of_a_session(tmp_path: Path) -> None:
    session = Session("zoo:clean_cnn", records=tmp_path)
    checks = {check.name: check for check in session.self_check()}
    assert checks["same input twice"].verdict == "same" and checks["same input twice"].note == "bit-identical"
    c28 = checks["reference with its optimiser off and on"]
    assert (
        c28.verdict == "same" and c28.comparison is not None and len(c28.comparison.per_sample) == session.samples.count
    )
    assert all(check.verdict != "differs" for check in checks.values()) and session.records == ()
    assert session.code.endswith("lab.self_check()\n")
