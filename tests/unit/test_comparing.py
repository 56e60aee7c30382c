"""Engines compared, as a session hands it out."""

from __future__ import annotations

from pathlib import Path

import pytest

from trt_lab.comparing import HTML_ROWS, EngineComparison
from trt_lab.profiling.engines import diff_engines
from trt_lab.profiling.source import open_engine
from trt_lab.session import Session

DATA = Path(__file__).resolve().parents[1] / "data" / "gpu"


@pytest.fixture(scope="module")
def compared() -> EngineComparison:
    return EngineComparison(diff_engines(*(open_engine(DATA / f"encoder4-{p}.trtlab") for p in ("fp32", "fp16"))))


def test_frames_hold_what_was_found(compared: EngineComparison) -> None:
    diff = compared.diff
    for frame in (compared.frame, compared.groups, compared.scopes(1)):
        assert frame["a_ms"].sum() == pytest.approx(diff.total_a_ms)
        assert frame["b_ms"].sum() == pytest.approx(diff.total_b_ms)
    assert [len(frame) for frame in (compared.fusions, compared.tactics, compared.types)] == [8, 24, 144]
    assert set(compared.types.columns) == {"node", "type_a", "type_b"}
    same = EngineComparison(diff_engines(diff.a, diff.a))
    assert list(same.fusions.columns) == ["kind", "nodes", "layers_a", "layers_b"]
    assert same.fusions.empty


def test_the_still_picture_is_short_and_escaped(compared: EngineComparison) -> None:
    html = compared._repr_html_()
    assert html.count("<tr>") == HTML_ROWS + 1
    assert "layers sum to 0.4228 → 0.2246 ms" in html
    assert "8 fusions, 24 tactics and the types of 144 nodes changed" in repr(compared)


def test_a_session_compares_its_engines(tmp_path: Path) -> None:
    lab = Session("zoo:clean_cnn", records=tmp_path)
    first = lab.build()
    lab.use(precision="fp16")
    lab.build()
    times = lab.profile()
    compared = lab.diff_engines(first)
    assert times["share"].sum() == pytest.approx(1)
    assert set(compared.frame.loc[compared.frame["is_node"], "node"]) <= set(lab.view.nodes)
    assert compared.diff.a.label == first.name
    account = lab.latency()
    assert account.overhead_ms is not None
    assert account.overlap_ms is not None
    assert account.gaps_ms is not None
    assert account.overhead_ms + account.overlap_ms - account.gaps_ms == pytest.approx(account.difference_ms)
    assert "end to end" in str(account)
    assert compared.diff.total_b_ms == pytest.approx(times["time_ms"].sum())
    assert lab.diff_engines(first, first).diff.delta_ms == 0
