"""What a figure leaves in a saved notebook: its words and numbers as a plain HTML table, no script."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

import numpy as np
from bokeh.model import Model
from bokeh.models import ColumnDataSource, Pane, Title

from trt_lab.views.numbers import number
from trt_lab.views.text import texts_of

MAX_ROWS = 40
MAX_BYTES = 300_000
_MAX_CELL = 200


def figure_fallback(figure: Model) -> str:
    """Text and tables of a figure, at most `MAX_BYTES` long. Everything in it is escaped."""
    parts: list[str] = []
    size = 0
    for part in _parts(figure):
        size += len(part.encode())
        if size > MAX_BYTES - 200:
            parts.append("<p>(shortened)</p>")
            break
        parts.append(part)
    return f"<div>{''.join(parts)}</div>"


def _parts(figure: Model) -> Iterator[str]:
    models = sorted(figure.references(), key=lambda model: int(model.id[1:]) if model.id[1:].isdigit() else 0)
    for model in models:
        if isinstance(model, Pane):
            for text in texts_of(model):
                yield "".join(f"<p>{escape(line[:2000])}</p>" for line in text.splitlines() if line.strip())
    for model in models:
        if isinstance(model, Title) and model.text:
            yield f"<p><i>{escape(str(model.text)[:2000])}</i></p>"
    for model in models:
        if isinstance(model, ColumnDataSource):
            yield _table(model)


def _table(source: ColumnDataSource) -> str:
    """The first rows of the columns that hold one value a row; "" if there are none."""
    columns = {str(name): column for name, column in source.data.items() if _is_flat(column)}
    length = max((len(column) for column in columns.values()), default=0)
    columns = {name: column for name, column in columns.items() if len(column) == length}
    if not length or not columns:
        return ""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    rows = "".join(
        "<tr>" + "".join(f"<td>{_cell(column[row])}</td>" for column in columns.values()) + "</tr>"
        for row in range(min(length, MAX_ROWS))
    )
    more = f"<p>and {length - MAX_ROWS:,} more rows</p>" if length > MAX_ROWS else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{more}"


def _is_flat(column: object) -> bool:
    if isinstance(column, np.ndarray):
        return column.ndim == 1
    return isinstance(column, list | tuple) and not any(isinstance(v, np.ndarray | list | dict) for v in column[:1])


def _cell(value: object) -> str:
    if isinstance(value, bool | int | float | np.number | np.bool_):
        return escape(number(value))  # pyright: ignore[reportArgumentType] - numpy's numbers pass as Python's
    text = str(value)
    return escape(text if len(text) <= _MAX_CELL else text[: _MAX_CELL - 1] + "…")
