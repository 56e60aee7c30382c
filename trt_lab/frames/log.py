"""The log of a build and its runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import pandas as pd

from trt_lab.frames.columns import make_frame
from trt_lab.types import LogLine

COLUMNS = {"line": "Int64", "time_s": "float64", "severity": "object", "source": "object", "message": "object"}
"""`time_s` is in seconds since the build began, where the backend tells."""


class Logged(Protocol):
    """What the frame needs of a record."""

    def log(self) -> Iterable[LogLine]: ...


def log_frame(record: Logged) -> pd.DataFrame:
    """One row a line, in order, numbered from 1."""
    return make_frame(
        COLUMNS,
        (
            {
                "line": number,
                "time_s": line.time_s,
                "severity": line.severity,
                "source": line.source,
                "message": line.message,
            }
            for number, line in enumerate(record.log(), 1)
        ),
    )
