"""Rows of a table, their order and their filter. Plain values in, plain values out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from trt_lab.errors import UsageError
from trt_lab.wire import Cell, Column, TableQuery

_SEVERITY = {"same": 0, "not_comparable": 1, "differs": 2}
_NOT_FINITE = {"Inf": math.inf, "−Inf": -math.inf, "NaN": math.nan}


def cell(value: Any) -> Cell:
    """A value as it goes over the wire; NaN and infinities, which JSON lacks, become words."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Inf" if value > 0 else "−Inf"
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return str(value)


class TableRows:
    """The content of a table; never changed once made.

    Args:
        columns: What is shown.
        keys: Identify the rows.
        values: A list for each column name, as long as `keys`.

    Raises:
        UsageError: A column is missing, unknown or of another length.
    """

    def __init__(self, columns: Sequence[Column], keys: Sequence[str], values: Mapping[str, Iterable[Any]]) -> None:
        names = [column.name for column in columns]
        if set(values) != set(names):
            wrong = sorted(set(values) ^ set(names))
            raise UsageError(f"table: columns {', '.join(wrong)} do not match; give {', '.join(names)}")
        self.columns = tuple(columns)
        self.keys = tuple(keys)
        self._values = [[cell(value) for value in values[name]] for name in names]
        for name, column in zip(names, self._values, strict=True):
            if len(column) != len(self.keys):
                raise UsageError(f"table: column {name} has {len(column)} values for {len(self.keys)} keys")

    def row(self, index: int) -> list[Cell]:
        """The cells of a row."""
        return [column[index] for column in self._values]

    def order(self, query: TableQuery) -> list[int]:
        """Indices of the rows that the filter lets through, sorted; missing values come last either way.

        Raises:
            UsageError: There is no column to sort by of that name.
        """
        indices = self._filtered(query.filter)
        if not query.sort:
            return indices[::-1] if query.descending else indices
        position = next((i for i, column in enumerate(self.columns) if column.name == query.sort), None)
        if position is None:
            raise UsageError(f"table: no column '{query.sort}'; there are {', '.join(c.name for c in self.columns)}")
        verdicts = self.columns[position].format == "verdict"
        column = self._values[position]
        present = [index for index in indices if column[index] is not None]
        missing = [index for index in indices if column[index] is None]
        present.sort(key=lambda index: _rank(column[index], verdicts), reverse=query.descending)
        return present + missing

    def _filtered(self, text: str) -> list[int]:
        words = text.lower().split()
        if not words:
            return list(range(len(self.keys)))
        texts = [
            " ".join(value for value in row if isinstance(value, str)).lower()
            for row in zip(*self._values, strict=True)
        ]
        return [index for index, searched in enumerate(texts) if all(word in searched for word in words)]

    def static_html(self, count: int) -> str:
        """The first rows as plain HTML, every text escaped."""
        head = "".join(f"<th>{escape(column.label)}</th>" for column in self.columns)
        rows = "".join(
            f"<tr>{''.join(f'<td>{escape(_plain(value))}</td>' for value in self.row(index))}</tr>"
            for index in range(min(count, len(self.keys)))
        )
        more = f"<p>and {len(self.keys) - count} more rows</p>" if len(self.keys) > count else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{more}"


def _rank(value: Cell, verdicts: bool) -> tuple[int, float, str]:
    """Sorts numbers before texts; NaN is the worst number."""
    if isinstance(value, str):
        if verdicts:
            return (0, _SEVERITY.get(value, 3), value)
        if value in _NOT_FINITE:
            number = _NOT_FINITE[value]
            return (1, 0.0, "") if math.isnan(number) else (0, number, "")
        return (2, 0.0, value.lower())
    return (0, float(value or 0), "")


def _plain(value: Cell) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.4g}"
    text = str(value)
    return text if len(text) <= 120 else f"{text[:59]}…{text[-60:]}"
