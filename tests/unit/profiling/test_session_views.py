"""What a session tells about an engine, as data: on a record of a real GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from trt_lab.errors import UsageError
from trt_lab.frames.engine import LINT_COLUMNS, REFORMAT_COLUMNS, SHAPE_COLUMNS, SHARE_COLUMNS, SPLIT_COLUMNS
from trt_lab.frames.layer_map import COLUMNS
from trt_lab.record import Record
from trt_lab.session import Session

GPU = Path(__file__).resolve().parents[2] / "data" / "gpu"


@pytest.fixture(scope="module")
def record() -> Record:
    return Record.open(GPU / "l2norm_overflow-fp16.trtlab")


@pytest.fixture(scope="module")
def lab(record: Record, tmp_path_factory: pytest.TempPathFactory) -> Session:
    return Session(record.model(), records=tmp_path_factory.mktemp("records"))


def test_the_map_lists_each_link_and_what_has_none(lab: Session, record: Record) -> None:
    frame = lab.map(record)
    assert list(frame.columns) == list(COLUMNS)
    links = frame[frame["layer"].notna() & frame["node"].notna()]
    assert set(links["role"]) == {"computes", "serves"} and set(links["source"]) == {"metadata", "name"}
    made = links[links["role"] == "computes"]
    assert made["node"].nunique() == 32 and (made["confidence"] == "certain").all()
    left = frame[frame["layer"].isna()]
    assert len(left) == 3 and (left["reason_kind"] == "constant").all() and left["folded"].all()
    assert set(frame["node"].dropna()) == set(lab.view.nodes)


def test_views_have_their_columns_and_sums(lab: Session, record: Record) -> None:
    total = sum(time.average_ms for time in record.times)
    for by in ("precision", "type"):
        found = lab.shares(by, record)
        assert list(found.columns) == list(SHARE_COLUMNS) and found["time_ms"].sum() == pytest.approx(total)
        assert found["layers"].sum() == len(record.layers)
    assert list(lab.reformats(record).columns) == list(REFORMAT_COLUMNS)
    assert list(lab.splits(record).columns) == list(SPLIT_COLUMNS) and "type_change" in set(
        lab.splits(record)["reason"]
    )
    assert list(lab.lints(record).columns) == list(LINT_COLUMNS)
    shapes = lab.shapes(record)
    assert list(shapes.columns) == list(SHAPE_COLUMNS)
    assert shapes.set_index("tensor").loc["x", "usual"][1:] == (3, 64, 64)


def test_a_record_whose_model_is_another_and_not_kept_is_told(lab: Session) -> None:
    other = Record.open(GPU / "magika-fp16.trtlab")
    with pytest.raises(UsageError, match="magika"):
        lab.map(other)
    assert len(lab.shares("type", other))


def test_without_an_engine_there_is_nothing_to_map(lab: Session) -> None:
    with pytest.raises(UsageError, match="build one first"):
        lab.map()
