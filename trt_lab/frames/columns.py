"""From rows to a frame with the declared columns and types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd


def make_frame(columns: Mapping[str, str], rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """A frame with exactly these columns, in this order, also when there are no rows.

    Args:
        columns: Name → pandas type. `Int64` and `boolean` can hold missing values, `float64` has NaN for them.
        rows: Each with all columns; None is missing.
    """
    given = list(rows)
    return pd.DataFrame(
        {name: pd.Series([row[name] for row in given], dtype=kind) for name, kind in columns.items()},
        columns=pd.Index(list(columns)),
    )
