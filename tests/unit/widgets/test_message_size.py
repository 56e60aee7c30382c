"""However large what is shown, each message stays small (C48)."""

from __future__ import annotations

import json
from typing import Any

import comm
import numpy as np
import pytest

from trt_lab.types import LogLine
from trt_lab.views.diff import diff_figure
from trt_lab.widgets.figure import FigureWidget
from trt_lab.widgets.panes.diff import TENSOR_COLUMNS
from trt_lab.widgets.panes.log import LINES, LogPane
from trt_lab.widgets.table import TableWidget

LARGEST = 1_000_000
"""Bytes of one message, in JSON and buffers."""


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes of each message that any widget sends."""
    found: list[int] = []

    def publish(
        self: Any, msg_type: str, data: Any = None, metadata: Any = None, buffers: Any = None, **_: Any
    ) -> None:
        found.append(len(json.dumps(data)) + sum(memoryview(part).nbytes for part in buffers or ()))

    monkeypatch.setattr(comm.DummyComm, "publish_msg", publish)
    return found


def ask(widget: Any, kind: str, **fields: Any) -> None:
    """Sends a request as the browser would."""
    widget._handle_custom_msg({"id": "t", "kind": kind, **fields}, [])


def check(sizes: list[int]) -> None:
    assert sizes
    assert max(sizes) < LARGEST


def test_c48_ten_thousand_tensors(sizes: list[int]) -> None:
    count = 10_000
    table = TableWidget(columns=TENSOR_COLUMNS)
    names = [f"/encoder/layers.{number}/self_attention/output_projection/MatMul_output_0" for number in range(count)]
    table.set_rows(
        keys=names,
        tensor=names,
        verdict=["differs"] * count,
        max_abs=np.arange(count, dtype=float),
        cosine=[0.5] * count,
        local=["inherited"] * count,
    )
    before = len(sizes)
    for start in range(0, count, 500):
        ask(table, "table.rows", query={"sort": "max_abs", "descending": True}, start=start, count=10_000)
    assert len(sizes) == before + 20
    check(sizes)


class LoudRecord:
    """A record whose backend wrote a line for each of its 200,000 tactics."""

    path = "loud.trtlab"

    def log(self) -> Any:
        for number in range(200_000):
            yield LogLine(severity="verbose", source="builder", message=f"tactic {number}: " + "x" * 1500)


def test_c48_a_log_of_200_000_lines(sizes: list[int]) -> None:
    pane = LogPane()
    pane.show(LoudRecord())  # type: ignore[arg-type]  # a record as far as the pane reads it
    assert f"{LINES} lines (the first of more; all are in the record)" in pane.heading.value
    for start in (0, LINES - 500):
        ask(pane.table, "table.rows", query={}, start=start, count=500)
    check(sizes)


def test_c48_two_tensors_of_64_mb(sizes: list[int]) -> None:
    golden = np.zeros((4, 1024, 4096), dtype=np.float32)
    engine = golden.copy()
    engine[2, 700, 3000] = 1
    figure = FigureWidget(diff_figure(golden, engine, name="x"))
    ask(figure, "figure.item")
    check(sizes)
