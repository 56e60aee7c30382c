"""The table widget without a browser: rows, order, filter, selection, static view."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trt_lab.errors import UsageError
from trt_lab.widgets.table import MAX_ROWS_A_REPLY, TableWidget
from trt_lab.widgets.table_rows import TableRows, cell
from trt_lab.wire import Column, TableQuery

COLUMNS = (
    Column(name="tensor", label="tensor", format="name"),
    Column(name="verdict", label="verdict", format="verdict"),
    Column(name="max_abs", label="max abs", format="figure"),
)


def rows(tensor: list[str], verdict: list[str], max_abs: list[Any]) -> TableRows:
    return TableRows(
        COLUMNS, [f"k{i}" for i in range(len(tensor))], {"tensor": tensor, "verdict": verdict, "max_abs": max_abs}
    )


def ask(widget: TableWidget, kind: str, **fields: Any) -> dict[str, Any]:
    """Sends a request as the browser would and returns the reply."""
    sent: list[Any] = []
    widget.send = lambda content, buffers=None: sent.append(content)  # type: ignore[method-assign]
    widget._handle_custom_msg({"id": "t", "kind": kind, **fields}, [])
    (reply,) = sent
    json.dumps(reply, allow_nan=False)
    return reply


def test_the_worst_number_comes_first_and_missing_ones_last_either_way() -> None:
    table = rows(["a", "b", "c", "d", "e"], ["same"] * 5, [0.5, None, math.nan, math.inf, -2.0])
    assert table.order(TableQuery(sort="max_abs", descending=True)) == [2, 3, 0, 4, 1]
    assert table.order(TableQuery(sort="max_abs")) == [4, 0, 3, 2, 1]


def test_verdicts_sort_by_gravity() -> None:
    table = rows(list("abc"), ["differs", "same", "not_comparable"], [0, 0, 0])
    assert table.order(TableQuery(sort="verdict", descending=True)) == [0, 2, 1]


def test_the_filter_wants_all_words_somewhere_in_the_texts() -> None:
    table = rows(["/a/Mul_output_0", "/b/Mul_output_0", "/a/Add"], ["differs", "same", "same"], [1, 2, 3])
    assert table.order(TableQuery(filter="MUL a/")) == [0]
    assert table.order(TableQuery(filter="same")) == [1, 2]
    assert table.order(TableQuery(filter="nowhere")) == []


def test_wrong_columns_are_named() -> None:
    with pytest.raises(UsageError, match="columns extra, max_abs do not match"):
        TableRows(COLUMNS, [], {"tensor": [], "verdict": [], "extra": []})
    with pytest.raises(UsageError, match="column verdict has 0 values for 1 keys"):
        TableRows(COLUMNS, ["k"], {"tensor": ["a"], "verdict": [], "max_abs": [1]})
    with pytest.raises(UsageError, match="no column 'nonsense'"):
        rows(["a"], ["same"], [1]).order(TableQuery(sort="nonsense"))


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        (np.float32(0.5), 0.5),
        (np.int64(2**40), 2**40),
        (np.bool_(True), True),
        (math.nan, "NaN"),
        (-math.inf, "−Inf"),
        (None, None),
        ((1, 2), "(1, 2)"),
    ],
)
def test_cells_are_strict_json(value: Any, sent: Any) -> None:
    assert cell(value) == sent
    assert type(cell(value)) is type(sent)


@given(
    st.lists(st.one_of(st.none(), st.floats(), st.integers(), st.text(max_size=5), st.booleans()), max_size=30),
    st.booleans(),
)
def test_any_mixture_can_be_sorted_and_none_is_lost(values: list[Any], descending: bool) -> None:
    table = rows([""] * len(values), ["same"] * len(values), values)
    order = table.order(TableQuery(sort="max_abs", descending=descending))
    assert sorted(order) == list(range(len(values)))
    missing = [index for index in order if values[index] is None]
    assert order[len(order) - len(missing) :] == missing


def test_rows_come_by_range_under_a_query() -> None:
    widget = TableWidget(columns=COLUMNS)
    widget.set_rows(keys=list("abc"), tensor=["x", "y", "z"], verdict=["same"] * 3, max_abs=[1.0, 3.0, 2.0])
    query = {"sort": "max_abs", "descending": True}
    reply = ask(widget, "table.rows", query=query, start=1, count=10)
    assert reply["data"]["keys"] == ["c", "a"]
    assert reply["data"]["cells"] == [["z", "same", 2.0], ["x", "same", 1.0]]
    assert (reply["data"]["total"], reply["data"]["unfiltered"], reply["data"]["start"]) == (3, 3, 1)
    assert ask(widget, "table.place", query=query, key="a")["data"] == {"index": 2}
    assert ask(widget, "table.place", query={"filter": "y"}, key="a")["data"] == {"index": None}
    assert ask(widget, "table.place", key="nowhere")["data"] == {"index": None}


def test_c48_five_thousand_rows_and_two_hundred_thousand_lines_go_in_small_replies() -> None:
    widget = TableWidget(columns=COLUMNS)
    count = 200_000
    widget.set_rows(
        keys=[str(i) for i in range(count)],
        tensor=["line " * 20] * count,
        verdict=["same"] * count,
        max_abs=[0.1] * count,
    )
    reply = ask(widget, "table.rows", start=0, count=count)
    assert len(reply["data"]["keys"]) == MAX_ROWS_A_REPLY
    assert len(json.dumps(reply)) < 1_000_000
    assert ask(widget, "table.rows", start=count - 1, count=10)["data"]["keys"] == [str(count - 1)]
    assert ask(widget, "table.rows", start=10**9, count=10)["data"]["keys"] == []
    assert sum(len(str(widget.get_state()[name])) for name in ("columns", "empty", "selected")) < 2_000


def test_wrong_requests_are_answered_and_the_table_lives_on() -> None:
    widget = TableWidget(columns=COLUMNS)
    assert ask(widget, "table.rows", query={"sort": "nonsense"}, start=0, count=1)["error"].startswith(
        "table: no column"
    )
    assert ask(widget, "table.rows", start="x", count=1)["error"].startswith("bad message: table.rows: start")
    assert ask(widget, "table.rows", start=0, count=1)["ok"] is True


def test_the_selection_stays_while_its_row_does() -> None:
    widget = TableWidget(columns=COLUMNS)
    widget.set_rows(keys=["a", "b"], tensor=["x", "y"], verdict=["same"] * 2, max_abs=[1, 2])
    widget.selected = "b"
    widget.set_rows(keys=["b"], tensor=["y"], verdict=["differs"], max_abs=[2])
    assert widget.selected == "b"
    widget.set_rows(keys=[], tensor=[], verdict=[], max_abs=[])
    assert widget.selected == ""


def test_c47_the_static_view_needs_no_script_and_escapes_names() -> None:
    widget = TableWidget(columns=COLUMNS)
    name = "<img src=x onerror=alert(1)>" + "n" * 5_000
    widget.set_rows(
        keys=[str(i) for i in range(5_000)], tensor=[name] * 5_000, verdict=["same"] * 5_000, max_abs=[None] * 5_000
    )
    data, _metadata = widget._repr_mimebundle_()
    html = data["text/html"]
    assert "application/vnd.jupyter.widget-view+json" in data
    assert data["text/plain"] == "TableWidget(Table, 5000 rows)"
    assert len(html.encode()) <= 300_000
    assert "<img" not in html and "<script" not in html and "&lt;img" in html
    assert "and 4900 more rows" in html
