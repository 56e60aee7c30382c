"""A table of any length: rows come from Python as they are scrolled to; sorted and filtered here."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from trt_lab.widgets.channel import Call, Channel
from trt_lab.widgets.still import still
from trt_lab.widgets.table_rows import TableRows
from trt_lab.wire import Column, RowPlace, RowPlaceRequest, Rows, RowsRequest, TableChanged, TableQuery

MAX_ROWS_A_REPLY = 500
_ORDERS_KEPT = 4
_STATIC_ROWS = 100


class TableWidget(anywidget.AnyWidget):
    """Shows rows and tells which one is chosen.

    Args:
        columns: What each column is and how its cells are written.
        empty: Text in place of rows when there are none.
        rows_shown: Height in rows; more rows scroll.
        label: What the table is, for screen readers.
    """

    _esm = Path(__file__).parent / "static" / "table.js"

    columns = traitlets.List(traitlets.Dict()).tag(sync=True)
    """`wire.Column` of each column. Type: list of dict. Default: []."""

    empty = traitlets.Unicode("No rows.").tag(sync=True)
    """Text in place of rows. Type: str. Default: "No rows."."""

    rows_shown = traitlets.Int(10).tag(sync=True)
    """Height in rows. Type: int. Default: 10."""

    label = traitlets.Unicode("Table").tag(sync=True)
    """Name for screen readers. Type: str. Default: "Table"."""

    selected = traitlets.Unicode().tag(sync=True)
    """Key of the chosen row. Type: str. Default: "", none."""

    def __init__(
        self, *, columns: Sequence[Column], empty: str = "No rows.", rows_shown: int = 10, label: str = "Table"
    ) -> None:
        self._lock = threading.RLock()
        self._rows = TableRows(columns, (), {column.name: () for column in columns})
        self._version = 0
        self._orders: dict[TableQuery, list[int]] = {}
        super().__init__(
            columns=[column.model_dump(mode="json") for column in columns],
            empty=empty,
            rows_shown=rows_shown,
            label=label,
        )
        self._channel = Channel(self)
        self._channel.handle(RowsRequest, self._rows_of)
        self._channel.handle(RowPlaceRequest, self._place)

    def set_rows(self, *, keys: Sequence[str], **values: Iterable[Any]) -> None:
        """Shows other rows; sorting, filter and, where its key is still there, the selection stay.

        Args:
            keys: Identify the rows; each once.
            **values: A list for each column. None is "not defined"; NaN and infinities are shown as words.

        Raises:
            UsageError: A column is missing, unknown or of another length.
        """
        with self._lock:
            rows = TableRows(self._rows.columns, keys, values)
            self._rows, self._version = rows, self._version + 1
            self._orders.clear()
        if self.selected and self.selected not in rows.keys:
            self.selected = ""
        self._channel.emit(TableChanged())

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is None:
            return None
        data, metadata = bundle
        with self._lock:
            rows = self._rows
        text = f"TableWidget({self.label}, {len(rows.keys)} rows)"
        return {**data, "text/plain": text, "text/html": still(rows.static_html(_STATIC_ROWS))}, metadata

    def _order(self, query: TableQuery) -> tuple[TableRows, list[int], int]:
        """Rows, their order under a query, and the version of both."""
        with self._lock:
            order = self._orders.pop(query, None)
            if order is None:
                order = self._rows.order(query)
            self._orders[query] = order
            while len(self._orders) > _ORDERS_KEPT:
                del self._orders[next(iter(self._orders))]
            return self._rows, order, self._version

    def _rows_of(self, request: RowsRequest, call: Call) -> Rows:
        rows, order, version = self._order(request.query)
        start = max(0, min(request.start, len(order)))
        wanted = order[start : start + max(0, min(request.count, MAX_ROWS_A_REPLY))]
        return Rows(
            version=version,
            total=len(order),
            unfiltered=len(rows.keys),
            start=start,
            keys=[rows.keys[index] for index in wanted],
            cells=[rows.row(index) for index in wanted],
        )

    def _place(self, request: RowPlaceRequest, call: Call) -> RowPlace:
        rows, order, _version = self._order(request.query)
        if request.key not in rows.keys:
            return RowPlace(index=None)
        wanted = rows.keys.index(request.key)
        return RowPlace(index=order.index(wanted) if wanted in order else None)
