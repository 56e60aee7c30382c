"""Ranges of axes."""

from __future__ import annotations

from typing import Any


def span(start: float, end: float) -> dict[str, Any]:
    """Properties of a `Range1d` that is drawn from start to end, and that the reset tool comes back to."""
    return {"start": start, "end": end, "reset_start": start, "reset_end": end}


def index_span(start: float, end: float) -> dict[str, Any]:
    """A span that cannot be left: there are no elements beyond."""
    return {**span(start, end), "bounds": tuple(sorted((start, end)))}
