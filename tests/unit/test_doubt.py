"""The reference under both settings of its optimiser, before an engine is blamed (C28)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trt_lab import doubt
from trt_lab.compare.sides import compare_sides, open_side
from trt_lab.errors import RunError
from trt_lab.session import Session
from trt_lab.types import Tolerance


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Session:
    session = Session("zoo:l2norm_overflow", records=tmp_path_factory.mktemp("records"))
    session.use(precision="fp16")
    session.build()
    return session


def test_c28_a_steady_reference_leaves_no_note(lab: Session) -> None:
    assert doubt.is_big(lab.compare())
    before = lab.compare().comparison.notes
    assert lab.compare(doubt=True).comparison.notes == before


def test_c28_a_reference_that_moves_is_told_once_run(lab: Session) -> None:
    diff = lab.compare()
    asked: list[bool] = []

    def run(probed: Any, options: Any, role: Any) -> Any:
        asked.append(options.optimizer)
        return diff.engine

    note = doubt.doubt_reference(diff, lab.model, run)
    assert asked == [True]
    assert note.startswith("the reference itself changes by ")
    assert note.endswith("with its optimiser on: do not blame the engine yet")
    assert doubt.with_note(diff, note).comparison.notes == (*diff.comparison.notes, note)


def test_c28_nothing_is_run_while_the_error_is_small(lab: Session) -> None:
    diff = lab.compare()
    same = replace(
        diff, comparison=compare_sides(open_side(diff.reference), open_side(diff.reference), tolerance=Tolerance())
    )

    def run(*_given: Any) -> Any:
        raise AssertionError("run although the error is small")

    assert doubt.doubt_reference(same, lab.model, run) == ""


def test_c28_a_run_that_fails_is_told_and_not_raised(lab: Session) -> None:
    def run(*_given: Any) -> Any:
        raise RunError("no memory")

    assert "no memory" in doubt.doubt_reference(lab.compare(), lab.model, run)


def test_c28_the_session_asks_once_a_reference(lab: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    lab._doubts.clear()
    asked: list[Path] = []
    monkeypatch.setattr(
        "trt_lab.session.doubt_reference", lambda diff, *_: asked.append(diff.reference.path) or "it moves"
    )
    assert "it moves" not in lab.compare().comparison.notes
    assert "it moves" in lab.compare(doubt=True).comparison.notes
    assert "it moves" in lab.compare(doubt=True).comparison.notes
    assert "it moves" in lab.compare().comparison.notes
    assert len(asked) == 1
