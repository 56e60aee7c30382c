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
        "trt_lab.session.engines.doubt_reference", lambda diff, *_: asked.append(diff.reference.path) or "it moves"
    )
    assert "it moves" not in lab.compare().comparison.notes
    assert "it moves" in lab.compare(doubt=True).comparison.notes
    assert "it moves" in lab.compare(doubt=True).comparison.notes
    assert "it moves" in lab.compare().comparison.notes
    assert len(asked) == 1


# --- TF32 (C25) ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tf32(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """An engine with TF32, emulated, on a model without a fault; no error is allowed."""
    session = Session("zoo:clean_cnn", records=tmp_path_factory.mktemp("records"))
    session.use(tf32=True, atol=1e-7, rtol=0.0)
    session.build()
    return session


def test_c25_an_error_that_tf32_gives_is_called_so(tf32: Session) -> None:
    assert tf32.compare().verdict == "differs"
    (note,) = [n for n in tf32.compare(doubt=True).comparison.notes if "TF32" in n]
    assert note.startswith("TF32 is on, and the error is as TF32 would give: ")
    assert note in tf32.compare().comparison.notes, "told from then on"


def test_c25_a_larger_error_is_not_blamed_on_tf32(tf32: Session) -> None:
    diff = tf32.compare()
    note = doubt.explain_tf32(diff, tf32.model, lambda *given: diff.reference)
    assert note.startswith("TF32 is on, but emulated it gives 0 where the engine is off by ")


def test_c25_nothing_is_run_with_tf32_off(lab: Session) -> None:
    def run(*_given: Any) -> Any:
        raise AssertionError("run although TF32 is off")

    assert doubt.explain_tf32(lab.compare(), lab.model, run) == ""


def test_c25_a_run_that_fails_is_told(tf32: Session) -> None:
    def run(*_given: Any) -> Any:
        raise RunError("no memory")

    assert doubt.explain_tf32(tf32.compare(), tf32.model, run).endswith("could not be emulated: no memory")
